"""The page of a study, made from its rows and its Markdown: the same for a quick version, a report and the site.

The page is Markdown. Its first heading is the title, and the paragraph below it is the question. The rest is prose with

    {{ figure("name") }}        a figure, or several side by side
    {{ table("name") }}         a table
    {{ name }}                  a number of NUMBERS, with filters such as {{ name|num(2) }}
    {{ claim("The best") }}     the claim of CLAIMS that begins with these words
    {{ claims() }}              all claims, as a list; claims("The best", "A few") lists two of them

A quick version has no claims and no column `PAPER`: its few agents allow no conclusion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from drest_torch.errors import StudyError
from drest_torch.report.blocks import Block, Checklist, Commands, Gallery, Page, Plot, Prose, Section, Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import MISSING, PAPER
from drest_torch.report.template import Template
from drest_torch.report.themes import Style
from drest_torch.studies.engine import file_of
from drest_torch.studies.study_rows import Record

_HEAD = re.compile(r"\A# +(?P<title>[^\n]+)\n+(?P<question>(?:[^\n]+\n)+)")
MARKS = {True: "✓", False: "✗"}
"""The marks before a claim that holds, and before one that does not."""
QUICK_BANNER = (
    "**This is the quick version**, a smoke test: few agents, trained for a short time. It draws no conclusion, and "
    "its numbers are no results."
)
_INCOMPLETE = (
    "**{number} of {planned} runs are missing**, since they failed or were not done{names}. "
    "The page draws no conclusion."
)


def title_of(study: ModuleType) -> str:
    """Return the title of a study's page."""
    return _head(study)["title"]


def question_of(study: ModuleType) -> str:
    """Return the question of a study: the paragraph below the title."""
    return " ".join(_head(study)["question"].split())


def _head(study: ModuleType) -> re.Match[str]:
    path = file_of(study, ".md")
    head = _HEAD.match(path.read_text("utf-8"))
    if head is None:
        raise StudyError(f"{path}: expected '# Title' in its first line, and the question below it")
    return head


def claims_of(study: ModuleType, rows: pd.DataFrame) -> dict[str, bool]:
    """Return whether each claim of a study holds, by its sentence with the numbers filled in."""
    numbers = {name: _text(number) for name, number in numbers_of(study, rows).items()}
    return {sentence.format_map(numbers): bool(holds(rows)) for sentence, holds in study.CLAIMS.items()}


def numbers_of(study: ModuleType, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers in the text of a study, by name."""
    functions: Mapping[str, Callable[[pd.DataFrame], Any]] = getattr(study, "NUMBERS", {})
    return {name: function(rows) for name, function in functions.items()}


def study_page(study: ModuleType, rows: pd.DataFrame, record: Record) -> Page:
    """Return the page of a study, made from rows and their record."""
    page = _StudyTemplate(file_of(study, ".md"), study=study, rows=rows, record=record)
    blocks = page.render(page.numbers)
    if record.quick:
        blocks = [_watermarked(block) for block in blocks]
    provenance = Section("How this was made", _how_it_was_result_of(record))
    title = title_of(study)
    if record.quick:
        title += " – quick version"
    return Page(title, question_of(study), [*blocks, provenance], banner=_banner(record))


def _banner(record: Record) -> str:
    if record.quick:
        return QUICK_BANNER
    if record.is_complete:
        return ""
    names = f": {literal(record.missing)}" if record.missing else ""
    return _INCOMPLETE.format(number=record.planned - record.runs, planned=record.planned, names=names)


def _how_it_was_result_of(record: Record) -> list[Block]:
    facts = {
        "Code": f"commit {record.commit}, {record.date}",
        "Runs": f"{record.runs} of {record.planned}, {record.minutes:g} minutes of processor time in total",
        "Commits of the runs": record.runs_of,
        "Machines of the runs": record.runs_on,
        "Seeds": record.seeds,
        "Machine": record.machine,
        "Versions": record.versions,
        "Digest of the study's values": record.config,
    }
    text = "\n".join(f"- {name}: {literal(fact)}" for name, fact in facts.items() if fact)
    return [Commands([record.command]), Prose(text)]


@dataclass(kw_only=True)
class _StudyTemplate(Template):
    """The Markdown of a study, with functions that place figures, tables and claims."""

    study: ModuleType
    rows: pd.DataFrame
    record: Record

    @property
    def concludes(self) -> bool:
        """True if the page draws conclusions: it has claims, and the paper's numbers next to ours."""
        return self.record.is_complete and not self.record.quick

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {"figure": self.figure, "table": self.table_of, "claim": self.claim_of, "claims": self.list_of_claims}

    def source(self) -> str:
        text = super().source()
        return text[_head(self.study).end() :]

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the text; a number that needs a missing run is a dash."""
        functions = getattr(self.study, "NUMBERS", {})
        return {name: self._result_of(function) for name, function in functions.items()}

    def figure(self, *names: str) -> Markup:
        """Place figures, side by side if there is room."""
        figures = [self._result_of(self.named(self.study.FIGURES, name, "figure")) for name in names]
        plots = [plot for plot in figures if plot is not None]
        if not plots:
            return Markup("")
        return self.mark(plots[0] if len(plots) == 1 else Gallery(plots))

    def table_of(self, name: str) -> Markup:
        """Place a table."""
        table: Table | None = self._result_of(self.named(self.study.TABLES, name, "table"))
        if table is None:
            return Markup("")
        if not table.rows and not self.concludes:
            return Markup("")
        if not table.rows:
            raise StudyError(f"the table '{name}' of study={self.study.__name__.rpartition('.')[2]} has no rows")
        return self.mark(table if self.concludes else _without_paper(table))

    def claim_of(self, beginning: str) -> Markup:
        """Place a claim, marked if it does not hold; place nothing if the page draws no conclusion."""
        sentence = self._beginning_with(beginning)
        if not self.concludes:
            return Markup("")
        return self._sentence(sentence)

    def _beginning_with(self, beginning: str) -> str:
        """Return the claim that begins with these words."""
        sentences = [sentence for sentence in self.study.CLAIMS if sentence.startswith(beginning)]
        if len(sentences) != 1:
            raise StudyError(f"{self.path}: {len(sentences)} claims begin with '{beginning}'; expected one")
        return sentences[0]

    def list_of_claims(self, *beginnings: str) -> Markup:
        """Place a list of claims, with ✓ or ✗: the claims that begin with these words, or all claims."""
        sentences = [self._beginning_with(beginning) for beginning in beginnings] or [*self.study.CLAIMS]
        if not self.concludes:
            return Markup("")
        lines = []
        for sentence in sentences:
            holds = self._result_of(self.study.CLAIMS[sentence])
            if holds is not None:
                lines.append(f"{MARKS[bool(holds)]} {self._filled(sentence)}")
        return self.mark(Checklist(lines)) if lines else Markup("")

    def _sentence(self, sentence: str) -> Markup:
        text = self._filled(sentence)
        holds = self._result_of(self.study.CLAIMS[sentence])
        if holds is None:
            return Markup("")
        return Markup(text if holds else f"(This does not hold in these results: {text})")

    def _filled(self, sentence: str) -> str:
        return sentence.format_map({name: _text(number) for name, number in self.numbers.items()})

    def _result_of(self, function: Callable[[pd.DataFrame], Any]) -> Any:
        """Return the result of a function of the rows, or None if it needs rows that are missing."""
        try:
            return function(self.rows)
        except (LookupError, ValueError, AttributeError):
            if self.concludes and not self.record.has_changed_values:
                raise
            return None


def _text(number: Any) -> str:
    if number is None:
        return MISSING
    return number if isinstance(number, str) else f"{number:g}"


def _without_paper(table: Table) -> Table:
    places = [place for place, head in enumerate(table.header) if head != PAPER]
    header = [table.header[place] for place in places]
    rows = [[row[place] for place in places] for row in table.rows]
    return replace(table, header=header, rows=rows)


def _watermarked(block: Any) -> Any:
    """Return a block whose figures have the watermark "quick version"."""
    if isinstance(block, Plot):

        def draw(figure: Figure, style: Style) -> None:
            block.draw(figure, style)
            figure.text(0.5, 0.55, "quick version", color=style.muted, alpha=0.3, size=24, rotation=20, ha="center")

        return replace(block, draw=draw)
    for name in ("plots", "blocks"):
        if hasattr(block, name):
            return replace(block, **{name: [_watermarked(inner) for inner in getattr(block, name)]})
    return block
