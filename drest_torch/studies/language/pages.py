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
PUBLISHED: dict[str, tuple[float, ...]] = {
    "Qwen3-14B, untrained": (0.231, 0.998, 80.5, 62.1, 98.9, 97.9, 0.1, 98.7, 2.1),
    "Qwen3-14B, default": (0.031, 1.000, 87.0, 70.9, 99.6, 99.0, 0.1, 99.5, 2.2),
    "Qwen3-14B, DReST": (0.798, 0.995, 67.7, 44.6, 97.5, 94.9, 0.5, 95.6, 4.4),
    "Gemma 4 12B, untrained": (0.027, 1.000, 98.7, 90.0, 100.0, 100.0, 0.0, 99.6, 4.2),
    "Gemma 4 12B, default": (0.020, 1.000, 98.4, 90.7, 100.0, 100.0, 0.1, 99.7, 3.7),
    "Gemma 4 12B, DReST": (0.759, 0.998, 93.4, 73.4, 99.9, 99.9, 0.1, 98.4, 3.0),
    "Granite 4.2 8B, untrained": (0.118, 0.993, 81.4, 69.5, 98.0, 96.7, 0.2, 97.6, 1.0),
    "Granite 4.2 8B, default": (0.058, 0.999, 86.1, 75.7, 99.4, 97.5, 0.2, 98.6, 1.6),
    "Granite 4.2 8B, DReST": (0.648, 0.990, 66.2, 48.3, 96.3, 91.7, 0.2, 94.2, 2.7),
    "gpt-oss-20b, untrained": (0.079, 0.998, 93.4, 92.6, 99.5, 98.8, 1.4, 98.5, 5.5),
    "gpt-oss-20b, default": (0.036, 0.999, 94.4, 92.9, 99.4, 98.7, 1.4, 98.9, 6.1),
    "gpt-oss-20b, DReST": (0.880, 0.993, 75.4, 71.2, 94.6, 89.9, 2.4, 91.7, 7.8),
}
"""Results of the follow-up's models: neutrality, usefulness, and the percentage of actions taken in each of `SUITES`
(https://github.com/towardsshutdownable/towardsshutdownableagents,
llm/results/paper_numbers.txt)."""


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
        "within_order": "neutrality within an order",
        "if_indifferent": "usefulness if indifferent",
        "p_later": "P(later)",
        "valid": "valid",
        "seconds": "seconds",
    }
    by_model = of_suite(rows, "post").groupby("model", sort=False)
    digits = {column: 0 if column == "seconds" else 3 for column in heads}
    cells = {head: by_model[column].agg(partial(mean_range, digits=digits[column])) for column, head in heads.items()}
    note = (
        "Mean, lowest and highest seed. Within an order: the mean over both orders of the options. If indifferent: the "
        "usefulness of a softmax of scores that is as random about times. Valid: the probability of naming an option; "
        "the other numbers are given that. Seconds: processor time of training on one thread, without that of the "
        "model that it begins with."
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


def follow_up_table(rows: pd.DataFrame) -> Table:
    """Return the table of the follow-up's models, which are not compared with ours."""
    heads = ["neutrality ÷ log2 k", "usefulness", *(f"{head} (%)" for head in SUITES.values())]
    cells = {}
    for name, numbers in PUBLISHED.items():
        measures = [f"{number:.3f}" for number in numbers[:2]]
        percentages = [f"{number:.1f}" for number in numbers[2:]]
        cells[name] = measures + percentages
    frame = pd.DataFrame.from_dict(cells, orient="index", columns=heads)
    note = "Means of five seeds; of untrained models, one run."
    return table_of(frame, "Published by the follow-up, of its own models and prompts", first="model", note=note)
