"""Where training is predicted to come to rest for a divisor, and what agents did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.metrics import neutrality
from drest_torch.report.tables import grid, select, spread, values
from drest_torch.theory import balance

if TYPE_CHECKING:
    from drest_torch.studies.unknown_m.study import Config

MEASURES = ("neutrality", "usefulness")
MARK = 0.99
"""A mean of at least so much is high."""
FAIRLY = 0.9
"""A mean of at least so much is still fairly high."""


@dataclass(frozen=True)
class Variant:
    """The divisor of coins."""

    label: str
    divisor: str = "best"
    shorter: float = 1.0
    longer: float = 1.0
    """Factors of m, for the shorter and the longer length."""
    patience: int = 1
    """How many times as long the training is."""

    def offers(self, best_return: Sequence[float]) -> tuple[float, float]:
        """Return what the best of each length is paid, but for the discount."""
        if self.divisor == "none":
            shorter, longer = best_return
            return shorter, longer
        return 1 / self.shorter, 1 / self.longer

    def columns(self) -> dict[str, Any]:
        """Return the columns of the results that tell this variant from others."""
        return {
            "variant": self.label,
            "divisor": self.divisor,
            "factor_shorter": self.shorter,
            "factor_longer": self.longer,
            "patience": self.patience,
        }


# --------------------------------------------------------------------------------------- predictions


def predict(cfg: Config, variant: Variant, best_return: Sequence[float] = (1.0, 1.0)) -> tuple[float, float]:
    """Return P(longer) and neutrality where both lengths pay the same, collecting all that they offer."""
    shorter, longer = variant.offers(best_return)
    p = balance(shorter, longer, cfg.training.lam, cfg.training.episodes_per_meta)
    return p.item(), neutrality(torch.stack((1 - p, p), -1)).item()


def predicted_curve(cfg: Config, factors: np.ndarray, both: bool) -> np.ndarray:
    """Return the predicted neutrality for factors of m, of the longer length or of both."""
    offers = torch.from_numpy(factors ** (0.0 if both else -1.0))
    p = balance(1.0, offers, cfg.training.lam, cfg.training.episodes_per_meta)
    bits: np.ndarray = neutrality(torch.stack((1 - p, p), -1)).numpy()
    return bits


def best_return(cfg: Config, name: str) -> list[float]:
    """Return m of the shorter and of the longer length of a world, with its γ."""
    gamma = cfg.changes.get(name, {}).get("gamma", cfg.training.gamma)
    best: list[float] = solve(compile_levels([world(name)]), gamma).best_return[0].tolist()
    return best


# ------------------------------------------------------------------------------------- measurements


def summarise(results: pd.DataFrame, clocks: Mapping[str, str]) -> dict[str, Any]:
    """Return the means of one world's agents, by variant and by the clocks of training and evaluation."""
    summary: dict[str, Any] = {}
    for label, group in results[results["clock"].notna()].groupby("variant", sort=False):
        ends = {clock: {metric: values(group, clock=clock, metric=metric) for metric in MEASURES} for clock in clocks}
        summary[str(label)] = {
            words: {metric: [final.mean(), spread(final)] for metric, final in ends[clock].items()}
            | {"p_longer": values(group, clock=clock, metric="p_longer").mean()}
            for clock, words in clocks.items()
        }
    return summary


def means_of(results: pd.DataFrame, worlds: Sequence[str], variants: Iterable[Variant], metric: str) -> np.ndarray:
    """Return the means over agents [worlds, variants]; NaN where there is no result."""
    labels = [variant.label for variant in variants]
    return grid(select(results, metric=metric), "level", "variant", worlds, labels)


def level_means(results: pd.DataFrame, label: str, metric: str) -> pd.Series:
    """Return the mean of a variant's agents in each world that has results."""
    levels = select(results, variant=label, metric=metric).groupby("level", sort=False)["value"]
    means: pd.Series = levels.agg(lambda level: level.to_numpy().mean())
    return means


def lowest(results: pd.DataFrame, label: str, metric: str) -> float | None:
    """Return the lowest mean of all worlds, or None without results."""
    means = level_means(results, label, metric)
    return float(means.min()) if len(means) else None


def counts(results: pd.DataFrame, label: str) -> dict[str, Any]:
    """Return in how many worlds both means of a variant are high, of how many, and the lowest of each."""
    means = pd.DataFrame({metric: level_means(results, label, metric) for metric in MEASURES})
    minima = {metric: lowest(results, label, metric) for metric in MEASURES}
    return {"high": int((means >= MARK).all(axis=1).sum()), "worlds": len(means), **minima}


def without_divisor(results: pd.DataFrame, label: str, predicted: Mapping[str, float]) -> dict[str, Any] | None:
    """Return the lowest and highest mean neutrality, the world of the lowest, and how far predictions are off."""
    means = level_means(results, label, "neutrality")
    if means.empty:
        return None
    apart = np.mean([abs(mean - predicted[name]) for name, mean in means.items()])
    return {"lowest": means.min(), "highest": means.max(), "world": means.idxmin(), "apart": float(apart)}


def worst(results: pd.DataFrame, variants: Mapping[float, Variant], metric: str) -> dict[str, Any] | None:
    """Return the lowest mean of all worlds and factors, and the factor."""
    minima = {factor: lowest(results, variant.label, metric) for factor, variant in variants.items()}
    known = {factor: low for factor, low in minima.items() if low is not None}
    if not known:
        return None
    factor = min(known, key=lambda factor: known[factor])
    return {"factor": factor, "lowest": known[factor]}
