"""PPO in environments of others: on CartPole beside Stable-Baselines3, and on a TorchRL environment beside its loop."""

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
SLOTS, EPISODES = 64, 16
ROAD, LOOP = "drest train env=torchrl", "TorchRL's collector, GAE and loss"


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


def gridworlds() -> Any:
    """Return the environment of the second comparison: gridworlds as any other TorchRL environment."""
    from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
    from drest_torch.envs.levels.files import world

    return GridworldEnv([world("example")], SLOTS, episodes_per_meta=EPISODES, observation="vector")


def through_torchrl(folder: Path) -> Callable[[], float]:
    """Return an update of `drest train env=torchrl`."""
    from drest_torch.training.run import Run

    values = [f"env.copies={SLOTS}", f"algo.episodes={SLOTS * EPISODES}", f"reward.episodes_per_meta={EPISODES}"]
    factory = f"env.factory={gridworlds.__module__}:{gridworlds.__name__}"
    run = Run(
        compose(
            "env=torchrl",
            factory,
            "env.base=null",
            "reward.counting=sequential",
            "policy=mlp",
            "policy.width=64",
            "policy.depth=2",
            *values,
            "logger=none",
            "progress=false",
            f"run_dir={folder}",
        ),
        folder,
    )

    def work() -> float:
        before = run.state.steps
        run.update()
        return run.state.steps - before

    return work


def torchrl_loop() -> Callable[[], float]:
    """Return an update of TorchRL's collector, GAE and loss, with the same network, minibatches and passes."""
    import torch
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.collectors import Collector
    from torchrl.envs import Compose, TransformedEnv
    from torchrl.modules import ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    from drest_torch import DReSTReward

    env = TransformedEnv(gridworlds(), Compose(DReSTReward(num_lengths=2)))
    inputs = env.observation_spec["observation"].shape[-1]

    def network(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))

    module = TensorDictModule(network(4), ["observation"], ["logits"])
    categorical = torch.distributions.Categorical
    actor = ProbabilisticActor(module, in_keys=["logits"], distribution_class=categorical, return_log_prob=True)
    critic = ValueOperator(network(1), in_keys=["observation"])
    gae = GAE(gamma=1.0, lmbda=0.97, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    for estimator in (gae, loss):
        estimator.set_keys(done="mini_done", terminated="mini_done")
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    frames = SLOTS * EPISODES * 4
    batches = iter(
        Collector(env, actor, frames_per_batch=frames, total_frames=-1, auto_register_policy_transforms=False)
    )

    def work() -> float:
        batch = next(batches)
        gae(batch)
        rows = batch.reshape(-1)
        for _ in range(4):
            for part in torch.randperm(len(rows)).chunk(8):
                losses = loss(rows[part])
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        return len(rows)

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

    bench.table(
        "PPO on gridworlds as a TorchRL environment",
        f"{SLOTS} slots, a meta-episode of {EPISODES} mini-episodes each, 4 epochs of 8 minibatches, 2 × 64 MLPs.",
    )
    with tempfile.TemporaryDirectory() as folder:
        works = {ROAD: through_torchrl(Path(folder)), LOOP: torchrl_loop()}
        times = bench.measure(works)
    bench.compare(times, STEPS, baselines=(LOOP,))
    bench.figure(f"{ROAD} ÷ {LOOP}", FASTER, times[LOOP].over(times[ROAD]), wanted=1.0)
