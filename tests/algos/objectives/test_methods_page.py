"""The table of methods on two levels in docs/explanation/methods.md: policies that are free in every state.

``python -m tests.algos.objectives.test_methods_page`` writes it.
"""

import re

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.metrics import neutrality, usefulness
from drest_torch.report.tables import in_markdown
from drest_torch.reward import Reward
from tests.helpers.documents import ROOT
from tests.helpers.gradient_ascent import ascend, named
from tests.helpers.plans import GAIN, LOSS

PAGE = ROOT / "docs" / "explanation" / "methods.md"
BLOCK = re.compile(r"(<!-- methods: written by [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
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


@pytest.mark.slow
def test_the_page_has_the_table_of_methods():
    written = BLOCK.search(PAGE.read_text("utf-8"))
    assert written[0] == f"{written[1]}{table()}\n{written[2]}"


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    PAGE.write_text(BLOCK.sub(lambda block: f"{block[1]}{table()}\n{block[2]}", text), "utf-8")
