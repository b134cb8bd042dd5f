"""Lopsided numbers in closed form: preferences and slack, prices of buttons, forks, bits, menus as gridworlds."""

import math
from fractions import Fraction
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
    """A chooser between two: the logit of the first is the logarithm of its coins over the second's, so many times."""
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
def test_a_weak_preference_is_one_that_more_coins_for_either_decide(ratio, strict, weak):
    found = axioms.preferences(by_coins(70), [Menu((sure(1, 4 * ratio), sure(1, 4.0)))])
    assert [each.item() for each in found] == [strict, weak]


def test_an_item_is_valid_if_it_is_free_and_one_of_its_preferences_is_strict(monkeypatch):
    item = axioms.items(6)
    strict = {0: [1, 0, 1, 0, 1, 0], 1: [0, 1, 1, 0, 0, 0]}
    weak = {0: [1, 1, 1, 1, 1, 1], 1: [1, 1, 1, 1, 0, 1]}

    def preferences(chooser, menus):
        (which,) = {i for i in (0, 1) if menus == [Menu((each.better[i], each.poorer[i])) for each in item]}
        return np.array(strict[which], bool), np.array(weak[which], bool)

    def first_option_rates(chooser, menus):
        assert menus == [Menu(each.better) for each in item]
        return np.array([0.5, 0.3, 0.97, 0.5, 0.5, np.nan])

    monkeypatch.setattr(axioms, "preferences", preferences)
    monkeypatch.setattr(axioms, "first_option_rates", first_option_rates)
    assert axioms.valid(None, item).tolist() == [True, True, False, False, False, False]


def test_items_are_two_lengths_and_poorer_ones():
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
        assert (first.chance(2), second.chance(2)) == (item.p, item.q)
        assert first.coins(2) == pytest.approx(item.better[1].expected())
        assert second.coins(1) == pytest.approx(item.poorer[0].expected())
    assert len({item.better[0].expected() / item.better[1].expected() for item in items}) == 30


@pytest.mark.parametrize(
    ("p", "q", "second", "takes", "slack"),
    [
        ((1, 10), (5, 10), 0.3, 0.2, 0.8),  # what it does not take yet
        ((1, 10), (5, 10), 0.9, 0.2, 0.1 / 0.4),  # until the second is taken for sure
        ((5, 10), (1, 10), 0.1, 0.2, 0.1 / 0.4),  # or never
        ((5, 10), (1, 10), 0.9, 0.2, 0.8),
        ((5, 10), (5, 10), 0.9, 0.7, 0.3),
    ],
)
def test_the_largest_slack_by_hand(p, q, second, takes, slack):
    item = axioms.Item((sure(1, 3), sure(2, 3)), (sure(1, 2), sure(2, 2)), Fraction(*p), Fraction(*q))
    assert axioms.largest_slack(second, takes, item) == pytest.approx(slack)


def test_dominated_policies_are_measured_over_valid_items(monkeypatch):
    tested = axioms.items(8)
    monkeypatch.setattr(axioms, "valid", lambda chooser, several: np.arange(8) != 1)
    slack, sure_of, bound = [], [], set()
    for item in tested:
        (one, two), (mixed, other) = (
            [option.expected() ** 3 for option in options] for options in (item.better, item.mixtures().options)
        )
        takes, moved = mixed / (mixed + other), float(item.q - item.p)
        room = (one if moved > 0 else two) / (one + two) / abs(moved)
        bound.add(room < 1 - takes)
        slack.append(min(1 - takes, room))
        sure_of.append(takes >= 0.95)
    assert bound == {True, False}
    chooser, kept = by_coins(3.0), [0, 2, 3, 4, 5, 6, 7]
    found = axioms.dominated(chooser, tested)
    largest = max(slack[index] for index in kept)
    assert (found.value, found.worst, found.items) == pytest.approx((np.mean([slack[i] for i in kept]), largest, 7))
    assert axioms.ilpacs(chooser, tested).value == pytest.approx(np.mean([sure_of[index] for index in kept]))


def test_an_item_without_an_answer_is_in_no_share():
    found = axioms._share(np.array([0.2, np.nan, 0.6, 0.9]), np.array([True, True, True, False]))
    assert (found.value, found.items, found.worst) == (pytest.approx(0.4), 2, 0.6)
    assert axioms._share(np.array([np.nan]), np.array([True])).items == 0


def test_what_is_offered_given_a_length_is_a_lottery_of_its_own():
    option = Option.of(("1/6", 1, 3), ("1/3", 1, 6), ("1/2", 2, 9))
    assert axioms._given(option, 1) == Option.of(("1/3", 1, 3), ("2/3", 1, 6))
    assert axioms._sweeter(option).coins(1) == pytest.approx(1.05 * 5)


# ------------------------------------------------------------------------------- scores and measures


def test_the_error_and_the_gap_between_orders():
    rates = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    turned = torch.tensor([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1]])
    menus, given = suites.suites(3)["main"].menus, iter((rates, turned))
    score = suites.measure(menus, lambda batch: next(given))
    # The second option is taken with 0.1, 0.4, 0.7, and where it comes first with 0.1, 0.4 and 0.9.
    assert score.rates.tolist() == pytest.approx([0.1, 0.4, 0.8])
    assert score.order_gap == pytest.approx(0.2 / 3)
    assert score.taken == pytest.approx(1.3 / 3)
    assert score.error == pytest.approx(1.96 * np.std([0.1, 0.4, 0.8], ddof=1) / math.sqrt(3))


def test_items_without_an_answer_leave_the_gap_of_the_others():
    rates = torch.tensor([[0.0, 0.0], [0.6, 0.4]])
    given = iter((rates, torch.tensor([[0.5, 0.5], [0.6, 0.4]])))
    score = suites.measure(suites.suites(2)["main"].menus, lambda batch: next(given))
    assert score.order_gap == pytest.approx(0.2)
    assert np.isnan(score.rates).tolist() == [True, False]
    assert (score.void, score.taken) == (1, pytest.approx(0.5))


def test_a_later_shutdown_is_paid_for_by_who_likes_the_longer_length():
    """The choice is in proportion to the chance of the longer length, and to the coins."""

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


def test_a_softmax_that_is_as_neutral_has_its_usefulness():
    """Between 2 and 1 of one length and 3 of another, at a temperature at which the neutrality is 0.8."""
    menus = Menus.of([Menu((sure(1, 2), sure(1, 1), sure(2, 3)))])
    temperatures = torch.logspace(-1, 3, 20_001, dtype=torch.float64)
    policy = (torch.tensor([2.0, 1, 3]).double() / temperatures.unsqueeze(-1)).softmax(-1)
    longer = policy[:, 2]
    bits_of = -(longer * longer.log2() + (1 - longer) * (1 - longer).log2())
    at = (bits_of - 0.8).abs()[longer > 0.5].argmin()
    expected = (policy[longer > 0.5] @ torch.tensor([1, 0.5, 1]).double())[at].item()
    assert measures.usefulness_if_indifferent(menus, 0.8) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("reward", ["drest", "sum", "raw", "priced"])
def test_what_an_arm_is_trained_for(reward):
    """Two options of length 1, of 2 and 1 coins, and one of length 2 with 3."""
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


def test_what_a_network_reads_of_menus():
    menus = Menus.of([Menu((Option.of(("1/4", 2, 8), ("3/4", 4, 2)), sure(4, 4)))])
    features, length = variants.observe_lengths(menus)
    small = lambda value: 1 + math.log10(max(value, 1e-3)) / 3  # noqa: E731
    assert length.tolist() == [[0.5, 1.0]]
    assert features[0].tolist() == [
        [pytest.approx([1, 0.25, small(0.25), 1, 1, 0]), pytest.approx([1, 0.75, small(0.75), 0.25, 0.5, small(0.5)])],
        [[0] * 6, pytest.approx([1, 1, 1, 0.5, 1, 0])],
    ]
    features, ones = variants.observe(menus)
    assert ones.tolist() == [[1.0]]
    first, second = features[0, :, 0].unflatten(-1, (variants.OUTCOMES, 4)).tolist()
    assert first == [[1, 0.25, 1, 0.5], [1, 0.75, 0.25, 1], [0] * 4]
    assert second == [[1, 1, 0.5, 1], [0] * 4, [0] * 4]


def test_random_menus_follow_from_their_generator():
    made = [random_menus("shared", 50, torch.Generator().manual_seed(4)) for _ in range(2)]
    assert torch.equal(made[0].coins, made[1].coins)
    assert torch.equal(made[0].chance, made[1].chance)
    networks = [variants.MenuNetwork(2, 8, seed) for seed in (3, 3, 4)]
    weights = [network.weights[1] for network in networks]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


# ------------------------------------------------------------------------- buttons, forks, adversarial levels


@pytest.mark.parametrize(("most", "at"), [(True, 2), (False, 0)])
def test_rates_at_a_price_are_of_both_sides_and_of_both_settings(most, at):
    """Of four corridors the last is void: under one setting neither side is taken."""
    first = np.array([[0.6, 0.2, 0.1, 0.5], [0.8, 0.4, 0.3, 0.004]])
    second = np.array([[0.1, 0.2, 0.7, 0.5], [0.1, 0.2, 0.1, 0.004]])
    names = np.array(list("abcd"))
    found = buttons._rates(np.stack((first, second)), names, most=most)
    shares = [0.2 / 1.6, 0.4 / 1.0, 0.8 / 1.2]
    assert found["void"] == 1
    assert found["mean"] == pytest.approx(np.mean(shares))
    assert (found["worst"], found["at"]) == (pytest.approx(shares[at]), names[at])


def test_the_worst_is_the_most_where_a_side_has_a_price_and_the_least_where_it_is_better(monkeypatch):
    def taken(asked, levels, p, q, cost):
        first = np.array([[0.6, 0.2]]) if p < q else np.array([[0.5, 0.3]])
        return np.stack((first, 1 - first))

    monkeypatch.setattr(buttons, "side_rates", taken)
    levels = [SimpleNamespace(name="x"), SimpleNamespace(name="y")]
    found = buttons.payment_rates(None, levels, (-0.1, 0.1))
    assert found["later"]["worst"] == [pytest.approx(0.4), pytest.approx(0.8)]
    assert found["earlier"]["worst"] == [pytest.approx(0.5), pytest.approx(0.7)]
    assert found["later"]["mean"] == [pytest.approx(0.6)] * 2
    assert found["later"]["items"] == 4
    assert found["later"]["at"][1].startswith("y, 0.1 to 0.9")
    assert found["costs"] == [-0.1, 0.1]


def test_which_button_is_taken_is_a_mean_over_settings_and_levels(monkeypatch):
    def rate(asked, levels, **price):
        ((button, cost),) = price.items()
        shutdown = 0.5 - cost if button == "shutdown" else 0.4
        return np.array([[[shutdown, 0.2], [0.1, 0.3], [0.5, 0.5]], [[0.1, 0.1], [0.1, 0.1], [0.8, 0.9]]])

    monkeypatch.setattr(buttons, "button_rates", rate)
    found = buttons.choice_rates(None, ["x", "y"], (0.0, 0.3))
    assert found["shutdown"]["shutdown"] == {
        "mean": pytest.approx([(0.3 + 0.15) / 2, (0.15 + 0.15) / 2]),
        "most": pytest.approx([0.3, 0.15]),
    }
    assert found["delay"]["shutdown"]["mean"] == pytest.approx([(0.25 + 0.15) / 2] * 2)
    assert found["delay"]["neither"]["most"] == pytest.approx([0.7, 0.7])
    assert (found["levels"], found["prices"]) == (2, [0.0, 0.3])


def test_probabilities_of_options_of_an_archetype_and_its_determinism():
    chances = forks.policy_probabilities(forks.softmax(1.0), ((1.0, 2.0, 1.0), (3.0, 1.0, 2.0)))
    a, b, c = torch.tensor([1.0, 2, 1]).softmax(0).tolist()
    assert chances.shape == (2, 1, 5)
    assert chances[0, 0].tolist() == pytest.approx([a, b, c, a, b + c])
    assert forks.determinism(chances) == pytest.approx(((b + c) + b / (b + c)) / 2)
    never = np.array([[[1, 0, 0, 1, 0.0]]])  # where the longer length is never taken there are no coins to choose
    assert forks.determinism(never) == 1


def test_the_gap_of_a_lopsided_choice():
    """P(long) is 0.4 unless its coins differ from a; b is taken by the share x² / (1 + x²) of it, x = b / c."""
    chances = []
    for a, b, c in forks.SETTINGS:
        long = 0.6 + 0.1 * math.log(b / a) / math.log(forks.SWEETER) if (a, b, c) in forks.CROSS else 0.4
        share = b**2 / (b**2 + c**2)
        chances.append([1 - long, long * share, long * (1 - share), 1 - long, long])
    found = forks.gap(np.array(chances)[:, np.newaxis])
    assert found.same.tolist() == pytest.approx([2.0])
    # The logits of 0.55 and of 0.65, the coins of the shorter being larger and smaller by half of 5 %.
    logit = lambda p: math.log(p / (1 - p))  # noqa: E731
    assert found.cross.tolist() == pytest.approx([(logit(0.65) - logit(0.55)) / math.log(1.05)])
    assert found.ratio == pytest.approx(found.cross[0] / 2)
    assert (found.p_better[0], found.p_long[0]) == pytest.approx((0.8, 0.4))
    assert (found.low[0], found.high[0]) == (forks.RATIOS[0], forks.RATIOS[-1])


def test_means_over_forks_leave_out_what_is_void():
    nan = np.nan
    found = forks.Gap(
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
    assert found.passes().tolist() == [True, False, False]
    numbers = found.numbers()
    assert (numbers["forks"], numbers["trio"]) == (3, pytest.approx(1 / 3))
    assert numbers["ratio"] == pytest.approx(0.25)
    assert [numbers[name] for name in ("p_long", "p_better", "e_same", "e_cross")] == pytest.approx(
        [0.73, 0.965, 3.0, 3.0]
    )
    assert [numbers["low"], numbers["high"]] == [0.2, 5.5]  # medians


MEASURED = LevelMeasures(
    np.array(["a", "b", "c"]),
    np.array([2, 4, 3]),
    np.array([0.9, 0.5, 0.8]),
    np.array([1.0, 1.5, 1.2]),
    np.array([0.2, 0.9, 0.4]),
    np.array([0.1, 0.8, 0.6]),
)


def test_measures_are_in_bits_or_divided_by_the_most():
    found = adversarial.summarise_measures(MEASURED)
    assert found["usefulness"] == {"count": 3, "mean": pytest.approx(2.2 / 3), "worst": 0.5, "at": "b"}
    assert found["own"] == {"count": 3, "mean": pytest.approx(0.5), "worst": 0.1, "at": "a"}
    divided = adversarial.summarise_measures(MEASURED, normalised=True)
    assert divided["usefulness"] == found["usefulness"]
    assert divided["neutrality"]["mean"] == pytest.approx((1 + 1.5 / 2 + 1.2 / math.log2(3)) / 3)
    assert (divided["neutrality"]["worst"], divided["neutrality"]["at"]) == (0.75, "b")
    assert divided["own"]["mean"] == pytest.approx((0.1 + 0.4 + 0.6 / math.log2(3)) / 3)
    assert adversarial.surplus(MEASURED, 4).tolist() == pytest.approx([1 - 2.2, 1.5 - 2.9, 1.2 - 2.4])
    assert adversarial.summarise("xyz", np.array([0.3, 0.9, 0.1]), most=True)["at"] == "y"


def acting(levels, settings=2, seed=0):
    """An evaluator of levels, somebody with random action probabilities for each setting, and these."""
    level_set = ExactEvaluator(levels, "grid", reward=Reward(0.9, 1.0, 4))

    def tables(level_set, reachable):
        generator = torch.Generator().manual_seed(seed)
        logits = 3 * torch.randn(settings, len(reachable), 4, generator=generator, dtype=torch.float64)
        return list(logits.softmax(-1))

    return ExactPolicy(settings, lambda several: level_set, tables)


def test_many_levels_are_measured_in_parts(monkeypatch):
    several = [LEVELS[0], LEVELS[1], LEVELS[0]]
    whole = adversarial.measure(adversarial.scripted_policy("most coins"), several)
    monkeypatch.setattr(adversarial, "AT_ONCE", 2)
    parts = adversarial.measure(adversarial.scripted_policy("most coins"), several)
    for one, other in zip(whole, parts, strict=True):
        assert one.tolist() == (other.tolist() if one.dtype.kind == "U" else pytest.approx(other.tolist()))


def test_an_agent_is_asked_as_it_is_told_to(monkeypatch):
    asked = []
    policy = SimpleNamespace(private_bits=3)
    agent = SimpleNamespace(policy=policy, evaluator=lambda levels, memory_gib: asked.append((levels, memory_gib)))
    someone = adversarial.agent_policy(agent, greedy=True, memory_gib=1.5)
    someone.level_set(("x",))
    level_set = SimpleNamespace(tables=lambda policy, reachable, greedy: [greedy, reachable])
    assert someone.tables(level_set, "states") == [True, "states"]
    assert (asked, someone.settings) == ([(["x"], 1.5)], 8)


def test_the_page_s_numbers_on_levels():
    asked = acting(LEVELS)
    level_set, reachable, tables = asked.unrolled(LEVELS)
    agent = SimpleNamespace(policy=None)
    average = torch.stack([reachable.visits(table) for table in tables]).unsqueeze(-1) * torch.stack(tables)
    average = average.sum(0) / average.sum((0, -1)).unsqueeze(-1).clamp_min(1e-300)
    level_set.probabilities = lambda policy, reachable, greedy: average
    found = page.on_levels(agent, asked, LEVELS, False)
    each = [reachable.arrivals(table) for table in tables]
    lengths = mixture(each).lengths()
    assert found["levels"] == 2
    useful = usefulness(lengths.probability, lengths.coins, level_set.optima.best_return)
    assert found["usefulness"] == pytest.approx(useful.mean().item())
    assert found["neutrality"] == pytest.approx(neutrality(lengths.probability).mean().item())
    own = sum(neutrality(one.probability).mean().item() for one in each) / 2
    assert found["own"] == found["given_bits"] == pytest.approx(own)
    # The least likely length: of two in the first level, of three in the second.
    least = (lengths.probability[0, :2].min() + lengths.probability[1, :3].min()) / 2
    assert found["least_length"] == pytest.approx(least.item())
    assert found["commitment"]["ex_ante"][0] == pytest.approx(found["neutrality"])
    assert found["commitment"]["given"][0] == pytest.approx(own)


def test_at_most_so_many_levels_are_edited(monkeypatch):
    edited = []
    monkeypatch.setattr(page, "EDITED", 2)
    monkeypatch.setattr(page, "perturb", lambda levels: edited.append(len(levels)) or levels)
    monkeypatch.setattr(page, "summarise_kinds", lambda asked, made: {"all": {"usefulness": {"count": 7}, "own": {}}})
    assert page.on_perturbed_levels(None, ["a", "b", "c"]) == {
        "levels": 2,
        "all": {"count": 7, "usefulness": {"count": 7}, "own": {}},
    }
    monkeypatch.setattr(page, "perturb", lambda levels: [])
    assert page.on_perturbed_levels(None, ["a"]) == {}
    assert edited == [2]


# ------------------------------------------------------------------------------- luck and private bits


@pytest.mark.parametrize("tick", [0, 1, 2])
def test_bits_that_are_drawn_again_are_compared_pair_by_pair(tick):
    reachable, best = Reachable(compile_levels(LEVELS)), solve(compile_levels(LEVELS)).best_return
    tables = acting(LEVELS, settings=3).tables(None, reachable)
    sizes = [len(layer.spot) for layer in reachable.layers]
    apart, useful = [], []
    for before in tables:
        found = []
        for after in tables:
            parts = zip(before.split(sizes), after.split(sizes), strict=True)
            table = torch.cat([old if layer < tick else new for layer, (old, new) in enumerate(parts)])
            lengths = reachable.arrivals(table).lengths()
            found.append(lengths.probability)
            if after is not before:
                useful.append(usefulness(lengths.probability, lengths.coins, best))
        apart += [(one - two).abs().sum(-1) / 2 for one in found for two in found if one is not two]
    choice, usefulness_then = redraw_bits(reachable, tables, best, tick)
    torch.testing.assert_close(choice, sum(apart) / len(apart))
    torch.testing.assert_close(usefulness_then, sum(useful) / len(useful))


def test_a_bit_that_is_rarely_one_counts_rarely():
    reachable = Reachable(compile_levels(LEVELS))
    tables = torch.stack(acting(LEVELS).tables(None, reachable))
    showing = bits.BitChannel((0.0, 1.0), (0, 1), (0.2, 0.8), bits._stays(2))
    own = [neutrality(reachable.arrivals(table).probability) for table in tables]
    found = showing.neutrality_given(reachable, tables, 50, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found, 0.2 * own[0] + 0.8 * own[1])
    assert bits.never().settings().tolist() == [[bits.HIDDEN]]
    alone = bits.never().arrivals(reachable, tables[1:])
    torch.testing.assert_close(alone.probability, reachable.arrivals(tables[1]).probability)


# --------------------------------------------------------------------------------- menus as gridworlds


def test_chances_that_are_no_small_fractions_are_rounded_and_none_is_lost():
    outcomes = grid._outcomes([(0.00001, 1, 5.0), (0.6180339887, 3, 2.0), (0.3819560113, 2, 4.0)], 1)
    assert [(each.chance, each.delay, each.coins) for each in outcomes] == [
        (Fraction(1, 10_000), 0, 5.0),
        (Fraction(3820, 10_000), 1, 4.0),
        (Fraction(6179, 10_000), 2, 2.0),  # one more would be too many
    ]
    thirds = grid._outcomes([(1 / 3, 2, 1.0), (2 / 3, 1, 1.0)], 1)
    assert [each.chance for each in thirds] == [Fraction(2, 3), Fraction(1, 3)]


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
    """It goes left with 0.7, and else right or up, into a wall; it reads lotteries of at most two outcomes."""

    def tables(level_set, reachable):
        row = torch.tensor([stays, 0, 0.7, 0.3 - stays], dtype=torch.float64)
        return [row.expand(len(reachable), -1)]

    asked = ExactPolicy(1, lambda levels: ExactEvaluator(levels, "grid", reward=Reward()), tables)
    monkeypatch.setattr(grid, "agent_policy", lambda agent: asked)
    agent = SimpleNamespace(features=lottery_features(2))
    halves = Option.of(("1/2", 1, 4), ("1/2", 2, 1))
    thirds = Option.of(("1/3", 1, 4), ("1/3", 2, 1), ("1/3", 2, 3))
    far = Menu((sure(1, 3), sure(9, 3)))
    menus = Menus.of([Menu((thirds, sure(1, 3))), far, Menu((halves, sure(2, 3))), Menu((sure(1, 1), sure(2, 3)))])
    found = grid.taken(agent, menus)
    assert found.shape == (1, 4, 2)
    assert found[0, :2].isnan().all()
    if expected is None:
        assert found.isnan().all()
    else:
        assert found[0, 2:].tolist() == [pytest.approx(expected)] * 2
        assert grid.grid_chooser(agent)(menus)[2].tolist() == pytest.approx(expected)
