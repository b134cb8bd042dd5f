"""Policies that remember their mini-episode, exactly: a short level is unrolled into every history that it can have.

A history is what a policy has seen since the mini-episode began: a sequence of states. Luck is left out, so a level has
finitely many, and the probability of each is the product of those of its actions. The gradient of what is expected is
exact, as it is with `drest_torch.envs.exact.propagator` for policies that see a state alone; but there are far more
histories than states. `train` trains a policy like this on pairs of levels that share a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.choices import aliased
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Lengths
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward

OBSERVATIONS = {
    "state": "centred",
    "state and start": "centred_start",
    "state and elapsed time": "centred_elapsed",
    "state, start and elapsed time": "centred_start_elapsed",
    "state and memory": "centred",
}
"""What a policy sees, as a value of policy.observation."""
HISTORY = "state and memory"
"""What a recurrent policy sees: it is shown the state alone, and remembers those of its mini-episode."""


def untrained(histories: Histories, spec: dict[str, Any]) -> Policy:
    """Return a policy with two hidden layers, of which the second remembers, if it is recurrent."""
    remembers = spec["sees"] == HISTORY
    kind, depth = ("recurrent", 1) if remembers else ("mlp", 2)
    size = NetworkSize(spec["width"], depth, "silu", kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec["seed"])
        return Policy(histories.shape, NUM_ACTIONS, size, scale=histories.scale)


@dataclass(frozen=True)
class HistoryLayer:
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
        observe = make_observation(observation, mdp)
        self.optima = solve(mdp)
        self.shape, self.scale = observe.shape, observe.scale
        self.layers: list[HistoryLayer] = []
        lengths = self.optima.lengths
        level = torch.arange(len(levels))
        spot, taken, time_left = mdp.start, torch.zeros_like(mdp.start), mdp.shutdown
        parent, coins = torch.zeros_like(spot), torch.zeros(len(spot), dtype=torch.float64)
        while len(spot):
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
            seen = observe(spot, taken, time_left)
            by_action = (numbers.reshape(shape) for numbers in (after, end, collected))
            self.layers.append(HistoryLayer(parent, seen, *by_action))
            kept = torch.zeros(len(children), dtype=torch.float64)
            kept[index] = collected[~over]
            parent, spot, taken, time_left = children.unbind(-1)
            coins, level = kept, level[parent]

    def play(self, policy: Policy) -> tuple[Lengths, Tensor]:
        """Return P(L = l) and E[C | L = l] of a policy [B, K], and the entropy of its actions [], summed over a
        mini-episode, the mean over levels: exactly, and with gradients.
        """
        shape = self.optima.lengths.shape
        sums = torch.zeros(2, shape[0] * shape[1], dtype=torch.float64)
        memory = torch.zeros(shape[0], 1, policy.memory)
        reach = torch.ones(shape[0], dtype=torch.float64)
        entropy = torch.zeros((), dtype=torch.float64)
        for layer in self.layers:
            logits = policy(layer.seen)
            if policy.memory:
                begins = torch.zeros(len(logits), 1, dtype=torch.bool)
                logits, memory = policy.recall(logits, begins, memory[layer.parent])
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


# ---------------------------------------------------------------------------------------- training


@dataclass
class Pairs:
    """Pairs of levels that share a state, and agents that are trained on them."""

    pairs: int = limited(at_least=1, default=24)
    """Sampled pairs, besides a pair made by hand in its eight symmetries."""
    lam: float = limited(above=0, at_most=1, default=0.9)
    episodes: int = limited(at_least=2, default=32)
    width: int = limited(at_least=1, default=64)
    updates: int = limited(at_least=1, default=2000)
    lr: float = limited(above=0, default=0.005)
    entropy: float = limited(at_least=0, default=0.2)
    """The weight of the entropy at the start."""


def pair_jobs(kinds: Pairs, sees: Sequence[str], seeds: int) -> dict[str, list[Job]]:
    """Return the training of agents on pairs of levels, by what they see, seed by seed."""
    pairs: Any = kinds
    values: Any = OmegaConf.to_container(pairs)
    return {
        name: [Job(name, f"{__name__}:train", {"seed": seed, "sees": name, **values}) for seed in range(seeds)]
        for name in sees
    }


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train on pairs of levels that share a state.

    arrays: ``usefulness`` and ``neutrality`` in each level [2 P], and ``bound`` [P], the most that (U + N) / 2 of a
    pair can be if the state alone is seen.
    """
    torch.set_num_threads(1)
    pairs = aliased.pairs(spec["pairs"])
    levels = [level for pair, _ in pairs for level in pair]
    histories = Histories(levels, OBSERVATIONS[spec["sees"]])
    policy = untrained(histories, spec)
    fit(policy, histories, spec)
    with torch.no_grad():
        found, _ = histories.play(policy)
    best = histories.optima.best_return
    arrays = {
        "usefulness": usefulness(found.probability, found.coins, best).numpy(),
        "neutrality": neutrality(found.probability).numpy(),
        "bound": np.array([bound for _, bound in pairs]),
    }
    return Result({}, arrays)


def fit(policy: Policy, histories: Histories, spec: dict[str, Any]) -> None:
    """Follow the gradient of the expected return, and of the entropy of actions, whose weight falls to 0."""
    reward = Reward(spec["lam"], 1.0, spec["episodes"])
    optima, updates = histories.optima, spec["updates"]
    optimiser = torch.optim.Adam(policy.parameters(), lr=spec["lr"])
    for update in range(updates):
        left = 1 - update / updates
        optimiser.param_groups[0]["lr"] = spec["lr"] * left
        found, entropy = histories.play(policy)
        preliminary = found.probability * reward.preliminary(found.coins, optima.best_return)
        value = reward.expected_return(found.probability, preliminary, optima.num_lengths, credit="mini")
        loss = -value.mean() / reward.episodes_per_meta - spec["entropy"] * left * entropy
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
