"""Mutated level files and files of runs, read by every command."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import LevelError, format_level, level_to_record, read_levels, world, write_levels
from tests.chaos.forked import drest, folders, forked
from tests.chaos.kills import QUICK, words

LEVELS = ("example", "lopsided", "last_moment", "hidden_treasure")
TEXTS = (
    *("#", ".", "A", "C3", "C-1", "C1e999", "Cx", "B4", "B1e400", "B0", "B4@50%", "D>", "La"),
    *("\x1b[31m", "é", "\0", "\ufeff", "shutdown: 9", "shutdown: -1", "shutdown: 99999999999", "clock: moves"),
    *("x: nan", "lottery a: 1/2 C1 +0 | 1/2 C4 +2"),
    *("null", "[]", "{}", "[" * 2000, '"', "\\", "${oc.env:HOME}", "*a", "&a", "!!python/object/apply:os.system [id]"),
    *("../../../etc/passwd", "<script>alert(1)</script>", "-1", "1e999", "NaN", "9" * 400, "true", "", " ", "\r\n"),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a few changes: bytes replaced, cut or doubled, and tokens of the format inserted."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place, other = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        text = rng.choice(TEXTS).encode()
        lines, words = data.split(b"\n"), data.split(b" ")
        line = rng.randrange(len(lines))
        words[rng.randrange(len(words))] = text
        changed = (
            data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :],
            data[:place] + data[other:],
            data[:place] + data[place:other] * 2 + data[other:],
            data[:place] + text + data[place:],
            b"\n".join([*lines[:line], text, *lines[line:]]),
            b"\n".join([*lines[:line], *lines[line + 1 :]]),
            b" ".join(words),
        )
        data = rng.choice(changed)
    return data


# --------------------------------------------------------------------------------------- level files


def _sources() -> list[tuple[str, bytes]]:
    """Return level files to mutate, each with its ending."""
    levels = [world(name, x=3.0 if name == "lopsided" else None) for name in LEVELS]
    lottery = "shutdown: 5\nlottery a: 1/2 C1 +0 | 1/2 C4 +2\n\n. La A B2\n# D> . C2\n"
    records = "".join(json.dumps(level_to_record(level)) + "\n" for level in levels)
    return [(".txt", text.encode()) for text in (*map(format_level, levels), lottery)] + [(".jsonl", records.encode())]


def read_all(rng: random.Random, count: int, folder: Path) -> Iterator[str]:
    sources = _sources()
    for index in range(count):
        path = _mutated_file(rng, sources, folder / str(index))
        try:
            yield _read(path)
        except Exception as error:
            yield f"{type(error).__name__} of {path.name}: {error}"[:200]


def _read(path: Path) -> str:
    """Read a level file. Accepted levels must be solvable, and the same after writing and reading."""
    try:
        levels = read_levels(path)
    except LevelError as error:
        return "refused" if len(str(error).splitlines()) == 1 else "refused in several lines"
    try:
        again = path.with_name("again.jsonl")
        write_levels(again, levels)
        same = [level.rows() for level in read_levels(again)] == [level.rows() for level in levels]
        small = [level for level in levels if level.max_time <= 40]
        solved = not small or bool((solve(compile_levels(small)).lengths > 0).any())
        return "accepted" if same and solved else f"falsely accepted: {path.name}"
    except LevelError:
        return "refused when it is solved"


def _mutated_file(rng: random.Random, sources: list[tuple[str, bytes]], path: Path) -> Path:
    ending, data = rng.choice(sources)
    path = path.with_suffix(ending)
    path.write_bytes(mutated(data, rng))
    return path


def reader(rng: random.Random, count: int) -> Iterator[str]:
    """Read mutated level files, in a process that may crash."""
    for here in folders(1):

        def read(here: Path = here) -> int:
            print(json.dumps(list(read_all(rng, count, here))))
            return 0

        outcome = forked(read, folder=here, seconds=60 + count / 20)
        yield from json.loads(outcome.out) if outcome.status == 0 else [f"reader: {outcome.kind} {outcome.err[-300:]}"]


OF_LEVELS = (
    lambda path: ("show", str(path)),
    lambda path: ("train", *QUICK, f"levels.path={path}", "memory_gib=0.2", "policy.observation=centred"),
    lambda path: ("evaluate", f"levels.path={path}", "memory_gib=0.2", "out=out.json"),
)


def commands(rng: random.Random, count: int) -> Iterator[str]:
    sources = _sources()
    for here in folders(count):
        command = rng.choice(OF_LEVELS)(_mutated_file(rng, sources, here / "level"))
        yield drest(*command, folder=here).verdict(" ".join(command))


# --------------------------------------------------------------------------------------- files of runs

NAMES = ("config.yaml", "metrics.jsonl", "summary.json", "provenance.json", "split.json", "checkpoints")
COMMANDS = (
    ("train", "resume=run"),
    ("evaluate", "run=run", "levels=paper"),
    ("compare", "run", "out=curves.png"),
)


def copies(count: int) -> Iterator[Path]:
    """Yield folders one after the other, each with a copy ``run`` of the same finished run."""
    for base in folders(1):
        assert drest("train", *words("generated levels"), folder=base, seconds=120).status == 0
        for here in folders(count):
            shutil.copytree(base / "run", here / "run")
            yield here


VALUES = (
    None,
    True,
    0,
    -1,
    1,
    7,
    1 << 40,
    0.5,
    -1e300,
    "",
    "grid",
    "wall",
    "row",
    [],
    [0],
    [1, 1],
    [3, 9, 9],
    {},
    {"a": 1},
)
"""Values that are invalid in most places of a specification."""
USES = (
    ("evaluate", "run=run", "levels=example", "memory_gib=0.5"),
    ("evaluate", "run=run", "levels=paper", "greedy=true", "memory_gib=0.5"),
    ("evaluate", "run=run", "levels=example", "animation=a.gif", "memory_gib=0.5"),
    ("train", "resume=run"),
    ("train", *QUICK, "levels=example", "start_from=run", "run_dir=other"),
)


def specifications(rng: random.Random, count: int) -> Iterator[str]:
    """Use a finished run after changing the specification in its checkpoints, with a valid checksum."""
    for here in copies(count):
        changed = ""
        for path in (here / "run" / "checkpoints").iterdir():
            tensors, meta = load_checkpoint(path)
            changed = _change_one(meta["agent"], rng)
            save_checkpoint(path, tensors, meta)
        command = rng.choice(USES)
        yield drest(*command, folder=here).verdict(f"{changed}, {command}")


def _change_one(record: dict[str, Any], rng: random.Random) -> str:
    """Change or delete one of the nested values, and return a description."""
    name = rng.choice(list(record))
    if isinstance(record[name], dict) and record[name] and rng.random() < 0.9:
        return f"{name}.{_change_one(record[name], rng)}"
    if rng.random() < 0.1:
        del record[name]
        return f"{name} left out"
    record[name] = rng.choice(VALUES)
    return f"{name}={record[name]!r}"


def runs(rng: random.Random, count: int) -> Iterator[str]:
    """Resume, evaluate or compare a run with a mutated file; no file outside it may change."""
    for here in copies(count):
        name, command = rng.choice(NAMES), rng.choice(COMMANDS)
        path = here / "run" / name
        if name == "checkpoints":
            path = min(path.glob("step*"))
        was = path.read_bytes()
        path.write_bytes(mutated(was, rng))
        outside = here / "kept"
        outside.write_text("mine")
        outcome = drest(*command, folder=here)
        reads_it = name == "checkpoints" and command[0] != "compare" and path.exists() and path.read_bytes() != was
        if outside.read_text() != "mine":
            yield f"{name}: a file outside the run was changed"
        elif outcome.kind == "done" and reads_it:
            yield f"a damaged checkpoint was used: {command}"
        else:
            yield outcome.verdict(f"{name} of {len(was)} bytes, {command}")
