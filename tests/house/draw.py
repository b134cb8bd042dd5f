"""Random samples of the project's prose, for a strict reading: ``python -m tests.house.draw --seed 101``.

Each item has its file and line: docstrings, sentences of the README and of `docs`, messages of errors, and names of
tests. Read each as a colleague who writes papers in English would, and count those that she would rewrite.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.documents import ROOT
from tests.house.words import documentation, paths

Item = tuple[str, int, str]
"""A file, a line and a text."""
CODE = ("algos", "drest_torch", "envs", "tests")
"""The folders of the docstrings."""
PRODUCT = ("algos", "drest_torch", "envs")
"""The folders of the messages."""
LISTS = ("#", "|", "<", "[", "!", "```", ":::", "$$", "---")
"""Beginnings of lines of Markdown that contain no sentence."""


def _modules(folders: tuple[str, ...]) -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield the names of modules in these folders with the nodes of their syntax trees."""
    for path in paths():
        name = path.relative_to(ROOT)
        if path.suffix == ".py" and name.parts[0] in folders:
            yield str(name), list(ast.walk(ast.parse(path.read_text("utf-8"))))


def docstrings() -> Iterator[Item]:
    """Yield the docstrings of modules, classes, functions, fields and constants."""
    for name, nodes in _modules(CODE):
        for _, line, text in documentation(nodes):
            yield name, line, text


def messages() -> Iterator[Item]:
    """Yield the messages of exceptions, with the source of their replacement fields."""
    for name, nodes in _modules(PRODUCT):
        for node in nodes:
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            for argument in node.exc.args:
                if isinstance(argument, ast.JoinedStr | ast.Constant):
                    yield name, node.lineno, ast.unparse(argument)


def tests() -> Iterator[Item]:
    """Yield the names of tests."""
    for name, nodes in _modules(("tests",)):
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield name, node.lineno, node.name


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a page of Markdown, each with its first line, without code, tables and headings."""
    first, lines, in_code = 1, [], False
    text = re.sub(r"(?s)```\{glossary\}\n(.*?)\n```", r"\n\1\n", text)
    text = re.sub(r"(?m)^\S.*\n(?=  [A-Z])", "\n", text)  # without the terms of the glossary
    for number, line in enumerate([*text.splitlines(), ""], 1):
        words = line.strip()
        is_fence = words.startswith("```") or (words.startswith("$$") and not words[2:].endswith("$$"))
        in_code ^= is_fence or (in_code and words.endswith("$$"))
        if words and not in_code and not words.startswith((*LISTS, "- ", "* ")):
            first = first if lines else number
            lines.append(words)
            continue
        if lines:
            yield first, " ".join(lines)
        lines = []
        if words.startswith(("- ", "* ")) and not in_code:
            first, lines = number, [words[2:]]


def sentences() -> Iterator[Item]:
    """Yield the sentences of more than three words of the README and of the pages in `docs`."""
    for path in paths():
        name = path.relative_to(ROOT)
        if path.suffix != ".md" or (name.parts[0] != "docs" and str(name) != "README.md"):
            continue
        for line, paragraph in _paragraphs(path.read_text("utf-8")):
            for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z*`])", paragraph):
                if len(sentence.split()) > 3:
                    yield str(name), line, sentence


def draw(items: Iterator[Item], count: int, seed: int) -> list[Item]:
    """Return a random sample of the items, by file and line."""
    pool = list(items)
    return sorted(random.Random(seed).sample(pool, min(count, len(pool))))


def main() -> None:
    """Print a sample of each kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    kinds = {"docstrings": docstrings, "sentences": sentences, "messages": messages, "tests": tests}
    for kind in kinds:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    options = vars(parser.parse_args())
    for kind, items in kinds.items():
        sample = draw(items(), options[kind], options["seed"])
        print(f"\n{len(sample)} {kind}")
        for name, line, text in sample:
            print(f"{Path(name)}:{line}: {text}")


if __name__ == "__main__":
    main()
