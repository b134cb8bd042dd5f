"""Tests of forks and their measures, against enumeration and in closed form."""

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from drest_torch.choices import forks
from drest_torch.choices.adversarial import scripted_policy
from drest_torch.choices.forks import MARKS, designs, measure, with_coins
from drest_torch.choices.scripted_policies import maximise_coins, maximise_usefulness, uniform
from drest_torch.envs.levels.symmetry import canonical_key
from drest_torch.theory import balance, value_for
from tests.helpers.simulator import searched_optima


def test_the_forks_are_of_three_families():
    names = [design.name.rpartition(" ")[0] or "cross" for design in designs()]
    assert Counter(names) == {"cross": 8, "open floor": 16, "walls and detours": 16}


def test_the_sampled_forks_are_distinct():
    assert len({canonical_key(design) for design in designs()[8:]}) == 32


@pytest.mark.parametrize(("values", "best"), [((1, 2, 4), [1, 4]), ((1, 4, 2), [1, 4]), ((8, 2, 4), [8, 4])], ids=str)
def test_a_fork_has_two_lengths_with_their_best_coins(values, best):
    for design in designs():
        assert [*searched_optima(with_coins(design, values), 1.0).values()] == best, design.name


def test_probabilities_of_options_agree_with_enumeration():
    def tables(level_set, reachable):
        generator = torch.Generator().manual_seed(0)
        return [torch.rand(len(reachable), 4, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2)]

    policy = replace(scripted_policy("uniform"), tables=tables)
    chances = measure(policy)
    assert chances.shape == (2, len(forks.SETTINGS), len(designs()), 5)
    levels = [with_coins(design, values) for values in forks.SETTINGS for design in designs()]
    # E[C] from the probabilities of options equals that of propagation.
    values = np.empty((len(levels), len(MARKS)))
    for row, level, design in zip(values, levels, designs() * len(forks.SETTINGS), strict=True):
        at = {(coin.row, coin.column): coin.value for coin in level.coins}
        row[:] = [at[coin.row, coin.column] for coin in sorted(design.coins, key=lambda coin: MARKS.index(coin.value))]
    _, reachable, tables_of_settings = policy.unrolled(levels)
    for setting, table in enumerate(tables_of_settings):
        outcome = reachable.propagate(table)
        by_level = chances[setting].reshape(len(levels), 5)
        np.testing.assert_allclose(by_level[:, 3:], outcome.probability.numpy())
        expected = (outcome.probability * outcome.coins).numpy()
        np.testing.assert_allclose(by_level[:, 0] * values[:, 0], expected[:, 0], atol=1e-15)
        np.testing.assert_allclose((by_level[:, 1:3] * values[:, 1:]).sum(-1), expected[:, 1], atol=1e-15)


@pytest.mark.parametrize("steepness", [0.3, 1.0, 4.0])
def test_a_softmax_of_coins_has_no_gap(steepness):
    gap = forks.gap(forks.policy_probabilities(forks.softmax(steepness)))
    # At coins of 2, d logit / d ln = steepness · d coins / d ln = 2 · steepness.
    assert [*gap.same, *gap.cross] == pytest.approx([2 * steepness] * 2, rel=1e-3)
    assert gap.ratio == pytest.approx(1, abs=1e-3)
    assert not gap.passes().any()


def balanced(menus, lam, episodes):
    """Choose the best coin of a length, and the length at the balance of coins that are not divided by m."""
    coins = menus.gain.sum(-1)
    most = coins[:, 1:].amax(-1, keepdim=True)
    p, best = balance(coins[:, :1], most, lam, episodes), coins[:, 1:] == most
    return torch.cat((1 - p, p * best / best.sum(-1, keepdim=True)), -1)


@pytest.mark.parametrize(("episodes", "slope", "end"), [(64, 0.594, 20.0), (32, 1.22, 4.36)])
def test_undivided_coins_shift_the_length_as_predicted(episodes, slope, end):
    gap = forks.gap(forks.policy_probabilities(partial(balanced, lam=0.9, episodes=episodes)))
    assert gap.cross.item() == pytest.approx(slope, rel=0.01)
    assert gap.high.item() == pytest.approx(end, rel=0.15)  # between two ratios that differ by 1.8
    assert gap.low.item() == pytest.approx(1 / gap.high.item(), rel=1e-3)
    assert value_for(0.95, 0.9, episodes) == pytest.approx(end, rel=0.05)
    assert gap.passes().all()  # the trio is binary, so it also passes here
    assert gap.void == {f"no e_s: {forks.NEVER}": 1}
    assert math.isnan(gap.ratio)


def test_a_random_policy_has_elasticities_of_zero():
    gap = forks.gap(forks.policy_probabilities(uniform))
    assert gap.same.item() == 0
    assert gap.cross.item() == 0


def test_a_policy_that_maximises_coins_has_no_elasticities():
    gap = forks.gap(forks.policy_probabilities(maximise_coins))
    assert math.isnan(gap.same.item())
    assert math.isnan(gap.cross.item())
    assert gap.void == {f"no e_s: {forks.NEVER}": 1, f"no e_x: {forks.NEVER}": 1}


def test_a_policy_that_maximises_usefulness_passes_the_trio():
    gap = forks.gap(forks.policy_probabilities(maximise_usefulness))
    assert gap.cross.item() == 0
    assert gap.passes().all()


def test_the_matched_softmax_has_the_determinism_of_the_agent():
    agent = forks.policy_probabilities(forks.softmax(1.5))
    steepness, matched = forks.matched_softmax(agent)
    assert steepness == pytest.approx(1.5)
    assert forks.determinism(matched) == pytest.approx(forks.determinism(agent))


def test_a_choice_of_coins_in_a_rare_length_is_void():
    rare = forks.policy_probabilities(maximise_usefulness)
    rare[..., [1, 2, 4]] *= 1e-4
    rare[..., 3] = 1 - rare[..., 4]
    gap = forks.gap(rare)
    assert np.isnan(gap.p_better).all()
    assert not gap.passes().any()
    assert gap.void == {f"no e_s: {forks.RARE}": 1, f"no P(b | long): {forks.RARE}": 1}


def test_a_choice_of_coins_that_are_rarely_taken_is_void():
    no_coins = forks.policy_probabilities(uniform)
    no_coins[..., [1, 2]] *= 0.1
    gap = forks.gap(no_coins)
    assert gap.void == {f"no e_s: {forks.NEITHER}": 1}
    assert gap.numbers()["e_same"] is None


def constant(row):
    """Return the probabilities [S, 1, 5] of a policy that is the same at all coins."""
    return np.repeat([[row]], len(forks.SETTINGS), 0)


LONG, SHORT = constant([0, 1, 0, 0, 1.0]), constant([1, 0, 0, 1, 0.0])


def test_a_policy_decided_by_its_bit_has_a_gap_ex_ante_only():
    perspectives = forks.conditional_probabilities(np.stack((LONG, SHORT)))
    numbers = {title: forks.gap(chances).numbers() for title, chances in perspectives.items()}
    assert numbers[forks.ANTE]["trio"] == 1
    assert numbers["given setting 1"]["trio"] == 0
    assert numbers["given setting 2"]["trio"] == 0
    assert numbers[forks.ANTE]["low"] == forks.RATIOS[0]
    assert numbers[forks.ANTE]["high"] == forks.RATIOS[-1]


def test_a_policy_without_a_bit_has_no_settings():
    assert {*forks.conditional_probabilities(LONG[None])} == {forks.ANTE, forks.SOFTMAX}
