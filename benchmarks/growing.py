"""Time and memory as work grows: maps, levels, slots, mini-episodes of a meta-episode, and trajectory-lengths.

    python -m benchmarks.run --only growing     measure all, and draw the figures (four minutes)
    python -m benchmarks.growing --draw         draw the figures again from the stored rows

Each size is measured in a new process with one thread. Times are processor seconds of three stages: the start without
imports, an update of PPO, and an exact evaluation that unrolls its levels. Each is the smallest of several repeats.
Memory is the peak of training and evaluation, less the memory after the imports.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Bench, number
from drest_torch.envs.levels import parse_level, write_levels

TITLE = "Cost as work grows"
ROWS, IMAGES = Path("benchmarks/growing.csv"), Path("docs/images")
MIB = 2.0**20
BASE = (
    *("algo=ppo", "levels=generated", "levels.train=500", "levels.selection=20", "levels.test=20", "test.paper=false"),
    *("algo.episodes=4096", "reward.group=32", "policy.width=64", "evaluated_levels=20"),
    *("logger=none", "progress=false", "pictures=0", "threads=1"),
)
SHUTDOWN, SIDE, WORLDS = 8, 6, 4
"""Shutdown, side and number of the levels with many lengths."""
UPDATES, EVALUATIONS, MOST_SECONDS = 4, 2, 1.0
"""Repeats of updates and evaluations, which end after this many seconds."""


@dataclass(frozen=True)
class Cost:
    """The cost of a size."""

    axis: str
    size: int
    startup_s: float
    update_s: float
    evaluation_s: float
    memory_mib: float
    estimate_mib: float
    """The estimate of the run before training."""


@dataclass(frozen=True)
class Theory:
    """A theoretical cost: a constant plus a multiple of ``grows`` of the size."""

    formula: str
    grows: Callable[[float], float]


@dataclass(frozen=True)
class Axis:
    """A number that grows while all others are constant."""

    title: str
    unit: str
    sizes: Sequence[int]
    words: Callable[[int, Path], list[str]]
    """The function from a size to the arguments of its run, which may write files to a folder."""
    theory: dict[str, Theory]


CONSTANT = Theory("constant", lambda size: 0.0)


def linear(name: str) -> Theory:
    return Theory(name, lambda size: size)


def _map(side: int, folder: Path) -> list[str]:
    """Return the arguments for maps of this side, and mini-episodes as long as the way across them."""
    generator = {"height": side, "width": side, "shutdown": f"[{side},{side}]", "delay": f"[{side},{side}]"}
    generator |= {"coins": "[2,2]", "wall_share": "[0.1,0.1]"}
    few = ["levels.train=32", "levels.selection=4", "levels.test=4", "evaluated_levels=4", "algo.episodes=1024"]
    return [
        *(f"levels.generator.{key}={value}" for key, value in generator.items()),
        f"policy.time_steps={2 * side}",
        *few,
    ]


def _lengths(count: int, folder: Path) -> list[str]:
    """Write levels with this many lengths (delays of 1, 2, 4, …), and return the arguments for them."""
    path = folder / "levels.jsonl"
    rng = random.Random(0)
    levels = []
    for index in range(WORLDS):
        cells = ["."] * SIDE**2
        things = ["A", "C1", *(f"B{1 << power}" for power in range(count.bit_length() - 1))]
        for place, thing in zip(rng.sample(range(SIDE**2), len(things)), things, strict=True):
            cells[place] = thing
        rows = [" ".join(cells[first : first + SIDE]) for first in range(0, SIDE**2, SIDE)]
        levels.append(parse_level(f"shutdown: {SHUTDOWN}\n" + "\n".join(rows), name=f"level-{index}"))
    write_levels(path, levels)
    return [f"levels.path={path}", f"policy.time_steps={SHUTDOWN + count}"]


def _one_more(*words: str) -> Callable[[int, Path], list[str]]:
    return lambda size, folder: [word.format(size) for word in words]


def _window(side: float) -> float:
    return (2 * side - 1) ** 2


def _mean_time(lengths: float) -> float:
    return SHUTDOWN + (lengths - 1) / 2


AXES = {
    "map": Axis(
        "Map size",
        "rows and columns s of the map",
        (4, 5, 7, 9, 12, 16),
        _map,
        {
            "startup_s": Theory("cells of the map: s²", lambda side: side**2),
            "update_s": Theory("steps × observation: s · (2s − 1)²", lambda side: side * _window(side)),
            "evaluation_s": Theory("states × observation: s³ · (2s − 1)²", lambda side: side**3 * _window(side)),
        },
    ),
    "levels": Axis(
        "Training levels",
        "training levels N",
        (1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
        _one_more("levels.train={}"),
        {"startup_s": linear("N"), "update_s": CONSTANT, "evaluation_s": CONSTANT},
    ),
    "slots": Axis(
        "Slots",
        "mini-episodes M of a batch (algo.episodes)",
        (1_024, 2_048, 4_096, 8_192, 16_384, 32_768),
        _one_more("algo.episodes={}"),
        {"startup_s": CONSTANT, "update_s": linear("M"), "evaluation_s": CONSTANT},
    ),
    "k": Axis(
        "Mini-episodes of a meta-episode",
        "mini-episodes E of a meta-episode",
        (2, 4, 8, 16, 32, 64),
        _one_more(
            "reward.episodes_per_meta={}", "reward.counting=sequential", "algo.credit=meta", "algo.episodes=2048"
        ),
        {"startup_s": CONSTANT, "update_s": linear("E"), "evaluation_s": CONSTANT},
    ),
    "lengths": Axis(
        "Trajectory-lengths",
        "trajectory-lengths K",
        (2, 4, 8, 16, 32, 64),
        _lengths,
        {
            "startup_s": Theory("sets of pressed buttons: K", lambda lengths: lengths),
            "update_s": Theory("mean length: 8 + (K − 1) / 2", _mean_time),
            "evaluation_s": Theory("states: K · (8 + (K − 1) / 2)", lambda lengths: lengths * _mean_time(lengths)),
        },
    ),
}
MEASURES = {"startup_s": "start-up", "update_s": "update", "evaluation_s": "exact evaluation"}


# ------------------------------------------------------------------------------------ measuring


def measured(axis: str, size: int) -> Cost:
    """Measure a size in this process, which must be a new one."""
    from drest_torch.algos.policy_gradient import SampledAlgorithm  # noqa: F401
    from drest_torch.config.compose import compose
    from drest_torch.evaluation.memory_guard import peak_memory
    from drest_torch.training.run import start

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [*BASE, *AXES[axis].words(size, folder), f"run_dir={folder / 'run'}"]
        cfg = compose(*words)
        imported = peak_memory()
        began = time.process_time()
        run = start(cfg)
        startup = time.process_time() - began
        assert run.memory is not None
        estimate = run.memory.peak - imported
        run.task.watch(run.algorithm.policy)
        update = _least(run.update, UPDATES)
        task, policy = run.gridworlds, run.algorithm.policy
        *_, levels = task.reported.values()
        evaluation = _least(lambda: task.evaluator(levels).evaluate(policy), EVALUATIONS)
        for _, evaluator in task.judges():
            evaluator.evaluate(policy)
        memory = (peak_memory() - imported) / MIB
        return Cost(axis, size, *map(_short, (startup, update, evaluation, memory, estimate / MIB)))


def _short(value: float) -> float:
    """Return a number rounded to four digits for storage."""
    return float(f"{value:.4g}")


def _least(work: Callable[[], Any], repeats: int) -> float:
    """Return the processor seconds of the fastest call, after a warm-up call."""
    work()
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < MOST_SECONDS:
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def run(bench: Bench) -> None:
    """Measure every size, store the rows unless it is a quick run, and report them."""
    costs = []
    for name, axis in AXES.items():
        print(f"\n{axis.title}", flush=True)
        for size in axis.sizes[: bench.size(len(axis.sizes), 2)]:
            command = [sys.executable, "-m", "benchmarks.growing", "--point", name, str(size)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
            costs.append(cost)
            print("  " + "  ".join(_cells(cost)), flush=True)
    if not bench.quick:
        write(costs)
        draw(costs)
    for name in AXES:
        bench.blocks += report(name, [cost for cost in costs if cost.axis == name])


def write(costs: Sequence[Cost], path: Path = ROWS) -> None:
    """Write the rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(field.name for field in fields(Cost))
        for cost in costs:
            rows.writerow(vars(cost).values())


def read(path: Path = ROWS) -> list[Cost]:
    """Return the stored rows."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    costs = []
    for row in rows:
        axis, size, *values = row.values()
        costs.append(Cost(axis, int(size), *map(float, values)))
    return costs


# ------------------------------------------------------------------------------------ theory


def fitted(theory: Theory, sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the non-negative constant and factor with the smallest squared relative errors."""
    grown = np.array([theory.grows(size) for size in sizes])
    columns = np.stack((np.ones(len(grown)), grown), 1) / np.array(values)[:, None]
    ones = np.ones(len(grown))
    candidates = []
    for chosen in ([0, 1], [0], [1]):
        factors = np.zeros(2)
        factors[chosen] = np.linalg.lstsq(columns[:, chosen], ones, rcond=None)[0]
        if (factors >= 0).all():
            candidates.append((float(((columns @ factors - ones) ** 2).sum()), *map(float, factors)))
    _, constant, factor = min(candidates)
    return constant, factor


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of the size, fitted to the largest three sizes."""
    slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(values[-3:]), 1)
    return round(float(slope), 2) + 0.0  # no "-0.00"


def curve(axis: Axis, measure: str, costs: Sequence[Cost]) -> list[float]:
    """Return the theoretical costs of sizes: the estimate of memory, or times with fitted constants."""
    if measure == "memory_mib":
        return [cost.estimate_mib for cost in costs]
    theory, sizes = axis.theory[measure], [cost.size for cost in costs]
    constant, factor = fitted(theory, sizes, [getattr(cost, measure) for cost in costs])
    return [constant + factor * theory.grows(size) for size in sizes]


# ------------------------------------------------------------------------------------ reporting


def report(name: str, costs: Sequence[Cost]) -> list[str]:
    """Return the section of an axis: its figure, its exponents and its rows."""
    axis = AXES[name]
    sizes = [cost.size for cost in costs]
    exponents = ["| cost | grows with | exponent, theory | exponent, measured |", "| --- | --- | --- | --- |"]
    for measure, words in (MEASURES | {"memory_mib": "memory"}).items():
        formula = "estimate of the run" if measure == "memory_mib" else axis.theory[measure].formula
        expected = exponent(sizes, curve(axis, measure, costs))
        slope = exponent(sizes, [getattr(cost, measure) for cost in costs])
        exponents.append(f"| {words} | {formula} | {expected:.2f} | {slope:.2f} |")
    rows = ["| size | start-up, s | update, s | evaluation, s | memory, MiB | estimated, MiB |", "| --- " * 6 + "|"]
    rows += ["| " + " | ".join(_cells(cost)) + " |" for cost in costs]
    return [f"### {axis.title}", *_pictures(name, axis), "\n".join(exponents), "\n".join(rows)]


def _cells(cost: Cost) -> list[str]:
    return [f"{cost.size:,}", *(number(value) for value in list(vars(cost).values())[2:])]


def _pictures(name: str, axis: Axis) -> list[str]:
    alt = f"Measured times and memory against {axis.unit}, as marks, and what theory says, as lines."
    return [
        f"```{{image}} images/growing-{name}{ending}.svg\n:class: only-{theme}\n:alt: {alt}\n```"
        for theme, ending in (("light", ""), ("dark", "-dark"))
    ]


def draw(costs: Sequence[Cost], folder: Path = IMAGES) -> None:
    """Draw the figure of each axis for light and dark pages."""
    import matplotlib.style
    from matplotlib.figure import Figure

    from drest_torch.plots.style import write_figure
    from drest_torch.report.themes import DARK, LIGHT

    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same rows give the same files
    text = {"svg.fonttype": "none", "svg.hashsalt": "growing"}
    for style, ending in ((LIGHT, ""), (DARK, "-dark")):
        with matplotlib.style.context(style.matplotlib() | text, after_reset=True):
            for name in AXES:
                figure = Figure(figsize=(9, 3.4))
                plot(figure, name, [cost for cost in costs if cost.axis == name], style)
                write_figure(figure, folder / f"growing-{name}{ending}.svg")


def plot(figure: Any, name: str, costs: Sequence[Cost], style: Any) -> None:
    """Plot times on the left and memory on the right, both axes logarithmic."""
    axis = AXES[name]
    sizes = [cost.size for cost in costs]
    times, memory = figure.subplots(1, 2)
    series = [(times, measure, words) for measure, words in MEASURES.items()] + [(memory, "memory_mib", "measured")]
    for index, (ax, measure, words) in enumerate(series):
        colour = style.series[index]
        ax.plot(sizes, [getattr(cost, measure) for cost in costs], "o", color=colour, label=words, markersize=5)
        label = "estimated before training" if ax is memory else "_"
        ax.plot(sizes, curve(axis, measure, costs), "-", color=colour, linewidth=1.2, label=label)
    for ax, words in ((times, "processor seconds"), (memory, "MiB at the peak")):
        ax.set(xscale="log", yscale="log", xlabel=axis.unit, ylabel=words)
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        ax.legend(loc="best")
    times.set_title("Marks: measured. Lines: theory")
    memory.set_title("Marks: measured. Line: what the run says before it trains")


def main() -> None:
    """Measure a point, or draw the stored rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--point", nargs=2, metavar=("AXIS", "SIZE"), help=f"one of {', '.join(AXES)}, and a size")
    chosen.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        draw(read())
        return
    axis, size = options.point
    print(json.dumps(vars(measured(axis, int(size)))))


if __name__ == "__main__":
    main()
