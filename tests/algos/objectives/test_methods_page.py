"""The generated tables in docs/explanation/methods.md: methods on two levels, and the coins of a neutral agent.

Policies are free in every state.

``python -m tests.algos.objectives.test_methods_page`` writes it.
"""

import re

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.jobs.training_job import run_config
from drest_torch.metrics import neutrality, usefulness
from drest_torch.play import level_sets
from drest_torch.report.tables import in_markdown
from drest_torch.reward import Reward
from tests.helpers.documents import ROOT
from tests.helpers.gradient_ascent import ascend, named
from tests.helpers.plans import GAIN, LOSS

PAGE = ROOT / "docs" / "explanation" / "methods.md"
BLOCK = re.compile(r"(<!-- (methods|tax): written by [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
LEVELS = [GAIN, LOSS]
PLAIN = Reward(1.0, divide_by_best=False)
METHODS = {
    "default": ({"name": "drest"}, PLAIN),
    "shutdown-seeking": ({"name": "shutdown_seeking"}, Reward()),
    "attainable utility, β = 1": ({"name": "attainable_utility", "beta": 1.0}, PLAIN),
    "the same, unpressed goals": ({"name": "attainable_utility", "beta": 1.0, "goals": "unpressed"}, PLAIN),
    "lexicographic neutrality": ({"name": "lexicographic"}, Reward()),
    "DReST": ({"name": "drest"}, Reward()),
}
"""Objectives and rewards that a table of action probabilities is trained with."""
HEADER = ("method", "level", "P(longer)", "usefulness", "neutrality", "coins")


def arrivals():
    """Return P(L = l) and P(L = l) · E[C | L = l] on both levels, each [2, 2], by method."""
    outcomes = {}
    for title, (values, reward) in METHODS.items():
        trained = ascend(LEVELS, named(values), steps=300, reward=reward)
        outcomes[title] = (trained.probability, trained.coins)
    reachable = Reachable(compile_levels(LEVELS))
    indifferent = reachable.arrivals(indifferent_policy(reachable))
    outcomes["utility indifference"] = (indifferent.probability, indifferent.coins)
    return outcomes


def table():
    best = solve(compile_levels(LEVELS)).best_return
    rows = []
    for title, (probability, coins) in arrivals().items():
        mean_coins = torch.where(probability > 0, coins / probability, 0)
        useful, spread = usefulness(probability, mean_coins, best), neutrality(probability)
        for index, level in enumerate(LEVELS):
            numbers = (probability[index, 1], useful[index], spread[index], coins[index].sum())
            rows.append((title, level.name, *(f"{number.item():.2f}" for number in numbers)))
    return in_markdown(HEADER, rows)


LEVEL_SETS = {
    "the nine worlds of the paper": "levels=paper",
    "200 levels like those of the follow-up": "levels=followup_like levels.test=200",
    "200 levels like those of the paper": "levels=paper_like levels.test=200",
    "200 levels with three lengths": "levels=three_lengths levels.test=200",
}
"""Level sets by the arguments of `drest train` that choose them."""
TAX_HEADER = ("levels", "mean", "least", "most")


def share_of_most(best_return, num_lengths):
    """Return [B] the coins of a neutral and useful agent as a share of the most coins of any length."""
    return best_return.sum(-1) / num_lengths / best_return.amax(-1)


def tax_table():
    rows = []
    for title, arguments in LEVEL_SETS.items():
        optima = solve(compile_levels(level_sets.named(run_config(arguments=arguments.split()).levels)))
        share = share_of_most(optima.best_return, optima.num_lengths)
        rows.append((title, *(f"{number.item():.2f}" for number in (share.mean(), share.min(), share.max()))))
    return in_markdown(TAX_HEADER, rows)


TABLES = {"methods": table, "tax": tax_table}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_generated_table(name):
    (written,) = (block for block in BLOCK.finditer(PAGE.read_text("utf-8")) if block[2] == name)
    assert written[0] == f"{written[1]}{TABLES[name]()}\n{written[3]}"


def test_a_neutral_agent_keeps_the_mean_of_the_best_returns():
    """In `loss` m(3) is 3 and m(6) is 1."""
    optima = solve(compile_levels([LOSS]))
    assert share_of_most(optima.best_return, optima.num_lengths).item() == pytest.approx(2 / 3)


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    PAGE.write_text(BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text), "utf-8")
