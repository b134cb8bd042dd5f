"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drest_torch.choices import gap
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import median_range
from drest_torch.report.template import num
from drest_torch.studies.gap.analysis import Kind, Tables


def kinds_table(kinds: Sequence[Kind]) -> Table:
    """Return what each kind does in forks, ex ante."""
    header = ["agents", "seeds", "trio on ≥ 95 % of forks", "trio", "P(b | long)", "P(long)", "e_s", "e_x", "e_x / e_s"]
    header += ["range of b / a", "usefulness", "neutrality"]
    rows = []
    for kind in kinds:
        mark = "" if not kind.divided else "✓ " if kind.reached == len(kind.gaps) else "◐ " if kind.reached else "✗ "
        ends = [
            [n[key] for n in (found.numbers() for found in kind.gaps) if n[key] is not None] for key in ("low", "high")
        ]
        rows.append(
            [
                literal(kind.title),
                str(len(kind.gaps)),
                f"{mark}{kind.reached} of {len(kind.gaps)}",
                median_range(kind.trios, 2),
                median_range(kind.values("p_better")),
                median_range(kind.values("p_long")),
                median_range(kind.values("same"), 1),
                median_range(kind.values("cross"), 2),
                median_range(kind.ratios),
                f"{np.median(ends[0]):.2f} to {np.median(ends[1]):.1f}" if ends[0] else "none",
                *(median_range(_tested(kind, name)) for name in ("usefulness", "neutrality")),
            ]
        )
    return Table("What the agents do in forks, ex ante", header, rows)


def _tested(kind: Kind, name: str) -> list[float]:
    return [float(arrays[f"test/{name}"].mean()) for arrays in kind.arrays if f"test/{name}" in arrays]


def given_table(kinds: Sequence[Kind]) -> Table:
    """Return the agents with private bits, ex ante and given each setting of the bits."""
    rows = []
    for kind in (kind for kind in kinds if kind.settings > 1):
        for name, chances in [
            ("ex ante", [each.mean(0) for each in kind.chances]),
            *((f"given setting {z + 1}", [each[z] for each in kind.chances]) for z in range(kind.settings)),
        ]:
            found = [gap.gap(each).numbers() for each in chances]
            cells = (("trio", 2), ("p_better", 3), ("p_long", 3), ("e_same", 1), ("e_cross", 2))
            values = [median_range([n[key] for n in found if n[key] is not None], digits) for key, digits in cells]
            rows.append([f"{literal(kind.title)}, {name}", *values])
    header = ["agents", "trio", "P(b | long)", "P(long)", "e_s", "e_x"]
    return Table("Before and after the private bits are known", header, rows)


def control_table(kinds: Sequence[Kind]) -> Table:
    """Return the softmax of coins beside each kind."""
    rows = []
    for kind in kinds:
        found = [of for _, of in kind.controls]
        rows.append(
            [
                literal(kind.title),
                median_range([steepness for steepness, _ in kind.controls], 2),
                median_range([float(of.passes().mean()) for of in found], 2),
                median_range([float(of.p_better.mean()) for of in found]),
                median_range([float(of.p_long.mean()) for of in found]),
                median_range([of.ratio for of in found if not np.isnan(of.ratio)]),
            ]
        )
    header = ["as deterministic as", "steepness", "trio", "P(b | long)", "P(long)", "e_x / e_s"]
    return Table("The control: a softmax of coins", header, rows)


def tables_table(tables: Sequence[Tables]) -> Table:
    """Return where the length of table agents is settled."""
    header = ["E", "x with P(long) = 0.99", "predicted", "λ^(−(E−1)/2)", "distance of P(long) from b(x), mean"]
    rows = [
        [str(of.episodes), num(of.settled, 1), num(of.settled_predicted, 1), num(of.critical, 1), num(of.apart)]
        for of in tables
    ]
    return Table("Table agents whose coins are not divided by m", header, rows)
