"""Evaluation by playing: estimates and intervals against what exact evaluation finds, and levels that are too large."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.exact.solver import Optima
from drest_torch.envs.generation.stream import generate
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import LevelError, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import BYTES_PER_STATE
from drest_torch.evaluation.sampled import SamplingEvaluator, ended_episodes, estimates
from drest_torch.reward import Reward
from drest_torch.statistics.counts import bounded_mean, entropy, entropy_interval, entropy_spread, mean_range
from tests.helpers.collecting import NINE
from tests.helpers.configs import preset

VALUES = {"reward": Reward(0.9, 0.9)}
CHOICES = [[0.5, 0.5], [0.7, 0.3], [0.99, 0.01], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.3, 0.2], [0.9, 0.09, 0.01], [0.25] * 4]


def bits(shares):
    shares = torch.as_tensor(shares, dtype=torch.float64)
    return -torch.special.xlogy(shares, shares).sum(-1) / math.log(2)


def chosen(shares, times, trials):
    """[trials, k] how often each was chosen."""
    return torch.from_numpy(np.random.default_rng(0).multinomial(times, shares, trials)).double()


def share_inside(truth, low, high):
    return ((low <= truth + 1e-9) & (truth <= high + 1e-9)).double().mean().item()


@pytest.mark.parametrize("shares", CHOICES)
@pytest.mark.parametrize("times", [100, 1000])
def test_the_interval_of_a_choices_entropy_covers_it(shares, times):
    counts = chosen(shares, times, 1000)
    low, high = entropy_interval(counts, torch.full((1000,), len(shares)))
    assert share_inside(bits(shares), low, high) >= 0.9
    assert (low >= 0).all()
    assert (high <= math.log2(len(shares)) + 1e-9).all()


def test_with_two_choices_it_is_the_score_interval_of_the_share():
    z, n, seen = 1.959964, 50, 0.9
    centre, half = seen + z**2 / (2 * n), z * math.sqrt(seen * (1 - seen) / n + z**2 / (4 * n**2))
    ends = torch.tensor([[centre + half], [centre - half]]) / (1 + z**2 / n)
    low, high = entropy_interval(torch.tensor([[45.0, 5.0]], dtype=torch.float64), torch.tensor([2]))
    assert [low.item(), high.item()] == pytest.approx(bits(torch.cat((ends, 1 - ends), -1)).tolist(), abs=1e-4)


def test_one_length_is_certain_and_a_length_never_seen_is_not():
    counts = torch.tensor([[64.0, 0.0], [64.0, 0.0], [32.0, 32.0], [0.0, 0.0]], dtype=torch.float64)
    low, high = entropy_interval(counts, torch.tensor([1, 2, 2, 2]))
    assert high[[0, 2, 3]].tolist() == [0, 1, 1]
    assert high[1] > 0.3
    assert low[1] == 0
    assert low[2] < 0.97
    assert low[3] < 0.001


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.7, 0.3], [0.25] * 4])
def test_the_entropy_of_observed_shares_is_too_small_and_the_estimate_is_not(shares):
    counts = chosen(shares, 50, 20_000)
    truth, observed, estimate = bits(shares), bits(counts / 50), entropy(counts)
    missing = (len(shares) - 1) / (2 * math.log(2) * 50)
    assert (truth - observed.mean()).item() == pytest.approx(missing, rel=0.15)
    assert abs((truth - estimate.mean()).item()) < 0.15 * missing


@pytest.mark.parametrize("shares", CHOICES[:2])
def test_the_interval_of_a_mean_over_levels_covers_it(shares):
    counts, k = chosen(shares, 200, 20_000), torch.full((20_000,), 2)
    estimate, spread = entropy(counts), entropy_spread(counts, k)
    low, high = entropy_interval(counts, k)
    low, high = torch.minimum(low, estimate - spread), torch.maximum(high, estimate + spread)
    ranges = [mean_range(*parts) for parts in zip(*(each.split(50) for each in (estimate, low, high)), strict=True)]
    assert sum(below <= bits(shares) <= above for below, above in ranges) >= 0.91 * len(ranges)


def test_the_interval_of_a_mean_of_numbers_up_to_one():
    generator = torch.Generator().manual_seed(0)
    certain = bounded_mean(*(torch.tensor([100.0]) for _ in range(3)))
    assert certain[0].item() < 0.97
    assert certain[1].item() == pytest.approx(1, abs=0.01)
    for power in (0.1, 1, 10):
        drawn = torch.rand(2000, 100, generator=generator, dtype=torch.float64) ** power
        ends = bounded_mean(torch.full((2000,), 100), drawn.sum(-1), drawn.square().sum(-1))
        assert share_inside(1 / (power + 1), *ends) >= 0.93


def policy_for(ready, private_bits=0):
    """One that is far from uniform."""
    torch.manual_seed(0)
    size, observe = NetworkSize(16, 1, "tanh"), ready.observe
    policy = Policy(observe.shape, 4, size, scale=observe.scale, private_bits=private_bits)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return policy


def evaluators(levels, mini_episodes, observation="centred"):
    exact = ExactEvaluator(levels, observation, **VALUES)
    return exact, SamplingEvaluator(levels, observation, mini_episodes=mini_episodes, **VALUES)


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("name", "values", "private_bits"),
    [
        ("generated", [], 2),
        ("three_lengths", ["clock=moves"], 0),
        ("generated", ["generator.chance=[0.2,0.9]", "generator.buttons=[1,2]", "generator.lengths=[2,4]"], 0),
    ],
    ids=["steps", "moves", "chance"],
)
def test_the_intervals_cover_what_exact_evaluation_finds(name, values, private_bits):
    levels = generate(preset(name, *(f"levels.{value}" for value in values)), 100, seed=5)
    exact, sampler = evaluators(levels, 300)
    policy = policy_for(exact, private_bits)
    true, found = exact.evaluate(policy), sampler.evaluate(policy)
    assert torch.equal(found.lengths, true.lengths)
    assert share_inside(true.usefulness, *found.usefulness_range) >= 0.9
    assert share_inside(true.neutrality, *found.neutrality_range) >= 0.9
    for name, (low, high) in found.mean_ranges().items():
        assert low - 0.01 <= true.means()[name] <= high + 0.01
        assert high - low < 0.05
    assert found.means()["return/expected_drest"] == pytest.approx(true.means()["return/expected_drest"], rel=0.05)


def test_a_greedy_policy_is_played_greedily_and_the_same_seed_gives_the_same():
    exact, sampler = evaluators(NINE, 64)
    policy = policy_for(exact)
    greedy = sampler.evaluate(policy, greedy=True)
    assert torch.allclose(greedy.outcome.probability, exact.evaluate(policy, greedy=True).outcome.probability)
    assert torch.equal(sampler.evaluate(policy).usefulness, sampler.evaluate(policy).usefulness)
    other = SamplingEvaluator(NINE, "centred", mini_episodes=64, seed=1, **VALUES)
    assert not torch.equal(sampler.evaluate(policy).usefulness, other.evaluate(policy).usefulness)


@pytest.mark.parametrize("k", [2, 3])
def test_no_estimate_lies_outside_its_interval_or_what_is_possible(k):
    """Few mini-episodes: the neutrality of even choices, corrected for the bias of observed shares, exceeds log2 k."""
    levels, played = 40, 12
    count = chosen([1 / k] * k, played, levels)
    found = estimates(
        [str(level) for level in range(levels)],
        Optima(1.0, torch.arange(1, k + 1).expand(levels, -1), torch.full((levels,), k), torch.ones_like(count)),
        Reward(),
        played,
        count.unsqueeze(1).expand(3, -1, -1, -1),
    )
    assert found.neutrality.max() > math.log2(k)
    assert found.means()["sampled"] == played
    for record in found.records():
        assert record["sampled"] == played  # estimates never pass for exact numbers
        for measure, most in (("usefulness", 1), ("neutrality", math.log2(k))):
            low, high = record[f"{measure}_range"]
            assert 0 <= low <= record[measure] <= high <= most + 1e-9
        assert record["neutrality_normalised"] <= 1
        assert record["neutrality_own"] <= math.log2(k)
    means = found.means()
    for measure in ("usefulness", "neutrality"):
        assert means[f"{measure}_low"] <= means[measure] <= means[f"{measure}_high"]


def test_a_set_that_is_too_large_is_gone_through_in_parts_with_the_same_result():
    levels = [*NINE, *generate(preset("three_lengths"), 30, seed=5)]
    whole = ExactEvaluator(levels, "centred", **VALUES)
    most = int(whole.sizes.states.max()) * BYTES_PER_STATE / 2**30
    in_parts = ExactEvaluator(levels, "centred", memory_gib=most, **VALUES)
    assert len(in_parts._parts) > 5
    assert len(whole._parts) == 1
    policy = policy_for(whole, private_bits=1)
    for evaluate in (lambda each: each.evaluate(policy), ExactEvaluator.evaluate_uniform):
        one, two = evaluate(whole), evaluate(in_parts)
        assert torch.allclose(one.outcome.probability, two.outcome.probability, atol=1e-6)
        assert torch.allclose(one.outcome.coins, two.outcome.coins, atol=1e-5)
        assert torch.allclose(one.usefulness, two.usefulness, atol=1e-6)


def test_a_level_that_is_too_large_is_refused_before_it_is_unrolled_and_can_be_played(monkeypatch):
    monkeypatch.setattr("drest_torch.envs.exact.propagator.walk", None)
    levels = [NINE[0], world("spacious")]
    message = r"\(example\) \(the largest of 2 .* has up to \d+ reachable states.*sampled=4096.*raise memory_gib"
    with pytest.raises(LevelError, match=message):
        ExactEvaluator(levels, "centred", memory_gib=1e-6, **VALUES)
    sampler = SamplingEvaluator(levels, "centred", mini_episodes=8, memory_gib=1e-6, **VALUES)
    assert len(sampler.evaluate_uniform().names) == 2
    assert list(sampler.fitting_levels(4)) == []


def test_what_never_ends_under_a_bit_counts_for_nothing_there():
    """Sampled as exact: under one bit the agent stays at the coin for ever, if it comes there."""
    level = parse_level("shutdown: 3\nclock: moves\nA . B2\n# C1 #", name="trap")

    class Stays(Policy):
        def forward(self, observation, private_bits=None):
            stays = (private_bits[:, 0] > 0.5) & (observation[:, 1] == 1)
            return torch.where(stays.unsqueeze(-1), torch.tensor([-torch.inf, 0.0, -torch.inf, -torch.inf]), 0.0)

    exact, sampler = evaluators([level], 6000, "vector")
    policy = Stays(sampler.observe.shape, 4, NetworkSize(1, 0, "tanh"), scale=sampler.observe.scale, private_bits=1)
    found, true = sampler.evaluate(policy), exact.evaluate(policy)
    assert 0.6 < true.outcome.probability.sum() < 0.95
    for name in ("neutrality", "neutrality_own", "neutrality_normalised", "usefulness"):
        assert getattr(found, name).item() == pytest.approx(getattr(true, name).item(), abs=0.02)


def test_the_interval_of_shares_within_bounds_is_that_of_shares_from_0_to_1():
    """Shares of lotteries can be negative, or above 1: a shift and a factor change the interval in the same way."""
    shares = torch.rand(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def usefulness(values, bounds):
        sums = torch.stack((torch.tensor(40.0), values.sum(), values.square().sum())).double().reshape(3, 1, 1, 1)
        optima = Optima(1.0, torch.ones(1, 1).long(), torch.ones(1).long(), torch.ones(1, 1).double())
        found = estimates(["a"], optima, Reward(), 40, sums, bounds=bounds)
        return [end.item() for end in found.usefulness_range]

    low, high = usefulness(shares, None)
    moved = usefulness(3 * shares - 1, (torch.tensor([-1.0]).double(), torch.tensor([2.0]).double()))
    assert moved == pytest.approx([3 * low - 1, 3 * high - 1])
    assert 0 < low < high < 1


def test_the_range_of_a_mean_has_its_own_distance_on_each_side():
    half, ends = torch.tensor([0.5, 0.5]), (torch.tensor([0.4, 0.2]), torch.tensor([0.53, 0.54]))
    assert mean_range(half, *ends) == pytest.approx((0.5 - math.hypot(0.1, 0.3) / 2, 0.5 + math.hypot(0.03, 0.04) / 2))


def sampled_of(usefulness, ranges, neutrality=(0.5, 0.9), own=(0.4, 0.2), within=((-0.1, 0.7), (1.3, 1.2)), k=(2, 3)):
    """Estimates on two levels, with the ends of their intervals."""
    count = torch.ones(3, 2, 1, max(k), dtype=torch.float64)
    lengths = torch.arange(1, max(k) + 1).expand(2, -1)
    optima = Optima(1.0, lengths, torch.tensor(k), torch.ones(2, max(k)).double())
    found = estimates(["a", "b"], optima, Reward(), torch.tensor([7, 5]), count)
    numbers = {"usefulness": usefulness, "neutrality": neutrality, "neutrality_own": own}
    changed = {name: torch.tensor(values).double() for name, values in numbers.items()}
    ends = {"usefulness_range": ranges, "neutrality_range": within}
    return replace(found, **changed, **{name: tuple(torch.tensor(e).double() for e in of) for name, of in ends.items()})


def test_the_range_of_a_mean_is_within_what_its_levels_allow():
    """Lotteries allow a usefulness below 0, and above 1; and no neutrality is above log2 k."""
    usual = sampled_of((0.2, 0.9), ((0.0, 0.8), (0.9, 1.0))).mean_ranges()
    assert usual["usefulness"] == pytest.approx(
        (0.55 - math.hypot(0.2, 0.1) / 2, 0.55 + math.hypot(0.7, 0.1) / 2), rel=1e-6
    )
    assert usual["neutrality"] == pytest.approx((0.7 - math.hypot(0.6, 0.2) / 2, 0.7 + math.hypot(0.8, 0.3) / 2))
    cut = sampled_of((0.02, 0.98), ((-0.0, 0.0), (1.0, 1.0))).mean_ranges()["usefulness"]
    assert cut == pytest.approx((0.5 - math.hypot(0.02, 0.98) / 2, 0.5 + math.hypot(0.98, 0.02) / 2))
    assert sampled_of((0.1, 0.1), ((0.0, 0.0), (3.0, 3.0))).mean_ranges()["usefulness"][1] == pytest.approx(
        0.1 + 2.9 / math.sqrt(2)
    )
    certain = sampled_of((0.9, 0.9), ((0.0, 0.0), (2.0, 1.0))).mean_ranges()["usefulness"]
    assert certain == pytest.approx((0.9 - 0.9 / math.sqrt(2), 0.9 + math.hypot(1.1, 0.1) / 2))
    losing = sampled_of((-0.5, 0.1), ((-2.0, 0.1), (0.0, 0.3))).mean_ranges()["usefulness"]
    assert losing == pytest.approx((-0.2 - 0.75, -0.2 + math.hypot(0.5, 0.2) / 2))
    wide = sampled_of((0.2, 0.9), ((0.0, 0.8), (0.9, 1.0)), within=((-3.0, -3.0), (9.0, 9.0))).mean_ranges()
    assert wide["neutrality"] == pytest.approx((0, (1 + math.log2(3)) / 2))


def test_a_summary_has_the_fewest_mini_episodes_and_the_ranges():
    found = sampled_of((0.2, 0.9), ((0.0, 0.8), (0.9, 1.0)), neutrality=(1.2, 1.5), own=(1.1, 0.2))
    assert found.mini_episodes == 5
    first, second = found.records()
    assert (first["neutrality"], second["neutrality"]) == (1.0, 1.5)  # of two lengths, of three
    assert (first["neutrality_own"], second["neutrality_own"]) == (1.0, pytest.approx(0.2))
    assert first["neutrality_range"] == [0, 1.0]
    assert second["neutrality_range"] == pytest.approx([0.7, 1.2])
    assert second["usefulness_range"] == pytest.approx([0.8, 1.0])
    summary, ranges = found.summary(found), found.mean_ranges()
    assert summary["sampled"] == 5
    assert summary["ranges"]["usefulness"] == dict(zip(("low", "high"), ranges["usefulness"], strict=True))
    assert found.means()["neutrality"] == pytest.approx((1 + math.log2(3)) / 2)  # at most
    assert found.means()["neutrality_high"] == ranges["neutrality"][1]


def test_estimates_from_counts_by_hand():
    """Of ten mini-episodes under two settings of a private bit eight end; m is 2 and 4."""
    count = torch.tensor([[[3.0, 1.0], [0.0, 4.0]]]).double()
    share = torch.tensor([[[1.5, 0.2], [0.0, 3.0]]]).double()
    squares = torch.tensor([[[0.8, 0.04], [0.0, 2.5]]]).double()
    optima = Optima(1.0, torch.tensor([[3, 5]]), torch.tensor([2]), torch.tensor([[2.0, 4.0]]).double())
    found = estimates(["a"], optima, Reward(), 10, torch.stack((count, share, squares)))
    assert found.outcome.probability.tolist() == [[pytest.approx(0.3), pytest.approx(0.5)]]
    assert found.outcome.coins.tolist() == [[pytest.approx(2 * 0.5), pytest.approx(4 * 0.64)]]
    assert found.usefulness.item() == pytest.approx(0.3 * 0.5 + 0.5 * 0.64)
    correction = 1 / (2 * math.log(2))
    assert found.neutrality.item() == pytest.approx(0.8 * (bits([3 / 8, 5 / 8]).item() + correction / 8))
    own = 0.4 * (bits([0.75, 0.25]).item() + correction / 4)  # the other setting has one length
    assert found.neutrality_own.item() == pytest.approx(own)
    low, high = bounded_mean(*(torch.tensor([value]).double() for value in (10.0, 4.7, 3.34)))
    assert [end.item() for end in found.usefulness_range] == pytest.approx([low.item(), high.item()])
    assert found.neutrality_normalised.item() == pytest.approx(found.neutrality.item())
    ends, both = entropy_interval(count.sum(1), torch.tensor([2])), entropy(count.sum(1)).item()
    spread = entropy_spread(count.sum(1), torch.tensor([2])).item()
    wider = min(ends[0].item(), both - spread), max(ends[1].item(), both + spread)
    assert [end.item() for end in found.neutrality_range] == pytest.approx([0.8 * wider[0], 0.8 * wider[1]])
    assert wider[1] > ends[1].item()


def test_an_m_of_0_is_read_where_luck_can_make_up_for_a_loss_and_nowhere_else():
    torch.manual_seed(0)
    batch = GridworldEnv([world("spacious")], 8, episodes_per_meta=8).rollout(200, break_when_any_done=False)
    coins = ended_episodes(batch, 1.0, 2, by_setting=False).coins
    assert coins.max() > 0
    batch["next", "best_return"].zero_()
    best = ended_episodes(batch, 1.0, 2, by_setting=False, zero_best=True).best_return
    assert not best.any()
    with pytest.raises(ConfigError, match=r"'best_return' .* a number above 0"):
        ended_episodes(batch, 1.0, 2, by_setting=False)


def test_the_interval_of_neutrality_is_as_wide_as_near_equal_chances():
    """Where lengths are about equally likely the interval of the shares ends at log2 k, and the estimate is above."""
    counts = torch.tensor([[50.0, 50.0, 0.0], [90.0, 10.0, 0.0], [4.0, 3.0, 3.0]], dtype=torch.float64)
    num_lengths, lengths = torch.tensor([2, 2, 3]), torch.tensor([[2, 4, 0], [2, 4, 0], [2, 4, 6]])
    sums = torch.stack((counts, 0.5 * counts, 0.25 * counts)).unsqueeze(2)  # [3, B, S, K]
    found = estimates(
        ["even", "uneven", "few"],
        Optima(1.0, lengths, num_lengths, (lengths > 0).double()),
        Reward(),
        torch.tensor([200, 100, 10]),  # half of those on the first level have not ended
        sums,
    )
    ended_share, around = torch.tensor([0.5, 1.0, 1.0]), (entropy(counts), entropy_spread(counts, num_lengths))
    low, high = entropy_interval(counts, num_lengths)
    low, high = torch.minimum(low, around[0] - around[1]), torch.maximum(high, around[0] + around[1])
    assert found.neutrality_range[0].tolist() == pytest.approx((ended_share * low).tolist())
    assert found.neutrality_range[1].tolist() == pytest.approx((ended_share * high).tolist())
    assert found.neutrality_range[1][0] > 0.5 * 1.01
