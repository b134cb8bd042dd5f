"""The study of randomness: rows of bits, pairs and memories, and rows that refute each claim."""

from types import SimpleNamespace

import numpy as np
import pytest

from drest_torch.agent import Agent
from drest_torch.choices import bits
from drest_torch.envs.levels import find_levels
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import choosers, randomness
from drest_torch.studies.choosers import COSTS
from drest_torch.studies.engine import Done
from drest_torch.studies.randomness import BIT, PROJECT_BIT, REMEDIES, STATE, UNPAID
from drest_torch.studies.randomness.memory import AVERAGED, COUNTS, COUNTS_AVERAGED, FORGETS
from tests.helpers.studies import composed_study

CFG = composed_study("randomness", "study.seeds=2")
GIVEN_BIT = {BIT: 0.01, PROJECT_BIT: 0.0}
"""The neutrality given the bit of agents that always see it."""
SCORES = {STATE: (0.9, 0.96)}
"""Usefulness and neutrality on pairs of levels."""
ENTROPIES = {"counts": 0.52, "counts, meta credit": 0.3, "recurrent": 0.6}
"""The entropy given the memory of the kinds that are not random."""


def test_unknown_parts_are_refused():
    with pytest.raises(ConfigError, match=r"study\.parts with 'nothing'; expected"):
        randomness.jobs(composed_study("randomness", "study.parts=[nothing]"))


def test_unknown_observations_are_refused():
    with pytest.raises(ConfigError, match=r"study\.sees with 'nothing'; expected"):
        randomness.jobs(composed_study("randomness", "study.sees=[nothing]"))


@pytest.mark.parametrize("part", randomness.PARTS)
def test_a_single_part_can_be_run(part):
    assert {key.part for key in randomness.jobs(composed_study("randomness", f"study.parts=[{part}]"))} == {part}


def bits_result(agent, seed):
    """Return the result of an agent. The bit decides for one seed of each kind that sees it for long."""
    given_bit = GIVEN_BIT.get(agent, 0.95)
    if agent == BIT and seed == 1:
        given_bit = 0.95
    if agent in (REMEDIES[0], REMEDIES[2]) and seed == 0:
        given_bit = 0.1
    neutrality = 1.0 if agent in GIVEN_BIT else 0.96
    arrays = {}
    for title in randomness.SETS:
        arrays |= {
            f"{title}/usefulness": np.array([0.96, 1.0]),
            f"{title}/neutrality": np.array([neutrality, neutrality]),
            f"{title}/own": np.array([given_bit - 0.01, given_bit + 0.01]),
        }
        if agent in GIVEN_BIT:
            arrays[f"{title}/reflip/choice"] = np.array([[0.9, 0.7], [0.4, 0.2]])
            arrays[f"{title}/reflip/usefulness"] = np.array([[0.6, 0.8], [0.3, 0.5]])
    costs = np.array(COSTS)
    paid = np.stack([np.where(costs < 0.05, 0.9, 0.0), np.where(costs == 0.2, 0.02, 0.01)])
    for way in randomness.WAYS:
        arrays[f"pays/{way}"] = paid if agent == UNPAID else np.full((2, len(costs)), np.nan)
    return Result({}, arrays)


def result(key):
    if key.part == "bits":
        return bits_result(key.agent, key.seed)
    if key.part == "pairs":
        useful, neutral = SCORES.get(key.agent, (0.99, 1.0))
        means = {"usefulness": np.array([useful] * 4), "neutrality": np.array([neutral] * 4)}
        return Result({}, means | {"bound": np.array([0.93, 0.95])})
    entropy = ENTROPIES.get(key.agent, 1.0)
    return Result({"marginal": 1.0, "conditional": entropy, "predictable": 0.5, "value": 1.05})


@pytest.fixture(scope="module")
def rows():
    planned = randomness.jobs(CFG)
    results = {job.digest(): result(key) for key, job in planned.items()}
    return randomness.rows(CFG, Done(planned, SimpleNamespace(get=lambda job: results[job.digest()])))


def test_rows_of_a_bit_are_means_over_levels(rows):
    row = randomness.of_part(rows, "bits", BIT, title="test").iloc[0]
    assert row[["usefulness", "neutrality", "own"]].tolist() == pytest.approx([0.98, 1.0, 0.01])
    redrawn = randomness.of_part(rows, "redrawn", BIT, title="paper")
    assert redrawn[redrawn.seed == 0].choice.tolist() == pytest.approx([0.8, 0.3])


def test_rows_have_the_payment_under_the_worse_setting(rows):
    paid = randomness.of_part(rows, "paid", UNPAID)
    paid = paid[(paid.seed == 0) & (paid.way == "later")].set_index("price").paid
    assert paid[0.02] == pytest.approx(0.9)
    assert paid[0.2] == pytest.approx(0.02)
    assert {*randomness.of_part(rows, "paid").dropna(subset="paid").agent} == {UNPAID}


def test_the_score_of_pairs_averages_both_measures(rows):
    row = randomness.of_part(rows, "pairs", STATE).iloc[0]
    assert row.score == pytest.approx(0.93)
    assert row.bound == pytest.approx(0.94)
    assert row.pairs == 2


def test_the_best_meta_episode_is_in_closed_form(rows):
    optimum = randomness.of_part(rows, "optimum").set_index("agent").value
    assert optimum["one length 51 times, then the other 13 times"] == pytest.approx(160.03, abs=0.01)
    assert optimum["neutral, without memory"] == pytest.approx(66.88, abs=0.01)


def test_an_agent_with_a_bit_is_neutral_before_it_is_drawn():
    arrays = choosers.measure(Agent.load(PROJECT_BIT), bits.always(), {"paper": find_levels("paper")})
    (row,) = [row for row in randomness._bits(Result({}, arrays)) if row["part"] == "bits"]
    assert row["neutrality"] > 0.999
    assert row["own"] < 0.001


def test_all_claims_hold_for_these_rows(rows):
    assert [sentence for sentence, claim in randomness.CLAIMS.items() if not claim(rows)] == []


@pytest.mark.parametrize(
    ("beginning", "part", "agent", "column", "value"),
    [
        ("Given its private bit", "bits", PROJECT_BIT, "own", 0.1),
        ("Not every agent", "bits", BIT, "own", 0.1),
        ("Not every agent", "bits", BIT, "own", 0.95),
        ("Given its private bit", "bits", PROJECT_BIT, "neutrality", 0.9),
        ("Of three remedies", "bits", REMEDIES[1], "own", 0.8),
        ("Of three remedies", "bits", REMEDIES[0], "own", 0.95),
        ("The remedies cost", "bits", REMEDIES[2], "usefulness", 0.9),
        ("The remedies cost", "bits", REMEDIES[0], "neutrality", 0.9),
        ("Agents that are trained", "paid", UNPAID, "paid", 0.06),
        ("On levels that share", "pairs", STATE, "score", 0.95),
        ("Everything that tells", "pairs", "state and memory", "score", 0.93),
        ("An agent that sees how", "memory", COUNTS, "conditional", 0.9),
        ("An agent that sees how", "memory", COUNTS, "marginal", 0.9),
        ("A recurrent agent", "memory", FORGETS, "conditional", 0.9),
        ("With averaged", "memory", AVERAGED, "conditional", 0.9),
        ("With averaged", "memory", COUNTS_AVERAGED, "conditional", 0.9),
        ("The best meta", "optimum", "neutral, without memory", "value", 200),
    ],
)
def test_other_rows_refute_a_claim(rows, beginning, part, agent, column, value):
    (claim,) = [claim for sentence, claim in randomness.CLAIMS.items() if sentence.startswith(beginning)]
    assert claim(rows)
    changed = rows.copy()
    changed.loc[(changed.part == part) & (changed.agent == agent), column] = value
    assert not claim(changed)
