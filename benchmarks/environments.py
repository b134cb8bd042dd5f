"""PPO on CartPole with a shutdown that can be delayed, beside Stable-Baselines3 on the same task with our wrappers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import FASTER, STEPS, Bench
from drest_torch.config.compose import compose

TITLE = "Environments of others"
OURS = "drest train env=cartpole"
SB3 = "SB3, our wrappers"
LENGTHS, BEST = (100, 100), (100.0, 200.0)
MEAN_LENGTH = 150


def ours(bench: Bench, folder: Path) -> Callable[[], float]:
    """Return an update of our PPO, which collects its own batch."""
    from drest_torch.training.run import Run

    few = ["env.copies=16", "algo.episodes=16"] if bench.quick else []
    run = Run(compose("env=cartpole", "logger=none", "progress=false", f"run_dir={folder}", *few), folder)

    def work() -> float:
        before = run.state.episodes
        run.update()
        # An untrained policy asks for a delay in half of the mini-episodes. Steps after a fall that can change nothing
        # are no data of ours, and are data for Stable-Baselines3: all are counted here.
        return (run.state.episodes - before) * MEAN_LENGTH

    return work


def stable_baselines(bench: Bench) -> Callable[[], float]:
    """Return an update of its PPO with the same network, and minibatches, passes and steps as ours has on average."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from drest_torch.envs.interfaces.gymnasium_wrappers import DReSTWrapper, ShutdownTimerWrapper
    from drest_torch.reward import Reward

    copies, steps = (16, 150) if bench.quick else (64, 300)

    def make() -> Any:
        timed = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), LENGTHS[0], [LENGTHS[1]])
        return DReSTWrapper(timed, Reward(episodes_per_meta=32), lengths=2, best=BEST)

    model = PPO(
        "MlpPolicy",
        DummyVecEnv([make] * copies),
        1e-3,
        n_steps=steps,
        batch_size=copies * steps // 8,
        n_epochs=4,
        gamma=1.0,
        gae_lambda=0.97,
        ent_coef=0.01,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh},
    )

    def work() -> float:
        model.learn(copies * steps, reset_num_timesteps=False, log_interval=None)
        return copies * steps

    return work


def run(bench: Bench) -> None:
    bench.table(
        "PPO on CartPole",
        "64 copies, two mini-episodes of 100 or 200 steps each for an update, 4 epochs of 8 minibatches, 2 × 64 MLPs.",
    )
    with tempfile.TemporaryDirectory() as folder:
        works = {OURS: ours(bench, Path(folder))}
        if bench.on_cpu:
            with bench.optional((SB3,), STEPS):
                works[SB3] = stable_baselines(bench)
        times = bench.measure(works)
    bench.compare(times, STEPS, baselines=(SB3,))
    if SB3 in times:
        bench.figure(f"{OURS} ÷ {SB3}", FASTER, times[SB3].over(times[OURS]), wanted=1.0)
