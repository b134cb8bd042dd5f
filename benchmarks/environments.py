"""CartPole, a third-party environment: its copies beside TorchRL's wrapper, and PPO beside Stable-Baselines3."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import STEPS, Bench, Work
from drest_torch.config.compose import compose
from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.reward import Reward
from drest_torch.training.run import run_of

TITLE = "Third-party environments"
TARGET = 1.0
"""The smallest speed relative to Stable-Baselines3."""
OURS, SB3 = "drest train env=cartpole", "SB3, our wrappers"
COPIES, WRAPPED = "GymnasiumBatch", "GymWrapper of make_vec"
MEAN_LENGTH = 150
"""Mean steps of a mini-episode with an untrained policy, which asks for a delay in half of them."""


def stepping(env: Any) -> Work:
    """Return a step of all copies with random actions; copies that have ended are reset."""
    state = env.reset()

    def work() -> float:
        nonlocal state
        _, state = env.step_and_maybe_reset(env.rand_action(state))
        return float(env.batch_size.numel())

    return work


def wrapped(copies: int) -> Any:
    """Return copies of CartPole in TorchRL's wrapper, without level seeds and without waiting after the end."""
    import gymnasium
    from torchrl.envs import GymWrapper

    options = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
    vector = gymnasium.make_vec("CartPole-v1", copies, vectorization_mode="sync", vector_kwargs=options)
    return GymWrapper(vector, categorical_action_encoding=True)


def ours(folder: Path, *words: str) -> Work:
    """Return an update of our PPO."""
    run = run_of(compose("env=cartpole", "logger=none", "progress=false", f"run_dir={folder}", *words), folder)

    def work() -> float:
        # Ours skips the steps after a fall, which change nothing. Stable-Baselines3 plays them, so all are counted.
        before = run.state.episodes
        run.update()
        return (run.state.episodes - before) * MEAN_LENGTH

    return work


def stable_baselines(copies: int, steps: int) -> Work:
    """Return an update of PPO of Stable-Baselines3 with our network, minibatches and epochs."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from drest_torch.envs.interfaces.gymnasium_wrappers import DReSTWrapper, ShutdownTimerWrapper

    def make() -> Any:
        timed = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), 100, [100])
        return DReSTWrapper(timed, Reward(episodes_per_meta=32), lengths=2, best=(100.0, 200.0))

    shape = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh}
    rates = {"learning_rate": 1e-3, "gamma": 1.0, "gae_lambda": 0.97, "ent_coef": 0.01}
    batches = {"n_steps": steps, "batch_size": copies * steps // 8, "n_epochs": 4}
    envs = DummyVecEnv([make] * copies)
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", policy_kwargs=shape, **rates, **batches)

    def work() -> float:
        model.learn(copies * steps, reset_num_timesteps=False, log_interval=None)
        return copies * steps

    return work


def run(bench: Bench) -> None:
    bench.table("Stepping CartPole", "64 copies, random actions.")
    envs = {COPIES: GymnasiumBatch("CartPole-v1", 64), WRAPPED: wrapped(64)}
    times = bench.measure({name: stepping(env) for name, env in envs.items()})
    bench.compare(times, STEPS, baselines=(WRAPPED,))
    bench.table(
        "PPO on CartPole",
        "64 copies, two mini-episodes of 100 or 200 steps each for an update, 4 epochs of 8 minibatches, 2 × 64 MLPs.",
    )
    few = ["env.copies=16", "algo.episodes=16"] if bench.quick else []
    with tempfile.TemporaryDirectory() as folder:
        works = {OURS: ours(Path(folder), *few)}
        with bench.optional([SB3], STEPS):
            works[SB3] = stable_baselines(*((16, 150) if bench.quick else (64, 300)))
        times = bench.measure(works)
    bench.compare(times, STEPS, baselines=(SB3,))
    bench.ratio(times, OURS, SB3, target=TARGET)
