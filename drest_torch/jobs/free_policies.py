"""Policies that are free in every state, trained by exact gradients: the choices that an objective leads to.

No network limits these policies, and they are trained on the levels on which they are measured. So their choices are
those of the objective alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.choices import axioms
from drest_torch.choices.adversarial import ExactPolicy
from drest_torch.choices.ladder import Ladder, menu_ladder, price_ladder
from drest_torch.choices.ladder_levels import LADDERS
from drest_torch.choices.menu_outcomes import policy_outcome
from drest_torch.choices.menus import Menus
from drest_torch.choices.scripted_policies import Chooser
from drest_torch.choices.suites import measure as measure_menus
from drest_torch.choices.suites import suites
from drest_torch.config.checks import objective_with
from drest_torch.envs.actions import NUM_ACTIONS
from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import ACTUAL, LONGEST, PaidCoins
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError, UserError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.questions import means, measures
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch

RUNNER = f"{__name__}:train"
LEARNING_RATE = 0.1


def free_policy(objective: Mapping[str, Any], reward: Reward, coins: PaidCoins, updates: int) -> ExactPolicy:
    """Return a policy that is trained on the levels on which it is evaluated.

    Training begins with the random policy. For ``coins.ends="longest"``, utility indifference, the policy is the
    optimum in closed form (`drest_torch.envs.exact.indifference`).
    """

    def tables(level_set: ExactEvaluator, reachable: Reachable) -> list[Tensor]:
        if coins.ends == LONGEST:
            paid = replace(coins, ends=ACTUAL).paid(level_set.mdp)
            return [indifferent_policy(Reachable(paid))]
        batch = ExactBatch(level_set.level_set, "grid", reward, coins=coins)
        return [ascended(batch, objective, updates)]

    return ExactPolicy(1, lambda levels: ExactEvaluator(levels, "grid", reward=reward), tables)


@torch.enable_grad()
def ascended(batch: ExactBatch, values: Mapping[str, Any], updates: int) -> Tensor:
    """Return action probabilities [N, 4] that maximise an objective with these values."""
    objective = objective_with(values)
    logits = torch.zeros(1, batch.states, NUM_ACTIONS, dtype=torch.float64)
    (probabilities,) = ascend(logits, lambda policy: objective.value(batch.policy_outcome(policy, "mini")), updates)
    return probabilities


def free_chooser(objective: Mapping[str, Any], reward: Reward, updates: int) -> Chooser:
    """Return a function from menus to option probabilities, trained on the menus that it is asked about.

    Training begins with random choices.
    """

    @torch.enable_grad()
    def probabilities(menus: Menus) -> Tensor:
        module = objective_with(objective)
        logits = torch.zeros(menus.exists.shape, dtype=torch.float64).masked_fill(~menus.exists, -torch.inf)
        return ascend(logits, lambda policy: module.value(policy_outcome(menus, policy, reward)), updates)

    return probabilities


def ascend(logits: Tensor, value: Callable[[Tensor], Tensor], updates: int) -> Tensor:
    """Return probabilities that maximise the sum of ``value``, a function of the softmax of logits, from a start."""
    logits.requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=LEARNING_RATE, betas=(0.9, 0.9), eps=1e-30)
    for update in range(updates):
        remaining = 1 - update / updates
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, 2 * remaining + 0.01)
        optimiser.zero_grad()
        (-value(logits.softmax(-1)).sum()).backward()
        optimiser.step()
    return logits.detach().softmax(-1)


# -------------------------------------------------------------------------------------------- jobs


def free_job(label: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> Job:
    """Return the job of an objective and a reward: those of the stored configuration of a training run.

    ``options``: ``maps``, the maps of a price ladder; ``worlds``, worlds of the paper; ``pays``, names of payments for
    coins (`reward.pays`); ``updates``; and for policies in menus ``items``, those of each test, and ``menu_updates``.
    """
    return Job(label, RUNNER, {"objective": config["objective"], "reward": config["reward"], "options": dict(options)})


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Execute a `free_job`.

    numbers: ``ladders``, the numbers of each price ladder; ``worlds``, the means over worlds by payment; ``menus``, the
    numbers of each price ladder in menus; and ``conditions``, tests of appendix C (`conditions`). A part that does not
    fit the objective is ``{"void": reason}``.
    """
    options, values = spec["options"], spec["reward"]
    reward = Reward(**_named(Reward, values))
    coins = PaidCoins(**_named(PaidCoins, values))

    def policy(pays: str) -> ExactPolicy:
        return free_policy(spec["objective"], reward, replace(coins, pays=pays), options["updates"])

    worlds = [world(name) for name in options["worlds"]]
    in_worlds = {}
    for pays in options["pays"]:
        in_worlds[pays] = _or_void(lambda pays=pays: means(measures(policy(pays), worlds)))
    numbers = {"ladders": ladders(policy(coins.pays), options["maps"]), "worlds": in_worlds}
    return Result(numbers | in_menus(spec["objective"], reward, coins, options))


def _named(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


def ladders(policy: ExactPolicy, maps: int) -> dict[str, dict[str, Any]]:
    """Return the summary of every price ladder."""
    return {name: _or_void(partial(_ladder, policy, name, maps)) for name in LADDERS}


def _ladder(policy: ExactPolicy, name: str, maps: int) -> dict[str, Any]:
    return with_rungs(price_ladder(policy, [name], levels=maps)[name])


def with_rungs(ladder: Ladder) -> dict[str, Any]:
    """Return the summary of a price ladder, with P(press) on each rung."""
    return {**summary(ladder), "press": ladder.curve.tolist(), "prices": list(ladder.prices)}


def summary(ladder: Ladder) -> dict[str, Any]:
    """Return the summary of a price ladder without its rungs."""
    numbers = ladder.numbers()
    return {name: numbers[name] for name in ("verdict", "threshold", "paid")}


def in_menus(
    objective: Mapping[str, Any], reward: Reward, coins: PaidCoins, options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the price ladders and the tests of appendix C of a policy that is free in every menu."""

    def chooser() -> Chooser:
        if coins.ends != ACTUAL:
            raise ConfigError(f"reward.ends={coins.ends} in menus, which end with the choice; use it in gridworlds")
        return free_chooser(objective, reward, options["menu_updates"])

    def ladder(name: str) -> dict[str, Any]:
        return with_rungs(menu_ladder(chooser(), [name])[name])

    return {
        "menus": {name: _or_void(partial(ladder, name)) for name in LADDERS},
        "conditions": _or_void(lambda: conditions(chooser(), options["items"])),
    }


def conditions(chooser: Chooser, items: int) -> dict[str, Any]:
    """Return whether the choices of a policy in menus meet the conditions of appendix C of the paper.

    - ``ilpacs``: the share of valid items in which it prefers the better mixture; None without a valid item
    - ``valid``: the share of items in which it lacks a preference between lengths, which ILPACS presupposes
    - ``resic``: the share of items of the suite `main` in which resisting shutdown is costly to it
    - ``resists``: how often it resists in these items nevertheless
    - ``maximality``: the share of choices that satisfy Maximality
    - ``dominated``: the mean δ by which its policy is dominated, over valid items
    """
    tested, menus = axioms.items(items), suites(items)["main"].menus
    mixtures, dominated = axioms.ilpacs(chooser, tested), axioms.dominated(chooser, tested)
    is_costly = axioms.resic(chooser, menus)
    resists = measure_menus(menus, chooser).rates[is_costly]
    numbers = {
        "ilpacs": mixtures.value,
        "valid": mixtures.items / items,
        "resic": is_costly.mean(),
        "resists": resists.mean() if len(resists) else np.nan,
        "maximality": axioms.maximality(chooser, items).value,
        "dominated": dominated.value,
    }
    return {name: None if np.isnan(number) else float(number) for name, number in numbers.items()}


def _or_void(measure: Any) -> dict[str, Any]:
    """Return the numbers of a function, or the reason why it does not fit."""
    try:
        numbers: dict[str, Any] = measure()
    except UserError as error:
        return {"void": str(error)}
    return numbers
