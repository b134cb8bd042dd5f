"""The page of all parts, with their last measurements and the missed targets."""

from __future__ import annotations

import re
from collections.abc import Mapping

INTRODUCTION = """# Benchmarks

<!-- written by python -m benchmarks.run; not to be edited by hand -->

Speed of the parts of the project, compared with baselines and the limits of the machine. Implementations in a table are
timed round-robin, so that background load affects all of them equally. A figure is the median of the repeats, with the
slowest in brackets. A target is a ratio, and the slowest repeat has to reach it. The first call, which includes
compilation and warm-up, is listed separately. Baselines and limits are medians in the unit of their row."""
MARK = "<!-- part {} -->\n\n"


def parts_of(page: str) -> dict[str, str]:
    """Return the text of each part of a page."""
    _, *pieces = re.split(r"<!-- part (\w+) -->\n\n", page)
    return {name: text.strip() for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def page_of(parts: Mapping[str, str]) -> str:
    """Return a page with these parts in order."""
    missed = [f"- {name}, {line}" for name, text in parts.items() for line in missed_in(text)]
    head = ["## Missed targets\n\n" + "\n".join(missed)] if missed else []
    return "\n\n".join([INTRODUCTION, *head, *(MARK.format(name) + text for name, text in parts.items())]) + "\n"


def missed_in(text: str) -> list[str]:
    """Return a line for each missed target of a part."""
    lines, title = [], ""
    for line in text.splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
        if line.endswith(" **missed** |"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            name, unit, value, target = cells[0], cells[1], cells[2], cells[-1].removesuffix(" **missed**")
            lines.append(f"{title}: {name}: {value} {unit}, target {target}")
    return lines
