"""How fast the worlds are stepped, compiled, solved and evaluated: python -m benchmarks.worlds [--json FILE]

Every figure is taken ten times or more, after a warm-up that is timed apart; the slowest counts. Beside it
stand its baseline in the same run and the figure that is wanted. By default all work is done by one thread:
batches of this size are too small for a second one to pay.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import tensordict
import torch
import torchrl
from torchrl.envs import TransformedEnv

from drest_torch import DReSTReward
from envs.generator import GeneratorConfig, generate
from envs.gridworld import GridworldEnv
from envs.levels import Level, world, write_levels
from envs.mdp import Mdp, compile_levels
from envs.observations import make_observation
from envs.propagator import Reachable, States, uniform_policy
from envs.slots import begin, play
from envs.solver import Optima, solve
from tests.simulator import Simulator

REPEATS = 10
REPORTED_STEPS = 48_000
"""Steps a second of the peer's Gym environment on a 2-core machine, as reported; not measured here."""
REPORTED_EVALUATION = 0.23
"""Seconds the peer's evaluator takes for a level, as reported; not measured here."""
BATCHES = (1_024, 4_096, 16_384, 65_536, 262_144)
MEGA = 1e6


@dataclass
class Figure:
    """One measured figure and what it is held against."""

    name: str
    unit: str
    slowest: float
    median: float
    warm_up: float
    """Seconds until the first result."""
    baseline: str = ""
    wanted: float | None = None
    reached: bool | None = None


clock = time.perf_counter
"""`main` can set another."""


class Times(NamedTuple):
    slowest: float
    median: float
    first: float


def timed(work: Callable[[], object], calls: int = 1) -> Times:
    """Seconds a call: the slowest and the median of the repeats, and the first call of all."""
    started = clock()
    work()
    first = clock() - started
    taken = []
    for _ in range(REPEATS):
        started = clock()
        for _ in range(calls):
            work()
        taken.append((clock() - started) / calls)
    return Times(max(taken), statistics.median(taken), first)


class Report:
    """Prints figures as they come and keeps them."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def title(self, text: str) -> None:
        print(f"\n{text}\n{'':54}{'slowest':>9}{'median':>9}{'warm-up':>9}  wanted   baseline")

    def rate(self, name: str, times: Times, steps: float, *, wanted: float | None = None, baseline: str = "") -> None:
        """Millions of steps a second."""
        slowest, median = steps / times.slowest / MEGA, steps / times.median / MEGA
        self._add(name, "M/s", slowest, median, times.first, baseline, wanted, wanted and slowest >= wanted)

    def seconds(self, name: str, times: Times, *, wanted: float | None = None, baseline: str = "") -> None:
        reached = wanted and times.slowest <= wanted
        self._add(name, "s", times.slowest, times.median, times.first, baseline, wanted, reached)

    def number(self, name: str, unit: str, value: float, *, wanted: float | None = None, baseline: str = "") -> None:
        """A figure for which less is better and which is not the mean of repeats."""
        self._add(name, unit, value, value, 0.0, baseline, wanted, wanted and value <= wanted)

    def _add(
        self,
        name: str,
        unit: str,
        slowest: float,
        median: float,
        warm_up: float,
        baseline: str,
        wanted: float | None,
        reached: float | bool | None,
    ) -> None:
        held = None if wanted is None else bool(reached)
        self.figures.append(Figure(name, unit, slowest, median, warm_up, baseline, wanted, held))
        asked = "" if wanted is None else f"{wanted:g} {'reached' if held else 'MISSED'}"
        print(
            f"{name + ', ' + unit:<54}{slowest:>9.4g}{median:>9.4g}{warm_up:>9.3f}  {asked:<13}{baseline}", flush=True
        )


# ------------------------------------------------------------------------------------------- stepping


def python_steps(level: Level) -> tuple[Times, int]:
    """The baseline: the rules in plain Python, one environment with a Gym-like step."""
    rng, count = random.Random(0), 2_000
    state = Simulator(level)

    def work() -> None:
        nonlocal state
        for _ in range(count):
            reward = state.step(rng.randrange(4))
            _ = (state.observation, reward, state.done)
            if state.done:
                state = Simulator(level)

    return timed(work), count


def plain_steps(mdp: Mdp, slots: int, observation: str) -> Times:
    """A function of tensors: draw actions, play, observe."""
    observe = make_observation(observation, mdp)
    mdp = mdp.to(dtype=torch.float32)
    now = begin(mdp, torch.arange(slots) % mdp.num_levels)

    def work() -> None:
        nonlocal now
        now, _ = play(mdp, now, torch.randint(4, (slots,)))
        observe(now.spot, now.taken, now.time_left)

    return timed(work, calls=max(4, 1_000_000 // slots))


def environment_steps(level: Level, slots: int, observation: str, *, any_tick: bool = False) -> tuple[Times, float]:
    """Through TorchRL with the DReST transform; also the meta-episodes that end in a step.

    Slots are put at random places of their meta-episodes, so that these end and begin anew all the time. As
    in a run that starts all slots together, mini-episodes of lengths 4 and 8 then end on every fourth step,
    and so do meta-episodes; with ``any_tick`` they do on every step.
    """
    started = clock()
    base = GridworldEnv([level], slots, episodes_per_meta=64, observation=observation)
    env = TransformedEnv(base, DReSTReward())
    td = env.reset()
    state = base.state_dict()
    state["mini_idx"] = torch.randint(64, (slots,))
    if any_tick:
        state["ticks"] = torch.randint(level.shutdown, (slots,))
        state["time_left"] = level.shutdown - state["ticks"]
    base.load_state_dict(state)

    def work() -> torch.Tensor:
        nonlocal td
        td.set("action", torch.randint(4, (slots,)))
        step, td = env.step_and_maybe_reset(td)
        return step["next", "done"]

    for _ in range(20):
        work()
    warm_up = clock() - started
    # The time of a repeat covers many meta-episodes' ends: at 1,024 slots about 4 in each step.
    times = timed(work, calls=max(8, 500_000 // slots))
    ends = sum(int(work().sum()) for _ in range(8)) / 8
    return times._replace(first=warm_up), ends


def stepping(report: Report) -> None:
    level = world("example")
    mdp = compile_levels([level])
    report.title("Stepping, 5x5 level with 3 coins (example), uniformly random actions, E = 64")
    python, count = python_steps(level)
    report.rate("plain Python, one environment", python, count, baseline=f"peer {REPORTED_STEPS / MEGA:g} (reported)")
    slow = f"plain Python {count / python.slowest / MEGA:.3g}"
    best = {"plain": 0.0, "env": 0.0}
    for slots in BATCHES:
        times = plain_steps(mdp, slots, "vector")
        best["plain"] = max(best["plain"], slots / times.slowest / MEGA)
        report.rate(f"tensor function, vector, {slots:,} slots", times, slots, baseline=slow)
    for slots in BATCHES:
        times, ends = environment_steps(level, slots, "vector")
        best["env"] = max(best["env"], slots / times.slowest / MEGA)
        wanted = 3.0 if slots == 1_024 else None
        note = f"{slow}; {ends:.3g} meta-episodes end a step"
        report.rate(f"TorchRL + DReST, vector, {slots:,} slots", times, slots, wanted=wanted, baseline=note)
    for slots in BATCHES[:3]:
        times, ends = environment_steps(level, slots, "vector", any_tick=True)
        report.rate(f"  the same, some slot resets in every step, {slots:,}", times, slots, baseline=slow)
    for slots in BATCHES[:4]:
        times = plain_steps(mdp, slots, "grid")
        report.rate(f"tensor function, grid, {slots:,} slots", times, slots, baseline=slow)
    for slots in BATCHES[:4]:
        times, _ = environment_steps(level, slots, "grid")
        report.rate(f"TorchRL + DReST, grid, {slots:,} slots", times, slots, baseline=slow)
    for name, wanted in (("plain", 20.0), ("env", 10.0)):
        called = {"plain": "tensor function", "env": "TorchRL + DReST"}[name]
        report._add(
            f"{called}, vector, best batch", "M/s", best[name], best[name], 0, slow, wanted, best[name] >= wanted
        )


# ----------------------------------------------------------------------------------- exact evaluation


def evaluation(report: Report) -> None:
    levels = generate(GeneratorConfig(coins=(2, 4)), 200, seed=0)
    mdp = compile_levels(levels)
    reachable = Reachable(mdp)
    report.title(f"Exact evaluation of 200 random 5x5 levels, {len(reachable):,} reachable states, γ = 0.95")
    peer = f"peer {200 * REPORTED_EVALUATION:g} (reported)"
    uniform = timed(lambda: reachable.evaluate(uniform_policy, 0.95))
    report.seconds("uniform policy", uniform, wanted=0.05, baseline=peer)
    built = timed(lambda: Reachable(mdp).evaluate(uniform_policy, 0.95))
    report.seconds("uniform policy, states unrolled anew", built, wanted=0.05, baseline=peer)
    observe = make_observation("grid", mdp)
    width = 5 * mdp.num_cells
    layers: list[torch.nn.Module] = []
    for _ in range(3):
        layers += [torch.nn.Linear(width, 512), torch.nn.ReLU()]
        width = 512
    net = torch.nn.Sequential(*layers, torch.nn.Linear(512, 4))
    at_once = 8_192

    def policy(states: States) -> torch.Tensor:
        return net(observe(states.spot, states.taken, states.time_left).flatten(1)).softmax(-1)

    with torch.inference_mode():
        seen = observe(reachable.states.spot, reachable.states.taken, reachable.states.time_left).flatten(1)
        # Turn by turn, so that both meet the same disturbances.
        alone, whole = [], []
        for _ in range(REPEATS + 1):
            started = clock()
            for part in seen.split(at_once):
                net(part)
            between = clock()
            reachable.evaluate(policy, 0.95, states_at_once=at_once)
            alone.append(between - started)
            whole.append(clock() - between)
    forward = Times(max(alone[1:]), statistics.median(alone[1:]), alone[0])
    evaluated = Times(max(whole[1:]), statistics.median(whole[1:]), whole[0])
    report.seconds("3x512 MLP on grid, forward pass alone", forward)
    report.seconds("3x512 MLP on grid, exact evaluation", evaluated, baseline=f"forward {forward.slowest:.3g}; {peer}")
    ratios = [b / a for a, b in zip(alone[1:], whole[1:], strict=True)]
    report._add(
        "  evaluation ÷ forward pass", "x", max(ratios), statistics.median(ratios), 0, "", 2.0, max(ratios) <= 2
    )


# ------------------------------------------------------------------------------- compiling and solving

_MEMORY = """
import re, sys, torch
from envs.levels import read_levels
from envs.mdp import compile_levels
from envs.solver import solve
torch.set_num_threads(int(sys.argv[2]))
levels = read_levels(sys.argv[1])
def peak():
    # Not getrusage: it begins with the size of the process that started this one.
    with open("/proc/self/status") as status:
        return re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1]
before = peak()
solve(compile_levels(levels))
print(before, peak())
"""


def _compile_and_solve(levels: list[Level]) -> Optima:
    return solve(compile_levels(levels))


def solving(report: Report, threads: int) -> None:
    started = clock()
    levels = generate(GeneratorConfig(coins=(2, 4)), 10_000, seed=1)
    made = clock() - started
    report.title("Compiling and solving 10,000 random 5x5 levels of 2 to 4 coins and a button")
    times = timed(partial(_compile_and_solve, levels))
    report.seconds("compile and solve", times, wanted=5.0, baseline=f"making them takes {made:.3g}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "levels.jsonl"
        write_levels(path, levels)
        command = [sys.executable, "-c", _MEMORY, str(path), str(threads)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, kilobytes elsewhere
    before, peak = (int(number) / unit for number in output.split())
    report.number("peak memory of a fresh process", "GiB", peak, wanted=2.0, baseline=f"before it {before:.3g}")


# --------------------------------------------------------------------------------------------- growth


def growth(report: Report) -> None:
    print("\nGrowth: 200 levels each; slowest of the repeats, ms; steps with the grid observation, 4,096 slots, M/s")
    print(f"{'':26}{'states':>10}{'compile+solve':>15}{'unroll':>9}{'evaluate':>10}{'steps':>8}")
    base = GeneratorConfig(coins=(3, 3))
    cases: list[tuple[str, GeneratorConfig, int]] = [("5x5, 3 coins", base, 200)]
    cases += [(f"5x5, 3 coins, {count} levels", base, count) for count in (50, 800, 3_200)]
    sides = (8, 12)
    cases += [
        (f"{side}x{side}, 3 coins", GeneratorConfig(height=side, width=side, coins=(3, 3)), 200) for side in sides
    ]
    cases += [(f"5x5, {coins} coins", GeneratorConfig(coins=(coins, coins)), 200) for coins in (1, 6, 10)]
    for name, config, count in cases:
        levels = generate(config, count, seed=2)
        mdp = compile_levels(levels)
        reachable = Reachable(mdp)
        found = {
            "compile and solve": timed(partial(_compile_and_solve, levels)),
            "unroll": timed(partial(Reachable, mdp)),
            "evaluate": timed(partial(reachable.evaluate, uniform_policy)),
        }
        steps = plain_steps(mdp, 4_096, "grid")
        cells = [1e3 * each.slowest for each in found.values()]
        rate = 4_096 / steps.slowest / MEGA
        print(
            f"{name:26}{len(reachable):>10,}{cells[0]:>15.1f}{cells[1]:>9.1f}{cells[2]:>10.1f}{rate:>8.1f}", flush=True
        )
        for what, times in found.items():
            report.figures.append(Figure(f"growth: {name}: {what}", "s", times.slowest, times.median, times.first))
        median = 4_096 / steps.median / MEGA
        report.figures.append(Figure(f"growth: {name}: steps, grid", "M/s", rate, median, steps.first))


PARTS = ("stepping", "evaluation", "solving", "growth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--processor-time", action="store_true", help="on a machine that others use, with one thread")
    options = parser.parse_args()
    global clock
    if options.processor_time:
        clock = time.process_time
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    about = {
        "threads": options.threads,
        "clock": "processor" if options.processor_time else "wall",
        "repeats": REPEATS,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchrl": torchrl.__version__,
        "tensordict": tensordict.__version__,
        "machine": platform.machine(),
    }
    print("  ".join(f"{key} {value}" for key, value in about.items()))
    started = clock()
    report = Report()
    if "stepping" in options.parts:
        stepping(report)
    if "evaluation" in options.parts:
        evaluation(report)
    if "solving" in options.parts:
        solving(report, options.threads)
    if "growth" in options.parts:
        growth(report)
    print(f"\nAll of this took {clock() - started:.0f} s.")
    if options.json:
        options.json.write_text(
            json.dumps(about | {"figures": [asdict(figure) for figure in report.figures]}, indent=1)
        )


if __name__ == "__main__":
    main()
