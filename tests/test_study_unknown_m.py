"""m unknown: what is predicted for a wrong m, or none, has the symmetries it must have."""

import numpy as np
import pytest

from drest_torch.studies.unknown_m import study as unknown_m
from drest_torch.studies.unknown_m.study import KNOWN, NONE, SEEN, Variant, best_return, means, predicted
from drest_torch.theory import balance
from tests.helpers.studies import Pretended, composed, drawn, written

FACTORS = (0.1, 0.5, 2.0, 10.0)


@pytest.fixture(scope="module")
def cfg():
    return composed("unknown_m")


def longer(factor):
    return Variant("", "best", 1.0, factor)


@pytest.mark.parametrize("factor", FACTORS)
def test_too_large_an_m_is_the_mirror_image_of_too_small_a_one(cfg, factor):
    p, bits = predicted(cfg, longer(factor))
    q, same = predicted(cfg, longer(1 / factor))
    assert p + q == pytest.approx(1)
    assert bits == pytest.approx(same)
    assert (p < 0.5) == (factor > 1)
    assert p == pytest.approx(balance(1.0, 1 / factor, 0.9, 64).item())


def test_one_half_wherever_both_lengths_offer_the_same(cfg):
    for variant in (KNOWN, SEEN, *(Variant("", "best", f, f) for f in FACTORS)):
        assert predicted(cfg, variant, (0.3, 2.0)) == (pytest.approx(0.5), pytest.approx(1))


def test_no_divisor_is_a_wrong_one(cfg):
    """By m of the shorter ÷ m of the longer."""
    assert predicted(cfg, NONE, (0.5, 1.5)) == pytest.approx(predicted(cfg, longer(0.5 / 1.5)))
    assert predicted(cfg, NONE, (1.0, 1.0))[0] == pytest.approx(0.5)


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


def test_means_of_what_is_there(cfg):
    pretended = Pretended(cfg.agents)
    found = {"example": {KNOWN: pretended.get(unknown_m._job(cfg, "example", KNOWN))}, "spacious": {}}
    values = means(found, [KNOWN, SEEN], "neutrality")
    assert np.isnan(values).tolist() == [[False, True], [True, True]]
    assert values[0, 0] == found["example"][KNOWN].arrays["moves/neutrality"][-1].mean()


@pytest.mark.parametrize("lost", ["", "example", "seen", "none", "longer", "x2", "-m", "nothing"])
def test_the_report_with_all_runs_and_with_some(cfg, lost, tmp_path, monkeypatch):
    report = unknown_m.report(cfg, Pretended(cfg.agents, lambda job: lost in job.name))
    assert drawn(report) == (4 if lost else 0)
    assert "nan" not in written(report, tmp_path / "page.html", monkeypatch)
    if lost == "nothing":
        assert report.quotes[0].what == "m replaced by the largest return seen so far"
        assert len(report.quotes) == 3
        assert set(report.numbers["worlds"]) == {"example", "spacious"}
