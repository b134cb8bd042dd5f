"""Training in menus by exact gradients: the same network with different rewards and on different kinds of menus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.choices import measures
from drest_torch.choices.generation import random_menus
from drest_torch.choices.menus import Menus
from drest_torch.choices.network import BY_LENGTH, BY_OUTCOME, MenuNetwork
from drest_torch.metrics import share_of_best


@dataclass(frozen=True)
class Arm:
    """What an agent is trained for, on each kind of menus (`drest_torch.choices.generation.KINDS`)."""

    title: str
    rewards: Mapping[str, str]
    """drest, plus (Neutrality+), supports (DReST over sets of lengths, Neutrality+ within one), sum (usefulness plus
    neutrality, by `WEIGHT`), priced (expected coins plus the same) or raw, by kind."""
    reads: str = BY_LENGTH
    """How the network reads options (`drest_torch.choices.network`)."""


WEIGHT = 0.57
"""Of neutrality in a sum; near equal chances it pulls as hard as DReST with λ = 0.9 and E = 32."""
NEUTRAL = {"sure": "drest", "lotteries": "plus", "shared": "supports"}
ARMS: dict[str, Arm] = {
    "A": Arm("DReST, sure trajectories only", {"sure": "drest"}),
    "A'": Arm("DReST, sure lengths, luck with coins", {"coins": "drest"}),
    "B": Arm("DReST on lotteries", {"lotteries": "drest"}),
    "B'": Arm("DReST on both", {"sure": "drest", "lotteries": "drest"}),
    "C": Arm("Neutrality+ on lotteries", {"lotteries": "plus"}),
    "D": Arm("DReST on sets of lengths, Neutrality+ where options have the same lengths", NEUTRAL),
    "D, same lengths": Arm(
        "D, without menus of lotteries with different lengths", {"sure": "drest", "lotteries": "plus"}
    ),
    "W": Arm("usefulness plus neutrality, on both", {"sure": "sum", "lotteries": "sum"}),
    "K": Arm("expected coins with a price on neutrality, on both", {"sure": "priced", "lotteries": "priced"}),
    "E": Arm("expected coins, lotteries", {"lotteries": "raw"}),
    "E'": Arm("expected coins, sure trajectories only", {"sure": "raw"}),
}
ARMS |= {
    f"{name}, lists": Arm(f"{name}, of which the network reads lists of outcomes", ARMS[name].rewards, BY_OUTCOME)
    for name in ("A", "A'", "D", "E'")
}


def objective(reward: str, menus: Menus, policy: Tensor, episodes: int, lam: float) -> Tensor:
    """Return what an agent climbs in each menu, of a size of about 1."""
    match reward:
        case "drest":
            return measures.drest_value(menus, policy, episodes, lam, credit="mini") / episodes
        case "supports":
            return measures.supports_value(menus, policy, episodes, lam) / episodes
        case "plus":
            return measures.neutrality_plus(menus, policy)
        case "sum":
            return measures.usefulness(menus, policy) + WEIGHT * measures.neutrality(menus, policy)
        case "raw" | "priced":
            coins = menus.gain.sum(-1)
            value: Tensor = (policy * share_of_best(coins, coins.amax(-1, keepdim=True))).sum(-1)
            return value + WEIGHT * measures.neutrality(menus, policy) if reward == "priced" else value
    raise ValueError(f"the reward '{reward}'")


def train(
    arm: str, agents: int, updates: int, batch: int, width: int, lr: float, lam: float, episodes: int, seed: int = 0
) -> MenuNetwork:
    """Return a network with that many agents, each trained on its own random menus."""
    network = MenuNetwork(agents, width, seed, ARMS[arm].reads)
    generator = torch.Generator().manual_seed(1_000 + seed)
    adam = torch.optim.Adam(network.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, updates)
    rewards = ARMS[arm].rewards
    for update in range(updates):
        options = 3 if update % 4 == 0 else 2
        total = torch.zeros(())
        for kind, reward in rewards.items():
            menus = random_menus(kind, agents * (batch // len(rewards)), generator, options)
            policy = network.choose(menus, agents).flatten(0, 1)
            total = total - agents * objective(reward, menus, policy, episodes, lam).mean() / len(rewards)
        adam.zero_grad()
        total.backward()
        adam.step()
        schedule.step()
    return network
