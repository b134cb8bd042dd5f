"""An endless stream of random levels from a seed: drafts of a stated distribution, filtered by exact properties.

A *draft* is sampled from the distribution of :class:`GeneratorConfig`; it depends only on the seed and its number.
Drafts are searched exactly, in batches. A draft becomes a level if the agent is not walled in and if it passes the
filters of the configuration. By default there are two filters:

* The button can be pressed in time, so that there are two trajectory-lengths (``lengths=1``: it cannot).
* Each of the lengths has a coin: m(l) > 0, so that usefulness is defined for each.

The levels therefore have the distribution of drafts, conditional on acceptance: maps with many walls, small shutdown
times or few coins are rarer than among the drafts.
`docs/reference/generated-levels.md` describes the distributions of `configs/levels/`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.earliest import Properties, button_distance, properties
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.candidates import Drafts, compiled, sample_drafts, to_levels, walled_in
from drest_torch.envs.generation.config import WEIGHTED_FILTERS, GeneratorConfig
from drest_torch.envs.levels import MAX_LENGTHS, LazyLevels, Level, LevelError

__all__ = ["GeneratorConfig", "draft_number", "generate", "stream"]

DRAFTS_AT_ONCE, DRAFTS_AT_ONCE_ON_GPU = 1024, 16_384
"""The number of drafts in the first batch, which does not affect the levels."""
MOST_AT_ONCE = 4096
"""The largest number of drafts in a batch on a CPU."""
MAX_REFUSED = 100_000
"""The maximum number of rejected drafts in a row; beyond it the ranges are reported as an error."""


def generate(config: GeneratorConfig, count: int, *, seed: int, device: torch.device | str = "cpu") -> list[Level]:
    """Return the first ``count`` levels of :func:`stream`."""
    return list(islice(stream(config, seed, device=device), count))


def stream(
    config: GeneratorConfig,
    seed: int,
    *,
    first: int = 0,
    without: Collection[str] = frozenset(),
    device: torch.device | str = "cpu",
) -> Iterator[Level]:
    """Yield an endless stream of levels, the same for each seed; a level may be repeated.

    The name of a level, such as ``gen-7-000123``, contains the seed and the number of the draft. ``first`` is the
    number of the first draft: a stream continues after a level with ``draft_number(level) + 1``. Levels whose canonical
    key is in ``without`` are skipped, so that fresh training levels are never selection or test levels. Drafts are
    sampled and searched on the device.
    """
    for levels in batches(config, seed, first=first, without=without, device=device):
        yield from levels


def batches(
    config: GeneratorConfig,
    seed: int,
    *,
    first: int = 0,
    without: Collection[str] = frozenset(),
    device: torch.device | str = "cpu",
) -> Iterator[LazyLevels]:
    """Yield the levels of `stream` in batches."""
    if not 0 <= seed < 1 << 62:
        raise LevelError(f"generator: seed {seed}; expected a whole number from 0 to 2^62 - 1")
    if first < 0:
        raise LevelError(f"generator: draft {first} to begin with; expected a whole number from 0")
    last_accepted = first - 1
    at_once = DRAFTS_AT_ONCE if torch.device(device).type == "cpu" else DRAFTS_AT_ONCE_ON_GPU
    while True:
        with torch.device(device):
            drafts = sample_drafts(config, seed, torch.arange(first, first + at_once))
            drafts = drafts.where(passes_filters(drafts, config)).to("cpu")
        levels = to_levels(drafts, config, seed)
        if without and len(levels):
            levels = levels.at(torch.tensor([key not in without for key in levels.keys]).nonzero().squeeze(-1))
        if len(levels):
            last_accepted = int(levels.number[-1])
            yield levels
        first += at_once
        at_once = max(at_once, min(2 * at_once, MOST_AT_ONCE))
        if first - last_accepted > MAX_REFUSED:
            raise LevelError(
                f"generator: none of the last {MAX_REFUSED:,} drafts has the required lengths and coins and passes "
                f"the filters; expected other ranges than those of {config}"
            )


def draft_number(level: Level) -> int:
    """Return the number of the draft of a generated level."""
    return int(level.name.rpartition("-")[2])


def passes_filters(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """Return whether each draft passes the filters [n]; drafts with a walled-in agent do not pass."""
    mdp = compiled(drafts, config)
    passes = _passes_button_filters(drafts, mdp, config) & ~walled_in(drafts, mdp)
    # The distance to the button is much faster to compute than the rest, so only drafts that pass are searched further.
    index = passes.nonzero().squeeze(-1)
    if len(index) == 0:
        return passes
    return passes.index_put((index,), _passes_search_filters(drafts.where(passes), config))


def _passes_button_filters(drafts: Drafts, mdp: Mdp, config: GeneratorConfig) -> Tensor:
    """Return whether each draft passes the filters `distance` and `spare` [n]."""
    distance = button_distance(mdp)
    passes = distance >= (1 if config.lengths[0] > 1 else 0)  # without a button in time there is only one length
    spare = torch.where(distance > 0, drafts.shutdown - distance, -1)
    for name, values, luck in zip(WEIGHTED_FILTERS, (distance, spare), drafts.luck.unbind(-1), strict=True):
        if (bounds := getattr(config, name)) is None:
            continue
        passes &= _within(values, bounds)
        if (weights := config.weights_of(name)) is not None:
            chance = torch.tensor(weights, dtype=torch.float64) / max(weights)
            passes &= luck < chance[(values - bounds[0]).clamp(0, len(weights) - 1)]
    return passes


def _passes_search_filters(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """Return whether each draft passes the filters of lengths, coins, ratio and slack [n]."""
    result = properties(compiled(drafts, config)) if config.lotteries[1] == 0 else _with_luck(drafts, config)
    k = result.num_lengths
    passes = _within(k, config.lengths)
    passes &= result.with_coin >= (k if config.coin_in_every_length else 1)
    if config.ratio is not None:
        passes &= _within(result.ratio, config.ratio)
    if config.slack is not None:
        padding = torch.arange(result.slack.shape[-1]) >= k.unsqueeze(-1)
        passes &= (_within(result.slack, config.slack) | padding).all(-1)
    return passes


def _with_luck(drafts: Drafts, config: GeneratorConfig) -> Properties:
    """Return the properties of drafts with lotteries, without slack; drafts with too many lengths get none."""
    levels, device = to_levels(drafts.to("cpu"), config, 0), drafts.start.device
    optima = solve(compile_levels(levels, device), allow_barren=True)
    few = torch.tensor([level.most_lengths <= MAX_LENGTHS for level in levels], device=device)
    zeros = torch.zeros_like(optima.lengths)
    return Properties(optima.num_lengths * few, optima.lengths, optima.best_return, zeros)


def _within(values: Tensor, bounds: tuple[float, float]) -> Tensor:
    return (values >= bounds[0]) & (values <= bounds[1])
