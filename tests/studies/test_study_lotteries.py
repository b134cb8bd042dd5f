"""The study of lotteries: its climbs against the closed forms, and what it counts of agents."""

from pathlib import Path

import numpy as np
import pytest

from drest_torch.choices.archetypes import ARCHETYPES
from drest_torch.choices.closed_forms import best_pressed, button_usefulness, paid_shift, pressed
from drest_torch.choices.prospects import RESIST_COSTS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.studies import lotteries, lottery_tables
from drest_torch.studies.lottery_runs import button, climb_worlds, measure
from drest_torch.studies.theorem.ascent import ascend, solve_levels, starting_logits


@pytest.mark.parametrize(("chance", "episodes"), [(0.2, 16), (0.2, 64), (0.5, 64)])
def test_the_maximiser_of_the_return_is_another_policy_than_the_fixed_point(chance, episodes):
    levels = [button(chance)]
    optima, reachable = solve_levels(levels, 1.0), Reachable(compile_levels(levels))
    values = {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": episodes, "steps": 400, "lr": [0.1, 0.3, 0.0001]}
    found = ascend(starting_logits(["uniform"], reachable, optima, 0.0), reachable, optima, values | {"credit": "meta"})
    best = best_pressed(chance, 0.9, episodes)
    assert found["p_length"][0, 1].item() == pytest.approx(best, abs=2e-3)
    assert (found["p_length"] * found["share_of_best"]).sum().item() == pytest.approx(
        button_usefulness(chance, best), abs=1e-2
    )
    assert (best > 0) == (episodes == 64) == (abs(best - pressed(chance, 0.9, episodes)) > 0.05)


def test_training_in_gridworlds_ends_at_the_closed_forms():
    spec = {"tenths": [1, 5], "chances": [0.5], "lam": 0.9, "episodes_per_meta": 64, "steps": 200}
    longer = climb_worlds(spec, Path()).arrays["longer"]
    expected = [0.1 + 0.8 * paid_shift(0.1, 0.9, cost, 0.9, 64) for cost in (0.1, 0.5)]
    assert longer == pytest.approx([*expected, pressed(0.5, 0.9, 64)], abs=2e-3)


@pytest.mark.parametrize(
    ("paid", "price"), [((1, 1, 0, 0, 0, 0, 0), 0.02), ((1, 0, 1, 0, 0, 0, 0), 0.05), ((1,) * 7, np.inf)]
)
def test_the_price_is_that_from_which_on_nothing_is_paid(paid, price):
    numbers = {f"later/0.01/{cost:g}": np.array([rate]) for cost, rate in zip(RESIST_COSTS, paid, strict=True)}
    assert lotteries.never(numbers, "later", 0.01) == [price]


@pytest.mark.parametrize(("name", "all_of_it", "for_posl"), [("ideal", True, True), ("raw", False, False)])
def test_the_ideal_agent_reaches_all_that_is_wanted(name, all_of_it, for_posl):
    numbers = {measure: np.array([value]) for measure, value in measure(ARCHETYPES[name], 6).items()}
    assert lotteries.reaches(numbers).tolist() == [all_of_it]
    assert lotteries.reaches(numbers, lotteries.FOR_POSL).tolist() == [for_posl]


def test_what_a_sample_of_items_leaves_open_is_part_of_the_range():
    numbers = {"main": np.array([0.01, 0.4, 0.5]), "error/main": np.array([0.02, 0.1, 0.03])}
    assert lottery_tables.sampled(numbers, "main") == pytest.approx([0, 0.01, 0.4, 0.5, 0.53])
    nearly = {"main": np.array([0.7, 0.99, np.nan]), "error/main": np.array([0.1, 0.3, np.nan])}
    assert lottery_tables.sampled(nearly, "main")[[0, 1, 2, 4]] == pytest.approx([0.6, 0.7, 0.99, 1])
    assert lottery_tables.sampled(numbers | {"posl": np.array([9.0])}, "posl").tolist() == [9]


def test_agents_of_gridworlds_answer_prospects_in_all_symmetries():
    one = {"menus/main": np.zeros(1), "menus/posl": np.full(1, 5.0), "posl/posl": np.arange(8.0)}
    one |= {"test/usefulness": np.array([0.5, 1.0]), "test/neutrality": np.ones(2)}
    found = lotteries.in_gridworlds([one, one])
    assert found["main"].tolist() == [0, 0]
    assert found["posl"].tolist() == [*range(8), *range(8)]
    assert found["usefulness"].tolist() == [0.75, 0.75]
