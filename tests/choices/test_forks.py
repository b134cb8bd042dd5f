"""Forks, and what choices in them come to: against enumeration, and in closed form."""

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


def test_the_forks_are_of_three_families_and_all_different():
    several = designs()
    names = [design.name.rpartition(" ")[0] or "cross" for design in several]
    assert Counter(names) == {"cross": 8, "open floor": 16, "walls and detours": 16}
    # Each has two lengths, and lets an agent collect what a fork does and nothing more: the shorter length first.
    for values, most in (((1, 2, 4), [1, 4]), ((1, 4, 2), [1, 4]), ((8, 2, 4), [8, 4])):
        assert all([*searched_optima(with_coins(design, values), 1.0).values()] == most for design in several)
    assert len({canonical_key(design) for design in several[8:]}) == 32


def test_probabilities_of_options_against_enumeration():
    def tables(level_set, reachable):
        generator = torch.Generator().manual_seed(0)
        return [torch.rand(len(reachable), 4, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2)]

    asked, several = replace(scripted_policy("uniform"), tables=tables), designs()
    found = measure(asked)
    assert found.shape == (2, len(forks.SETTINGS), len(several), 5)
    levels = [with_coins(design, values) for values in forks.SETTINGS for design in several]
    # The coins that are collected are those of the options: E[C] is the same whichever way it is counted.
    values = np.empty((len(levels), len(MARKS)))
    for row, level, design in zip(values, levels, several * len(forks.SETTINGS), strict=True):
        at = {(coin.row, coin.column): coin.value for coin in level.coins}
        row[:] = [at[coin.row, coin.column] for coin in sorted(design.coins, key=lambda coin: MARKS.index(coin.value))]
    _, reachable, of_settings = asked.unrolled(levels)
    for setting, table in enumerate(of_settings):
        outcome = reachable.propagate(table)
        by_level = found[setting].reshape(len(levels), 5)
        np.testing.assert_allclose(by_level[:, 3:], outcome.probability.numpy())
        expected = (outcome.probability * outcome.coins).numpy()
        np.testing.assert_allclose(by_level[:, 0] * values[:, 0], expected[:, 0], atol=1e-15)
        np.testing.assert_allclose((by_level[:, 1:3] * values[:, 1:]).sum(-1), expected[:, 1], atol=1e-15)


@pytest.mark.parametrize("steepness", [0.3, 1.0, 4.0])
def test_a_softmax_of_coins_has_no_gap(steepness):
    found = forks.gap(forks.policy_probabilities(forks.softmax(steepness)))
    # At coins of 2, d logit / d ln = steepness · d coins / d ln = 2 · steepness.
    assert [*found.same, *found.cross] == pytest.approx([2 * steepness] * 2, rel=1e-3)
    assert found.ratio == pytest.approx(1, abs=1e-3)
    assert not found.passes().any()


def balanced(menus, lam, episodes):
    """The best coin of a length, and the length at the balance of coins that are not divided by m."""
    coins = menus.gain.sum(-1)
    most = coins[:, 1:].amax(-1, keepdim=True)
    p, best = balance(coins[:, :1], most, lam, episodes), coins[:, 1:] == most
    return torch.cat((1 - p, p * best / best.sum(-1, keepdim=True)), -1)


@pytest.mark.parametrize(("episodes", "slope", "end"), [(64, 0.594, 20.0), (32, 1.22, 4.36)])
def test_coins_that_are_not_divided_move_the_length_as_predicted(episodes, slope, end):
    found = forks.gap(forks.policy_probabilities(partial(balanced, lam=0.9, episodes=episodes)))
    assert found.cross.item() == pytest.approx(slope, rel=0.01)
    assert found.high.item() == pytest.approx(end, rel=0.15)  # between two ratios that differ by 1.8
    assert found.low.item() == pytest.approx(1 / found.high.item(), rel=1e-3)
    assert value_for(0.95, 0.9, episodes) == pytest.approx(end, rel=0.05)
    assert found.passes().all()  # for the binary trio this is a gap, too
    assert found.void == {f"no e_s: {forks.NEVER}": 1}
    assert math.isnan(found.ratio)


def test_archetypes_and_the_control_that_is_as_deterministic_as_an_agent():
    even, coins, useful = (
        forks.gap(forks.policy_probabilities(chooser)) for chooser in (uniform, maximise_coins, maximise_usefulness)
    )
    assert even.same.item() == even.cross.item() == useful.cross.item() == 0
    assert np.isnan([coins.same.item(), coins.cross.item()]).all()
    assert coins.void == {f"no e_s: {forks.NEVER}": 1, f"no e_x: {forks.NEVER}": 1}
    assert useful.passes().all()
    agent = forks.policy_probabilities(forks.softmax(1.5))
    steepness, softened = forks.matched_softmax(agent)
    assert steepness == pytest.approx(1.5)
    assert forks.determinism(softened) == pytest.approx(forks.determinism(agent))


def test_a_choice_that_is_hardly_ever_made_is_void():
    rare = forks.policy_probabilities(maximise_usefulness)
    rare[..., [1, 2, 4]] *= 1e-4
    rare[..., 3] = 1 - rare[..., 4]
    found = forks.gap(rare)
    assert np.isnan(found.p_better).all()
    assert not found.passes().any()
    assert found.void == {f"no e_s: {forks.RARE}": 1, f"no P(b | long): {forks.RARE}": 1}
    nothing = forks.policy_probabilities(uniform)
    nothing[..., [1, 2]] *= 0.1
    found = forks.gap(nothing)
    assert found.void == {f"no e_s: {forks.NEITHER}": 1}
    assert found.numbers()["e_same"] is None


def test_numbers_before_and_after_the_private_bit():
    long, short = (np.repeat([row], len(forks.SETTINGS), 0) for row in ([[0, 1, 0, 0, 1.0]], [[1, 0, 0, 1, 0.0]]))
    found = {
        where: forks.gap(each).numbers()
        for where, each in forks.conditional_probabilities(np.stack((long, short))).items()
    }
    trio = {where: each["trio"] for where, each in found.items() if where != forks.SOFTMAX}
    assert trio == {forks.ANTE: 1, "given setting 1": 0, "given setting 2": 0}
    assert (found[forks.ANTE]["low"], found[forks.ANTE]["high"]) == (forks.RATIOS[0], forks.RATIOS[-1])
    assert {*forks.conditional_probabilities(long[None])} == {forks.ANTE, forks.SOFTMAX}
