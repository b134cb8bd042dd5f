"""Write the README's table of what is reproduced, from the studies' summaries.

    python -m drest_torch.study study=all
    python docs/reproduction.py results

The lines are kept in `docs/reproduction.json` as well, so that a test can tell when they and the README, or they
and what the code finds, drift apart.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
README, KEPT = DOCS.parent / "README.md", DOCS / "reproduction.json"
BEGIN, END = "<!-- written by docs/reproduction.py -->", "<!-- end -->"


def collect(results: Path) -> dict[str, list[dict[str, str]]]:
    """The lines of every study that has a summary."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in sorted(results.glob("*/summary.json")):
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found[path.parent.name] = summary["quotes"]
    return found


def table(lines: dict[str, list[dict[str, str]]]) -> str:
    rows = ["| study | what | the paper | measured |", "|---|---|---|---|"]
    for study, quotes in lines.items():
        for quote in quotes:
            cells = (f"`{study}`", quote["what"], quote["reported"], quote["measured"])
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def between_marks(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def main(results: Path) -> None:
    found = collect(results)
    if not found:
        sys.exit(f"{results}: no summaries of studies in it; run python -m drest_torch.study study=all first")
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{README}: no lines '{BEGIN}' and '{END}' to write between")
    kept = {**json.loads(KEPT.read_text(encoding="utf-8")), **found} if KEPT.exists() else found
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    README.write_text(f"{before}{begin}\n{table(kept)}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
