"""Pages in Markdown with Jinja2 that place figures, tables and other blocks.

The value of ``{{ … }}`` is escaped for Markdown, unless a function returned it as `Markup`.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from drest_torch.errors import StudyError
from drest_torch.report import markdown
from drest_torch.report.blocks import Block, Commands, Prose, Section
from drest_torch.report.tables import MISSING, num

_PARTS = re.compile(r"^(```[^\n]*\n.*?^```|#{1,6} +\S[^\n]*|\ue000\d+\ue001)$", re.MULTILINE | re.DOTALL)
"""The lines that divide a page: code, headings, and marks of blocks."""


@dataclass
class Template:
    """The Markdown of a page and its blocks; a `BLOCK_MARK` marks the place of each block in the rendered text."""

    path: Path
    blocks: list[Block] = field(default_factory=list)
    placed: set[int] = field(default_factory=set)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that the page may call."""
        return {}

    def source(self) -> str:
        """Return the text of the page."""
        return self.path.read_text("utf-8")

    def render(self, values: Mapping[str, Any]) -> list[Block]:
        """Render the page with these values: return the blocks before the first heading, then a `Section` for each."""
        environment = jinja2.Environment(autoescape=True, finalize=_escaped, undefined=jinja2.StrictUndefined)
        environment.filters |= FILTERS
        try:
            text = environment.from_string(self.source()).render({**values, **self.functions()})
        except jinja2.TemplateError as error:
            raise StudyError(f"{self.path}:{_line(error)}: {error.message}") from error
        blocks = self._parse(text)
        if len(self.placed) < len(self.blocks):
            lost = next(block for index, block in enumerate(self.blocks) if index not in self.placed)
            kind = type(lost).__name__.lower()
            raise StudyError(
                f"{self.path}: a {kind} is placed where no block is allowed, such as in code; put it on a line "
                "of its own"
            )
        return blocks

    def named(self, blocks: Mapping[str, Any], name: str, kind: str) -> Any:
        """Return the block of this name; raise with the existing names if it does not exist."""
        if name not in blocks:
            names = ", ".join(blocks) or "none at all"
            raise StudyError(f"{self.path}: shows the {kind} '{name}', which the study does not have; it has {names}")
        return blocks[name]

    def mark(self, block: Block) -> Markup:
        """Add a block, and return the placeholder for it."""
        self.blocks.append(block)
        return Markup(f"\n\n\ue000{len(self.blocks) - 1}\ue001\n\n")

    # ------------------------------------------------------------------------------------- parsing

    def _parse(self, text: str) -> list[Block]:
        """Return the blocks of rendered Markdown; headings with two or three ``#`` begin sections."""
        root: list[Block] = []
        section = blocks = root
        for index, part in enumerate(_PARTS.split(text)):
            if index % 2 == 0:  # the text between two dividing lines
                blocks += [Prose(part.strip("\n").rstrip())] if part.strip() else []
            elif mark := markdown.BLOCK_MARK.fullmatch(part):
                self.placed.add(int(mark[1]))
                blocks.append(self.blocks[int(mark[1])])
            elif part.startswith("```"):
                blocks.append(Commands(part.split("\n")[1:-1]))
            else:
                level, title = part.strip().split(maxsplit=1)
                if level not in ("##", "###"):
                    raise StudyError(f"{self.path}: '{title}' is not a heading with two or three #")
                parent, blocks = root if level == "##" else section, []
                parent.append(Section(markdown.plain(title), blocks))
                section = blocks if level == "##" else section
        return root


def _line(error: jinja2.TemplateError) -> int | None:
    """Return the line of the template in which an error occurred."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)


def _escaped(value: Any) -> Any:
    """Return the text of a value in a template, escaped for Markdown."""
    return MISSING if value is None else markdown.escaped(value)


# ------------------------------------------------------------------------------------------- filters


def percent(value: float | None, digits: int = 0) -> str:
    """Return a share as text: ``95 %``."""
    return MISSING if value is None or math.isnan(value) else f"{num(100 * value, digits)} %"


def thousands(value: float | None) -> str:
    """Return a whole number as text: ``131,072``."""
    return MISSING if value is None or math.isnan(value) else f"{value:,.0f}"


def short(value: float) -> str:
    """Return a number of any size in few characters: ``1.25``, ``1,250`` or ``1e6``."""
    if value < 9.95:
        return f"{value:.2f}"
    if value < 9999.5:
        return f"{value:,.0f}"
    digits, _, power = f"{value:.0e}".partition("e+")
    return f"{digits}e{int(power)}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: ``1 run``, ``2 runs``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


FILTERS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (num, percent, thousands, short, plural)
}
"""The filters of pages, used as in ``{{ mean|num(2) }}``."""
