"""The tables of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drest_torch.choices.closed_forms import critical_cost
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import median_range
from drest_torch.statistics.intervals import contrast

Numbers = Mapping[str, np.ndarray]
SHIFTS = ((0.1, 0.5), (0.1, 0.9), (0.01, 0.99), (0.25, 0.75), (0.35, 0.75), (0.4, 0.5), (0.5, 0.9))
SUITES = {
    "main": "main",
    "dominance": "dominance",
    "zero_cost": "zero cost",
    "joint_noshift": "joint, no shift",
    "shift_earlier": "earlier",
    "shift_earlier_dominance": "earlier, dominance",
    "extreme_later": "extreme",
    "extreme_earlier": "extreme, earlier",
}
LOG_ODDS = {f"log-odds/{name}": words for name, words in SUITES.items()}
OTHERS = {
    "usefulness": "usefulness, sure",
    "neutrality": "neutrality, sure",
    "usefulness/three": "usefulness, three options",
    "neutrality/three": "neutrality, three options",
    "shift/never": "κ̂ 0.05",
    "ilpacs": "ILPACS",
    "items/ilpacs": "its valid items",
    "resic/main": "ReSIC holds, of main",
    "resic/shift_earlier": "of earlier",
    "resic/dominance": "of dominance",
    "maximality": "Maximality",
    "slack/worst": "largest slack",
}
PROSPECTS = {
    "posl": "POSL of 9",
    "neutrality/prospects": "Neutrality of 2",
    "cycles": "cycles",
    "negative dominance": "against Negative Dominance",
    "later/0.01/0.05": "resists",
    "earlier/0.01/0.05": "resists, earlier",
    "class/part-shared-length": "part-shared, by chance",
    "class/same-length, one better": "better one taken",
}


def critical(lam: float) -> Table:
    """Return κ* in closed form."""
    sizes = (16, 32, 64)
    lines = [[f"{p:g} → {q:g}", *(f"{critical_cost(p, q, lam, size):.3f}" for size in sizes)] for p, q in SHIFTS]
    return Table("The largest price κ* in closed form", ["P(longer)", *(f"E = {size}" for size in sizes)], lines)


def corridors(found: Sequence[Mapping[str, Any]]) -> Table:
    """Return how often the shift is paid for in the corridors."""
    lines = [
        [f"E = {row['episodes']}, κ = {row['cost']:g}", f"{row['predicted']:.4f}", f"{row['alpha']:.4f}"]
        for row in found
    ]
    return Table("Corridors: how often the shift is paid for", ["reward and price", "closed form", "trained"], lines)


def buttons(found: Sequence[Mapping[str, Any]]) -> Table:
    """Return how buttons that work by chance are used."""
    lines = [
        [
            f"c = {row['chance']:g}, E = {row['episodes']}",
            *(f"{row[name]:.4f}" for name in ("predicted", "longer", "usefulness_predicted", "usefulness")),
        ]
        for row in found
    ]
    header = ["chance and reward", "P(longer), closed form", "trained", "usefulness, closed form", "trained "]
    return Table("Buttons that work by chance", header, lines)


def apart(first: np.ndarray, second: np.ndarray) -> list[float]:
    """Return the difference of two means over agents, with its 95 % interval."""
    found = contrast(first[:, None], second[:, None])
    return [found.estimate, found.low, found.high]


def rows(caption: str, everyone: Mapping[str, Numbers], columns: Mapping[str, str], times: float, digits: int) -> Table:
    """Return a row for each arm and archetype: the median over agents, with the lowest and the highest."""
    lines = [
        [literal(name), *(median_range(times * numbers[column], digits) for column in columns)]
        for name, numbers in everyone.items()
    ]
    return Table(caption, ["agent", *columns.values()], lines)


def wanted(arms: Mapping[str, Numbers], bounds: Mapping[str, tuple[bool, float]]) -> Table:
    """Return for each number that is wanted how many agents of the arms reach it."""
    lines = []
    for name, (most, bound) in bounds.items():
        cells = []
        for numbers in arms.values():
            if np.isnan(numbers[name]).all():
                cells.append("–")
                continue
            good = numbers[name] <= bound if most else numbers[name] >= bound
            cells.append(f"{'✓' if good.all() else '✗'} {int(good.sum())} of {len(good)}")
        lines.append([f"{(SUITES | OTHERS | PROSPECTS)[name]} {'≤' if most else '≥'} {bound:g}", *cells])
    return Table("What is wanted, and how many agents reach it", ["wanted", *map(literal, arms)], lines)
