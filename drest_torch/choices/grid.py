"""Menus as gridworlds: each option is a lottery cell, and all are equally far from the agent.

The lotteries lie at the ends of a cross with the agent in its middle. A policy that enters one cannot reach another
before shutdown. A gridworld agent that observes the outcomes of lotteries therefore faces the same menus as a network
that reads menus (`grid_chooser`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from drest_torch.agents.evaluable import EvaluableAgent
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
"""The denominator of rounded chances. Chances with a denominator above 1,000 are rounded, but never to 0."""
DIRECTIONS = (2, 3, 0, 1)
"""The actions that lead to the first, the second, … option: left, right, up, down."""
SYMMETRIES = 8
"""The number of symmetries of a cross."""
MIN_ANSWERED = 0.9
"""The smallest rate of taking any option; below it the agent gives no answer."""
BATCH = 2048
"""Levels that are unrolled together."""


def choice_level(options: Sequence[Sequence[tuple[float, int, float]]], turn: int = 0, name: str = "") -> Level:
    """Return the level of a menu of two to four options, each a list of outcomes (chance, length, coins).

    Lengths are shifted so that the shortest equals the distance to a lottery: one move, or two if the lengths differ by
    2 or 3. ``turn`` is one of the eight symmetries of the cross.
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
    is_floor = np.zeros((size, size), dtype=bool)
    is_floor[away] = is_floor[:, away] = True
    lotteries = []
    for index, action in enumerate(DIRECTIONS):
        down, right = _turned(STEPS[action], turn)
        cells = [(away + step * down, away + step * right) for step in range(1, away + 1)]
        if index >= len(options):
            for cell in cells:
                is_floor[cell] = False
            continue
        outcomes = _outcomes(options[index], shortest)
        lotteries.append(Lottery(*cells[-1], outcomes))
    objects = tuple(sorted(lotteries, key=lambda lottery: (lottery.row, lottery.column)))
    return Level(name, away, tuple(map(tuple, (~is_floor).tolist())), (away, away), objects)


def _turned(step: tuple[int, int], turn: int) -> tuple[int, int]:
    """Return a step (down, right) in one of the eight symmetries."""
    down, right = step
    if turn >= 4:
        down, right = right, down
    for _ in range(turn % 4):
        down, right = right, -down
    return down, right


def _outcomes(option: Sequence[tuple[float, int, float]], shortest: int) -> tuple[LotteryOutcome, ...]:
    """Return the outcomes of a lottery cell, with rounded chances and with lengths as delays."""
    chances = [Fraction(chance).limit_denominator(1000) for chance, _, _ in option]
    if sum(chances) != 1 or not all(chances):
        parts = [max(1, round(chance * DENOMINATOR)) for chance, _, _ in option]
        parts[parts.index(max(parts))] += DENOMINATOR - sum(parts)
        chances = [Fraction(part, DENOMINATOR) for part in parts]
    outcomes = [
        LotteryOutcome(chance, float(coins), length - shortest)
        for chance, (_, length, coins) in zip(chances, option, strict=True)
    ]
    return tuple(sorted(outcomes, key=lambda outcome: (outcome.delay, outcome.coins)))


def random_choice_levels(kind: str, number: int, generator: torch.Generator) -> list[Level]:
    """Return levels of random menus of a kind (`drest_torch.choices.generation.KINDS`), turned at random.

    One level in four has three options. Lengths are replaced by their ranks 1, 2, 3 within the menu.
    """
    levels: list[Level] = []
    for options, share in ((2, number - number // 4), (3, number // 4)):
        menus = random_menus(kind, share, generator, options)
        distinct = torch.where(menus.lengths > 0, menus.lengths, 2**31)[:, None, None]
        rank = (menus.length.unsqueeze(-1) > distinct).sum(-1)
        menus = Menus(menus.chance, torch.where(menus.chance > 0, 1 + rank, 0), menus.coins)
        turns = torch.randint(SYMMETRIES, (share,), generator=generator).tolist()
        for turn, menu in zip(turns, outcome_lists(menus), strict=True):
            rounded = []
            for outcomes in menu:
                rounded.append([(chance, length, round(coins, 2)) for chance, length, coins in outcomes])
            levels.append(choice_level(rounded, turn, f"{kind} {len(levels) + 1}"))
    return levels


def outcome_lists(menus: Menus) -> Iterator[list[list[tuple[float, int, float]]]]:
    """Yield the options of each menu as lists of outcomes; outcomes of the same length and coins are merged."""
    for chances, lengths, coins in zip(menus.chance.tolist(), menus.length.tolist(), menus.coins.tolist(), strict=True):
        options = []
        for row in zip(chances, lengths, coins, strict=True):
            merged: dict[tuple[int, float], float] = {}
            for chance, length, coin in zip(*row, strict=True):
                if chance > 0:
                    merged[int(length), coin] = merged.get((int(length), coin), 0.0) + chance
            if merged:
                options.append([(chance, *place) for place, chance in merged.items()])
        yield options


def agent_option_rates(agent: EvaluableAgent, menus: Menus, turn: int = 0) -> Tensor:
    """Return [Z, B, O] the exact probability of each option under every setting of the agent's private bits.

    NaN if the menu has no gridworld that the agent can read, or if the agent rarely takes any of its options.
    """
    policy = agent_policy(agent)
    num_options = menus.chance.shape[1]
    readable = count_shown_outcomes(agent.features)
    levels, place = [], []
    for index, options in enumerate(outcome_lists(menus)):
        try:
            level = choice_level(options, turn, f"menu {index + 1}")
        except LevelError:
            continue
        if max(map(len, options)) <= readable:
            levels.append(level)
            place.append(index)
    rates = torch.zeros(policy.settings, len(menus), num_options, dtype=torch.float64)
    for first in range(0, len(levels), BATCH):
        batch = levels[first : first + BATCH]
        _, reachable, tables = policy.unrolled(batch)
        cells = [_option_cells(level, turn, num_options) for level in batch]
        rates[:, place[first : first + BATCH]] = entry_rates(reachable, tables, cells)
    total = rates.sum(-1, keepdim=True)
    return torch.where(total >= MIN_ANSWERED, rates / total.clamp_min(MIN_ANSWERED), torch.nan)


def _option_cells(level: Level, turn: int, num_options: int) -> list[tuple[int, int]]:
    """Return the cell of each option's lottery, padded with the agent's own cell."""
    away = level.start[0]
    cells = []
    for action in DIRECTIONS[: len(level.lotteries)]:
        down, right = _turned(STEPS[action], turn)
        cells.append((away + away * down, away + away * right))
    return cells + [level.start] * (num_options - len(cells))


def grid_chooser(agent: EvaluableAgent, turn: int = 0) -> Chooser:
    """Return a gridworld agent as a function from menus to option probabilities, averaged over its private bits."""
    return lambda menus: agent_option_rates(agent, menus, turn).mean(0)
