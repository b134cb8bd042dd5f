"""Commands from a user's view: their output and exit status."""

import io
import os
import re
import subprocess
import sys
from typing import NamedTuple

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
