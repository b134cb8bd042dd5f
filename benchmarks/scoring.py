"""Time to a score: training until an agent has a usefulness and a neutrality at once on levels it has never seen."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.measuring import SECONDS, Bench
from benchmarks.pipelines import setting_of
from drest_torch.config.compose import compose
from drest_torch.envs.levels import read_levels
from drest_torch.evaluation.exact import ExactEvaluator
from drest_torch.training.run import Run, start

TITLE = "Time to a score"
USEFULNESS, NEUTRALITY = 0.742, 0.769
"""Of the paper's follow-up on its test levels, at best, after 100 million steps and 8 to 27 hours."""
WANTED_SECONDS, WANTED_STEPS = 60.0, 2e6
SEEDS, LOOKS = 3, 60
RUNS = {
    "algo=generalist policy=convolutional reward.episodes_at_start=null env_steps=300000": SEEDS,
    "algo=generalist reward.episodes_at_start=null env_steps=1000000": 1,
    "algo=ppo policy=symmetric env_steps=2000000": SEEDS,
    "algo=ppo env_steps=2000000": SEEDS,
}
"""What is trained, on ``levels=followup_like``, and with how many seeds; schedules run over ``env_steps``."""
SB3_SECONDS = 60.0
SB3 = "SB3's PPO on our vector environment, 256 environments × 128 steps, one seed"


@dataclass(frozen=True)
class Passed:
    """When a run had both at once on a level set; the seconds leave out all evaluations."""

    seconds: float
    """Of the updates."""
    in_all: float
    """With the making of the levels and of the run."""
    steps: int
    usefulness: float
    neutrality: float


@dataclass
class Watch:
    """A level set that is looked at until the marks are passed there."""

    evaluator: ExactEvaluator
    passed: Passed | None = None
    best: tuple[float, float] = (0.0, 0.0)
    """Usefulness and neutrality where the smaller of the two, in units of its mark, was largest."""

    def look(self, policy: Any, seconds: float, in_all: float, steps: int) -> None:
        found = self.evaluator.evaluate(policy).means()
        now = found["usefulness"], found["neutrality"]
        if _margin(now) > _margin(self.best):
            self.best = now
        if self.passed is None and _margin(now) >= 1:
            self.passed = Passed(seconds, in_all, steps, *now)


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
    found = {"own test levels": Watch(run.judge.watched["test"])}
    if bench.followup is not None:
        found["follow-up's levels"] = Watch(run.judge.evaluator(read_levels(bench.followup)))
    return found


def _still(watched: Mapping[str, Watch]) -> list[Watch]:
    """Those on which the marks are not passed yet."""
    return [each for each in watched.values() if each.passed is None]


def train(bench: Bench, overrides: str, seed: int, folder: Path) -> dict[str, Watch]:
    """One run until both marks are passed on every level set, or to its end."""
    began = bench.clock()
    run = new_run(bench, overrides, seed, folder)
    bench.wait()
    set_up = bench.clock() - began
    watched, seconds, looks = watches(bench, run), 0.0, 0
    until = run.cfg.env_steps // (1 if not bench.quick else 500)
    while run.state.steps < until and _still(watched):
        began = bench.clock()
        run.update()
        bench.wait()
        seconds += bench.clock() - began
        if run.state.steps * LOOKS >= looks * until:
            looks = run.state.steps * LOOKS // until + 1
            for each in _still(watched):
                each.look(run.learner.policy, seconds, set_up + seconds, run.state.steps)
    return watched


def stable_baselines(bench: Bench, folder: Path) -> dict[str, Watch]:
    """Its PPO on the same levels for some seconds, over which its schedules run."""
    from benchmarks.plain import in_order
    from benchmarks.sb3 import StableBaselines, TensorVecEnv
    from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv

    run = new_run(bench, "algo=ppo", 0, folder)
    setting = setting_of("ppo", envs=bench.size(256, 8), steps=bench.size(128, 8))
    vector = GridworldVectorEnv(run.levels.train, setting.envs, observation="centred", reward=in_order(setting.reward))
    trainer, watched = StableBaselines(TensorVecEnv(vector), setting), watches(bench, run)
    seconds, steps, limit = 0.0, 0, 0.1 if bench.quick else SB3_SECONDS
    while seconds < limit and _still(watched):
        began = bench.clock()
        steps += trainer.iterate(seconds / limit)
        seconds += bench.clock() - began
        for each in _still(watched):
            each.look(Logits(trainer.logits), seconds, seconds, steps)
    return watched


@dataclass(frozen=True)
class Logits:
    """Anybody's policy as evaluation wants it."""

    of: Callable[[Tensor], Tensor]
    private_bits: int = 0

    def __call__(self, observation: Tensor, private_bits: Tensor | None = None) -> Tensor:
        return self.of(observation)


def report(bench: Bench, found: list[Mapping[str, Watch]], *, held_to: bool) -> None:
    """The rows of the seeds of one kind of run."""
    for where in found[0]:
        seeds = [each[where] for each in found]
        passed = [each.passed for each in seeds if each.passed is not None]
        if len(passed) < len(seeds):
            best = "; ".join(f"U {each.best[0]:.3f}, N {each.best[1]:.3f}" for each in seeds)
            note = f"passed by {len(passed)} of {len(seeds)} seeds; at best {best}"
            bench.missing(where, "s", note, wanted=WANTED_SECONDS if held_to else None)
            continue
        useful, neutral = (statistics.median(values) for values in zip(*(_pair(each) for each in passed), strict=True))
        then = f"there U {useful:.3f}, N {neutral:.3f}"
        bench.numbers(f"{where}: training alone", "s", [each.seconds for each in passed], note=then)
        if held_to:
            in_all = [each.in_all for each in passed]
            bench.numbers(f"{where}: with making the levels and the run", "s", in_all, wanted=WANTED_SECONDS)
        steps = [each.steps / 1e6 for each in passed]
        wanted = WANTED_STEPS / 1e6 if held_to else None
        bench.numbers(f"{where}: environment steps", "million", steps, wanted=wanted)


def _pair(passed: Passed) -> tuple[float, float]:
    return passed.usefulness, passed.neutrality


def run(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for overrides, seeds in RUNS.items():
            bench.table(
                f"`python -m drest_torch.train levels=followup_like {overrides}`",
                f"Until U ≥ {USEFULNESS} and N ≥ {NEUTRALITY} at once, exactly evaluated {LOOKS} times over the run at "
                f"most, which the seconds leave out; seeds: {seeds}. An update of `generalist` plays nothing, counting "
                "as 4,096 steps; the steps of `ppo` are played.",
            )
            found = [train(bench, overrides, seed, folder) for seed in range(bench.size(seeds, 1))]
            report(bench, found, held_to=True)
            if bench.followup is None:
                bench.missing("follow-up's levels", "s", "not measured: no file given (--followup FILE)")
        if bench.on_cpu:
            bench.table(
                f"Stable-Baselines3, for {SB3_SECONDS:g} s", "Its PPO with the same network and values as ours."
            )
            with bench.optional([SB3], SECONDS):
                found = [stable_baselines(bench, folder)]
                report(bench, found, held_to=False)
