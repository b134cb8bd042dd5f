"""The files, functions and classes on the path of the data: ``python -m tests.house.walk``.

train: from `algo=ppo` to the first gradient step. evaluate: from a level file to usefulness and neutrality. A file or
class counts if one of its functions is called; code that runs during imports does not count.
"""

import ast
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import Mock, patch

from torch.optim.optimizer import register_optimizer_step_pre_hook

import drest_torch.train
from drest_torch import Agent
from tests.helpers.documents import ROOT

LEVEL = "shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5\n"
TRAINING = ["algo=ppo", "env_steps=40000", "logger=none", "progress=false", "run_dir=run"]
PRODUCT = f"{ROOT}/drest_torch/"


def evaluate() -> None:
    """Evaluate the generalist on a level file."""
    Path("level.txt").write_text(LEVEL, "utf-8")
    Agent.load("generalist").evaluate("level.txt")


def train() -> None:
    """Train with PPO until the first step of an optimiser."""
    hook = register_optimizer_step_pre_hook(Mock(side_effect=SystemExit))
    try:
        with patch.object(sys, "argv", ["train", *TRAINING]), suppress(SystemExit):
            drest_torch.train.main()
    finally:
        hook.remove()


WALKS = {"train": train, "evaluate": evaluate}


@cache
def methods(file: str) -> dict[tuple[str, int], str]:
    """Return the class of each method of a file by the method's name and first line."""
    tree = ast.parse(Path(file).read_bytes())
    classes = {}
    for parent in ast.walk(tree):
        if not isinstance(parent, ast.ClassDef):
            continue
        for function in parent.body:
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
                classes[function.name, first] = parent.name
    return classes


@dataclass
class Walk:
    """The functions of the product that a call entered, in order."""

    codes: dict[CodeType, None] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Record the function that is entered; `sys.setprofile` calls this."""
        code = frame.f_code
        if event != "call" or not code.co_flags & CO_OPTIMIZED:  # the body of a class or module
            return
        if code.co_filename.startswith(PRODUCT) and code not in self.codes and not _is_importing(frame):
            self.codes[code] = None

    @property
    def files(self) -> dict[str, int]:
        """The number of functions entered in each file."""
        files: dict[str, int] = {}
        for code in self._functions():
            path = code.co_filename.removeprefix(f"{ROOT}/")
            files[path] = files.get(path, 0) + 1
        return files

    @property
    def functions(self) -> int:
        """The number of functions and methods; lambdas and comprehensions belong to their enclosing function."""
        return len(list(self._functions()))

    @property
    def classes(self) -> list[str]:
        """The classes with a method that was entered, each with its file."""
        names = {}
        for code in self._functions():
            name = methods(code.co_filename).get((code.co_name, code.co_firstlineno))
            if name is not None:
                names[f"{code.co_filename.removeprefix(f'{ROOT}/')}: {name}"] = None
        return list(names)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The module and qualified name of each function in order."""
        names = []
        for code in self._functions():
            path = Path(code.co_filename).relative_to(PRODUCT).with_suffix("")
            method_of = methods(code.co_filename).get((code.co_name, code.co_firstlineno))
            name = code.co_name if method_of is None else f"{method_of}.{code.co_name}"
            names.append((".".join(path.parts), name))
        return names

    def _functions(self) -> Iterator[CodeType]:
        return (code for code in self.codes if not code.co_name.startswith("<"))

    def __str__(self) -> str:
        lines = [f"{len(self.files)} files, {self.functions} functions, {len(self.classes)} classes"]
        lines += [f"  {path} ({count})" for path, count in self.files.items()]
        lines += [f"  class {name}" for name in self.classes]
        return "\n".join(lines)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a function is called during an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def followed(call: Callable[[], None]) -> Walk:
    """Return the walk of a call, which is made in an empty folder without output."""
    walk, before = Walk(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        os.chdir(folder)
        sys.setprofile(walk)
        try:
            call()
        finally:
            sys.setprofile(None)
            os.chdir(before)
    return walk


def main(arguments: list[str]) -> None:
    """Print the named walks, or all."""
    for name in arguments or WALKS:
        print(f"{name}: {followed(WALKS[name])}")


if __name__ == "__main__":
    main(sys.argv[1:])
