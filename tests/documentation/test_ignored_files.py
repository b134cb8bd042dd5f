"""Files that commands and Python of the documentation write: git ignores them in a clone."""

import ast
import re
import subprocess
from pathlib import Path

import nbformat
import pytest

from drest_torch.commands.help import COMMANDS
from drest_torch.hints import CURVES
from tests.helpers.documents import PAGES, ROOT, blocks

OUTPUT = re.compile(r"""\b(?:out|pictures|picture|animation|save|run_dir)=["']?([^\s"',;)]+)""")
REDIRECTED = re.compile(r">>? *([^\s;&]+)")
ELSEWHERE = re.compile(r"/|\$|.*\b(FILE|FOLDER|NAME|FORMAT|N|RUN|OUT)\b|null$|0$")
"""Paths outside the clone, variables of a shell, placeholders, and values that are no path."""
WRITERS = {"write_levels", "write", "render", "animate", "plot", "save", "savefig", "write_text", "to_csv", "train"}
"""Functions and methods that write to the path in their first argument or in ``run_dir``."""
BY_DEFAULT = ("runs/2026_ppo/config.yaml", "runs/multirun/2026/runs.txt", "results/example/report.html", "wandb/latest")
"""Places that are used where a command names none."""


def words_of(text):
    """Return the output paths in the commands of a text."""
    return [path for pattern in (OUTPUT, REDIRECTED) for path in pattern.findall(text)]


def paths_in(code):
    """Return the output paths in Python, so far as they are plain texts."""
    paths = []
    for call in ast.walk(ast.parse(code)):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name not in WRITERS:
            continue
        values = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "run_dir")]
        texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        paths += [text for text in texts if "=" not in text]
    return paths


def outputs(page):
    """Return the paths to which a page writes."""
    paths = []
    for block in blocks(page):
        if block.language == "bash":
            paths += words_of(block.text)
        elif block.language == "python" and not block.file:
            paths += paths_in(block.text)
    return paths


def not_ignored(paths):
    """Return the paths in a clone that git does not ignore."""
    inside = sorted({path if Path(path).suffix else f"{path}/file" for path in paths if not ELSEWHERE.match(path)})
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: the ignored files are not known")
    command = ["git", "check-ignore", "--no-index", *inside]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return sorted(set(inside) - set(done.stdout.splitlines()))


def test_outputs_in_texts_are_found():
    assert words_of("drest evaluate out=a.json pictures=b; drest train run_dir=c\nprintf x > d.txt") == [
        *("a.json", "b", "c"),
        "d.txt",
    ]
    code = 'agent.render("a.gif")\nAgent.train("algo.lr=1", run_dir="b")\nwrite_levels("c.jsonl", levels)\nprint("d")'
    assert sorted(paths_in(code)) == ["a.gif", "b", "c.jsonl"]
    assert not_ignored(["mine.json", "scratch/mine.json", "/elsewhere/mine.json", "FILE.json"]) == ["mine.json"]


def test_files_of_the_pages_are_ignored():
    paths = {page: outputs(page) for page in (*PAGES, ROOT / "README.md")}
    assert sum(map(len, paths.values())) > 30
    untracked = {str(page.relative_to(ROOT)): not_ignored(written) for page, written in paths.items() if written}
    assert {page: written for page, written in untracked.items() if written} == {}


def test_files_of_the_notebook_are_ignored():
    notebook = nbformat.read(ROOT / "docs" / "tutorials" / "agent.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    paths = [
        path for cell in code for path in paths_in("\n".join(line for line in cell.splitlines() if line[:1] != "%"))
    ]
    assert not_ignored(paths) == []


def test_files_without_a_name_in_the_command_are_ignored():
    suites = ["shutdownability.json", "shutdownability.md", "ladder.json", "ladder.md", "ladder.csv", "ladder.png"]
    assert not_ignored([*BY_DEFAULT, CURVES, *suites]) == []


def test_files_of_the_examples_in_help_are_ignored():
    assert not_ignored([path for command in COMMANDS.values() for path in words_of(command.example)]) == []
