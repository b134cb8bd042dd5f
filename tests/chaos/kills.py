"""Kill runs, resume them, and compare their files with those of uninterrupted runs."""

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
    """Return the arguments of a run in the folder ``run`` of the working directory."""
    return (*RUNS[name], *TINY, "run_dir=run")


def train(cfg: Any, before: Callable[[], None] = lambda: None) -> int:
    """Start the run in the working directory, or resume it.

    Its pictures are blank, because drawing them takes longer than everything else.
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
    """A run that was not interrupted."""

    cfg: Any
    files: dict[str, Any]
    """The contents of its files."""
    seconds: float
    operations: int
    """The number of file operations."""

    def compared(self, what: str, folder: Path) -> str:
        """Return ``same`` if another run has the same files, else the differences."""
        files = contents(folder / "run")
        names = sorted(self.files.keys() | files.keys())
        differences = [f"{name}: {self._state(name, files)}" for name in names]
        differences = [line for line in differences if not line.endswith(": same")]
        return f"{what}: differs: {differences}" if differences else "same"

    def _state(self, name: str, files: dict[str, Any]) -> str:
        """Return the state of a file of another run: same, missing, extra or different."""
        if name not in files:
            return "missing"
        if name not in self.files:
            return "extra"
        return "same" if self.files[name] == files[name] else "different"

    def ended(self, what: str, folder: Path) -> str:
        """Finish an interrupted run, and compare its files with the files of this run."""
        outcome = forked(partial(train, self.cfg), folder=folder, seconds=120)
        if outcome.status != 0:
            return f"{what}: {outcome.kind}: {outcome.err.strip().splitlines()[-1:]}"
        return self.compared(what, folder)


def contents(folder: Path) -> dict[str, Any]:
    """Return the contents of the files of a run by path, without times and the number of sessions."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): _content(path) for name, path in files.items() if not {".lock", "wandb"} & set(name.parts)}


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        tensors, meta = load_checkpoint(path)
        return save(tensors), _timeless(json.dumps(meta))
    if path.name == "provenance.json":
        return isinstance(json.loads(path.read_text()), list)  # an entry for each session
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
    """Finish a run without interruption."""
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
    """Kill each run up to three times at random moments, then finish it; ``tries`` runs in total."""
    for index, name in enumerate(list(RUNS)[:tries]):
        whole = uninterrupted(name)
        for folder in folders(len(range(index, tries, len(RUNS)))):
            for _ in range(rng.randint(1, 3)):
                forked(partial(train, whole.cfg), folder=folder, seconds=rng.uniform(0.05, 1) * whole.seconds)
            yield whole.ended(name, folder)


def crash_points(rng: random.Random, most: int) -> Iterator[str]:
    """Kill two runs at a random sample of their file operations."""
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
    """Kill this process before the file operation with this number; if ``torn``, after half of an appended line."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _writes(event, arguments) and next(numbers) == point:
            if torn and event == "open" and arguments[1] == "a":
                with open(arguments[0], "a") as file:
                    file.write('{"step": 100, "train/ret')
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an audit event of Python changes a file of the run."""
    if event not in ("open", "os.rename", "os.remove", "os.mkdir"):
        return False
    if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")):
        return False
    return "run" in Path(os.fsdecode(arguments[0])).parts if isinstance(arguments[0], str | bytes | Path) else False
