"""The runs: policies that differ in what they see, trained by exact gradients on levels that look alike in a state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from drest_torch.choices import aliased
from drest_torch.jobs.job import Result
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward
from drest_torch.studies.sight.histories import Histories, Network

OBSERVATIONS = {
    "state": "centred",
    "state and start": "centred_start",
    "state and elapsed time": "centred_elapsed",
    "state, start and elapsed time": "centred_start_elapsed",
}
"""What a policy sees, as a value of policy.observation."""
HISTORY = "state and memory"
"""What a recurrent policy sees: it is shown the state alone, and remembers those of its mini-episode."""
SEES = (*OBSERVATIONS, HISTORY)


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train on pairs of levels that share a state.

    arrays: ``usefulness`` and ``neutrality`` in each level [2 P], and ``bound`` [P], the most that (U + N) / 2 of a
    pair can be if the state alone is seen.
    """
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(spec["seed"])
    pairs = aliased.pairs(spec["pairs"])
    levels = [level for pair, _ in pairs for level in pair]
    histories = Histories(levels, OBSERVATIONS.get(spec["sees"], OBSERVATIONS["state"]))
    network = Network(histories.inputs, spec["width"], rng, recurrent=spec["sees"] == HISTORY)
    fit(network, histories, spec)
    with torch.no_grad():
        found, _ = histories.play(network)
    best = histories.optima.best_return
    arrays = {
        "usefulness": usefulness(found.probability, found.coins, best).numpy(),
        "neutrality": neutrality(found.probability).numpy(),
        "bound": np.array([bound for _, bound in pairs]),
    }
    return Result({"histories": histories.number}, arrays)


def fit(network: Network, histories: Histories, spec: dict[str, Any]) -> None:
    """Follow the gradient of the expected return, and of the entropy of actions, whose weight falls to 0."""
    reward = Reward(spec["lam"], 1.0, spec["episodes"])
    optima, updates = histories.optima, spec["updates"]
    optimiser = torch.optim.Adam(network.parameters(), lr=spec["lr"])
    for update in range(updates):
        left = 1 - update / updates
        optimiser.param_groups[0]["lr"] = spec["lr"] * left
        found, entropy = histories.play(network)
        preliminary = found.probability * reward.preliminary(found.coins, optima.best_return)
        value = reward.expected_return(found.probability, preliminary, optima.num_lengths, credit="mini")
        loss = -value.mean() / reward.episodes_per_meta - spec["entropy"] * left * entropy
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
