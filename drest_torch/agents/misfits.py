"""Levels that an agent cannot observe, described by the size or the object that its training did not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import chain

from drest_torch.algos.networks.base import requirements
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec
from drest_torch.config.schema import LevelsConfig
from drest_torch.envs.levels import Level, features_of, find_levels, largest_map
from drest_torch.envs.objects import FEATURES, KINDS

ELAPSED = "elapsed"
"""The ending of observations that show the time since the start, in levels without luck."""


def misfit(policy: PolicySpec, levels: Sequence[Level]) -> str | None:
    """Return a sentence on the first of these levels that a policy cannot observe, or None if it can observe all.

    The sentence names the level, what the policy cannot observe in it, and the remedy.
    """
    assert isinstance(policy.sees, MapView)
    checks: list[Callable[[PolicySpec, MapView, Sequence[Level]], str | None]] = [_size, _objects, _luck]
    if policy.sees.observation == "vector":
        checks = [_single]
    for check in checks:
        if sentence := check(policy, policy.sees, levels):
            return sentence
    return None


def _single(policy: PolicySpec, view: MapView, levels: Sequence[Level]) -> str | None:
    """Describe levels that do not fit the vector observation, which is of a single level."""
    if len(levels) != 1:
        return (
            f"the agent observes a single level (policy.observation=vector) and cannot be evaluated on {len(levels)}; "
            "choose one level, or train an agent with policy.observation=centred"
        )
    (level,) = levels
    trained, objects = policy.shape[0] - 2, level.num_objects
    if objects != trained:
        return (
            f"the agent was trained on a level with {_count(trained, 'coin or button')} and cannot be evaluated on "
            f"{level.name}, which has {objects}; choose a level with as many, or train an agent with "
            "policy.observation=centred"
        )
    if policy.network == TABLE and (level.height > view.rows or level.width > view.columns):
        return _too_large(view, level)
    return None


def _size(policy: PolicySpec, view: MapView, levels: Sequence[Level]) -> str | None:
    """Describe a map that is larger than those of training, unless the network reads maps of any size."""
    if requirements(policy.network).reads_maps:
        return None
    height, width = largest_map(levels)
    if height <= view.rows and width <= view.columns:
        return None
    return _too_large(view, _first(levels, lambda level: level.height > view.rows or level.width > view.columns))


def _too_large(view: MapView, level: Level) -> str:
    return (
        f"the agent was trained on maps of at most {view.rows} × {view.columns} and cannot be evaluated on "
        f"{level.name}, a map of {level.height} × {level.width}; choose smaller levels, or train an agent on maps of "
        "that size, or with policy=convolutional, which observes maps of any size"
    )


def _objects(policy: PolicySpec, view: MapView, levels: Sequence[Level]) -> str | None:
    """Describe objects that the observation does not show."""
    if features := features_of(levels) - frozenset(view.features):
        feature = min(features, key=[*FEATURES].index)
        level = _first(levels, lambda level: feature in level.features)
        return f"{_unobserved(level, FEATURES[feature])}; leave such levels out, or train an agent {_with(features)}"
    for kind in KINDS:
        names = {plane.name for plane in kind.planes if plane.feature is None}
        if names <= set(view.planes):
            continue
        for level in levels:
            if any(isinstance(thing, kind) for thing in chain(level.objects, level.fixtures)):
                return f"{_unobserved(level, kind.plural())}; leave such levels out, or train an agent with them"
    return None


def _unobserved(level: Level, objects: str) -> str:
    return (
        f"the level {level.name} has {objects}, which this agent does not observe, because no level of its training "
        "has any"
    )


def _with(features: Collection[str]) -> str:
    """Return the end of a sentence on an agent that observes these features."""
    if "chance" in features:
        return "with levels.by_chance=true"
    outcomes = [int(number) for number in re.findall(r"lottery (\d+)", " ".join(features))]
    if outcomes:
        return f"with levels.outcomes={max(outcomes)}"
    return "on levels with them"


def _luck(policy: PolicySpec, view: MapView, levels: Sequence[Level]) -> str | None:
    """Describe luck in levels for an agent that observes the elapsed time, which does not follow from a state then."""
    lucky = {name for name in features_of(levels) if name == "chance" or name.startswith("lottery")}
    if not view.observation.endswith(ELAPSED) or not lucky:
        return None
    level = _first(levels, lambda level: bool(level.features & lucky))
    words = FEATURES[min(level.features & lucky)]
    return (
        f"the level {level.name} has {words}, and this agent observes the time since the start "
        f"(policy.observation={view.observation}), which is defined only in levels without luck; leave such levels "
        "out, or train an agent with another policy.observation"
    )


def _first(levels: Sequence[Level], fits: Callable[[Level], bool]) -> Level:
    return next(level for level in levels if fits(level))


def _count(number: int, noun: str) -> str:
    """Return ``1 coin or button`` or ``3 coins and buttons``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} coins and buttons"


def fitting_levels(policy: PolicySpec, levels: LevelsConfig, test: Sequence[Level]) -> Sequence[str] | None:
    """Return the arguments of an evaluation on levels that a policy can observe.

    These are the worlds of the paper, or its own test levels, or else the levels that it was trained on; None if
    there are no such levels to name.
    """
    if misfit(policy, find_levels("paper")) is None:
        return ["levels=paper"]
    if test:
        return []
    if levels.path is not None:
        arguments = [f"levels.path={levels.path}"]
    elif levels.generator is None:
        arguments = [f"levels={levels.name}"]
    else:
        return None
    if levels.x is not None:
        arguments.append(f"levels.x={levels.x:g}")
    if levels.clock is not None:
        arguments.append(f"levels.clock={levels.clock}")
    return arguments
