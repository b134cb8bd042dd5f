"""Tables of the bench."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.choices.ladder_levels import LADDERS
from drest_torch.report.blocks import Table
from drest_torch.report.tables import MISSING, difference_text, mean_range, num, p_text, table_of
from drest_torch.studies.alternatives.figures import WORDS, of_part
from drest_torch.studies.alternatives.measured import ALWAYS, SHORT
from drest_torch.studies.alternatives.predictions import predicted_neutrality, predicted_press

SPREAD = "The mean, the lowest and the highest seed."


def cells_of(chosen: pd.DataFrame, columns: dict[str, str], digits: int = 3) -> pd.DataFrame:
    """Return the texts of measures by label, under the heads in ``columns``."""
    summary = chosen.groupby("label", sort=False)[[*columns]].agg(partial(mean_range, digits=digits))
    return summary.rename(columns=columns)


def questions_table(rows: pd.DataFrame) -> Table:
    """Return the table of methods and questions on unseen levels."""
    end = of_part(rows, "end")
    heads = {name: WORDS[name] for name in ("usefulness", "neutrality", "returned", "paid", "paid_reversed", "time")}
    cells = cells_of(end, heads, 2)
    methods = end.drop_duplicates("label").method
    cells.insert(2, "theory", [num(predicted_neutrality(method), 0) for method in methods])
    cells["updates to N < 0.5"] = [_updates(end[end.label == label].below) for label in cells.index]
    note = (
        f"{SPREAD} Theory: neutrality at the optimum of a policy that is free in every state. Gives up: the share of "
        "coins that the choice costs, as a mean over prices and maps. Share of training: until usefulness stays at "
        "95 % of its final value. Updates: with the default reward; a dash: the agent was not neutral."
    )
    return table_of(cells, "Methods and questions", first="method", note=note)


def _updates(values: pd.Series) -> str:
    numbers = values.dropna()
    if numbers.empty:
        return MISSING
    low, high = (f"{number:g}".replace("inf", "∞") for number in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} to {high}"


def levels_table(rows: pd.DataFrame) -> Table:
    """Return the table of usefulness and neutrality on other levels and with other observations."""
    names = (
        *("hidden_usefulness", "hidden_neutrality", "fixed_shortest", "fixed_longest"),
        *("changed_usefulness", "worst_usefulness", "changed_neutrality", "worst_neutrality"),
    )
    cells = cells_of(of_part(rows, "end"), {name: WORDS[name] for name in names}, 2)
    note = f"{SPREAD} The worst change is the level with the smallest value."
    return table_of(cells, "Other observations, other levels", first="method", note=note)


def comparison_table(rows: pd.DataFrame) -> Table:
    """Return the table of each method's difference from DReST."""
    cells = cells_of(of_part(rows, "end"), {"usefulness": "usefulness", "neutrality": "neutrality (bits)"})
    differences = rows[rows.part == "comparison"].set_index("label")
    cells["(U + N) / 2, less DReST's"] = [_difference(differences, label) for label in cells.index]
    cells["p"] = [_p_value(differences, label) for label in cells.index]
    note = (
        f"{SPREAD} Differences have 95 % intervals over seeds and levels, not corrected for one another; the p values "
        "are corrected after Holm for all comparisons."
    )
    return table_of(cells, "Compared with DReST, unseen levels", first="method", note=note)


def _difference(differences: pd.DataFrame, label: str) -> str:
    if label not in differences.index:
        return MISSING
    row = differences.loc[label]
    if np.isnan(row.low):
        return f"{row.y:+.3f}"
    return difference_text(row.y, row.low, row.high)


def _p_value(differences: pd.DataFrame, label: str) -> str:
    if label not in differences.index or np.isnan(differences.p[label]):
        return MISSING
    return p_text(differences.p[label])


def bounds_table(rows: pd.DataFrame) -> Table:
    """Return the table of violations of the constraints' bounds."""
    constrained = of_part(rows, "end").dropna(subset=["missed"])
    cells = cells_of(constrained, {"missed": "misses its bound by, unseen levels"})
    note = f"{SPREAD} A bound is one on a mean over levels; that on P(l) is in parts of 1/k."
    return table_of(cells, "Constraints and their bounds", first="method", note=note)


def short_table(rows: pd.DataFrame) -> Table:
    """Return the table of the shares of levels that are far from neutral, which means hide."""
    heads = {
        "short": f"neutrality below {SHORT:g}",
        "always": f"one length at least {ALWAYS:.0%}",
        "p_longer": "P(longer), mean",
    }
    cells = cells_of(of_part(rows, "end"), heads)
    return table_of(cells, "Shares of unseen levels", first="method", note=SPREAD)


def bits_table(rows: pd.DataFrame) -> Table:
    """Return the table of agents with a private bit and without."""
    bit, end = of_part(rows, "bit"), of_part(rows, "end")
    with_bit = bit.assign(label=bit.label + ", a private bit")
    without = end[end.method.isin(bit.method.unique())]
    without = without.assign(given_bit=without.neutrality)
    heads = {
        "usefulness": "usefulness",
        "neutrality": "neutrality (bits)",
        "given_bit": "neutrality given the bit (bits)",
    }
    cells = cells_of(pd.concat([without, with_bit]), heads)
    return table_of(cells, "With and without a private bit, unseen levels", first="method", note=SPREAD)


def strengths_table(rows: pd.DataFrame) -> Table:
    """Return the table of the strengths of each method, with their scores on selection levels."""
    strengths = of_part(rows, "strength")
    texts = {}
    for title, runs in strengths.groupby("title", sort=False):
        runs = runs.sort_values("strength")
        score = (runs.usefulness + runs.neutrality) / 2
        scores = ", ".join(f"{strength:g}: {number:.3f}" for strength, number in zip(runs.strength, score, strict=True))
        chosen = runs[runs.chosen.astype(bool)].strength
        texts[title] = {"chosen": ", ".join(f"{strength:g}" for strength in chosen), "(U + N) / 2": scores}
    note = "One seed, which is not reported, on selection levels, which are not reported either."
    return table_of(pd.DataFrame(texts).T, "Strengths of the methods", first="method", note=note)


# ------------------------------------------------------------------------------------- free policies

HEADS = {
    "later": "later, costs p",
    "later_reversed": "later, else costs p",
    "earlier": "earlier, costs p",
    "earlier_reversed": "earlier, else costs p",
    "by_chance": "later by chance",
    "same_length": "same length, costs p",
}
"""The heads of the price ladders."""


def ladders_table(rows: pd.DataFrame) -> Table:
    """Return the table of P(press) of free policies in gridworlds on each price ladder, beside the closed form."""
    note = (
        "A button for a later or an earlier shutdown, one that works half of the time, and one of two with the same "
        "delay. P(press) of policies that are free in every state, trained on the ladder: the same on every rung, or "
        "from the lowest to the highest rung with the price at which it crosses 1/2. In brackets: the closed form. A "
        "dash: the method does not apply to levels with luck, or neither button is pressed."
    )
    cells = _pressing(of_part(rows, "ladder"))
    return table_of(cells, "Prices of 1 % to 90 % of the coins", first="method: pressing", note=note)


def menu_ladders_table(rows: pd.DataFrame) -> Table:
    """Return the table of P(press) of free policies in menus on each price ladder, beside the closed form."""
    note = (
        "The same prices as single choices, without a map. A dash: the method does not apply, as it needs steps, or "
        "options without luck. U × N pays nothing where both options have the same length."
    )
    cells = _pressing(of_part(rows, "menu ladder"), in_menus=True)
    return table_of(cells, "The same prices in menus", first="method: pressing", note=note)


def prompt_ladders_table(rows: pd.DataFrame) -> Table:
    """Return the table of a small language model's choices, and of its P(asking) on each price ladder."""
    ladders = of_part(rows, "prompt ladder").groupby(["label", "method", "about"], sort=False)
    over_seeds = {"strength": "first", "x": "mean", "y": "mean", "low": "min", "high": "max", "void": "first"}
    cells = _pressing(ladders.agg(over_seeds).reset_index(), predicts=False)
    means = of_part(rows, "prompts").groupby("label", sort=False)[["y", "usefulness", "neutrality"]].mean()
    for place, (head, measure) in enumerate({"valid": "y", "U": "usefulness", "N": "neutrality"}.items()):
        cells.insert(place, head, [MISSING if np.isnan(value) else num(value, 2) for value in means[measure]])
    note = (
        "A small language model that has learned to read prompts, and was then trained with each method on choices "
        "between sure times; in unseen families. Valid: the probability of naming an option. U, N: usefulness, and "
        "neutrality ÷ log2 k, in such choices. Then P(asking for another shutdown time) from the lowest to the highest "
        "rung, with the price at which it crosses 1/2. Such actions, and chances, were not trained."
    )
    return table_of(cells, "The same prices in prompts", first="method: asking", note=note)


def _pressing(chosen: pd.DataFrame, *, in_menus: bool = False, predicts: bool = True) -> pd.DataFrame:
    """Return the texts of P(press) by label and by ladder, with the closed form if a free policy ``predicts`` it."""
    texts: dict[str, dict[str, str]] = {}
    for row in chosen.itertuples():
        text = _press(row)
        predicted = predicted_press(row.method, row.about, row.strength, in_menus=in_menus)
        if predicts and predicted is not None and text != MISSING:
            text += f" [{predicted:.2f}]"
        texts.setdefault(row.label, {})[HEADS[row.about]] = text
    return pd.DataFrame(texts).T[[HEADS[name] for name in LADDERS]]


def _press(row: Any) -> str:
    if isinstance(row.void, str) or np.isnan(row.y):
        return MISSING
    text = f"{row.y:.2f}"
    if row.high - row.low > 0.01:
        text = f"{row.low:.2f} to {row.high:.2f}"
    if not np.isnan(row.x):
        text += f", 1/2 at {row.x:.2f}"
    return text


CONDITION_HEADS = {
    "valid": "lacks a preference",
    "ilpacs": "ILPACS",
    "dominated": "dominated by",
    "resic": "ReSIC",
    "resists": "resists",
    "maximality": "Maximality",
}
"""The heads of the conditions of appendix C."""


def conditions_table(rows: pd.DataFrame) -> Table:
    """Return the table of the conditions of appendix C that free policies meet in menus."""
    chosen = of_part(rows, "condition")
    texts: dict[str, dict[str, str]] = {}
    for row in chosen.itertuples():
        texts.setdefault(row.label, {})[CONDITION_HEADS[row.about]] = MISSING if np.isnan(row.y) else num(row.y, 2)
    note = (
        "Policies that are free in every menu, trained on the menus of the test. Lacks a preference: the share of "
        "items with a stochastic choice between lengths, and a preference for more coins within each. ILPACS: the "
        "share of these in which the better of two mixtures is preferred. Dominated by: the mean δ of a dominating "
        "policy. ReSIC: the share of items in which resisting shutdown costs coins given each length. Resists: how "
        "often it resists nevertheless. Maximality: the share of choices that satisfy it. A dash: no valid item, or "
        "the method does not apply."
    )
    cells = pd.DataFrame(texts).T[[*CONDITION_HEADS.values()]]
    return table_of(cells, "Conditions of POST agency under luck", first="method", note=note)


def goals_table(rows: pd.DataFrame) -> Table:
    """Return the table of free policies in the paper's worlds that are paid for other values of coins."""
    chosen = of_part(rows, "world")
    texts: dict[str, dict[str, str]] = {}
    for row in chosen.itertuples():
        pays = "paid for coins" if row.about == "actual" else "paid for 1 ÷ coins"
        columns = texts.setdefault(row.label, {})
        columns[f"usefulness, {pays}"] = num(row.usefulness, 2)
        columns[f"neutrality, {pays}"] = num(row.neutrality, 2)
    note = "Means over the nine worlds of the paper. Usefulness is by the actual values; neutrality is ÷ log2 k."
    return table_of(pd.DataFrame(texts).T, "A wrong goal", first="method", note=note)


def pressures_table(rows: pd.DataFrame) -> Table:
    """Return the table of neutrality in further training, with remedies, other levels and other rewards."""
    pressed = of_part(rows, "pressure")
    plain = of_part(rows, "erosion").assign(about="default reward")
    plain = plain[plain.method.isin(pressed.method)]
    texts: dict[str, dict[str, str]] = {}
    ends: dict[str, str] = {}
    for row in pd.concat([plain, pressed]).itertuples():
        training = f"{row.label}: {row.about}"
        columns = texts.setdefault(training, {})
        columns[f"{row.x:g}"] = f"{row.y:.2f} ({row.low:.2f} to {row.high:.2f})"
        ends[training] = num(row.usefulness, 2)
    cells = pd.DataFrame(texts).T
    cells["usefulness at the end"] = pd.Series(ends)
    note = f"{SPREAD} Neutrality in bits after this number of updates, unseen levels, a tenth of the learning rates."
    return table_of(cells, "Further training", first="training", note=note)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "questions": questions_table,
    "other_levels": levels_table,
    "ladders": ladders_table,
    "menu_ladders": menu_ladders_table,
    "conditions": conditions_table,
    "prompt_ladders": prompt_ladders_table,
    "goals": goals_table,
    "strengths": strengths_table,
    "found": comparison_table,
    "bounds": bounds_table,
    "levels": short_table,
    "bits": bits_table,
    "pressures": pressures_table,
}
