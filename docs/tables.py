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
from typing import Any

from drest_torch.choices.closed_forms import best_pressed, button_usefulness, critical_cost, pressed
from drest_torch.report.tables import in_markdown

DOCS = Path(__file__).resolve().parent
LAM = 0.9
SHIFTS, SIZES = ((0.1, 0.5), (0.1, 0.9), (0.01, 0.99), (0.5, 0.9)), (16, 32, 64)
"""Of P(longer), and numbers of mini-episodes E."""
CHANCES, EPISODES = (0.5, 0.2), (2, 8, 16, 32, 64)
"""With which a button works, and E."""
PAIRS = "in pairs of levels that share a state: (U + N) / 2"
"""What the study of shutdownability calls what it measures there."""
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


def of_study(name: str) -> Any:
    """Return what is kept of a study."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text("utf-8"))


def arms() -> str:
    """Return what agents in menus do, by what they were trained for."""
    table = of_study("lotteries")["tables"]["arms"]
    return in_markdown(table["header"], table["rows"])


def language(name: str) -> str:
    """Return a table of the study of language models."""
    table = of_study("language")["tables"][name]
    return in_markdown(table["header"], table["rows"])


def pairs() -> str:
    """Return what agents reach where two levels share a state, by what they see."""
    quotes = {quote["what"]: quote["measured"] for quote in of_study("shutdownability")["quotes"]}
    most = quotes.pop(f"{PAIRS}, the most for the state alone")
    rows = [(f"the {what.removesuffix(f', {PAIRS}')}", text) for what, text in quotes.items() if what.endswith(PAIRS)]
    return in_markdown(("the policy sees", "(U + N) / 2"), [("the state alone, at most", most), *rows])


TABLES: dict[str, Callable[[], str]] = {
    "critical": critical,
    "button": button,
    "arms": arms,
    "pairs": pairs,
    **{f"language_{name}": partial(language, name) for name in ("follow_up", "post", "lines")},
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
