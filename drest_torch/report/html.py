"""A page of blocks as one HTML file that works offline.

No script, nothing fetched from elsewhere, light and dark as the reader's device asks, readable on a phone,
on paper and by a screen reader. Every text is escaped. `page.html.j2` has the elements, `report.css` the look.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import jinja2
import matplotlib.style
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

from drest_torch.files import write_whole
from drest_torch.report import markdown
from drest_torch.report.blocks import BLOCKS, Block, Gallery, Page, Plot, Table
from drest_torch.report.style import DARK, LIGHT, Style


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, render(page).encode("utf-8", "replace"))  # a lone surrogate becomes a "?"


def render(page: Page) -> str:
    """Return the page as HTML."""
    names = _Names()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("drest_torch.report", ""), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals["region"] = names.region
    environment.filters |= {
        "kind": _kind,
        "id": names.id,
        "inline": lambda text: Markup(markdown.inline(text)),
        "markdown": lambda text: Markup(markdown.blocks(text).strip()),
        "plain": markdown.plain,
        "split_mark": _split_mark,
        "layout": _layout,
        "cell_class": _cell_class,
        "column_width": _column_width,
        "picture": _picture,
    }
    css = files("drest_torch.report").joinpath("report.css").read_text("utf-8")
    colours = {"light": LIGHT.variables(), "dark": DARK.variables()}
    return environment.get_template("page.html.j2").render(page=page, css=Markup(css), **colours)


class _Names:
    """The names that a page has given to its headings and scrolling regions, so that each is given once."""

    def __init__(self) -> None:
        self._ids, self._labels = {"content"}, {""}

    def id(self, title: str) -> str:
        """Return an address for a heading."""
        address = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        return _unused(address, "{}-{}", self._ids)

    def region(self, label: str) -> Markup:
        """Return the attributes of an element that scrolls, so that the keyboard reaches it and it has a name."""
        return Markup('tabindex="0" role="region" aria-label="{}"').format(_unused(label, "{} ({})", self._labels))


def _unused(name: str, pattern: str, used: set[str]) -> str:
    number, unused = 1, name
    while unused in used:
        number += 1
        unused = pattern.format(name, number)
    used.add(unused)
    return unused


def _kind(block: Block) -> str:
    if not isinstance(block, BLOCKS):
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


@dataclass(frozen=True)
class Mark:
    """The sign before a cell: its colour, and what a screen reader says in its place."""

    sign: str
    kind: str
    spoken: str


_MARKS = {mark.sign: mark for mark in (Mark("✓", "good", "yes"), Mark("◐", "fair", "partly"), Mark("✗", "bad", "no"))}


@dataclass(frozen=True)
class Layout:
    """Which columns of a table have numbers, and whether it needs more room than the text."""

    numeric: list[bool]
    wide: bool


def _split_mark(cell: str) -> tuple[Mark | None, str]:
    has_mark = cell[:1] in _MARKS and cell[1:2] in ("", " ")
    return (_MARKS[cell[0]], cell[1:].strip()) if has_mark else (None, cell.strip())


def _layout(table: Table) -> Layout:
    columns = list(zip(table.header, *table.rows, strict=True))
    numeric = [index > 0 and _is_numeric(column[1:]) for index, column in enumerate(columns)]
    return Layout(numeric, sum(map(_room, columns, numeric)) > _FITS)


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

_INCH = 96
"""A browser's pixels an inch, where its own have the ordinary size."""
_MEASURE = 640
"""Pixels; a plot that is wider may stand beyond the text's edges, and is not made unreadably small on a phone."""
_DOTS = 216
"""Dots an inch: a plot that fills a phone's width has the three dots a pixel that the best of them show."""


@dataclass(frozen=True)
class Picture:
    """A plot in both themes as data addresses, and the pixels that it takes on the page."""

    light: str
    dark: str
    width: int
    height: int

    @property
    def wide(self) -> bool:
        """Return whether the picture is wider than the text."""
        return self.width > _MEASURE


def _picture(plot: Plot) -> Picture:
    light, width, height = plot_png(plot, LIGHT)
    dark, _, _ = plot_png(plot, DARK)
    return Picture(light, dark, width, height)


def plot_png(plot: Plot, style: Style) -> tuple[str, int, int]:
    """Return a plot as PNG in a data address, and the width and height that it takes on the page."""
    whole, packed = BytesIO(), BytesIO()
    with matplotlib.style.context(style.matplotlib(), after_reset=True):  # whatever the user's own settings are
        figure = Figure(figsize=plot.size)
        plot.draw(figure, style)
        figure.savefig(whole, format="png", dpi=_DOTS, metadata={"Software": None})
    with Image.open(whole) as image:
        width, height = (max(1, round(dots * _INCH / _DOTS)) for dots in image.size)
        # A palette makes the file two to three times smaller, and no difference to the eye.
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(packed, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}", width, height


def _column_width(gallery: Gallery) -> str:
    return f"{max((plot.size[0] for plot in gallery.plots), default=0) * _INCH * 0.8:.0f}"
