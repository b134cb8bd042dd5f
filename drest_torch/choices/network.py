"""A small network that chooses from menus, for several agents at once, which have nothing in common.

It reads an option as the list of its outcomes, sorted by length and coins, and compares every two options of a menu.
The logit of an option is the sum of what speaks for it against the others. The order of options and of outcomes
therefore makes no difference.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from drest_torch.choices.archetypes import Chooser
from drest_torch.choices.menus import Menus

FEATURES = 4


class MenuNetwork(nn.Module):
    """Two hidden layers for each of A agents."""

    def __init__(self, agents: int, outcomes: int, width: int, seed: int = 0) -> None:
        super().__init__()
        self.outcomes = outcomes
        sizes = (2 * outcomes * FEATURES, width, width, 1)
        generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            gain = (2 / inputs) ** 0.5 if outputs > 1 else inputs**-0.5
            self.weights.append(gain * torch.randn(agents, inputs, outputs, generator=generator))
            self.biases.append(torch.zeros(agents, 1, outputs))

    def forward(self, menus: Menus) -> Tensor:
        """Return the probabilities [A, B, O], each agent's for all menus."""
        return self.choose(menus, 1)

    def choose(self, menus: Menus, parts: int) -> Tensor:
        """Return the probabilities [A, B / parts, O]; with ``parts`` = A each agent has its own part of the menus."""
        seen = observe(menus, self.outcomes)
        menus_each, options = len(menus) // parts, seen.shape[1]
        pairs = [(a, b) for a in range(options) for b in range(options) if a != b]
        first, second = (torch.tensor(side) for side in zip(*pairs, strict=True))
        hidden = torch.cat((seen[:, first], seen[:, second]), -1).reshape(parts, menus_each * len(pairs), -1)
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = hidden @ weight + bias
            hidden = hidden.relu() if index < len(self.weights) - 1 else hidden
        agents = len(hidden)
        speaks = hidden.new_zeros(agents, menus_each, options, options)
        speaks[..., first, second] = hidden.reshape(agents, menus_each, len(pairs))
        exists = menus.exists.reshape(parts, menus_each, options)
        both = exists.unsqueeze(-1) & exists.unsqueeze(-2)
        logits = ((speaks - speaks.transpose(-1, -2)) * both).sum(-1)
        return torch.where(exists, logits, -torch.inf).softmax(-1)

    def chooser(self, agent: int) -> Chooser:
        """Return one of the agents, as a function from menus to probabilities."""

        def choose(menus: Menus) -> Tensor:
            with torch.no_grad():
                return self(menus)[agent]

        return choose


def observe(menus: Menus, outcomes: int) -> Tensor:
    """Return [B, O, outcomes · 4] of each outcome: is it there, its chance, its coins and length ÷ the largest."""
    there = menus.chance > 0
    order = torch.where(there, menus.coins.double(), torch.inf).argsort(dim=-1, stable=True)
    length = torch.where(there, menus.length, 2**31).gather(-1, order)
    order = order.gather(-1, length.argsort(dim=-1, stable=True))
    chance, coins, length = (each.gather(-1, order).float() for each in (menus.chance, menus.coins, menus.length))
    there = chance > 0
    if bool(there[..., outcomes:].any()):
        raise ValueError(f"an option has more outcomes than the {outcomes} that the network reads")
    largest, longest = (each.abs().amax((1, 2), keepdim=True).clamp_min(1e-9) for each in (coins, length))
    features = torch.stack((there.float(), chance, coins / largest, length / longest), -1) * there.unsqueeze(-1)
    features = features[..., :outcomes, :]
    missing = outcomes - features.shape[-2]
    return nn.functional.pad(features, (0, 0, 0, missing)).flatten(-2)
