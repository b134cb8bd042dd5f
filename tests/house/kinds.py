"""Branches on the kind of a task, an algorithm or a policy: ``python -m tests.house.kinds``.

A branch is a condition: of an ``if``, of a conditional expression, of a comprehension, or an operand of ``and`` or
``or``. It counts if it tests the kind of an object where a method of the object could be called instead.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.documents import ROOT

TESTS_OF_KINDS = {"memory_of", "remembers"}
"""Functions and attributes that distinguish kinds of policies."""
KINDS = {"MapView", "RowView", "GridworldTask", "EnvironmentTask", "GridworldAgent", "EnvironmentAgent"}
"""Classes that distinguish kinds in an ``isinstance``."""
SOURCES = ("drest_torch", "algos", "envs")


def conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def branches_on_a_kind(condition: ast.expr) -> bool:
    """Return whether a condition tests the kind of an object."""
    for node in ast.walk(condition):
        name = getattr(node, "attr", getattr(node, "id", None))
        if name in TESTS_OF_KINDS:
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "isinstance":
            classes = {getattr(part, "id", None) for part in ast.walk(node.args[1])}
            if classes & KINDS:
                return True
    return False


def branches() -> list[str]:
    """Return the file and line of each branch on a kind."""
    places = set()
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):  # does not follow links
            for condition in conditions(ast.parse(Path(path).read_bytes())):
                if branches_on_a_kind(condition):
                    places.add((str(path.relative_to(ROOT)), condition.lineno))
    return [f"{path}:{line}" for path, line in sorted(places)]


if __name__ == "__main__":
    print(*branches(), sep="\n")
