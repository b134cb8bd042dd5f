"""Menus as gridworlds: choices and objectives agree with those in the menus."""

import itertools
from collections import Counter
from typing import NamedTuple

import pytest
import torch

from drest_torch.algos.objectives import base, drest, neutrality_plus, supports
from drest_torch.choices import grid, measures
from drest_torch.choices.generation import KINDS, random_menus
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.passing import ByLottery, entered
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Lottery, parse_level
from drest_torch.errors import LevelError
from drest_torch.reward import Reward
from tests.helpers.simulator import ACTIONS, Simulator, outcomes

E, LAM = 24, 0.9


def choosing(reachable, levels, rates):
    """Return the policy that takes each option with its probability, by walking straight to it."""
    table = torch.zeros(len(reachable), 4, dtype=torch.float64)
    mdp = reachable.mdp
    for index, spot in enumerate(reachable.states.spot.tolist()):
        level, cell = divmod(spot, mdp.num_cells)
        row, column = divmod(cell, mdp.width)
        start = levels[level].start
        if (row, column) == start:
            table[index, list(grid.DIRECTIONS[: rates.shape[1]])] = rates[level]
        else:
            table[index, 2 if column < start[1] else 3 if column > start[1] else 0] = 1
    return table


def menu_of(level):
    """Return the menu of a level with two options, with rounded chances."""
    options = []
    for lottery in sorted(level.lotteries, key=lambda lottery: lottery.column):
        options.append(Option.of(*((o.chance, 1 + o.delay, o.coins) for o in lottery.outcomes)))
    return Menu(tuple(options))


class MenuWorlds(NamedTuple):
    """Random menus, their gridworlds, and a policy in both."""

    menus: Menus
    reachable: Reachable
    logits: torch.Tensor
    rates: torch.Tensor
    """[B, 2] the probabilities of options."""
    table: torch.Tensor
    """[N, 4] the action probabilities in gridworlds."""


@pytest.fixture(params=KINDS)
def worlds(request):
    """Return the gridworlds of random menus of a kind, with a random policy."""
    menus = random_menus(request.param, 40, torch.Generator().manual_seed(3))
    rank = (menus.length.unsqueeze(-1) > torch.where(menus.lengths > 0, menus.lengths, 99)[:, None, None]).sum(-1)
    menus = Menus(menus.chance, torch.where(menus.chance > 0, 1 + rank, 0), menus.coins)
    levels = [grid.choice_level(options) for options in grid.outcome_lists(menus)]
    reachable = Reachable(compile_levels(levels))
    logits = torch.randn(len(levels), 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    rates = logits.requires_grad_().softmax(-1)
    menus = Menus.of([menu_of(level) for level in levels])
    return MenuWorlds(menus, reachable, logits, rates, choosing(reachable, levels, rates))


def by_luck(menus):
    """Return True for menus with an option of several outcomes."""
    return (menus.chance > 0).sum(-1).amax(-1) > 1


def test_a_gridworld_offers_the_options_of_its_menu(worlds):
    menus, optima = worlds.menus, solve(worlds.reachable.mdp)
    assert worlds.reachable.mdp.by_luck.tolist() == by_luck(menus).tolist()
    assert optima.num_lengths.tolist() == menus.num_lengths.tolist()
    assert torch.allclose(optima.best_return, menus.best)


def test_a_policy_has_the_lengths_of_its_choices_in_the_menu(worlds):
    lengths = worlds.reachable.propagate(worlds.table)
    probability, coins = measures.lengths(worlds.menus, worlds.rates)
    assert torch.allclose(lengths.probability, probability)
    assert torch.allclose(lengths.coins, coins)


@pytest.mark.parametrize("credit", ["mini", "meta"])
def test_gradients_of_objectives_agree_with_menus(worlds, credit):
    menus, reachable, logits, rates, table = worlds
    optima = solve(reachable.mdp)
    arrivals, lotteries = reachable.arrivals(table), ByLottery(reachable)
    outcome = base.PolicyOutcome(
        *(arrivals.probability, arrivals.coins, optima.best_return, optima.num_lengths),
        *(by_luck(menus), Reward(LAM, 1.0, E), credit),
        lambda: (lotteries.entered(table).unsqueeze(0), lotteries.probability, lotteries.coins),
        divergence=None,  # not part of these objectives
    )
    paid = measures.drest_value(menus, rates, E, LAM, credit=credit) / E
    flat = measures.neutrality_plus(menus, rates)
    grouped = measures.supports_value(menus, rates, E, LAM, credit=credit) / E
    luck, everywhere = (neutrality_plus.Config(name="neutrality_plus", where=where) for where in ("luck", "everywhere"))
    for objective, expected in (
        (drest.Objective(None), paid),
        (neutrality_plus.Objective(luck), torch.where(by_luck(menus), flat, paid)),
        (neutrality_plus.Objective(everywhere), flat),
        (
            supports.Objective(supports.Config(name="supports", given_bits=False)),
            torch.where(by_luck(menus), grouped, paid),
        ),
    ):
        value = objective.value(outcome)
        assert torch.allclose(value, expected, atol=1e-6)
        (gradient,) = torch.autograd.grad(value.sum(), logits, retain_graph=True)
        (expected_gradient,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
        assert torch.allclose(gradient, expected_gradient, atol=1e-6)


def lotteries_by_hand(level, only):
    """Return the chance of each length, and the mean coins, given that random moves enter this lottery alone."""
    chance, coins = Counter(), Counter()

    def play(state, probability, total):
        if state.done:
            if not state.present[level.objects.index(level.lotteries[only])]:
                chance[state.ticks] += probability
                coins[state.ticks] += probability * total
            return
        moves = [action for action in ACTIONS if level.clock == "steps" or not state.is_bump(action)]
        for action in moves:
            if not isinstance(ahead := state.ahead(action), Lottery) or ahead == level.lotteries[only]:
                for luck, after, collected in outcomes(state, action):
                    play(after, probability * float(luck) / len(moves), total + collected)

    play(Simulator(level), 1.0, 0.0)
    return {l: p / chance.total() for l, p in chance.items()}, {l: coins[l] / p for l, p in chance.items()}


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_lengths_given_a_single_lottery_agree_with_enumeration(clock):
    texts = [
        "lottery a: 1/2 C2 +0 | 1/2 C4 +2\nlottery b: 1 C3 +1\nLa . A . Lb",
        "lottery a: 1/2 C2 +0 | 1/2 C4 +2\nlottery b: 1/3 C3 +1 | 2/3 C1 -1\nLa # .\n. A Lb\nC1 . .",
    ]
    levels = [parse_level(f"shutdown: 3\nclock: {clock}\n{text}", name=f"level {i}") for i, text in enumerate(texts)]
    lotteries = ByLottery(Reachable(compile_levels(levels)))
    lengths = lotteries.reachable.lengths
    for (index, level), only in itertools.product(enumerate(levels), range(2)):
        expected = lotteries_by_hand(level, only)
        for values, by_length in zip((lotteries.probability, lotteries.coins), expected, strict=True):
            by_column = [by_length.get(length, 0.0) for length in lengths[index].tolist()]
            assert values[only, index].tolist() == pytest.approx(by_column), (level.name, only)


@pytest.mark.parametrize("turn", range(grid.SYMMETRIES))
def test_a_cross_is_turned_with_its_options(turn):
    options = [[(1.0, 3, 2.0)], [(1.0, 4, 3.0)], [(0.5, 3, 1.0), (0.5, 4, 4.0)]]
    level = grid.choice_level(options, turn)
    lotteries = {(lottery.row, lottery.column): lottery for lottery in level.lotteries}
    ordered = [lotteries[cell] for cell in grid._option_cells(level, turn, 4)[:3]]
    outcomes_of_options = []
    for lottery in ordered:
        outcomes_of_options.append([(float(o.chance), 3 + o.delay, o.coins) for o in lottery.outcomes])
    assert outcomes_of_options == options
    assert len({str(grid.choice_level(options, other).objects) for other in range(grid.SYMMETRIES)}) == 8


def test_only_one_lottery_can_be_entered():
    levels = grid.random_choice_levels("shared", 60, torch.Generator().manual_seed(0))
    reachable = Reachable(compile_levels(levels))
    uniform = torch.full((len(reachable), 4), 0.25, dtype=torch.float64)
    total = entered(reachable, uniform).reshape(len(levels), -1).sum(-1)
    none = 1 - ByLottery(reachable).entered(uniform).sum(0)
    assert (total <= 1 + 1e-12).all()
    assert torch.allclose(total + none, torch.ones_like(total))
    assert (none < 1).all()


def test_a_menu_of_distant_lengths_is_refused():
    with pytest.raises(LevelError, match="lengths from 1 to 6; expected at most 3 between them"):
        grid.choice_level([[(1.0, 1, 1.0)], [(1.0, 6, 1.0)]], name="far")


def test_a_menu_of_a_single_option_is_refused():
    with pytest.raises(LevelError, match="1 options; expected two to four"):
        grid.choice_level([[(1.0, 1, 1.0)]])
