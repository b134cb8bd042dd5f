"""Train agents that remember: a table over the difference of counts exactly, a recurrent network from samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.choices import memory
from drest_torch.choices.memory import Remembered
from drest_torch.jobs.job import Result
from drest_torch.reward import Reward

SEES = ("nothing", "counts", "history")
PAID_BY = ("own counts", "own counts, meta credit", "the group", "the counts of another copy")
EVALUATED = 4096
"""Meta-episodes that a recurrent agent is evaluated on."""


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train one agent; its numbers are those of `Remembered`."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(spec["seed"])
    found = recurrent(spec, rng) if spec["sees"] == "history" else table(spec, rng)
    return Result(asdict(found))


# -------------------------------------------------------------------------------------------- a table


def table(spec: dict[str, Any], rng: torch.Generator) -> Remembered:
    """Train a table: one probability for each difference of counts, up to ``window`` in size, by exact gradients."""
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
    """Return the function whose gradient is followed, from the probability of the longer length given d."""
    episodes, lam, paid_by = spec["episodes"], spec["lam"], spec["paid_by"]
    payments = memory.payments(episodes, lam)

    def value(probability: Tensor) -> Tensor:
        visits = memory.reachable(probability, episodes)
        if paid_by != PAID_BY[1]:  # a mini-episode is not credited with those after it
            visits = visits.detach()
        expected = memory.chances(probability)
        if paid_by == PAID_BY[2]:
            rewards = grouped((visits * probability.detach()).sum(-1), spec["group"], episodes, lam)  # [2, E]
        elif paid_by == PAID_BY[3]:
            rewards = (visits * payments.unsqueeze(1)).sum(-1)
        else:
            return (visits * (expected * payments).sum(0)).sum()
        return ((visits * expected.unsqueeze(1)).sum(-1) * rewards).sum()

    return value


def grouped(marginal: Tensor, group: int, episodes: int, lam: float) -> Tensor:
    """Return the expected discount [2, E] of each length where groups are counted, side by side.

    The others of the group choose the longer length with the ``marginal`` probability [E], independently.
    """
    discounts = Reward(lam, 1.0, episodes, "averaged").group_discounts(memory.LENGTHS, group)[memory.LENGTHS].double()
    alike = torch.arange(group, dtype=torch.float64)
    ways = torch.distributions.Binomial(group - 1, memory.chances(marginal).clamp(1e-12, 1 - 1e-12).unsqueeze(-1))
    return (ways.log_prob(alike).exp() * discounts).sum(-1)


# -------------------------------------------------------------------------------- a recurrent network


class Recurrent(nn.Module):
    """A GRU that is told its last choice, and says how likely the longer length is."""

    def __init__(self, width: int, rng: torch.Generator, resets: bool) -> None:
        super().__init__()
        self.cell, self.head, self.resets = nn.GRUCell(LAST, width), nn.Linear(width, 1), resets
        with torch.no_grad():
            for weight in self.parameters():
                weight.uniform_(-(width**-0.5), width**-0.5, generator=rng)
            self.head.weight.mul_(0.1)
            self.head.bias.zero_()

    def play(self, copies: int, episodes: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return [E, copies] the logits of the longer length, and whether it was chosen."""
        state, last = torch.zeros(copies, self.cell.hidden_size), torch.zeros(copies, LAST)
        logits, chosen = [], []
        for _ in range(episodes):
            state = self.cell(last, state)
            logits.append(self.head(state).squeeze(-1))
            longer = torch.rand(copies, generator=rng) < logits[-1].detach().sigmoid()
            chosen.append(longer)
            if self.resets:  # what it remembers ends with the mini-episode
                state = torch.zeros_like(state)
            else:
                last = torch.nn.functional.one_hot(longer.long(), LAST).float()
        return torch.stack(logits), torch.stack(chosen)


LAST = 2


def recurrent(spec: dict[str, Any], rng: torch.Generator) -> Remembered:
    """Train a recurrent network from sampled meta-episodes; what it does is estimated."""
    network = Recurrent(spec["width"], rng, spec["resets"])
    optimiser = torch.optim.Adam(network.parameters(), lr=spec["lr"])
    for _ in range(spec["updates"]):
        logits, longer = network.play(spec["copies"], spec["episodes"], rng)
        rewards = paid(longer, spec)
        advantage = (rewards - rewards.mean(1, keepdim=True)) / rewards.std().clamp_min(1e-6)
        log_prob = -torch.nn.functional.softplus(torch.where(longer, -logits, logits))
        optimiser.zero_grad()
        (-(log_prob * advantage).mean()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    with torch.no_grad():
        logits, longer = network.play(EVALUATED, spec["episodes"], rng)
    probability = logits.double().sigmoid()
    return Remembered(
        memory.binary_entropy(probability.mean(1)).mean().item(),
        memory.binary_entropy(probability).mean().item(),
        memory.chances(probability).amax(0).mean().item(),
        paid(longer, spec | {"paid_by": PAID_BY[0]}).mean().item(),
    )


def paid(longer: Tensor, spec: dict[str, Any]) -> Tensor:
    """Return the rewards [E, copies] of mini-episodes, credited as the agent's reward has it."""
    lam, paid_by = spec["lam"], spec["paid_by"]
    step = 2.0 * longer - 1
    difference = step.cumsum(0) - step  # before each mini-episode
    if paid_by == PAID_BY[2]:
        discounts = Reward(lam, 1.0, spec["episodes"], "averaged").group_discounts(memory.LENGTHS, spec["group"])
        together = longer.reshape(len(longer), -1, spec["group"])
        alike = torch.where(together, together.sum(-1, keepdim=True), (~together).sum(-1, keepdim=True)) - 1
        return discounts[memory.LENGTHS][alike].reshape(longer.shape)
    if paid_by == PAID_BY[3]:
        difference = difference.roll(1, dims=1)
    rewards: Tensor = lam ** (step * difference / 2)
    return rewards.flip(0).cumsum(0).flip(0) if paid_by == PAID_BY[1] else rewards
