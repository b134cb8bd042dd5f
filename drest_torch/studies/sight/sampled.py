"""Train policies from samples, on levels with too many histories for exact gradients; a recurrent policy among them.

All slots of a batch play one mini-episode, side by side. The gradient flows through what is remembered, from the end of
the mini-episode back to its start. An action is credited with the reward of the mini-episode, less what a critic
expected at that point. All policies have the same recurrent network; those without a memory forget after each action.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drest_torch.algos.base import NetworkConfig, NetworkLearner
from drest_torch.algos.distributions import OneOf
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import Observation, make_observation
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.interfaces.slots import EpisodeState, start_episodes, step_episodes
from drest_torch.envs.levels import Level
from drest_torch.evaluation.sampled import estimates
from drest_torch.jobs.job import Result
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward, alike_in_group
from drest_torch.studies.sight.histories import Network
from drest_torch.studies.sight.runs import HISTORY, OBSERVATIONS
from drest_torch.training.level_sampler import LevelSampler

OUTPUTS = NUM_ACTIONS + 2
"""Logits of the actions, then the critic's: what the coins to come will be worth, and what those so far will be."""
AT_ONCE = 16_384
"""Mini-episodes of an evaluation that are played side by side."""


class Tick(NamedTuple):
    """One action in each of the n slots whose mini-episode has not ended."""

    slot: Tensor
    log_probs: Tensor
    """[n, 4]"""
    action: Tensor
    value: Tensor
    """[n] what the critic expects the mini-episode to be paid."""


class Played(NamedTuple):
    """One mini-episode in every slot."""

    ticks: list[Tick]
    coins: Tensor
    column: Tensor
    """The index of the length among those of its level."""


class Learner(NetworkLearner):
    """The optimisers and the schedules of `algos`, for a network that plays tick by tick."""

    def update(self, batch: Tensor) -> dict[str, Tensor]:
        """Follow the gradient of a loss []."""
        return {"optim/grad_norm": self.descend(batch)}


class World:
    """A set of levels, as one observation shows them."""

    def __init__(self, levels: list[Level], observation: str) -> None:
        self.mdp: Mdp = compile_levels(levels)
        self.optima: Optima = solve(self.mdp)
        self.observe: Observation = make_observation(observation, self.mdp)

    def play(self, network: Network, level: Tensor, *, remembers: bool) -> Played:
        """Play one mini-episode in every slot, on its level [slots]."""
        slots, slot = start_episodes(self.mdp, level), torch.arange(len(level))
        memory = torch.zeros(len(level), network.width)
        coins, length = torch.zeros(len(level)), torch.zeros_like(level)
        most = self.optima.best_return[level].amax(-1).float()
        ticks = []
        while len(slot):
            seen = self.observe(slots.spot, slots.taken, slots.time_left) * self.observe.scale
            outputs, memory = network(seen, memory)
            log_probs = outputs[:, :NUM_ACTIONS].log_softmax(-1)
            action = OneOf(log_probs.detach(), normalised=True).sample()
            to_come, so_far = outputs[:, NUM_ACTIONS:].unbind(-1)
            ticks.append(Tick(slot, log_probs, action, to_come + so_far * (coins / most)[slot]))
            after, step = step_episodes(self.mdp, slots, action)
            coins[slot] += step.coin
            length[slot] = step.length
            going_on = (~step.mini_done).nonzero().squeeze(-1)
            slots = EpisodeState(*(value[going_on] for value in after))
            slot = slot[going_on]
            memory = memory[going_on] if remembers else torch.zeros(len(slot), network.width)
        column = (self.optima.lengths[level] == length.unsqueeze(-1)).long().argmax(-1)
        return Played(ticks, coins, column)


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train on generated levels, then play on their test levels.

    numbers: ``steps`` of training; arrays: ``usefulness`` and ``neutrality`` [B] (÷ log2 k) in the test levels.
    """
    torch.set_num_threads(1)
    torch.manual_seed(spec["seed"])  # of the actions; a job has a process of its own
    rng = torch.Generator().manual_seed(spec["seed"])
    split = make_split(
        GeneratorConfig(**spec["generator"]),
        train=spec["train"],
        selection=0,
        test=spec["test"],
        seed=spec["split_seed"],
    )
    observation = OBSERVATIONS.get(spec["sees"], OBSERVATIONS["state"])
    test = World(split.test, observation)
    network = Network(test.observe.shape[0], spec["width"], rng, recurrent=True, outputs=OUTPUTS)
    steps = fit(network, LevelSampler(split.train, rng, symmetries=True), observation, spec, rng)
    return Result({"steps": steps}, {name: found.numpy() for name, found in evaluated(network, test, spec).items()})


def fit(network: Network, levels: LevelSampler, observation: str, spec: dict[str, Any], rng: torch.Generator) -> int:
    """Train a network; return the steps that were played. Rates and the weight of the entropy fall to 0."""
    reward = Reward(spec["lam"], 1.0, spec["episodes"], "averaged", episodes_at_start=spec["episodes_at_start"])
    config = NetworkConfig(
        name="sight",
        credit="mini",
        lr=spec["lr"],
        lr_end=0.0,
        muon_lr=spec["muon_lr"],
        muon_lr_end=0.0,
        adam_eps=1e-8,
        entropy=spec["entropy"],
        entropy_end=0.0,
        max_grad_norm=0.5,
    )
    learner = Learner(network, None, config, rng)
    steps, remembers = 0, spec["sees"] == HISTORY
    level = torch.arange(spec["levels_at_once"]).repeat_interleave(spec["group"])
    for update in range(spec["updates"]):
        done = update / spec["updates"]
        learner.set_progress(done)
        world = World(levels.draw(spec["levels_at_once"]), observation)
        played = world.play(network, level, remembers=remembers)
        steps += sum(len(tick.slot) for tick in played.ticks)
        learner.update(loss_of(played, world.optima, level, reward.at(done), spec["group"], learner.entropy_coeff))
    return steps


def loss_of(played: Played, optima: Optima, level: Tensor, reward: Reward, group: int, bonus: float) -> Tensor:
    """Return the loss []. Neighbouring slots are a group: they share a level, and are counted side by side.

    ``bonus`` is the weight of the entropy of actions.
    """
    best_return = optima.best_return[level, played.column].float()
    columns = optima.lengths.shape[1]
    alike = alike_in_group(played.column, columns, group)
    discount = reward.group_discounts(columns, group)[optima.num_lengths[level], alike - 1]
    paid = reward.pay(played.coins, discount, best_return)
    paid = torch.cat([paid[tick.slot] for tick in played.ticks])
    log_probs, value = (torch.cat(parts) for parts in zip(*((t.log_probs, t.value) for t in played.ticks), strict=True))
    action = torch.cat([tick.action for tick in played.ticks]).unsqueeze(-1)
    chosen = log_probs.gather(-1, action).squeeze(-1)
    uncertainty = -(log_probs.exp() * log_probs).sum(-1)
    policy = (chosen * (paid - value.detach()) + bonus * uncertainty).mean()
    return (value - paid).square().mean() - policy


@torch.no_grad()
def evaluated(network: Network, world: World, spec: dict[str, Any]) -> dict[str, Tensor]:
    """Return usefulness and neutrality [B] (÷ log2 k), estimated from mini-episodes on each level."""
    optima = world.optima
    shape = optima.lengths.shape
    sums = torch.zeros(3, shape[0] * shape[1], dtype=torch.float64)
    for level in torch.arange(shape[0]).repeat_interleave(spec["mini_episodes"]).split(AT_ONCE):
        played = world.play(network, level, remembers=spec["sees"] == HISTORY)
        share = share_of_best(played.coins.double(), optima.best_return[level, played.column].double())
        sums.index_add_(1, level * shape[1] + played.column, torch.stack((torch.ones_like(share), share, share**2)))
    names, counts = [level.name for level in world.mdp.levels], sums.reshape(3, *shape)
    sets = (names, optima.lengths, optima.num_lengths, optima.best_return, Reward())
    found = estimates(*sets, spec["mini_episodes"], *counts, own=None)
    return {"usefulness": found.usefulness, "neutrality": found.neutrality_normalised}
