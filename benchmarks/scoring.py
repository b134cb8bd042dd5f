"""Time to a score: training until an agent reaches a usefulness and a neutrality at the same time, and keeps both.

The scores are those on selection levels, which are neither training levels nor the levels of reported results.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measuring import SECONDS, Bench, Unit
from drest_torch.config.compose import compose
from drest_torch.training.run import start

TITLE = "Time to a score"
USEFULNESS, NEUTRALITY = 0.742, 0.769
"""The best scores of the paper's follow-up on its test levels, after 100 million steps and 8 to 27 hours."""
THEIR_STEPS = 40e6
"""Environment steps after which the follow-up's agents have about this score, on their own levels."""
TARGET = 20.0
"""The smallest ratio of the follow-up's environment steps to ours."""
EVALUATIONS = 60
MILLION = Unit("million", lambda amount, seconds: amount, more_is_better=False)
TIMES_FEWER = Unit("× fewer", lambda amount, seconds: amount, more_is_better=True)
STEPS, ROWS = "environment steps", "rows of the network, forward and backward"
ALL, FEWER = "until the score", "the follow-up's steps ÷ ours"
RUNS = {
    "algo=ppo env_steps=2000000": 3,
    "algo=ppo policy=symmetric env_steps=2000000": 3,
    "algo=generalist policy=convolutional reward.episodes_at_start=null env_steps=300000": 3,
    "algo=generalist reward.episodes_at_start=null env_steps=1000000": 1,
}
"""Training runs on ``levels=followup_like`` with their numbers of seeds; schedules run over ``env_steps``."""
TEXT = (
    f"The effort until U ≥ {USEFULNESS} and N ≥ {NEUTRALITY} hold in all later evaluations, of {EVALUATIONS} exact "
    "evaluations over the run; γ = 1. The seconds include the generation of levels and the evaluations. The "
    f"follow-up's agents reach about this score after {THEIR_STEPS / 1e6:.0f} to 50 million environment steps, on "
    "their own levels. `generalist` uses the exact model of every level and takes no steps: its effort is counted in "
    "rows of its network."
)


def train(bench: Bench, overrides: str, seed: int, folder: Path) -> dict[str, float] | None:
    """Train to the end, because a score may be lost again; return the effort until it was kept, or None."""
    began = bench.clock()
    kept_since: dict[str, float] | None = None
    words = ["logger=none", "progress=false", "pictures=0", "test.paper=false", "evaluated_levels=500"]
    words += [f"evaluations={EVALUATIONS}", f"seed={seed}", f"run_dir={folder / str(len(list(folder.iterdir())))}"]
    if bench.quick:
        words += ["levels.train=50", "levels.test=5", "levels.selection=5", "env_steps=4000"]
    run = start(compose("levels=followup_like", *overrides.split(), *words))

    def look(steps: int, metrics: Mapping[str, float]) -> None:
        nonlocal kept_since
        usefulness, neutrality = (metrics.get(f"eval/selection/{name}") for name in ("usefulness", "neutrality"))
        if usefulness is None or neutrality is None:
            return
        if usefulness < USEFULNESS or neutrality < NEUTRALITY:
            kept_since = None
        elif kept_since is None:
            kept_since = {ALL: bench.clock() - began}
            if run.pace.levels_per_update is None:
                kept_since[STEPS] = steps
            else:
                kept_since[ROWS] = run.state.forward_rows + run.state.backward_rows

    run.callbacks = [look]
    run.train()
    return kept_since


def run(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for overrides, seeds in RUNS.items():
            bench.table(f"`python -m drest_torch.train levels=followup_like {overrides}`", f"{TEXT} Seeds: {seeds}.")
            efforts = [train(bench, overrides, seed, Path(folder)) for seed in range(bench.size(seeds, 1))]
            report(bench, [effort for effort in efforts if effort is not None], len(efforts))


def report(bench: Bench, efforts: list[dict[str, float]], seeds: int) -> None:
    """Add the rows of a training run, or a row with the number of seeds that kept the score."""
    if len(efforts) < seeds:
        reason = f"{len(efforts)} of {seeds} seeds kept the score"
        bench.missing(FEWER, TIMES_FEWER, reason, target=TARGET)
        return
    bench.numbers(ALL, SECONDS, [effort[ALL] for effort in efforts])
    for name in (STEPS, ROWS):
        if name in efforts[0]:
            bench.numbers(name, MILLION, [effort[name] / 1e6 for effort in efforts])
    if STEPS in efforts[0]:
        ratios = [THEIR_STEPS / effort[STEPS] for effort in efforts]
        bench.numbers(FEWER, TIMES_FEWER, ratios, target=TARGET)
