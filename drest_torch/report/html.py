"""A study as one web page: text, tables, plots and commands in a single file that works offline.

No script, nothing fetched from elsewhere, light and dark as the reader's device asks, readable on a phone,
on paper and by a screen reader. Every text is escaped. In all of them but titles, alternative texts and
commands, three kinds of mark-up are read: `code` in backticks, **bold**, and [words](https://…).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape, unescape
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import matplotlib.style
from cycler import cycler
from matplotlib.figure import Figure
from PIL import Image

from drest_torch.files import write_whole

# ----------------------------------------------------------------------------------------- colours


@dataclass(frozen=True)
class Style:
    """The colours of a theme, for the page and for what is drawn on it."""

    background: str
    surface: str
    """Behind code."""
    text: str
    muted: str
    grid: str
    link: str
    good: str
    fair: str
    bad: str
    series: tuple[str, ...]
    """Apart for colour-blind readers too; each has the same name in both themes: blue, orange, green, ..."""

    @property
    def default_reward(self) -> str:
        """Blue, as in the paper's figures."""
        return self.series[0]

    @property
    def drest(self) -> str:
        """Orange, as in the paper's figures."""
        return self.series[1]


LIGHT = Style(
    background="#ffffff",
    surface="#f4f5f6",
    text="#1b1e22",
    muted="#59616b",
    grid="#dfe2e6",
    link="#0b5cad",
    good="#1a7236",
    fair="#8a5a00",
    bad="#b3261e",
    series=("#1f6fb4", "#d4600a", "#2f5014", "#c0709a", "#7b2fd0", "#9e866e"),
)
DARK = Style(
    background="#15181c",
    surface="#1e2329",
    text="#e3e6e9",
    muted="#9ba5b0",
    grid="#333a42",
    link="#7db8f7",
    good="#4cc272",
    fair="#e3b341",
    bad="#ff8a80",
    series=("#58a6e8", "#f29339", "#c8f0c0", "#e0a0c8", "#9d5be6", "#8e6339"),
)


# ------------------------------------------------------------------------------ what a page is made of


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list with bullets."""

    items: Sequence[str]


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Each row's first cell names the row. A cell may begin with a mark: ``✓``, ``◐`` or ``✗``, then a space."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        if not self.caption.strip():
            raise ValueError("a table needs a caption: it is the table's name for those who cannot see it")
        for row in self.rows:
            if len(row) != len(self.header):
                cells = f"a row has {len(row)} cells, the header has {len(self.header)}"
                raise ValueError(f"table {self.caption!r}: {cells}: {list(row)}")


@dataclass(frozen=True)
class Plot:
    """A picture, drawn twice: ``draw`` gets an empty figure and the theme, whose colours are the defaults."""

    alt: str
    """What is to be seen, in words, for those who cannot see it."""
    caption: str
    draw: Callable[[Figure, Style], None]
    size: tuple[float, float] = (5.2, 3.4)
    """Inches; on a page of ordinary size an inch is 96 pixels wide."""

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a plot needs an alternative text: it is all that some readers get of it")


@dataclass(frozen=True)
class Gallery:
    """Plots side by side where there is room, below each other where there is not."""

    plots: Sequence[Plot]


@dataclass(frozen=True)
class Details:
    """What is folded away until the reader asks for it."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = "Text | Items | Commands | Table | Plot | Gallery | Details | Section"


@dataclass(frozen=True)
class Section:
    """Part of a page, or of another section, which is then its block."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""
    """The section in a sentence or two, set larger."""


@dataclass(frozen=True)
class Page:
    title: str
    subtitle: str
    sections: Sequence[Section]
    footer: str = ""


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, _Writer().page(page).encode("utf-8", "replace"))  # what is no character becomes a "?"


# ---------------------------------------------------------------------------------------------- text

_MARKUP = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?<![\w*])\*\*(?P<bold>[^\s*](?:.*?\S)??)\*\*"  # 2**3 is left alone
    r"|\[(?P<words>[^][]+)\]\((?P<address>https://(?:[^\s()]|\([^\s()]*\))+)\)",
    re.DOTALL,
)


def _marked(text: str) -> str:
    """The text as HTML; whatever is not one of the three kinds of mark-up is escaped."""
    parts, end = [], 0
    for match in _MARKUP.finditer(text):
        parts.append(escape(text[end : match.start()]))
        if match["code"]:
            parts.append(f"<code>{escape(match['code'])}</code>")
        elif match["bold"]:
            parts.append(f"<strong>{_marked(match['bold'])}</strong>")
        else:
            parts.append(f'<a href="{escape(match["address"])}">{_marked(match["words"])}</a>')
        end = match.end()
    return "".join([*parts, escape(text[end:])])


def _plain(text: str) -> str:
    """The text without its mark-up, for an attribute."""
    return unescape(re.sub(r"<[^>]*>", "", _marked(text)))


# -------------------------------------------------------------------------------------------- tables

_MARKS = {"✓": ("good", "yes"), "◐": ("fair", "partly"), "✗": ("bad", "no")}
"""Their colour, and what a screen reader says in their place."""
_NUMBER = re.compile(
    r"(?:[\d\s.,:;()\[\]{}/%‰°$€±≈~<>≤≥=+×·*^−–—⁰¹²³⁴⁵⁶⁷⁸⁹⁻-]|(?<=\d)e(?=[+-]?\d)|\b(?:nan|inf)\b"
    r"|(?<![^\W\d])(?:bits?|steps?|levels?|seeds?|runs?|[kMGT]?i?B|[kMGT]|[mµn]?s|min|h|d|x|to|of)(?![^\W\d]))+"
)
"""Numbers, intervals and quantities: nothing but digits, signs and units."""
_WORDS, _LONG = 14, 40
"""Characters; a cell of no more than the first stands on one line, one of more than the second is given much room."""
_ROOM_OF_LONG = 30
"""Characters in the room that a long cell is given at least, the 15rem of the style sheet."""
_FITS = 84
"""Characters in a line of a table as wide as the text."""


def _without_mark(cell: str) -> str:
    return cell[1:].strip() if cell[:1] in _MARKS and cell[1:2] in ("", " ") else cell.strip()


def _is_numeric(column: Sequence[str]) -> bool:
    """Whether most of what stands in a column are numbers; empty cells and lone marks have no say."""
    cells = [plain for cell in column if (plain := _plain(_without_mark(cell))).strip("–—- ")]
    numbers = [cell for cell in cells if re.search(r"\d", cell) and _NUMBER.fullmatch(cell)]
    return 2 * len(numbers) > len(cells)


def _cell(text: str) -> str:
    rest = _marked(_without_mark(text))
    if text[:1] not in _MARKS or text[1:2] not in ("", " "):
        return rest
    kind, words = _MARKS[text[0]]
    spoken = f"{words}: " if rest else words
    mark = f'<span class="mark {kind}" aria-hidden="true">{text[0]}</span><span class="hidden">{spoken}</span>'
    return f"{mark} {rest}" if rest else mark


def _room(cells: Sequence[str], numeric: bool) -> int:
    """Characters that a column cannot do without: numbers stand on one line, words may be wrapped."""
    head, *body = map(_plain, cells)
    words = max(map(len, head.split()), default=0)
    longest = max(map(len, body), default=0)
    wrapped = _ROOM_OF_LONG if longest > _LONG else min(longest, _WORDS)
    return 3 + max(words, longest if numeric else wrapped)


def _opening(tag: str, classes: str = "", **attributes: str) -> str:
    written = "".join(f' {name}="{value}"' for name, value in {"class": classes, **attributes}.items() if value)
    return f"<{tag}{written}>"


# ------------------------------------------------------------------------------------------ pictures

_INCH = 96
"""A browser's pixels an inch, where its own have the ordinary size."""
_MEASURE = 640
"""Pixels; a plot that is wider may stand beyond the text's edges, and is not made unreadably small on a phone."""
_DOTS = 216
"""Dots an inch: a plot that fills a phone's width has the three dots a pixel that the best of them show."""


def _settings(style: Style) -> dict[str, Any]:
    """Matplotlib's settings for a theme."""
    parts = ("boxprops", "whiskerprops", "capprops", "medianprops", "flierprops")
    return {
        "figure.facecolor": style.background,
        "figure.constrained_layout.use": True,
        "font.size": 11,
        "text.color": style.text,
        "axes.facecolor": style.background,
        "axes.edgecolor": style.muted,
        "axes.labelcolor": style.text,
        "axes.titlesize": "medium",
        "axes.titlelocation": "left",
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=style.series),
        "grid.color": style.grid,
        "grid.linewidth": 0.8,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "patch.edgecolor": style.text,
        "hatch.color": style.text,
        "legend.facecolor": style.background,
        "legend.edgecolor": "none",
        "legend.framealpha": 0.85,
        "legend.fontsize": 10,
        **{f"{axis}tick.{what}": style.muted for axis in "xy" for what in ("color", "labelcolor")},
        **{f"{axis}tick.labelsize": 10 for axis in "xy"},
        **{f"{axis}tick.major.width": 0.8 for axis in "xy"},
        **{f"boxplot.{part}.color": style.text for part in parts},
    }


def _picture(plot: Plot, style: Style) -> tuple[str, int, int]:
    """A plot as PNG in a data address, and the width and height that it takes on the page."""
    drawn, packed = BytesIO(), BytesIO()
    with matplotlib.style.context(_settings(style), after_reset=True):  # whatever the user's own settings are
        figure = Figure(figsize=plot.size)
        plot.draw(figure, style)
        figure.savefig(drawn, format="png", dpi=_DOTS, metadata={"Software": None})
    with Image.open(drawn) as image:
        width, height = (max(1, round(dots * _INCH / _DOTS)) for dots in image.size)
        # A palette makes the file two to three times smaller, and no difference to the eye.
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(packed, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}", width, height


# ----------------------------------------------------------------------------------------- the page


class _Writer:
    """The parts of one page as HTML. It keeps the names that it has given, so that each is given once."""

    def __init__(self) -> None:
        self.ids = {"content"}
        self.labels: set[str] = set()

    def page(self, page: Page) -> str:
        ids = [self._id(section.title) for section in page.sections]
        entries = [f'<li><a href="#{id}">{escape(s.title)}</a></li>' for id, s in zip(ids, page.sections, strict=True)]
        contents = f'<nav aria-label="Contents"><ol>\n{_lines(entries)}\n</ol></nav>' if len(entries) > 2 else ""
        return _PAGE.substitute(
            css=_CSS.substitute(light=_variables(LIGHT), dark=_variables(DARK)),
            title=escape(page.title),
            subtitle=f'<p class="subtitle">{_marked(page.subtitle)}</p>' if page.subtitle else "",
            contents=contents,
            sections=_lines([self._section(id, section) for id, section in zip(ids, page.sections, strict=True)]),
            footer=f'<footer class="columns"><p>{_marked(page.footer)}</p></footer>' if page.footer else "",
        )

    def _section(self, id: str, section: Section) -> str:
        return f'<section class="columns" aria-labelledby="{id}">\n{self._headed("h2", id, section)}\n</section>'

    def _headed(self, tag: str, id: str, section: Section) -> str:
        heading = f'<{tag} id="{id}"><a href="#{id}">{escape(section.title)}</a></{tag}>'
        lead = [f'<p class="lead">{_marked(section.lead)}</p>'] if section.lead else []
        return _lines([heading, *lead, *map(self._block, section.blocks)])

    def _block(self, block: Block) -> str:
        match block:
            case Text(text):
                return f"<p>{_marked(text)}</p>"
            case Items(items):
                return f"<ul>\n{_lines([f'<li>{_marked(item)}</li>' for item in items])}\n</ul>"
            case Commands(lines):
                code = _lines([escape(line) for line in lines])
                return f"<pre {self._region('Commands')}><code>{code}</code></pre>"
            case Table():
                return self._table(block)
            case Plot():
                return self._plot(block)
            case Gallery(plots):
                if len(plots) == 1:
                    return self._plot(plots[0])
                column = max((plot.size[0] for plot in plots), default=0) * _INCH * 0.8
                inside = _lines([self._plot(plot) for plot in plots])
                return f'<div class="gallery" style="--column: {column:.0f}px">\n{inside}\n</div>'
            case Details(summary, blocks):
                inside = _lines([self._block(inner) for inner in blocks])
                return (
                    f'<details><summary>{_marked(summary)}</summary>\n<div class="columns">\n{inside}\n</div></details>'
                )
            case Section(title):
                return self._headed("h3", self._id(title), block)
        raise TypeError(f"a page has no block of this kind: {block!r}")

    def _table(self, table: Table) -> str:
        columns = list(zip(table.header, *table.rows, strict=True))
        numeric = [index > 0 and _is_numeric(column[1:]) for index, column in enumerate(columns)]
        wide = sum(map(_room, columns, numeric)) > _FITS
        heads = []
        for number, name in zip(numeric, table.header, strict=True):
            if name.strip():
                heads.append(_opening("th", "number" if number else "", scope="col") + f"{_cell(name)}</th>")
            else:
                heads.append("<td></td>")  # a corner names nothing
        rows = [f"<tr>{''.join(heads)}</tr>"]
        note = f'\n<p class="note">{_marked(table.note)}</p>' if table.note else ""
        for row in table.rows:
            cells = []
            for index, (number, text) in enumerate(zip(numeric, row, strict=True)):
                classes = "number" if number else "long" if len(text) > _LONG else "words" if len(text) > _WORDS else ""
                opening = _opening("td", classes) if index else _opening("th", classes, scope="row")
                cells.append(f"{opening}{_cell(text)}{'</td>' if index else '</th>'}")
            rows.append(f"<tr>{''.join(cells)}</tr>")
        region = self._region(_plain(table.caption))
        return (
            f'<div class="{"wide table" if wide else "table"}"><div class="scroll" {region}><table>\n'
            f"<caption><span>{_marked(table.caption)}</span></caption>\n"
            f"<thead>{rows[0]}</thead>\n<tbody>\n{_lines(rows[1:])}\n</tbody>\n</table></div>{note}</div>"
        )

    def _plot(self, plot: Plot) -> str:
        source, width, height = _picture(plot, LIGHT)
        dark, _, _ = _picture(plot, DARK)
        caption = f"<figcaption>{_marked(plot.caption)}</figcaption>" if plot.caption else ""
        picture = (
            "<picture>\n"
            f'<source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">\n'
            f'<img src="{source}" width="{width}" height="{height}" alt="{escape(plot.alt)}">\n'
            "</picture>"
        )
        if width <= _MEASURE:
            return f'<figure style="--width: {width}px">{picture}{caption}</figure>'
        region = self._region(_plain(plot.caption) or plot.alt)
        return (
            f'<figure class="wide" style="--width: {width}px"><div class="scroll" {region}>{picture}</div>'
            f"{caption}</figure>"
        )

    def _region(self, label: str) -> str:
        """The attributes of what scrolls inside itself: the keyboard reaches it, and it has a name of its own."""
        again, name = 1, label
        while name in self.labels:
            again += 1
            name = f"{label} ({again})"
        self.labels.add(name)
        return f'tabindex="0" role="region" aria-label="{escape(name)}"'

    def _id(self, title: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        again, id = 1, plain
        while id in self.ids:
            again += 1
            id = f"{plain}-{again}"
        self.ids.add(id)
        return id


def _lines(parts: Sequence[str]) -> str:
    return "\n".join(parts)


def _variables(style: Style) -> str:
    names = ("background", "surface", "text", "muted", "grid", "link", "good", "fair", "bad")
    return " ".join(f"--{name}: {getattr(style, name)};" for name in names)


# The policy forbids the browser everything but what is in the file.
_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$css</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="columns">
<h1>$title</h1>
$subtitle
$contents
</header>
<main id="content" tabindex="-1">
$sections
</main>
$footer
</body>
</html>
""")

# Text has a column of at most 38rem, about 70 letters; tables and galleries may spread over 66rem.
_CSS = Template("""\
:root {
  color-scheme: light dark;
  $light
  --serif: "Iowan Old Style", Charter, "Bitstream Charter", "Palatino Linotype", Palatino, "Noto Serif", Georgia, serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  --gutter: clamp(1.125rem, 4vw, 2rem);
  --measure: 38rem;
  --wide: 66rem;
}
@media screen and (prefers-color-scheme: dark) {
  :root { $dark }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1.5rem; }
body {
  margin: 0; padding: 0 0 4rem; background: var(--background); color: var(--text);
  font: 1.0625rem/1.6 var(--serif); font-variant-numeric: lining-nums; overflow-wrap: anywhere;
}
.columns {
  --side: minmax(0, calc((var(--wide) - var(--measure)) / 2));
  display: grid;
  grid-template-columns:
    minmax(var(--gutter), 1fr) [wide-start] var(--side)
    [text-start] min(var(--measure), 100% - 2 * var(--gutter)) [text-end]
    var(--side) [wide-end] minmax(var(--gutter), 1fr);
}
.columns > * { grid-column: text; min-width: 0; margin: 0 0 1.1rem; }
.columns > :is(.wide, .gallery) { grid-column: wide; }
.columns > details { grid-column: 1 / -1; }

h1, h2, h3 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
.columns > h1 { margin: clamp(2.25rem, 7vw, 4.5rem) 0 .6rem; font-size: clamp(1.75rem, 1.3rem + 2.2vw, 2.6rem); }
.columns > h2 { margin: 3rem 0 .8rem; font-size: 1.5rem; }
h1 { letter-spacing: -.012em; }
.columns > h3 { margin: 2rem 0 .6rem; font-size: 1.2rem; }
:is(h2, h3) a { color: inherit; text-decoration: none; }
:is(h2, h3) a:is(:hover, :focus-visible)::after { content: " #"; color: var(--muted); font-weight: 400; }
.subtitle { color: var(--muted); font-size: 1.1875rem; line-height: 1.45; text-wrap: pretty; }
.lead { font-size: 1.1875rem; line-height: 1.5; text-wrap: pretty; }
p, li { text-wrap: pretty; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: .18em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 3px; border-radius: 2px; }
main:focus { outline: none; }
ul { padding-left: 1.25rem; }
li { margin-bottom: .3rem; }
li::marker { color: var(--muted); }
code { font-family: var(--mono); font-size: .86em; background: var(--surface); border-radius: 3px; padding: .1em .22em;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
a code { color: inherit; }

nav { border-block: 1px solid var(--grid); font: .9375rem/1.45 var(--sans); }
.columns > nav { margin: .9rem 0 0; padding: .8rem 0; }
nav ol { list-style: none; margin: 0; padding: 0; columns: 2 15rem; column-gap: 2rem; }
nav li { margin: 0; break-inside: avoid; }
nav a { display: block; padding: .25rem 0; text-decoration: none; }
nav a:hover { text-decoration: underline; }

pre {
  --back: var(--surface);
  overflow-wrap: normal; padding: .85rem 1rem; border-radius: 6px;
  font: .84375rem/1.6 var(--mono); tab-size: 4;
}
pre code { font-size: inherit; padding: 0; background: none; }

.table { font-family: var(--sans); }
.columns > .table { margin-block: .5rem 1.75rem; }
.scroll { --back: var(--background); position: relative; overflow-wrap: break-word; }
.scroll, pre {
  overflow-x: auto;
  /* A shadow at the right edge, hidden by what scrolls with the content once its end is in sight. */
  background:
    linear-gradient(to left, var(--back) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--grid), transparent) right / .9rem 100% no-repeat scroll var(--back);
}
table { width: 100%; border-collapse: collapse; font-size: .875rem; line-height: 1.4;
  font-variant-numeric: tabular-nums lining-nums; }
caption { text-align: left; padding-bottom: .55rem; font-weight: 600; overflow-wrap: anywhere; }
caption > span { display: inline-block; position: sticky; left: 0;
  max-width: min(100vw - 2 * var(--gutter), var(--wide)); }
th, td { padding: .42rem .6rem; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--grid); }
:is(th, td):first-child { padding-left: 0; }
:is(th, td):last-child { padding-right: 0; }
thead :is(th, td) { vertical-align: bottom; font-weight: 600; color: var(--muted); font-size: .8125rem;
  line-height: 1.3; border-block: 1px solid var(--muted); border-top-width: 2px; }
tbody tr:last-child > * { border-bottom: 1px solid var(--muted); }
tbody th { font-weight: 500; }
tr > :first-child { position: sticky; left: 0; background: var(--background); max-width: 22rem; }
tbody :is(th, td) { white-space: nowrap; }
.number { text-align: right; }
tbody :is(.words, .long) { white-space: normal; min-width: 7.5rem; }
tbody td.long { min-width: 15rem; }
tbody th.long { min-width: min(14rem, 40vw); }
.mark { font-weight: 700; }
.good { color: var(--good); }
.fair { color: var(--fair); }
.bad { color: var(--bad); }
.note { margin: .55rem 0 0; max-width: var(--measure); font-size: .875rem; line-height: 1.45; color: var(--muted); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

figure { margin: 0; }
.columns > figure { margin-block: .5rem 1.75rem; }
img { display: block; max-width: 100%; height: auto; }
.columns > figure img { width: min(100%, calc(1.15 * var(--width))); }
figcaption { margin-top: .5rem; max-width: var(--measure); font: .875rem/1.45 var(--sans); color: var(--muted); }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--column)), 1fr));
  gap: 1.75rem 2rem; }
.columns > .gallery { margin-block: .5rem 1.75rem; }
.wide img { min-width: min(30rem, var(--width)); }
.gallery img { width: min(100%, calc(1.25 * var(--width))); }

summary { width: min(var(--measure), 100% - 2 * var(--gutter)); margin-inline: auto; padding: .4rem 0; cursor: pointer;
  font: 500 .9375rem/1.45 var(--sans); color: var(--link); }
summary::marker { color: var(--muted); }
details > div { margin-top: .6rem; }

.skip { position: absolute; top: 0; left: var(--gutter); z-index: 1; padding: .5rem .9rem; border-radius: 0 0 6px 6px;
  background: var(--surface); font: .9375rem var(--sans); transform: translateY(-110%); }
.skip:focus { transform: none; }
footer { margin-top: 3.5rem; font: .875rem/1.5 var(--sans); color: var(--muted); }
footer > p { border-top: 1px solid var(--grid); padding-top: 1rem; }

@media (max-width: 40rem) {
  body { font-size: 1rem; }
  tr > :first-child { max-width: 40vw; }
  .columns > h2 { margin-top: 2.4rem; font-size: 1.375rem; }
}
@media print {
  @page { margin: 18mm 16mm; }
  :root { --gutter: 0px; --measure: 60rem; --wide: 60rem; font-size: 75%; }
  body { padding: 0; }
  nav, .skip { display: none; }
  a { color: inherit; }
  section a[href^="https:"]::after { content: " (" attr(href) ")"; font-size: .85em; }
  h2, h3, caption, summary { break-after: avoid; }
  figure, tr, pre { break-inside: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--grid); }
  .scroll { overflow: visible; background: none; }
  .wide table { font-size: .75rem; }
  .wide :is(th, td):not(:first-child, :last-child) { padding-inline: .3rem; }
  .columns > figure:not(.wide) img { width: 65%; }
  .wide img { min-width: 0; }
  .gallery { grid-template-columns: 1fr 1fr; }
  tr > :first-child { position: static; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
""")
