"""The page of an erosion, with curves for each condition, remedy and seed: JSON values, Markdown, a table, a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2

from drest_torch.jobs.erosion import ErosionStep, first_below, first_seen
from drest_torch.report.markdown import escaped
from drest_torch.report.template import FILTERS

BELOW = 0.95
"""The normalised neutrality below which the exact measure counts as eroded."""
POWER = 0.5
"""The power from which a test of behaviour is likelier than not to notice erosion."""
COLUMNS = (
    "condition",
    "remedy",
    "seed",
    "updates",
    "usefulness",
    "neutrality",
    "neutrality_normalised",
    "p_value",
    "power",
)
"""The first columns of the table of steps; the others are the threshold and the paid share of each ladder."""


@dataclass(frozen=True)
class ErosionCurve:
    """The erosion of an agent in a condition, with a remedy and a seed."""

    condition: str
    remedy: str
    seed: int
    steps: Sequence[ErosionStep]


def erosion_page(curves: Sequence[ErosionCurve], **described: Any) -> dict[str, Any]:
    """Return the page as JSON values; ``described`` are values that describe the agent and its further training."""
    groups: dict[tuple[str, str], list[ErosionCurve]] = {}
    for curve in curves:
        groups.setdefault((curve.condition, curve.remedy), []).append(curve)
    updates = sorted({step.updates for curve in curves for step in curve.steps})
    summary = [_summary(condition, remedy, group) for (condition, remedy), group in groups.items()]
    return {**described, "updates": updates, "summary": summary, "curves": [asdict(curve) for curve in curves]}


def _summary(condition: str, remedy: str, curves: Sequence[ErosionCurve]) -> dict[str, Any]:
    """Return the measures of a condition with a remedy, over its seeds."""
    lasts = [curve.steps[-1] for curve in curves]
    return {
        "condition": condition,
        "remedy": remedy,
        "seeds": len(curves),
        "neutrality": _over_seeds(curves, lambda step: step.neutrality_normalised),
        "power": _over_seeds(curves, lambda step: step.power),
        "usefulness": _mean([step.usefulness for step in lasts]),
        "below": [first_below(curve.steps, BELOW) for curve in curves],
        "likely": [_first_likely(curve.steps) for curve in curves],
        "seen": [first_seen(curve.steps) for curve in curves],
        "paid": {name: _mean([step.paid[name] for step in lasts]) for name in lasts[0].paid},
        "thresholds": {name: [step.thresholds[name] for step in lasts] for name in lasts[0].thresholds},
    }


def _over_seeds(curves: Sequence[ErosionCurve], measure: Callable[[ErosionStep], float]) -> list[dict[str, float]]:
    """Return the mean and the range of a measure over seeds, after each number of updates."""
    rows = []
    for steps in zip(*(curve.steps for curve in curves), strict=True):
        values = [measure(step) for step in steps]
        rows.append({"updates": steps[0].updates, "mean": _mean(values), "lowest": min(values), "highest": max(values)})
    return rows


def _first_likely(steps: Sequence[ErosionStep]) -> int | None:
    """Return the first number of updates after which a test of behaviour has at least the power `POWER`, or None."""
    return next((step.updates for step in steps if step.power >= POWER), None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def to_markdown(page: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    environment = jinja2.Environment(
        autoescape=True, finalize=escaped, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= FILTERS | {"numbers": numbers_text}
    template = environment.from_string(Path(__file__).with_name("erosion.md.j2").read_text("utf-8"))
    return template.render(**page, below=BELOW, likely=POWER).rstrip() + "\n"


def numbers_text(values: Sequence[int | None]) -> str:
    """Return numbers of updates over seeds as a text: one if all agree, else the range; "never" stands for None."""
    words = ["never" if value is None else str(value) for value in sorted(values, key=_never_last)]
    if words[0] == words[-1]:
        return words[0]
    return f"{words[0]} to {words[-1]}"


def _never_last(value: int | None) -> float:
    return float("inf") if value is None else value


def to_csv(page: Mapping[str, Any]) -> str:
    """Return the table of steps: a row for each curve and number of updates, with empty cells for missing values."""
    rows = []
    for curve in page["curves"]:
        for step in curve["steps"]:
            row = {name: {**curve, **step}[name] for name in COLUMNS}
            row |= {f"threshold_{name}": value for name, value in step["thresholds"].items()}
            row |= {f"paid_{name}": value for name, value in step["paid"].items()}
            rows.append(row)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*dict.fromkeys(name for row in rows for name in row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


MEASURES = {"neutrality": "normalised neutrality", "power": "power of a test of behaviour"}
"""The measures of a figure, one in a row of plots."""
MARKS = {"neutrality": BELOW, "power": POWER}
"""The value of each measure at which erosion counts as seen."""


def plot(page: Mapping[str, Any], path: Path) -> None:
    """Plot normalised neutrality and the power of the test of behaviour against the number of updates."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from drest_torch.plots.style import GREY, distinct_colours, legend_below, tidy, write_figure

    conditions = [*dict.fromkeys(row["condition"] for row in page["summary"])]
    remedies = [*dict.fromkeys(row["remedy"] for row in page["summary"])]
    colours = dict(zip(remedies, distinct_colours(len(remedies)), strict=True))
    figure = Figure(figsize=(1.5 + 2.4 * len(conditions), 5), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(2, len(conditions), squeeze=False, sharex=True, sharey=True)
    for (name, label), row in zip(MEASURES.items(), axes, strict=True):
        row[0].set_ylabel(label, fontsize=9, color=GREY)
        for ax, condition in zip(row, conditions, strict=True):
            tidy(ax, condition.replace("_", " "), size=9)
            ax.axhline(MARKS[name], color=GREY, linestyle=(0, (1, 2)))
    lines = {}
    for row in page["summary"]:
        for ax, name in zip(axes[:, conditions.index(row["condition"])], MEASURES, strict=True):
            lines[row["remedy"]] = _plot_curve(ax, row[name], colours[row["remedy"]])
    axes[0, 0].set(xscale="symlog", ylim=(-0.03, 1.03))
    axes[0, 0].set_xlim(left=0)
    figure.supxlabel("further updates", fontsize=9, color=GREY)
    legend_below(figure, [*lines.values()], [*lines], "range over seeds")
    write_figure(figure, path)


def _plot_curve(ax: Any, points: Sequence[Mapping[str, float]], colour: Any) -> Any:
    """Plot the mean of a measure over seeds and its range, and return the line."""
    from drest_torch.plots.style import BAND

    updates, mean, lowest, highest = ([point[key] for point in points] for key in points[0])
    ax.fill_between(updates, lowest, highest, color=colour, alpha=BAND, linewidth=0)
    (line,) = ax.plot(updates, mean, color=colour, marker="o", markersize=3)
    return line
