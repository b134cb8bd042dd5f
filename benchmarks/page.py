"""The page of all parts: what was measured last of each, and what was wanted and not reached."""

from __future__ import annotations

import re
from collections.abc import Mapping

INTRODUCTION = """# Benchmarks

<!-- written by python -m benchmarks.run; not to be edited by hand -->

How long things take, each beside its baselines and the machine's own limits in the same run. In every repeat the
contenders of a table take their turns, so that a disturbance is one for all. A figure is the median of the repeats,
with the slowest in brackets; what is wanted has to hold in the slowest. *First* is the first call of all, in seconds:
what is compiled, read or warmed up then is in no other figure. *Beside it* and *limit* are medians in the same unit."""
MARK = "<!-- part {} -->\n\n"


def parts_of(page: str) -> dict[str, str]:
    """The text of each part of a page."""
    found = re.split(r"<!-- part (\w+) -->\n\n", page)
    return {name: text.strip() for name, text in zip(found[1::2], found[2::2], strict=True)}


def page_of(parts: Mapping[str, str]) -> str:
    """The page with these parts, in their order."""
    missed = [f"- {name}, {line}" for name, text in parts.items() for line in missed_in(text)]
    head = ["## Wanted and not reached\n\n" + "\n".join(missed)] if missed else []
    return "\n\n".join([INTRODUCTION, *head, *(MARK.format(name) + text for name, text in parts.items())]) + "\n"


def missed_in(text: str) -> list[str]:
    """What a part says of targets that were not reached, one line each."""
    lines, title = [], ""
    for line in text.splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
        if line.endswith(" **missed** |"):
            what, unit, value, *_, wanted = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            lines.append(f"{title}: {what}: {value} {unit}, wanted {wanted.removesuffix(' **missed**')}")
    return lines
