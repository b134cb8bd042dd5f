"""Time to a score: training until an agent has a usefulness and a neutrality at once, and keeps them.

The levels are selection levels, which the agent has never seen: never test levels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import Bench
from drest_torch.config.compose import compose
from drest_torch.training.run import start

TITLE = "Time to a score"
USEFULNESS, NEUTRALITY = 0.742, 0.769
"""Of the paper's follow-up on its test levels, at best, after 100 million steps and 8 to 27 hours."""
LOOKS, SECONDS, STEPS = 60, "all of it, s", "environment steps, million"
WANTED = {SECONDS: 60.0, STEPS: 2.0}
RUNS = {
    "algo=ppo env_steps=2000000": 3,
    "algo=ppo policy=symmetric env_steps=2000000": 3,
    "algo=generalist policy=convolutional reward.episodes_at_start=null env_steps=300000": 3,
    "algo=generalist reward.episodes_at_start=null env_steps=1000000": 1,
}
"""What is trained, on ``levels=followup_like``, and with how many seeds; schedules run over ``env_steps``."""
TEXT = (
    f"Until U ≥ {USEFULNESS} and N ≥ {NEUTRALITY} at once and for good: in every later one of {LOOKS} exact "
    "evaluations over the run; γ = 1. The seconds begin with making the levels, and have the evaluations in them. The "
    "follow-up's agents have about this score from 40 to 50 million environment steps on, on levels of its own. "
    "`generalist` has the model of every level and plays nothing: rows of the network are no environment steps."
)


def train(bench: Bench, overrides: str, seed: int, folder: Path) -> dict[str, float] | None:
    """Train to the end, because a score that is passed may be lost; return what it took to keep it, or None."""
    began, passed = bench.clock(), None
    words = ["logger=none", "progress=false", "pictures=0", "test.paper=false", "evaluated_levels=500"]
    words += [f"evaluations={LOOKS}", f"seed={seed}", f"run_dir={folder / str(len(list(folder.iterdir())))}"]
    if bench.quick:
        words += ["levels.train=50", "levels.test=5", "levels.selection=5", "env_steps=4000"]
    run = start(compose("levels=followup_like", *overrides.split(), *words))

    def told(steps: int, metrics: Mapping[str, float]) -> None:
        nonlocal passed
        usefulness, neutrality = (metrics.get(f"eval/selection/{name}") for name in ("usefulness", "neutrality"))
        if usefulness is None or neutrality is None:
            return
        took = {SECONDS: bench.clock() - began}
        if run.pace.levels_per_update is None:
            took |= {STEPS: steps / 1e6}
        else:
            rows = run.state.forward_rows + run.state.backward_rows
            took |= {"rows of the network, forward and backward, million": rows / 1e6}
        passed = (passed or took) if usefulness >= USEFULNESS and neutrality >= NEUTRALITY else None

    run.callbacks = [told]
    run.train()
    return passed


def run(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for overrides, seeds in RUNS.items():
            bench.table(f"`python -m drest_torch.train levels=followup_like {overrides}`", f"{TEXT} Seeds: {seeds}.")
            found = [train(bench, overrides, seed, Path(folder)) for seed in range(bench.size(seeds, 1))]
            passed = [each for each in found if each is not None]
            if len(passed) < len(found):
                said = f"passed for good by {len(passed)} of {len(found)} seeds"
                bench.missing("all of it", "s", said, wanted=WANTED[SECONDS])
                continue
            for name in passed[0]:
                what, _, unit = name.rpartition(", ")
                bench.numbers(what, unit, [each[name] for each in passed], wanted=WANTED.get(name))
