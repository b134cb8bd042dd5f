"""Check the steps of an environment: its specs, what a seed decides, and what a reset of one copy leaves alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.envs import EnvBase, check_env_specs

from drest_torch.checking.checked import Checked
from drest_torch.transforms.base import observation_keys, title

STEPS = 50
"""Steps of rollouts that are compared."""


def check_specs(found: Checked, env: EnvBase, seed: int) -> bool:
    """Compare what steps return with the specs, by TorchRL's `check_env_specs`; return whether it is the same."""
    problems_before = len(found.problems)
    logger = logging.getLogger("torchrl")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it says that all is well
    try:
        with found.noting(title(env)):
            _seed(env, seed)
            check_env_specs(env)
    finally:
        logger.setLevel(level)
    is_same = len(found.problems) == problems_before
    if is_same:
        found.facts["specs"] = "those of what it returns"
    else:
        found.facts["specs"] = "what it returns is something else"
    return is_same


def check_seeds(found: Checked, env: EnvBase, seed: int) -> bool:
    """Compare rollouts of the same seed, and of another; return whether anything is random."""
    is_random = True
    with found.noting(title(env)):
        actions = _actions(env, STEPS, seed)
        first = _rollout(env, seed, actions)
        again = _rollout(env, seed, actions)
        other = _rollout(env, seed + 1, actions)
        is_random = _difference(env, first, other) is not None
        differs = _difference(env, first, again)
        copies = len(first[0])
        if differs is not None:
            found.wrong(
                f"the same seed and actions give another {differs}, so that no run can be repeated or resumed; seed "
                "all random numbers in _set_seed (in reset(seed=…) of Gymnasium), and begin anew in a reset"
            )
        elif is_random and copies > 1 and _is_alike(env, first):
            found.wrong(
                "all copies have the same random numbers, so that a batch tells no more than one of them; give each "
                "slot numbers of its own in _set_seed"
            )
        found.facts["seeds"] = "the same seed gives the same steps"
        if differs is not None:
            found.facts["seeds"] = "the same seed gives other steps"
        found.facts["luck"] = "none: another seed gives the same steps"
        if is_random:
            found.facts["luck"] = "another seed gives other steps"
    return is_random


def check_copies(found: Checked, env: EnvBase, seed: int) -> None:
    """See that a reset of one copy begins it anew, and leaves the others alone, where nothing is random."""
    if env.batch_size.numel() == 1:
        return
    with found.noting(title(env)):
        problem = _wrong_reset(env, seed)
        if problem is not None:
            found.wrong(problem)
        else:
            found.facts["copies"] = "a reset of one leaves the others alone"


def _wrong_reset(env: EnvBase, seed: int) -> str | None:
    """Return what is wrong with a reset of the first copy after two steps."""
    *actions, last = _actions(env, 3, seed)
    _seed(env, seed)
    begun = env.reset().clone()
    state = begun.clone()
    for action in actions:
        _, state = env.step_and_maybe_reset(state.set("action", action.clone()))
    chosen = torch.zeros(*env.batch_size, 1, dtype=torch.bool)
    chosen[0] = True
    after = env.reset(state.clone().set("_reset", chosen))
    keys = observation_keys(env)
    for key in keys:
        if not _equal(after[key][0], begun[key][0]):
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
    torch.manual_seed(seed)
    env.set_seed(seed)


def _actions(env: EnvBase, steps: int, seed: int) -> list[Tensor]:
    """Return random actions, the same in all copies."""
    torch.manual_seed(seed)
    spec = env.full_action_spec["action"]
    actions = []
    for _ in range(steps):
        action = spec.rand()
        actions.append(action[:1].expand_as(action).clone())
    return actions


def _rollout(env: EnvBase, seed: int, actions: Sequence[Tensor]) -> list[TensorDictBase]:
    """Return the steps of these actions from a seed; what has ended is reset."""
    _seed(env, seed)
    steps = []
    state = env.reset()
    for action in actions:
        step, state = env.step_and_maybe_reset(state.set("action", action.clone()))
        steps.append(step.clone())
    return steps


def _difference(env: EnvBase, one: Sequence[TensorDictBase], other: Sequence[TensorDictBase]) -> str | None:
    """Return in what two rollouts differ first."""
    observations = observation_keys(env)
    for key in observations:
        if not _equal(one[0][key], other[0][key]):
            return f"{key!r} after a reset"
    keys: list[NestedKey] = [*observations, "reward", "done"]
    for number in range(len(one)):
        for key in keys:
            if not _equal(one[number]["next"][key], other[number]["next"][key]):
                return f"{key!r} in step {number + 1}"
    return None


def _is_alike(env: EnvBase, steps: Sequence[TensorDictBase]) -> bool:
    """Return whether all copies had the same."""
    keys: list[NestedKey] = [*observation_keys(env), "reward"]
    for step in steps:
        for key in keys:
            value = step["next"][key]
            if not _equal(value, value[:1].expand_as(value)):
                return False
    return True


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether values are the same, NaN among them."""
    return torch.equal(one.nan_to_num(), other.nan_to_num())
