"""Commands from a user's view: their output and exit status."""

import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from drest_torch.__main__ import COMMANDS
from tests.helpers.documents import ROOT


class Done(NamedTuple):
    """The exit status and output of a command."""

    code: int
    out: str
    err: str

    @property
    def sentence(self):
        """The error message of a user's mistake: a single line."""
        assert self.code == 2, self.err
        assert self.err.startswith("drest_torch: ")
        assert self.err.count("\n") == 1
        return self.err


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True

    def plain(self):
        """Return the text that was written, without control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def python(*arguments, cwd=ROOT, status=0, **variables):
    """Run Python in a new process, check its exit status, and return its output, or its messages after an error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, *map(str, arguments)]
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == status, f"{arguments}\n{process.stdout}\n{process.stderr}"
    return process.stderr if status else process.stdout


def call_in(folder, main, *arguments):
    """Run the main function of a command in this process and a folder, as the fixture `call` does in an empty one."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["command", *arguments])
        try:
            code = main() or 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def printed_commands(text):
    """Return the commands of this project in an output, each as its words without the program."""
    commands = re.findall(
        r"(?:drest |-m drest_torch[ .])((?:train|evaluate|check|compare|study|show|language) .*)", text
    )
    return [shlex.split(command) for command in commands]


def execute(words, folder):
    """Run a printed command in this process."""
    module, _ = COMMANDS[words[0]]
    return call_in(folder, importlib.import_module(module).main, *words[1:])
