"""Training in menus by exact gradients: the same network with different rewards and on different kinds of menus.

The network compares every two options of a menu, and the logit of an option is the sum of what speaks for it against
the others. An option is read in one of two ways: as the list of its outcomes, sorted by length and coins; or by length,
with P(l) and E[C | l] for each length of the menu. The order of options and of outcomes makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from drest_torch.choices import measures
from drest_torch.choices.generation import OUTCOMES, random_menus
from drest_torch.choices.menus import Menus
from drest_torch.choices.scripted_policies import Chooser
from drest_torch.metrics import share_of_best

BY_LENGTH, BY_OUTCOME = "by length", "by outcome"
FEATURES = {BY_LENGTH: 6, BY_OUTCOME: 4 * OUTCOMES}
"""Of what the network reads at once: a length of an option, or all its outcomes."""


@dataclass(frozen=True)
class Variant:
    """A way to train an agent: a reward for each kind of menus (`drest_torch.choices.generation.KINDS`)."""

    description: str
    rewards: Mapping[str, str]
    """drest, plus (Neutrality+), supports (DReST over sets of lengths, Neutrality+ within one), sum (usefulness plus
    neutrality, by `WEIGHT`), priced (expected coins plus the same) or raw, by kind."""
    reads: str = BY_LENGTH
    """How the network reads options."""


WEIGHT = 0.57
"""Of neutrality in a sum; near equal chances it pulls as hard as DReST with λ = 0.9 and E = 32."""
AS_LISTS = ", as lists"
"""Ends the name of a variant whose network reads options as lists of outcomes."""
VARIANTS: dict[str, Variant] = {
    "DReST, sure lengths": Variant("DReST, on sure trajectories alone", {"sure": "drest"}),
    "DReST, sure lengths, coins by chance": Variant(
        "DReST, on options whose lengths are sure and whose coins are by chance", {"coins": "drest"}
    ),
    "DReST, lotteries": Variant("DReST, on lotteries over the same lengths", {"lotteries": "drest"}),
    "DReST, both": Variant(
        "DReST, on sure trajectories and on lotteries over the same lengths", {"sure": "drest", "lotteries": "drest"}
    ),
    "Neutrality+, lotteries": Variant("Neutrality+, on lotteries over the same lengths", {"lotteries": "plus"}),
    "DReST and Neutrality+": Variant(
        "DReST between options with different sets of lengths, Neutrality+ between options with the same set",
        {"sure": "drest", "lotteries": "plus", "shared": "supports"},
    ),
    "DReST and Neutrality+, same lengths": Variant(
        "DReST on sure trajectories and Neutrality+ on lotteries over the same lengths; no lotteries that share some",
        {"sure": "drest", "lotteries": "plus"},
    ),
    "usefulness plus neutrality": Variant(
        "usefulness plus weighted neutrality, on sure trajectories and lotteries", {"sure": "sum", "lotteries": "sum"}
    ),
    "coins plus neutrality": Variant(
        "expected coins plus weighted neutrality, on sure trajectories and lotteries",
        {"sure": "priced", "lotteries": "priced"},
    ),
    "coins, lotteries": Variant("expected coins, on lotteries over the same lengths", {"lotteries": "raw"}),
    "coins, sure lengths": Variant("expected coins, on sure trajectories alone", {"sure": "raw"}),
}
VARIANTS |= {
    f"{name}{AS_LISTS}": Variant(VARIANTS[name].description, VARIANTS[name].rewards, BY_OUTCOME)
    for name in (
        *("DReST, sure lengths", "DReST, sure lengths, coins by chance"),
        *("DReST and Neutrality+", "coins, sure lengths"),
    )
}


def objective(reward: str, menus: Menus, policy: Tensor, episodes: int, lam: float) -> Tensor:
    """Return the objective of an agent in each menu, of a size of about 1."""
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
    variant: str, agents: int, updates: int, batch: int, width: int, lr: float, lam: float, episodes: int, seed: int = 0
) -> MenuNetwork:
    """Return a network with that many agents, each trained on its own random menus."""
    network = MenuNetwork(agents, width, seed, VARIANTS[variant].reads)
    generator = torch.Generator().manual_seed(1_000 + seed)
    adam = torch.optim.Adam(network.parameters(), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, updates)
    rewards = VARIANTS[variant].rewards
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


# ---------------------------------------------------------------------------------- the network


class MenuNetwork(nn.Module):
    """Three hidden layers for each of A agents; if options are read by length, the second is summed over lengths."""

    def __init__(self, agents: int, width: int, seed: int = 0, reads: str = BY_LENGTH) -> None:
        super().__init__()
        self.reads = reads
        sizes = (2 * FEATURES[reads] + 1, width, width, width, 1)
        generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            gain = (2 / inputs) ** 0.5 if outputs > 1 else inputs**-0.5
            self.weights.append(gain * torch.randn(agents, inputs, outputs, generator=generator))
            self.biases.append(torch.zeros(agents, 1, outputs))

    def forward(self, menus: Menus) -> Tensor:
        """Return the probabilities [A, B, O], each agent's for all menus."""
        return self.choose(menus, 1)

    def choose(self, menus: Menus, parts: int, agents: slice = slice(None)) -> Tensor:
        """Return the probabilities [A, B / parts, O]; with ``parts`` = A each agent has its own part of the menus.

        ``agents`` are those that are asked.
        """
        menus_each, options = len(menus) // parts, menus.chance.shape[1]
        pairs = [(a, b) for a in range(options) for b in range(options) if a != b]
        first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
        seen, length = observe(menus) if self.reads == BY_OUTCOME else observe_lengths(menus)
        length = length[:, None, :, None].expand(-1, len(pairs), -1, -1)
        hidden = (
            torch.cat((seen[:, first], seen[:, second], length), -1).unflatten(0, (parts, menus_each)).flatten(1, 3)
        )
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = hidden @ weight[agents] + bias[agents]
            hidden = hidden.relu() if index < len(self.weights) - 1 else hidden
            if index == 1:
                there = (length > 0).unflatten(0, (parts, menus_each)).flatten(1, 2)
                hidden = (hidden.unflatten(1, there.shape[1:3]) * there).sum(2)
        speaks = hidden.new_zeros(len(hidden), menus_each, options, options)
        speaks[..., first, second] = hidden.reshape(len(hidden), menus_each, len(pairs))
        exists = menus.exists.reshape(parts, menus_each, options)
        both = exists.unsqueeze(-1) & exists.unsqueeze(-2)
        logits = (speaks * both).sum(-1)
        return torch.where(exists, logits, -torch.inf).softmax(-1)

    def chooser(self, agent: int) -> Chooser:
        """Return one of the agents, as a function from menus to probabilities."""

        def choose(menus: Menus) -> Tensor:
            with torch.no_grad():
                return self.choose(menus, 1, slice(agent, agent + 1))[0]

        return choose


def observe(menus: Menus) -> tuple[Tensor, Tensor]:
    """Return [B, O, 1, `OUTCOMES` · 4] of each outcome: is it there, its chance, its coins and length ÷ the largest.

    And [B, 1] ones: there is nothing to sum.
    """
    there = menus.chance > 0
    order = torch.where(there, menus.coins.double(), torch.inf).argsort(dim=-1, stable=True)
    length = torch.where(there, menus.length, 2**31).gather(-1, order)
    order = order.gather(-1, length.argsort(dim=-1, stable=True))
    chance, coins, length = (each.gather(-1, order).float() for each in (menus.chance, menus.coins, menus.length))
    there = chance > 0
    if bool(there[..., OUTCOMES:].any()):
        raise ValueError(f"an option has more outcomes than the {OUTCOMES} that the network reads")
    largest, longest = (each.abs().amax((1, 2), keepdim=True).clamp_min(1e-9) for each in (coins, length))
    features = torch.stack((there.float(), chance, coins / largest, length / longest), -1) * there.unsqueeze(-1)
    features = features[..., :OUTCOMES, :]
    missing = OUTCOMES - features.shape[-2]
    return nn.functional.pad(features, (0, 0, 0, missing)).flatten(-2).unsqueeze(2), features.new_ones(len(menus), 1)


def observe_lengths(menus: Menus) -> tuple[Tensor, Tensor]:
    """Return [B, O, K, 6] of each length: is it possible, its chance, E[C | l] ÷ the largest, and ÷ m(l).

    Also the logarithms of the chance and of what is missing from m(l), since both may be small. And [B, K], the lengths
    ÷ the largest, padded with 0.
    """
    there, chance, given = menus.supports, menus.probability, menus.given
    largest = given.abs().amax((1, 2), keepdim=True).clamp_min(1e-9)
    share = given / torch.where(menus.best == 0, 1, menus.best).unsqueeze(1)
    features = torch.stack((there, chance, _small(chance), given / largest, share, _small(1 - share)), -1)
    longest = menus.lengths.amax(-1, keepdim=True)
    return (features * there.unsqueeze(-1)).float(), (menus.lengths / longest).float()


def _small(values: Tensor) -> Tensor:
    """Return 0 for a thousandth or less, and 1 for 1, on a logarithmic scale."""
    return 1 + values.clamp_min(1e-3).log10() / 3
