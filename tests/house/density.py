"""The density of code by room, in nodes of the syntax tree a line: ``python -m tests.house.density``.

A room is a package folder; the modules directly in `drest_torch` are also a room. TorchRL 0.14 has 4.3 nodes a line.
"""

import ast
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from tests.helpers.documents import ROOT

FOLDERS = ("drest_torch", "envs", "algos")
"""The folders of the product; the links `drest_torch/envs` and `drest_torch/algos` are not followed."""
PARAMETERS = 5
"""The most positional parameters of a function that is not wide."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_SILENT |= {tokenize.ENDMARKER}


@dataclass
class Density:
    """Counts for a module, or for all modules of a room."""

    lines: int = 0
    """Lines of code, without blank lines, comments and docstrings."""
    nodes: int = 0
    """Nodes of the syntax trees, without the contexts of names (load, store)."""
    conditionals: int = 0
    """Conditional expressions: ``a if b else c``."""
    nested: int = 0
    """Comprehensions that contain another one, or that have two loops."""
    wide: int = 0
    """Functions with more than `PARAMETERS` positional parameters besides ``self``."""

    def __add__(self, other: "Density") -> "Density":
        counts = zip(vars(self).values(), vars(other).values(), strict=True)
        return Density(*map(sum, counts))

    @property
    def nodes_per_line(self) -> float:
        """Nodes of the syntax tree a line of code."""
        return self.nodes / max(self.lines, 1)

    def per_hundred(self, count: int) -> float:
        """Return a count per 100 lines of code."""
        return 100 * count / max(self.lines, 1)


def code_lines(source: bytes, tree: ast.AST) -> set[int]:
    """Return the numbers of the lines of code."""
    lines: set[int] = set()
    for token in tokenize.tokenize(BytesIO(source).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if _is_documentation(node):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return lines


def _is_documentation(node: ast.AST) -> bool:
    """Return whether a statement is a docstring, also of a field or constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_nested(node: ast.AST) -> bool:
    """Return whether a comprehension has two loops or another comprehension within."""
    if not isinstance(node, _COMPREHENSIONS):
        return False
    inner = [child for child in ast.walk(node) if isinstance(child, _COMPREHENSIONS)]
    return len(node.generators) > 1 or len(inner) > 1


def _is_wide(node: ast.AST) -> bool:
    """Return whether a function has too many positional parameters."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    parameters = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return len([name for name in parameters if name not in ("self", "cls")]) > PARAMETERS


def module_density(path: Path) -> Density:
    """Return the counts of a module."""
    source = path.read_bytes()
    tree = ast.parse(source, filename=str(path))
    nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    return Density(
        lines=len(code_lines(source, tree)),
        nodes=len(nodes),
        conditionals=sum(isinstance(node, ast.IfExp) for node in nodes),
        nested=sum(map(_is_nested, nodes)),
        wide=sum(map(_is_wide, nodes)),
    )


def modules() -> dict[str, Density]:
    """Return the counts of every module of the product by its path."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): module_density(path) for path in paths}


def rooms() -> dict[str, Density]:
    """Return the counts of every room by its folder."""
    counts: dict[str, Density] = defaultdict(Density)
    for path, density in modules().items():
        counts[str(Path(path).parent)] += density
    return {room: density for room, density in counts.items() if density.lines}


def table(counts: dict[str, Density]) -> str:
    """Return counts as a table with a line for each name, and a line for their sum."""
    total = sum(counts.values(), Density())
    width = max(map(len, counts))
    lines = [f"{'':{width}}  code lines  nodes/line  conditionals/100  nested/100  wide functions"]
    for name, density in {**counts, "all": total}.items():
        conditionals = density.per_hundred(density.conditionals)
        nested = density.per_hundred(density.nested)
        numbers = f"{density.lines:10}  {density.nodes_per_line:10.2f}  {conditionals:16.2f}  {nested:10.2f}"
        lines.append(f"{name:{width}}  {numbers}  {density.wide:14}")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the table of the rooms, or of the modules whose path begins with an argument."""
    if not arguments:
        print(table(rooms()))
        return
    begins = tuple(arguments)
    print(table({path: density for path, density in modules().items() if path.startswith(begins)}))


if __name__ == "__main__":
    main(sys.argv[1:])
