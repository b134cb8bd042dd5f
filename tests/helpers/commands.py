"""A command as a user meets it: what it prints, and the status with which it ends."""

import io
import os
import re
import subprocess
import sys
from typing import NamedTuple

from tests.helpers.documents import ROOT


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def sentence(self):
        """Our own message: one line, and nothing else."""
        assert self.code == 2, self.err
        assert self.err.startswith("drest_torch: ")
        assert self.err.count("\n") == 1
        return self.err


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True

    def plain(self):
        """What was written, without its control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def python(*arguments, cwd=ROOT, status=0, **variables):
    """Run Python with these arguments in a process of its own, and return what it prints; it ends with this status."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout
