"""The memory that exact evaluation and exact gradients take, and levels for which there is not enough."""

from __future__ import annotations

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.solver import check_searchable
from drest_torch.envs.exact.state_count import StateCounts, estimate_size
from drest_torch.envs.levels import LevelError

BYTES_PER_STATE = 640
"""Memory of exact evaluation per reachable state: 610 bytes measured, with 0.4 and with 2.4 million states."""


def check_size(mdp: Mdp, sizes: StateCounts, memory_gib: float | None) -> None:
    """Refuse levels that cannot be evaluated exactly within ``memory_gib``, or, with None, by sampling."""
    if memory_gib is None:
        check_searchable(mdp, sizes.states)
        return
    too_large = (sizes.states * BYTES_PER_STATE > memory_gib * 2**30).nonzero().squeeze(-1)
    if not len(too_large):
        return
    index = int(sizes.states.argmax())
    others = f" (the largest of {len(too_large):,} levels that are too large)" if len(too_large) > 1 else ""
    raise LevelError(
        f"{mdp.levels[index].place}{others} has {memory_text(int(sizes.states[index]))} and memory_gib={memory_gib:g}; "
        "evaluate by sampling (sampled=4096 plays 4,096 mini-episodes on each level), leave such levels out, or "
        "raise memory_gib"
    )


def check_at_once(mdp: Mdp, at_once: int, memory_gib: float, private_settings: int = 1) -> None:
    """Refuse a level set of which ``at_once`` levels do not fit into ``memory_gib`` for learning with exact gradients.

    ``private_settings`` is the number of settings of the private bits, each of which needs the memory once.
    """
    most = memory_gib * 2**30 / BYTES_PER_STATE / private_settings
    if at_once * ((mdp.num_cells * mdp.max_time) << mdp.num_objects) <= most:
        return
    states, index = estimate_size(mdp).states.topk(min(at_once, mdp.num_levels))
    if (total := int(states.sum())) > most:
        raise LevelError(
            f"a batch of up to {len(index):,} levels with {mdp.levels[int(index[0])].place} has "
            f"{memory_text(total, private_settings)} and memory_gib={memory_gib:g}; exact gradients cannot be "
            "sampled, so learn from fewer levels at once (algo.levels_at_once), from mini-episodes that are played "
            "(algo=ppo), or raise memory_gib"
        )


def memory_text(states: int, private_settings: int = 1) -> str:
    """Return the size of levels with this many states, and settings of the private bits, in the words of a message."""
    gib = f"{private_settings * states * BYTES_PER_STATE / 2**30:,.1f} GiB"
    gib += f" under {private_settings:,} settings of the private bits" if private_settings > 1 else ""
    if states > MAX_STATES:
        return f"more than {MAX_STATES:,} reachable states (estimated), for which exact evaluation takes over {gib},"
    return f"up to {states:,} reachable states (estimated), for which exact evaluation takes {gib},"
