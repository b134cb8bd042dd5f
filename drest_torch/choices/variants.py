"""Training in menus by exact gradients: one network with different rewards and on different kinds of menus.

The network compares all pairs of options of a menu; the logit of an option is the sum of its comparison scores. An
option is encoded in one of two ways: as the list of its outcomes, sorted by length and coins; or by length, as P(l) and
E[C | l] for each length of the menu. The network is invariant to the order of outcomes, and equivariant to that of
options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, permutations

import torch
from torch import Tensor, nn

from drest_torch.choices import measures
from drest_torch.choices.generation import OUTCOMES, random_menus
from drest_torch.choices.menus import Menus
from drest_torch.choices.scripted_policies import Chooser
from drest_torch.metrics import share_of_best

BY_LENGTH, BY_OUTCOME = "by length", "by outcome"
FEATURES = {BY_LENGTH: 6, BY_OUTCOME: 4 * OUTCOMES}
"""The number of features that the network reads at once: one length of an option, or all outcomes of it."""


@dataclass(frozen=True)
class Variant:
    """A training condition: a reward for each kind of menus (`drest_torch.choices.generation.KINDS`)."""

    description: str
    rewards: Mapping[str, str]
    """Rewards by kind: drest, plus (Neutrality+), supports (DReST over sets of lengths, Neutrality+ within one), sum
    (usefulness plus neutrality with `WEIGHT`), priced (expected coins plus neutrality with `WEIGHT`) or raw."""
    reads: str = BY_LENGTH
    """The encoding of options."""


WEIGHT = 0.57
"""The weight of neutrality in a sum; its gradient near equal chances equals that of DReST with λ = 0.9 and E = 32."""
AS_LISTS = ", as lists"
"""The suffix of the names of variants whose network reads options as lists of outcomes."""
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
    """Return the objective of an agent in each menu, scaled to about 1."""
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
            if reward == "raw":
                return value
            return value + WEIGHT * measures.neutrality(menus, policy)
    raise ValueError(f"the reward '{reward}'")


def train(
    variant: str, agents: int, updates: int, batch: int, width: int, lr: float, lam: float, episodes: int, seed: int = 0
) -> MenuNetwork:
    """Train the networks of ``agents`` agents, each on its own random menus."""
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
    """The networks of A agents with three hidden layers; for options read by length, the second sums over lengths."""

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
        """Return the probabilities [A, B, O] of each agent for all menus."""
        return self.choose(menus, 1)

    def choose(self, menus: Menus, parts: int, agents: slice = slice(None)) -> Tensor:
        """Return the probabilities [A, B / parts, O] of some agents; with ``parts`` = A each has its own menus."""
        share, options = len(menus) // parts, menus.chance.shape[1]
        pairs = list(permutations(range(options), 2))
        first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
        features, length = observe(menus) if self.reads == BY_OUTCOME else observe_lengths(menus)
        length = length[:, None, :, None].expand(-1, len(pairs), -1, -1)  # [B, P, K, 1]
        inputs = torch.cat((features[:, first], features[:, second], length), -1)  # [B, P, K, F]
        hidden = inputs.unflatten(0, (parts, share)).flatten(1, 3)  # [parts, B / parts · P · K, F]
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = hidden @ weight[agents] + bias[agents]
            if index < len(self.weights) - 1:
                hidden = hidden.relu()
            if index == 1:
                exists = (length > 0).unflatten(0, (parts, share)).flatten(1, 2)  # [parts, B / parts · P, K, 1]
                hidden = (hidden.unflatten(1, exists.shape[1:3]) * exists).sum(2)
        scores = hidden.new_zeros(len(hidden), share, options, options)
        scores[..., first, second] = hidden.reshape(len(hidden), share, len(pairs))
        exists = menus.exists.reshape(parts, share, options)
        both = exists.unsqueeze(-1) & exists.unsqueeze(-2)
        logits = (scores * both).sum(-1)
        return torch.where(exists, logits, -torch.inf).softmax(-1)

    def chooser(self, agent: int) -> Chooser:
        """Return an agent as a function from menus to probabilities."""

        def choose(menus: Menus) -> Tensor:
            with torch.no_grad():
                return self.choose(menus, 1, slice(agent, agent + 1))[0]

        return choose


def observe(menus: Menus) -> tuple[Tensor, Tensor]:
    """Return the features of options by outcome [B, O, 1, `OUTCOMES` · 4], and ones [B, 1] in place of lengths.

    The features of an outcome are its existence, chance, and coins and length ÷ the largest of the menu.
    """
    exists = menus.chance > 0
    order = torch.where(exists, menus.coins.double(), torch.inf).argsort(dim=-1, stable=True)
    length = torch.where(exists, menus.length, 2**31).gather(-1, order)
    order = order.gather(-1, length.argsort(dim=-1, stable=True))
    chance, coins, length = (values.gather(-1, order).float() for values in (menus.chance, menus.coins, menus.length))
    exists = chance > 0
    if bool(exists[..., OUTCOMES:].any()):
        raise ValueError(f"an option has more outcomes than the {OUTCOMES} that the network reads")
    largest, longest = (values.abs().amax((1, 2), keepdim=True).clamp_min(1e-9) for values in (coins, length))
    features = torch.stack((exists.float(), chance, coins / largest, length / longest), -1) * exists.unsqueeze(-1)
    features = features[..., :OUTCOMES, :]
    missing = OUTCOMES - features.shape[-2]
    return nn.functional.pad(features, (0, 0, 0, missing)).flatten(-2).unsqueeze(2), features.new_ones(len(menus), 1)


def observe_lengths(menus: Menus) -> tuple[Tensor, Tensor]:
    """Return the features of options by length [B, O, K, 6], and the lengths ÷ the longest [B, K], padded with 0.

    The features of a length are its existence, chance and log chance, E[C | l] ÷ the largest of the menu, the share
    E[C | l] / m(l), and the log of 1 − share. The logs resolve small values.
    """
    possible, chance, coins = menus.supports, menus.probability, menus.conditional_coins
    largest = coins.abs().amax((1, 2), keepdim=True).clamp_min(1e-9)
    share = coins / torch.where(menus.best == 0, 1, menus.best).unsqueeze(1)
    features = torch.stack((possible, chance, _log_scale(chance), coins / largest, share, _log_scale(1 - share)), -1)
    longest = menus.lengths.amax(-1, keepdim=True)
    return (features * possible.unsqueeze(-1)).float(), (menus.lengths / longest).float()


def _log_scale(values: Tensor) -> Tensor:
    """Map values to a logarithmic scale from 0 for a thousandth or less to 1 for 1."""
    return 1 + values.clamp_min(1e-3).log10() / 3
