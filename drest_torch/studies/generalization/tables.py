"""The tables of the study: every set of levels, every variant, and what training takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.template import plural
from drest_torch.statistics.bootstrap import Interval, median
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.generalization.analysis import from_headline, label, set_names, tax, times
from drest_torch.studies.generalization.variant import BOTH, MEASURES, Variant
from drest_torch.studies.unseen import FILE, PAPER, TEST, TRAIN

if TYPE_CHECKING:
    from drest_torch.studies.generalization.study import Config

MISSING = "–"


def tables(cfg: Config, variants: Mapping[str, Variant], named: Sequence[Variant]) -> dict[str, Table]:
    """Return every table by name."""
    made = {f"sets: {variant.title}": sets_table(cfg, variant) for variant in named}
    headline = variants[cfg.headline]
    for axis, titles in cfg.axes.items():
        done = [variants[title] for title in titles if variants[title].seeds]
        if done:
            made[f"axis: {axis}"] = axis_table(cfg, axis, done, headline)
            made[f"shifted: {axis}"] = shifted_table(cfg, axis, done)
    if len(named) == 2:
        made |= {"tax": tax_table(cfg, *named), "stopped": stopped_table(*named)}
    if headline.seeds:
        made["hashes"] = hash_table(cfg, headline)
    return made


def sets_table(cfg: Config, variant: Variant) -> Table:
    """Return what one variant does on every set of levels."""
    header = ["levels", "number", *(words.format(mark=cfg.mark) for words in MEASURES.values())]
    rows = []
    for name in (*set_names(cfg), TRAIN):
        cells = [str(variant.interval(name, m)) if variant.sees(name) else MISSING for m in MEASURES]
        rows.append([literal(label(cfg, name)), f"{variant.about(name)['levels']:,}", *cells])
    rows.append(["training levels − test levels", "", *(str(variant.gap(m)) for m in MEASURES)])
    return Table(f"{literal(variant.title)}: what it does on every set of levels", header, rows)


# -------------------------------------------------------------------------------------------- axes


def axis_table(cfg: Config, axis: str, variants: Sequence[Variant], headline: Variant) -> Table:
    """Return the variants of an axis on the test levels, and how they differ from the headline."""
    others = [PAPER, *([] if cfg.path is None else [FILE])]
    header = ["", *BOTH, *(f"{metric}, difference" for metric in BOTH), "gap"]
    rows = []
    for variant in variants:
        differences = [MISSING, MISSING]
        if headline.seeds and variant is not headline:
            differences = [hundredths(from_headline(variant, headline, metric)) for metric in BOTH]
        gap = " / ".join(_signed(variant.gap(metric).estimate) for metric in BOTH)
        ends = [str(variant.interval(TEST, metric)) for metric in BOTH]
        rows.append([_name(cfg, variant), *ends, *differences, gap, *(_pair(variant, name) for name in others)])
    return Table(literal(axis), [*header, *(literal(label(cfg, name)) for name in others)], rows)


def shifted_table(cfg: Config, axis: str, variants: Sequence[Variant]) -> Table:
    """Return the variants of an axis on the shifted levels."""
    rows = [[_name(cfg, variant), *(_pair(variant, name) for name in cfg.shifted)] for variant in variants]
    return Table(f"{literal(axis)}, on shifted levels", ["", *map(literal, cfg.shifted)], rows)


def _name(cfg: Config, variant: Variant) -> str:
    title = literal(variant.title)
    title = f"**{title}**" if variant.title == cfg.headline else title
    return title if variant.seeds == cfg.seeds else f"{title} ({plural(variant.seeds, 'seed')})"


def _pair(variant: Variant, name: str) -> str:
    if not variant.sees(name):
        return MISSING
    return " / ".join(f"{variant.values(name, metric).mean():.3f}" for metric in BOTH)


def _signed(value: float) -> str:
    """Return a value in hundredths, with its sign."""
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def hundredths(interval: Interval) -> str:
    """Return a difference with its interval, in hundredths."""
    return f"{_signed(interval.estimate)} ({_signed(interval.low)} to {_signed(interval.high)})"


# ---------------------------------------------------------------------------------------- training


def tax_table(cfg: Config, drest: Variant, default: Variant) -> Table:
    """Return how much longer DReST takes to become useful."""
    rows = []
    for share in cfg.shares:
        middle = [_amount(variant, float(median(times(variant, share)))) for variant in (drest, default)]
        ratios = [tax(drest, default, share, common=common) for common in (False, True)]
        rows.append([f"{share:.0%}", *middle, *(MISSING if r is None else _ratio(r) for r in ratios)])
    titles = [literal(variant.title) for variant in (drest, default)]
    header = ["share of the last usefulness", *titles, "ratio", "ratio, same mark"]
    return Table("The tax: how much longer DReST takes to become useful", header, rows)


def stopped_table(drest: Variant, default: Variant) -> Table:
    """Return whether default agents are as neutral on their way as DReST agents are at the end."""
    best = [curve.best() for curve in default.curves]
    rows = [
        _at(f"{default.title}, where the product is best", default, best),
        _at(f"{default.title}, at the end", default, [-1] * default.seeds),
        _at(f"{drest.title}, at the end", drest, [-1] * drest.seeds),
    ]
    return Table("The default agent, stopped early", ["", drest.unit, "usefulness", "neutrality ÷ log2 k"], rows)


def _at(name: str, variant: Variant, places: Sequence[int]) -> list[str]:
    chosen = list(zip(variant.curves, places, strict=True))
    steps = float(median([curve.steps[place] for curve, place in chosen]))
    ends = [str(t_interval([getattr(curve, metric)[place] for curve, place in chosen]).within(0, 1)) for metric in BOTH]
    return [literal(name), _amount(variant, steps), *ends]


def _ratio(interval: Interval) -> str:
    return interval.text(2).replace("inf", "∞")


def _amount(variant: Variant, steps: float) -> str:
    if not math.isfinite(steps):
        return "never"
    return f"{steps:,.0f}" if variant.exact else f"{steps / 1e6:.2f} M"


def hash_table(cfg: Config, headline: Variant) -> Table:
    """Return what the sets of levels are known by."""
    rows = []
    for name in set_names(cfg):
        about = headline.about(name)
        rows.append([literal(label(cfg, name)), f"{about['levels']:,}", f"`{about['sha256'][:12]}`"])
    return Table("The sets of levels", ["levels", "number", "SHA-256, first digits"], rows)
