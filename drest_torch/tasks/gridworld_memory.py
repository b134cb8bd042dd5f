"""Estimates of a gridworld run's memory before it trains: evaluation, networks, and the batch of an update.

The estimates are products of configured numbers, or sizes of tensors. `docs/explanation/scaling.md` has them as
formulas, beside measured peaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from drest_torch.algos.networks.policy import private_settings
from drest_torch.config.checks import batch_shape
from drest_torch.config.schema import Config, variations_of
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.earliest import StateCounts
from drest_torch.envs.exact.propagator import States
from drest_torch.envs.interfaces.slots import start_episodes, step_episodes
from drest_torch.evaluation.exact_evaluator import NUMBERS_AT_ONCE, STATES_AT_ONCE, observe_states
from drest_torch.evaluation.memory_guard import (
    BYTES_KEPT_PER_STATE,
    BYTES_PER_STATE,
    MemoryPart,
    RunMemory,
    free_memory,
    resident_memory,
)
from drest_torch.evaluation.sampled import SLOTS
from drest_torch.play import level_sets
from drest_torch.play.collector import Environment

COPIES_OF_BATCH = 3.5
"""Copies of a batch and its observations: the list of its steps, the batch, and the previous batch, whose memory the
allocator has not returned."""
COPIES_OF_ACTIVATIONS = 1.5
"""Copies of the activations saved for the backward pass, including intermediate gradients."""
LEVELS_PLAYED, SLOTS_PLAYED, ROWS_SHOWN = 64, 1 << 15, 64
"""The largest numbers of levels, slots and states in the estimate of a batch."""
COPIES_OF_ROWS = 3
"""Copies of the observations that a network runs on."""
BYTES_PER_LEVEL = 12_000
"""Memory of a level apart from its tensors, during generation and solution."""
FLOAT, WHOLE = 4, 8
"""Bytes of a 32-bit float and of a 64-bit integer."""
STEP = 114
"""Bytes of a step with averaged counting (`step_bytes`)."""
GIB = 2.0**30


def step_bytes(environment: Environment) -> int:
    """Return the bytes of a slot's step in a batch: observations before and after it, action, reward and counts."""
    env = environment.env
    before_and_after = _spec_bytes(env.full_observation_spec) + _spec_bytes(env.full_done_spec)
    reward, action = _spec_bytes(env.full_reward_spec), _spec_bytes(env.full_action_spec)
    whole = 2 * before_and_after + 2 * reward + action
    assert environment.drest is not None
    counts = 0
    if environment.drest.reward.counting == "sequential":
        counts = (1 + environment.shows_counts) * FLOAT * environment.num_lengths
    log_prob = FLOAT
    return whole // env.batch_size.numel() + log_prob + counts


def _spec_bytes(spec: Any) -> int:
    """Return the bytes of a spec's tensors."""
    return sum(leaf.shape.numel() * leaf.dtype.itemsize for leaf in spec.values(True, True))


def played_states(mdp: Mdp, slots: int, levels: int) -> tuple[States, int]:
    """Return the number of distinct states at each tick of random play on the first level, and its mean over levels.

    On each of the first levels, ``slots`` slots play one mini-episode.
    """
    levels = min(levels, mdp.num_levels, LEVELS_PLAYED)
    slots = max(1, min(slots, SLOTS_PLAYED // levels))
    rng = torch.Generator(mdp.device).manual_seed(0)
    level = torch.arange(levels, device=mdp.device).repeat_interleave(slots)
    now = start_episodes(mdp, level)
    plays = torch.ones_like(level, dtype=torch.bool)
    visited: list[Tensor] = []
    luck: Tensor | None = None
    for _ in range(mdp.max_time):
        number = mdp.states.number(now.spot, now.taken, now.time_left)
        visited.append(number[plays].unique())
        action = torch.randint(NUM_ACTIONS, level.shape, generator=rng, device=mdp.device)
        if mdp.any_chance:
            luck = torch.rand(level.shape, generator=rng, device=mdp.device)
        now, played = step_episodes(mdp, now, action, luck)
        plays &= ~played.mini_done
        if not plays.any():
            break
    numbers = torch.cat(visited)
    states = States(*mdp.states.decode(numbers))
    first = mdp.level_of(states.spot) == 0
    return states[first], math.ceil(len(numbers) / levels)


def saved_bytes(network: Callable[..., Tensor], *inputs: Tensor) -> float:
    """Return the bytes that a network saves for its backward pass, per row of its inputs.

    Memory that does not depend on the number of rows is excluded.
    """
    rows = len(inputs[0])
    first = [column[:1] for column in inputs]
    one_row = _saved(network, *first)
    all_rows = _saved(network, *inputs)
    return (all_rows - one_row) / max(1, rows - 1)


def _saved(network: Callable[..., Tensor], *inputs: Tensor) -> int:
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = min(tensor.nbytes, storage.nbytes())
        return tensor

    with torch.enable_grad(), saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = network(*inputs)  # keeps the saved tensors alive, so that no address occurs twice
    assert len(outputs) == len(inputs[0])
    return sum(storages.values())


@dataclass(frozen=True)
class BatchMemory:
    """The sizes of a batch [slots, time] of sampled mini-episodes, and of learning from it."""

    slots: int
    slots_of_level: int
    ticks: int
    step: int
    """Bytes of a slot's step."""
    rows: int
    """Distinct states summed over ticks; each is observed once."""
    row: int
    """Bytes of an observation."""
    saved: float
    """Bytes that the networks save for the backward pass, per row."""
    minibatches: int

    @property
    def collected(self) -> int:
        """The bytes of the batch's tensors."""
        return self.slots * self.ticks * self.step

    @property
    def observed(self) -> int:
        """The bytes of the observations."""
        return self.rows * self.row

    @property
    def bytes(self) -> float:
        """The peak memory of an update."""
        learned = self.saved * self.rows / self.minibatches
        return COPIES_OF_BATCH * (self.collected + self.observed) + COPIES_OF_ACTIVATIONS * learned


def batch_memory(cfg: Config, mdp: Mdp, observe: Observation, environment: Environment, algorithm: Any) -> BatchMemory:
    """Return the sizes of a batch of a sampling algorithm, on levels like these."""
    slots, rounds, group = batch_shape(cfg)
    groups = slots // group
    on_levels = min(groups, mdp.num_levels)
    if cfg.levels.fresh or cfg.levels.symmetries or variations_of(cfg) is not None:
        on_levels = groups
    states, rows_of_level = played_states(mdp, slots // on_levels, on_levels)
    inputs = [observe_states(observe, states[:ROWS_SHOWN])]
    if cfg.policy.private_bits:
        bits = private_settings(cfg.policy.private_bits)[:1].to(inputs[0])
        inputs.append(bits.expand(len(inputs[0]), -1))
    saved = saved_bytes(algorithm.policy, *inputs)
    if algorithm.critic is not None:
        saved *= 2
    return BatchMemory(
        slots=slots,
        slots_of_level=slots // on_levels,
        ticks=rounds * mdp.max_time,
        step=step_bytes(environment),
        rows=rounds * on_levels * rows_of_level,
        row=FLOAT * math.prod(observe.shape),
        saved=saved,
        minibatches=min(getattr(cfg.algo, "minibatches", 1), groups),
    )


def batch_part(cfg: Config, batch: BatchMemory) -> MemoryPart:
    """Return the memory of a batch as a function of its number of mini-episodes."""
    together = cfg.reward.group
    if cfg.reward.counting == "sequential":
        together = cfg.reward.episodes_per_meta
    fixed = 0.0
    if batch.slots_of_level > together:  # more slots on the same levels show hardly more states
        fixed = batch.bytes - COPIES_OF_BATCH * batch.collected
    per_episode = (batch.bytes - fixed) / cfg.algo.episodes
    return MemoryPart("a batch", batch.bytes, "algo.episodes", per_unit=per_episode, step=together, fixed=fixed)


def exact_part(cfg: Config, states: Tensor) -> MemoryPart:
    """Return the memory of a batch of an exact algorithm, on levels with this many states [B]."""
    at_once = min(cfg.algo.levels_at_once, len(states))
    settings = 1 << cfg.policy.private_bits
    needed = float(states.topk(at_once).values.sum()) * BYTES_PER_STATE * settings
    return MemoryPart("a batch", needed, "algo.levels_at_once", per_unit=needed / at_once)


def weights_part(*networks: Any) -> MemoryPart:
    """Return the memory of the gradients and of the optimiser's two averages, allocated by the first update."""
    weights = 0
    for network in networks:
        if isinstance(network, nn.Module):
            weights += sum(parameter.nbytes for parameter in network.parameters())
    return MemoryPart("gradients", 3.0 * weights, "policy.width")


def evaluation_part(
    watched: Sequence[StateCounts], reported: Sequence[StateCounts], row: int, memory_gib: float
) -> MemoryPart:
    """Return the memory of exact evaluation: temporary memory for the largest set, and the sets that stay unrolled.

    The sets that are evaluated during training stay unrolled if they fit into ``memory_gib``.
    """
    most_states = memory_gib * GIB / BYTES_PER_STATE
    states = [int(sizes.states.sum()) for sizes in (*watched, *reported)]
    permanent = 0
    for number in states[: len(watched)]:
        if number <= most_states:
            permanent += number * BYTES_KEPT_PER_STATE
    unrolled = min(max(states), most_states) * BYTES_PER_STATE
    rows = min(max(states), STATES_AT_ONCE, NUMBERS_AT_ONCE * FLOAT // row)
    temporary = unrolled + COPIES_OF_ROWS * rows * row
    needed = permanent + temporary
    per_gib = GIB * (len(watched) + 1)
    return MemoryPart("evaluation", needed, "memory_gib", per_unit=per_gib, step=0.01)


def sampled_part(mdp: Mdp, row: int) -> MemoryPart:
    """Return the memory of evaluation by sampling: one batch."""
    slots = min(SLOTS, NUMBERS_AT_ONCE * FLOAT // row)
    needed = slots * (mdp.max_time * STEP + COPIES_OF_ROWS * row)
    return MemoryPart("evaluation", needed, "sampled")


def compiled_bytes(levels: int, cells: int, *, layers: int = 4, outcomes: int = 1) -> int:
    """Return the bytes of a compiled level set: transitions, objects, walls, layers, outcomes, starts."""
    per_cell = WHOLE * (NUM_ACTIONS + 1 + layers + 5 * outcomes) + 1
    per_level = 2 * WHOLE + 1
    return levels * (cells * per_cell + per_level)


def check_number_of_levels(cfg: Config) -> None:
    """Refuse, before generation, more levels than fit into memory."""
    levels = cfg.levels
    if levels.path is not None or levels.generator is None:
        return
    config = level_sets.generator_config(levels.generator, levels.clock)
    cells = config.height[1] * config.width[1]
    per_level = compiled_bytes(1, cells) + BYTES_PER_LEVEL
    number = levels.train + levels.selection + levels.test
    part = MemoryPart("levels", float(number * per_level), "levels.train", per_unit=per_level)
    RunMemory([part], resident_memory()).check(free_memory())
