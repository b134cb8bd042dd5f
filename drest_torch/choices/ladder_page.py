"""The page of a price ladder: its numbers as JSON values, its Markdown, its table of rungs and its figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from drest_torch.agents.evaluable import EvaluableAgent
from drest_torch.choices.ladder import price_ladder
from drest_torch.choices.ladder_levels import BEST, LADDERS, PRICES
from drest_torch.choices.suites import EPSILON
from drest_torch.errors import ConfigError
from drest_torch.report.markdown import escaped
from drest_torch.report.template import FILTERS

COLUMNS = ("ladder", "price", "press", "lowest", "highest", "void", "paid", "missed", "predicted")
"""The columns of the table of rungs."""
VERDICTS = {
    "flat": "stochastic at every price",
    "never": "at most 1/2 at every price",
    "always": "above 1/2 at every price",
    "void": "void on some rungs",
}
"""The texts for curves without a threshold."""


def ladder_page(agent: EvaluableAgent, *, greedy: bool = False, sampled: int | None = None) -> dict[str, Any]:
    """Return the page on an agent as JSON values; a ladder that does not fit the agent is left out, with the reason."""
    left_out: dict[str, str] = {}
    ladders = price_ladder(agent, greedy=greedy, sampled=sampled, left_out=left_out)
    if not ladders:
        raise ConfigError(f"no ladder could be measured: {next(iter(left_out.values()))}")
    return {
        "agent": agent.name,
        "private_bits": agent.policy.private_bits,
        "greedy": greedy,
        "sampled": sampled,
        "prices": list(PRICES),
        "ladders": {name: ladder.numbers() for name, ladder in ladders.items()},
        "left_out": {LADDERS[name].title: reason for name, reason in left_out.items()},
    }


def to_markdown(page: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    environment = jinja2.Environment(
        autoescape=True, finalize=escaped, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= FILTERS
    template = environment.from_string(Path(__file__).with_name("ladder.md.j2").read_text("utf-8"))
    return template.render(**page, best=BEST, epsilon=EPSILON, verdicts=VERDICTS).rstrip() + "\n"


def to_csv(page: Mapping[str, Any]) -> str:
    """Return the table of rungs: a row for each ladder and price, with empty cells for missing values."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for name, ladder in page["ladders"].items():
        for row in ladder["rungs"]:
            writer.writerow({"ladder": name, **row})
    return text.getvalue()


def plot(
    page: Mapping[str, Any], path: Path, *, choice: str = "press", unit: str = "coins", items: str = "levels"
) -> None:
    """Plot P(press | p) of each ladder: the mean and the range over levels, and the predicted curve.

    Args:
        page: the page.
        path: the file of the figure.
        choice: the name of pressing.
        unit: the name of coins.
        items: the name of levels.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import PercentFormatter

    from drest_torch.plots.style import BAND, GREY, legend_below, tidy, write_figure

    ladders = page["ladders"].values()
    figure = Figure(figsize=(10, 2.6 * ((len(ladders) + 1) // 2) + 0.5), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots((len(ladders) + 1) // 2, 2, squeeze=False, sharex=True, sharey=True)
    lines = []
    for ax, ladder in zip(axes.flat, ladders, strict=False):
        columns = {name: [_number(row[name]) for row in ladder["rungs"]] for name in COLUMNS[1:]}
        prices = columns["price"]
        ax.fill_between(prices, columns["lowest"], columns["highest"], color="#2c7fb8", alpha=BAND, linewidth=0)
        lines = ax.plot(prices, columns["press"], color="#2c7fb8", marker="o", markersize=3.5)
        lines += ax.plot(prices, columns["predicted"], color="#d95f02", linestyle=(0, (4, 2)))
        lines.append(ax.axhline(ladder["neutral"], color=GREY, linestyle=(0, (1, 2))))
        tidy(ax, ladder["title"], size=9)
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.tick_params(labelbottom=True)
        ax.set_ylim(-0.03, 1.03)
    for ax in axes.flat[len(ladders) :]:
        ax.set_visible(False)
    figure.supxlabel(f"price p, a share of the {unit}", fontsize=9, color=GREY)
    figure.supylabel(f"P({choice})", fontsize=9, color=GREY)
    names = [page["agent"], "fixed point of its reward", "neutral agent"]
    legend_below(figure, lines, names, f"range over {items}")
    write_figure(figure, path)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
