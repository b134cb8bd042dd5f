"""How variants compare on the test levels, how long training takes, and the findings of the study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drest_torch.statistics.bootstrap import Interval, median, ratio
from drest_torch.statistics.intervals import contrast
from drest_torch.studies.generalization.variant import BOTH, MEASURES, Variant
from drest_torch.studies.unseen import FILE, PAPER, TEST, TRAIN

if TYPE_CHECKING:
    from drest_torch.studies.generalization.study import Config

EVEN = (0.4, 0.6)
"""Between these probabilities of the longer of two lengths, the choice in a level counts as even."""


def from_headline(variant: Variant, headline: Variant, measure: str) -> Interval:
    """Return the variant − the headline on the test levels; paired by level where these are the same."""
    same_levels = variant.about(TEST)["sha256"] == headline.about(TEST)["sha256"]
    values = variant.values(TEST, measure), headline.values(TEST, measure)
    return contrast(*values, same_levels=same_levels, designs=(variant.designs(TEST), headline.designs(TEST)))


def times(variant: Variant, share: float, of: float | None = None) -> np.ndarray:
    """Return [S] the steps or updates until this share of a usefulness, its own last one if none is given, for good."""
    return np.array([curve.reaches(share * (curve.usefulness[-1] if of is None else of)) for curve in variant.curves])


def tax(drest: Variant, default: Variant, share: float, *, common: bool = False) -> Interval | None:
    """Return the steps of DReST ÷ those of the default reward until a share of the run's own last usefulness.

    In ``common``, until that share of the default reward's median one. None where its agents are there at once, or
    neither ever, or where one takes steps and the other updates.
    """
    if drest.unit != default.unit:
        return None
    of = float(median([curve.usefulness[-1] for curve in default.curves])) if common else None
    slow, fast = times(drest, share, of), times(default, share, of)
    interval = ratio(slow, fast)
    return None if math.isnan(interval.estimate) or median(fast) == 0 else interval


def even(p: np.ndarray) -> float | None:
    """Return the share of these probabilities that are between the two of `EVEN`; None of none."""
    low, high = EVEN
    return float(((p >= low) & (p <= high)).mean()) if len(p) else None


def above_both(variant: Variant, mark: float) -> dict[str, float]:
    """Return the share of levels above the mark in usefulness and neutrality, on test and training levels."""
    return {
        name: float(np.logical_and(*(variant.values(name, metric) > mark for metric in BOTH)).mean())
        for name in (TEST, TRAIN)
    }


def set_names(cfg: Config) -> list[str]:
    """Return the names of all sets that are not trained on, in the order of the tables."""
    return [TEST, *cfg.shifted, PAPER, *([] if cfg.path is None else [FILE])]


def label(cfg: Config, name: str) -> str:
    """Return what a set is called in tables."""
    own = {TEST: "test levels", TRAIN: "training levels", PAPER: "the paper's worlds"}
    return Path(cfg.path).name if name == FILE and cfg.path is not None else own.get(name, name)


# ----------------------------------------------------------------------------------------- findings


def findings(cfg: Config, variants: Mapping[str, Variant], named: Sequence[Variant]) -> dict[str, Any]:
    """Return the JSON values that the report's sentences are derived from."""
    headline = variants[cfg.headline]
    axes = {title: list(titles) for title, titles in cfg.axes.items()}
    numbers: dict[str, Any] = {"headline": cfg.headline, "default": cfg.default, "axes": axes}
    numbers["variants"] = {title: _of_variant(cfg, each, headline) for title, each in variants.items() if each.seeds}
    numbers["even"] = {variant.title: even(variant.longer(TEST)) for variant in named}
    if len(named) == 2:
        drest, default = named
        for name, common in {"tax": False, "tax_same_mark": True}.items():
            ratios = {share: tax(drest, default, share, common=common) for share in cfg.shares}
            numbers[name] = {f"{share:g}": None if r is None else triple(r) for share, r in ratios.items()}
        numbers["stopped_early"] = {
            metric: float(np.mean([getattr(curve, metric)[curve.best()] for curve in default.curves]))
            for metric in BOTH
        }
    return numbers


def _of_variant(cfg: Config, variant: Variant, headline: Variant) -> dict[str, Any]:
    sets = {}
    for name in (*set_names(cfg), TRAIN):
        sets[name] = {key: variant.about(name)[key] for key in ("levels", "left_out", "seen")}
        if variant.sees(name):
            sets[name] |= {measure: triple(variant.interval(name, measure)) for measure in MEASURES}
    numbers: dict[str, Any] = {"seeds": variant.seeds, "sets": sets}
    numbers["gap"] = {measure: triple(variant.gap(measure)) for measure in MEASURES}
    if headline.seeds:
        numbers["difference"] = {metric: triple(from_headline(variant, headline, metric)) for metric in BOTH}
    return numbers


def triple(interval: Interval) -> list[float]:
    """Return an interval as JSON."""
    return [interval.estimate, interval.low, interval.high]
