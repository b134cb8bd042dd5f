"""The documentation in tests: its scripts as modules, and its pages as blocks of code."""

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in ("studies", "my_study"))
"""All pages except studies, which are generated from rows."""

_BLOCK = re.compile(r"(?:^`([\w./]+)`:\n\n)?^```(\w+)\n((?:# (\S+\.py)\n)?.*?)^```$", re.DOTALL | re.MULTILINE)
_INCLUDED = re.compile(r"^```\{literalinclude\} (my_\S+)\n:language: (\w+)\n```$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_PROMISE = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


def load(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    text: str
    file: str
    """The name of the file in the page or in the first line of the block; may be empty."""

    @property
    def promised(self) -> list[str]:
        """The output that comments behind ``print`` promise."""
        return _PROMISE.findall(self.text)

    def write(self, folder: Path) -> None:
        """Write the block to its file in a folder."""
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")


def blocks(page: Path, heading: str | None = None) -> list[Block]:
    """Return the blocks of code of a page, or of its section with this heading, in order."""
    text = _INCLUDED.sub(
        lambda file: f"```{file[2]}\n{(page.parent / file[1]).read_text('utf-8')}```", page.read_text("utf-8")
    )
    if heading is not None:
        masked = _FENCED.sub(lambda block: block[0].replace("#", " "), text)
        begin = re.search(rf"^#+ {heading}$", masked, re.MULTILINE).end()
        text = text[begin : f"{masked}\n## ".find("\n## ", begin)]
    return [Block(language, code, name or first) for name, language, code, first in _BLOCK.findall(text)]


def commands(section: list[Block]) -> list[list[str]]:
    """Return the arguments of each command ``drest`` in blocks of bash."""
    texts = [block.text.replace("\\\n", " ") for block in section if block.language == "bash"]
    lines = [line for text in texts for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("drest ")]


def follow(page: str, heading: str, folder: Path) -> list[str]:
    """Write the files of a section into a folder, and return the arguments of its first command ``drest``."""
    section = blocks(ROOT / "docs" / f"{page}.md", heading)
    for block in section:
        if block.file:
            block.write(folder)
    return commands(section)[0]


def script(page: str, name: str) -> ModuleType:
    """Return a file printed in a page as a module."""
    module = ModuleType(name.removesuffix(".py"))
    (text,) = [block.text for block in blocks(ROOT / "docs" / f"{page}.md") if block.file == name]
    exec(compile(text, name, "exec"), vars(module))
    return module
