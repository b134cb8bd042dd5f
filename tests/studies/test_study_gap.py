"""The study of the preferential gap: rows of forks, and rows that refute each claim."""

from types import SimpleNamespace

import numpy as np
import pytest

from drest_torch.choices import forks
from drest_torch.choices.forks import ANTE, RATIOS, SETTINGS, SOFTMAX
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import gap
from drest_torch.studies.engine import Done
from drest_torch.studies.gap import BIT, DEFAULT, DREST, UNDIVIDED
from tests.helpers.studies import composed_study

CFG = composed_study("gap", "study.seeds=2")


def chances(p_long, p_better):
    """Return the probabilities [S, 1, 5] of options in forks, from P(long) and P(b | long) in each setting."""
    p_long, p_better = (np.broadcast_to(np.asarray(p, float), len(SETTINGS)) for p in (p_long, p_better))
    both = (1 - p_long, p_long * p_better, p_long * (1 - p_better), 1 - p_long, p_long)
    return np.stack(both, -1)[:, np.newaxis]


BETTER = np.array([0.99 if b > c else 0.5 if b == c else 0.01 for _, b, c in SETTINGS])
"""P(b | long) of an agent that prefers more coins."""
BY_COINS = np.array([gap.predicted(b / a).item() for a, b, _ in SETTINGS])
"""P(long) of training without the division by m."""
CHANCES = {
    DREST: chances(0.5, BETTER)[None],
    UNDIVIDED: chances(np.where(np.arange(len(SETTINGS)) == 0, 0.97, BY_COINS), BETTER)[None],
    DEFAULT: chances(0.9999, 0.99)[None],
    "generalist": chances(0.4, BETTER)[None],
    "generalist-buttons": chances(0.6, BETTER)[None],
    BIT: np.stack([chances(1e-5, BETTER), chances(1 - 1e-5, BETTER)]),
    "random policy": chances(0.7, 0.5)[None],
    "most coins": chances(0.99999, 0.99999)[None],
}


def result(key):
    arrays = {"forks": CHANCES[key.agent]}
    if key.agent in CFG.agents:
        arrays |= {"test/usefulness": np.array([0.9, 1.0]), "test/neutrality": np.array([0.7, 0.9])}
    return Result({}, arrays)


@pytest.fixture(scope="module")
def rows():
    planned = gap.jobs(CFG)
    results = {job.digest(): result(key) for key, job in planned.items()}
    return gap.rows(CFG, Done(planned, SimpleNamespace(get=lambda job: results[job.digest()])))


def test_unknown_scripted_policies_are_refused():
    with pytest.raises(ConfigError, match=r"study\.scripted with 'nobody'; expected"):
        gap.jobs(composed_study("gap", "study.scripted=[nobody]"))


def test_rows_have_the_choices_of_every_agent(rows):
    row = gap.of_part(rows, "choice", agents=[DREST]).iloc[1]
    assert row.seed == 1
    assert row.trio == pytest.approx(1.0)
    assert row.p_long == pytest.approx(0.5)
    assert row.usefulness == pytest.approx(0.95)
    assert row.p_better == pytest.approx(0.99)
    assert gap.of_part(rows, "choice", agents=["generalist"]).usefulness.isna().all()


def test_an_agent_with_a_bit_has_a_row_for_each_setting(rows):
    bit = rows[(rows.part == "choice") & (rows.agent == BIT)].set_index("where")
    assert bit.p_long[ANTE] == pytest.approx(0.5)
    assert bit.p_long["given setting 2"] == pytest.approx(1 - 1e-5)
    assert [*bit.index] == [ANTE, SOFTMAX, "given setting 1", "given setting 2"]


def test_void_forks_are_counted_once(rows):
    row = rows[(rows.agent == BIT) & (rows["where"] == "given setting 1") & (rows.part == "choice")].iloc[0]
    assert row.void == 1  # neither the elasticities nor P(b | long) can be measured
    assert np.isnan(row.p_better)


def test_curves_have_a_point_for_each_ratio(rows):
    curve = gap.p_long(rows, UNDIVIDED)
    assert curve.index.tolist() == [*RATIOS]
    assert curve.loc[1.0] == pytest.approx(0.5)


def test_the_softmax_is_as_deterministic_as_the_agent(rows):
    row = gap.of_part(rows, "choice", SOFTMAX, [DREST]).iloc[0]
    steepness, _ = forks.matched_softmax(CHANCES[DREST].mean(0))
    assert row.steepness == pytest.approx(steepness)
    assert row.ratio == pytest.approx(1, abs=1e-3)


def holds(rows, beginning):
    (claim,) = [claim for sentence, claim in gap.CLAIMS.items() if sentence.startswith(beginning)]
    return bool(claim(rows))


def test_all_claims_hold_for_these_rows(rows):
    assert [sentence for sentence, claim in gap.CLAIMS.items() if not claim(rows)] == []


@pytest.mark.parametrize(
    ("beginning", "agent", "where", "column", "value"),
    [
        ("Agents that are trained", DREST, ANTE, "trio", 0.9),
        ("Agents that are trained", "generalist", ANTE, "trio", 0.9),
        ("More coins", BIT, ANTE, "ratio", -0.06),
        ("They leave the length", DREST, ANTE, "curve", 0.96),
        ("If coins are not divided", UNDIVIDED, ANTE, "trio", 1.0),
        ("With the default reward", DEFAULT, ANTE, "trio", 0.1),
        ("A softmax of coins that", "generalist", SOFTMAX, "trio", 0.1),
        ("A softmax of coins that", "random policy", ANTE, "trio", 0.1),
        ("Given its private bit", BIT, "given setting 2", "trio", 0.1),
        ("For a softmax", DREST, SOFTMAX, "ratio", 0.9),
        ("Without the division", UNDIVIDED, ANTE, "curve", 0.5),
    ],
)
def test_other_rows_refute_a_claim(rows, beginning, agent, where, column, value):
    changed = rows.copy()
    place = (changed.agent == agent) & (changed["where"] == where) & changed[column].notna()
    changed.loc[place, column] = value
    assert place.any()
    assert holds(rows, beginning)
    assert not holds(changed, beginning)
