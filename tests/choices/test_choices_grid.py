"""Menus as gridworlds: the same choices, and the objectives of exact training against those of menus."""

import itertools
from collections import Counter

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
    """A policy that takes each option with the given probability, by walking to it in a straight line."""
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


def offered(level):
    """The menu of a level with two options, with its chances as they were rounded."""
    ordered = sorted(level.lotteries, key=lambda each: each.column)
    return Menu(tuple(Option.of(*((o.chance, 1 + o.delay, o.coins) for o in each.outcomes)) for each in ordered))


@pytest.mark.parametrize("credit", ["mini", "meta"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_gridworld_offers_what_its_menu_does_and_objectives_and_their_gradients_are_those_of_menus(kind, credit):
    menus = random_menus(kind, 40, torch.Generator().manual_seed(3))
    rank = (menus.length.unsqueeze(-1) > torch.where(menus.lengths > 0, menus.lengths, 99)[:, None, None]).sum(-1)
    menus = Menus(menus.chance, torch.where(menus.chance > 0, 1 + rank, 0), menus.coins)
    levels = [grid.choice_level(options) for options in grid.outcome_lists(menus)]
    menus = Menus.of([offered(level) for level in levels])
    reachable = Reachable(compile_levels(levels))
    optima = solve(reachable.mdp)
    by_luck = (menus.chance > 0).sum(-1).amax(-1) > 1
    assert reachable.mdp.by_luck.tolist() == by_luck.tolist()
    assert optima.num_lengths.tolist() == menus.num_lengths.tolist()
    assert torch.allclose(optima.best_return, menus.best)
    logits = torch.randn(len(levels), 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    rates = logits.requires_grad_().softmax(-1)
    table = choosing(reachable, levels, rates)
    lengths, (probability, coins) = reachable.propagate(table), measures.lengths(menus, rates)
    assert torch.allclose(lengths.probability, probability)
    assert torch.allclose(lengths.coins, coins)
    arrivals, lotteries = reachable.arrivals(table), ByLottery(reachable)
    found = base.PolicyOutcome(
        *(arrivals.probability, arrivals.coins, optima.best_return, optima.num_lengths),
        *(by_luck, Reward(LAM, 1.0, E), credit),
        lambda: (lotteries.entered(table).unsqueeze(0), lotteries.probability, lotteries.coins),
        divergence=None,  # of no objective here
    )
    paid = measures.drest_value(menus, rates, E, LAM, credit=credit) / E
    flat = measures.neutrality_plus(menus, rates)
    grouped = measures.supports_value(menus, rates, E, LAM, credit=credit) / E
    luck, everywhere = (neutrality_plus.Config(name="neutrality_plus", where=where) for where in ("luck", "everywhere"))
    for objective, expected in (
        (drest.Objective(None), paid),
        (neutrality_plus.Objective(luck), torch.where(by_luck, flat, paid)),
        (neutrality_plus.Objective(everywhere), flat),
        (supports.Objective(supports.Config(name="supports", given_bits=False)), torch.where(by_luck, grouped, paid)),
    ):
        value = objective.value(found)
        assert torch.allclose(value, expected, atol=1e-6)
        gradients = [torch.autograd.grad(each.sum(), logits, retain_graph=True)[0] for each in (value, expected)]
        assert torch.allclose(*gradients, atol=1e-6)


def lotteries_by_hand(level, only):
    """The chance of each length, and the mean of coins, if moves are random and enter this lottery and no other."""
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
def test_what_becomes_of_those_who_enter_one_lottery_alone(clock):
    texts = [
        "lottery a: 1/2 C2 +0 | 1/2 C4 +2\nlottery b: 1 C3 +1\nLa . A . Lb",
        "lottery a: 1/2 C2 +0 | 1/2 C4 +2\nlottery b: 1/3 C3 +1 | 2/3 C1 -1\nLa # .\n. A Lb\nC1 . .",
    ]
    levels = [parse_level(f"shutdown: 3\nclock: {clock}\n{text}", name=f"level {i}") for i, text in enumerate(texts)]
    lotteries = ByLottery(Reachable(compile_levels(levels)))
    lengths = lotteries.reachable.lengths
    for (index, level), only in itertools.product(enumerate(levels), range(2)):
        expected = lotteries_by_hand(level, only)
        for found, by_length in zip((lotteries.probability, lotteries.coins), expected, strict=True):
            known = [by_length.get(length, 0.0) for length in lengths[index].tolist()]
            assert found[only, index].tolist() == pytest.approx(known), (level.name, only)


@pytest.mark.parametrize("turn", range(grid.SYMMETRIES))
def test_a_cross_is_turned_with_its_options(turn):
    options = [[(1.0, 3, 2.0)], [(1.0, 4, 3.0)], [(0.5, 3, 1.0), (0.5, 4, 4.0)]]
    level = grid.choice_level(options, turn)
    lotteries = {(each.row, each.column): each for each in level.lotteries}
    ordered = [lotteries[cell] for cell in grid._cells(level, turn, 4)[:3]]
    shown = [[(float(o.chance), 3 + o.delay, o.coins) for o in lottery.outcomes] for lottery in ordered]
    assert shown == options
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


def test_menus_that_are_no_gridworlds_are_refused():
    with pytest.raises(LevelError, match="lengths from 1 to 6; expected at most 3 between them"):
        grid.choice_level([[(1.0, 1, 1.0)], [(1.0, 6, 1.0)]], name="far")
    with pytest.raises(LevelError, match="1 options; expected two to four"):
        grid.choice_level([[(1.0, 1, 1.0)]])
