"""DReST with TorchRL's own parts, on CartPole: python docs/cartpole.py. See docs/howto/environments.md."""

from __future__ import annotations

import math
import sys

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import CatTensors, Compose, TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from drest_torch.collector import MetaEpisodeCollector
from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.transforms import BestReturn, DReSTReward, MetaEpisodes, ShutdownTimer

BASE, DELAY, SLOTS = 20, 20, 64


def network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(9, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main(batches: int = 80) -> None:
    """Train with PPO; print how often each length was chosen in the last tenth, and the share of m that was earned."""
    torch.manual_seed(0)
    episodes = MetaEpisodes(1, together=True)
    env = TransformedEnv(
        GymnasiumBatch("CartPole-v1", SLOTS),
        Compose(
            ShutdownTimer(BASE, [DELAY]),
            BestReturn(num_lengths=2),
            episodes,
            CatTensors(["observation", "timer"], "seen", del_keys=False),
        ),
    )
    actor_network, critic_network = network(3), network(1)
    # An untrained policy asks for a delay in half of the mini-episodes: with a chance of 1 − 0.5^(1/BASE) in each step.
    ask = 1 - 0.5 ** (1 / BASE)
    with torch.no_grad():
        actor_network[-1].weight *= 0.01
        actor_network[-1].bias.copy_(torch.tensor([0.0, 0.0, math.log(2 * ask / (1 - ask))]))
    module, categorical = TensorDictModule(actor_network, ["seen"], ["logits"]), torch.distributions.Categorical
    actor = ProbabilisticActor(module, in_keys=["logits"], distribution_class=categorical, return_log_prob=True)
    critic = ValueOperator(critic_network, in_keys=["seen"])
    gae = GAE(gamma=1.0, lmbda=0.97, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    for estimator in (gae, loss):  # a mini-episode is what is credited, not the meta-episode
        estimator.set_keys(done="mini_done", terminated="mini_done")
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    pays = DReSTReward(num_lengths=2, num_lengths_key=None, counting="averaged", group=SLOTS)
    collector, rng = MetaEpisodeCollector(env, actor, episodes, postproc=pays), torch.Generator().manual_seed(0)
    chosen, earned = torch.zeros(2), 0.0
    for index in range(batches):
        gae(batch := collector.collect(rng))
        played = batch[~batch["mini_waits"].squeeze(-1)]  # a slot that waits for the others does nothing that counts
        for _ in range(4):
            for rows in torch.randperm(len(played)).chunk(4):
                losses = loss(played[rows])
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        if index >= 0.9 * batches:
            ends = batch["next", "mini_done"]
            chosen += torch.bincount(batch["next", "mini_len"][ends], minlength=2)
            earned += (batch["next", "reward_raw"].sum() / batch["next", "best_return"][ends].sum()).item()
    share = chosen / chosen.sum()
    bits = -(share * share.log2()).nansum().item()
    print(f"lengths {BASE} and {BASE + DELAY}: {share[0]:.2f} and {share[1]:.2f}; neutrality {bits:.2f}")
    print(f"share of m: {earned / (batches / 10):.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
