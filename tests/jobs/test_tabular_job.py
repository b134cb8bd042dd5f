"""The run of tabular agents: its evaluations, the divisor of coins, and its stored arrays."""

import numpy as np
import pytest
import torch

from drest_torch.algos.tabular import check_finite
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.jobs import tabular_job
from drest_torch.jobs.job import Result
from drest_torch.jobs.tabular_job import TabularTraining, agents_job, last, p_longest, train

TRAINING = TabularTraining(
    **{"lam": 0.8, "gamma": 0.9, "episodes_per_meta": 4, "meta_episodes": 5, "clip": 3.0, "evaluate_every": 2},
    **{"lr": 0.25, "lr_end": 0.01, "epsilon": 0.5, "epsilon_end": 0.001, "decay_episodes": 8, "random_episodes": 3},
    **{"discount_bumps": True},
)


@pytest.fixture
def played(monkeypatch):
    """Replace playing by a stub; return the arguments of the rules, and the numbers of mini-episodes."""
    recorded = {"played": []}

    def rules_for(training, reward, divisor, *, learns_divisor):
        recorded.update(reward=reward, divisor=divisor, learns=learns_divisor)

    def play(compiled, rules, state, number):
        recorded["played"].append(number)
        state.played[:] += number
        state.steps[:] += 7 * number
        state.logits[0, :, 2] += number  # the first agent goes left, the more so the longer it plays

    monkeypatch.setattr(tabular_job.tabular, "rules_for", rules_for)
    monkeypatch.setattr(tabular_job, "play", play)
    return recorded


def job(**changes):
    values = {"label": "run", "world": "example", "clock": "moves", "reward": "drest", "agents": 12} | changes
    return agents_job(TRAINING, **values)


def test_agents_are_evaluated_at_regular_intervals(played, tmp_path):
    result = train(job().spec, tmp_path)
    assert result.arrays["episodes"].tolist() == [0, 8, 16, 23]
    assert played["played"] == [0, 8, 8, 7]
    assert result.numbers == {"lengths": [4, 8], "steps": 12 * 7 * 23, "episodes": 12 * 23, "cut_off": 0}
    assert result.arrays["moves/usefulness"].shape == (4, 12)
    assert result.arrays["steps/p_length"].shape == (4, 12, 2)
    assert len(result.arrays["logits"]) == 10  # the stored tables
    assert result.arrays["logits"][0, 0, 2] == 23
    assert last(result, "moves", "usefulness").tolist() == result.arrays["moves/usefulness"][3].tolist()
    longest = result.arrays["moves/p_length"][..., 1]
    assert p_longest(result, "moves").tolist() == longest.tolist()
    assert longest[0, 0] > longest[3, 0]  # by then the first agent avoids the button
    assert longest[0, 1] == longest[3, 1]


@pytest.mark.parametrize(
    ("changes", "times", "learns"),
    [
        ({}, "m", False),
        ({"factors": (1.0, 0.5)}, "m, the longer halved", False),
        ({"divisor": "seen"}, "one", True),
        ({"divisor": "none"}, "one", False),
        ({"reward": "default"}, "one", False),
    ],
)
def test_coins_have_the_divisor_of_the_run(played, tmp_path, changes, times, learns):
    train(job(agents=1, **changes).spec, tmp_path)
    best = solve(compile_levels([world("example").with_clock("moves")]), 0.9).best_return[0].tolist()
    assert played["divisor"] == {"m": best, "m, the longer halved": [best[0], best[1] / 2], "one": [1, 1]}[times]
    assert played["learns"] == learns
    reward = played["reward"]
    assert reward.lam == (1.0 if changes.get("reward") == "default" else 0.8)
    assert reward.gamma == 0.9
    assert reward.episodes_per_meta == 4
    assert reward.clip == 3.0


def test_the_spec_holds_all_arguments_of_a_job():
    spec = job(x=2.5, evaluated_on=("steps",), lam=0.7, factors=(1.0, 2.0)).spec
    assert {name: spec[name] for name in ("x", "evaluated_on", "factors", "agents", "divisor")} == {
        "x": 2.5,
        "evaluated_on": ["steps"],
        "factors": [1.0, 2.0],
        "agents": 12,
        "divisor": "best",
    }
    assert spec["training"]["lam"] == 0.7
    assert spec["training"]["gamma"] == 0.9
    assert job().spec["factors"] is None
    assert job().spec["evaluated_on"] == ["moves", "steps"]


def test_every_table_is_evaluated_by_its_logits():
    tables = Tables(world("example"), 0.9, 2)
    rows = tables.mdp.num_cells << tables.mdp.num_objects
    logits = np.random.default_rng(0).normal(size=(2, rows, 4))
    metrics = tables.evaluate(logits)
    optima, alone = solve(tables.mdp, 0.9), Tables(world("example"), 0.9, 1)
    for agent in range(2):
        of_agent = alone.evaluate(logits[agent : agent + 1])
        for name, values in metrics.items():
            assert values[agent] == pytest.approx(of_agent[name][0])
    assert (metrics["p_length"] * metrics["share_of_best"]).sum(-1) == pytest.approx(metrics["usefulness"])
    p = metrics["p_length"]
    assert metrics["neutrality"] == pytest.approx(-(p * np.log2(p)).sum(-1))
    lengths = tables.reachable.propagate(tables.probabilities(logits), 0.9)
    assert metrics["share_of_best"] == pytest.approx((lengths.coins / optima.best_return).numpy())
    assert tables.probabilities(logits).sum(-1).allclose(torch.ones(()).double())
    assert tables.lengths == [4, 8]


def test_a_table_with_infinite_logits_is_refused():
    check_finite(np.zeros(3))
    with pytest.raises(ConfigError, match="the table's logits are no longer finite"):
        check_finite(np.array([0.0, np.inf]))


def test_the_last_values_are_numbers_of_double_precision():
    result = Result({}, {"steps/neutrality": np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)})
    assert last(result, "steps", "neutrality").dtype == float
    assert last(result, "steps", "neutrality").tolist() == pytest.approx([0.3, 0.4])
