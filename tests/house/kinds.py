"""The places that branch on the kind of a task, an algorithm or a policy: ``python -m tests.house.kinds``.

A place is a condition: of an ``if``, of a conditional expression, of a comprehension, or a part of ``and`` or ``or``.
It counts if it asks what something is, where a method of that thing could answer.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.documents import ROOT

ASKED = {"memory_of", "remembers"}
"""Functions and attributes that tell kinds of policies apart."""
KINDS = {"MapView", "RowView", "GridworldTask", "EnvironmentTask", "GridworldAgent", "EnvironmentAgent"}
"""Classes of which an ``isinstance`` tells kinds apart."""
SOURCES = ("drest_torch", "algos", "envs")


def conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def asks_for_a_kind(condition: ast.expr) -> bool:
    """Return whether a condition asks for the kind of something."""
    for node in ast.walk(condition):
        name = getattr(node, "attr", getattr(node, "id", None))
        if name in ASKED:
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "isinstance":
            classes = {getattr(part, "id", None) for part in ast.walk(node.args[1])}
            if classes & KINDS:
                return True
    return False


def places() -> list[str]:
    """Return the file and line of each place that branches on a kind."""
    found = set()
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):  # which follows no links
            for condition in conditions(ast.parse(Path(path).read_bytes())):
                if asks_for_a_kind(condition):
                    found.add((str(path.relative_to(ROOT)), condition.lineno))
    return [f"{path}:{line}" for path, line in sorted(found)]


if __name__ == "__main__":
    print(*places(), sep="\n")
