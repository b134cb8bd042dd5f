"""Exact evaluation of policies that remember their mini-episode: a short level is unrolled into all its histories.

A history is the sequence of states that a policy has observed since the mini-episode began. Levels are deterministic,
so each has finitely many histories, and the probability of a history is the product of the probabilities of its
actions. Gradients are exact, as those of state-only policies are (`drest_torch.envs.exact.propagator`), but there are
far more histories than states. `train` trains such a policy on pairs of levels that share a state.
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
"""Observations of a policy, as values of policy.observation."""
HISTORY = "state and memory"
"""The observation of a recurrent policy: the state alone; it remembers earlier states of the mini-episode."""


def untrained(histories: Histories, spec: dict[str, Any]) -> Policy:
    """Return a policy with two hidden layers; the second layer of a recurrent policy has memory."""
    remembers = spec["sees"] == HISTORY
    kind, depth = ("recurrent", 1) if remembers else ("mlp", 2)
    size = NetworkSize(spec["width"], depth, "silu", kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec["seed"])
        return Policy(histories.shape, NUM_ACTIONS, size, scale=histories.scale)


@dataclass(frozen=True)
class HistoryLayer:
    """All n histories of the same number of steps."""

    parent: Tensor
    """[n], the index of the history in the previous layer."""
    observation: Tensor
    """[n, F], the observation of the last state."""
    after: Tensor
    """[n, 4], the index in the next layer after each action; −1 if the action ends the mini-episode."""
    end: Tensor
    """[n, 4], level · K + the column of the length if the action ends the mini-episode; otherwise −1."""
    coins: Tensor
    """[n, 4], the coins collected after each action."""


class Histories:
    """All histories of deterministic levels, layer by layer, with the observations of a policy."""

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
            actions = torch.arange(NUM_ACTIONS).repeat(len(spot))  # [4 n]
            history = torch.arange(len(spot)).repeat_interleave(NUM_ACTIONS)  # [4 n]
            arrival = mdp.advance(spot[history], taken[history], actions)
            time_after = mdp.time_after(time_left[history], arrival)
            collected = coins[history] + arrival.coin
            over = time_after == 0
            length = torch.full_like(time_after, len(self.layers) + 1)
            column = (lengths[level[history]] == length.unsqueeze(-1)).long().argmax(-1)
            end = torch.where(over, level[history] * lengths.shape[1] + column, -1)
            # Actions that lead to the same state make the same history.
            states = torch.stack((history, arrival.spot, arrival.taken, time_after), -1)[~over]
            children, index = torch.unique(states, dim=0, return_inverse=True)
            after = torch.full_like(end, -1)
            after[~over] = index
            shape = (len(spot), NUM_ACTIONS)
            observations = observe(spot, taken, time_left)
            by_action = (numbers.reshape(shape) for numbers in (after, end, collected))
            self.layers.append(HistoryLayer(parent, observations, *by_action))
            coins = torch.zeros(len(children), dtype=torch.float64)
            coins[index] = collected[~over]
            parent, spot, taken, time_left = children.unbind(-1)
            level = level[parent]

    def play(self, policy: Policy) -> tuple[Lengths, Tensor]:
        """Return P(L = l) and E[C | L = l] of a policy [B, K], and the entropy of its actions [], exactly.

        The entropy is summed over a mini-episode and averaged over levels. All results are differentiable.
        """
        shape = self.optima.lengths.shape
        sums = torch.zeros(2, shape[0] * shape[1], dtype=torch.float64)
        memory = torch.zeros(shape[0], 1, policy.memory)
        reach = torch.ones(shape[0], dtype=torch.float64)
        entropy = torch.zeros((), dtype=torch.float64)
        for layer in self.layers:
            logits = policy(layer.observation)
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
    """Return the training of agents on pairs of levels, by observation, one job for each seed."""
    pairs: Any = kinds
    values: Any = OmegaConf.to_container(pairs)
    return {
        name: [Job(name, f"{__name__}:train", {"seed": seed, "sees": name, **values}) for seed in range(seeds)]
        for name in sees
    }


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train a policy on pairs of levels that share a state.

    arrays: ``usefulness`` and ``neutrality`` in each level [2 P], and ``bound`` [P], the upper bound on the mean of
    (U + N) / 2 in a pair for state-only policies.
    """
    torch.set_num_threads(1)
    pairs = aliased.pairs(spec["pairs"])
    levels = [level for pair, _ in pairs for level in pair]
    histories = Histories(levels, OBSERVATIONS[spec["sees"]])
    policy = untrained(histories, spec)
    fit(policy, histories, spec)
    with torch.no_grad():
        lengths, _ = histories.play(policy)
    best = histories.optima.best_return
    arrays = {
        "usefulness": usefulness(lengths.probability, lengths.coins, best).numpy(),
        "neutrality": neutrality(lengths.probability).numpy(),
        "bound": np.array([bound for _, bound in pairs]),
    }
    return Result({}, arrays)


def fit(policy: Policy, histories: Histories, spec: dict[str, Any]) -> None:
    """Optimise the expected return plus a bonus for the entropy of actions; the bonus falls to 0."""
    reward = Reward(spec["lam"], 1.0, spec["episodes"])
    optima, updates = histories.optima, spec["updates"]
    optimiser = torch.optim.Adam(policy.parameters(), lr=spec["lr"])
    for update in range(updates):
        remaining = 1 - update / updates
        optimiser.param_groups[0]["lr"] = spec["lr"] * remaining
        lengths, entropy = histories.play(policy)
        preliminary = lengths.probability * reward.preliminary(lengths.coins, optima.best_return)
        value = reward.expected_return(lengths.probability, preliminary, optima.num_lengths, credit="mini")
        loss = -value.mean() / reward.episodes_per_meta - spec["entropy"] * remaining * entropy
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
