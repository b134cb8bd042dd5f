"""Breaches of the style of CONTRIBUTING.md: ``python -m tests.house.words [ROOM…]``.

A room is a folder or a file. Each complaint has a file, a line and a sentence.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from tests.helpers.documents import ROOT

FOLDERS = ("algos", "benchmarks", "docs", "drest_torch", "envs", "tests")
"""Folders of code and pages; the links in `drest_torch` to others of them are skipped."""
NAMES = frozenset(
    [
        "asked",
        "each",
        "found",
        "given",
        "it",
        "its",
        "kept",
        "known",
        "made",
        "one",
        "own",
        "said",
        "several",
        "shown",
        "there",
        "those",
        "told",
        "wanted",
    ]
)
"""Words that are too vague to be the name of a variable, parameter, function or class."""
FIRST_WORDS = frozenset(["How", "Of", "That", "Those", "What", "Where", "Whether", "Who"])
"""Words that may not begin a docstring."""
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text("utf-8").split())
"""Verbs in the imperative that may begin the docstring of a function. Add a missing verb to `verbs.txt`."""
DIALECT = {
    r"archetypes?": "scripted policy",
    r"arms?": "variant, condition",
    r"climb(s|ed|ing)?": "gradient ascent, optimise",
    r"contenders?": "baseline, rival method",
    r"counted\s+steps": "budget, environment steps",
    r"environments\s+of\s+others": "third-party environments",
    r"goals\s+that\s+generali[sz]e": "goal misgeneralization",
    r"luck\s+of\s+the\s+choice": "selection bias",
    r"nearness\s+that\s+misleads": "spurious feature",
    r"somebody(\s+else)?": "scripted policy, a policy",
    r"under\s+pressure": "adversarial levels, worst case",
    r"one\s+edit": "perturbation",
}
"""Private words (regular expressions), each with the term of the field."""
LONGEST = 60
"""The longest name of a test, in characters."""
_DIALECT = re.compile(r"\b(" + "|".join(DIALECT) + r")\b", re.IGNORECASE)
_DIALECT_NAME = re.compile(r"(^|_)(archetype|climb|contender|somebody)", re.IGNORECASE)
_PROPERTIES = ("property", "cached_property", "setter")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MATCHES = (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, order=True)
class Complaint:
    """A place in a file that breaks a rule of style."""

    path: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds: variables, attributes, parameters, functions and classes."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)) or (isinstance(node, _MATCHES) and node.name):
        yield node.name


def name_complaints(node: ast.AST) -> Iterator[str]:
    """Yield complaints about the names that a node binds."""
    for name in bound_names(node):
        if name.strip("_").lower() in NAMES:
            yield f"`{name}` says nothing about its value: use a noun of the domain"
        elif _DIALECT_NAME.search(name):
            yield f"`{name}` contains a private word: use the term of the field"


def _text(node: ast.AST) -> str | None:
    """Return the text of a statement that is only a string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


def documentation(nodes: list[ast.AST]) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield the documented node, line and text of every docstring, also below a field or a constant."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, statement in pairwise([node, *body]):
            text = _text(statement)
            if text is not None and isinstance(before, _DOCUMENTED):
                yield before, statement.lineno, text


def is_property(node: ast.AST) -> bool:
    """Return whether a function is a property."""
    decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])]
    return any(decorator.split(".")[-1] in _PROPERTIES for decorator in decorators)


def first_word(text: str) -> str:
    """Return the first word of a text without the punctuation behind it."""
    return (text.split() or [""])[0].rstrip(",.:;")


def begins_with_a_verb(node: ast.AST) -> bool:
    """Return whether the docstring of a node has to begin with a verb."""
    return isinstance(node, _FUNCTIONS) and not node.name.startswith("test_") and not is_property(node)


def docstring_complaints(node: ast.AST, text: str) -> Iterator[str]:
    """Yield complaints about the first word of a docstring."""
    word = first_word(text)
    if word in FIRST_WORDS:
        yield f"the docstring begins with {word!r}: begin with a verb or a noun"
    elif begins_with_a_verb(node) and word not in VERBS:
        yield f"the docstring of `{node.name}` begins with {word!r}: begin with a verb in the imperative"


def test_name_complaints(node: ast.AST) -> Iterator[str]:
    """Yield complaints about the name of a test."""
    if not isinstance(node, _FUNCTIONS) or not node.name.startswith("test_"):
        return
    if len(node.name) > LONGEST:
        yield f"the name of this test has {len(node.name)} characters, of {LONGEST}: `{node.name}`"
    if "_and_" in node.name:
        yield f"this test has two behaviours, by its name: `{node.name}`"


def _kind(node: ast.expr) -> str:
    """Return the kind of value that an expression has, as far as its syntax shows it."""
    if isinstance(node, ast.Constant):
        return "number" if type(node.value) in (int, float) else type(node.value).__name__
    if isinstance(node, ast.UnaryOp):
        return "bool" if isinstance(node.op, ast.Not) else _kind(node.operand)
    if isinstance(node, ast.Compare):
        return "bool"
    if isinstance(node, ast.JoinedStr):
        return "str"
    if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return "collection"
    return "unknown"


def assert_complaints(node: ast.AST) -> Iterator[str]:
    """Yield complaints about an assert that compares tuples of unlike things or of booleans."""
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
        return
    tuples = [side for side in (node.test.left, *node.test.comparators) if isinstance(side, ast.Tuple)]
    if len(tuples) < 2:
        return
    kinds = [{_kind(element) for element in side.elts} - {"unknown"} for side in tuples]
    if any("bool" in side or len(side) > 1 for side in kinds):
        yield "an assert on a tuple of unlike things: use an assert for each"


def prose_complaints(text: str) -> Iterator[tuple[int, str]]:
    """Yield complaints about words in a text, each with the number of lines before the word."""
    for match in _DIALECT.finditer(text):
        word = match.group(0)
        better = next(better for bad, better in DIALECT.items() if re.fullmatch(bad, word, re.IGNORECASE))
        yield text.count("\n", 0, match.start()), f"{word!r} is a private word; the field says: {better}"


def prose(source: bytes, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every comment, and of every string with more than one word."""
    for token in tokenize.tokenize(BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def code_complaints(path: str, source: bytes) -> Iterator[Complaint]:
    """Yield complaints about a module of Python."""
    nodes = list(ast.walk(ast.parse(source, filename=path)))
    for node in nodes:
        for sentence in (*name_complaints(node), *test_name_complaints(node), *assert_complaints(node)):
            yield Complaint(path, getattr(node, "lineno", 1), sentence)
    for node, line, text in documentation(nodes):
        for sentence in docstring_complaints(node, text):
            yield Complaint(path, line, sentence)
    if _DIALECT.search(source.decode()) is None:
        return
    for line, text in prose(source, nodes):
        for offset, sentence in prose_complaints(text):
            yield Complaint(path, line + offset, sentence)


def page_complaints(path: str, text: str) -> Iterator[Complaint]:
    """Yield complaints about a page of Markdown."""
    for offset, sentence in prose_complaints(text):
        yield Complaint(path, 1 + offset, sentence)


def paths() -> list[Path]:
    """Return the modules and pages of the project, except the changelog and the lab notes, which are dated."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    pages = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    linked = [ROOT / "drest_torch" / name for name in ("algos", "configs", "envs")]
    notes = ROOT / "docs" / "lab-notes"
    return sorted(
        path for path in (*inside, *pages) if not any(path.is_relative_to(folder) for folder in (*linked, notes))
    )


def complaints() -> list[Complaint]:
    """Return all complaints in the order of files and lines."""
    everything: list[Complaint] = []
    for path in paths():
        name = str(path.relative_to(ROOT))
        if path.suffix == ".py":
            everything += code_complaints(name, path.read_bytes())
        else:
            everything += page_complaints(name, path.read_text("utf-8"))
    return sorted(everything)


def main(rooms: list[str]) -> None:
    """Print the complaints about the named rooms, or about all."""
    selection = [
        complaint
        for complaint in complaints()
        if not rooms or any(Path(complaint.path).is_relative_to(room.rstrip("/")) for room in rooms)
    ]
    print(*selection, sep="\n")
    print(f"{len(selection)} complaints")


if __name__ == "__main__":
    main(sys.argv[1:])
