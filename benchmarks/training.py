"""Speed of complete training beside Stable-Baselines3 and TorchRL's own pipeline, in one run.

    python -m benchmarks.training                      everything
    python -m benchmarks.training --only throughput    or profile, or race

``throughput``: environment steps/s of collection, advantages and updates with identical settings (network,
epochs, minibatch, rollout, observation, reward), the contenders taking turns so that a busy machine is busy
for all. ``profile``: where our time goes. ``race``: seconds until the held-out score, the smaller of
usefulness and neutrality, passes a mark, each side at the settings it is best with; evaluation is not timed.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch import Tensor, nn

from algos.networks import Critic, Policy, Size
from benchmarks._peers import (
    PlainLevels,
    Setting,
    StableBaselines,
    TensorVecEnv,
    TorchRL,
    check_plain,
    plain_vec_env,
    raw_rates,
)
from drest_torch import collection
from drest_torch.app import register
from drest_torch.config import algorithms, config_folder
from drest_torch.metrics import neutrality, usefulness
from envs.generator import GeneratorConfig
from envs.gym import GridworldVectorEnv, MetaReward
from envs.levels import Level, read_levels
from envs.mdp import NUM_ACTIONS, Mdp, compile_levels
from envs.observations import make_observation
from envs.propagator import Reachable
from envs.solver import solve
from envs.splits import make_split

MARKS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85)


clock: Callable[[], float] = time.perf_counter
"""What seconds are: of the wall, or with ``--cpu-time`` of this process."""


class Trainer(Protocol):
    def iterate(self, progress: float) -> int:
        """One batch collected and learnt from, ``progress`` (0 to 1) into the schedules; steps played."""
        ...

    def probabilities(self, observation: Tensor) -> Tensor: ...


# -------------------------------------------------------------------------------------------- ours


class Ours:
    """The parts of a run of this project, without its logging."""

    def __init__(self, mdp: Mdp, setting: Setting) -> None:
        observe = make_observation("centred", mdp)
        generator = torch.Generator().manual_seed(0)
        reward = collection.Reward(
            setting.reward.lam, setting.reward.gamma, setting.reward.episodes_per_meta, setting.counting
        )
        self.collector = collection.Collector(
            mdp, solve(mdp), observe, reward, slots=setting.envs, group=setting.group, generator=generator
        )
        policy = Policy(observe.shape, NUM_ACTIONS, setting.size, scale=observe.scale)
        critic = Critic(observe.shape, setting.size, scale=observe.scale, context=self.collector.context_size)
        self.learner = algorithms()[setting.algo].Algorithm(policy, critic, setting.config, generator)

    def iterate(self, progress: float) -> int:
        self.learner.set_progress(progress)
        batch = self.collector.collect(self.learner.policy)
        self.learner.update(batch)
        return batch.steps

    def probabilities(self, observation: Tensor) -> Tensor:
        return self.learner.policy(observation).softmax(-1)


def setting_of(algo: str, width: int, *, envs: int = 0, steps: int = 0, **changes: Any) -> Setting:
    """Our defaults, with a network of this width and these changes to the algorithm's values."""
    register()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        cfg = compose("config", [f"algo={algo}"])
    values: Any = OmegaConf.to_container(cfg.algo, resolve=True)
    given, policy = cfg.reward, cfg.policy
    return Setting(
        algo,
        Size(width, policy.depth, policy.activation),
        SimpleNamespace(**(values | changes)),
        MetaReward(lam=given.lam, gamma=given.gamma, episodes_per_meta=given.episodes_per_meta),
        envs=envs or values["episodes"],
        steps=steps,
        counting=given.counting,
        group=given.group,
    )


# -------------------------------------------------------------------------------------- throughput


def throughput(levels: Sequence[Level], algo: str, width: int, seconds: float) -> dict[str, float]:
    """Steps/s of every contender at identical settings; a meta-episode in each environment makes our batch."""
    mdp = compile_levels(levels)
    changes = {} if algo == "ppo" else {"minibatches": 1}  # SB3's A2C has none
    averaged = setting_of(algo, width, **changes)
    reward = averaged.reward
    setting = replace(averaged, envs=averaged.envs // reward.episodes_per_meta, counting="sequential", group=1)
    ours = Ours(mdp, setting)
    setting = replace(setting, steps=round(ours.iterate(0.0) / setting.envs / 8) * 8)
    plain = PlainLevels(levels)
    vector = GridworldVectorEnv(mdp, setting.envs, observation="centred", reward=reward)
    trainers: dict[str, Trainer] = {
        "ours, sequential": ours,
        f"ours, averaged in groups of {averaged.group}": Ours(mdp, averaged),
        "SB3, plain environments": StableBaselines(plain_vec_env(plain, reward, setting.envs), setting),
        "SB3, our vector environment": StableBaselines(TensorVecEnv(vector), setting),
        "TorchRL's parts": TorchRL(mdp, setting),
    }
    print(f"{setting.envs} environments x {setting.steps} steps, {setting.epochs} epochs of {setting.batch}-step parts")
    return rates(trainers, seconds)


def rates(trainers: dict[str, Trainer], seconds: float) -> dict[str, float]:
    """Steps/s of each; they take turns until each has had so many seconds."""
    for trainer in trainers.values():
        trainer.iterate(0.0)
    steps: dict[str, int] = defaultdict(int)
    took: dict[str, float] = defaultdict(float)
    while waiting := [name for name in trainers if took[name] < seconds]:
        for name in waiting:
            began = clock()
            steps[name] += trainers[name].iterate(0.0)
            took[name] += clock() - began
    return {name: steps[name] / took[name] for name in trainers}


def print_throughput(levels: Sequence[Level], algos: Sequence[str], widths: Sequence[int], seconds: float) -> None:
    print("\nRaw environments, steps/s of the wall")
    for name, rate in raw_rates(levels).items():
        print(f"  {name:38} {rate:10,.0f}")
    for algo in algos:
        for width in widths:
            print(f"\n{algo}, 3x{width}, identical settings: ", end="")
            found = throughput(levels, algo, width, seconds)
            baseline = max(rate for name, rate in found.items() if name.startswith("SB3"))
            for name, rate in found.items():
                print(f"  {name:38} {rate:10,.0f} steps/s   {rate / baseline:5.2f} x the faster SB3")


# ----------------------------------------------------------------------------------------- profile


class Stopwatch:
    """Wall time by part; a part's time leaves out that of the parts within it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._within = [0.0]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self._within.append(0.0)
            began = clock()
            result = function(*args, **kwargs)
            took = clock() - began
            self.seconds[part] += took - self._within.pop()
            self._within[-1] += took
            return result

        return run


class TimedPolicy(NamedTuple):
    """The policy as the collector calls it."""

    noise: int
    call: Callable[..., Tensor]

    def __call__(self, observation: Tensor, noise: Tensor | None) -> Tensor:
        return self.call(observation, noise)


def profile(ours: Ours, seconds: float) -> dict[str, float]:
    """Seconds by part over some updates."""
    watch, learner, collector = Stopwatch(), ours.learner, ours.collector
    policy = TimedPolicy(learner.policy.noise, watch.timed("collection: network", learner.policy))
    collect = watch.timed("collection: bookkeeping", collector.collect)
    update = watch.timed("update: forward and loss", learner.update)
    parts = [
        (collection, "play", "collection: stepping"),
        (collection, "sample", "collection: sampling actions"),
        (collector, "observe", "collection: observing"),
        (collector, "_distinct", "collection: finding what is distinct"),
        (learner, "advantages", "advantages, with the critic"),
        (torch.Tensor, "backward", "update: backward"),
        (nn.utils, "clip_grad_norm_", "update: clipping and optimiser"),
        (learner.optimizer, "step", "update: clipping and optimiser"),
    ]
    learner.set_progress(0.0)
    with ExitStack() as patches:
        for owner, name, part in parts:
            patches.enter_context(patch.object(owner, name, watch.timed(part, getattr(owner, name))))
        while sum(watch.seconds.values()) < seconds:
            update(collect(policy))
    return watch.seconds


def print_profile(levels: Sequence[Level], algos: Sequence[str], widths: Sequence[int], seconds: float) -> None:
    mdp = compile_levels(levels)
    for algo in algos:
        for width in widths:
            ours = Ours(mdp, setting_of(algo, width))
            ours.iterate(0.0)
            found = profile(ours, seconds)
            total = sum(found.values())
            print(f"\nWhere our time goes: {algo}, 3x{width}, default settings")
            for part, took in sorted(found.items()):
                print(f"  {part:38} {took / total:6.1%}")


# -------------------------------------------------------------------------------------------- race


@dataclass(frozen=True)
class Point:
    seconds: float
    steps: int
    usefulness: float
    neutrality: float

    @property
    def score(self) -> float:
        return min(self.usefulness, self.neutrality)


class HeldOut:
    """Exact usefulness and neutrality of anybody's policy on levels that nobody trained on."""

    def __init__(self, levels: Sequence[Level]) -> None:
        mdp = compile_levels(levels)
        self.reachable, self.best = Reachable(mdp), solve(mdp).best_return
        self.observe = make_observation("centred", mdp)

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> tuple[float, float]:
        found = self.reachable.evaluate(
            lambda states: trainer.probabilities(self.observe(states.spot, states.taken, states.time_left))
        )
        useful = usefulness(found.probability, found.coins, self.best).mean()
        return useful.item(), neutrality(found.probability).mean().item()


def best_of_sb3(mdp: Mdp, algo: str, width: int) -> StableBaselines:
    """Many environments in one tensor step; PPO in batches of 4096, A2C an update every 16 steps."""
    setting = setting_of(algo, width, envs=256, steps=128 if algo == "ppo" else 16)
    env = GridworldVectorEnv(mdp, setting.envs, observation="centred", reward=setting.reward)
    return StableBaselines(TensorVecEnv(env), setting)


def run_race(trainer: Trainer, evaluate: HeldOut, minutes: float, looks: int = 24) -> list[Point]:
    """Train for so many minutes, with the schedules stretched over them; the curve of the held-out score."""
    elapsed, steps, limit = 0.0, 0, 60 * minutes
    curve: list[Point] = []
    while elapsed < limit:
        began = clock()
        steps += trainer.iterate(elapsed / limit)
        elapsed += clock() - began
        if elapsed >= limit * (len(curve) + 1) / looks or elapsed >= limit:
            curve.append(Point(elapsed, steps, *evaluate(trainer)))
    return curve


def print_race(args: argparse.Namespace, levels: Sequence[Level], heldout: Sequence[Level]) -> None:
    mdp, evaluate = compile_levels(levels), HeldOut(heldout)
    for algo in args.algo:
        for width in args.width[:1]:
            print(f"\n{algo}, 3x{width}, each at its best: held-out usefulness / neutrality over time")
            mine = run_race(Ours(mdp, setting_of(algo, width)), evaluate, args.minutes)
            print_curve("ours", mine)
            theirs = run_race(best_of_sb3(mdp, algo, width), evaluate, args.sb3_minutes)
            print_curve("SB3", theirs)
            print_marks(mine, theirs)


def print_curve(name: str, curve: Sequence[Point]) -> None:
    print(f"  {name}, {curve[-1].steps / curve[-1].seconds:,.0f} steps/s")
    for point in curve[2::3]:
        print(f"    {point.seconds:6.0f} s {point.steps / 1e6:7.2f} M  {point.usefulness:.3f} / {point.neutrality:.3f}")


def print_marks(mine: Sequence[Point], theirs: Sequence[Point]) -> None:
    for mark in (*MARKS, max(point.score for point in theirs)):
        seconds = [next((point.seconds for point in curve if point.score >= mark), None) for curve in (mine, theirs)]
        said = [f"{each:6.0f} s" if each else " not reached" for each in seconds]
        ratio = f"{seconds[1] / seconds[0]:6.1f} x" if seconds[0] and seconds[1] else ""
        print(f"  both at least {mark:.3f}: ours {said[0]}, SB3 {said[1]} {ratio}")


# ----------------------------------------------------------------------------------------- command


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("throughput", "profile", "race"))
    parser.add_argument("--algo", nargs="+", default=["ppo", "a2c"], choices=("ppo", "a2c"))
    parser.add_argument("--width", nargs="+", type=int, default=[256, 512], help="the race takes the first alone")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each contender and row")
    parser.add_argument("--minutes", type=float, default=3.0, help="for ours in the race")
    parser.add_argument("--sb3-minutes", type=float, default=15.0, help="for Stable-Baselines3 in the race")
    parser.add_argument("--threads", type=int, help="of torch, for all contenders")
    parser.add_argument(
        "--cpu-time", action="store_true", help="count seconds of one thread's CPU time, for a machine that is shared"
    )
    parser.add_argument("--levels", type=Path, help="a level file to train on instead of generated levels")
    parser.add_argument("--heldout", type=Path, help="a level file for the race's score")
    return parser.parse_args()


def load(args: argparse.Namespace) -> tuple[list[Level], list[Level]]:
    """Levels to train on, and held-out ones."""
    if args.levels and args.heldout:
        return read_levels(args.levels), read_levels(args.heldout)
    split = make_split(GeneratorConfig(), train=20_000, selection=0, test=300, seed=0)
    return split.train, split.test


def main() -> None:
    global clock
    args = arguments()
    if args.cpu_time:
        clock, args.threads = time.process_time, 1
    if args.threads:
        torch.set_num_threads(args.threads)
    levels, heldout = load(args)
    check_plain(heldout)
    print(
        f"{len(levels):,} levels, {len(heldout)} held out, {torch.get_num_threads()} threads of torch, {clock.__name__}"
    )
    if args.only in (None, "throughput"):
        print_throughput(levels, args.algo, args.width, args.seconds)
    if args.only in (None, "profile"):
        print_profile(levels, args.algo, args.width, args.seconds)
    if args.only in (None, "race"):
        print_race(args, levels, heldout)


if __name__ == "__main__":
    main()
