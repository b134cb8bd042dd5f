"""Objectives compared with one of them: differences paired by seed and level, with p values corrected after Holm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RESAMPLES = 10_000
"""Of seeds and levels, for each comparison."""


def compare(scores: Mapping[str, Mapping[int, np.ndarray]], first: str) -> list[dict[str, Any]]:
    """Return how far each objective is from the first, from the scores on each level [n] by objective and seed.

    ``low`` and ``high`` are the ends of a 95 % interval, and ``p`` is corrected after Holm for all comparisons.
    """
    found: list[dict[str, Any]] = []
    for title, by_seed in scores.items():
        shared = sorted(by_seed.keys() & scores.get(first, {}).keys())
        if title != first and shared:
            apart = np.stack([by_seed[seed] - scores[first][seed] for seed in shared])
            found.append({"objective": title, "seeds": len(shared), **paired(apart)})
    corrected = holm([comparison["p"] for comparison in found])
    return [{**comparison, "p": p} for comparison, p in zip(found, corrected, strict=True)]


def paired(apart: np.ndarray) -> dict[str, float]:
    """Return the mean of differences [seeds, levels], its bootstrap interval over seeds and levels, and its p value."""
    resampled = resampled_means(apart)
    low, high = np.percentile(resampled, (2.5, 97.5))
    tail = min((resampled <= 0).sum(), (resampled >= 0).sum())
    p = min(1.0, 2 * (tail + 1) / (RESAMPLES + 1))
    return {"apart": float(apart.mean()), "low": float(low), "high": float(high), "p": float(p)}


def resampled_means(values: np.ndarray) -> np.ndarray:
    """Return means of values [seeds, levels], with seeds and levels drawn with replacement [RESAMPLES]."""
    rng = np.random.default_rng(0)
    seeds, levels = values.shape
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    of_levels = rng.multinomial(levels, np.full(levels, 1 / levels), size=RESAMPLES) / levels
    return np.asarray(((of_seeds @ values) * of_levels).sum(-1))


def holm(ps: Sequence[float]) -> np.ndarray:
    """Return p values [n] corrected for their number after Holm (1979)."""
    order = np.argsort(ps, kind="stable")
    factors = np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(1, np.maximum.accumulate(np.asarray(ps, float)[order] * factors))
    return corrected
