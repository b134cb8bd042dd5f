"""Run commands where a disk is full, a folder is not ours, the clock is wrong or names are strange."""

from __future__ import annotations

import os
import random
import resource
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count as counted
from pathlib import Path
from threading import Thread

from tests.chaos.folders import contents, differences
from tests.chaos.forked import drest, forked
from tests.chaos.kills import CRASHED, TINY, WORLD, configured, train, uninterrupted
from tests.chaos.mutations import COMMANDS, _verdict, copies

NOBODY = 65534


def _limit(what: int, most: int) -> None:
    resource.setrlimit(what, (most, resource.RLIM_INFINITY))


def full_disk(rng: random.Random, count: int) -> Counter[str]:
    """Train where no file can have more than so many bytes, then resume where it can: nothing is lost."""
    found: Counter[str] = Counter()

    with uninterrupted(CRASHED[0]) as (_, whole, _):
        for _ in range(count):
            most = rng.choice((60, 100, 1000, rng.randrange(60, 20_000)))  # what is said fits, too
            words = ("algo=ppo", *WORLD, "algo.episodes=64", "env_steps=1200", *TINY, "run_dir=run")
            with tempfile.TemporaryDirectory() as folder:
                here = Path(folder)
                first = drest("train", *words, folder=here, before=partial(_limit, resource.RLIMIT_FSIZE, most))
                verdict = _verdict(f"at most {most} bytes", first)
                if verdict == "refused":
                    last = forked(partial(train, configured(CRASHED[0])), folder=here, seconds=120)
                    left = differences(whole, contents(here / "run")) if last.status == 0 else [last.err[-200:]]
                    verdict = "refused" if not left else f"at most {most} bytes: differs: {left}"
                found[verdict] += 1
    return found


def permissions(rng: random.Random, count: int) -> Counter[str]:
    """Take a permission from a path of a run, and resume, evaluate or compare it as a user who is not root."""
    found: Counter[str] = Counter()
    if os.getuid() != 0:
        return found
    for here in copies(count):
        for path in (here, *here.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        chosen = rng.choice([here / "run", *sorted((here / "run").rglob("*"))])
        mode = rng.choice((0o000, 0o444, 0o555))
        chosen.chmod(mode)
        outcome = rng.choice(COMMANDS)(here, before=_as_nobody)
        found[_verdict(f"{chosen.relative_to(here)} with mode {mode:o}", outcome)] += 1
        chosen.chmod(0o755)
    return found


def _as_nobody() -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def clock(rng: random.Random, count: int) -> Counter[str]:
    """Train while the clock goes backwards: the run is as it would be."""
    found: Counter[str] = Counter()
    with uninterrupted("ppo") as (cfg, whole, _):
        for _ in range(count):
            step = rng.choice((0.001, 1.0, 3600.0))

            def backwards(step: float = step) -> None:
                ticks = counted()
                time.time = time.monotonic = lambda: 1e9 - step * next(ticks)

            with tempfile.TemporaryDirectory() as folder:
                outcome = forked(partial(train, cfg, backwards), folder=Path(folder), seconds=120)
                left = (
                    differences(whole, contents(Path(folder) / "run")) if outcome.status == 0 else [outcome.err[-200:]]
                )
                found["same" if not left else f"backwards by {step} s: {left}"] += 1
    return found


PATHS = (
    *("a b", "ü", "a, b", "[1]", "it's", 'a"b', "a=b", "$HOME", "-x", "#", "a\\b", "{x}", "~", "12", "null"),
    *("日本", "a" * 200),
)


def paths(rng: random.Random, count: int) -> Counter[str]:
    """Train in folders with strange names, stop, and resume by the command that is printed."""
    from drest_torch.training.folder import command_line

    found: Counter[str] = Counter()
    words = ("algo=ppo", *WORLD, "algo.episodes=64", "env_steps=300", "evaluations=1", *TINY[:2], "pictures=0")
    for _ in range(count):
        name = rng.choice(PATHS)
        with tempfile.TemporaryDirectory() as folder:
            for key, more in (("run_dir", (*words, "logger=none")), ("resume", ())):
                argument = shlex.split(command_line("train", f"{key}={name}"))[-1]
                outcome = drest("train", argument, *more, "progress=false", folder=Path(folder))
                verdict = _verdict(f"{key}={name}", outcome)
                if verdict == "done" and not (Path(folder) / name / "summary.json").exists():
                    verdict = f"{key}={name}: another folder was written"
                found[verdict if verdict == "done" else f"{name}: {verdict}"] += 1
    return found


SHELLS = {
    "no HOME": "env -u HOME {python} -m drest_torch {command}",
    "HOME that is not there": "HOME=/nowhere {python} -m drest_torch {command}",
    "locale C": "LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 {python} -m drest_torch {command}",
    "output in ASCII": "PYTHONIOENCODING=ascii {python} -m drest_torch {command}",
    "no stdout": "{python} -m drest_torch {command} >&-",
    "no stderr": "{python} -m drest_torch {command} 2>&-",
    "no stdin": "{python} -m drest_torch {command} <&-",
    "stdout is full": "{python} -m drest_torch {command} >/dev/full",
    "stdout ends": "{python} -m drest_torch {command} | head -c 10",
    "one column": "COLUMNS=1 LINES=1 TERM=dumb {python} -m drest_torch {command}",
}
SHELL_COMMANDS = (
    "evaluate levels=example out=out.json",
    "show example --no-picture",
    "train algo=ppo levels=example env_steps=300 evaluations=1 pictures=0 policy.width=8 policy.depth=1 "
    "algo.episodes=64 logger=none test.paper=false run_dir=run",
    "train levels=nowhere",
)


def shells(rng: random.Random, count: int) -> Counter[str]:
    """Start commands from shells that lack something."""
    found: Counter[str] = Counter()
    cases = [(name, command) for name in SHELLS for command in SHELL_COMMANDS]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    for name, command in cases if count >= len(cases) else rng.sample(cases, count):
        line = SHELLS[name].format(python=shlex.quote(sys.executable), command=command)
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(
                    ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=60, check=False
                )
            except subprocess.TimeoutExpired:
                found[f"{name}: {command}: hang"] += 1
                continue
        text = done.stderr.decode(errors="replace")
        bad = any(word in text for word in ("Traceback", "Exception ignored", "Error:"))
        verdict = {0: "done", 2: "refused"}.get(done.returncode, f"status {done.returncode}")
        found[f"{name}: {command}: {verdict}: {text.strip().splitlines()[-1:]}" if bad else verdict] += 1
    return found


ANSWERS: dict[str, bytes | None] = {
    "does not answer": None,
    "hangs up": b"",
    "has a page to log in": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "is no gateway": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "speaks no HTTP": bytes(range(256)),
}


def network(rng: random.Random, count: int) -> Counter[str]:
    """Train with W&B online where something else answers for its server: a sentence, and no run has begun."""
    found: Counter[str] = Counter()
    words = ("algo=ppo", *WORLD, "algo.episodes=64", "env_steps=300", *TINY[:2], "pictures=0", "progress=false")
    for index in range(count):
        name = list(ANSWERS)[index % len(ANSWERS)] if count >= len(ANSWERS) else rng.choice(list(ANSWERS))
        with tempfile.TemporaryDirectory() as folder, _server(ANSWERS[name]) as url:
            environment = {"WANDB_BASE_URL": url, "WANDB_API_KEY": "a" * 40, "WANDB_MODE": None}
            online = ("logger=wandb", "logger.mode=online", "run_dir=run")
            outcome = drest("train", *words, *online, folder=Path(folder), seconds=40, environment=environment)
            verdict = _verdict(name, outcome)
            if verdict == "refused" and (Path(folder) / "run" / "config.yaml").exists():
                verdict = f"{name}: a run was begun"
            found[verdict] += 1
    return found


@contextmanager
def _server(answer: bytes | None) -> Iterator[str]:
    """Yield the address of a server that gives this answer to everything; None: it never does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            waiting = []
            while True:
                try:
                    client, _ = server.accept()
                except OSError:  # it is closed
                    return
                if answer is None:
                    waiting.append(client)
                    continue
                with client, suppress(OSError):
                    if answer:
                        client.recv(65536)
                    client.sendall(answer)

        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def memory(rng: random.Random, count: int) -> Counter[str]:
    """Train a network that may be too large with so little memory: it is trained, or a sentence says why not."""
    found: Counter[str] = Counter()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    for _ in range(count):
        room, width = rng.randrange(100, 4000), rng.choice((64, 512, 2048, 65536, 10**7))
        words = ("algo=ppo", *WORLD, "env_steps=300", "evaluations=1", "pictures=0", "progress=false", "logger=none")
        with tempfile.TemporaryDirectory() as folder:
            outcome = drest(
                *("train", *words, f"policy.width={width}", "policy.depth=2", "algo.episodes=64", "run_dir=run"),
                folder=Path(folder),
                seconds=60,
                before=partial(_limit, resource.RLIMIT_AS, used + room * 2**20),
            )
            found[_verdict(f"{room} MiB and width {width}", outcome)] += 1
    return found
