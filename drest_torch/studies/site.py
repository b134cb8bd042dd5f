"""Pages of the documentation that are generated from the published rows of studies.

``docs/results/NAME.csv`` holds the rows. `docs/conf.py` calls `write_site` before Sphinx reads the pages, so the site
and the reports are written by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pandas as pd

from drest_torch.files import write_whole
from drest_torch.report.blocks import Block, Checklist, Gallery, Page, Plot, Prose, Section
from drest_torch.report.html import block_in_site, in_site, site_styles
from drest_torch.studies.catalogue import STUDIES
from drest_torch.studies.study_page import study_page
from drest_torch.studies.study_rows import Record, read_rows

READING_ORDER = (
    *("example", "ratio", "lambda_meta", "theorem", "neural", "generalization", "few_levels", "alternatives"),
    *("gap", "robustness", "randomness", "lotteries", "misgeneralization", "environments", "language", "smollm2"),
)
"""The studies in the order in which a newcomer would read them."""
INCLUDED = ("neural", "environments")
"""Studies whose figures and tables other pages include."""


def published(results: Path) -> Iterator[tuple[str, pd.DataFrame, Record]]:
    """Yield the name, the rows and the record of every published study, in reading order."""
    for name in READING_ORDER:
        path = results / f"{name}.csv"
        if path.exists():
            yield name, *read_rows(path)


def write_site(results: Path, folder: Path) -> None:
    """Write the pages of all published studies, parts and summaries for other pages, and the styles."""
    sections = []
    names = []
    for name, rows, record in published(results):
        page = study_page(STUDIES[name], rows, record)
        _write(folder / f"{name}.md", in_site(page))
        names.append(f"studies/{name}")
        sections.append(block_in_site(_in_short(name, page)))
        if name in INCLUDED:
            _write_parts(name, rows, folder / "parts")
    contents = "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])
    _write(folder / "questions.txt", "\n".join([*sections, contents]) + "\n")
    _write(folder / "static" / "studies.css", site_styles())


def _write_parts(name: str, rows: pd.DataFrame, folder: Path) -> None:
    """Write each figure and table of a study to a separate file, which a page can include."""
    study = STUDIES[name]
    for kind, parts in {"figure": study.FIGURES, "table": study.TABLES}.items():
        for part, make in parts.items():
            _write(folder / f"{name}-{kind}-{part}.txt", block_in_site(make(rows)))


def _in_short(name: str, page: Page) -> Section:
    """Return the summary of a study for the page of results: its question, its first claim and its first figure."""
    parts: list[Block] = [Prose(page.subtitle)]
    parts += islice((Prose(block.sentences[0]) for block in page.blocks if isinstance(block, Checklist)), 1)
    parts += islice(_figures(page.blocks), 1)
    return Section(f"[{page.title}](studies/{name}.md)", parts)


def _figures(blocks: Iterable[Block]) -> Iterator[Plot]:
    for block in blocks:
        if isinstance(block, Plot):
            yield block
        elif isinstance(block, Gallery):
            yield from block.plots
        elif isinstance(block, Section):
            yield from _figures(block.blocks)


def _write(path: Path, text: str) -> None:
    """Write a file if its content changes, so that Sphinx reads only changed files."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
