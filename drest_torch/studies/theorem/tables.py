"""The tables of the report: the optimum, the largest E, credit within the mini-episode, and level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import MISSING
from drest_torch.studies.theorem.analysis import EXACT, Setting, best_climbs, optimum
from drest_torch.theory import neutral_value, rule_of_thumb

NORMALISED = "neutrality ÷ log2\u00a0k"


def optimum_table(verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """Return the best choice for each setting, and how it compares with climbing and with one length."""
    header = ["λ / E / k", "levels", "1 − usefulness ≤", "best P(L)", NORMALISED, "over neutral", "apart"]
    rows = [
        [
            _setting(row),
            str(len(row["levels"])),
            format_missing(row["least_usefulness"]) if row["levels"] else MISSING,
            format_choice(row["choice"]),
            f"{'✓' if row['neutral_is_best'] else '✗'} {row['neutrality_normalised']:.3f}",
            format_over(row["margin"]),
            f"{row['climbing_apart_from_simplex']:.0e}" if row["levels"] else MISSING,
            format_times(row["neutral_over_one_length"]),
        ]
        for row in verdicts
    ]
    return Table("The optimum of the expected return of a meta-episode", [*header, "neutral ÷ one length"], rows)


def limit_table(limits: Mapping[int, Mapping[float, int]]) -> Table:
    """Return the largest E for which the best choice is neutral, beside the rule of thumb."""
    header = ["", *(head for k in limits for head in (f"k = {k}", "by the rule"))]
    lams = list(next(iter(limits.values()), {}))
    rows = [
        [
            f"λ = {lam:g}",
            *(cell for k, row in limits.items() for cell in (str(row[lam]), f"{rule_of_thumb(k, lam):.1f}")),
        ]
        for lam in lams
    ]
    return Table("The largest E for which the optimum is neutral", header, rows)


def mini_table(minis: Sequence[Mapping[str, Any]]) -> Table:
    """Return where credit within the mini-episode leads, for each setting."""
    rows = [
        [
            _setting(row),
            f"{row['neutral']} of {row['climbs']}",
            format_missing(row["least_neutrality_normalised"]),
            format_missing(row["least_usefulness"]),
            MISSING if row["return_left"] is None else format_over(row["return_left"]),
        ]
        for row in minis
    ]
    header = ["λ / E / k", "climbs that end neutral", f"1 − {NORMALISED} ≤", "1 − usefulness ≤", "return left"]
    return Table("Where credit within the mini-episode leads", header, rows)


def level_tables(meta: pd.DataFrame, settings: Sequence[Setting]) -> dict[str, Table]:
    """Return a table of all levels for each reward that has climbs, by the reward."""
    header = ["level", "lengths", "return", "neutral's", "over neutral", "on the simplex", "P(L)", "usefulness"]
    groups: dict[str, list[list[str]]] = {}
    for setting in settings:
        rows = [_level_row(row, setting) for row in best_climbs(meta, setting).to_dict("records")]
        if rows:
            groups.setdefault(f"λ = {setting.lam:g}, E = {setting.episodes_per_meta}", []).extend(rows)
    return {
        reward: Table(f"The optimum climbed to, {reward}", [*header, "neutrality", NORMALISED], rows)
        for reward, rows in groups.items()
    }


def _level_row(row: Mapping[Any, Any], setting: Setting) -> list[str]:
    return [
        literal(row["level"].replace("_", " ")),
        ", ".join(f"{length:.0f}" for length in row["lengths"]),
        f"{row['return']:,.2f}",
        f"{neutral_value(*setting.key):,.2f}",
        format_over(row["ratio"] - 1),
        format_over(optimum(setting)["margin"]),
        format_choice(row["p_length"]),
        f"{row['usefulness']:.6f}",
        f"{row['neutrality']:.3f}",
        f"{row['neutrality_normalised']:.3f}",
    ]


# ------------------------------------------------------------------------------------------- formats


def _setting(row: Mapping[str, Any]) -> str:
    return f"{row['lam']:g} / {row['episodes_per_meta']} / {row['num_lengths']}"


def format_choice(probabilities: Sequence[float]) -> str:
    """``0.317, 0.683``"""
    return ", ".join(f"{p:.3f}" for p in probabilities)


def format_over(share: float) -> str:
    """``+1.1%``: how much more or less than all of it; 0 within rounding."""
    return "0" if abs(share) < EXACT else f"{share:+,.1%}"


def format_missing(value: float) -> str:
    """``2e-08``: what is missing to 1."""
    return f"{max(0.0, 1 - value):.0e}"


def format_times(ratio: float) -> str:
    """``4.2 ×``"""
    return f"{ratio:,.1f} ×" if ratio < 1000 else f"{ratio:.0e} ×"
