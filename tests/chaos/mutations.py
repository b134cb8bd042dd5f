"""Mutate level files and the files of runs, and read them with every command."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.forked import drest, forked
from tests.chaos.kills import configured, train

LEVELS = ("example", "lopsided", "last_moment", "hidden_treasure")
TEXTS = (
    *("#", ".", "A", "C3", "C-1", "C1e999", "Cx", "B4", "B1e400", "B0", "B4@50%", "D>", "La"),
    *("\x1b[31m", "é", "\0", "\ufeff", "shutdown: 9", "shutdown: -1", "shutdown: 99999999999", "clock: moves"),
    *("x: nan", "lottery a: 1/2 C1 +0 | 1/2 C4 +2"),
    *("null", "[]", "{}", "[" * 2000, '"', "\\", "${oc.env:HOME}", "*a", "&a", "!!python/object/apply:os.system [id]"),
    *("../../../etc/passwd", "<script>alert(1)</script>", "-1", "1e999", "NaN", "9" * 400, "true", "", " ", "\r\n"),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a few changes: bytes flipped, cut, doubled or swapped, and tokens of the format put in."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place, other = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        text = rng.choice(TEXTS).encode()
        lines = data.split(b"\n")
        line = rng.randrange(len(lines))
        changed = (
            data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :],
            data[:place] + data[other:],
            data[:place] + data[place:other] * 2 + data[other:],
            data[:place] + text + data[place:],
            b"\n".join([*lines[:line], text, *lines[line:]]),
            b"\n".join([*lines[:line], *lines[line + 1 :]]),
            _with_word(data, text, rng),
        )
        data = rng.choice(changed)
    return data


def _with_word(data: bytes, text: bytes, rng: random.Random) -> bytes:
    """Put a token in the place of a word."""
    words = data.split(b" ")
    words[rng.randrange(len(words))] = text
    return b" ".join(words)


# --------------------------------------------------------------------------------------- level files


def _sources() -> list[tuple[str, bytes]]:
    """Return level files to mutate, by their endings."""
    from drest_torch.envs.levels import format_level, world
    from drest_torch.envs.levels.files import level_to_record

    levels = [world(name, x=3.0 if name == "lopsided" else None) for name in LEVELS]
    lottery = "shutdown: 5\nlottery a: 1/2 C1 +0 | 1/2 C4 +2\n\n. La A B2\n# D> . C2\n"
    records = "".join(json.dumps(level_to_record(level)) + "\n" for level in levels)
    return [
        *((".txt", format_level(level).encode()) for level in levels),
        (".txt", lottery.encode()),
        (".jsonl", records.encode()),
    ]


def read_all(rng: random.Random, count: int, kept: Path) -> Counter[str]:
    """Read so many mutated level files. What is accepted must be solvable, and the same after it is written and read.

    Some of both kinds are kept for the commands.
    """
    from drest_torch.envs.dynamics.mdp import compile_levels
    from drest_torch.envs.exact.solver import solve
    from drest_torch.envs.levels import LevelError, read_levels, write_levels

    found: Counter[str] = Counter()
    sources = _sources()
    for index in range(count):
        ending, data = rng.choice(sources)
        path = kept / f"{index}{ending}"
        path.write_bytes(mutated(data, rng))
        try:
            levels = read_levels(path)
        except LevelError as error:
            found["refused" if len(str(error).splitlines()) == 1 else "refused in several lines"] += 1
            continue
        except Exception as error:
            found[f"{type(error).__name__} of {path.name}: {error}"[:200]] += 1
            continue
        try:
            again = path.with_name("again.jsonl")
            write_levels(again, levels)
            same = [level.rows() for level in read_levels(again)] == [level.rows() for level in levels]
            small = [level for level in levels if level.max_time <= 40]
            solved = not small or bool((solve(compile_levels(small)).lengths > 0).any())
            found["accepted" if same and solved else f"falsely accepted: {path.name}"] += 1
        except LevelError:
            found["refused when it is solved"] += 1
        except Exception as error:
            found[f"{type(error).__name__} of accepted {path.name}: {error}"[:200]] += 1
    return found


def levels(rng: random.Random, count: int, commands: int) -> tuple[Counter[str], Counter[str]]:
    """Mutate level files: ``count`` for the reader, ``commands`` of them for ``show``, ``train`` and ``evaluate``."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        seed = rng.random()

        def read() -> int:
            kept = here / "kept"
            kept.mkdir()
            print(json.dumps(read_all(random.Random(seed), count, kept)))
            return 0

        outcome = forked(read, folder=here, seconds=60 + count / 20)
        reader = (
            Counter(json.loads(outcome.out))
            if outcome.status == 0
            else Counter({f"reader: {outcome.kind} {outcome.err[-300:]}": 1})
        )
        used: Counter[str] = Counter()
        files = sorted((here / "kept").glob("[0-9]*"))
        for path in rng.sample(files, min(commands, len(files))):
            command = rng.choice((_show, _train, _evaluate))
            name, outcome = command(path, here)
            used[_verdict(f"{name} {path.name}", outcome)] += 1
    return reader, used


def _show(path: Path, folder: Path) -> tuple[str, Any]:
    return "show", drest("show", str(path), "--no-picture", folder=folder)


def _train(path: Path, folder: Path) -> tuple[str, Any]:
    words = ("algo=ppo", "policy.width=8", "policy.depth=1", "env_steps=500", "evaluations=1", "algo.episodes=64")
    run = tempfile.mkdtemp(dir=folder)
    more = ("policy.observation=centred", "test.paper=false", "logger=none", "progress=false", "memory_gib=0.2")
    return "train", drest(
        "train", f"levels.path={path}", *words, *more, "pictures=0", f"run_dir={run}/run", folder=folder
    )


def _evaluate(path: Path, folder: Path) -> tuple[str, Any]:
    return "evaluate", drest("evaluate", f"levels.path={path}", "memory_gib=0.2", "out=out.json", folder=folder)


def _verdict(what: str, outcome: Any) -> str:
    """Say what came of a command; a failure with what it was called with."""
    if "\x1b[31m" in outcome.out + outcome.err:
        return f"{what}: a terminal's escape sequence was printed"
    if outcome.kind in ("done", "refused"):
        return outcome.kind
    last = (outcome.err.strip().splitlines() or [""])[-1]
    return f"{what}: {outcome.kind} {outcome.status}: {last}"[:300]


# --------------------------------------------------------------------------------------- files of runs

NAMES = ("config.yaml", "metrics.jsonl", "summary.json", "provenance.json", "split.json", "checkpoints")
COMMANDS: tuple[Callable[..., Any], ...] = (
    lambda folder, **more: drest("train", "resume=run", folder=folder, **more),
    lambda folder, **more: drest("evaluate", "run=run", "levels=paper", folder=folder, **more),
    lambda folder, **more: drest("compare", "run", "out=curves.png", folder=folder, **more),
)


def copies(count: int) -> Iterator[Path]:
    """Yield folders one after the other, each with a copy, ``run``, of one finished run."""
    with tempfile.TemporaryDirectory() as base:
        assert forked(partial(train, configured("generated levels")), folder=Path(base), seconds=120).status == 0
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                here = Path(folder)
                shutil.copytree(Path(base) / "run", here / "run")
                yield here


def runs(rng: random.Random, count: int) -> Counter[str]:
    """Mutate one file of a finished run, and resume, evaluate or compare it; nothing outside it may change."""
    found: Counter[str] = Counter()
    for here in copies(count):
        name = rng.choice(NAMES)
        path = (
            next(iter(sorted((here / "run" / name).glob("step*"))), None)
            if name == "checkpoints"
            else here / "run" / name
        )
        assert path is not None
        was = path.read_bytes()
        path.write_bytes(mutated(was, rng))
        kept = here / "kept"
        kept.write_text("mine")
        index = rng.randrange(len(COMMANDS))
        outcome = COMMANDS[index](here)
        verdict = _verdict(f"{name} of {len(was)} bytes, command {index}", outcome)
        if kept.read_text() != "mine":
            verdict = f"{name}: a file outside the run was changed"
        used = name == "checkpoints" and index < 2 and path.exists() and path.read_bytes() != was
        if outcome.kind == "done" and used:
            verdict = f"a damaged checkpoint was used, command {index}"
        found[verdict] += 1
    return found
