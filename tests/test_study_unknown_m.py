"""m unknown: predictions for a wrong m, or none, have their symmetries, and the report says what the numbers say."""

import numpy as np
import pytest

from drest_torch.jobs.tabular_job import last
from drest_torch.report.tables import select, values
from drest_torch.studies.unknown_m import study as unknown_m
from drest_torch.studies.unknown_m.analysis import Variant, best_return, means_of, predict, predicted_curve
from drest_torch.studies.unknown_m.study import KNOWN, NONE, SEEN
from drest_torch.theory import balance
from tests.helpers.studies import Pretended, composed, publish

FACTORS = (0.1, 0.5, 2.0, 10.0)
UNKNOWN = "Neutrality if coins are divided by m, by the largest return seen so far, or by nothing"
BY_FACTOR = "Mean {}, by the factor of m of {}".format


@pytest.fixture(scope="module")
def cfg():
    return composed("unknown_m")


def longer(factor):
    return Variant("", "best", 1.0, factor)


@pytest.mark.parametrize("factor", FACTORS)
def test_too_large_an_m_is_the_mirror_image_of_too_small_a_one(cfg, factor):
    p, bits = predict(cfg, longer(factor))
    q, same = predict(cfg, longer(1 / factor))
    assert p + q == pytest.approx(1)
    assert bits == pytest.approx(same)
    assert (p < 0.5) == (factor > 1)
    assert p == pytest.approx(balance(1.0, 1 / factor, 0.9, 64).item())


def test_one_half_wherever_both_lengths_offer_the_same(cfg):
    for variant in (KNOWN, SEEN, *(Variant("", "best", f, f) for f in FACTORS)):
        assert predict(cfg, variant, (0.3, 2.0)) == (pytest.approx(0.5), pytest.approx(1))


def test_no_divisor_is_a_wrong_one(cfg):
    """By m of the shorter ÷ m of the longer."""
    assert predict(cfg, NONE, (0.5, 1.5)) == pytest.approx(predict(cfg, longer(0.5 / 1.5)))
    assert predict(cfg, NONE, (1.0, 1.0))[0] == pytest.approx(0.5)


def test_m_has_the_gamma_of_the_world(cfg):
    assert best_return(cfg, "example") == pytest.approx([2 * 0.95**3, 3 * 0.95**7])
    assert best_return(cfg, "spacious") == pytest.approx([2 * 0.9**2, 3 * 0.9**4])


def test_runs_say_what_coins_are_divided_by(cfg):
    specs = {job.name: job.spec for job in unknown_m.jobs(cfg)}
    assert len(specs) == len(cfg.worlds) * (4 + 2 * len(cfg.factors))
    assert (specs["example-m"]["divisor"], specs["example-m"]["factors"]) == ("best", None)
    assert [specs[f"example-{name}"]["divisor"] for name in ("seen", "none")] == ["seen", "none"]
    assert specs["spacious-longer-x0.5"]["factors"] == [1.0, 0.5]
    assert specs["spacious-both-x2"]["factors"] == [2.0, 2.0]
    usual, patient = (specs[f"example-longer-x2{end}"]["training"] for end in ("", "-patient"))
    assert [patient[each] // usual[each] for each in ("meta_episodes", "decay_episodes")] == [4, 4]
    assert [specs[f"{name}-m"]["training"]["gamma"] for name in ("example", "spacious")] == [0.95, 0.9]


def test_the_curve_of_predictions_goes_through_each_of_them(cfg):
    curves = {both: predicted_curve(cfg, np.array(FACTORS), both) for both in (False, True)}
    assert curves[False].tolist() == pytest.approx([predict(cfg, longer(factor))[1] for factor in FACTORS])
    assert curves[True].tolist() == pytest.approx([1] * len(FACTORS))


# ----------------------------------------------------------------------------------------- analysis


def test_results_are_the_last_values_of_every_agent(cfg):
    finished = Pretended(cfg.agents)
    results = unknown_m.analyse(cfg, finished).results
    result = finished.get(unknown_m.job(cfg, "spacious", SEEN))
    for clock in ("moves", "steps"):
        for metric in ("neutrality", "usefulness"):
            rows = values(results, level="spacious", variant="seen", clock=clock, metric=metric)
            assert rows.tolist() == last(result, clock, metric).tolist()
        p = values(results, level="spacious", variant="seen", clock=clock, metric="p_longer")
        assert p.tolist() == last(result, clock, "p_length")[:, 1].tolist()
    predictions = select(results, split="predicted", metric="neutrality")
    assert len(predictions) == len(unknown_m.variants(cfg)) - 1 + len(cfg.worlds)  # none has one for each world
    wrong = values(predictions, variant="longer-x2")
    assert wrong.tolist() == [predict(cfg, longer(2.0))[1]]
    none = values(predictions, variant="none", level="spacious")
    assert none.tolist() == [predict(cfg, NONE, best_return(cfg, "spacious"))[1]]


def test_means_of_what_is_there(cfg):
    finished = Pretended(cfg.agents, lambda job: job.name not in ("example-m", "spacious-none"))
    results = select(unknown_m.measure(cfg, finished), clock="moves")
    means = means_of(results, cfg.worlds, [KNOWN, SEEN], "neutrality")
    assert np.isnan(means).tolist() == [[False, True], [True, True]]
    assert means[0, 0] == last(finished.get(unknown_m.job(cfg, "example", KNOWN)), "moves", "neutrality").mean()


# -------------------------------------------------------------------------------------------- report


def ends(job):
    """As the full study finds: all is well with m and with the largest seen, less so with a wrong m or none."""
    for part, neutral in {"patient": 0.75, "longer-x2": 0.5, "longer-x0.5": 0.97, "none": 0.875}.items():
        if part in job.name:
            return {"neutrality": neutral, "usefulness": 0.995}
    return {"neutrality": [0.992, 0.998], "usefulness": 0.96 if job.name == "spacious-both-x0.5" else 0.992}


def test_the_report_says_what_the_numbers_say(cfg):
    published = publish(unknown_m, cfg, Pretended(cfg.agents, ends=ends))
    bits = {name: f"{predict(cfg, NONE, best_return(cfg, name))[1]:.3f}" for name in cfg.worlds}
    cells = ["✓ 0.995 ± 0.004", "✓ 0.995 ± 0.004", "✗ 0.875 ± 0.000"]
    assert published.tables[UNKNOWN] == {
        "The running example": ["1.71, 2.10", *cells, bits["example"]],
        "Spacious": ["1.62, 1.97", *cells, bits["spacious"]],
    }
    predicted = f"{predict(cfg, longer(2.0))[1]:.3f}"
    assert published.tables[BY_FACTOR("neutrality (bits)", "the longer length")] == {
        "The running example": ["0.970", "0.995", "0.500", "0.750"],
        "Spacious": ["0.970", "0.995", "0.500", "0.750"],
        "predicted": [predicted, "1.000", predicted, predicted],
    }
    assert published.tables[BY_FACTOR("usefulness", "both lengths")]["Spacious"] == ["0.960", "0.992", "0.992"]
    text = published.text
    assert "m need not be known." in text
    assert "in all of 2 worlds. The lowest means are 0.995 and 0.992." in text
    assert "mean neutrality is from 0.875 to 0.875; it is lowest in the world The running example." in text
    apart = np.mean([abs(0.875 - predict(cfg, NONE, best_return(cfg, name))[1]) for name in cfg.worlds])
    assert f"is {apart:.3f} off on average" in text
    assert f"is 0.500 after the paper's schedules and 0.750 after schedules 4 times as long, where {predicted}" in text
    assert "Longer training brings the agents closer to the prediction" in text
    assert "the lowest mean usefulness is 0.960, at f = 0.5." in text
    assert [quote.measured for quote in published.analysis.quotes] == [
        "N ≥ 0.995, U ≥ 0.992 in 2 worlds",
        "× 0.5: N ≥ 0.970; × 2: N ≥ 0.500; × 2, trained 4 times as long: N ≥ 0.750",
        "N from 0.875 to 0.875",
    ]
    assert "nan" not in text


def test_the_other_branches_of_the_conclusions(cfg):
    def worse(job):
        return ends(job) | ({"neutrality": 0.25} if job.name in ("spacious-seen", "example-longer-x2-patient") else {})

    text = publish(unknown_m, cfg, Pretended(cfg.agents, ends=worse)).text
    assert "agents have neutrality and usefulness of 0.99 or more in 1 of 2 worlds." in text
    assert "m need not be known" not in text
    assert "Longer training does not bring the agents closer to the prediction." in text


def test_findings_have_both_clocks(cfg):
    finished = Pretended(cfg.agents, ends=lambda job: {"moves/neutrality": [0.25, 0.75], "steps/usefulness": 0.5})
    findings = unknown_m.analyse(cfg, finished).findings
    assert set(findings["worlds"]) == {"example", "spacious"}
    known = findings["worlds"]["example"]["m"]
    assert list(known) == ["moves / moves", "moves / steps"]
    assert known["moves / moves"]["neutrality"] == pytest.approx([0.5, 0.5 / 2**0.5])
    assert known["moves / steps"]["usefulness"] == [0.5, 0]
    assert findings["predicted"]["longer-x2"] == predict(cfg, longer(2.0))


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("lost", "quotes"),
    [("", 0), ("example", 3), ("seen", 2), ("none", 2), ("longer", 2), ("x2", 3), ("-m", 3)],
)
def test_the_report_comes_whatever_is_missing(cfg, lost, quotes):
    published = publish(unknown_m, cfg, Pretended(cfg.agents, lambda job: lost in job.name))
    assert len(published.analysis.quotes) == quotes
    assert published.opens_with_its_answer() == bool(lost) == bool(published.plots)
    assert "nan" not in published.text
    rows = published.tables[UNKNOWN]
    assert list(rows) == {"": [], "example": ["Spacious"]}.get(lost, ["The running example", "Spacious"])
    column = {"-m": 1, "seen": 2, "none": 3}.get(lost)
    for cells in rows.values():
        assert [index for index, cell in enumerate(cells) if cell == "–"] == ([column] if column else [])
    assert ("No run in which m is replaced" in published.text) == (lost in ("", "seen"))
