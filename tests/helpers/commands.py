"""A command as a user meets it: what it prints, and the status with which it ends."""

from __future__ import annotations

import io
import re
from typing import NamedTuple


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
