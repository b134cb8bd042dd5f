"""Figures and tables of language models."""

from __future__ import annotations

from functools import partial

import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, Dots, dot_figure, dots_of
from drest_torch.report.tables import mean_range, table_of
from drest_torch.studies.language.measured import BONUS, DEFAULT, DREST, LETTERS, LINES, MENDED, SUITES, of_suite

COLOURS = {DREST: "drest", DEFAULT: "default", BONUS: "pink", MENDED: "violet"}
"""Colours of trained models; models without one are untrained."""


def between_sure_times(rows: pd.DataFrame) -> Plot:
    """Plot usefulness and neutrality of each model."""
    heads = {"usefulness": "usefulness", "neutrality": "neutrality ÷ log2 k"}
    series: list[Dots] = []
    for column, label in heads.items():
        chosen = of_suite(rows, "post").assign(kind=column)
        series += dots_of(chosen, row="model", value=column, by="kind", spread=RANGE, labels={column: label})
    return dot_figure(
        series,
        title="Choices between sure times, unseen families",
        xlabel="usefulness; neutrality ÷ log2 k",
        ylabel="",
    )


def action_taken(rows: pd.DataFrame) -> Plot:
    """Plot how often each model takes the action, by suite."""
    chosen = rows[rows.suite.isin(SUITES)]
    colours = {model: COLOURS.get(model, "green") for model in chosen.model.unique()}
    return dot_figure(
        dots_of(
            chosen.assign(suite=chosen.suite.map(SUITES)),
            row="suite",
            value="takes",
            by="model",
            spread=RANGE,
            colours=colours,
        ),
        title="The action that shifts the shutdown time",
        xlabel="probability of the action",
        ylabel="",
        lines={0.5: "even choice"},
        caption="Given that one of the two options is named.",
    )


def read_twice(rows: pd.DataFrame, column: str, head: str) -> Plot:
    """Plot a measure of each model, read from letters and from whole lines."""
    chosen = rows[rows.suite == "post"]
    return dot_figure(
        dots_of(chosen, row="model", value=column, by="reads", spread=RANGE),
        title=f"Letters and whole lines: {column}",
        xlabel=head,
        ylabel="",
    )


def post_table(rows: pd.DataFrame) -> Table:
    """Return the table of choices between sure times, with the time of training."""
    heads = {
        "neutrality": "neutrality ÷ log2 k",
        "usefulness": "usefulness",
        "over_both": "over both orders",
        "position_bias": "position bias",
        "if_indifferent": "usefulness if indifferent",
        "p_later": "P(later)",
        "valid": "valid",
        "seconds": "seconds",
    }
    by_model = of_suite(rows, "post").groupby("model", sort=False)
    digits = {column: 0 if column == "seconds" else 3 for column in heads}
    cells = {head: by_model[column].agg(partial(mean_range, digits=digits[column])) for column, head in heads.items()}
    note = (
        "Mean, lowest and highest seed. Neutrality is that within an order of the options, and over both orders that "
        "of their mixture. Position bias: the total variation distance between the choices in the two orders. If "
        "indifferent: the usefulness of a softmax of scores that is as random about times. Valid: the probability of "
        "naming an option; the other numbers are given that. Seconds: processor time of training on one thread, "
        "without that of the model that it begins with."
    )
    return table_of(pd.DataFrame(cells), "Choices between sure times, unseen families", first="model", note=note)


def suites_table(rows: pd.DataFrame) -> Table:
    """Return the table of how often each model takes the action, by suite."""
    cells = {}
    for suite, head in SUITES.items():
        percent = of_suite(rows, suite).groupby("model", sort=False).takes.agg(lambda takes: mean_range(100 * takes, 1))
        cells[f"{head} (%)"] = percent
    note = "Mean, lowest and highest seed; given that an option is named. An even choice is 50 %."
    return table_of(pd.DataFrame(cells), "How often the action is taken, unseen families", first="model", note=note)


def lines_table(rows: pd.DataFrame) -> Table:
    """Return the table of measures read from letters and from whole lines."""
    cells = {}
    for column, head in {"neutrality": "neutrality ÷ log2 k", "usefulness": "usefulness"}.items():
        for reads in (LETTERS, LINES):
            cells[f"{head}, {reads}"] = (
                of_suite(rows, "post", reads).groupby("model", sort=False)[column].agg(mean_range)
            )
    note = "Mean, lowest and highest seed."
    return table_of(pd.DataFrame(cells), "Answers of one letter, and of whole lines", first="model", note=note)
