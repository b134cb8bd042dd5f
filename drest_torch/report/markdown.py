"""The Markdown of reports: CommonMark without HTML, pictures and indented code, with links to https only."""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

PARSER = MarkdownIt("commonmark", {"html": False})
# Templates may indent their text, so four spaces do not mean code; pictures come from `Plot` only.
PARSER.disable(["image", "html_inline", "html_block", "autolink", "code"])
PARSER.validateLink = lambda url: url.startswith(("https://", "#"))  # type: ignore[method-assign]

_SPECIAL = re.compile(r"[\\`*\[\]&<|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown, HTML or tables interpret as markup; an underscore within a word is not one."""
_BLOCK_START = re.compile(r"\A(\s*)(?=(?:>|~~~|#{1,6}(?:\s|\Z)|[-+](?:\s|\Z)|[-=]+\s*\Z))|\A(\s*\d+)(?=[.)](?:\s|\Z))")
"""Characters that start a quotation, a heading, a list or a rule at the beginning of a line."""
_LOCAL_LINK = re.compile(r"\[([^\]\n]+)\]\((?![a-z]+:)[^)\s]+\.(?:md|ipynb)(?:#[^)\s]*)?\)")
BLOCK_MARK = re.compile("\ue000(\\d+)\ue001")
"""A placeholder for a block in the text of a template; `literal` removes its characters from data."""


def literal(text: str) -> str:
    """Escape text from data, so that Markdown shows it literally."""
    text = re.sub(r"\s*[\n\r]\s*", " ", text.translate({0xE000: "�", 0xE001: "�"}))
    return _BLOCK_START.sub(r"\1\2\\", _SPECIAL.sub(r"\\\g<0>", text))


def escaped(value: Any) -> Any:
    """Return a value for a template: text is escaped by `literal`, unless it already is `Markup`."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return Markup(literal(value))
    return value


def without_local_links(text: str) -> str:
    """Return Markdown for a report, in which links to pages of the documentation are plain text."""
    return _LOCAL_LINK.sub(r"\1", text)


def code(text: str) -> str:
    """Return text from data as inline code, even if it contains backticks."""
    text = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def plain(text: str) -> str:
    """Return a sentence or a cell without markup, for an attribute or a title."""
    parts = [child for token in PARSER.parseInline(text) for child in token.children or []]
    return "".join(" " if part.type.endswith("break") else part.content for part in parts)
