"""Policies that remember their mini-episode, exactly: a short level is unrolled into every history that it can have.

A history is what a policy has seen since the mini-episode began: a sequence of states. Luck is left out, so a level has
finitely many, and the probability of each is the product of those of its actions. The gradient of what is expected is
exact, as it is with `drest_torch.envs.exact.propagator` for policies that see a state alone; but there are far more
histories than states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Lengths
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level

MOST = 400_000
"""Histories of a set of levels."""


class Network(nn.Module):
    """A network with two hidden layers, of which the second remembers, if it is recurrent."""

    def __init__(self, inputs: int, width: int, rng: torch.Generator, *, recurrent: bool) -> None:
        super().__init__()
        self.width, self.recurrent = width, recurrent
        self.read = nn.Linear(inputs, width)
        self.inner: nn.Module = nn.GRUCell(width, width) if recurrent else nn.Linear(width, width)
        self.head = nn.Linear(width, NUM_ACTIONS)
        with torch.no_grad():
            for weight in self.parameters():
                limit = (weight.shape[-1] if weight.ndim > 1 else width) ** -0.5
                weight.uniform_(-limit, limit, generator=rng)
            self.head.weight.mul_(0.1)
            self.head.bias.zero_()

    def forward(self, seen: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the actions [n, 4], and what is remembered [n, width]."""
        found = nn.functional.silu(self.read(seen))
        memory = self.inner(found, memory) if self.recurrent else nn.functional.silu(self.inner(found))
        return self.head(memory), memory


@dataclass(frozen=True)
class Layer:
    """The histories of one length: n of them, which m of the layer before lead to."""

    parent: Tensor
    """[n] the history before, in the layer before."""
    seen: Tensor
    """[n, F] the observation of the last state."""
    after: Tensor
    """[n, 4] the history that each action leads to, in the layer that follows; −1 where it ends the mini-episode."""
    end: Tensor
    """[n, 4] where it ends: level · K + the column of the length; −1 where it does not."""
    coins: Tensor
    """[n, 4] what has been collected by then."""


class Histories:
    """All histories of levels without luck, layer by layer, as an observation shows them."""

    def __init__(self, levels: Sequence[Level], observation: str) -> None:
        mdp = compile_levels(levels)
        if mdp.any_luck or mdp.any_free_bumps:
            raise ValueError("levels with luck, or on a clock that counts moves, have histories without end")
        observe = make_observation(observation, mdp)
        self.optima, self.inputs = solve(mdp), observe.shape[0]
        self.layers: list[Layer] = []
        self.number = 0
        """How many there are."""
        lengths = self.optima.lengths
        level = torch.arange(len(levels))
        spot, taken, time_left = mdp.start, torch.zeros_like(mdp.start), mdp.shutdown
        parent, coins = torch.zeros_like(spot), torch.zeros(len(spot), dtype=torch.float64)
        while len(spot):
            self.number += len(spot)
            if self.number > MOST:
                raise ValueError(f"more than {MOST:,} histories; choose levels with a shorter time until shutdown")
            actions = torch.arange(NUM_ACTIONS).repeat(len(spot))
            each = torch.arange(len(spot)).repeat_interleave(NUM_ACTIONS)
            arrival = mdp.advance(spot[each], taken[each], actions)
            left = mdp.time_after(time_left[each], arrival)
            collected, over = coins[each] + arrival.coin, left == 0
            length = torch.full_like(left, len(self.layers) + 1)
            column = (lengths[level[each]] == length.unsqueeze(-1)).long().argmax(-1)
            end = torch.where(over, level[each] * lengths.shape[1] + column, -1)
            # Actions that lead to the same state make the same history.
            what = torch.stack((each, arrival.spot, arrival.taken, left), -1)[~over]
            children, index = torch.unique(what, dim=0, return_inverse=True)
            after = torch.full_like(end, -1)
            after[~over] = index
            shape = (len(spot), NUM_ACTIONS)
            seen = (observe(spot, taken, time_left) * observe.scale).float()
            self.layers.append(Layer(parent, seen, after.reshape(shape), end.reshape(shape), collected.reshape(shape)))
            kept = torch.zeros(len(children), dtype=torch.float64)
            kept[index] = collected[~over]
            parent, spot, taken, time_left = children.unbind(-1)
            coins, level = kept, level[parent]

    def play(self, network: Network) -> tuple[Lengths, Tensor]:
        """Return P(L = l) and E[C | L = l] of a network [B, K], and the entropy of its actions [], summed over a
        mini-episode, the mean over levels: exactly, and with gradients.
        """
        shape = self.optima.lengths.shape
        sums = torch.zeros(2, shape[0] * shape[1], dtype=torch.float64)
        memory = torch.zeros(shape[0], network.width)
        reach = torch.ones(shape[0], dtype=torch.float64)
        entropy = torch.zeros((), dtype=torch.float64)
        for layer in self.layers:
            logits, memory = network(layer.seen, memory[layer.parent])
            log_probs = logits.double().log_softmax(-1)
            flow = reach.unsqueeze(-1) * log_probs.exp()
            entropy = entropy - (flow * log_probs).sum() / shape[0]
            over = layer.end >= 0
            ended = torch.stack((flow[over], (flow * layer.coins)[over]))
            sums = sums.index_add(1, layer.end[over], ended)
            following = int(layer.after.max()) + 1
            reach = torch.zeros(following, dtype=torch.float64).index_add(0, layer.after[~over], flow[~over])
        probability, coins = sums.reshape(2, *shape)
        return Lengths(probability, coins / probability.clamp_min(1e-300)), entropy
