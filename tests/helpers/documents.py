"""The documentation as tests see it: its scripts as modules, and its pages as blocks of code."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

_BLOCK = re.compile(r"(?:^`([\w./]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMISE = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


def load(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    text: str
    file: str
    """The name of the file that the page gives it, or nothing."""

    @property
    def promised(self) -> list[str]:
        """Return what the comments behind ``print`` say is printed."""
        return _PROMISE.findall(self.text)


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page in their order."""
    return [Block(language, text, file) for file, language, text in _BLOCK.findall(page.read_text("utf-8"))]


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command ``drest`` of a page, after ``drest``."""
    texts = [block.text.replace("\\\n", " ") for block in blocks(page) if block.language == "bash"]
    lines = [line for text in texts for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("drest ")]


def script(page: str, name: str) -> ModuleType:
    """Return a file that a page shows as a module."""
    module = ModuleType(name.removesuffix(".py"))
    (text,) = [block.text for block in blocks(ROOT / "docs" / f"{page}.md") if block.file == name]
    exec(compile(text, name, "exec"), vars(module))
    return module
