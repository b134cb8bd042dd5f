"""Checks of an environment's steps: specs, seeds and resets of single copies."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.envs import EnvBase, check_env_specs

from drest_torch.checking.environment_check import EnvironmentCheck
from drest_torch.transforms.base import observation_keys, title

STEPS = 50
"""Length of the rollouts that are compared."""


def check_specs(check: EnvironmentCheck, env: EnvBase, seed: int) -> bool:
    """Compare steps with the specs by TorchRL's `check_env_specs`; return whether they match."""
    problems_before = len(check.problems)
    logger = logging.getLogger("torchrl")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it logs its success
    try:
        with check.collect_errors(title(env)):
            _seed(env, seed)
            check_env_specs(env)
    finally:
        logger.setLevel(level)
    matches = len(check.problems) == problems_before
    check.facts["specs"] = "match the steps"
    if not matches:
        check.facts["specs"] = "do not match the steps"
    return matches


def check_seeds(check: EnvironmentCheck, env: EnvBase, seed: int) -> bool:
    """Compare rollouts with the same seed and with another; return whether the environment is random."""
    is_random = True
    with check.collect_errors(title(env)):
        actions = _actions(env, STEPS, seed)
        first = _rollout(env, seed, actions)
        again = _rollout(env, seed, actions)
        other = _rollout(env, seed + 1, actions)
        is_random = _difference(env, first, other) is not None
        differs = _difference(env, first, again)
        copies = len(first[0])
        if differs is not None:
            check.add_problem(
                f"the same seed and actions give another {differs}, so that no run can be repeated or resumed; seed "
                "all random numbers in _set_seed (in reset(seed=…) of Gymnasium), and begin anew in a reset"
            )
        elif is_random and copies > 1 and _copies_are_equal(env, first):
            check.add_problem(
                "all copies have the same random numbers, so that a batch has no more information than one copy; give "
                "each slot numbers of its own in _set_seed"
            )
        check.facts["seeds"] = "the same seed gives the same steps"
        if differs is not None:
            check.facts["seeds"] = "the same seed gives other steps"
        check.facts["randomness"] = "none: another seed gives the same steps"
        if is_random:
            check.facts["randomness"] = "another seed gives other steps"
    return is_random


def check_copies(check: EnvironmentCheck, env: EnvBase, seed: int) -> None:
    """Check that resetting one copy restarts it and leaves the others alone, in a deterministic environment."""
    if env.batch_size.numel() == 1:
        return
    with check.collect_errors(title(env)):
        problem = _wrong_reset(env, seed)
        if problem is not None:
            check.add_problem(problem)
        else:
            check.facts["copies"] = "a reset of one copy leaves the others alone"


def _wrong_reset(env: EnvBase, seed: int) -> str | None:
    """Return a sentence if resetting the first copy after two steps fails, or None."""
    *actions, last = _actions(env, 3, seed)
    _seed(env, seed)
    start = env.reset().clone()
    state = start.clone()
    for action in actions:
        _, state = env.step_and_maybe_reset(state.set("action", action.clone()))
    is_reset = torch.zeros(*env.batch_size, 1, dtype=torch.bool)
    is_reset[0] = True
    after = env.reset(state.clone().set("_reset", is_reset))
    keys = observation_keys(env)
    for key in keys:
        if not _equal(after[key][0], start[key][0]):
            return (
                f"after a reset a copy shows another {key!r} than at first, by which its mini-episodes can be told "
                "apart; begin anew in a reset"
            )
    step = env.step(after.set("action", last.clone()))["next"]
    without_reset = _rollout(env, seed, [*actions, last])[-1]["next"]
    if all(_equal(step[key][1:], without_reset[key][1:]) for key in [*keys, "reward"]):
        return None
    return "a reset of one copy changes the steps of others; reset the slots of '_reset' alone, and keep each one apart"


def _seed(env: EnvBase, seed: int) -> None:
    """Seed the environment and torch's global generator, which the environment may use."""
    torch.manual_seed(seed)
    env.set_seed(seed)


def _actions(env: EnvBase, steps: int, seed: int) -> list[Tensor]:
    """Return random actions that are equal in all copies."""
    torch.manual_seed(seed)
    spec = env.full_action_spec["action"]
    actions = []
    for _ in range(steps):
        action = spec.rand()
        actions.append(action[:1].expand_as(action).clone())
    return actions


def _rollout(env: EnvBase, seed: int, actions: Sequence[Tensor]) -> list[TensorDictBase]:
    """Return the steps of these actions from a seed; copies that are done are reset."""
    _seed(env, seed)
    steps = []
    state = env.reset()
    for action in actions:
        step, state = env.step_and_maybe_reset(state.set("action", action.clone()))
        steps.append(step.clone())
    return steps


def _difference(env: EnvBase, first: Sequence[TensorDictBase], second: Sequence[TensorDictBase]) -> str | None:
    """Return the first difference between two rollouts, or None."""
    observations = observation_keys(env)
    for key in observations:
        if not _equal(first[0][key], second[0][key]):
            return f"{key!r} after a reset"
    keys: list[NestedKey] = [*observations, "reward", "done"]
    for number in range(len(first)):
        for key in keys:
            if not _equal(first[number]["next"][key], second[number]["next"][key]):
                return f"{key!r} in step {number + 1}"
    return None


def _copies_are_equal(env: EnvBase, steps: Sequence[TensorDictBase]) -> bool:
    """Return whether all copies had the same observations and rewards."""
    keys: list[NestedKey] = [*observation_keys(env), "reward"]
    for step in steps:
        for key in keys:
            value = step["next"][key]
            if not _equal(value, value[:1].expand_as(value)):
                return False
    return True


def _equal(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are equal, where NaN equals NaN."""
    return torch.equal(first.nan_to_num(), second.nan_to_num())
