"""Fast runs of commands, in forked children of a process that has imported everything once."""

import importlib
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drest_torch.__main__ import main

IMPORTED = (
    *("drest_torch.train", "drest_torch.evaluate", "drest_torch.study", "drest_torch.compare"),
    *("drest_torch.training.run", "drest_torch.agent", "drest_torch.studies.runner", "drest_torch.config.compose"),
    *(
        "drest_torch.commands.sweep",
        "matplotlib.pyplot",
        "hydra.main",
        "hydra.core.hydra_config",
        "drest_torch.choices.page",
    ),
    *(
        "drest_torch.envs.view.show",
        "drest_torch.commands.language_models",
        "cProfile",
        "torch._dynamo",
        "torch.distributed",
        "drest_torch.algos.actor",
    ),
)
SECONDS = 20.0
"""Seconds after which a command counts as hanging."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    status: int
    """The exit status; negative for a signal, and that of SIGALRM for a hang."""
    out: str
    err: str

    @property
    def kind(self) -> str:
        """The kind of outcome: ``done``, ``refused`` (one sentence and status 2), or a failure."""
        if self.status == -signal.SIGALRM:
            return "hang"
        if "Traceback (most recent call last)" in self.err:
            return "traceback"
        if self.status == 0:
            return "done"
        if self.status < 0:
            return "crash"
        return "refused" if self.status == 2 and "drest" in self.err else f"status {self.status}"

    def verdict(self, what: str) -> str:
        """Return the kind of a good outcome; of a failure, a description with the last line of the error."""
        if "\x1b[31m" in self.out + self.err:
            return f"{what}: a terminal's escape sequence was printed"
        lines = self.err.strip().splitlines()
        if self.kind == "refused" and len(lines) > 3:
            return f"{what}: refused in several lines"
        if self.kind in ("done", "refused"):
            return self.kind
        return f"{what}: {self.kind} {self.status}: {lines[-1:]}"[:300]


def warm() -> None:
    """Import everything that children need, and limit torch to one thread: its pool does not survive a fork."""
    os.environ["NUMBA_THREADING_LAYER"] = "workqueue"  # threads of OpenMP do not survive it either
    import torch

    torch.set_num_threads(1)
    for name in IMPORTED:
        importlib.import_module(name)


def folders(count: int) -> Iterator[Path]:
    """Yield this number of empty folders, one after the other."""
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def forked(act: Callable[[], int], *, folder: Path, seconds: float = SECONDS) -> Outcome:
    """Call a function in a child process, in a working directory, and return the outcome."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a timeout of the tests does not end the child
            signal.setitimer(signal.ITIMER_REAL, seconds)
            _child(act, folder, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode(errors="replace") for file in (out, err)]
    return Outcome(os.waitstatus_to_exitcode(status), *texts)


def _child(act: Callable[[], int], folder: Path, out: int, err: int) -> None:
    """Call a function in the child, and exit without the exit handlers of the parent."""
    status = 1
    try:
        os.setsid()
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(file, number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        status = act()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):  # a full disk
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 255)


def drest(
    *arguments: str, folder: Path, seconds: float = SECONDS, before: Callable[[], None] = lambda: None
) -> Outcome:
    """Run ``drest ARGUMENTS`` in a working directory; ``before`` is called in the child first."""

    def act() -> int:
        sys.argv = ["drest", *arguments]
        before()
        return main()

    return forked(act, folder=folder, seconds=seconds)
