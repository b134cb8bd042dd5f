"""The study of networks: its runs, and what its report makes of results, few or many."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.jobs.executor import run_jobs
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from drest_torch.report import html as pages
from drest_torch.report.blocks import Page
from drest_torch.report.html import write_page
from drest_torch.studies.example import study as example
from drest_torch.studies.neural import study as neural
from drest_torch.studies.neural.study import TABLE, Curve
from drest_torch.studies.study import Finished, Report, compose_study
from drest_torch.studies.worlds import study as worlds
from envs.dynamics.mdp import compile_levels
from envs.exact.propagator import Reachable
from tests.helpers.chromium import check_page, needs_chromium

SMALL = [
    "study.worlds=[example,spacious]",
    "study.seeds=2",
    "study.default_seeds=1",
    "study.agents=3",
    "study.run.policy.width=16",
    "+study.run.policy.depth=1",
    "+study.run.algo.episodes=128",
    "study.run.evaluations=3",
    *(f"study.algorithms.{algo}.env_steps=3000" for algo in ("reinforce", "a2c", "ppo")),
    "study.variants_of=[a2c]",
    "study.table.meta_episodes=16",
    "study.tables.example.meta_episodes=16",
    "study.table.random_episodes=500",
]


def composed(name: str, *overrides: str) -> Any:
    cfg = compose_study(name, *overrides).study
    OmegaConf.resolve(cfg)
    return cfg


@pytest.fixture(scope="module")
def cfg() -> Any:
    return composed("neural", *SMALL)


@pytest.fixture(scope="module", autouse=True)
def poor_pictures() -> Iterator[None]:
    """Good ones take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("drest_torch.training.run.learning_curves", lambda metrics, picture: None)
        patched.setattr(pages, "_DOTS", 40)
        yield


def job_of(cfg: Any, world: str, algo: str, reward: str, seed: int = 0) -> Job:
    return neural._runs(cfg, world, algo, reward)[seed]


# -------------------------------------------------------------------------------------------- runs


def test_every_world_is_trained_in_by_every_algorithm_with_both_rewards_and_several_seeds() -> None:
    cfg = composed("neural")
    jobs = neural.jobs(cfg)
    variants = len(cfg.variants) * len(cfg.variants_of) * cfg.seeds
    assert len(jobs) == 9 * (2 + 3 * (cfg.seeds + cfg.default_seeds)) + variants
    assert len({job.digest() for job in jobs}) == len({job.name for job in jobs}) == len(jobs)
    values = job_of(cfg, "example", "a2c", "drest", seed=1).spec["config"]
    assert (values["algo"]["name"], values["reward"]["name"], values["levels"]["name"]) == ("a2c", "drest", "example")
    assert (values["seed"], values["reward"]["gamma"], values["levels"]["clock"]) == (1, 0.95, "steps")
    assert values["env_steps"] == cfg.algorithms.a2c.env_steps
    values = job_of(cfg, "spacious", "ppo", "default").spec["config"]
    assert (values["reward"]["lam"], values["reward"]["gamma"]) == (1.0, 0.9)


def test_the_tables_are_those_of_the_studies_of_the_table() -> None:
    """So that they are trained once when all studies are run."""
    digests = {
        job.digest() for module in (example, worlds) for job in module.jobs(composed(module.__name__.split(".")[2]))
    }
    tables = {
        job.digest() for kind, jobs in neural._jobs(composed("neural")).items() if kind[1] == TABLE for job in jobs
    }
    assert len(tables) == 18
    assert tables <= digests


def test_a_variant_differs_from_the_run_above_in_what_it_says() -> None:
    cfg = composed("neural")
    (above,) = {str(job_of(cfg, "example", "a2c", "drest").spec["config"])}
    for (words, algo), several in neural._variants(cfg).items():
        values = several[0].spec["config"]
        assert (values["algo"]["name"], values["levels"]["name"], values["reward"]["name"]) == (
            algo,
            "example",
            "drest",
        )
        assert str(values) != above
        assert values["reward"]["gamma"] == 0.95
        assert values["algo"]["normalise_advantage"] == ("variance" in words)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("study.run.policy.width=0", r"^policy.width=0; expected"),
        ("study.shown=lopsided", r"^study.shown=lopsided; expected one of study.worlds"),
        ("study.variants_of=[exact]", r"^study.variants_of=exact; expected some of reinforce, a2c, ppo"),
        ("+study.algorithms.dqn={}", r"^algo=dqn; expected one of"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run(said: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        neural.jobs(composed("neural", said))


# ------------------------------------------------------------------------------------------ curves


def curve(useful: Sequence[float], neutral: Sequence[float]) -> Curve:
    return Curve(np.arange(len(useful)) * 10, np.array(useful), np.array(neutral), np.zeros(len(useful)))


@pytest.mark.parametrize(
    ("useful", "neutral", "arrives"),
    [
        ([0, 1, 1, 1], [0, 0, 1, 1], 20),
        ([0, 1, 0.5, 1], [1, 1, 1, 1], 30),
        ([1, 1, 1, 1], [1, 1, 1, 1], 0),
        ([1, 1, 1, 1], [1, 1, 1, 0.9], math.inf),
    ],
)
def test_what_counts_is_when_both_are_good_for_good(
    useful: Sequence[float], neutral: Sequence[float], arrives: float
) -> None:
    assert curve(useful, neutral).arrival(0.95) == arrives


# ------------------------------------------------------------------------------------------ report


def made_up(job: Job, *, useful: float = 0.99, neutral: float = 0.98) -> Result:
    """What a run could have found."""
    if "agents" in job.spec:
        return _made_up_table(job, useful, neutral)
    level = neural._level(job.spec["config"]["levels"]["name"])
    reachable = Reachable(compile_levels([level]))
    lengths = reachable.lengths[0].tolist()
    ends = {"usefulness": useful, "neutrality": neutral, f"p_length/{lengths[0]}": 0.6, f"p_length/{lengths[1]}": 0.4}
    arrays = {f"eval/train/{name}": np.linspace(0, value, 4) for name, value in ends.items()}
    arrays |= {
        "steps": np.arange(4) * 1000 + job.spec["config"]["seed"],
        "train/usefulness": np.array([useful]),
        "train/neutrality": np.array([neutral]),
        "train/lengths": np.array(lengths),
        "train/p_length": np.array([0.6, 0.4]),
        "train/share_of_best": np.array([useful, useful]),
        "train/policy": np.full((len(reachable), 4), 0.25, np.float32),
    }
    return Result({"splits": {}, "env_steps": 3000, "mini_episodes": 500, "wall_seconds": 2.5}, arrays)


def _made_up_table(job: Job, useful: float, neutral: float) -> Result:
    training, agents = job.spec["training"], job.spec["agents"]
    level = neural._level(job.spec["world"])
    mdp = compile_levels([level])
    total = training["random_episodes"] + training["meta_episodes"] * training["episodes_per_meta"]
    grown = np.linspace(0, 1, 5)[:, None] * np.ones(agents)
    arrays = {
        "episodes": np.linspace(0, total, 5).astype(int),
        "steps/usefulness": useful * grown,
        "steps/neutrality": neutral * grown,
        "steps/p_length": np.stack([1 - 0.4 * grown, 0.4 * grown], -1),
        "steps/share_of_best": np.stack([useful * grown] * 2, -1),
        "logits": np.zeros((agents, mdp.num_cells << mdp.num_objects, 4)),
    }
    lengths = Reachable(mdp).lengths[0].tolist()
    return Result({"lengths": lengths, "steps": 6 * total * agents}, arrays)


def stored(cfg: Any, folder: Path, jobs: Sequence[Job], **values: float) -> Finished:
    store = Store(folder)
    for job in jobs:
        store.put(job, made_up(job, **values), 1.0)
    return Finished(store)


def written(report: Report, path: Path) -> str:
    write_page(Page(report.title, report.question, report.sections), path)
    return path.read_text("utf-8")


def test_the_report_says_what_was_found(cfg: Any, tmp_path: Path) -> None:
    finished = stored(cfg, tmp_path / "runs", neural.jobs(cfg))
    bad = job_of(cfg, "spacious", "ppo", "drest", seed=1)
    finished.store.put(bad, made_up(bad, useful=0.5), 1.0)
    report = neural.report(cfg, finished)
    page = written(report, tmp_path / "report.html")
    assert "REINFORCE 4 of 4, A2C 4 of 4, PPO 3 of 4" in page
    found = report.numbers["worlds"]["spacious"]["ppo"]
    assert found["drest"]["agents"] == 2
    assert found["drest"]["both"] == 1
    assert found["drest"]["usefulness"] == pytest.approx([0.745, 0.5, 0.99])
    assert found["drest"]["steps_until_both"] is None  # one of two never
    assert report.numbers["worlds"]["example"]["a2c"]["drest"]["steps_until_both"] == pytest.approx(3000.5)
    whole = report.numbers["all"]["ppo"]["drest"]
    assert (whole["agents"], whole["good"]) == (4, 3)
    assert whole["usefulness"]["estimate"] == pytest.approx((3 * 0.99 + 0.5) / 4)
    assert report.numbers["all"]["reinforce"]["default"]["agents"] == 2
    assert [quote.measured.rpartition("; ")[2] for quote in report.quotes[:3]] == [
        "both ≥ 0.95 in 4 of 4",
        "both ≥ 0.95 in 4 of 4",
        "both ≥ 0.95 in 3 of 4",
    ]
    # Made up: P(longer) is 0.4 everywhere, and it is the longer that pays more in both worlds.
    assert "table 0 of 6, REINFORCE 0 of 2, A2C 0 of 2, PPO 0 of 2. The other networks" in page
    assert page.count("A2C, half the steps") == 2
    assert page.count("A typical DReST policy") == 4
    assert "Every DReST network that ends with one of the two below 0.95" in page
    assert not re.search(r"\bnan\b", re.sub(r'"data:[^"]*"', "", page))


@pytest.mark.parametrize(
    "kept",
    [
        lambda kind, seed: False,
        lambda kind, seed: kind[1] == TABLE,
        lambda kind, seed: kind[1] == "ppo",
        lambda kind, seed: kind[2] == "default",
        lambda kind, seed: kind[2] == "drest" and kind[0] == "spacious",
        lambda kind, seed: (kind, seed) != (("example", "a2c", "drest"), 1),
        lambda kind, seed: seed == 1,
    ],
    ids=["none", "tables", "ppo", "default", "one world", "all but one", "second seeds"],
)
def test_the_report_comes_whatever_is_missing(cfg: Any, tmp_path: Path, kept: Any) -> None:
    jobs = [job for kind, jobs in neural._jobs(cfg).items() for seed, job in enumerate(jobs) if kept(kind, seed)]
    report = neural.report(cfg, stored(cfg, tmp_path / "runs", jobs))
    assert [section.title for section in report.sections][:2] == ["What was asked", "World by world"]
    assert len(report.sections) == 5
    assert all(quote.measured for quote in report.quotes)


def test_one_seed_has_no_interval_and_no_range(cfg: Any, tmp_path: Path) -> None:
    report = neural.report(cfg, stored(cfg, tmp_path / "runs", neural._runs(cfg, "example", "ppo", "drest")[:1]))
    assert [quote.measured for quote in report.quotes] == ["U 0.990, N 0.980; both ≥ 0.95 in 1 of 1"]
    tables = {block.caption: block for block in report.sections[1].blocks if isinstance(block, pages.Table)}
    assert ["The running example", "–", "–", "–", "✓ 0.990"] in tables["DReST agents: usefulness"].rows


def test_the_steps_of_a_table_are_those_it_took(cfg: Any, tmp_path: Path) -> None:
    (job,) = neural._jobs(cfg)["example", TABLE, "drest"]
    result = made_up(job)
    steps = neural._steps_of_table(cfg, "example", result)
    assert (np.diff(steps) > 0).all()
    assert steps[0] == 0
    assert steps[-1] == pytest.approx(result.numbers["steps"] / cfg.agents)
    episodes = result.arrays["episodes"]
    chance = neural._chance("example", 0.95)
    assert steps[1] == pytest.approx(episodes[1] * (chance.lengths @ chance.probability))  # of random play


def test_real_runs_make_a_report_and_one_that_fails_is_missing_from_it(tmp_path: Path) -> None:
    few = ["study.worlds=[example]", "study.seeds=1", "study.default_seeds=0", "study.variants_of=[]"]
    cfg = composed("neural", *SMALL, *few)
    store, jobs = Store(tmp_path / "runs"), neural.jobs(cfg)
    broken = job_of(cfg, "example", "a2c", "drest")
    checkpoints = store.folder_of(broken) / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "step-000000001000.safetensors").write_bytes(b"not a checkpoint")
    (failure,) = run_jobs(jobs, store, Local(0))
    assert failure.job.name == broken.name
    report = neural.report(cfg, Finished(store))
    assert report.numbers["worlds"]["example"].keys() == {TABLE, "reinforce", "ppo"}
    tabular = report.numbers["worlds"]["example"][TABLE]["drest"]
    assert (tabular["agents"], len(tabular["usefulness"])) == (3, 3)
    assert report.numbers["all"]["ppo"]["drest"]["agents"] == 1
    (*_, policies) = report.sections
    assert [plot.caption.partition(":")[0] for plot in policies.blocks[-1].plots] == ["table", "REINFORCE", "PPO"]


@pytest.mark.slow
@needs_chromium
def test_the_report_has_room_with_all_worlds(tmp_path: Path) -> None:
    cfg = composed("neural", *SMALL[1:])
    report = neural.report(cfg, stored(cfg, tmp_path / "runs", neural.jobs(cfg), useful=0.5))
    written(report, tmp_path / "report.html")
    for width, dark in ((390, True), (1440, False)):
        assert check_page(tmp_path / "report.html", width, dark) == []
