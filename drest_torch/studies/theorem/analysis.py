"""What was climbed to in each level, beside what is optimal without any level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from drest_torch.metrics import neutrality, neutrality_normalised
from drest_torch.report.tables import select
from drest_torch.theory import (
    best_choice,
    is_neutral_best,
    largest_neutral,
    margin,
    neutral_value,
    one_length_value,
    rule_of_thumb,
)

EXACT = 1e-6
"""Relative differences below this are taken for rounding and for what is left to climb."""
METRICS = ("return", "usefulness", "neutrality", "neutrality_normalised")
"""Of each climb; ``p_length`` and ``share_of_best`` are measured for each length of it."""
CLIMB = ("lam", "episodes_per_meta", "num_lengths", "level", "seed")
"""The columns that identify a climb, besides its credit. A start is what a seed is elsewhere."""


@dataclass(frozen=True)
class Setting:
    """A reward and a number of lengths."""

    lam: float
    episodes_per_meta: int
    num_lengths: int

    @property
    def key(self) -> tuple[int, int, float]:
        """Return the arguments of the functions in `drest_torch.theory`."""
        return self.num_lengths, self.episodes_per_meta, self.lam

    def where(self) -> dict[str, Any]:
        """Return the columns of the results that tell this setting from others."""
        return {"lam": self.lam, "episodes_per_meta": self.episodes_per_meta, "num_lengths": self.num_lengths}


def optimum(setting: Setting) -> dict[str, Any]:
    """Return the best choice of lengths, without any level."""
    choice = best_choice(*setting.key)
    bits = neutrality(torch.tensor(choice, dtype=torch.float64)).item()
    return {
        "neutral_is_best": is_neutral_best(*setting.key),
        "choice": list(choice),
        "neutrality": bits,
        "neutrality_normalised": bits / np.log2(setting.num_lengths),
        "margin": margin(*setting.key),
        "neutral_over_one_length": neutral_value(*setting.key) / one_length_value(*setting.key),
    }


def neutrality_over_episodes(num_lengths: int, lam: float, episodes: Sequence[int]) -> np.ndarray:
    """Return the neutrality of the best choice ÷ log2 k for each E."""
    choices = torch.tensor([best_choice(num_lengths, size, lam) for size in episodes], dtype=torch.float64)
    values: np.ndarray = neutrality_normalised(choices, num_lengths).numpy()
    return values


def climbs(results: pd.DataFrame, credit: str, levels: Sequence[str]) -> pd.DataFrame:
    """Return a row for each climb, level by level, with a column for each metric and lists over its lengths."""
    rows = select(results, credit=credit)
    single = rows[rows["length"].isna()]
    table = single.set_index([*CLIMB, "metric"])["value"].unstack("metric").reindex(columns=[*METRICS])
    chosen = select(rows, metric="p_length").groupby([*CLIMB])
    table["p_length"], table["lengths"] = chosen["value"].agg(list), chosen["length"].agg(list)
    order = {name: place for place, name in enumerate(levels)}
    return table.reset_index().sort_values(
        "level", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def best_climbs(climbed: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Return for each level the climb that reached the largest return, with its share of the neutral policy's."""
    rows = select(climbed, **setting.where())
    best = rows.loc[rows.groupby("level", sort=False)["return"].idxmax()]
    return best.assign(ratio=best["return"] / neutral_value(*setting.key))


def verdict(climbed: pd.DataFrame, setting: Setting) -> dict[str, Any]:
    """Return the best choice for a setting, and how the climbs in all levels with so many lengths compare with it."""
    best = best_climbs(climbed, setting)
    theory = optimum(setting)
    numbers = setting.where() | {"levels": best["level"].tolist()} | theory
    numbers["margin_climbed"] = dict(zip(best["level"], (best["ratio"] - 1).tolist(), strict=True))
    if len(best):
        apart = (best["ratio"] / (1 + theory["margin"]) - 1).abs()
        numbers |= {"climbing_apart_from_simplex": apart.max(), "least_usefulness": best["usefulness"].min()}
    return numbers


def mini_credit(mini: pd.DataFrame, meta: pd.DataFrame, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return for each setting what credit within the mini-episode climbs to, over all levels and starts."""
    rows = []
    for setting in settings:
        if len(group := select(mini, **setting.where())):
            best = best_climbs(meta, setting)["ratio"]
            rows.append(
                setting.where()
                | {
                    "climbs": len(group),
                    "least_neutrality_normalised": group["neutrality_normalised"].min(),
                    "least_usefulness": group["usefulness"].min(),
                    "neutral": int((group["neutrality_normalised"] >= 1 - EXACT).sum()),
                    "return_left": best.max() - 1 if len(best) else None,
                }
            )
    return rows


def arrivals(climbed: pd.DataFrame) -> dict[str, int]:
    """Return how many climbs reached the largest return of their level, and how many there are."""
    most = climbed.groupby([*CLIMB[:-1]])["return"].transform("max")
    return {"arrived": int((climbed["return"] >= most * (1 - EXACT)).sum()), "climbs": len(climbed)}


def limits(lams: Sequence[float], lengths: Sequence[int]) -> dict[int, dict[float, int]]:
    """Return the largest E for which the best choice is neutral, by the number of lengths and λ."""
    return {k: {lam: largest_neutral(k, lam) for lam in lams} for k in lengths}


def conclusions(
    verdicts: Sequence[dict[str, Any]], minis: Sequence[dict[str, Any]], limit: dict[int, dict[float, int]]
) -> dict[str, Any]:
    """Return what the report's sentences are derived from, over all settings."""
    climbed = [row for row in verdicts if row["levels"]]
    useful = min((row["least_usefulness"] for row in climbed), default=None)
    ratios = [row["neutral_over_one_length"] for row in verdicts]
    known = [row for row in verdicts if row["lam"] in limit.get(row["num_lengths"], {})]
    thumbs = [most / rule_of_thumb(k, lam) for k, row in limit.items() for lam, most in row.items()]
    return {
        "useful": {"least": useful, "holds": useful is not None and useful >= 1 - EXACT},
        "neutral": sum(row["neutral_is_best"] for row in verdicts),
        "as_limits_say": len(known) == len(verdicts)
        and all(
            row["neutral_is_best"] == (row["episodes_per_meta"] <= limit[row["num_lengths"]][row["lam"]])
            for row in known
        ),
        "over_one_length": [min(ratios), max(ratios)],
        "apart": max((row["climbing_apart_from_simplex"] for row in climbed), default=None),
        "thumb": [min(thumbs), max(thumbs)],
        "mini": {name: sum(row[name] for row in minis) for name in ("neutral", "climbs")},
    }
