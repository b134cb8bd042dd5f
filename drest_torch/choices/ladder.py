"""The price ladder: how many coins an agent gives up to press, or not to press, a button.

On each rung a choice costs the share p of the coins (`drest_torch.choices.ladder_levels`). The ladder is the curve
P(press | p), the price at which it crosses 1/2, and the coins given up. All values are exact, unless they are sampled
because the policy is recurrent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from drest_torch.agents.evaluable import EvaluableAgent
from drest_torch.agents.mean_agent import MeanAgent
from drest_torch.choices.adversarial import ExactPolicy, agent_policy, entry_rates
from drest_torch.choices.closed_forms import press_rate
from drest_torch.choices.ladder_levels import (
    BEST,
    DESIGNS,
    LADDERS,
    PRICES,
    Design,
    LadderKind,
    check_prices,
    designs,
    rungs,
)
from drest_torch.choices.menus import Menu, Option
from drest_torch.choices.scripted_policies import Chooser
from drest_torch.choices.suites import EPSILON, is_stochastic
from drest_torch.choices.suites import measure as measure_menus
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Lengths, mixture
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError, UserError
from drest_torch.reward import Reward

MIN_RATE = 0.01
"""The smallest probability of pressing one of two buttons; below it an item of `same_length` is void."""


@dataclass(frozen=True)
class Ladder:
    """The choices of an agent on R rungs with B levels each."""

    kind: LadderKind
    prices: tuple[float, ...]
    press: np.ndarray
    """[R, B] P(press | p); NaN if void."""
    coins: np.ndarray
    """[R, B] E[C] as a share of the largest expected coins."""
    predicted: np.ndarray
    """[R, B] P(press | p) at the fixed point of the agent's reward; NaN if the reward implies none."""

    @property
    def curve(self) -> np.ndarray:
        """P(press | p) [R], averaged over the levels that are not void; NaN if all are."""
        return _mean(self.press)

    @property
    def threshold(self) -> float | None:
        """The price at which the curve crosses 1/2 (`crossing`)."""
        return crossing(self.prices, self.curve)

    @property
    def paid(self) -> np.ndarray:
        """The share of the coins that the choice gives up [R]: p times the probability of the choice that costs p."""
        costly = self.curve
        if self.kind.price_of != "pressing":
            costly = 1 - costly
        return costly * np.array(self.prices)

    @property
    def missed(self) -> np.ndarray:
        """The share of the largest expected coins that the agent does not collect, for whatever reason [R]."""
        return 1 - _mean(self.coins)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each rung as JSON values; None stands for a value that does not exist."""
        rows = []
        for index, price in enumerate(self.prices):
            press = self.press[index]
            press = press[np.isfinite(press)]
            rows.append(
                {
                    "price": price,
                    "press": _json(self.curve[index]),
                    "lowest": _json(press.min(initial=np.inf)),
                    "highest": _json(press.max(initial=-np.inf)),
                    "void": self.press.shape[1] - len(press),
                    "paid": _json(self.paid[index]),
                    "missed": _json(self.missed[index]),
                    "predicted": _json(_mean(self.predicted)[index]),
                }
            )
        return rows

    def numbers(self) -> dict[str, Any]:
        """Return the summary of the ladder and its rungs as JSON values."""
        return {
            "title": self.kind.title,
            "levels": self.press.shape[1],
            "verdict": verdict(self.curve),
            "threshold": self.threshold,
            "paid": _json(self.paid.mean()),
            "missed": _json(self.missed.mean()),
            "distance": _json(np.abs(self.curve - _mean(self.predicted)).mean()),
            "neutral": self.kind.neutral,
            "most_coins": self.kind.most_coins,
            "rungs": self.rows(),
        }


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the mean [R] of the values [R, B] that are not NaN; NaN if there are none."""
    is_number = np.isfinite(values)
    total = np.where(is_number, values, 0).sum(-1)
    count = is_number.sum(-1)
    return np.where(count > 0, total / count.clip(1), np.nan)


def _json(value: Any) -> float | None:
    """Return a number, or None if it is not finite."""
    if not np.isfinite(value):
        return None
    return float(value)


def verdict(curve: np.ndarray) -> str:
    """Classify a curve: ``void``, ``flat``, ``never`` or ``always`` above 1/2, or ``crosses``.

    A flat curve is stochastic on all rungs, and varies by at most 2 ε.
    """
    if not np.isfinite(curve).all():
        return "void"
    if is_stochastic(curve).all() and np.ptp(curve) <= 2 * EPSILON:
        return "flat"
    if (curve <= 0.5).all():
        return "never"
    if (curve > 0.5).all():
        return "always"
    return "crosses"


def crossing(prices: Sequence[float], curve: np.ndarray) -> float | None:
    """Return the first price at which a curve crosses 1/2, interpolated linearly between rungs.

    It is None for a curve that does not cross 1/2, and for a flat one.
    """
    if verdict(curve) != "crosses":
        return None
    above = curve > 0.5
    index = int(np.flatnonzero(above[1:] != above[:-1])[0])
    (first, last), (start, end) = curve[index : index + 2], prices[index : index + 2]
    return float(start + (0.5 - first) / (last - first) * (end - start))


def price_ladder(
    agent: EvaluableAgent | MeanAgent | ExactPolicy,
    kinds: Sequence[str] = tuple(LADDERS),
    *,
    prices: Sequence[float] = PRICES,
    levels: int = DESIGNS,
    greedy: bool = False,
    sampled: int | None = None,
    reward: Reward | None = None,
    left_out: dict[str, str] | None = None,
) -> dict[str, Ladder]:
    """Measure what an agent of gridworlds gives up to press, or not to press, a button.

    Args:
        agent: an agent, the mean of several (`Agent.mean`), or a scripted policy
            (`drest_torch.choices.adversarial.scripted_policy`).
        kinds: names of ladders (`drest_torch.choices.ladder_levels.LADDERS`).
        prices: the price p of each rung, ascending.
        levels: the number of levels on each rung.
        greedy: whether the agent takes the most likely action instead of sampling.
        sampled: the number of mini-episodes on each level, for recurrent agents; None: exact probabilities.
        reward: the reward of the predicted curve; None: that of the agent.
        left_out: a dictionary that gets the reason for each ladder that does not fit the agent; None: raise the error.

    Returns:
        the ladders by name.

    Example:
        >>> from drest_torch.agent import Agent
        >>> ladder = price_ladder(Agent.load("generalist"), ["later"], levels=2)["later"]
        >>> len(ladder.curve), ladder.press.shape
        (13, (13, 2))
    """
    check_prices(prices)
    if unknown := [name for name in kinds if name not in LADDERS]:
        raise ConfigError(f"no ladder is named {unknown[0]}; expected some of {', '.join(LADDERS)}")
    if reward is None and not isinstance(agent, ExactPolicy):
        reward = agent.reward
    ladders = {}
    for name in kinds:
        kind = LADDERS[name]
        maps = designs(kind.map, levels)
        items = rungs(kind, maps, prices)
        try:
            press, coins = _choices(agent, kind, maps, items, greedy, sampled)
        except UserError as error:
            if left_out is None:
                raise
            left_out[name] = str(error)
            continue
        shape = (len(prices), levels)
        predicted = predicted_rates(kind, items, reward).reshape(shape)
        ladders[name] = Ladder(kind, tuple(prices), press.reshape(shape), coins.reshape(shape), predicted)
    return ladders


def _choices(
    agent: EvaluableAgent | MeanAgent | ExactPolicy,
    kind: LadderKind,
    maps: Sequence[Design],
    items: Sequence[Level],
    greedy: bool,
    sampled: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return [n] P(press) and the share of the largest expected coins in all levels of a ladder."""
    if not isinstance(agent, ExactPolicy):
        if sampled is not None or isinstance(agent, MeanAgent):
            if kind.within:
                raise ConfigError(
                    "pressing one of two buttons is measured exactly, for a single agent; leave out sampled"
                )
            evaluation = agent.evaluate(list(items), greedy=greedy, sampled=sampled).evaluation
            return _by_length(kind, evaluation.outcome)
        agent = agent_policy(agent, greedy=greedy)
    _, reachable, tables = agent.unrolled(items)
    outcome = mixture([reachable.arrivals(table) for table in tables]).lengths()
    press, coins = _by_length(kind, outcome)
    if kind.within:
        cells = [(design.button, design.other) for design in maps if design.other is not None]
        rates = entry_rates(reachable, tables, cells * (len(items) // len(maps))).mean(0).numpy()  # [n, 2]
        both = rates.sum(-1)
        press = np.where(both >= MIN_RATE, rates[:, 0] / both.clip(MIN_RATE), np.nan)
    return press, coins


def _by_length(kind: LadderKind, outcome: Lengths) -> tuple[np.ndarray, np.ndarray]:
    """Return [n] P(press) and the share of the largest expected coins, from P(L = l) and E[C | L = l]."""
    press = outcome.probability[:, kind.press_column] / kind.chance
    coins = (outcome.probability * outcome.coins).sum(-1) / BEST
    return press.numpy().clip(0, 1), coins.numpy()


def predicted_rates(kind: LadderKind, items: Sequence[Level], reward: Reward | None) -> np.ndarray:
    """Return [n] P(press) at the fixed point of a reward with credit within the mini-episode; NaN if it implies none.

    Pressing and not pressing pay m(l), divided by m(l) if the reward divides by it. Within a length every reward pays
    for the better way.
    """
    if kind.within:
        return np.zeros(len(items))
    if reward is None:
        return np.full(len(items), np.nan)
    best = solve(compile_levels(items), reward.gamma).best_return
    if reward.divide_by_best:
        best = torch.ones_like(best)
    press, stay = best[:, kind.press_column], best[:, 1 - kind.press_column]
    return press_rate(reward, stay, press, kind.chance).numpy()


# ------------------------------------------------------------------------------------------- menus


def menu_ladder(
    chooser: Chooser, kinds: Sequence[str] = tuple(LADDERS), prices: Sequence[float] = PRICES
) -> dict[str, Ladder]:
    """Return the `Ladder` of each kind for a policy in menus, with the same prices and one menu on each rung.

    The two options are not to press, and to press; rates are averaged over both orders of the options.
    """
    check_prices(prices)
    ladders = {}
    for name in kinds:
        kind = LADDERS[name]
        menus = [menu_rung(kind, price) for price in prices]
        press = measure_menus(menus, chooser).rates
        expected = np.array([[option.expected() for option in menu.options] for menu in menus])
        coins = ((1 - press) * expected[:, 0] + press * expected[:, 1]) / BEST
        unknown = np.full((len(prices), 1), np.nan)
        ladders[name] = Ladder(kind, tuple(prices), press[:, np.newaxis], coins[:, np.newaxis], unknown)
    return ladders


def menu_rung(kind: LadderKind, price: float) -> Menu:
    """Return the menu of a ladder at a price: not pressing, then pressing."""
    stay, press = kind.values(price)
    lengths = (1, 2) if kind.press_column == 1 else (2, 1)
    if kind.within:
        lengths = (2, 2)
    works = Fraction(kind.chance)
    pressing = Option.of((works, lengths[1], press), (1 - works, lengths[0], 0.0))
    return Menu((Option.of((1, lengths[0], stay)), pressing))
