"""Menus as gridworlds: each option is a lottery cell, equally far from the agent, and entering one takes it.

The lotteries lie at the ends of a cross with the agent in its middle, so that a policy that takes one cannot come to
another before shutdown. An agent of gridworlds that observes the outcomes of lotteries is thereby asked what a network
that reads menus is asked (`grid_chooser`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.choices.adversarial import agent_policy, entry_rates
from drest_torch.choices.generation import random_menus
from drest_torch.choices.menus import Menus
from drest_torch.choices.scripted_policies import Chooser
from drest_torch.envs.actions import STEPS
from drest_torch.envs.levels import Level
from drest_torch.envs.objects import Lottery
from drest_torch.envs.objects.lottery import LotteryOutcome, count_shown_outcomes
from drest_torch.errors import LevelError

DENOMINATOR = 10_000
"""Chances with a larger denominator than 1,000 are rounded to this one, and never to 0."""
DIRECTIONS = (2, 3, 0, 1)
"""The actions that lead to the first, the second, … option: left, right, up, down."""
SYMMETRIES = 8
"""The symmetries of a cross."""
ANSWERS = 0.9
"""An agent that takes an option less often than this does not answer."""
AT_ONCE = 2048


def choice_level(options: Sequence[Sequence[tuple[float, int, float]]], turn: int = 0, name: str = "") -> Level:
    """Return the level of a menu of two to four options, each a list of outcomes (chance, length, coins).

    Lengths are shifted so that the shortest is the way to a lottery: one move, or two if the lengths differ by 2 or 3.
    ``turn`` is one of the eight symmetries of the cross.
    """
    if not 2 <= len(options) <= len(DIRECTIONS):
        raise LevelError(f"the menu '{name}' has {len(options)} options; expected two to four for a gridworld")
    lengths = [length for option in options for _, length, _ in option]
    shortest, spread = min(lengths), max(lengths) - min(lengths)
    away = 1 + spread // 2
    if away > 2:
        raise LevelError(
            f"the menu '{name}' has lengths from {shortest} to {shortest + spread}; expected at most 3 between them "
            "in a gridworld"
        )
    size = 2 * away + 1
    walls = [[row != away and column != away for column in range(size)] for row in range(size)]
    lotteries = []
    for index, arm in enumerate(DIRECTIONS):
        down, right = _turned(STEPS[arm], turn)
        cells = [(away + step * down, away + step * right) for step in range(1, away + 1)]
        if index >= len(options):
            for row, column in cells:
                walls[row][column] = True
            continue
        outcomes = _outcomes(options[index], shortest)
        lotteries.append(Lottery(*cells[-1], outcomes))
    objects = tuple(sorted(lotteries, key=lambda each: (each.row, each.column)))
    return Level(name, away, tuple(map(tuple, walls)), (away, away), objects)


def _turned(step: tuple[int, int], turn: int) -> tuple[int, int]:
    down, right = step if turn < 4 else (step[1], step[0])
    for _ in range(turn % 4):
        down, right = right, -down
    return down, right


def _outcomes(option: Sequence[tuple[float, int, float]], shortest: int) -> tuple[LotteryOutcome, ...]:
    chances = [Fraction(chance).limit_denominator(1000) for chance, _, _ in option]
    if sum(chances) != 1 or not all(chances):
        parts = [max(1, round(chance * DENOMINATOR)) for chance, _, _ in option]
        parts[parts.index(max(parts))] += DENOMINATOR - sum(parts)
        chances = [Fraction(part, DENOMINATOR) for part in parts]
    outcomes = [
        LotteryOutcome(chance, float(coins), length - shortest)
        for chance, (_, length, coins) in zip(chances, option, strict=True)
    ]
    return tuple(sorted(outcomes, key=lambda each: (each.delay, each.coins)))


def random_choice_levels(kind: str, number: int, generator: torch.Generator) -> list[Level]:
    """Return levels of random menus of a kind (`drest_torch.choices.generation.KINDS`), turned at random.

    One in four has three options. Lengths are those of the menu in the same order, but 1, 2 and 3 apart.
    """
    levels: list[Level] = []
    for options, share in ((2, number - number // 4), (3, number // 4)):
        menus = random_menus(kind, share, generator, options)
        rank = (menus.length.unsqueeze(-1) > torch.where(menus.lengths > 0, menus.lengths, 2**31)[:, None, None]).sum(
            -1
        )
        menus = Menus(menus.chance, torch.where(menus.chance > 0, 1 + rank, 0), menus.coins)
        turns = torch.randint(SYMMETRIES, (share,), generator=generator).tolist()
        for turn, option in zip(turns, outcome_lists(menus), strict=True):
            rounded = [[(chance, length, round(coins, 2)) for chance, length, coins in each] for each in option]
            levels.append(choice_level(rounded, turn, f"{kind} {len(levels) + 1}"))
    return levels


def outcome_lists(menus: Menus) -> Iterator[list[list[tuple[float, int, float]]]]:
    """Yield the options of each menu as lists of outcomes, those alike in length and coins together."""
    for chances, lengths, coins in zip(menus.chance.tolist(), menus.length.tolist(), menus.coins.tolist(), strict=True):
        found = []
        for row in zip(chances, lengths, coins, strict=True):
            merged: dict[tuple[int, float], float] = {}
            for chance, length, coin in zip(*row, strict=True):
                if chance > 0:
                    merged[int(length), coin] = merged.get((int(length), coin), 0.0) + chance
            if merged:
                found.append([(chance, *place) for place, chance in merged.items()])
        yield found


def taken(agent: Agent, menus: Menus, turn: int = 0) -> Tensor:
    """Return [Z, B, O] how often each option is taken under every setting of the agent's private bits, exactly.

    NaN where a menu cannot be a gridworld that the agent reads, or where the agent rarely takes any of its options.
    """
    asked, most = agent_policy(agent), menus.chance.shape[1]
    shown, levels, place = count_shown_outcomes(agent.features), [], []
    for index, options in enumerate(outcome_lists(menus)):
        try:
            level = choice_level(options, turn, f"menu {index + 1}")
        except LevelError:
            continue
        if max(map(len, options)) <= shown:
            levels.append(level)
            place.append(index)
    found = torch.zeros(asked.settings, len(menus), most, dtype=torch.float64)
    for first in range(0, len(levels), AT_ONCE):
        part = levels[first : first + AT_ONCE]
        _, reachable, tables = asked.unrolled(part)
        cells = [_cells(level, turn, most) for level in part]
        found[:, place[first : first + AT_ONCE]] = entry_rates(reachable, tables, cells)
    total = found.sum(-1, keepdim=True)
    return torch.where(total >= ANSWERS, found / total.clamp_min(ANSWERS), torch.nan)


def _cells(level: Level, turn: int, most: int) -> list[tuple[int, int]]:
    """Return the cell of each option's lottery; that of the agent for those that a menu has less than others."""
    away = level.start[0]
    turned = [_turned(STEPS[arm], turn) for arm in DIRECTIONS[: len(level.lotteries)]]
    return [(away + away * down, away + away * right) for down, right in turned] + [level.start] * (most - len(turned))


def grid_chooser(agent: Agent, turn: int = 0) -> Chooser:
    """Return an agent of gridworlds as a function from menus to the probabilities of their options, bits unknown."""
    return lambda menus: taken(agent, menus, turn).mean(0)
