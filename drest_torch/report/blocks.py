"""The blocks of a page: prose, tables, plots, commands, and sections of blocks.

Prose, captions and cells are Markdown; titles, commands, alternative texts are plain text. Text that comes from data
enters Markdown through `drest_torch.report.markdown.literal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from matplotlib.figure import Figure

from drest_torch.report.themes import Style


@dataclass(frozen=True)
class Prose:
    """Paragraphs and lists in Markdown, or a single paragraph in another style."""

    markdown: str
    look: str = ""
    """``lead`` is a summary in larger type, ``note`` an explanation in smaller type."""


@dataclass(frozen=True)
class Commands:
    """Lines of code or shell commands."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    A cell may begin with a mark, ``✓``, ``◐`` or ``✗``, and a space. ``note`` stands below the table.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        if not self.caption.strip():
            raise ValueError("a table needs a caption: screen readers announce the table by it")


@dataclass(frozen=True)
class Plot:
    """A picture: ``draw`` gets an empty figure and the page's colours, which it finds as matplotlib's defaults.

    The colours are placeholders for those of both themes, so ``draw`` must use them unchanged.
    """

    alt: str
    """A description of the picture for readers who cannot see it."""
    caption: str
    draw: Callable[[Figure, Style], None]
    size: tuple[float, float] = (4.8, 3.2)
    """Width and height in inches; at normal zoom an inch is 96 pixels."""

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a plot needs an alternative text: some readers have nothing else")


@dataclass(frozen=True)
class Gallery:
    """Plots side by side; below each other on narrow screens."""

    plots: Sequence[Plot]


@dataclass(frozen=True)
class Checklist:
    """Sentences that each begin with a mark, ``✓``, ``◐`` or ``✗``, and a space."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A part of a page, or of another section."""

    title: str
    blocks: Sequence[Block]


Block: TypeAlias = Prose | Commands | Table | Plot | Gallery | Checklist | Section


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    """The sections. Blocks before the first one stand above the table of contents: the answer and its picture."""
    footer: str = ""
    banner: str = ""
    """A warning at the top of the page."""
