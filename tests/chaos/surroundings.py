"""Commands in adverse conditions: a full disk, missing permissions, a wrong clock, little memory, strange shells."""

import os
import random
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count as counted
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from tests.chaos.forked import drest, folders, forked
from tests.chaos.kills import QUICK, WORLD, train, uninterrupted, words
from tests.chaos.mutations import COMMANDS, copies

NOBODY = 65534


def _limit(what: int, most: int) -> None:
    resource.setrlimit(what, (most, resource.RLIM_INFINITY))


def full_disk(rng: random.Random, count: int) -> Iterator[str]:
    """Train with a limit on the size of files, then resume without it: nothing may be lost."""
    whole = uninterrupted("ppo")
    for folder in folders(count):
        most = rng.choice((60, 100, 1000, rng.randrange(60, 20_000)))  # messages fit, too
        first = drest("train", *words("ppo"), folder=folder, before=partial(_limit, resource.RLIMIT_FSIZE, most))
        verdict = first.verdict(f"at most {most} bytes")
        left = whole.ended(f"at most {most} bytes", folder) if verdict == "refused" else "same"
        yield verdict if left == "same" else left


def permissions(rng: random.Random, count: int) -> Iterator[str]:
    """Resume, evaluate or compare a run without a permission on one of its paths, as a user other than root."""
    for here in copies(count) if os.getuid() == 0 else ():
        for path in (here, *here.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        chosen = rng.choice([here / "run", *sorted((here / "run").rglob("*"))])
        mode = rng.choice((0o000, 0o444, 0o555))
        chosen.chmod(mode)
        outcome = drest(*rng.choice(COMMANDS), folder=here, before=_as_nobody)
        yield outcome.verdict(f"{chosen.relative_to(here)} with mode {mode:o}")


def _as_nobody() -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def clock(rng: random.Random, count: int) -> Iterator[str]:
    """Train while the clock runs backwards: the results must be the same."""
    whole = uninterrupted("ppo")
    for folder in folders(count):
        step = rng.choice((0.001, 1.0, 3600.0))

        def backwards(step: float = step) -> None:
            ticks = counted()
            time.time = time.monotonic = lambda: 1e9 - step * next(ticks)

        outcome = forked(partial(train, whole.cfg, backwards), folder=folder, seconds=120)
        name = f"backwards by {step} s"
        yield whole.compared(name, folder) if outcome.status == 0 else outcome.verdict(name)


SHELLS = {
    "no HOME": "env -u HOME {}",
    "HOME that is not there": "HOME=/nowhere {}",
    "locale C": "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {}",
    "output in ASCII": "PYTHONIOENCODING=ascii {}",
    "no stdout": "{} >&-",
    "no stderr": "{} 2>&-",
    "no stdin": "{} <&-",
    "stdout is full": "{} >/dev/full",
    "stdout ends": "{} | head -c 10",
    "one column": "COLUMNS=1 LINES=1 TERM=dumb {}",
}
SHELL_COMMANDS = (
    "evaluate levels=example out=out.json",
    "show example",
    f"train {' '.join(QUICK)} levels=example progress=true",
    "train levels=nowhere",
)


def shells(rng: random.Random, count: int) -> Iterator[str]:
    cases = [(name, command) for name in SHELLS for command in SHELL_COMMANDS]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    chosen = rng.sample(cases, min(count, len(cases)))
    for folder, (name, command) in zip(folders(len(chosen)), chosen, strict=True):
        line = SHELLS[name].format(f"{shlex.quote(sys.executable)} -m drest_torch {command}")
        try:
            done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=60)
        except subprocess.TimeoutExpired:
            yield f"{name}: {command}: hang"
            continue
        text = done.stderr.decode(errors="replace")
        bad = any(word in text for word in ("Traceback", "Exception ignored", "Error:"))
        verdict = {0: "done", 2: "refused"}.get(done.returncode, f"status {done.returncode}")
        yield f"{name}: {command}: {verdict}: {text.strip().splitlines()[-1:]}" if bad else verdict


ANSWERS: dict[str, bytes | None] = {
    "does not answer": None,
    "hangs up": b"",
    "has a page to log in": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "is no gateway": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "speaks no HTTP": bytes(range(256)),
}


def network(rng: random.Random, count: int) -> Iterator[str]:
    """Train with W&B online and a wrong answer of its server: an error in one sentence before the run begins."""
    online = (WORLD, "logger=wandb", "logger.mode=online")
    first = rng.randrange(len(ANSWERS))
    for index, folder in enumerate(folders(count)):
        name = list(ANSWERS)[(first + index) % len(ANSWERS)]
        with _server(ANSWERS[name]) as url:
            set_up = partial(os.environ.update, WANDB_BASE_URL=url, WANDB_API_KEY="a" * 40, WANDB_MODE="online")
            outcome = drest("train", *QUICK, *online, folder=folder, seconds=40, before=set_up)
            begun = outcome.kind == "refused" and (folder / "run" / "config.yaml").exists()
            yield f"{name}: a run was begun" if begun else outcome.verdict(name)


@contextmanager
def _server(answer: bytes | None) -> Iterator[str]:
    """Yield the address of a server with this answer to every request; None: no answer."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                if answer:
                    self.request.recv(65536)
                while answer is None and self.request.recv(65536):
                    pass
                self.request.sendall(answer or b"")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def memory(rng: random.Random, count: int) -> Iterator[str]:
    """Train a network that may be too large for the memory: training succeeds, or is refused in one sentence."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for folder in folders(count):
        room, width = rng.randrange(100, 4000), rng.choice((64, 512, 2048, 65536, 10**7))
        limit = partial(_limit, resource.RLIMIT_AS, used + room * 2**20)
        shape = (WORLD, "policy.depth=2", f"policy.width={width}")
        outcome = drest("train", *QUICK, *shape, folder=folder, seconds=60, before=limit)
        yield outcome.verdict(f"{room} MiB and width {width}")
