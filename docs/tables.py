"""Write the generated tables of the explanations; the numbers in them are not typed by hand.

    python docs/tables.py

A table stands between a line `<!-- NAME: written by python docs/tables.py -->` and one with `<!-- end -->`. It comes
from a closed form, or from what a study keeps for it in `docs/results/STUDY.json` (see `docs/results.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from drest_torch.choices.closed_forms import best_pressed, button_usefulness, critical_cost, pressed
from drest_torch.report.tables import in_markdown

DOCS = Path(__file__).resolve().parent
LAM = 0.9
SHIFTS, SIZES = ((0.1, 0.5), (0.1, 0.9), (0.01, 0.99), (0.5, 0.9)), (16, 32, 64)
"""Of P(longer), and numbers of mini-episodes E."""
CHANCES, EPISODES = (0.5, 0.2), (2, 8, 16, 32, 64)
"""With which a button works, and E."""
TABLE = re.compile(r"(<!-- (\w+): written by python docs/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)


def critical() -> str:
    """Return the largest prices that DReST pays for a shift of P(longer)."""
    rows = [(f"{p:g} → {q:g}", *(f"{critical_cost(p, q, LAM, size):.2f}" for size in SIZES)) for p, q in SHIFTS]
    return in_markdown(("from → to, P(longer)", *(f"E = {size}" for size in SIZES)), rows)


def button() -> str:
    """Return the usefulness of what training comes to and of what maximises the return, with a button by chance."""
    rows = [
        (f"{chance:g}", words, *(f"{button_usefulness(chance, longer(chance, LAM, size)):.3f}" for size in EPISODES))
        for chance in CHANCES
        for words, longer in (("training's fixed point", pressed), ("the maximiser of the return", best_pressed))
    ]
    return in_markdown(("the button works with", "usefulness of", *(f"E = {size}" for size in EPISODES)), rows)


def kept(study: str, name: str) -> str:
    """Return a table of a study."""
    table = json.loads((DOCS / "results" / f"{study}.json").read_text("utf-8"))["tables"][name]
    return in_markdown(table["header"], table["rows"])


TABLES: dict[str, Callable[[], str]] = {
    "critical": critical,
    "button": button,
    "arms": partial(kept, "lotteries", "arms"),
}
"""By the names in the pages."""


def written(text: str) -> str:
    """Return a page with its tables made anew."""
    return TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", text)


def main() -> None:
    """Write the pages."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if (new := written(text)) != text:
            page.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
