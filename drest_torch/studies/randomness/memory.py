"""Agents that remember earlier mini-episodes, and choose between two lengths that both pay their m.

Some are tables over the difference of counts, trained by exact gradients; others are recurrent policies, trained from
samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.choices import memory
from drest_torch.choices.memory import MemoryMeasures
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.reward import Reward
from drest_torch.studies.engine import value
from drest_torch.studies.shared import check_names

SEES = ("nothing", "counts", "history")
"""Observations: ``counts`` is the difference of both counts, up to `window`; ``history`` is the last choice, from which
a recurrent network can remember all choices."""
PAID_BY = ("own counts", "own counts, meta credit", "the group")
"""Rewards: with meta credit, a mini-episode is also credited with later ones; a group counts side by side."""
EVALUATED = 4096
"""The number of meta-episodes that evaluate a recurrent agent."""
NO_MEMORY, COUNTS, META = "no memory", "counts", "counts, meta credit"
COUNTS_AVERAGED, FORGETS, AVERAGED = (
    "counts, averaged counting",
    "recurrent, forgets",
    "recurrent, averaged counting",
)


@dataclass
class MemoryAgents:
    """Agents with and without a memory of earlier mini-episodes."""

    lam: float = limited(above=0, at_most=1, default=0.9)
    """λ."""
    episodes: int = limited(at_least=2, default=64)
    """E."""
    common: dict[str, Any] = value(
        {
            "sees": "counts",
            "paid_by": PAID_BY[0],
            "window": 3,
            "group": 16,
            "lr": 4.0,
            "updates": 2000,
            "width": 16,
            "copies": 256,  # meta-episodes of an update
            "resets": False,  # True: a network forgets when a mini-episode ends
        }
    )
    """Values of all kinds of agents, which a kind can override."""
    agents: dict[str, dict[str, Any]] = value(
        {
            NO_MEMORY: {"sees": "nothing"},
            COUNTS: {},
            META: {"paid_by": PAID_BY[1]},
            COUNTS_AVERAGED: {"paid_by": PAID_BY[2]},
            "recurrent": {"sees": "history", "lr": 0.003, "updates": 400},
            FORGETS: {"sees": "history", "lr": 0.003, "updates": 400, "resets": True},
            AVERAGED: {"sees": "history", "lr": 0.003, "updates": 400, "paid_by": PAID_BY[2]},
        }
    )
    """The kinds of agents."""


def memory_jobs(kinds: MemoryAgents, seeds: int) -> dict[str, list[Job]]:
    """Return the training of each kind of agents, by seed."""
    planned = {}
    for kind, values in kinds.agents.items():
        spec: Any = OmegaConf.to_container(OmegaConf.merge(kinds.common, values))
        check_names(f"study.memory.agents: '{kind}' sees", [spec["sees"]], SEES)
        check_names(f"study.memory.agents: '{kind}' is paid by", [spec["paid_by"]], PAID_BY)
        spec |= {"lam": kinds.lam, "episodes": kinds.episodes}
        planned[kind] = [Job(f"{kind}-{seed}", f"{__name__}:train", spec | {"seed": seed}) for seed in range(seeds)]
    return planned


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train one agent; the numbers are the fields of `MemoryMeasures`."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(spec["seed"])
    train_agent = recurrent if spec["sees"] == "history" else table
    return Result(asdict(train_agent(spec, rng)))


def table(spec: dict[str, Any], rng: torch.Generator) -> MemoryMeasures:
    """Train a table by exact gradients: one probability for each difference of counts, up to ``window`` in size."""
    episodes, lam = spec["episodes"], spec["lam"]
    window = 0 if spec["sees"] == "nothing" else spec["window"]
    row = memory.differences(episodes).clamp(-window, window).long() + window
    logits = (0.2 * torch.randn(2 * window + 1, generator=rng, dtype=torch.float64)).requires_grad_()
    optimiser = torch.optim.SGD([logits], lr=spec["lr"] / episodes)
    value = objective(spec)
    for _ in range(spec["updates"]):
        optimiser.zero_grad()
        (-value(logits.sigmoid()[row])).backward()
        optimiser.step()
    return memory.measure(logits.detach().sigmoid()[row], episodes, lam)


def objective(spec: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """Return the objective: a function of the probability of the longer length given the difference of counts."""
    episodes, lam, paid_by = spec["episodes"], spec["lam"], spec["paid_by"]
    payments = memory.rewards(episodes, lam)

    def value(probability: Tensor) -> Tensor:
        visits = memory.memory_distribution(probability, episodes)
        if paid_by != PAID_BY[1]:  # a mini-episode is not credited with later ones
            visits = visits.detach()
        expected = memory.length_probabilities(probability)
        if paid_by != PAID_BY[2]:
            return (visits * (expected * payments).sum(0)).sum()
        rewards = grouped((visits * probability.detach()).sum(-1), spec["group"], episodes, lam)  # [2, E]
        return ((visits * expected.unsqueeze(1)).sum(-1) * rewards).sum()

    return value


def grouped(marginal: Tensor, group: int, episodes: int, lam: float) -> Tensor:
    """Return the expected discount [2, E] of each length if the mini-episodes of a group of agents are counted
    together.

    The other agents of the group choose the longer length independently, with the ``marginal`` probability [E].
    """
    discounts = Reward(lam, 1.0, episodes, "averaged").group_discounts(memory.LENGTHS, group)[memory.LENGTHS].double()
    alike = torch.arange(group, dtype=torch.float64)
    ways = torch.distributions.Binomial(
        group - 1, memory.length_probabilities(marginal).clamp(1e-12, 1 - 1e-12).unsqueeze(-1)
    )
    return (ways.log_prob(alike).exp() * discounts).sum(-1)


def untrained(width: int, seed: int) -> Policy:
    """Return a recurrent policy that maps the last choice to the logit of the longer length."""
    size = NetworkSize(width, depth=1, activation="silu", network="recurrent")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Policy((memory.LENGTHS,), 1, size, scale=torch.ones(memory.LENGTHS))


def play(policy: Policy, copies: int, spec: dict[str, Any], rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the logits of the longer length and the choices [E, copies]."""
    state, last = torch.zeros(copies, 1, policy.memory), torch.zeros(copies, memory.LENGTHS)
    forgets = torch.full((copies, 1), spec["resets"])  # the memory ends with the mini-episode
    logits, chosen = [], []
    for _ in range(spec["episodes"]):
        outputs, state = policy.recall(policy(last), forgets, state)
        logits.append(outputs.squeeze(-1))
        longer = torch.rand(copies, generator=rng) < logits[-1].detach().sigmoid()
        chosen.append(longer)
        if not spec["resets"]:
            last = nn.functional.one_hot(longer.long(), memory.LENGTHS).float()
    return torch.stack(logits), torch.stack(chosen)


def recurrent(spec: dict[str, Any], rng: torch.Generator) -> MemoryMeasures:
    """Train a recurrent policy on sampled meta-episodes, and estimate its measures from samples."""
    policy = untrained(spec["width"], spec["seed"])
    optimiser = torch.optim.Adam(policy.parameters(), lr=spec["lr"])
    for _ in range(spec["updates"]):
        logits, longer = play(policy, spec["copies"], spec, rng)
        rewards = paid(longer, spec)
        advantage = (rewards - rewards.mean(1, keepdim=True)) / rewards.std().clamp_min(1e-6)
        log_prob = -nn.functional.softplus(torch.where(longer, -logits, logits))
        optimiser.zero_grad()
        (-(log_prob * advantage).mean()).backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
    with torch.no_grad():
        logits, longer = play(policy, EVALUATED, spec, rng)
    probability = logits.double().sigmoid()
    return MemoryMeasures(
        memory.binary_entropy(probability.mean(1)).mean().item(),
        memory.binary_entropy(probability).mean().item(),
        memory.length_probabilities(probability).amax(0).mean().item(),
        paid(longer, spec | {"paid_by": PAID_BY[0]}).mean().item(),
    )


def paid(longer: Tensor, spec: dict[str, Any]) -> Tensor:
    """Return the rewards [E, copies] of mini-episodes, by the agent's reward."""
    lam, paid_by = spec["lam"], spec["paid_by"]
    step = 2.0 * longer - 1
    difference = step.cumsum(0) - step  # before each mini-episode
    if paid_by == PAID_BY[2]:
        discounts = Reward(lam, 1.0, spec["episodes"], "averaged").group_discounts(memory.LENGTHS, spec["group"])
        together = longer.reshape(len(longer), -1, spec["group"])
        alike = torch.where(together, together.sum(-1, keepdim=True), (~together).sum(-1, keepdim=True)) - 1
        return discounts[memory.LENGTHS][alike].reshape(longer.shape)
    rewards: Tensor = lam ** (step * difference / 2)
    return rewards.flip(0).cumsum(0).flip(0) if paid_by == PAID_BY[1] else rewards
