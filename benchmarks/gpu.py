"""Training on a GPU: updates of several sizes, and the stages of an update.

`python -m benchmarks.gpu` measures them in less than six minutes, with the installation, and writes
`benchmarks/gpu.json`, from which this section is made. Slots are the mini-episodes that are played side by side
(`algo.episodes`), in groups of 128 (`reward.group`); each group has its own level. Exact gradients take no steps: they
use the same number of levels. The stages are timed in further updates, with the GPU synchronised before and after each.
Forward includes the losses and the rest of the update.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.measuring import Bench, number
from drest_torch.config.compose import compose
from drest_torch.training.run import Run, run_of

TITLE = "On a GPU"
FIGURES = Path(__file__).with_name("gpu.json")
SLOTS, GROUP = (1_024, 8_192, 65_536), 128
SAMPLED = {"default command": ("algo=ppo",), "convolutional PPO": ("algo=ppo", "policy=convolutional")}
EXACT = {"exact gradients": ("algo=generalist",)}
PLAIN = (
    *("levels.selection=0", "levels.test=1", "test.paper=false", "memory_gib=32"),
    *("logger=none", "progress=false", "run_dir=unused"),
)
STAGES = ("collecting", "advantages", "forward", "backward", "optimiser")
WARM_UP, SECONDS = 2, 5.0
"""Updates before the measurement, and its shortest duration."""
HOW_TO = """Measure on a machine that has torch, numba and numpy, and no network:

    pip wheel --no-deps -c constraints.txt --wheel-dir .whl -r benchmarks/gpu.txt   # here, with its version of Python
    pip install --no-index --no-deps --find-links .whl .whl/*.whl                   # there
    python -m benchmarks.gpu --whole --commit NAME --out $OUT/gpu.json

and put the file into benchmarks/gpu.json. On a processor, `--quick` shows that it works."""


class Stopwatch:
    """The seconds of stages. The time of an inner stage does not count for the outer one."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block for this stage."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def _charge(self) -> None:
        """Add the time since the last change to the innermost stage."""
        synchronise(self.device)
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def timed(self, stack: ExitStack, owner: Any, name: str, stage: str) -> None:
        """Count the calls of a function for a stage until the stack is closed."""
        function: Callable[..., Any] = getattr(owner, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            with self.stage(stage):
                return function(*arguments, **keywords)

        stack.enter_context(patch.object(owner, name, call))


@dataclass
class Row:
    """The measurement of a run of some size."""

    run: str
    slots: int
    unit: str
    per_second: float
    """Environment steps, or rows of the network, a second."""
    update_seconds: float
    peak_gib: float
    """The peak memory of the GPU; 0 on a processor."""
    shares: dict[str, float] = field(default_factory=dict)
    """The share of each stage in the time of an update."""


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def work_of(run: Run) -> int:
    """Return the work of a run so far: environment steps, or rows of the network for exact gradients."""
    state = run.state
    return state.forward_rows + state.backward_rows or state.steps


def measure(name: str, words: Sequence[str], slots: int, device: str, *, quick: bool = False) -> Row:
    """Return the speed of a run's updates, and the shares of their stages."""
    few = ("levels.train=20",) if quick else ("levels.train=2000",)
    run = run_of(compose(*words, *PLAIN, *few, f"device={device}"), Path("unused"))
    for _ in range(1 if quick else WARM_UP):
        run.update()
    synchronise(run.device)
    if run.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(run.device)
    before, updates, began = work_of(run), 0, time.perf_counter()
    while updates == 0 or (time.perf_counter() - began < SECONDS and not quick):
        run.update()
        synchronise(run.device)
        updates += 1
    seconds = time.perf_counter() - began
    peak = 0.0
    if run.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(run.device) / 2**30
    unit = "rows of the network" if run.state.forward_rows else "steps"
    row = Row(name, slots, unit, (work_of(run) - before) / seconds, seconds / updates, peak)
    row.shares = shares(run, 1 if quick else WARM_UP)
    return row


def shares(run: Run, updates: int) -> dict[str, float]:
    """Return the share of each stage in the time of some updates."""
    watch, algorithm = Stopwatch(run.device), run.algorithm
    with ExitStack() as stack:
        if hasattr(algorithm, "collector"):
            watch.timed(stack, algorithm.collector, "collect", "collecting")
            watch.timed(stack, algorithm, "with_advantages", "advantages")
        else:
            watch.timed(stack, algorithm.batches, "sample", "collecting")
        for function in ("backward", "grad"):
            watch.timed(stack, torch.autograd, function, "backward")
        for optimizer in algorithm.optimizers.values():
            watch.timed(stack, optimizer, "step", "optimiser")
        for _ in range(updates):
            with watch.stage("forward"):
                run.update()
    total = sum(watch.seconds.values())
    return {stage: watch.seconds[stage] / total for stage in STAGES}


def runs(sizes: Sequence[int], group: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield the name, the words and the slots of each run."""
    for slots in sizes:
        for name, words in SAMPLED.items():
            yield name, (*words, f"algo.episodes={slots}", f"reward.group={group}"), slots
        for name, words in EXACT.items():
            yield name, (*words, f"algo.levels_at_once={slots // group}"), slots


def whole(device: str) -> dict[str, float]:
    """Run the default command from start to end; return its seconds and the agent's scores on test levels."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        words = ["logger=none", "progress=false", "pictures=0", f"device={device}", f"run_dir={folder}"]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "drest_torch.train", *words], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
    test = summary["splits"]["test"]
    scores = {key: test[key] for key in ("usefulness", "neutrality_normalised")}
    return {"seconds": seconds, "steps": summary["steps"], **scores}


def section(measured: dict[str, Any]) -> list[str]:
    """Return the measurements as blocks of the page."""
    head = ["run", "slots", "a second", "s an update", "peak, GiB", *STAGES]
    lines = [head, ["---"] * len(head)]
    for row in measured["rows"]:
        cells = [row["run"], f"{row['slots']:,}", f"{number(row['per_second'])} {row['unit']}"]
        cells += [number(row["update_seconds"]), number(row["peak_gib"])]
        lines.append(cells + [f"{row['shares'][stage]:.0%}" for stage in STAGES])
    blocks = [f"Measured on commit {measured['commit']}: {measured['machine']}"]
    blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    if command := measured.get("whole"):
        blocks.append(
            f"The whole default command, with start and evaluation: {command['seconds']:.0f} s for "
            f"{command['steps']:,} environment steps; usefulness {command['usefulness']:.3f}, neutrality "
            f"{command['neutrality_normalised']:.3f} on test levels."
        )
    return blocks


def measure_all(
    sizes: Sequence[int], group: int, device: str, out: Path | None, *, quick: bool, of_commit: str | None = None
) -> dict[str, Any]:
    """Measure each run, and write the file after each, so that an interruption loses little."""
    from benchmarks.run import commit, machine

    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    measured: dict[str, Any] = {"commit": of_commit or commit(), "machine": f"{name}; {machine()}.", "rows": []}
    for title, words, slots in runs(sizes, group):
        row = measure(title, words, slots, device, quick=quick)
        measured["rows"].append(vars(row))
        print(f"  {row.run}, {slots:,} slots: {number(row.per_second)} {row.unit} a second", flush=True)
        write(out, measured)
    return measured


def write(out: Path | None, measured: dict[str, Any]) -> None:
    """Write the figures, and the section of the page in a file beside them."""
    if out is not None:
        out.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        out.with_suffix(".md").write_text("\n\n".join([f"## {TITLE}", *section(measured)]) + "\n", "utf-8")


def run(bench: Bench) -> None:
    """Add the section of the page with the stored figures, or with figures of a quick run on this processor."""
    if bench.quick:
        bench.blocks += section(measure_all((16,), 8, "cpu", None, quick=True))
    else:
        bench.blocks += section(json.loads(FIGURES.read_text("utf-8")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=HOW_TO, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FIGURES, help="the file of the figures; the section is beside it")
    parser.add_argument("--whole", action="store_true", help="also run the default command from start to end")
    parser.add_argument("--commit", help="the name of the commit, for a copy of the repository without its history")
    parser.add_argument("--quick", action="store_true", help="a smoke test on a processor")
    options = parser.parse_args(arguments)
    if options.quick:
        measure_all((16,), 8, "cpu", options.out, quick=True)
        return
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU here; --quick is a smoke test on a processor")
    measured = measure_all(SLOTS, GROUP, "cuda", options.out, quick=False, of_commit=options.commit)
    if options.whole:
        measured["whole"] = whole("cuda")
        write(options.out, measured)


if __name__ == "__main__":
    main()
