"""Random levels from a seed, in any number: drafts of a stated distribution, filtered by exact properties.

A *draft* is drawn as :class:`GeneratorConfig` says, each draft from the seed and its own number alone. Drafts
are searched exactly, many at once, and those are levels in which the agent is not walled in and which pass the
filters of the configuration. By default these are that

* the button can be pressed in time, so that there are two trajectory-lengths (``lengths=1``: it cannot), and
* each of the lengths has a coin: m(l) > 0, so that usefulness is defined for each.

What comes out is therefore the distribution of the drafts given that they are accepted: maps on which little
can be reached are rarer than among the drafts, for example those of many walls, small shutdown times, or few
coins. `docs/levels.md` tells what the distributions of `configs/levels/` come to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

import torch
from torch import Tensor

from envs.generation.candidates import Drafts, compiled, draw, to_levels, walled_in
from envs.generation.config import THINNED, GeneratorConfig
from envs.generation.filters import button_distance, properties
from envs.levels import Level, LevelError
from envs.levels.symmetry import canonical_key

__all__ = ["GeneratorConfig", "draft_number", "generate", "stream"]

DRAFTS_AT_ONCE, DRAFTS_AT_ONCE_ON_GPU = 1024, 16_384
"""Which levels come out does not depend on them."""
MAX_REFUSED = 100_000
"""Drafts in a row that may be refused before the ranges are blamed."""


def generate(config: GeneratorConfig, count: int, *, seed: int, device: torch.device | str = "cpu") -> list[Level]:
    """The first ``count`` levels of :func:`stream`."""
    return list(islice(stream(config, seed, device=device), count))


def stream(
    config: GeneratorConfig,
    seed: int,
    *,
    first: int = 0,
    without: Collection[str] = frozenset(),
    device: torch.device | str = "cpu",
) -> Iterator[Level]:
    """Levels without end, always the same ones for a seed; a level may come twice.

    The name of a level, such as ``gen-7-000123``, says the seed and which draft it was. ``first`` is the draft
    to begin with: a stream goes on where it stood from ``draft_number(level) + 1``. Levels whose canonical key
    is among ``without`` are left out: fresh levels for training are then never held-out ones. Drafts are drawn and
    searched on the device.
    """
    if not 0 <= seed < 1 << 62:
        raise LevelError(f"generator: seed {seed}; expected a whole number from 0 to 2^62 - 1")
    if first < 0:
        raise LevelError(f"generator: draft {first} to begin with; expected a whole number from 0")
    last_accepted = first - 1
    at_once = DRAFTS_AT_ONCE if torch.device(device).type == "cpu" else DRAFTS_AT_ONCE_ON_GPU
    while True:
        with torch.device(device):
            drafts = draw(config, seed, torch.arange(first, first + at_once))
            drafts = drafts.where(~walled_in(drafts, config))
            drafts = drafts.where(passed(drafts, config)).to("cpu")
        for level in to_levels(drafts, config, seed):
            if without and canonical_key(level) in without:
                continue
            last_accepted = draft_number(level)
            yield level
        first += at_once
        if first - last_accepted > MAX_REFUSED:
            raise LevelError(_none_found(config))


def draft_number(level: Level) -> int:
    """Which draft of its seed a generated level was."""
    return int(level.name.rpartition("-")[2])


def passed(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """[n] whether a draft passes the filters; none of them may be walled in."""
    if not len(drafts.number):
        return torch.zeros(0, dtype=torch.bool)
    good = _button_passed(drafts, config)
    # The way to the button is found much faster than all the rest, so only what is left is searched further.
    index = good.nonzero().squeeze(-1)
    return good if not len(index) else good.index_put((index,), _search_passed(drafts.where(good), config))


def _button_passed(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """[n] whether a draft passes the filters of the button's distance and of the time that is then left."""
    distance = button_distance(compiled(drafts, config))
    good = distance >= (1 if config.lengths[0] > 1 else 0)  # with no button in time there is but one length
    spare = torch.where(distance > 0, drafts.shutdown - distance, -1)
    for name, values, luck in zip(THINNED, (distance, spare), drafts.luck.unbind(-1), strict=True):
        if (bounds := getattr(config, name)) is None:
            continue
        good &= _within(values, bounds)
        if (weights := config.weights_of(name)) is not None:
            chance = torch.tensor(weights, dtype=torch.float64) / max(weights)
            good &= luck < chance[(values - bounds[0]).clamp(0, len(weights) - 1)]
    return good


def _search_passed(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """[n] whether a draft passes the filters of the lengths and of what can be collected in them."""
    found = properties(compiled(drafts, config))
    k = found.num_lengths
    good = _within(k, config.lengths)
    good &= found.with_coin >= (k if config.coin_in_every_length else 1)
    if config.ratio is not None:
        good &= _within(found.ratio, config.ratio)
    if config.slack is not None:
        padding = torch.arange(found.slack.shape[-1]) >= k.unsqueeze(-1)
        good &= (_within(found.slack, config.slack) | padding).all(-1)
    return good


def _within(values: Tensor, bounds: tuple[float, float]) -> Tensor:
    return (values >= bounds[0]) & (values <= bounds[1])


def _none_found(config: GeneratorConfig) -> str:
    least, most = config.lengths
    lengths = f"{least} lengths" if least == most else f"{least} to {most} lengths"
    coin = "with a coin each" if config.coin_in_every_length else "and a coin"
    further = [name for name in ("ratio", "distance", "spare", "slack") if getattr(config, name) is not None]
    passes = f" and passes {', '.join(further)}" if further else ""
    return (
        f"generator: none of the last {MAX_REFUSED:,} drafts has {lengths} {coin}{passes}; "
        f"expected other ranges than those of {config}"
    )
