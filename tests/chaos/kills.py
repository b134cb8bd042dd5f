"""Kill runs, resume them, and compare what they leave with runs that nobody killed."""

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.chaos.folders import contents, differences, folders
from tests.chaos.forked import forked

TINY = (
    "policy.width=8",
    "policy.depth=1",
    "evaluations=3",
    "pictures=1",
    "keep_last=1",
    "logger=csv",
    "progress=false",
)
WORLD = ("levels=example", "test.paper=false")
SAMPLED = ("algo.episodes=64", "env_steps=1200")
GENERATED = ("levels=generated", "levels.train=6", "levels.selection=3", "levels.test=3", "test.paper=false")
RUNS: dict[str, tuple[str, ...]] = {
    "reinforce": ("algo=reinforce", *WORLD, *SAMPLED),
    "a2c": ("algo=a2c", *WORLD, *SAMPLED),
    "ppo": ("algo=ppo", *WORLD, *SAMPLED),
    "generated levels": ("algo=ppo", *GENERATED, "reward.group=16", *SAMPLED),
    "generalist": ("algo=generalist", *GENERATED, "algo.levels_at_once=3", "env_steps=40960"),
    "exact": ("algo=exact", *WORLD, "env_steps=40960"),
    "tabular": ("algo=tabular", *WORLD, "env_steps=20000"),
}
"""Short runs of every algorithm."""
CRASHED = ("ppo", "generated levels")
"""Those of which every file operation is a crash point."""


def configured(name: str) -> Any:
    """Return the configuration of one of the runs; its folder is ``run`` in the working directory."""
    from drest_torch.config.compose import compose

    return compose(*RUNS[name], *TINY, "run_dir=run")


def train(cfg: Any, before: Callable[[], None] = lambda: None) -> int:
    """Start the run in the working directory, or resume it where it has begun.

    Its pictures are blank: to draw them takes longer than all the rest.
    """
    from matplotlib.figure import Figure

    from drest_torch.training.run import resume, start

    Figure.savefig = lambda self, file, **options: file.write(b"blank")  # type: ignore[method-assign]
    before()
    folder = Path("run")
    run = resume(folder) if (folder / "config.yaml").exists() else start(cfg)
    return 0 if run.train() is not None else 130


@contextmanager
def uninterrupted(name: str) -> Iterator[tuple[Any, dict[str, Any], float]]:
    """Yield the configuration of a run, what it leaves if nobody kills it, and how many seconds it takes."""
    cfg = configured(name)
    with TemporaryDirectory() as folder:
        outcome = forked(partial(train, cfg), folder=Path(folder), seconds=120)
        assert outcome.status == 0, outcome.err
        yield cfg, contents(Path(folder) / "run"), outcome.seconds


def ended(name: str, cfg: Any, folder: Path, whole: dict[str, Any]) -> str:
    """Let a run end that was stopped in some way, and say whether it has left what it would have left."""
    outcome = forked(partial(train, cfg), folder=folder, seconds=120)
    if outcome.status != 0:
        return f"{name}: {outcome.kind}: {outcome.err.strip().splitlines()[-1:]}"
    return compared(name, whole, contents(folder / "run"))


def compared(name: str, whole: dict[str, Any], left: dict[str, Any]) -> str:
    """Say whether a run has left what it would have left if nothing had happened to it."""
    found = differences(whole, left)
    return f"{name}: differs: {found}" if found else "same"


# ------------------------------------------------------------------------------------------ at random


def at_random(rng: random.Random, tries: int) -> Iterator[str]:
    """Kill each run up to three times at random moments, then let it end; ``tries`` runs in all."""
    for index, name in enumerate(list(RUNS)[:tries]):
        with uninterrupted(name) as (cfg, whole, seconds):
            for folder in folders(len(range(index, tries, len(RUNS)))):
                for _ in range(rng.randint(1, 3)):
                    forked(partial(train, cfg), folder=folder, seconds=rng.uniform(0.05, 1) * seconds)
                yield ended(name, cfg, folder, whole)


# -------------------------------------------------------------------------------------- crash points


def _at_operations(act: Callable[[int, str, tuple[Any, ...]], None]) -> None:
    """Call a function before each file operation of this process, with its number and what Python's audit says."""
    numbers = count()

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if _writes(event, arguments):
            act(next(numbers), event, arguments)

    sys.addaudithook(heard)


def _kill_at(point: int, *, torn: bool) -> None:
    """Kill this process before its file operation of this number, after half a line where one is to be appended."""

    def act(number: int, event: str, arguments: tuple[Any, ...]) -> None:
        if number == point:
            if torn and event == "open" and arguments[1] == "a":
                with open(arguments[0], "a") as file:
                    file.write('{"step": 100, "train/ret')
            os.kill(os.getpid(), signal.SIGKILL)

    _at_operations(act)


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an event of Python's audit changes a file of the run."""
    if event not in ("open", "os.rename", "os.remove", "os.mkdir"):
        return False
    if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")):
        return False
    return "run" in Path(os.fsdecode(arguments[0])).parts if isinstance(arguments[0], str | bytes | Path) else False


def crash_points(rng: random.Random, most: int) -> Iterator[str]:
    """Kill runs at each of their file operations, at most so many of them, chosen at random."""
    for name in CRASHED:
        with uninterrupted(name) as (cfg, whole, _):
            points = list(range(_operations(cfg)))
            share = min(len(points), max(1, most // len(CRASHED)))
            for point, folder in zip(sorted(rng.sample(points, share)), folders(share), strict=True):
                kill = partial(_kill_at, point, torn=bool(rng.getrandbits(1)))
                killed = forked(partial(train, cfg, kill), folder=folder, seconds=120)
                if killed.status != -signal.SIGKILL:
                    yield f"{name}: not killed at {point}: {killed.kind}"
                else:
                    yield ended(f"{name}, operation {point}", cfg, folder, whole)


def _operations(cfg: Any) -> int:
    """Count the file operations of a run."""

    def counted() -> int:
        seen: list[int] = []
        train(cfg, partial(_at_operations, lambda number, *_: seen.append(number)))
        print(len(seen))
        return 0

    with TemporaryDirectory() as folder:
        return int(forked(counted, folder=Path(folder), seconds=120).out.split()[-1])
