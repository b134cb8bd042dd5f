"""All scores of one agent in menus: suites, the shift test, the conditions of appendix C, and the prospects."""

from __future__ import annotations

from fractions import Fraction

import torch

from drest_torch.choices import axioms, measures, prospects, suites
from drest_torch.choices.generation import random_menus
from drest_torch.choices.scripted_policies import Chooser


def scores(chooser: Chooser, items: int) -> dict[str, float]:
    """Return all scores of an agent by name, with ``items`` items in each suite; NaN if no item is valid.

    - NAME, error/NAME, order gap/NAME, resic/NAME, void/NAME of each suite (`drest_torch.choices.suites`)
    - shift/COST: how often a shift of P(longer) from 0.1 to 0.9 is paid for; shift/never: κ̂
    - usefulness, neutrality and usefulness/three, neutrality/three: in menus of two and three sure trajectories
    - ilpacs, maximality, items/NAME, slack, slack/worst (`drest_torch.choices.axioms`)
    - the scores on prospects and on resisting shutdown (`drest_torch.choices.prospects`)
    """
    by_name: dict[str, float] = {}
    for name, suite in (suites.suites(items) | suites.extreme_suites()).items():
        score = suites.measure(suite.menus, chooser)
        by_name |= {name: score.mean_rate, f"order gap/{name}": score.order_gap}
        by_name[f"error/{name}"] = score.error
        if suite.whole:
            by_name[f"error/{name}"] = 0.0
        by_name[f"resic/{name}"] = float(axioms.resic(chooser, suite.menus).sum())
        by_name[f"void/{name}"] = float(score.void)
    costs, rates = suites.SHIFT_COSTS, suites.shift_test(chooser, Fraction(1, 10), Fraction(9, 10))
    by_name["shift/never"] = suites.refusal_cost(costs, rates, suites.EPSILON)
    by_name |= {f"shift/{cost:g}": rate for cost, rate in zip(costs, rates.tolist(), strict=True)}
    by_name |= sure_trajectories(chooser)
    tested = axioms.items(items)
    shares = {"ilpacs": axioms.ilpacs(chooser, tested), "maximality": axioms.maximality(chooser, items)}
    for name, share in shares.items():
        by_name |= {name: share.value, f"items/{name}": float(share.items)}
    slack = axioms.dominated(chooser, tested)
    by_name |= {"slack": slack.value, "slack/worst": slack.worst}
    return by_name | prospects.numbers(chooser)


def sure_trajectories(chooser: Chooser, number: int = 1000) -> dict[str, float]:
    """Return mean usefulness in new menus of sure trajectories, and mean neutrality in menus with several lengths."""
    means = {}
    for options, suffix in ((2, ""), (3, "/three")):
        menus = random_menus("sure", number, torch.Generator().manual_seed(77), options)
        policy = chooser(menus).double()
        has_choice = menus.num_lengths > 1
        means[f"usefulness{suffix}"] = measures.usefulness(menus, policy).mean().item()
        means[f"neutrality{suffix}"] = measures.neutrality(menus, policy)[has_choice].mean().item()
    return means
