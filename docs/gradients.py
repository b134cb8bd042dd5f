"""The tables of docs/explanation/from-samples.md: python docs/gradients.py [RUN]

Compares the gradient of one batch of sampled mini-episodes with the exact gradient on the same levels, for the agent of
a run (by default the one that ships), which must have no private bit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from drest_torch import Agent
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level
from drest_torch.gridworlds import Gridworlds
from drest_torch.reward import Reward
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import LevelSampler
from drest_torch.transforms.base import played

LEVELS = 64
"""Levels of a batch, as many as `algo=generalist` learns from at once."""
GROUPS = 4, 16, 64, 256
BATCHES = 8
AT_ONCE = 20_000


class Comparison:
    """The gradients of one policy on one set of levels."""

    def __init__(self, agent: Agent, levels: Sequence[Level], reward: Reward) -> None:
        self.policy, self.reward, self.levels = agent.policy, reward, levels
        self.mdp = compile_levels(levels, at_least=agent.map_size)
        self.optima, seen = solve(self.mdp), agent.cfg.policy.observation
        self.observe = make_observation(seen, self.mdp)
        source = LevelSampler(levels, torch.Generator())
        self.batch = ExactLevels(source, seen, reward=reward, at_once=len(levels), at_least=agent.map_size).draw()
        states = torch.arange(self.batch.states).split(AT_ONCE)
        self.logits = torch.cat([self.policy(self.batch.observe(part)) for part in states])
        self.probability, self.coins = self.batch.outcome(self.logits.softmax(-1).unsqueeze(0))

    def exact(self, credit: str) -> Tensor:
        """Return the exact gradient of the weights."""
        return self._gradient(self._objective(credit))

    def rarely_visited(self, slots: int) -> float:
        """Return the share of the exact gradient, by squares, in states that fewer than one of these slots visits."""
        (gradient,) = torch.autograd.grad(self._objective("mini"), self.logits, retain_graph=True)
        rows = gradient.square().sum(-1)
        return (rows[self.batch.visits(self.logits.softmax(-1).detach()) < 1 / slots].sum() / rows.sum()).item()

    def sampled(self, group: int, seed: int) -> list[Tensor]:
        """Return the gradients of one batch with this many slots on each level: with the discounts that follow from
        its counts, and with those that follow from the exact P(L = l)."""
        level = torch.arange(len(self.levels)).repeat_interleave(group)
        worlds = Gridworlds.on(self.mdp, self.optima, self.observe, slots=len(level), group=group)
        worlds.pay(self.reward)
        worlds.base.play_on(level)
        batch = worlds.collector(worlds.actor(self.policy)).collect(torch.Generator().manual_seed(seed))
        assert worlds.drest is not None
        episodes = worlds.drest.mini_episodes(batch)
        assert episodes.best_return is not None
        known = self.reward.expected_discount(self.probability, self.optima.num_lengths.unsqueeze(-1))
        known = known.detach()[level, episodes.length[:, 0]] / self.reward.episodes_per_meta
        coins = batch["next", "reward_raw"].sum((1, 2))
        paid = batch["next", "reward"].sum((1, 2)), self.reward.pay(coins, known, episodes.best_return[:, 0])
        live = played(batch)
        log_prob = self.policy(self.observe(*self.mdp.states.of(batch["state"][live]))).log_softmax(-1)
        log_prob = log_prob.gather(-1, batch["action"][live].unsqueeze(-1)).squeeze(-1)
        slot = live.nonzero()[:, 0]
        return [self._gradient((log_prob * (reward - reward.mean())[slot]).sum() / len(level)) for reward in paid]

    def _objective(self, credit: str) -> Tensor:
        preliminary = self.reward.preliminary(self.coins, self.batch.best_return)
        returns = self.reward.expected_return(self.probability, preliminary, self.batch.num_lengths, credit=credit)
        return returns.mean() / self.reward.episodes_per_meta

    def _gradient(self, objective: Tensor) -> Tensor:
        gradients = torch.autograd.grad(objective, list(self.policy.parameters()), retain_graph=True)
        return torch.cat([gradient.flatten() for gradient in gradients])


def agreement(gradients: Sequence[Tensor], exact: Tensor) -> str:
    """Return the mean cosine of the angles between gradients and the exact one."""
    return f"{sum(torch.cosine_similarity(each, exact, dim=0).item() for each in gradients) / len(gradients):.2f}"


def main(arguments: Sequence[str]) -> None:
    agent = Agent.load(arguments[0] if arguments else "generalist")
    reward = Reward(agent.reward.lam, episodes_per_meta=agent.reward.episodes_per_meta, counting="averaged")
    cfg = compose(f"levels={agent.cfg.levels.name}")
    cfg.levels.train, cfg.levels.selection, cfg.levels.test = LEVELS, 0, 0
    from drest_torch.building import levels as data

    found = Comparison(agent, data.load(cfg).train, reward)
    exact = found.exact("mini")
    print("| slots on a level | as counted | from the exact P(L = l) | of the gradient, in states rarely visited |")
    print("| --- | --- | --- | --- |")
    for group in GROUPS:
        counted, known = zip(*[found.sampled(group, seed) for seed in range(BATCHES)], strict=True)
        rare = f"{100 * found.rarely_visited(group):.1f} %"
        print(f"| {group} | {agreement(counted, exact)} | {agreement(known, exact)} | {rare} |")
    print(f"\nmini-episode against meta-episode credit, both exact: {agreement([found.exact('meta')], exact)}")


if __name__ == "__main__":
    main(sys.argv[1:])
