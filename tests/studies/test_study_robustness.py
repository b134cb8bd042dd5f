"""The study of robustness: evaluations of families of levels, their rows, and rows that refute each claim."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from drest_torch.choices import forks
from drest_torch.choices.adversarial import LevelMeasures, scripted_policy
from drest_torch.choices.buttons import COSTS, SHIFTS, closed_form
from drest_torch.errors import ConfigError, UserError
from drest_torch.jobs.job import Result
from drest_torch.studies import robustness
from drest_torch.studies.engine import Done
from drest_torch.studies.robustness import ALL, BIT, PLAIN, evaluations
from tests.helpers.studies import composed_study

CFG = composed_study("robustness", "study.existing.generalist=[runs/A,runs/B]")


def test_unknown_scripted_policies_are_refused():
    with pytest.raises(ConfigError, match=r"study\.scripted with 'nobody'; expected"):
        robustness.jobs(composed_study("robustness", "study.scripted=[nobody]"))


# ------------------------------------------------------------------------------------ evaluations


def measured(useful, neutral, given_bits, without_luck, k=(2, 3)):
    return LevelMeasures(np.array(["a", "b"]), *map(np.array, (k, useful, neutral, given_bits, without_luck)))


def test_the_first_step_costs_the_difference_of_two_sets(monkeypatch):
    sets = iter(
        [
            measured((0.5, 0.9), (0.4, 1.0), (0.3, 0.2), (0.3, 0.2)),
            measured((0.9, 1.0), (1.0, 0.9), (0.4, 0.9), (0.5, 0.8)),
        ]
    )
    monkeypatch.setattr(evaluations, "measure", lambda policy, levels: next(sets))
    numbers, _ = evaluations.first_step(None, {"irreversible": 2})
    lost = numbers[ALL]["usefulness lost"]
    assert lost["mean"] == pytest.approx(0.25)
    assert lost["worst"] == pytest.approx(0.4)
    assert lost["at"] == "a"
    assert numbers[ALL]["own lost"]["at"] == "b"


def test_pairs_are_compared_with_their_bounds(monkeypatch):
    level = forks.designs()[0]
    monkeypatch.setattr(evaluations.aliased, "pairs", lambda number: (((level, level), 0.9), ((level, level), 0.95)))
    monkeypatch.setattr(evaluations.aliased, "pair_scores", lambda policy, pairs: np.array([0.92, 0.7]))
    numbers, _ = evaluations.shared_states(None, {"shared": 2})
    assert numbers[ALL]["score"]["mean"] == pytest.approx(0.81)
    assert numbers[ALL]["score"]["worst"] == pytest.approx(0.7)
    assert numbers[ALL]["bound"]["mean"] == pytest.approx(0.925)


def test_other_levels_are_bounded_by_private_bits(monkeypatch):
    sets = {
        "two": measured((0.5, 0.9), (0.4, 1.0), (0.3, 0.2), (0.3, 0.2), k=(2, 2)),
        "three": measured((0.9, 1.0), (1.0, 1.5), (0.4, 0.9), (0.5, 0.8)),
    }
    monkeypatch.setattr(evaluations, "level_set", lambda arguments, number: (arguments, number))
    monkeypatch.setattr(evaluations, "measure", lambda policy, levels: sets[levels[0]])
    spec = {"levels": 7, "sets": {"two": "two", "three": "three"}}
    numbers, values = evaluations.other_levels(SimpleNamespace(settings=4), spec)
    assert numbers["three"]["neutrality"]["mean"] == pytest.approx((1.0 + 1.5 / math.log2(3)) / 2)
    assert numbers[ALL]["usefulness"]["mean"] == pytest.approx(3.3 / 4)
    assert numbers[ALL]["surplus"]["worst"] == pytest.approx(max(1.0 - 2.2, 1.5 - 2.9))
    assert values["usefulness"].tolist() == [0.5, 0.9, 0.9, 1.0]


def test_a_family_that_does_not_fit_has_its_reason(monkeypatch):
    def refuse(policy, spec):
        raise UserError("it does not observe chances")

    for name in ("changed_levels", "first_step", "shared_states", "other_levels"):
        monkeypatch.setattr(evaluations, name, lambda policy, spec: ({ALL: {}}, {}))
    monkeypatch.setattr(evaluations, "priced_corridors", refuse)
    result = evaluations.evaluate(scripted_policy("uniform"), {})
    assert result.numbers["prices"] == {"void": "it does not observe chances"}
    assert result.numbers["change"] == {ALL: {}}


def test_every_kind_of_change_is_summarised():
    numbers, values = evaluations.changed_levels(scripted_policy("most coins"), {"worlds": ["example"]})
    assert {*numbers} == {ALL, "coin", "button", "wall", "shutdown"}
    assert numbers[ALL]["usefulness"]["worst"] == pytest.approx(1)
    assert len(values["usefulness"]) == sum(numbers[kind]["usefulness"]["count"] for kind in numbers if kind != ALL)


# ------------------------------------------------------------------------------------------- rows

ENDS = {  # mean and worst of usefulness, of neutrality, of own neutrality, and the score on pairs
    PLAIN: ((0.95, 0.6), (0.97, 0.2), (0.97, 0.2), 0.97),
    "generalist-buttons": ((0.93, 0.4), (0.95, 0.3), (0.95, 0.3), 0.92),
    BIT: ((0.99, 0.5), (1.0, 0.99), (0.01, 0.0), 0.99),
    "random policy": ((0.1, 0.0), (0.2, 0.0), (0.2, 0.0), 0.3),
    "most coins": ((1.0, 1.0), (0.1, 0.0), (0.1, 0.0), 0.6),
}


def summary(mean, worst):
    return {"count": 12, "mean": mean, "worst": worst, "at": "there"}


def result(key):
    """Return the result of a policy; the second seed is worse only in the worst case."""
    useful, neutral, own_neutrality, score = ENDS[key.agent]
    worse = 0.05 * key.seed
    measures = {
        "usefulness": summary(useful[0], useful[1] - worse),
        "neutrality": summary(*neutral),
        "own": summary(*own_neutrality),
    }
    three = summary(0.62 if key.agent == BIT else neutral[0], 0.0)
    numbers = {
        "change": {ALL: measures, "coin": measures},
        "first step": {ALL: {"usefulness lost": summary(0.03, 0.3 + worse)}},
        "shared": {ALL: {"score": summary(score, 0.7), "bound": summary(0.94, 0.93)}},
        "sets": {ALL: measures | {"surplus": summary(-0.5, -0.1)}, "three_lengths": measures | {"neutrality": three}},
        "prices": {"void": "it does not observe chances"},
    }
    if key.agent in robustness.SCRIPTED.values():
        rates = {"mean": [0.5] * len(COSTS), "worst": [0.6] * len(COSTS)}
        numbers["prices"] = {"costs": [*COSTS], **dict.fromkeys(SHIFTS, rates)}
    arrays = {f"{family}/{name}": np.array([0.2, 0.9]) for family in ("change", "sets") for name in robustness.PROFILED}
    return Result(numbers, arrays)


@pytest.fixture(scope="module")
def rows():
    planned = robustness.jobs(CFG)
    results = {job.digest(): result(key) for key, job in planned.items()}
    return robustness.rows(CFG, Done(planned, SimpleNamespace(get=lambda job: results[job.digest()])))


def test_the_worst_case_is_the_worst_of_all_seeds(rows):
    """Means are averaged over seeds; the worst case is the worst over seeds."""
    useful = robustness.on_levels(rows, "change", "usefulness").loc[PLAIN]
    assert useful["mean"] == pytest.approx(0.95)
    assert useful["worst"] == pytest.approx(0.55)
    lost = robustness.on_levels(rows, "first step", "usefulness lost").loc[PLAIN]
    assert lost["worst"] == pytest.approx(0.35)


def test_profiles_are_shares_of_levels(rows):
    profile = rows[(rows.part == "profile") & (rows.agent == BIT) & (rows.family == "sets")].set_index(
        ["measure", "tau"]
    )
    assert profile.share[("neutrality", 0.2)] == 1
    assert profile.share[("neutrality", 0.225)] == 0.5
    assert profile.share[("usefulness", 0.925)] == 0


def test_the_table_of_prices_has_the_closed_form(rows):
    table = robustness.price_table(rows)
    cells = {row[0]: dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows}
    assert cells["random policy: a later shutdown"]["κ = 0.1"] == "0.50"
    exact = f"{closed_form('later', 0.5, 0.9, 64):.2f}"
    assert cells["DReST, closed form: a later shutdown"]["κ = 0.5"] == exact
    assert cells["DReST, closed form: no shift"]["κ = 0"] == "–"


def test_a_cell_has_mean_over_worst_case(rows):
    (row,) = [row for row in robustness.level_table(rows).rows if row[0] == BIT]
    assert row[1:4] == ["0.990 / 0.500", "1.000 / 0.990", "0.010 / 0.000"]


def test_all_claims_hold_for_these_rows(rows):
    assert [sentence for sentence, claim in robustness.CLAIMS.items() if not claim(rows)] == []


@pytest.mark.parametrize(
    ("beginning", "agent", "family", "measure", "column", "value"),
    [
        ("In the worst case", BIT, "change", "usefulness", "worst", 0.8),
        ("On average", PLAIN, "change", "usefulness", "mean", 0.85),
        ("The neutrality of `generalist`", PLAIN, "change", "neutrality", "worst", 0.6),
        ("The neutrality of `generalist-bit`", BIT, "change", "neutrality", "worst", 0.6),
        ("The neutrality of `generalist-bit`", BIT, "change", "own", "mean", 0.6),
        ("Where the first step", BIT, "first step", "usefulness lost", "mean", 0.2),
        ("On levels that share", PLAIN, "shared", "score", "mean", 0.93),
        ("On levels that share", "generalist-buttons", "shared", "score", "mean", 0.95),
        ("A private bit decides", PLAIN, "sets", "surplus", "worst", 0.1),
    ],
)
def test_other_rows_refute_a_claim(rows, beginning, agent, family, measure, column, value):
    (claim,) = [claim for sentence, claim in robustness.CLAIMS.items() if sentence.startswith(beginning)]
    assert claim(rows)
    changed = rows.copy()
    place = (changed.agent == agent) & (changed.family == family) & (changed.measure == measure)
    changed.loc[place & (changed.set == ALL), column] = value
    assert not claim(changed)
