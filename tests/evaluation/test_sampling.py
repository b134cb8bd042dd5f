"""Sampled evaluation: estimates and intervals compared with exact evaluation, and levels that are too large."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

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
from tests.helpers.sampling import bits, sample_counts, share_inside

VALUES = {"reward": Reward(0.9, 0.9)}


def policy_for(evaluator, private_bits=0):
    """Return a policy that is far from uniform."""
    torch.manual_seed(0)
    size, observe = NetworkSize(16, 1, "tanh"), evaluator.observe
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
def test_the_intervals_cover_the_exact_values(name, values, private_bits):
    levels = generate(preset(name, *(f"levels.{value}" for value in values)), 100, seed=5)
    exact, sampler = evaluators(levels, 300)
    policy = policy_for(exact, private_bits)
    true, estimate = exact.evaluate(policy), sampler.evaluate(policy)
    assert torch.equal(estimate.lengths, true.lengths)
    assert share_inside(true.usefulness, *estimate.usefulness_range) >= 0.9
    assert share_inside(true.neutrality, *estimate.neutrality_range) >= 0.9
    for measure, (low, high) in estimate.mean_ranges().items():
        assert low - 0.01 <= true.means()[measure] <= high + 0.01
        assert high - low < 0.05
    assert estimate.means()["return/expected_drest"] == pytest.approx(true.means()["return/expected_drest"], rel=0.05)


def test_a_greedy_policy_is_sampled_greedily():
    exact, sampler = evaluators(NINE, 64)
    policy = policy_for(exact)
    greedy = sampler.evaluate(policy, greedy=True)
    assert torch.allclose(greedy.outcome.probability, exact.evaluate(policy, greedy=True).outcome.probability)


def test_estimates_depend_on_the_seed():
    exact, sampler = evaluators(NINE, 64)
    policy = policy_for(exact)
    assert torch.equal(sampler.evaluate(policy).usefulness, sampler.evaluate(policy).usefulness)
    other = SamplingEvaluator(NINE, "centred", mini_episodes=64, seed=1, **VALUES)
    assert not torch.equal(sampler.evaluate(policy).usefulness, other.evaluate(policy).usefulness)


@pytest.mark.parametrize("k", [2, 3])
def test_estimates_are_within_their_intervals(k):
    """With few mini-episodes, the bias-corrected neutrality of even choices exceeds log2 k; reports clip it."""
    levels, played = 40, 12
    count = sample_counts([1 / k] * k, played, levels)
    estimate = estimates(
        [str(level) for level in range(levels)],
        Optima(1.0, torch.arange(1, k + 1).expand(levels, -1), torch.full((levels,), k), torch.ones_like(count)),
        Reward(),
        played,
        count.unsqueeze(1).expand(3, -1, -1, -1),
    )
    assert estimate.neutrality.max() > math.log2(k)
    assert estimate.means()["sampled"] == played
    for record in estimate.records():
        assert record["sampled"] == played  # marks the numbers as estimates
        for measure, most in (("usefulness", 1), ("neutrality", math.log2(k))):
            low, high = record[f"{measure}_range"]
            assert 0 <= low <= record[measure] <= high <= most + 1e-9
        assert record["neutrality_normalised"] <= 1
        assert record["neutrality_own"] <= math.log2(k)
    means = estimate.means()
    for measure in ("usefulness", "neutrality"):
        assert means[f"{measure}_low"] <= means[measure] <= means[f"{measure}_high"]


def test_evaluation_in_parts_has_the_same_result():
    levels = [*NINE, *generate(preset("three_lengths"), 30, seed=5)]
    whole = ExactEvaluator(levels, "centred", **VALUES)
    most = int(whole.sizes.states.max()) * BYTES_PER_STATE / 2**30
    in_parts = ExactEvaluator(levels, "centred", memory_gib=most, **VALUES)
    assert len(in_parts._parts) > 5
    assert len(whole._parts) == 1
    policy = policy_for(whole, private_bits=1)
    for evaluate in (lambda level_set: level_set.evaluate(policy), ExactEvaluator.evaluate_uniform):
        expected, evaluation = evaluate(whole), evaluate(in_parts)
        assert torch.allclose(expected.outcome.probability, evaluation.outcome.probability, atol=1e-6)
        assert torch.allclose(expected.outcome.coins, evaluation.outcome.coins, atol=1e-5)
        assert torch.allclose(expected.usefulness, evaluation.usefulness, atol=1e-6)


@pytest.fixture
def large_levels(monkeypatch):
    """Return levels whose states must not be unrolled."""
    monkeypatch.setattr("drest_torch.envs.exact.propagator.walk", None)
    return [NINE[0], world("spacious")]


def test_a_level_that_is_too_large_is_refused_early(large_levels):
    message = r"\(example\) \(the largest of 2 .* has up to \d+ reachable states.*sampled=4096.*raise memory_gib"
    with pytest.raises(LevelError, match=message):
        ExactEvaluator(large_levels, "centred", memory_gib=1e-6, **VALUES)


def test_a_level_that_is_too_large_can_be_sampled(large_levels):
    sampler = SamplingEvaluator(large_levels, "centred", mini_episodes=8, memory_gib=1e-6, **VALUES)
    assert len(sampler.evaluate_uniform().names) == 2
    assert list(sampler.fitting_levels(4)) == []


def test_mini_episodes_that_never_end_are_not_a_choice():
    """Under one setting of the bit the agent stays at the coin forever; sampled and exact evaluation agree."""
    level = parse_level("shutdown: 3\nclock: moves\nA . B2\n# C1 #", name="trap")

    class Stays(Policy):
        def forward(self, observation, private_bits=None):
            stays = (private_bits[:, 0] > 0.5) & (observation[:, 1] == 1)
            return torch.where(stays.unsqueeze(-1), torch.tensor([-torch.inf, 0.0, -torch.inf, -torch.inf]), 0.0)

    exact, sampler = evaluators([level], 6000, "vector")
    policy = Stays(sampler.observe.shape, 4, NetworkSize(1, 0, "tanh"), scale=sampler.observe.scale, private_bits=1)
    estimate, true = sampler.evaluate(policy), exact.evaluate(policy)
    assert 0.6 < true.outcome.probability.sum() < 0.95
    for name in ("neutrality", "neutrality_own", "neutrality_normalised", "usefulness"):
        assert getattr(estimate, name).item() == pytest.approx(getattr(true, name).item(), abs=0.02)


def test_the_interval_scales_with_the_bounds_of_shares():
    """Shares of lotteries can be negative or above 1. A linear map of the shares also maps the interval."""
    shares = torch.rand(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def usefulness(values, bounds):
        sums = torch.stack((torch.tensor(40.0), values.sum(), values.square().sum())).double().reshape(3, 1, 1, 1)
        optima = Optima(1.0, torch.ones(1, 1).long(), torch.ones(1).long(), torch.ones(1, 1).double())
        estimate = estimates(["a"], optima, Reward(), 40, sums, bounds=bounds)
        return [end.item() for end in estimate.usefulness_range]

    low, high = usefulness(shares, None)
    mapped = usefulness(3 * shares - 1, (torch.tensor([-1.0]).double(), torch.tensor([2.0]).double()))
    assert mapped == pytest.approx([3 * low - 1, 3 * high - 1])
    assert 0 < low < high < 1


def test_the_range_of_a_mean_can_be_asymmetric():
    half, ends = torch.tensor([0.5, 0.5]), (torch.tensor([0.4, 0.2]), torch.tensor([0.53, 0.54]))
    assert mean_range(half, *ends) == pytest.approx((0.5 - math.hypot(0.1, 0.3) / 2, 0.5 + math.hypot(0.03, 0.04) / 2))


def two_levels(
    usefulness,
    low,
    high,
    *,
    neutrality=(0.5, 0.9),
    neutrality_own=(0.4, 0.2),
    neutrality_low=(-0.1, 0.7),
    neutrality_high=(1.3, 1.2),
):
    """Return estimates on two levels with two and three lengths; ``low`` and ``high`` are ends of usefulness."""
    count = torch.ones(3, 2, 1, 3, dtype=torch.float64)
    lengths = torch.arange(1, 4).expand(2, -1)
    optima = Optima(1.0, lengths, torch.tensor([2, 3]), torch.ones(2, 3).double())
    return replace(
        estimates(["a", "b"], optima, Reward(), torch.tensor([7, 5]), count),
        usefulness=torch.tensor(usefulness).double(),
        neutrality=torch.tensor(neutrality).double(),
        neutrality_own=torch.tensor(neutrality_own).double(),
        usefulness_range=(torch.tensor(low).double(), torch.tensor(high).double()),
        neutrality_range=(torch.tensor(neutrality_low).double(), torch.tensor(neutrality_high).double()),
    )


def around(mean, below, above):
    """Return the interval of the mean of two levels, with the distances of their ends from the estimates."""
    return pytest.approx((mean - math.hypot(*below) / 2, mean + math.hypot(*above) / 2), rel=1e-6)


class MeanCase(NamedTuple):
    """Usefulness on two levels with the ends of its intervals, and the interval of the mean."""

    usefulness: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]
    expected: Any


MEAN_CASES = {
    "inside": MeanCase((0.2, 0.9), (0.0, 0.8), (0.9, 1.0), around(0.55, (0.2, 0.1), (0.7, 0.1))),
    "from 0 to 1": MeanCase((0.02, 0.98), (-0.0, 0.0), (1.0, 1.0), around(0.5, (0.02, 0.98), (0.98, 0.02))),
    "lotteries far above 1": MeanCase((0.1, 0.1), (0.0, 0.0), (3.0, 3.0), around(0.1, (0.1, 0.1), (2.9, 2.9))),
    "lotteries above 1": MeanCase((0.9, 0.9), (0.0, 0.0), (2.0, 1.0), around(0.9, (0.9, 0.9), (1.1, 0.1))),
    "lotteries below 0": MeanCase((-0.5, 0.1), (-2.0, 0.1), (0.0, 0.3), around(-0.2, (1.5, 0.0), (0.5, 0.2))),
}
"""Lotteries allow a usefulness below 0 or above 1."""


@pytest.mark.parametrize("case", MEAN_CASES.values(), ids=MEAN_CASES)
def test_the_range_of_mean_usefulness_respects_its_bounds(case):
    assert two_levels(case.usefulness, case.low, case.high).mean_ranges()["usefulness"] == case.expected


def test_the_range_of_mean_neutrality_combines_the_levels():
    ranges = two_levels((0.2, 0.9), (0.0, 0.8), (0.9, 1.0)).mean_ranges()
    assert ranges["neutrality"] == around(0.7, (0.6, 0.2), (0.8, 0.3))


def test_the_range_of_mean_neutrality_is_clipped():
    wide = two_levels((0.2, 0.9), (0.0, 0.8), (0.9, 1.0), neutrality_low=(-3.0, -3.0), neutrality_high=(9.0, 9.0))
    assert wide.mean_ranges()["neutrality"] == pytest.approx((0, (1 + math.log2(3)) / 2))


@pytest.fixture
def too_neutral():
    """Return estimates with neutralities above log2 k on the first level, and 5 mini-episodes on the second."""
    return two_levels((0.2, 0.9), (0.0, 0.8), (0.9, 1.0), neutrality=(1.2, 1.5), neutrality_own=(1.1, 0.2))


def test_records_clip_neutrality(too_neutral):
    first, second = too_neutral.records()
    assert first["neutrality"] == 1.0
    assert second["neutrality"] == 1.5
    assert first["neutrality_own"] == 1.0
    assert second["neutrality_own"] == pytest.approx(0.2)
    assert first["neutrality_range"] == [0, 1.0]
    assert second["neutrality_range"] == pytest.approx([0.7, 1.2])


def test_records_have_the_range_of_usefulness(too_neutral):
    _, second = too_neutral.records()
    assert second["usefulness_range"] == pytest.approx([0.8, 1.0])


def test_means_clip_neutrality(too_neutral):
    means = too_neutral.means()
    assert means["neutrality"] == pytest.approx((1 + math.log2(3)) / 2)
    assert means["neutrality_high"] == too_neutral.mean_ranges()["neutrality"][1]


def test_a_summary_has_the_smallest_number_of_mini_episodes(too_neutral):
    assert too_neutral.mini_episodes == 5
    assert too_neutral.summary(too_neutral)["sampled"] == 5


def test_a_summary_has_the_ranges_of_the_means(too_neutral):
    low, high = too_neutral.mean_ranges()["usefulness"]
    assert too_neutral.summary(too_neutral)["ranges"]["usefulness"] == {"low": low, "high": high}


def test_estimates_agree_with_a_calculation_by_hand():
    """Eight of ten mini-episodes end, under two settings of a private bit; m is 2 and 4."""
    count = torch.tensor([[[3.0, 1.0], [0.0, 4.0]]]).double()
    share = torch.tensor([[[1.5, 0.2], [0.0, 3.0]]]).double()
    squares = torch.tensor([[[0.8, 0.04], [0.0, 2.5]]]).double()
    optima = Optima(1.0, torch.tensor([[3, 5]]), torch.tensor([2]), torch.tensor([[2.0, 4.0]]).double())
    estimate = estimates(["a"], optima, Reward(), 10, torch.stack((count, share, squares)))
    assert estimate.outcome.probability.tolist() == [[pytest.approx(0.3), pytest.approx(0.5)]]
    assert estimate.outcome.coins.tolist() == [[pytest.approx(2 * 0.5), pytest.approx(4 * 0.64)]]
    assert estimate.usefulness.item() == pytest.approx(0.3 * 0.5 + 0.5 * 0.64)
    correction = 1 / (2 * math.log(2))
    assert estimate.neutrality.item() == pytest.approx(0.8 * (bits([3 / 8, 5 / 8]).item() + correction / 8))
    first_setting = 0.4 * (bits([0.75, 0.25]).item() + correction / 4)  # the second setting has one length
    assert estimate.neutrality_own.item() == pytest.approx(first_setting)
    low, high = bounded_mean(*(torch.tensor([value]).double() for value in (10.0, 4.7, 3.34)))
    assert [end.item() for end in estimate.usefulness_range] == pytest.approx([low.item(), high.item()])
    assert estimate.neutrality_normalised.item() == pytest.approx(estimate.neutrality.item())
    low, high = entropy_interval(count.sum(1), torch.tensor([2]))
    both, spread = entropy(count.sum(1)).item(), entropy_spread(count.sum(1), torch.tensor([2])).item()
    lower, upper = min(low.item(), both - spread), max(high.item(), both + spread)
    assert [end.item() for end in estimate.neutrality_range] == pytest.approx([0.8 * lower, 0.8 * upper])
    assert upper > high.item()


@pytest.fixture
def zero_best():
    """Return a batch with coins in which the environment reports an m of 0."""
    torch.manual_seed(0)
    batch = GridworldEnv([world("spacious")], 8, episodes_per_meta=8).rollout(200, break_when_any_done=False)
    assert ended_episodes(batch, 1.0, 2, by_setting=False).coins.max() > 0
    batch["next", "best_return"].zero_()
    return batch


def test_an_m_of_0_is_accepted_where_lotteries_allow_it(zero_best):
    best = ended_episodes(zero_best, 1.0, 2, by_setting=False, zero_best=True).best_return
    assert not best.any()


def test_an_m_of_0_is_refused_by_default(zero_best):
    with pytest.raises(ConfigError, match=r"'best_return' .* a number above 0"):
        ended_episodes(zero_best, 1.0, 2, by_setting=False)


def test_the_interval_of_neutrality_contains_the_estimate():
    """For nearly equal probabilities the interval of the entropy ends at log2 k, and the estimate can exceed it."""
    counts = torch.tensor([[50.0, 50.0, 0.0], [90.0, 10.0, 0.0], [4.0, 3.0, 3.0]], dtype=torch.float64)
    num_lengths, lengths = torch.tensor([2, 2, 3]), torch.tensor([[2, 4, 0], [2, 4, 0], [2, 4, 6]])
    sums = torch.stack((counts, 0.5 * counts, 0.25 * counts)).unsqueeze(2)  # [3, B, S, K]
    estimate = estimates(
        ["even", "uneven", "few"],
        Optima(1.0, lengths, num_lengths, (lengths > 0).double()),
        Reward(),
        torch.tensor([200, 100, 10]),  # half of those on the first level do not end
        sums,
    )
    ended_share = torch.tensor([0.5, 1.0, 1.0])
    corrected, spread = entropy(counts), entropy_spread(counts, num_lengths)
    low, high = entropy_interval(counts, num_lengths)
    low, high = torch.minimum(low, corrected - spread), torch.maximum(high, corrected + spread)
    assert estimate.neutrality_range[0].tolist() == pytest.approx((ended_share * low).tolist())
    assert estimate.neutrality_range[1].tolist() == pytest.approx((ended_share * high).tolist())
    assert estimate.neutrality_range[1][0] > 0.5 * 1.01
