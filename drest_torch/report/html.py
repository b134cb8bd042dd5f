"""A page of blocks as one HTML file that works offline.

No script, nothing fetched from elsewhere, light and dark as the reader's device asks, readable on a phone,
on paper and by a screen reader. Every text is escaped. `blocks.html.j2` and `blocks.css` have the elements of a page
and their look, for reports and for the site; `page.html.j2` and `page.css` have the frame of a report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
import matplotlib.style
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.text import Text

from drest_torch.files import unused, write_whole
from drest_torch.report import markdown
from drest_torch.report.blocks import Block, Page, Plot, Prose, Section, Table
from drest_torch.report.themes import PLACEHOLDERS, VARIABLES, variables


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, render(page).encode("utf-8", "replace"))  # a lone surrogate becomes a "?"


def render(page: Page) -> str:
    """Return the page as HTML."""
    template = _environment().get_template("page.html.j2")
    css = Markup(_styles("page.css") + _styles("blocks.css"))
    return template.render(page=page, css=css, light=variables(0), dark=variables(1))


def _environment() -> jinja2.Environment:
    """Return the templates with their functions, for one page: its names and pictures are numbered."""
    names, numbers = _Names(), count(1)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("drest_torch.report", ""), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals |= {"region": names.region, "marks": _MARKS}
    environment.filters |= {
        "kind": _kind,
        "id": names.id,
        "inline": lambda text: Markup(markdown.PARSER.renderInline(markdown.without_local_links(text))),
        "markdown": lambda text: Markup(markdown.PARSER.render(markdown.without_local_links(text)).strip()),
        "plain": markdown.plain,
        "split_mark": _split_mark,
        "layout": _layout,
        "cell_class": _cell_class,
        "picture": lambda plot: plot_picture(plot, f"plot-{next(numbers)}"),
    }
    return environment


def _styles(name: str) -> str:
    return files("drest_torch.report").joinpath(name).read_text("utf-8")


# --------------------------------------------------------------------------------- pages of the site


def in_site(page: Page) -> str:
    """Return the page in the Markdown of the documentation: prose as it is, all else as the HTML of a report."""
    blocks = _environment().get_template("blocks.html.j2").module
    parts = [f"# {page.title}"]
    if page.banner:
        parts.append(f":::{{warning}}\n{page.banner}\n:::")
    parts.append(page.subtitle)
    parts += _in_site(page.blocks, blocks, level=2)
    return "\n\n".join(parts) + "\n"


def block_in_site(block: Block) -> str:
    """Return a block in the Markdown of the documentation, for a page that includes it."""
    blocks = _environment().get_template("blocks.html.j2").module
    return "\n\n".join(_in_site([block], blocks, level=2)) + "\n"


def _in_site(parts: Sequence[Block], blocks: Any, level: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Section):
            yield f"{'#' * level} {part.title}"
            yield from _in_site(part.blocks, blocks, level + 1)
        elif isinstance(part, Prose):
            yield part.markdown
        else:
            html = str(blocks.render(part, level)).strip()
            yield f'````{{raw}} html\n<div class="study">\n{html}\n</div>\n````'


def site_styles() -> str:
    """Return the style sheet of the blocks on the site, whose theme says on the body whether it is dark."""
    light, dark = (f".study {{ {variables(theme)} }}" for theme in (0, 1))
    system = f"@media (prefers-color-scheme: dark) {{ body:not([data-theme=light]) {dark} }}"
    return "\n".join(
        [light, f"body[data-theme=dark] {dark}", system, _styles("blocks.css"), _styles("site_blocks.css")]
    )


class _Names:
    """The names that a page has given to its headings and scrolling regions, so that each is given once."""

    def __init__(self) -> None:
        self._ids, self._labels = {"content"}, {""}

    def id(self, title: str) -> str:
        """Return an address for a heading."""
        address = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        return unused(address, "{}-{}", self._ids)

    def region(self, label: str) -> Markup:
        """Return the attributes of an element that scrolls, so that the keyboard reaches it and it has a name."""
        return Markup('tabindex="0" role="region" aria-label="{}"').format(unused(label, "{} ({})", self._labels))


def _kind(block: Block) -> str:
    if not isinstance(block, Block):
        raise TypeError(f"a page has no block of this kind: {block!r}")
    return type(block).__name__


# -------------------------------------------------------------------------------------------- tables

_WORDS, _LONG = 14, 40
"""Characters; a cell of no more than the first stands on one line, one of more than the second is given much room."""
_ROOM_OF_LONG = 30
"""Characters in the room that a long cell is given at least, the 15rem of the style sheet."""
_FITS = 84
"""Characters in a line of a table as wide as the text."""
_NUMBER = re.compile(r"[-+−–±≈~<>≤≥(\[]*\s*(?:[\d.]|∞|nan\b|inf\b)")


_MARKS = {"✓": ("good", "yes"), "◐": ("fair", "partly"), "✗": ("bad", "no")}
"""Of the sign before a cell: its colour, and what a screen reader says in its place."""


def _split_mark(cell: str) -> tuple[str, str]:
    has_mark = cell[:1] in _MARKS and cell[1:2] in ("", " ")
    return (cell[0], cell[1:].strip()) if has_mark else ("", cell.strip())


def _layout(table: Table) -> tuple[list[bool], bool]:
    """Return which columns of a table have numbers, and whether it needs more room than the text."""
    columns = list(zip(table.header, *table.rows, strict=True))
    numeric = [index > 0 and _is_numeric(column[1:]) for index, column in enumerate(columns)]
    return numeric, sum(map(_room, columns, numeric)) > _FITS


def _is_numeric(column: Sequence[str]) -> bool:
    """Return whether most cells of a column begin with a number; empty cells and lone marks have no say."""
    cells = [words for cell in column if (words := markdown.plain(_split_mark(cell)[1])).strip("–—- ")]
    return 2 * sum(len(cell) <= _LONG and bool(_NUMBER.match(cell)) for cell in cells) > len(cells)


def _room(cells: Sequence[str], numeric: bool) -> int:
    """Return the characters that a column cannot do without: numbers stand on one line, words may be wrapped."""
    head, *body = map(markdown.plain, cells)
    word = max(map(len, head.split()), default=0)
    longest = max(map(len, body), default=0)
    wrapped = _ROOM_OF_LONG if longest > _LONG else min(longest, _WORDS)
    return 3 + max(word, longest if numeric else wrapped)


def _cell_class(text: str, numeric: bool) -> str:
    return "number" if numeric else "long" if len(text) > _LONG else "words" if len(text) > _WORDS else ""


# ------------------------------------------------------------------------------------------ pictures

_INCH, _POINTS = 96, 72
"""A browser's pixels an inch, where its own have the ordinary size, and the units an inch inside a plot."""
_DIGITS = 2
"""Digits behind the point of a coordinate: a hundredth of a point cannot be seen."""
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]+)')
_PARTS = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>|(?<=>)\s+(?=<)", re.DOTALL)
"""What matplotlib writes and a page has no use for; its style sheet would hold for the whole page."""


@dataclass(frozen=True)
class Picture:
    """The elements of a plot, the points that it measures inside, and the pixels that it takes on the page."""

    elements: Markup
    points: tuple[float, float]
    width: int
    height: int


def plot_picture(plot: Plot, name: str) -> Picture:
    """Return a plot as elements of an inline SVG; ``name`` keeps its identifiers apart from those of other plots."""
    source, width, height = _drawn(plot)
    content = source[source.index(">", source.index("<svg")) + 1 : source.rindex("</svg>")]
    content = _PARTS.sub("", content)
    used = {match[2] for match in _REFERENCE.finditer(content)}
    content = re.sub(r"<[^>]+>", lambda tag: _cleaned(tag[0], name, used), content)
    pixels = (max(1, round(inches * _INCH)) for inches in (width, height))
    return Picture(Markup(content), (width * _POINTS, height * _POINTS), *pixels)


@lru_cache(256)
def _drawn(plot: Plot) -> tuple[str, float, float]:
    """Return a plot as SVG, and its size in inches; a plot of two pages, such as one on all studies, is drawn once."""
    settings = PLACEHOLDERS.matplotlib() | {"svg.fonttype": "none", "svg.hashsalt": "drest"}
    written = StringIO()
    with matplotlib.style.context(settings, after_reset=True):  # whatever the user's own settings are
        figure = Figure(figsize=plot.size)
        plot.draw(figure, PLACEHOLDERS)
        for text in (child for axes in figure.axes for child in axes.get_children() if isinstance(child, Text)):
            text.set_wrap(True)  # a long title takes two lines and is not cut off
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(written, format="svg", dpi=_POINTS, metadata=metadata)
    width, height = figure.get_size_inches()
    return written.getvalue(), float(width), float(height)


def _cleaned(tag: str, name: str, used: Set[str]) -> str:
    """Return a tag of a plot with the page's colours and font, short numbers, and identifiers that are its own."""
    tag = re.sub(r' id="([^"]*)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", tag)
    tag = _REFERENCE.sub(rf"\g<1>{name}-\2", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda match: VARIABLES.get(match[0], match[0]), tag)
    tag = re.sub(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--sans)", tag)
    return re.sub(r"-?\d+\.\d{3,}", lambda match: f"{round(float(match[0]), _DIGITS) + 0.0:g}", tag)
