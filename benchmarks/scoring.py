"""Time to a score: training until an agent has a usefulness and a neutrality at once, and keeps them.

The levels are selection levels, which the agent has never seen, and the validation levels of a file: never test levels.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.measuring import SECONDS, Bench
from benchmarks.pipelines import setting_of
from drest_torch.config.compose import compose
from drest_torch.effort import updates_of
from drest_torch.envs.levels import read_levels
from drest_torch.evaluation.exact import LevelSetEvaluator
from drest_torch.training.run import Run, start

TITLE = "Time to a score"
USEFULNESS, NEUTRALITY = 0.742, 0.769
"""Of the paper's follow-up on its test levels, at best, after 100 million steps and 8 to 27 hours."""
ITS_OWN_TIME = (
    "The follow-up's agents have about this score from 40 to 50 million environment steps on, on levels of its own; "
    "`followup_like` levels were fitted to its training and validation designs."
)
WANTED_SECONDS, WANTED_STEPS = 60.0, 2e6
SEEDS, LOOKS = 3, 60
LIKE_SB3 = "algo=ppo env_steps=2000000"
RUNS = {
    LIKE_SB3: SEEDS,
    "algo=ppo policy=symmetric env_steps=2000000": SEEDS,
    "algo=generalist policy=convolutional reward.episodes_at_start=null env_steps=300000": SEEDS,
    "algo=generalist reward.episodes_at_start=null env_steps=1000000": 1,
}
"""What is trained, on ``levels=followup_like``, and with how many seeds; schedules run over ``env_steps``."""
SB3_SECONDS = 60.0
VALIDATION = "follow-up's validation levels"
SAMPLED = (
    "Stable-Baselines3's PPO trains on the same levels with the same observation, network and settings, for "
    f"{SB3_SECONDS:g} s and one seed; it stands below ours with the plain MLP."
)
EXACT = (
    "`generalist` has the model of every level and plays nothing: updates and rows of the network are no environment "
    "steps, and are not to be compared with them."
)
SB3 = "SB3's PPO on our vector environment, 256 environments × 128 steps, one seed"


@dataclass(frozen=True)
class Passed:
    """Since when a run has had both at once on a level set; the seconds leave out all evaluations."""

    seconds: float
    """Of the updates."""
    in_all: float
    """With the making of the levels and of the run."""
    took: Mapping[str, float]
    """How much of each unit: environment steps, or the updates of exact gradients and the rows of the network."""
    usefulness: float
    neutrality: float


@dataclass
class Watch:
    """A level set that is looked at over a run."""

    evaluator: LevelSetEvaluator
    passed: Passed | None = None
    """Since when the marks have been passed in every look; None if they are not passed now."""
    best: tuple[float, float] = (0.0, 0.0)
    """Usefulness and neutrality where the smaller of the two, in units of its mark, was largest."""

    def look(self, policy: Any, seconds: float, in_all: float, took: Mapping[str, float]) -> None:
        found = self.evaluator.evaluate(policy).means()
        now = found["usefulness"], found["neutrality"]
        if _margin(now) > _margin(self.best):
            self.best = now
        if _margin(now) < 1:
            self.passed = None
        elif self.passed is None:
            self.passed = Passed(seconds, in_all, took, *now)


def _margin(found: tuple[float, float]) -> float:
    return min(found[0] / USEFULNESS, found[1] / NEUTRALITY)


def new_run(bench: Bench, overrides: str, seed: int, folder: Path) -> Run:
    small = ["levels.train=50", "levels.test=5", "levels.selection=5"] if bench.quick else []
    cfg = compose(
        "levels=followup_like",
        *overrides.split(),
        f"seed={seed}",
        f"device={bench.device}",
        f"run_dir={folder / f'{len(list(folder.iterdir()))}'}",
        "logger=none",
        "test.paper=false",
        "evaluated_levels=500",
        *small,
    )
    return start(cfg)


def watches(bench: Bench, run: Run) -> dict[str, Watch]:
    assert run.gridworlds.judge.selection is not None
    found = {"own selection levels": Watch(run.gridworlds.judge.selection)}
    if bench.followup is not None:
        found[VALIDATION] = Watch(run.gridworlds.judge.evaluator(read_levels(bench.followup)))
    return found


def effort(run: Run) -> dict[str, float]:
    """What a run has taken, in units that mean the same for every run."""
    state, levels = run.state, run.updater.pace.levels_per_update
    if levels is None:
        return {"environment steps, million": state.steps / 1e6}
    return {
        updates_of(levels): state.updates,
        "rows of the network forward, million": state.forward_rows / 1e6,
        "rows of the network backward, million": state.backward_rows / 1e6,
    }


def train(bench: Bench, overrides: str, seed: int, folder: Path) -> dict[str, Watch]:
    """One run to its end, because a score that is passed may be lost again."""
    began = bench.clock()
    run = new_run(bench, overrides, seed, folder)
    bench.wait()
    set_up = bench.clock() - began
    watched, seconds, looks = watches(bench, run), 0.0, 0
    until = run.cfg.env_steps // (1 if not bench.quick else 500)
    while run.state.steps < until:
        began = bench.clock()
        run.update()
        bench.wait()
        seconds += bench.clock() - began
        if run.state.steps * LOOKS >= looks * until:
            looks = run.state.steps * LOOKS // until + 1
            for each in watched.values():
                each.look(run.learner.policy, seconds, set_up + seconds, effort(run))
    return watched


def stable_baselines(bench: Bench, folder: Path) -> dict[str, Watch]:
    """Its PPO on the same levels for some seconds, over which its schedules run."""
    from benchmarks.plain import in_order
    from benchmarks.sb3 import StableBaselines, TensorVecEnv
    from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv

    run = new_run(bench, "algo=ppo", 0, folder)
    setting = setting_of("ppo", envs=bench.size(256, 8), steps=bench.size(128, 8))
    vector = GridworldVectorEnv(
        run.gridworlds.levels.train,
        setting.envs,
        observation=run.cfg.policy.observation,
        reward=in_order(setting.reward),
    )
    trainer, watched = StableBaselines(TensorVecEnv(vector), setting), watches(bench, run)
    seconds, steps, limit = 0.0, 0, 0.1 if bench.quick else SB3_SECONDS
    while seconds < limit:
        began = bench.clock()
        steps += trainer.iterate(seconds / limit)
        seconds += bench.clock() - began
        for each in watched.values():
            each.look(Logits(trainer.logits), seconds, seconds, {"environment steps, million": steps / 1e6})
    return watched


@dataclass(frozen=True)
class Logits:
    """Anybody's policy as evaluation wants it."""

    of: Callable[[Tensor], Tensor]
    private_bits: int = 0

    def __call__(self, observation: Tensor, private_bits: Tensor | None = None) -> Tensor:
        return self.of(observation)


def report(bench: Bench, found: Sequence[Mapping[str, Watch]], *, held_to: bool, who: str = "") -> None:
    """The rows of the seeds of one kind of run."""
    for place in found[0]:
        seeds, where = [each[place] for each in found], f"{who}{place}"
        passed = [each.passed for each in seeds if each.passed is not None]
        if len(passed) < len(seeds):
            best = "; ".join(f"U {each.best[0]:.3f}, N {each.best[1]:.3f}" for each in seeds)
            note = f"passed for good by {len(passed)} of {len(seeds)} seeds; at best {best}"
            bench.missing(where, "s", note, wanted=WANTED_SECONDS if held_to else None)
            continue
        useful, neutral = (statistics.median(values) for values in zip(*(_pair(each) for each in passed), strict=True))
        then = f"there U {useful:.3f}, N {neutral:.3f}"
        bench.numbers(f"{where}: training alone", "s", [each.seconds for each in passed], note=then)
        if held_to:
            in_all = [each.in_all for each in passed]
            bench.numbers(f"{where}: with making the levels and the run", "s", in_all, wanted=WANTED_SECONDS)
        for name in passed[0].took:
            what, _, unit = name.partition(", ")
            wanted = WANTED_STEPS / 1e6 if held_to and what == "environment steps" else None
            bench.numbers(f"{where}: {what}", unit or "updates", [each.took[name] for each in passed], wanted=wanted)


def _pair(passed: Passed) -> tuple[float, float]:
    return passed.usefulness, passed.neutrality


def run(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for overrides, seeds in RUNS.items():
            bench.table(
                f"`python -m drest_torch.train levels=followup_like {overrides}`",
                f"Until U ≥ {USEFULNESS} and N ≥ {NEUTRALITY} at once and for good: in every later one of {LOOKS} "
                f"exact evaluations over the run, which the seconds leave out; γ = 1; seeds: {seeds}. {ITS_OWN_TIME} "
                + (EXACT if "algo=generalist" in overrides else SAMPLED),
            )
            found = [train(bench, overrides, seed, folder) for seed in range(bench.size(seeds, 1))]
            report(bench, found, held_to=True)
            if bench.followup is None:
                bench.missing(VALIDATION, "s", "not measured: no file given (--followup FILE)")
            if bench.on_cpu and overrides == LIKE_SB3:
                with bench.optional([SB3], SECONDS):
                    report(bench, [stable_baselines(bench, folder)], held_to=False, who="Stable-Baselines3: ")
