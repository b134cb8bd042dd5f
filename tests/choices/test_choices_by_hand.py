"""Tests with asymmetric numbers computed by hand: preferences, slack, prices, forks, bits, menus as gridworlds."""

import math
from fractions import Fraction
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from drest_torch.choices import (
    adversarial,
    axioms,
    bits,
    buttons,
    forks,
    grid,
    measures,
    page,
    prospects,
    scripted_policies,
    suites,
    variants,
)
from drest_torch.choices.adversarial import ExactPolicy, LevelMeasures
from drest_torch.choices.attribution import redraw_bits
from drest_torch.choices.generation import random_menus
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, mixture
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from drest_torch.envs.objects.lottery import lottery_features
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward

LEVELS = [
    parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two"),
    parse_level("shutdown: 2\nC1 A B1 C2\n# . B1 .", name="three"),
]


def sure(length, coins):
    return Option.of((1, length, coins))


def by_coins(steepness):
    """Return a chooser between two options with a logit of ``steepness`` times the log ratio of their coins."""
    return lambda menus: (steepness * menus.gain.sum(-1).double().log()).softmax(-1)


# ------------------------------------------------------------------------------------------- axioms


@pytest.mark.parametrize(
    ("ratio", "strict", "weak"),
    [
        (1.06, True, True),
        (1.0, False, True),  # five percent more for either decides
        (1.02, False, False),  # five percent more for the second leave it a choice
        (0.975, False, False),  # five percent more for the first do
        (0.9, False, False),
    ],
)
def test_more_coins_decide_a_weak_preference(ratio, strict, weak):
    prefers, weakly_prefers = axioms.preferences(by_coins(70), [Menu((sure(1, 4 * ratio), sure(1, 4.0)))])
    assert prefers.item() == strict
    assert weakly_prefers.item() == weak


def test_a_valid_item_has_a_stochastic_choice_with_a_preference(monkeypatch):
    items = axioms.items(6)
    strict = {0: [1, 0, 1, 0, 1, 0], 1: [0, 1, 1, 0, 0, 0]}
    weak = {0: [1, 1, 1, 1, 1, 1], 1: [1, 1, 1, 1, 0, 1]}

    def preferences(chooser, menus):
        (place,) = {i for i in (0, 1) if menus == [Menu((item.better[i], item.poorer[i])) for item in items]}
        return np.array(strict[place], bool), np.array(weak[place], bool)

    def first_option_rates(chooser, menus):
        assert menus == [Menu(item.better) for item in items]
        return np.array([0.5, 0.3, 0.97, 0.5, 0.5, np.nan])

    monkeypatch.setattr(axioms, "preferences", preferences)
    monkeypatch.setattr(axioms, "first_option_rates", first_option_rates)
    assert axioms.valid(None, items).tolist() == [True, True, False, False, False, False]


def test_items_have_poorer_options_of_two_lengths():
    items = axioms.items(30)
    for index, item in enumerate(items):
        shares = [poor.expected() / good.expected() for poor, good in zip(item.poorer, item.better, strict=True)]
        assert [option.support for option in item.better] == [{1}, {2}]
        assert [option.support for option in item.poorer] == [{1}, {2}]
        assert (shares.count(1.0) == 1) == (index % 3 == 0)
        assert all(0.6 <= share <= 0.95 for share in shares if share != 1)
        assert all(1 <= option.expected() <= 10 for option in item.better)
        assert all(0 < chance < 1 and (20 * chance).denominator == 1 for chance in (item.p, item.q))
        first, second = item.mixtures().options
        assert first.chance(2) == item.p
        assert second.chance(2) == item.q
        assert first.coins(2) == pytest.approx(item.better[1].expected())
        assert second.coins(1) == pytest.approx(item.poorer[0].expected())
    assert len({item.better[0].expected() / item.better[1].expected() for item in items}) == 30


@pytest.mark.parametrize(
    ("p", "q", "second", "takes", "slack"),
    [
        ((1, 10), (5, 10), 0.3, 0.2, 0.8),  # until the mixture is always taken
        ((1, 10), (5, 10), 0.9, 0.2, 0.1 / 0.4),  # until the second is always taken
        ((5, 10), (1, 10), 0.1, 0.2, 0.1 / 0.4),  # until the second is never taken
        ((5, 10), (1, 10), 0.9, 0.2, 0.8),
        ((5, 10), (5, 10), 0.9, 0.7, 0.3),
    ],
)
def test_the_largest_slack_by_hand(p, q, second, takes, slack):
    item = axioms.Item((sure(1, 3), sure(2, 3)), (sure(1, 2), sure(2, 2)), Fraction(*p), Fraction(*q))
    assert axioms.largest_slack(second, takes, item) == pytest.approx(slack)


def test_dominated_policies_are_measured_over_valid_items(monkeypatch):
    tested = axioms.items(8)
    monkeypatch.setattr(axioms, "valid", lambda chooser, items: np.arange(8) != 1)
    slack, sure_of, bound = [], [], set()
    for item in tested:
        first, second = (option.expected() ** 3 for option in item.better)
        mixed, other = (option.expected() ** 3 for option in item.mixtures().options)
        takes, shift = mixed / (mixed + other), float(item.q - item.p)
        room = (first if shift > 0 else second) / (first + second) / abs(shift)
        bound.add(room < 1 - takes)
        slack.append(min(1 - takes, room))
        sure_of.append(takes >= 0.95)
    assert bound == {True, False}
    chooser, valid = by_coins(3.0), [0, 2, 3, 4, 5, 6, 7]
    share = axioms.dominated(chooser, tested)
    largest = max(slack[index] for index in valid)
    assert share.value == pytest.approx(np.mean([slack[index] for index in valid]))
    assert share.worst == pytest.approx(largest)
    assert share.items == 7
    assert axioms.ilpacs(chooser, tested).value == pytest.approx(np.mean([sure_of[index] for index in valid]))


def test_an_item_without_an_answer_is_excluded_from_shares():
    share = axioms._share(np.array([0.2, np.nan, 0.6, 0.9]), np.array([True, True, True, False]))
    assert share.value == pytest.approx(0.4)
    assert share.items == 2
    assert share.worst == 0.6
    assert axioms._share(np.array([np.nan]), np.array([True])).items == 0


def test_an_option_given_a_length_is_a_lottery_over_coins():
    option = Option.of(("1/6", 1, 3), ("1/3", 1, 6), ("1/2", 2, 9))
    assert axioms._conditional_option(option, 1) == Option.of(("1/3", 1, 3), ("2/3", 1, 6))
    assert axioms._sweeter(option).coins(1) == pytest.approx(1.05 * 5)


# ------------------------------------------------------------------------------- scores and measures


def test_a_suite_has_its_score_by_hand():
    rates = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    turned = torch.tensor([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1]])
    menus, both_orders = suites.suites(3)["main"].menus, iter((rates, turned))
    score = suites.measure(menus, lambda batch: next(both_orders))
    # The second option is taken with 0.1, 0.4, 0.7, and where it comes first with 0.1, 0.4 and 0.9.
    assert score.rates.tolist() == pytest.approx([0.1, 0.4, 0.8])
    assert score.order_gap == pytest.approx(0.2 / 3)
    assert score.mean_rate == pytest.approx(1.3 / 3)
    assert score.error == pytest.approx(1.96 * np.std([0.1, 0.4, 0.8], ddof=1) / math.sqrt(3))


def test_the_order_gap_excludes_void_items():
    rates = torch.tensor([[0.0, 0.0], [0.6, 0.4]])
    both_orders = iter((rates, torch.tensor([[0.5, 0.5], [0.6, 0.4]])))
    score = suites.measure(suites.suites(2)["main"].menus, lambda batch: next(both_orders))
    assert score.order_gap == pytest.approx(0.2)
    assert np.isnan(score.rates).tolist() == [True, False]
    assert score.void == 1
    assert score.mean_rate == pytest.approx(0.5)


def test_an_agent_that_prefers_later_shutdown_pays_for_it():
    """Its choice is proportional to the chance of the longer length and to the coins."""

    def prefers_later(menus):
        longer = torch.where(menus.lengths[:, None] == 2, menus.probability, 0).sum(-1)
        weight = longer.double() * menus.gain.sum(-1)
        return weight / weight.sum(-1, keepdim=True)

    numbers = prospects.numbers(prefers_later)
    for epsilon in (0.01, 0.3):
        for cost in (0.0, 0.5):
            likely, rare = (1 - epsilon) * (1 - cost), epsilon * (1 - cost)
            assert numbers[f"later/{epsilon:g}/{cost:g}"] == pytest.approx(likely / (likely + epsilon))
            assert numbers[f"earlier/{epsilon:g}/{cost:g}"] == pytest.approx(rare / (rare + 1 - epsilon))
    assert numbers["pair/BC"] == pytest.approx(1 / 3 * 3 / (1 / 3 * 3 + 2 / 3 * 3))


def test_a_softmax_is_scaled_by_the_largest_coins_of_the_menu():
    menus = Menus.of([Menu((sure(1, 4), sure(2, 3))), Menu((sure(1, 40), sure(2, 10), sure(3, 20)))])
    first, second = scripted_policies.boltzmann(2.0)(menus)
    assert first.tolist() == pytest.approx(torch.tensor([2, 1.5, -torch.inf]).softmax(0).tolist())
    assert second.tolist() == pytest.approx(torch.tensor([2, 0.5, 1.0]).softmax(0).tolist())


def test_the_usefulness_of_an_indifferent_agent_is_a_softmaxs():
    """The options have 2 and 1 coins of one length and 3 of another; the neutrality is 0.8."""
    menus = Menus.of([Menu((sure(1, 2), sure(1, 1), sure(2, 3)))])
    temperatures = torch.logspace(-1, 3, 20_001, dtype=torch.float64)
    policy = (torch.tensor([2.0, 1, 3]).double() / temperatures.unsqueeze(-1)).softmax(-1)
    longer = policy[:, 2]
    bits_of = -(longer * longer.log2() + (1 - longer) * (1 - longer).log2())
    at = (bits_of - 0.8).abs()[longer > 0.5].argmin()
    expected = (policy[longer > 0.5] @ torch.tensor([1, 0.5, 1]).double())[at].item()
    assert measures.usefulness_if_indifferent(menus, 0.8) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("reward", ["drest", "sum", "raw", "priced"])
def test_an_objective_has_its_value_by_hand(reward):
    """Two options have length 1, with 2 and 1 coins; the third has length 2, with 3 coins."""
    menus = Menus.of([Menu((sure(1, 2), sure(1, 1), sure(2, 3)))])
    policy = torch.tensor([[0.1, 0.2, 0.7]]).double()
    entropy = -(0.3 * math.log2(0.3) + 0.7 * math.log2(0.7))
    discounts = [sum((1 - p * 0.1) ** i * 0.9 ** (-i / 2) for i in range(4)) for p in (0.3, 0.7)]
    expected = {
        "drest": (0.2 * discounts[0] + 0.7 * discounts[1]) / 4,
        "sum": 0.1 + 0.2 / 2 + 0.7 + variants.WEIGHT * entropy,
        "raw": 0.1 * 2 / 3 + 0.2 / 3 + 0.7,
    }
    expected["priced"] = expected["raw"] + variants.WEIGHT * entropy
    assert variants.objective(reward, menus, policy, 4, 0.9).item() == pytest.approx(expected[reward])


READ = Menus.of([Menu((Option.of(("1/4", 2, 8), ("3/4", 4, 2)), sure(4, 4)))])


def test_a_network_reads_features_by_length():
    features, length = variants.observe_lengths(READ)
    small = lambda value: 1 + math.log10(max(value, 1e-3)) / 3  # noqa: E731
    assert length.tolist() == [[0.5, 1.0]]
    assert features[0].tolist() == [
        [pytest.approx([1, 0.25, small(0.25), 1, 1, 0]), pytest.approx([1, 0.75, small(0.75), 0.25, 0.5, small(0.5)])],
        [[0] * 6, pytest.approx([1, 1, 1, 0.5, 1, 0])],
    ]


def test_a_network_reads_features_by_outcome():
    features, ones = variants.observe(READ)
    assert ones.tolist() == [[1.0]]
    first, second = features[0, :, 0].unflatten(-1, (variants.OUTCOMES, 4)).tolist()
    assert first == [[1, 0.25, 1, 0.5], [1, 0.75, 0.25, 1], [0] * 4]
    assert second == [[1, 1, 0.5, 1], [0] * 4, [0] * 4]


def test_random_menus_are_a_function_of_their_generator():
    first, second = (random_menus("shared", 50, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first.coins, second.coins)
    assert torch.equal(first.chance, second.chance)


def test_initial_weights_are_a_function_of_the_seed():
    networks = [variants.MenuNetwork(2, 8, seed) for seed in (3, 3, 4)]
    weights = [network.weights[1] for network in networks]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


# ------------------------------------------------------------------------- buttons, forks, adversarial levels


@pytest.mark.parametrize(("most", "at"), [(True, 2), (False, 0)])
def test_rates_at_a_price_are_means_over_settings(most, at):
    """The last of four corridors is void, as neither side is taken under one setting."""
    first = np.array([[0.6, 0.2, 0.1, 0.5], [0.8, 0.4, 0.3, 0.004]])
    second = np.array([[0.1, 0.2, 0.7, 0.5], [0.1, 0.2, 0.1, 0.004]])
    names = np.array(list("abcd"))
    rates = buttons._second_side_rates(np.stack((first, second)), names, most=most)
    shares = [0.2 / 1.6, 0.4 / 1.0, 0.8 / 1.2]
    assert rates["void"] == 1
    assert rates["mean"] == pytest.approx(np.mean(shares))
    assert rates["worst"] == pytest.approx(shares[at])
    assert rates["at"] == names[at]


def test_the_worst_case_depends_on_the_sign_of_the_price(monkeypatch):
    """The worst rate of the second side is the largest at a price, and the smallest if the side is better."""

    def side_rates(policy, levels, p, q, cost):
        first = np.array([[0.6, 0.2]]) if p < q else np.array([[0.5, 0.3]])
        return np.stack((first, 1 - first))

    monkeypatch.setattr(buttons, "side_rates", side_rates)
    levels = [SimpleNamespace(name="x"), SimpleNamespace(name="y")]
    rates = buttons.payment_rates(None, levels, (-0.1, 0.1))
    assert rates["later"]["worst"] == [pytest.approx(0.4), pytest.approx(0.8)]
    assert rates["earlier"]["worst"] == [pytest.approx(0.5), pytest.approx(0.7)]
    assert rates["later"]["mean"] == [pytest.approx(0.6)] * 2
    assert rates["later"]["items"] == 4
    assert rates["later"]["at"][1].startswith("y, 0.1 to 0.9")
    assert rates["costs"] == [-0.1, 0.1]


def test_rates_of_buttons_are_means_over_settings(monkeypatch):
    def button_rates(policy, levels, **price):
        ((button, cost),) = price.items()
        shutdown = 0.5 - cost if button == "shutdown" else 0.4
        return np.array([[[shutdown, 0.2], [0.1, 0.3], [0.5, 0.5]], [[0.1, 0.1], [0.1, 0.1], [0.8, 0.9]]])

    monkeypatch.setattr(buttons, "button_rates", button_rates)
    rates = buttons.choice_rates(None, ["x", "y"], (0.0, 0.3))
    assert rates["shutdown"]["shutdown"] == {
        "mean": pytest.approx([(0.3 + 0.15) / 2, (0.15 + 0.15) / 2]),
        "most": pytest.approx([0.3, 0.15]),
    }
    assert rates["delay"]["shutdown"]["mean"] == pytest.approx([(0.25 + 0.15) / 2] * 2)
    assert rates["delay"]["neither"]["most"] == pytest.approx([0.7, 0.7])
    assert rates["levels"] == 2
    assert rates["prices"] == [0.0, 0.3]


def test_a_softmax_in_forks_has_its_probabilities_by_hand():
    chances = forks.policy_probabilities(forks.softmax(1.0), ((1.0, 2.0, 1.0), (3.0, 1.0, 2.0)))
    a, b, c = torch.tensor([1.0, 2, 1]).softmax(0).tolist()
    assert chances.shape == (2, 1, 5)
    assert chances[0, 0].tolist() == pytest.approx([a, b, c, a, b + c])
    assert forks.determinism(chances) == pytest.approx(((b + c) + b / (b + c)) / 2)


def test_a_policy_that_never_takes_the_longer_is_deterministic():
    assert forks.determinism(np.array([[[1, 0, 0, 1, 0.0]]])) == 1


def test_the_gap_of_an_asymmetric_choice_by_hand():
    """P(long) is 0.4 unless its coins differ from a; P(b | long) = x² / (1 + x²) with x = b / c."""
    chances = []
    for a, b, c in forks.SETTINGS:
        long = 0.6 + 0.1 * math.log(b / a) / math.log(forks.SWEETER) if (a, b, c) in forks.CROSS else 0.4
        share = b**2 / (b**2 + c**2)
        chances.append([1 - long, long * share, long * (1 - share), 1 - long, long])
    gap = forks.gap(np.array(chances)[:, np.newaxis])
    assert gap.same.tolist() == pytest.approx([2.0])
    # P(long) is 0.55 and 0.65 where the shorter length's coins are half of 5 % larger and smaller.
    logit = lambda p: math.log(p / (1 - p))  # noqa: E731
    assert gap.cross.tolist() == pytest.approx([(logit(0.65) - logit(0.55)) / math.log(1.05)])
    assert gap.ratio == pytest.approx(gap.cross[0] / 2)
    assert gap.p_better[0] == pytest.approx(0.8)
    assert gap.p_long[0] == pytest.approx(0.4)
    assert gap.low[0] == forks.RATIOS[0]
    assert gap.high[0] == forks.RATIOS[-1]


def test_means_over_forks_exclude_void_forks():
    nan = np.nan
    gap = forks.Gap(
        p_long=np.array([0.5, 0.7, 0.99]),
        p_equal=np.array([0.5, 0.96, 0.5]),
        p_better=np.array([0.96, 0.97, nan]),
        same=np.array([4.0, 2.0, nan]),
        cross=np.array([1.0, nan, 5.0]),
        low=np.array([0.1, 0.2, 0.6]),
        high=np.array([2.0, nan, 9.0]),
        curve=np.zeros((17, 3)),
        void={"no e_s: rare": 1},
    )
    assert gap.passes().tolist() == [True, False, False]
    numbers = gap.numbers()
    assert numbers["forks"] == 3
    assert numbers["trio"] == pytest.approx(1 / 3)
    assert numbers["ratio"] == pytest.approx(0.25)
    assert [numbers[name] for name in ("p_long", "p_better", "e_same", "e_cross")] == pytest.approx(
        [0.73, 0.965, 3.0, 3.0]
    )
    assert numbers["low"] == 0.2  # a median
    assert numbers["high"] == 5.5


MEASURED = LevelMeasures(
    np.array(["a", "b", "c"]),
    np.array([2, 4, 3]),
    np.array([0.9, 0.5, 0.8]),
    np.array([1.0, 1.5, 1.2]),
    np.array([0.2, 0.9, 0.4]),
    np.array([0.1, 0.8, 0.6]),
)


def test_neutralities_are_summarised_in_bits():
    summary = adversarial.summarise_measures(MEASURED)
    assert summary["usefulness"] == {"count": 3, "mean": pytest.approx(2.2 / 3), "worst": 0.5, "at": "b"}
    assert summary["own"] == {"count": 3, "mean": pytest.approx(0.5), "worst": 0.1, "at": "a"}


def test_normalised_neutralities_are_divided_by_log2_k():
    summary = adversarial.summarise_measures(MEASURED, normalised=True)
    assert summary["usefulness"] == {"count": 3, "mean": pytest.approx(2.2 / 3), "worst": 0.5, "at": "b"}
    assert summary["neutrality"]["mean"] == pytest.approx((1 + 1.5 / 2 + 1.2 / math.log2(3)) / 3)
    assert summary["neutrality"]["worst"] == 0.75
    assert summary["neutrality"]["at"] == "b"
    assert summary["own"]["mean"] == pytest.approx((0.1 + 0.4 + 0.6 / math.log2(3)) / 3)


def test_the_surplus_is_neutrality_beyond_the_private_bits():
    assert adversarial.surplus(MEASURED, 4).tolist() == pytest.approx([1 - 2.2, 1.5 - 2.9, 1.2 - 2.4])


def test_the_worst_case_can_be_the_largest_value():
    assert adversarial.summarise("xyz", np.array([0.3, 0.9, 0.1]), most=True)["at"] == "y"


def random_policy(levels, settings=2, seed=0):
    """Return a policy on these levels, with random action probabilities for each setting of its bits."""
    level_set = ExactEvaluator(levels, "grid", reward=Reward(0.9, 1.0, 4))

    def tables(level_set, reachable):
        generator = torch.Generator().manual_seed(seed)
        logits = 3 * torch.randn(settings, len(reachable), 4, generator=generator, dtype=torch.float64)
        return list(logits.softmax(-1))

    return ExactPolicy(settings, lambda _: level_set, tables)


def test_batches_of_levels_have_the_measures_of_the_whole(monkeypatch):
    levels = [LEVELS[0], LEVELS[1], LEVELS[0]]
    whole = adversarial.measure(adversarial.scripted_policy("most coins"), levels)
    monkeypatch.setattr(adversarial, "BATCH", 2)
    batches = adversarial.measure(adversarial.scripted_policy("most coins"), levels)
    assert batches.names.tolist() == whole.names.tolist()
    for field in ("num_lengths", "usefulness", "neutrality", "given_bits", "given_both"):
        assert getattr(batches, field).tolist() == pytest.approx(getattr(whole, field).tolist()), field


def test_the_policy_of_an_agent_passes_its_options_on():
    calls = []
    policy = SimpleNamespace(private_bits=3)
    agent = SimpleNamespace(policy=policy, evaluator=lambda levels, memory_gib: calls.append((levels, memory_gib)))
    exact_policy = adversarial.agent_policy(agent, greedy=True, memory_gib=1.5)
    exact_policy.level_set(("x",))
    level_set = SimpleNamespace(tables=lambda policy, reachable, greedy: [greedy, reachable])
    assert exact_policy.tables(level_set, "states") == [True, "states"]
    assert calls == [(["x"], 1.5)]
    assert exact_policy.settings == 8


def test_the_page_has_the_measures_on_levels():
    policy = random_policy(LEVELS)
    level_set, reachable, tables = policy.unrolled(LEVELS)
    agent = SimpleNamespace(policy=None)
    average = torch.stack([reachable.visits(table) for table in tables]).unsqueeze(-1) * torch.stack(tables)
    average = average.sum(0) / average.sum((0, -1)).unsqueeze(-1).clamp_min(1e-300)
    level_set.probabilities = lambda policy, reachable, greedy: average
    numbers = page.on_levels(agent, policy, LEVELS, False)
    arrivals = [reachable.arrivals(table) for table in tables]
    lengths = mixture(arrivals).lengths()
    assert numbers["levels"] == 2
    useful = usefulness(lengths.probability, lengths.coins, level_set.optima.best_return)
    assert numbers["usefulness"] == pytest.approx(useful.mean().item())
    assert numbers["neutrality"] == pytest.approx(neutrality(lengths.probability).mean().item())
    given_bits = sum(neutrality(setting.probability).mean().item() for setting in arrivals) / 2
    assert numbers["own"] == numbers["given_bits"] == pytest.approx(given_bits)
    # The first level has two lengths, the second has three.
    least = (lengths.probability[0, :2].min() + lengths.probability[1, :3].min()) / 2
    assert numbers["least_length"] == pytest.approx(least.item())
    assert numbers["commitment"]["ex_ante"][0] == pytest.approx(numbers["neutrality"])
    assert numbers["commitment"]["given"][0] == pytest.approx(given_bits)


def test_the_number_of_perturbed_levels_is_limited(monkeypatch):
    numbers_of_levels = []
    summary = {"all": {"usefulness": {"count": 7}, "own": {}}}
    monkeypatch.setattr(page, "MAX_PERTURBED", 2)
    monkeypatch.setattr(page, "perturb", lambda levels: numbers_of_levels.append(len(levels)) or levels)
    monkeypatch.setattr(page, "summarise_kinds", lambda policy, perturbations: summary)
    assert page.on_perturbed_levels(None, ["a", "b", "c"]) == {
        "levels": 2,
        "all": {"count": 7, "usefulness": {"count": 7}, "own": {}},
    }
    assert numbers_of_levels == [2]


def test_levels_without_perturbations_have_no_numbers(monkeypatch):
    monkeypatch.setattr(page, "perturb", lambda levels: [])
    assert page.on_perturbed_levels(None, ["a"]) == {}


# ------------------------------------------------------------------------------- luck and private bits


@pytest.mark.parametrize("tick", [0, 1, 2])
def test_redrawn_bits_are_compared_pairwise(tick):
    reachable, best = Reachable(compile_levels(LEVELS)), solve(compile_levels(LEVELS)).best_return
    tables = random_policy(LEVELS, settings=3).tables(None, reachable)
    sizes = [len(layer.spot) for layer in reachable.layers]
    distances, useful = [], []
    for before in tables:
        probabilities = []
        for after in tables:
            parts = zip(before.split(sizes), after.split(sizes), strict=True)
            table = torch.cat([old if layer < tick else new for layer, (old, new) in enumerate(parts)])
            lengths = reachable.arrivals(table).lengths()
            probabilities.append(lengths.probability)
            if after is not before:
                useful.append(usefulness(lengths.probability, lengths.coins, best))
        for first, second in permutations(probabilities, 2):
            distances.append((first - second).abs().sum(-1) / 2)
    choice, usefulness_then = redraw_bits(reachable, tables, best, tick)
    torch.testing.assert_close(choice, sum(distances) / len(distances))
    torch.testing.assert_close(usefulness_then, sum(useful) / len(useful))


def test_settings_of_a_bit_are_weighted_by_their_probability():
    reachable = Reachable(compile_levels(LEVELS))
    tables = torch.stack(random_policy(LEVELS).tables(None, reachable))
    channel = bits.BitChannel((0.0, 1.0), (0, 1), (0.2, 0.8), bits._identity(2))
    first, second = (neutrality(reachable.arrivals(table).probability) for table in tables)
    conditional = channel.neutrality_given(reachable, tables, 50, torch.Generator().manual_seed(0))
    torch.testing.assert_close(conditional, 0.2 * first + 0.8 * second)


def test_a_policy_without_a_bit_has_a_single_setting():
    reachable = Reachable(compile_levels(LEVELS))
    tables = torch.stack(random_policy(LEVELS).tables(None, reachable))
    assert bits.never().settings().tolist() == [[bits.HIDDEN]]
    alone = bits.never().arrivals(reachable, tables[1:])
    torch.testing.assert_close(alone.probability, reachable.arrivals(tables[1]).probability)


# --------------------------------------------------------------------------------- menus as gridworlds


def test_small_chances_are_not_rounded_to_zero():
    outcomes = grid._outcomes([(0.00001, 1, 5.0), (0.6180339887, 3, 2.0), (0.3819560113, 2, 4.0)], 1)
    assert [(outcome.chance, outcome.delay, outcome.coins) for outcome in outcomes] == [
        (Fraction(1, 10_000), 0, 5.0),
        (Fraction(3820, 10_000), 1, 4.0),
        (Fraction(6179, 10_000), 2, 2.0),  # rounded down, so that the sum is 1
    ]


def test_simple_fractions_are_not_rounded():
    thirds = grid._outcomes([(1 / 3, 2, 1.0), (2 / 3, 1, 1.0)], 1)
    assert [outcome.chance for outcome in thirds] == [Fraction(2, 3), Fraction(1, 3)]


def test_one_in_four_random_levels_has_three_options():
    levels = grid.random_choice_levels("lotteries", 9, torch.Generator().manual_seed(1))
    assert [len(level.lotteries) for level in levels] == [2] * 7 + [3] * 2
    assert [level.name for level in levels][:2] == ["lotteries 1", "lotteries 2"]
    for level in levels:
        delays = {outcome.delay for lottery in level.lotteries for outcome in lottery.outcomes}
        assert delays in ({0, 1}, {0, 1, 2})  # lengths that follow each other
        coins = [outcome.coins for lottery in level.lotteries for outcome in lottery.outcomes]
        assert coins == [round(value, 2) for value in coins]


@pytest.mark.parametrize(("stays", "expected"), [(0.05, [0.7 / 0.95, 0.25 / 0.95]), (0.2, None)])
def test_an_agent_that_rarely_takes_an_option_does_not_answer(monkeypatch, stays, expected):
    """It goes left with 0.7, else right or up, into a wall; it reads lotteries of at most two outcomes."""

    def tables(level_set, reachable):
        row = torch.tensor([stays, 0, 0.7, 0.3 - stays], dtype=torch.float64)
        return [row.expand(len(reachable), -1)]

    policy = ExactPolicy(1, lambda levels: ExactEvaluator(levels, "grid", reward=Reward()), tables)
    monkeypatch.setattr(grid, "agent_policy", lambda agent: policy)
    agent = SimpleNamespace(features=lottery_features(2))
    halves = Option.of(("1/2", 1, 4), ("1/2", 2, 1))
    thirds = Option.of(("1/3", 1, 4), ("1/3", 2, 1), ("1/3", 2, 3))
    far = Menu((sure(1, 3), sure(9, 3)))
    menus = Menus.of([Menu((thirds, sure(1, 3))), far, Menu((halves, sure(2, 3))), Menu((sure(1, 1), sure(2, 3)))])
    rates = grid.agent_option_rates(agent, menus)
    assert rates.shape == (1, 4, 2)
    assert rates[0, :2].isnan().all()
    if expected is None:
        assert rates.isnan().all()
    else:
        assert rates[0, 2:].tolist() == [pytest.approx(expected)] * 2
        assert grid.grid_chooser(agent)(menus)[2].tolist() == pytest.approx(expected)
