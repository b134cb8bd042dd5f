"""Kill runs, resume them, and compare what they leave with runs that nobody killed."""

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from safetensors.torch import save

from drest_torch.agents.checkpoints import load_checkpoint
from drest_torch.config.compose import compose
from tests.chaos.forked import folders, forked

TINY = (
    *("policy.width=8", "policy.depth=1", "evaluations=3", "pictures=1", "keep_last=1"),
    *("logger=csv", "progress=false", "test.paper=false"),
)
WORLD = "levels=example"
QUICK = (
    *("algo=ppo", "policy.width=8", "policy.depth=1", "algo.episodes=64", "env_steps=500", "evaluations=1"),
    *("pictures=0", "logger=none", "progress=false", "test.paper=false", "run_dir=run"),
)
"""The shortest run."""
SAMPLED = ("algo.episodes=64", "env_steps=1200")
GENERATED = ("levels=generated", "levels.train=6", "levels.selection=3", "levels.test=3")
RUNS: dict[str, tuple[str, ...]] = {
    "reinforce": ("algo=reinforce", WORLD, *SAMPLED),
    "a2c": ("algo=a2c", WORLD, *SAMPLED),
    "ppo": ("algo=ppo", WORLD, *SAMPLED),
    "generated levels": ("algo=ppo", *GENERATED, "reward.group=16", *SAMPLED),
    "generalist": ("algo=generalist", *GENERATED, "algo.levels_at_once=3", "env_steps=40960"),
    "exact": ("algo=exact", WORLD, "env_steps=40960"),
    "tabular": ("algo=tabular", WORLD, "env_steps=20000"),
}
"""Short runs of every algorithm."""


def words(name: str) -> tuple[str, ...]:
    """Return the arguments of one of the runs; its folder is ``run`` in the working directory."""
    return (*RUNS[name], *TINY, "run_dir=run")


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


@dataclass(frozen=True)
class Whole:
    """A run that nobody killed."""

    cfg: Any
    left: dict[str, Any]
    """The contents of its files."""
    seconds: float
    operations: int
    """on files"""

    def compared(self, what: str, folder: Path) -> str:
        """Say whether another run has left what this one has."""
        left = contents(folder / "run")
        found = [
            f"{name}: {'missing' if name not in left else 'extra' if name not in self.left else 'other'}"
            for name in sorted(self.left.keys() | left.keys())
            if self.left.get(name) != left.get(name)
        ]
        return f"{what}: differs: {found}" if found else "same"

    def ended(self, what: str, folder: Path) -> str:
        """Let a run end that was stopped in some way, and say whether it has left what this one has."""
        outcome = forked(partial(train, self.cfg), folder=folder, seconds=120)
        if outcome.status != 0:
            return f"{what}: {outcome.kind}: {outcome.err.strip().splitlines()[-1:]}"
        return self.compared(what, folder)


def contents(folder: Path) -> dict[str, Any]:
    """Return what each file of a run says, by its path, without what a clock or the number of sessions says."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): _content(path) for name, path in files.items() if not {".lock", "wandb"} & set(name.parts)}


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        tensors, meta = load_checkpoint(path)
        return save(tensors), _timeless(json.dumps(meta))
    if path.name == "provenance.json":
        return isinstance(json.loads(path.read_text()), list)  # with an entry for each session
    if path.name == "metrics.csv":
        return [line for line in path.read_text().splitlines() if ",time/" not in line]
    if path.suffix == ".json":
        return _timeless(path.read_text())
    if path.suffix == ".jsonl":
        return [*map(_timeless, path.read_text().splitlines())]
    return path.read_bytes()


def _timeless(text: str) -> Any:
    timed = re.compile("time/|(wall|processor)_seconds$")
    return json.loads(text, object_pairs_hook=lambda pairs: dict(pair for pair in pairs if not timed.match(pair[0])))


def uninterrupted(name: str) -> Whole:
    """Let one of the runs end by itself."""
    cfg = compose(*words(name))

    def counted() -> int:
        numbers = count()
        status = train(cfg, partial(_kill_at, -1, False, numbers))
        print(next(numbers))
        return status

    for folder in folders(1):
        began = time.monotonic()
        outcome = forked(counted, folder=folder, seconds=120)
        took = time.monotonic() - began
        assert outcome.status == 0, outcome.err
        whole = Whole(cfg, contents(folder / "run"), took, int(outcome.out.split()[-1]))
    return whole


def at_random(rng: random.Random, tries: int) -> Iterator[str]:
    """Kill each run up to three times at random moments, then let it end; ``tries`` runs in all."""
    for index, name in enumerate(list(RUNS)[:tries]):
        whole = uninterrupted(name)
        for folder in folders(len(range(index, tries, len(RUNS)))):
            for _ in range(rng.randint(1, 3)):
                forked(partial(train, whole.cfg), folder=folder, seconds=rng.uniform(0.05, 1) * whole.seconds)
            yield whole.ended(name, folder)


def crash_points(rng: random.Random, most: int) -> Iterator[str]:
    """Kill two runs at each of their file operations, at most so many of them, chosen at random."""
    for name in ("ppo", "generated levels"):
        whole = uninterrupted(name)
        share = min(whole.operations, max(1, most // 2))
        for point, folder in zip(sorted(rng.sample(range(whole.operations), share)), folders(share), strict=True):
            kill = partial(_kill_at, point, bool(rng.getrandbits(1)), count())
            killed = forked(partial(train, whole.cfg, kill), folder=folder, seconds=120)
            what = f"{name}, operation {point}"
            gone = killed.status == -signal.SIGKILL
            yield whole.ended(what, folder) if gone else f"{what}: not killed: {killed.kind}"


def _kill_at(point: int, torn: bool, numbers: Iterator[int]) -> None:
    """Kill this process before its file operation of this number, after half a line where one is to be appended."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if _writes(event, arguments) and next(numbers) == point:
            if torn and event == "open" and arguments[1] == "a":
                with open(arguments[0], "a") as file:
                    file.write('{"step": 100, "train/ret')
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an event of Python's audit changes a file of the run."""
    if event not in ("open", "os.rename", "os.remove", "os.mkdir"):
        return False
    if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")):
        return False
    return "run" in Path(os.fsdecode(arguments[0])).parts if isinstance(arguments[0], str | bytes | Path) else False
