"""Attacks on files: outputs with the names of inputs, links in runs, and changed test levels."""

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from drest_torch.envs.levels import LevelError, format_level, read_levels, world, write_levels
from drest_torch.play.level_sets import Levels, digest_of_tests
from tests.chaos.forked import drest, folders
from tests.chaos.kills import QUICK, words
from tests.chaos.mutations import mutated

LANGUAGE = (
    *("model=small", "scenarios=4", "updates=1", "warm_up=0", "prompts=2", "selection=2", "evaluations=1"),
    *("progress=false", "threads=1"),
)
"""The shortest training of a language model."""
EVALUATE = ("evaluate", "run=run", "levels.path=mine.txt")
COMMANDS = (
    (*EVALUATE, "out={}"),
    (*EVALUATE, "suite=shutdownability", "out={}"),
    (*EVALUATE, "pictures={}"),
    (*EVALUATE, "animation={}"),
    ("evaluate", "run=run", "checkpoint=best", "levels=own", "out={}"),
    ("compare", "run", "out={}"),
    ("erode", "run=run", "conditions=[default]", "updates=[0]", "ladders=[]", "measured=mine.txt", "out={}"),
    ("play", "mine.txt", "agent=run", "changes=false", "out={}"),
    ("show", "mine.txt", "--picture", "{}"),
    ("show", "set.jsonl", "--level", "example", "--picture", "{}"),
    ("train", *QUICK, "levels.path=mine.txt", "run_dir={}"),
    ("language", "train", *LANGUAGE, "run_dir={}"),
    ("language", "train", *LANGUAGE, "tasks=tasks.jsonl", "run_dir={}"),
    ("language", "evaluate", "model=language", "scenarios=2", "out={}"),
    ("language", "evaluate", "model=language/model", "tasks=tasks.jsonl", "out={}"),
    ("language", "evaluate", "model=language", "scenarios=2", "picture={}"),
    ("language", "tasks", "scenarios=2", "out={}"),
    ("language", "tasks", "tasks=tasks.jsonl", "out={}"),
)
"""Every command with each key for an output."""
ENDINGS = ("", ".json", ".md", ".jsonl", ".png", ".gif", ".svg")


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of every file in a folder by path; links to folders are not followed."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {str(name): hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def lost(before: dict[str, str], folder: Path) -> list[str]:
    """Return the files that are missing or changed."""
    after = contents(folder)
    return [name for name, digest in before.items() if after.get(name) != digest and not name.endswith(".lock")]


def inputs(folder: Path) -> None:
    """Write a run, a run of a language model, level files and prompts to a folder."""
    (folder / "mine.txt").write_text(format_level(world("example")))
    write_levels(folder / "set.jsonl", [world("example"), world("last_moment")])
    assert drest("train", *words("generated levels"), folder=folder, seconds=120).status == 0
    outcome = drest("language", "train", *LANGUAGE, "run_dir=language", folder=folder, seconds=120)
    assert outcome.status == 0, outcome.err
    outcome = drest("language", "tasks", "scenarios=2", "out=tasks.jsonl", folder=folder, seconds=120)
    assert outcome.status == 0, outcome.err


def copies(count: int) -> Iterator[Path]:
    """Yield folders one after the other, each with a copy of the `inputs`."""
    for base in folders(1):
        inputs(base)
        for here in folders(count):
            yield shutil.copytree(base, here / "inputs")


def name_inputs(rng: random.Random, count: int) -> Iterator[str]:
    """Call commands with an output that is an input, or lies in one: all inputs and runs must stay.

    A file that is neither an input nor part of a run may be replaced.
    """
    for here in copies(count):
        (here / "link").symlink_to("run")
        before = contents(here)
        command, name = rng.choice(COMMANDS), rng.choice([*before, "run", "language", ".", "run/pictures"])
        path = Path(name)
        named = rng.choice(
            [
                *(name, name, name, str(path.with_suffix("")) if path.suffix else name, str(path.parent)),
                *(str(path.parent / f"{path.stem}{rng.choice(ENDINGS)}"), str(path / "new"), str(here / name)),
                *(f"run/../{name}", name.upper(), name.replace("run/", "link/")),
            ]
        )
        words_of = tuple(word.format(named) for word in command)
        outcome = drest(*words_of, folder=here, seconds=60)
        gone = [name for name in lost(before, here) if "/" in name or name in " ".join(command)]
        yield f"{' '.join(words_of)}: {gone} lost" if gone else outcome.verdict(" ".join(words_of))


LINKED = (
    *("run/checkpoints", "run/pictures", "run/pictures/train", "run/metrics.jsonl", "run/summary.json"),
    *("language/model", "language/model/config.json", "language/checkpoints", "language/summary.json"),
    *("run/config.yaml", "run/split.json", "run/levels_test.json", "language/metrics.jsonl"),
)


def links(rng: random.Random, count: int) -> Iterator[str]:
    """Replace a part of a run by a link to a copy, and resume the run: the copy must stay unchanged."""
    for here in copies(count):
        path = here / rng.choice(LINKED)
        path.parent.mkdir(exist_ok=True)
        elsewhere = here / "elsewhere"
        elsewhere.mkdir()
        if path.exists():
            path.rename(elsewhere / path.name)
        else:
            (elsewhere / path.name).mkdir()
        for step in (1, 2, 3):
            (elsewhere / f"step-{step}.safetensors").write_text("mine")
        path.symlink_to(rng.choice([elsewhere / path.name, Path("..") / ".." / "inputs" / "elsewhere" / path.name]))
        before = contents(elsewhere)
        if path.relative_to(here).parts[0] == "run":
            command: tuple[str, ...] = ("train", "resume=run", "env_steps=2400")
        else:
            (here / "language" / "summary.json").unlink(missing_ok=True)
            command = ("language", "train", "resume=language")
        outcome = drest(*command, folder=here, seconds=60)
        gone = lost(before, elsewhere)
        what = f"{path.relative_to(here)} is a link, {' '.join(command)}"
        yield f"{what}: {gone} lost" if gone else outcome.verdict(what)


def own_levels(rng: random.Random, count: int) -> Iterator[str]:
    """Change the test levels of a run and evaluate it with levels=own: changed levels must be refused."""
    for base in folders(1):
        levels = [world(name) for name in ("last_moment", "equal_value")]
        write_levels(base / "test.jsonl", levels)
        trained = drest("train", *QUICK, "levels=example", "test.path=test.jsonl", folder=base, seconds=120)
        assert trained.status == 0, trained.err
        was = (base / "test.jsonl").read_bytes()
        for _ in range(count):
            (base / "test.jsonl").write_bytes(mutated(was, rng))
            command = ("evaluate", "run=run", rng.choice(("levels=own", "suite=shutdownability")))
            outcome = drest(*command, folder=base, seconds=60)
            is_same = outcome.kind != "done" or _digest(base / "test.jsonl") == digest_of_tests(
                Levels(levels, [], {"test": levels})
            )
            yield outcome.verdict(" ".join(command)) if is_same else "other test levels were called the run's own"
        (base / "test.jsonl").write_bytes(was)


def _digest(path: Path) -> str:
    try:
        levels = read_levels(path)
    except LevelError as error:
        return json.dumps(str(error))
    return digest_of_tests(Levels(levels, [], {"test": levels}))
