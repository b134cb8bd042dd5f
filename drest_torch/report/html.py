"""A page of blocks as one HTML file that works offline.

The file has no script and loads nothing. It follows the reader's light or dark theme, and is readable on a phone, on
paper and by a screen reader. Every text is escaped. `blocks.html.j2` and `blocks.css` hold the elements of a page and
their style, for reports and for the site; `page.html.j2` and `page.css` hold the frame of a report.
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
    """Write the page atomically."""
    write_whole(path, render(page).encode("utf-8", "replace"))  # a lone surrogate becomes a "?"


def render(page: Page) -> str:
    """Return the page as HTML."""
    template = _environment().get_template("page.html.j2")
    css = Markup(_styles("page.css") + _styles("blocks.css"))
    return template.render(page=page, css=css, light=variables(0), dark=variables(1))


def _environment() -> jinja2.Environment:
    """Return the environment of the templates for one page, which numbers the page's names and pictures."""
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
    """Return the page in the Markdown of the documentation: prose unchanged, other blocks as HTML."""
    blocks = _environment().get_template("blocks.html.j2").module
    parts = [f"# {page.title}"]
    if page.banner:
        parts.append(f":::{{warning}}\n{page.banner}\n:::")
    parts.append(page.subtitle)
    parts += _in_site(page.blocks, blocks, level=2)
    return "\n\n".join(parts) + "\n"


def block_in_site(block: Block) -> str:
    """Return a block in the Markdown of the documentation, to be included in a page."""
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
    """Return the style sheet of the blocks on the site, whose theme marks the body as light or dark."""
    light, dark = (f".study {{ {variables(theme)} }}" for theme in (0, 1))
    system = f"@media (prefers-color-scheme: dark) {{ body:not([data-theme=light]) {dark} }}"
    return "\n".join(
        [light, f"body[data-theme=dark] {dark}", system, _styles("blocks.css"), _styles("site_blocks.css")]
    )


class _Names:
    """The unique names of a page's headings and scrolling regions."""

    def __init__(self) -> None:
        self._ids, self._labels = {"content"}, {""}

    def id(self, title: str) -> str:
        """Return a unique identifier for a heading."""
        address = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        return unused(address, "{}-{}", self._ids)

    def region(self, label: str) -> Markup:
        """Return the attributes that give a scrolling element a name and make it reachable by keyboard."""
        return Markup('tabindex="0" role="region" aria-label="{}"').format(unused(label, "{} ({})", self._labels))


def _kind(block: Block) -> str:
    if not isinstance(block, Block):
        raise TypeError(f"a page has no block of this kind: {block!r}")
    return type(block).__name__


# -------------------------------------------------------------------------------------------- tables

_WORDS, _LONG = 14, 40
"""Lengths of cells in characters: up to the first, a cell stays on one line; beyond the second, its column is wide."""
_ROOM_OF_LONG = 30
"""The least width of a wide column in characters, 15rem in the style sheet."""
_FITS = 84
"""The width in characters of a table that is as wide as the text."""
_NUMBER = re.compile(r"[-+−–±≈~<>≤≥(\[]*\s*(?:[\d.]|∞|nan\b|inf\b)")


_MARKS = {"✓": ("good", "yes"), "◐": ("fair", "partly"), "✗": ("bad", "no")}
"""The colour of each mark before a cell, and its text for screen readers."""


def _split_mark(cell: str) -> tuple[str, str]:
    has_mark = cell[:1] in _MARKS and cell[1:2] in ("", " ")
    return (cell[0], cell[1:].strip()) if has_mark else ("", cell.strip())


def _layout(table: Table) -> tuple[list[bool], bool]:
    """Return the numeric columns of a table, and whether the table is wider than the text."""
    columns = list(zip(table.header, *table.rows, strict=True))
    numeric = [index > 0 and _is_numeric(column[1:]) for index, column in enumerate(columns)]
    return numeric, sum(map(_room, columns, numeric)) > _FITS


def _is_numeric(column: Sequence[str]) -> bool:
    """Return whether most cells of a column begin with a number; empty cells and lone marks do not count."""
    texts = [markdown.plain(_split_mark(cell)[1]) for cell in column]
    cells = [text for text in texts if text.strip("–—- ")]
    numbers = [cell for cell in cells if len(cell) <= _LONG and _NUMBER.match(cell)]
    return 2 * len(numbers) > len(cells)


def _room(cells: Sequence[str], numeric: bool) -> int:
    """Return the least width of a column in characters: numbers stay on one line, words may be wrapped."""
    head, *body = map(markdown.plain, cells)
    word = max(map(len, head.split()), default=0)
    longest = max(map(len, body), default=0)
    wrapped = _ROOM_OF_LONG if longest > _LONG else min(longest, _WORDS)
    return 3 + max(word, longest if numeric else wrapped)


def _cell_class(text: str, numeric: bool) -> str:
    return "number" if numeric else "long" if len(text) > _LONG else "words" if len(text) > _WORDS else ""


# ------------------------------------------------------------------------------------------ pictures

_INCH, _POINTS = 96, 72
"""CSS pixels per inch at normal zoom, and the units per inch inside a plot."""
_DIGITS = 2
"""Decimals of a coordinate: a hundredth of a point is not visible."""
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]+)')
_PARTS = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>|(?<=>)\s+(?=<)", re.DOTALL)
"""Parts of matplotlib's SVG that a page does not need; its style sheet would apply to the whole page."""


@dataclass(frozen=True)
class Picture:
    """The elements of a plot, its inner size in points, and its size on the page in pixels."""

    elements: Markup
    points: tuple[float, float]
    width: int
    height: int


def plot_picture(plot: Plot, name: str) -> Picture:
    """Return a plot as elements of an inline SVG; ``name`` makes its identifiers unique on the page."""
    source, width, height = _drawn(plot)
    content = source[source.index(">", source.index("<svg")) + 1 : source.rindex("</svg>")]
    content = _PARTS.sub("", content)
    used = {match[2] for match in _REFERENCE.finditer(content)}
    content = re.sub(r"<[^>]+>", lambda tag: _cleaned(tag[0], name, used), content)
    pixels = (max(1, round(inches * _INCH)) for inches in (width, height))
    return Picture(Markup(content), (width * _POINTS, height * _POINTS), *pixels)


@lru_cache(256)
def _drawn(plot: Plot) -> tuple[str, float, float]:
    """Return a plot as SVG, and its size in inches; a plot on two pages is drawn once."""
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
    """Return a tag of a plot with the page's colours and font, short numbers and unique identifiers."""
    tag = re.sub(r' id="([^"]*)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", tag)
    tag = _REFERENCE.sub(rf"\g<1>{name}-\2", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda match: VARIABLES.get(match[0], match[0]), tag)
    tag = re.sub(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--sans)", tag)
    return re.sub(r"-?\d+\.\d{3,}", lambda match: f"{round(float(match[0]), _DIGITS) + 0.0:g}", tag)
