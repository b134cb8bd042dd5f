"""The prose of a report: a template in Markdown with Jinja2, and the blocks that it asks for.

Text that a template shows through ``{{ … }}`` is escaped for Markdown, unless a filter or function of this module, a
macro or ``{% set %}…{% endset %}`` made it. A line that has nothing but ``{% … %}`` on it leaves no trace.
`shared.md.j2` has the sentences that several reports need, as macros of the name ``shared``.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from drest_torch.errors import StudyError
from drest_torch.report import markdown
from drest_torch.report.blocks import Block, Commands, Details, Gallery, Plot, Prose, Section, Table
from drest_torch.report.tables import MISSING, num
from drest_torch.statistics.intervals import Interval

_PARTS = re.compile(r"^(```[^\n]*\n.*?^```|#{1,6} +\S[^\n]*|\ue000\d+\ue001)$", re.MULTILINE | re.DOTALL)
"""The lines that divide a page: code, headings, and marks of blocks."""
_ALONE = re.compile(r"^[ \t]*((?:\{%(?:(?!%\}).)*%\}[ \t]*)+)\n", re.MULTILINE)


def render_template(
    path: Path,
    values: Mapping[str, Any],
    tables: Mapping[str, Table],
    plots: Mapping[str, Plot],
    claims: dict[str, bool] | None = None,
) -> list[Block]:
    """Return the blocks of a template: those before its first heading, then a `Section` for each ``## heading``.

    ``claims`` gets the sentences that claim something, and whether they hold.
    """
    return Template(path, tables, plots, {} if claims is None else claims).render(values)


@dataclass
class Template:
    """A template, with the blocks that it has asked for so far; `BLOCK_MARK` stands for them in its text."""

    path: Path
    tables: Mapping[str, Table]
    plots: Mapping[str, Plot]
    claims: dict[str, bool]
    blocks: list[Block] = field(default_factory=list)
    placed: set[int] = field(default_factory=set)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that the template may call."""
        return {
            "table": self.table,
            "plot": self.plot,
            "gallery": self.gallery,
            "details": self.details,
            "lead": lambda caller: self.mark(Prose(_sentence(caller), "lead")),
            "note": lambda caller: self.mark(Prose(_sentence(caller), "note")),
            "claim": self.claim,
            "commands": lambda lines: self.mark(Commands(list(lines))),
        }

    def source(self) -> str:
        """Return the text of the template."""
        return self.path.read_text("utf-8")

    def render(self, values: Mapping[str, Any]) -> list[Block]:
        """Return the blocks of the template, with these values in it."""
        loader = jinja2.PackageLoader("drest_torch.report", "")
        environment = jinja2.Environment(
            autoescape=True, finalize=_shown, undefined=jinja2.StrictUndefined, loader=loader
        )
        environment.filters |= FILTERS
        environment.globals["shared"] = environment.get_template("shared.md.j2").module
        source = _ALONE.sub(r"\1{#\n#}", self.source())
        try:
            text = environment.from_string(source).render(
                {**values, "tables": self.tables, "plots": self.plots, **self.functions()}
            )
        except jinja2.TemplateError as error:
            raise StudyError(f"{self.path}:{_line(error)}: {error.message}") from error
        blocks = self._parse(text)
        if len(self.placed) < len(self.blocks):
            lost = next(block for index, block in enumerate(self.blocks) if index not in self.placed)
            kind = type(lost).__name__.lower()
            raise StudyError(
                f"{self.path}: a {kind} is asked for where no block can stand, such as in a note or a caption; "
                "put it on a line of its own"
            )
        return blocks

    # --------------------------------------------------------------------- functions of templates

    def table(self, name: str, caller: Callable[[], str] | None = None) -> Markup:
        """Show a table; the content of ``{% call table("name") %}`` is its note."""
        table = self.named(self.tables, name, "table")
        return self.mark(replace(table, note=_sentence(caller)) if caller else table)

    def plot(self, name: str, caller: Callable[[], str] | None = None) -> Markup:
        """Show a plot; the content of ``{% call plot("name") %}`` is its caption."""
        plot = self.named(self.plots, name, "plot")
        return self.mark(replace(plot, caption=_sentence(caller)) if caller else plot)

    def gallery(self, *names: str) -> Markup:
        """Show plots side by side."""
        plots = [self.named(self.plots, name, "plot") for name in names]
        return self.mark(Gallery(plots)) if plots else Markup("")

    def details(self, summary: str, caller: Callable[[], str]) -> Markup:
        """Fold the content of ``{% call details("summary") %}`` away."""
        return self.mark(Details(_shown(summary), self._parse(caller())))

    def claim(self, holds: Any, caller: Callable[[], str]) -> Markup:
        """Say the content of ``{% call claim(condition) %}``, or that it does not hold."""
        sentence = _sentence(caller)
        self.claims[sentence] = bool(holds)
        return Markup(sentence if holds else f"(This does not hold in these results: {sentence})")

    def named(self, blocks: Mapping[str, Any], name: str, kind: str) -> Any:
        """Return the block of a name, or raise with the names that there are."""
        if name not in blocks:
            names = ", ".join(blocks) or "none at all"
            raise StudyError(f"{self.path}: shows the {kind} '{name}', which the study does not have; it has {names}")
        return blocks[name]

    def mark(self, block: Block) -> Markup:
        """Return the text that stands for a block."""
        self.blocks.append(block)
        return Markup(f"\n\n\ue000{len(self.blocks) - 1}\ue001\n\n")

    # ------------------------------------------------------------------------------------- parsing

    def _parse(self, text: str) -> list[Block]:
        """Return the blocks of rendered Markdown; headings of two and three ``#`` begin sections."""
        root: list[Block] = []
        section = blocks = root
        for index, part in enumerate(_PARTS.split(text)):
            if index % 2 == 0:  # what stands between those lines
                blocks += [Prose(part.strip("\n").rstrip())] if part.strip() else []
            elif mark := markdown.BLOCK_MARK.fullmatch(part):
                self.placed.add(int(mark[1]))
                blocks.append(self.blocks[int(mark[1])])
            elif part.startswith("```"):
                blocks.append(Commands(part.split("\n")[1:-1]))
            else:
                level, title = part.strip().split(maxsplit=1)
                if level not in ("##", "###"):
                    raise StudyError(f"{self.path}: '{title}' is no heading of two or three #, the only kinds")
                parent, blocks = root if level == "##" else section, []
                parent.append(Section(markdown.plain(title), blocks))
                section = blocks if level == "##" else section
        return root


def _line(error: jinja2.TemplateError) -> int | None:
    """Return the line of a template that an error came from."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)


def _sentence(caller: Callable[[], str]) -> str:
    return " ".join(caller().split())


def _shown(value: Any) -> Any:
    """Return what stands in a template for a value: text is escaped for Markdown."""
    return MISSING if value is None else markdown.escaped(value)


# ------------------------------------------------------------------------------------------- filters


def percent(value: float | None, digits: int = 0) -> str:
    """``95 %``"""
    return MISSING if value is None or math.isnan(value) else f"{num(100 * value, digits)} %"


def thousands(value: float | None) -> str:
    """``131,072``"""
    return MISSING if value is None or math.isnan(value) else f"{value:,.0f}"


def short(value: float) -> str:
    """``1.25``, ``1,250`` or ``1e6``: a number of any size in few characters."""
    if value < 9.95:
        return f"{value:.2f}"
    if value < 9999.5:
        return f"{value:,.0f}"
    digits, _, power = f"{value:.0e}".partition("e+")
    return f"{digits}e{int(power)}"


def general(value: float) -> str:
    """``0.9``, ``64``: a setting, with no more digits than it has."""
    return f"{value:g}"


def mean_sd(values: Sequence[float] | None, digits: int = 3) -> str:
    """``0.951 ± 0.012``, of a pair."""
    return MISSING if values is None else f"{num(values[0], digits)} ± {num(values[1], digits)}"


def interval(values: Interval | Sequence[float] | None, digits: int = 3) -> str:
    """``0.951 (0.940-0.962)``, of an `Interval` or its three numbers."""
    if values is None:
        return MISSING
    return (values if isinstance(values, Interval) else Interval(*values)).text(digits)


def verdict(value: bool, yes: str = "yes", no: str = "no") -> Markup:
    """**yes** or **no**, or other words for them."""
    return Markup(f"**{yes if value else no}**")


def plural(count: int, noun: str, nouns: str = "") -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(values: Sequence[Any], last: str = "and") -> Markup:
    """``a, b and c``"""
    *others, end = [Markup(_shown(value)) for value in values] or [Markup(MISSING)]
    return Markup(f" {last} ").join([Markup(", ").join(others), end]) if others else end


_NAMED = (num, percent, thousands, short, general, mean_sd, interval, verdict, plural, listed)
FILTERS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _NAMED} | {
    "code": lambda value: Markup(markdown.code(str(value)))
}
