"""A single world as a table of transitions, for the tabular algorithm."""

from __future__ import annotations

import torch

from drest_torch.algos.tabular_kernel import World
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.exact.solver import Optima
from drest_torch.errors import ConfigError

MAX_ROWS = 1 << 20
"""The largest number of rows of a table."""


def tabulate(mdp: Mdp, optima: Optima) -> World:
    """Return the only level as tables, with a row for each cell and set of taken coins and buttons, and a column for
    each action."""
    cells, bits = mdp.num_cells, mdp.num_objects
    rows = cells << bits
    if rows > MAX_ROWS:
        raise ConfigError(
            f"{mdp.levels[0].place}: {cells} cells and {bits} coins and buttons make a table of {rows:,} rows; "
            f"algo=tabular is for up to {MAX_ROWS:,}, use algo=ppo"
        )
    if mdp.has_lotteries:
        raise ConfigError(
            f"{mdp.levels[0].place} has lotteries, which algo=tabular does not play; use algo=ppo, or buttons such as "
            "B4@0.5"
        )
    row = torch.arange(rows).unsqueeze(-1).expand(rows, NUM_ACTIONS)
    action = torch.arange(NUM_ACTIONS).expand(row.shape)
    spot = row >> bits
    taken = row & ((1 << bits) - 1)
    arrival = mdp.advance(spot, taken, action)
    lengths = optima.lengths[0]
    column = torch.zeros(mdp.max_time + 1, dtype=torch.long)
    column[lengths] = torch.arange(len(lengths))
    return World(
        target=((arrival.spot << bits) | arrival.taken).numpy(),
        coin=arrival.coin.numpy(),
        ticks=torch.as_tensor(arrival.ticks).expand(row.shape).contiguous().numpy(),
        delay=arrival.delay.numpy(),
        chance=mdp.chance[arrival.spot].numpy(),
        start=int(mdp.start) << bits,
        shutdown=int(mdp.shutdown),
        column=column.numpy(),
    )
