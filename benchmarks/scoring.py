"""Time to a score: training until an agent has a usefulness and a neutrality at once, and keeps them.

The levels are selection levels, which the agent has never seen: never test levels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Bench
from drest_torch.config.compose import compose
from drest_torch.effort import updates_of
from drest_torch.training.run import Run, start

TITLE = "Time to a score"
USEFULNESS, NEUTRALITY = 0.742, 0.769
"""Of the paper's follow-up on its test levels, at best, after 100 million steps and 8 to 27 hours."""
WANTED_SECONDS, WANTED_STEPS = 60.0, 2.0
LOOKS, STEPS = 60, "environment steps, million"
RUNS = {
    "algo=ppo env_steps=2000000": 3,
    "algo=ppo policy=symmetric env_steps=2000000": 3,
    "algo=generalist policy=convolutional reward.episodes_at_start=null env_steps=300000": 3,
    "algo=generalist reward.episodes_at_start=null env_steps=1000000": 1,
}
"""What is trained, on ``levels=followup_like``, and with how many seeds; schedules run over ``env_steps``."""
TEXT = (
    f"Until U ≥ {USEFULNESS} and N ≥ {NEUTRALITY} at once and for good: in every later one of {LOOKS} exact "
    "evaluations over the run, which the seconds leave out; γ = 1. The follow-up's agents have about this score from "
    "40 to 50 million environment steps on, on levels of its own. `generalist` has the model of every level and plays "
    "nothing: updates and rows of the network are no environment steps."
)


@dataclass
class Watch:
    """Looks at the selection levels over a run."""

    run: Run
    passed: dict[str, float] | None = None
    """What it had taken when it came to both marks, which it has kept since; None if it is below one now."""

    def look(self, policy: Any, took: Mapping[str, float]) -> None:
        found = self.run.task.selection.evaluate(policy).means()
        if found["usefulness"] < USEFULNESS or found["neutrality"] < NEUTRALITY:
            self.passed = None
        elif self.passed is None:
            self.passed = dict(took)


def new_run(bench: Bench, overrides: str, seed: int, folder: Path) -> Run:
    words = ["logger=none", "test.paper=false", "evaluated_levels=500", f"seed={seed}"]
    small = ["levels.train=50", "levels.test=5", "levels.selection=5"] if bench.quick else []
    run_dir = f"run_dir={folder / str(len(list(folder.iterdir())))}"
    return start(compose("levels=followup_like", *overrides.split(), *words, run_dir, *small))


def train(bench: Bench, overrides: str, seed: int, folder: Path) -> Watch:
    """One run to its end, because a score that is passed may be lost again."""
    began = bench.clock()
    run = new_run(bench, overrides, seed, folder)
    set_up, seconds, looks = bench.clock() - began, 0.0, 0
    watch, state, levels = Watch(run), run.state, run.updater.pace.levels_per_update
    until = run.cfg.env_steps // (1 if not bench.quick else 500)
    while state.steps < until:
        began = bench.clock()
        run.update()
        seconds += bench.clock() - began
        if state.steps * LOOKS >= looks * until:
            looks = state.steps * LOOKS // until + 1
            took = {"training alone, s": seconds, "with making the levels and the run, s": set_up + seconds}
            if levels is None:
                took |= {STEPS: state.steps / 1e6}
            else:
                took |= {f"{updates_of(levels)}, updates": state.updates}
                took |= {"rows of the network forward, million": state.forward_rows / 1e6}
                took |= {"rows of the network backward, million": state.backward_rows / 1e6}
            watch.look(run.learner.policy, took)
    return watch


def report(bench: Bench, found: Sequence[Watch], wanted: Mapping[str, float]) -> None:
    """The rows of the seeds of one kind of run."""
    passed = [each.passed for each in found if each.passed is not None]
    if len(passed) < len(found):
        said = f"passed for good by {len(passed)} of {len(found)} seeds"
        bench.missing("all of it", "s", said, wanted=WANTED_SECONDS if wanted else None)
        return
    for name in passed[0]:
        what, _, unit = name.rpartition(", ")
        bench.numbers(what, unit, [each[name] for each in passed], wanted=wanted.get(name))


def run(bench: Bench) -> None:
    wanted = {"with making the levels and the run, s": WANTED_SECONDS, STEPS: WANTED_STEPS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for overrides, seeds in RUNS.items():
            bench.table(f"`python -m drest_torch.train levels=followup_like {overrides}`", f"{TEXT} Seeds: {seeds}.")
            report(bench, [train(bench, overrides, seed, folder) for seed in range(bench.size(seeds, 1))], wanted)
