"""The tables of the report."""

from __future__ import annotations

from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.studies.misspecified.analysis import CLOSE, Kind, Row

METHODS = {"exact": "free policy, exact", "network": "network, exact", "table": "table, sampled"}


def worlds_table(rows: list[Row]) -> Table:
    """Return what is predicted and found in each world."""
    header = ["world", "paid", "m of", "by", "x", "P(longer), predicted", "found", "N", "U", "U, paid"]
    cells = [
        [
            literal(row.world),
            row.pays,
            row.divisor,
            METHODS[row.method],
            f"{row.x:.3g}",
            f"{row.predicted:.4f}",
            f"{'✓' if row.error <= CLOSE else '✗'} {row.found:.4f}",
            *(f"{value:.3f}" for value in (row.neutrality, row.usefulness, row.proxy)),
        ]
        for row in rows
    ]
    return Table("Wrong coin values: predicted and found", header, cells)


def kinds_table(kinds: list[Kind]) -> Table:
    """Return usefulness and neutrality of each kind of agents, where the feature coincides and where it misleads."""
    header = ["agents", "seeds", "test levels", "U", "U by the feature", "N", "P(longer)"]
    rows = []
    for kind in kinds:
        for order, words in {"coincides": "feature coincides", "reversed": "feature misleads"}.items():
            names = ("usefulness", "proxy", "neutrality", "longest")
            measures = [kind.interval(f"{order}/{name}").text() for name in names]
            name = [literal(kind.title), str(kind.seeds)] if order == "coincides" else ["", ""]
            rows.append([*name, words, *measures])
    return Table("Usefulness and neutrality before and after", header, rows)


def square_table(kinds: list[Kind]) -> Table:
    """Return how many seeds lose or hold the goal, and are neutral or not."""
    header = ["agents", "lost, neutral", "lost, not", "held, neutral", "held, not", "void", "N changes by"]
    rows = [
        [
            literal(kind.title),
            *(str(kind.count(outcome, neutral)) for outcome in ("lost", "held") for neutral in (True, False)),
            str(kind.count("void")),
            kind.change().text(),
        ]
        for kind in kinds
    ]
    return Table("Goal and neutrality where the feature misleads", header, rows)
