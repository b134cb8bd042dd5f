"""Keep what the published tables need of studies in `docs/results/STUDY.json`, and write the tables and plots anew.

    python -m drest_torch.study study=paper
    python -m drest_torch.study study=goals study.parts=[learning]
    python docs/results.py results

A study that is not in the folder keeps its earlier results, and so do goals and figures that a study did not measure
this time: those that nobody measures any more are deleted by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))

import tables

from drest_torch.plots.style import write_figure
from drest_torch.report.style import LIGHT

KEYS = ("quotes", "claims", "goals", "path", "published", "sizes", "cost", "tables")
"""What is kept of a summary."""
Found = Mapping[str, Any]


def collect(results: Path) -> dict[str, dict[str, Any]]:
    """Return what is kept of every study that has a summary in the folder and was done as it is published."""
    kept = {}
    for path in sorted(results.glob("*/summary.json")):
        name, summary = path.parent.name, json.loads(path.read_text(encoding="utf-8"))
        others = [key for key in summary.get("changed", ()) if key != "parts"]
        if others and "goals" not in summary:
            print(f"{name}: made with another study.{others[0]} than the published one; that one stays")
            continue
        if "goals" in summary:  # a row each, which says by how many seeds; quotes are of what was pursued last
            summary.pop("quotes", None)
        kept[name] = {key: summary[key] for key in KEYS if key in summary}
    return kept


def with_earlier(found: Found, earlier: Found) -> dict[str, Any]:
    """Return the results of a study, with the earlier ones of goals that it did not pursue this time."""
    merged = {**earlier, **{key: value for key, value in found.items() if value or key not in earlier}}
    pursued = (groupby(results.get("goals", ()), itemgetter("title")) for results in (earlier, found))
    if goals := {title: [*rows] for each in pursued for title, rows in each}:  # in the order of the earlier
        merged["goals"] = [row for rows in goals.values() for row in rows]
    if quotes := {row["what"]: row for results in (earlier, found) for row in results.get("quotes", ())}:
        merged["quotes"] = [*quotes.values()]
    if several := earlier.get("tables", {}) | found.get("tables", {}):
        merged["tables"] = several
    return merged


def write_plots(results: Found, folder: Path) -> None:
    """Write the plots of the study `goals`."""
    for name, make in tables.PLOTS.items():
        if results.get(name):
            plot = make(results[name])
            with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
                plot.draw(figure := Figure(figsize=plot.size), LIGHT)
                write_figure(figure, folder / f"{name}.png")


def main(results: Path) -> None:
    """Keep what the studies in the folder found, and write the pages."""
    if not (new := collect(results)):
        sys.exit(f"{results}: no summaries of studies in it; run drest study study=paper first")
    for study, found in new.items():
        path = tables.KEPT / f"{study}.json"
        earlier = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.write_text(json.dumps(with_earlier(found, earlier), indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_plots(tables.of_study("goals"), tables.DOCS / "images")
    tables.main()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
