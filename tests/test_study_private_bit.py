"""The study of the private bit: its runs, and what it measures of agents that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drest_torch.agent import Agent
from drest_torch.choices import bits
from drest_torch.envs.levels import read_levels
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import choosers, lotteries
from drest_torch.studies.private_bit import study
from tests.helpers.studies import composed, composed_study


@pytest.fixture(scope="module")
def cfg():
    return composed("private_bit")


@pytest.fixture(scope="module")
def known() -> dict[str, np.ndarray]:
    return choosers.measure(Agent.load("generalist-bit"), bits.always(), {"paper": "paper"}, {})


def test_every_kind_is_a_run_of_its_own(cfg):
    several = study.jobs(cfg)
    assert len({job.digest() for job in several}) == len(several) == len(cfg.chosen)
    cfg.agents["a bit"]["shown"] = "now and then"
    with pytest.raises(ConfigError, match="'a bit' with shown=now and then; expected one of always, never, first"):
        study.jobs(cfg)
    cfg.agents["a bit"]["shown"] = "always"


def test_some_of_the_kinds_can_be_chosen(cfg):
    several = composed_study("private_bit")
    several.chosen = ["a bit", "no bit"]
    assert list(study.trained(several)) == ["no bit", "a bit"]
    several.chosen = ["no bits"]
    with pytest.raises(ConfigError, match=r"^study.chosen with 'no bits'; expected some of no bit; a bit; drawn again"):
        study.jobs(several)


def test_the_levels_of_a_run_are_generated_ones_and_menus(cfg, tmp_path: Path):
    (job,) = study.trained(cfg)["a bit, pays nothing"]
    files = choosers.write_level_files(job.spec, tmp_path)
    levels = {name: read_levels(path) for name, path in files.items()}
    assert {name: len(several) for name, several in levels.items()} == {"train": 120, "selection": 5, "test": 10}
    assert sum(bool(level.lotteries) for level in levels["train"]) == 60
    assert not any(level.lotteries for level in levels["test"])
    again = choosers.write_level_files(job.spec, tmp_path / "again")
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in files.items())


def test_the_agent_with_a_bit_is_neutral_before_it_is_drawn_and_not_after(known):
    assert known["paper/neutrality"].mean() > 0.999
    assert known["paper/own"].mean() < 0.001
    choice = known["paper/reflip/choice"].mean(-1)
    assert choice[0] > 0.999  # a bit that is drawn again before the first step is obeyed
    assert (np.diff(choice) <= 1e-9).all()
    assert known["paper/reflip/usefulness"].mean(-1).min() < 0.6  # halfway, to obey costs
    assert np.isnan(known["pays/later"]).all()  # it was never shown a lottery


def test_what_is_paid_is_the_worst_over_the_bits_and_both_directions(known):
    paid = np.zeros((2, len(choosers.COSTS)))
    paid[1, choosers.COSTS.index(0.2)] = 0.4
    arrays = known | {"pays/later": paid, "pays/earlier": np.zeros_like(paid)}
    kind = study.Kind("one", [arrays])
    assert kind.paid("post") == [0.4]
    assert kind.paid("ante") == [0.2]
    cheap = arrays | {"pays/later": np.where(np.array(choosers.COSTS) < 0.05, 1.0, 0.0) * np.ones((2, 1))}
    assert study.Kind("one", [cheap]).paid("post") == [0.0]


def test_the_report_says_what_the_numbers_say(known):
    paid = np.zeros((2, len(choosers.COSTS))) + 0.3
    pays = known | {"pays/later": paid, "pays/earlier": paid} | {f"test/{k}": known[f"paper/{k}"] for k in KEPT}
    frugal = pays | {"pays/later": 0 * paid, "pays/earlier": 0 * paid}

    class Done:
        def of(self, jobs):
            jobs = list(jobs)
            found = {"a bit": pays, "a bit, pays nothing": frugal}
            return [(job, Result({}, found[title])) for job in jobs for title in found if job.name == f"{title}-0"]

    analysis = study.analyse(composed("private_bit"), Done())
    assert analysis.names["pays"] == {"a bit": pytest.approx(0.3)}
    assert analysis.names["pays_not"] == {"a bit, pays nothing": 0.0}
    assert [row[0] for row in analysis.tables["paid"].rows] == ["a bit", "a bit, pays nothing"]


KEPT = ("usefulness", "neutrality", "own", "reflip/choice", "reflip/usefulness")


def test_an_agent_of_gridworlds_is_the_same_run_in_two_studies():
    own = study.trained(composed_study("private_bit"))["no bit, pays nothing"][0]
    other = lotteries.jobs(composed_study("lotteries"))[lotteries.Key("gridworlds", "D, gridworlds", 0)]
    assert own.digest() == other.digest()
