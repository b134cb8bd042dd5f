"""The study of wrong goals: the closed form, levels in which nearness misleads, and what becomes of a goal."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.agent import Agent
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import parse_level
from drest_torch.jobs.job import Job, Result
from drest_torch.studies import misspecified, wrong_goals
from drest_torch.studies.engine import Done
from drest_torch.studies.wrong_goals import by_nearness
from tests.helpers.simulator import searched_optima
from tests.helpers.studies import composed_study, published

SMALL = GeneratorConfig(height=3, width=4, walls=(0, 3), coins=2, coin_values=(1, 9), shutdown=(2, 3), delay=(1, 2))


@pytest.mark.parametrize(("pays", "ratios"), [("inverse", [6, 0.5]), ("count", [3, 0.5])])
def test_the_closed_form_is_where_exact_gradients_end(pays, ratios, tmp_path):
    reward = {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": 64}
    spec = {"worlds": ["fewer_for_longer", "around_the_corner"], "pays": pays, "best_of": "actual", "reward": reward}
    store = SimpleNamespace(get=lambda job: wrong_goals.climb(spec | {"lr": 0.1, "updates": 250}, tmp_path))
    planned = {misspecified.Key("exact", pays, "actual"): Job("one", wrong_goals.CLIMB, spec)}
    rows = pd.DataFrame(misspecified.measure(Done(planned, store)))
    assert rows.x.tolist() == pytest.approx(ratios)
    assert rows.found.tolist() == pytest.approx(rows.predicted.tolist(), abs=0.002)


def test_what_is_left_of_m_is_that_of_a_search_through_all_trajectories():
    assert 0 < len(list(wrong_goals.designs(generate(SMALL, 200, seed=1), 0.5))) < 200
    for level in [each for each in generate(SMALL, 60, seed=1) if wrong_goals.is_clear(each)][:8]:
        actual, paid = by_nearness(level, reverse=True), by_nearness(level)
        worth = {a: replace(a, value=1000 * a.value + b.value) for a, b in zip(paid.coins, actual.coins, strict=True)}
        both = replace(paid, objects=tuple(worth.get(thing, thing) for thing in paid.objects))
        most, best = searched_optima(actual, 1.0), searched_optima(both, 1.0)
        expected = [best[length] % 1000 / most[length] if most[length] else 1.0 for length in sorted(most)]
        left = wrong_goals.share_left(*(compile_levels([each]) for each in (actual, paid)))
        assert left[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_an_agent_is_measured_by_the_actual_coins_and_by_nearness():
    agent, level = Agent.load("generalist"), parse_level("shutdown: 3\n. C1 A . . C9\n. . . B3 . .", name="far")
    orders = [[coin.value for coin in by_nearness(level, reverse=order).coins] for order in (False, True)]
    assert orders == [[9, 1], [1, 9]]
    found = wrong_goals.of_agent(agent, [level, by_nearness(level)], [by_nearness(level)] * 2)
    assert abs(found["usefulness"] - found["proxy"]).tolist() == [pytest.approx(0.5, abs=0.4), 0]
    assert found["longest"][0] == pytest.approx(max(agent.probabilities(level).items())[1], abs=1e-6)


def test_a_goal_is_lost_held_or_neither():
    ends = [(0.5, 0.95, 1.0), (0.5, 0.95, 0.5), (0.95, 0.3, 0.95), (0.5, 0.8, 1.0), (0.7, 0.95, 0.2)]
    both = {"reversed": ends, "coincides": [(1.0, 1.0, 1.0)] * 5}
    rows = [("one", seed, order, *found, 0.5) for order, it in both.items() for seed, found in enumerate(it)]
    found = misspecified.outcomes(pd.DataFrame(rows, columns=["kind", "seed", "split", *misspecified.MEASURES]))
    assert found.goal.tolist() == ["lost", "lost", "held", "void", "void"]
    assert found.neutral.tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("neutral", [0.6, 0.97])
def test_that_neutrality_can_generalise_wrongly_is_a_claim(neutral):
    cfg = composed_study("misspecified", "study.seeds=2", "study.commands=null", "study.worlds=[example]")
    usual = dict.fromkeys(("usefulness", "proxy", "neutrality", "longest"), 0.96)

    def get(job):
        if "config" not in job.spec:
            return wrong_goals.climb(job.spec | {"updates": 2}, None)
        lower = {"neutrality": neutral} if job.name.startswith("values shown, DReST") else {}
        values = {order: usual | lower if order == "reversed" else usual for order in wrong_goals.ORDERS}
        return Result(
            {}, {f"{order}/{name}": np.array([it]) for order, of in values.items() for name, it in of.items()}
        )

    claims = published(misspecified, cfg, get).claims
    assert [held for text, held in claims.items() if "Neutrality is learned" in text] == [neutral < 0.96]
