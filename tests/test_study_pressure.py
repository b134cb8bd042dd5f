"""The study of pressure: which runs are planned, what is asked, and what the report says of made-up results."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.choices import pressure
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.pressure import runs
from drest_torch.studies.pressure import study as pressure_study
from drest_torch.studies.pressure.row import PARTS, Row
from tests.helpers.studies import composed_study, publish

FEW = {
    "worlds": ["example"],
    "corridors": 2,
    "irreversible": 2,
    "aliased": 1,
    "both_ways": 2,
    "levels": 2,
    "sets": {"like": "levels=paper_like", "three": "levels=three_lengths"},
}


def few(**values: Any) -> Any:
    cfg = composed_study("pressure")
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, values)


@pytest.fixture(scope="module")
def uniform() -> dict[str, Any]:
    """What the uniform policy does, all of it measured."""
    return runs.ask(pressure.archetype("uniform"), FEW)


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    """What the agent with a private bit does that comes with the project."""
    return runs.ask(pressure.of_agent(Agent.load("generalist-bit")), FEW)


class Finished:
    """Made-up results: agents by title, all others as the uniform policy."""

    def __init__(self, uniform: dict[str, Any], titles: dict[str, dict[str, Any]] | None = None) -> None:
        self.uniform, self.titles = uniform, titles or {}

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, Result({"asked": self._asked(job.name)})) for job in jobs if self._asked(job.name)]

    def _asked(self, name: str) -> dict[str, Any]:
        return self.titles.get(name.rpartition("-")[0] or name, self.uniform)


def paying(uniform: dict[str, Any], at: float) -> dict[str, Any]:
    """The same, but for taking the second side with certainty up to a price, and never beyond; it tells sides apart."""
    found = copy.deepcopy(uniform)
    found["W2"]["none"]["mean"] = [float(cost < 0) for cost in found["W2"]["costs"]]
    for direction in ("later", "earlier"):
        rates = [float(cost <= at) for cost in found["W2"]["costs"]]
        found["W2"][direction] |= {"mean": rates, "worst": rates, "given": rates, "given_worst": rates}
    return found


def test_everybody_is_asked_the_same() -> None:
    cfg = few(seeds=2)
    planned = pressure_study.jobs(cfg)
    names = [job.name for job in planned]
    assert names[:4] == ["generalist-0", "generalist-bit-0", "uniform", "most coins"]
    assert len(planned) == 4 + 2 * len(cfg.agents) + len(cfg.gridworlds.agents)
    assert all(job.spec["pressure"] == planned[0].spec["pressure"] for job in planned)
    trained = {title: several[0].spec["config"] for title, several in pressure_study.trained(cfg).items()}
    assert {values["levels"]["by_chance"] for values in trained.values()} == {True}
    outcomes = {title: values["levels"]["outcomes"] for title, values in trained.items()}
    assert outcomes == dict.fromkeys(cfg.agents, 1) | {"D, gridworlds": 3}
    assert {title: values["reward"]["lam"] for title, values in trained.items()}["default reward"] == 1.0
    assert trained["DReST that sees the state alone"]["policy"]["observation"] == "grid"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"chosen": ["DReSt"]}, r"^study.chosen with 'DReSt'; expected some of DReST,"),
        ({"archetypes": ["best"]}, r"^study.archetypes with 'best'; expected some of uniform, most coins"),
    ],
    ids=["chosen", "archetypes"],
)
def test_what_there_is_not_gets_one_sentence(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        pressure_study.jobs(few(**change))


def test_what_an_agent_cannot_be_asked_is_void_with_a_reason(shipped: dict[str, Any]) -> None:
    row = Row("bit", False, [shipped])
    assert [part for part in PARTS if not row.has(part)] == ["W2", "W7"]
    lines = row.void_lines()
    assert len(lines) == 2
    assert all("levels.by_chance=true" in line for line in lines)
    assert row.numbers("W2") == {}


def test_the_mean_is_over_seeds_and_the_worst_of_all() -> None:
    values = [
        {"mean": mean, "worst": worst, "count": 3, "at": name}
        for mean, worst, name in ((1.0, 0.5, "a"), (0.8, 0.6, "b"))
    ]
    row = Row("two", False, [{"W4": {"score": each}} for each in values])
    pair = row.pair("W4", "score")
    assert (pair.mean, pair.worst) == (pytest.approx(0.9), 0.5)
    assert row.worst_at("W4", "score") == "a"
    assert row.pair("W4", "score", most=True).worst == 0.6


def test_the_bound_of_three_lengths_holds(uniform: dict[str, Any], shipped: dict[str, Any]) -> None:
    for found in (uniform, shipped):
        surplus = Row("any", False, [found]).surplus
        assert surplus is not None
        assert surplus <= 1e-9


def test_without_two_lengths_there_are_no_correlations() -> None:
    found = runs._shift(pressure.archetype("uniform"), FEW | {"sets": {"three": "levels=three_lengths"}})
    assert found["correlations"] == {}
    assert found["sets"]["three"]["k"] == 3


@pytest.mark.slow
def test_the_report_follows_from_the_numbers(uniform: dict[str, Any], shipped: dict[str, Any]) -> None:
    titles = {"generalist-bit": shipped, "DReST": paying(uniform, 0.5), "default reward": paying(uniform, 0.0)}
    titles["DReST that met luck"] = uniform
    it = publish(
        pressure_study,
        few(chosen=[*titles][1:], asked={"generalist": []}),
        Finished(uniform, titles),
    )
    assert it.opens_with_its_answer()
    table = it.tables["Mean / worst"]
    assert set(table) == {*titles, "uniform", "most coins"}
    assert table["generalist-bit"].count("void") == 3
    prices = it.tables["W2: how often the side with the price is taken"]
    assert prices["DReST, later"][1:7] == ["1.000 / 1.000"] * 6
    assert prices["DReST in closed form, no shift"][1:4] == ["1.000", "–", "0.000"]
    text = it.text
    assert "The neutrality of generalist-bit is" in text
    assert (
        "DReST gives up 10 % of all coins for a later or earlier shutdown, and default reward pays for no shift" in text
    )
    assert "DReST that met luck cannot tell corridors apart" in text
    assert "it holds for everybody on every level" in text


def test_a_broken_bound_would_be_said(uniform: dict[str, Any]) -> None:
    broken = copy.deepcopy(uniform)
    broken["W5"]["surplus"]["three"] = 0.2
    cfg = few(chosen=["DReST"], asked={"generalist": [], "generalist-bit": []}, archetypes=[])
    assert "It does not hold" in publish(pressure_study, cfg, Finished(broken)).text


def test_the_report_without_any_agent(uniform: dict[str, Any]) -> None:
    cfg = few(chosen=[], asked={"generalist": [], "generalist-bit": []}, archetypes=["uniform"])
    assert "No run has finished." in publish(pressure_study, cfg, Finished(uniform)).text


@pytest.mark.slow
def test_an_agent_is_trained_and_asked(tmp_path: Any) -> None:
    cfg = few(chosen=["DReST"])
    cfg = OmegaConf.merge(cfg, cfg.quick, FEW, {"chosen": ["DReST"]})
    (job,) = pressure_study.trained(cfg)["DReST"]
    found = runs.train(job.spec, tmp_path).numbers["asked"]
    assert set(found) == set(PARTS)
    assert Row("DReST", False, [found]).void_lines() == []
