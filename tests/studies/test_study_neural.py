"""The study of networks: its runs, the rows of each agent, and rows that refute each claim."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.jobs.job import Result
from drest_torch.studies import neural, site
from tests.helpers.documents import ROOT
from tests.helpers.studies import composed_study, table_ends

ARRAYS = {
    "steps": np.array([0.0, 1_000_000, 2_040_000]),
    "eval/train/usefulness": np.array([0.1, 0.5, 0.9]),
    "eval/train/neutrality": np.array([0.2, 0.6, 1.0]),
    "train/usefulness": np.linspace(0.92, 1.0, 9),
    "train/neutrality": np.ones(9),
}
SAMPLED = Result({"env_steps": 2_040_000}, ARRAYS)


@pytest.fixture(scope="module")
def planned():
    return neural.jobs(composed_study("neural"))


def test_networks_have_five_seeds_with_each_reward(planned):
    networks = [key for key in planned if key.algorithm != neural.TABLE]
    assert len(networks) == 4 * 2 * 5
    assert len(planned) - len(networks) == 2 * 9


def test_a_run_has_the_published_configuration(planned):
    config = planned[neural.Key("ppo", "drest", seed=3)].spec["config"]
    assert config["levels"]["name"] == "paper"
    assert config["env_steps"] == 3_000_000
    assert config["reward"]["gamma"] == 0.9
    assert config["seed"] == 3
    assert planned[neural.Key("a2c", "default")].spec["config"]["env_steps"] == 6_000_000


def test_the_worlds_are_played_on_the_clock_of_the_study():
    assert {world(name).clock for name in PAPER_WORLDS} == {neural.CLOCK}


def test_a_network_has_a_row_for_each_world():
    rows = neural.rows(None, {neural.Key("ppo", "drest", seed=2): SAMPLED})
    ends = neural.of_part(rows, "end", algorithm="ppo", seed=2)
    assert ends.world.tolist() == [*PAPER_WORLDS]
    assert ends.usefulness.tolist() == pytest.approx(np.linspace(0.92, 1.0, 9))


def test_a_curve_ends_with_the_steps_of_training():
    curve = neural.curve_of(SAMPLED)
    assert curve["effort"][-1] == 2_000_000
    assert curve["usefulness"][[0, -1]].tolist() == [0.1, 0.9]
    assert len(curve["effort"]) == neural.POINTS


def test_exact_gradients_are_counted_in_updates():
    numbers = {"env_steps": 0, "updates": 500, "levels_per_update": 9}
    assert neural.curve_of(Result(numbers, ARRAYS))["effort"][-1] == 500


def test_a_table_has_a_row_for_each_agent():
    result = table_ends({"steps": ((0.9, 1.0), (0.8, 0.7), (0.5, 0.5))})
    rows = neural.rows(None, {neural.Key(neural.TABLE, "drest", "spacious"): result})
    assert rows.neutrality.tolist() == [0.9, 1.0]
    assert rows.usefulness.tolist() == [0.8, 0.7]
    assert rows.seed.tolist() == [0, 1]
    assert set(rows.world) == {"spacious"}


@pytest.fixture
def rows():
    """Return rows of every algorithm: 0.98 in all worlds; with the default reward neutrality is 0."""
    parts = []
    for algorithm in (*neural.NETWORKS, neural.TABLE):
        for reward, neutrality in ("drest", 0.98), ("default", 0.0):
            kind = {"algorithm": algorithm, "reward": reward}
            ends = [{"seed": seed, "world": name} for seed in (0, 1) for name in PAPER_WORLDS]
            parts.append(pd.DataFrame(ends).assign(part="end", **kind, usefulness=0.98, neutrality=neutrality))
            curve = pd.DataFrame({"seed": [0, 0], "effort": [0, 1e6], "usefulness": [0.1, 0.98]})
            parts.append(curve.assign(part="curve", **kind, neutrality=[0.1, neutrality]))
    return pd.concat(parts, ignore_index=True)


def changed(rows, metric, number, **where):
    chosen = pd.Series(True, rows.index)
    for column, value in where.items():
        chosen &= rows[column] == value
    return rows.assign(**{metric: rows[metric].mask(chosen, number)})


@pytest.mark.parametrize(
    ("claim", "metric", "number", "where"),
    [
        (neural.networks_learn, "neutrality", 0.8, {"algorithm": "reinforce", "part": "end", "reward": "drest"}),
        (neural.networks_learn, "usefulness", 0.8, {"algorithm": "exact", "part": "end", "reward": "drest"}),
        (neural.default_is_not_neutral, "neutrality", 0.3, {"algorithm": "ppo", "reward": "default"}),
        (neural.default_is_not_neutral, "usefulness", 0.8, {"algorithm": "ppo", "reward": "default"}),
        (neural.curves_rise, "neutrality", 0.5, {"part": "curve", "algorithm": "a2c", "effort": 1e6}),
    ],
)
def test_an_algorithm_refutes_a_claim(claim, metric, number, where, rows):
    assert claim(rows)
    assert not claim(changed(rows, metric, number, **where))


def test_both_algorithms_without_a_critic_have_to_settle_early(rows):
    single = changed(rows, "neutrality", 0.0, algorithm="reinforce", reward="drest", world="spacious", seed=0)
    assert not neural.some_settle_early(single)
    assert neural.some_settle_early(changed(single, "usefulness", 0.9, algorithm="exact", reward="drest", seed=1))


def test_worlds_below_the_mark_are_named(rows):
    assert neural.missed(rows) == "none"
    bad = changed(rows, "neutrality", 0.9, algorithm="reinforce", reward="drest", world="last_moment", seed=1)
    assert neural.missed(bad) == "REINFORCE in Last Moment (1)"
    assert neural.missed(changed(rows, "usefulness", 0.9, reward="drest")) == "72 of 72"


def test_the_table_has_the_papers_expectation(rows):
    table = neural.totals_table(rows)
    assert table.header == ["reward and algorithm", "usefulness", "neutrality", "both ≥ 0.95", "the paper"]
    cells = {row[0]: [*row[1:]] for row in table.rows}
    assert cells["DReST, PPO"] == ["0.980", "0.980", "18 of 18", "no large difficulties"]
    assert cells["default, PPO"] == ["0.980", "0.000", "–", "–"]


def test_every_figure_is_made(rows):
    for name, figure in neural.FIGURES.items():
        assert figure(rows).alt, name


def test_a_table_of_worlds_is_in_the_order_of_the_paper(rows):
    table = neural.world_table(rows, "ppo")
    assert [row[0] for row in table.rows][:2] == ["Running example", "Fewer For Longer"]
    assert [*table.rows[0][1:]] == ["0.980", "0.980", "0.000"]


def test_algorithm_pages_include_parts_of_the_study(rows, tmp_path):
    site._write_parts("neural", rows, tmp_path)
    for algorithm in neural.NETWORKS:
        page = (ROOT / "docs" / "algorithms" / f"{algorithm}.md").read_text("utf-8")
        for kind in ("figure", "table"):
            name = f"neural-{kind}-{algorithm}.txt"
            assert f"{{include}} ../studies/parts/{name}" in page
            assert (tmp_path / name).read_text("utf-8").startswith("````{raw} html")
