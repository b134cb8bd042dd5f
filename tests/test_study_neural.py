"""The study of networks: its runs, and what its report makes of results, few or many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.errors import ConfigError
from drest_torch.jobs.executor import run_jobs
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from drest_torch.report.blocks import Page, Section
from drest_torch.report.html import write_page
from drest_torch.report.tables import values
from drest_torch.studies import example
from drest_torch.studies.neural import study as neural
from drest_torch.studies.neural.analysis import TABLE, History, Kind, chance, level, table_steps
from drest_torch.studies.study import Finished
from tests.helpers.chromium import check_page, needs_chromium
from tests.helpers.studies import composed_study, publish

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
    cfg = composed_study(name, *overrides)
    OmegaConf.resolve(cfg)
    return cfg


@pytest.fixture(scope="module")
def cfg() -> Any:
    return composed("neural", *SMALL)


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[None]:
    """They take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("drest_torch.training.run.learning_curves", lambda metrics, picture: None)
        yield


def job_of(cfg: Any, world: str, algo: str, reward: str, seed: int = 0) -> Job:
    return neural.network_jobs(cfg, world, algo, reward)[seed]


# -------------------------------------------------------------------------------------------- runs


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_tables_are_those_of_the_studies_of_the_table() -> None:
    """So that they are trained once when all studies are run."""
    digests = {job.digest() for job in example.jobs(composed("example")).values()}
    tables = {
        job.digest()
        for kind, jobs in neural.jobs_by_kind(composed("neural")).items()
        if kind.algorithm == TABLE
        for job in jobs
    }
    assert len(tables) == 18
    assert tables <= digests


@pytest.mark.slow
def test_a_variant_differs_from_the_run_above_in_what_it_says() -> None:
    cfg = composed("neural")
    above = job_of(cfg, "example", "a2c", "drest").spec["config"]
    variants = {kind: jobs for kind, jobs in neural.jobs_by_kind(cfg).items() if kind.change}
    assert len(variants) == len(cfg.variants) * len(cfg.variants_of)
    for (name, algo, reward, change), several in variants.items():
        values = several[0].spec["config"]
        chosen = (values["algo"]["name"], values["levels"]["name"], values["reward"]["name"])
        assert chosen == (algo, "example", "drest") == (algo, name, reward)
        assert values != above
        assert values["reward"]["gamma"] == 0.95
        assert values["algo"]["normalise_advantage"] == ("variance" in change)


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
    measures = [np.array(each, float)[:, None] for each in (useful, neutral, [0.0, 0.2, 0.0, 0.2])]
    history = History(np.arange(4) * 10, *measures)
    assert history.arrival(0.95) == arrives
    assert history.notices(0.2) == 10  # for the first time, though not for good
    assert history.notices(0.3) == math.inf


# ------------------------------------------------------------------------------------------ results


@dataclass
class MadeUp:
    """Results that runs of this study could have, in place of `Finished`; ``ends`` changes those of single runs."""

    lost: Callable[[Job], bool] = lambda job: False
    ends: Callable[[Job], dict[str, float]] = lambda job: {}
    read: dict[str, Result] = field(default_factory=dict)

    def get(self, job: Job) -> Result | None:
        if self.lost(job):
            return None
        if job.digest() not in self.read:
            ends = {"useful": 0.99, "neutral": 0.98, "p": 0.4} | self.ends(job)
            made = tables_result if "agents" in job.spec else network_result
            self.read[job.digest()] = made(job, **ends)
        return self.read[job.digest()]

    def of(self, jobs: Sequence[Job]) -> list[tuple[Job, Result]]:
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]


def network_result(job: Job, useful: float, neutral: float, p: float) -> Result:
    reachable = Reachable(compile_levels([level(job.spec["config"]["levels"]["name"])]))
    lengths = reachable.lengths[0].tolist()
    ends = {"usefulness": useful, "neutrality": neutral, f"p_length/{lengths[0]}": 1 - p, f"p_length/{lengths[1]}": p}
    arrays = {f"eval/train/{name}": np.linspace(0, value, 4) for name, value in ends.items()}
    arrays |= {
        "steps": np.arange(4) * 1000 + job.spec["config"]["seed"],
        "train/usefulness": np.array([useful]),
        "train/neutrality": np.array([neutral]),
        "train/lengths": np.array(lengths),
        "train/p_length": np.array([1 - p, p]),
        "train/share_of_best": np.array([useful, useful]),
        "train/policy": np.full((len(reachable), 4), 0.25, np.float32),
    }
    return Result({"splits": {}, "env_steps": 3000, "mini_episodes": 500, "wall_seconds": 2.5}, arrays)


def tables_result(job: Job, useful: float, neutral: float, p: float) -> Result:
    training, agents = job.spec["training"], job.spec["agents"]
    mdp = compile_levels([level(job.spec["world"])])
    total = training["random_episodes"] + training["meta_episodes"] * training["episodes_per_meta"]
    grown = np.linspace(0, 1, 5)[:, None] * np.ones(agents)
    arrays = {
        "episodes": np.linspace(0, total, 5).astype(int),
        "steps/usefulness": useful * grown,
        "steps/neutrality": neutral * grown,
        "steps/p_length": np.stack([1 - p * grown, p * grown], -1),
        "steps/share_of_best": np.stack([useful * grown] * 2, -1),
        "logits": np.zeros((agents, mdp.num_cells << mdp.num_objects, 4)),
    }
    lengths = Reachable(mdp).lengths[0].tolist()
    return Result({"lengths": lengths, "steps": 6 * total * agents}, arrays)


def test_results_hold_every_agent_and_the_uniform_policy(cfg: Any) -> None:
    results = neural.analyse(cfg, MadeUp()).results
    of = {"level": "spacious", "algorithm": "ppo", "reward": "drest", "change": ""}
    assert values(results, **of, metric="usefulness").tolist() == [0.99, 0.99]
    assert values(results, **of, metric="steps_until_both").tolist() == [3000, 3001]
    assert values(results, **of, metric="steps_until_longer").tolist() == [1000, 1001]
    assert values(results, **of, metric="seconds").tolist() == [2.5, 2.5]
    assert set(results["study"]) == {"neural"}
    counts = results[results["metric"] == "p_better"].groupby(["algorithm", "reward", "change"]).size()
    assert counts["ppo", "default", ""] == 2  # a seed in each of two worlds
    assert counts[TABLE, "drest", ""] == 2 * cfg.agents
    assert counts["a2c", "drest", "half the steps"] == 2  # in one world
    best = chance("spacious", 0.9)
    (episodes,) = values(results, level="spacious", algorithm="uniform", metric="episodes_per_best")
    assert episodes == pytest.approx(1 / (best.probability[-1] * best.share_of_best[-1]))


def test_the_steps_of_a_table_are_those_it_took(cfg: Any) -> None:
    result = tables_result(neural.table_job(cfg, "example", "drest"), 0.99, 0.98, 0.4)
    uniform = chance("example", 0.95)
    steps = table_steps(result, uniform, cfg.table.random_episodes)
    assert (np.diff(steps) > 0).all()
    assert steps[0] == 0
    assert steps[-1] == pytest.approx(result.numbers["steps"] / cfg.agents)
    assert steps[1] == pytest.approx(result.arrays["episodes"][1] * (uniform.lengths @ uniform.probability))  # random


# ------------------------------------------------------------------------------------------- report


def test_the_report_says_what_was_measured(cfg: Any) -> None:
    bad = job_of(cfg, "spacious", "ppo", "drest", seed=1).digest()
    published = publish(neural, cfg, MadeUp(ends=lambda job: {"useful": 0.5} if job.digest() == bad else {}))
    findings = published.analysis.findings
    ppo = findings["worlds"]["spacious"]["ppo"]["drest"]
    assert (ppo["agents"], ppo["both"]) == (2, 1)
    assert ppo["usefulness"] == pytest.approx([0.745, 0.5, 0.99])
    assert ppo["steps_until_both"] is None  # one of two never
    assert findings["worlds"]["example"]["a2c"]["drest"]["steps_until_both"] == pytest.approx(3000.5)
    whole = findings["all"]["ppo"]["drest"]
    assert (whole["agents"], whole["good"]) == (4, 3)
    assert whole["usefulness"]["estimate"] == pytest.approx((3 * 0.99 + 0.5) / 4)
    assert findings["all"]["reinforce"]["default"]["agents"] == 2
    assert [quote.measured.rpartition("; ")[2] for quote in published.analysis.quotes[:3]] == [
        "both ≥ 0.95 in 4 of 4",
        "both ≥ 0.95 in 4 of 4",
        "both ≥ 0.95 in 3 of 4",
    ]
    text, tables = published.text, published.tables
    assert "Yes, with few exceptions: 11 of 12 networks trained with the DReST reward end" in text
    assert "(REINFORCE 4 of 4, A2C 4 of 4, PPO 3 of 4)" in text
    assert tables["DReST agents: usefulness"]["Spacious"] == [
        "✓ 0.990 (0.990-0.990)",
        "✓ 0.990 (0.990-0.990)",
        "✓ 0.990 (0.990-0.990)",
        "◐ 0.745 (0.500-0.990)",
    ]
    assert tables["DReST agents: how many have both ≥ 0.95"]["Spacious"] == ["3 of 3", "2 of 2", "2 of 2", "1 of 2"]
    assert tables["All worlds together, at the end of training"]["DReST, PPO"][0] == "3 of 4"
    missed = tables["Every DReST network that ends with one of the two below 0.95"]
    assert missed == {"Spacious": ["PPO", "0.500", "0.980", "0.400", "0.500", "0.500"]}
    changes = tables["The running example, DReST, with one thing different"]
    assert list(changes) == ["A2C, as above", *(f"A2C, {words}" for words in cfg.variants)]
    assert "none of these changes keeps more DReST networks from reaching 0.95" in text
    assert "nan" not in text


@pytest.mark.slow
def test_default_agents_that_stay_with_a_nearer_coin_are_told(cfg: Any) -> None:
    """P(longer) is 0.4, and it is the longer length that pays more in both worlds."""
    published = publish(neural, cfg, MadeUp())
    text = published.text
    assert "pays more: table 0 of 6, REINFORCE 0 of 2, A2C 0 of 2, PPO 0 of 2. The others end" in text
    caption = "Default agents: how many end with the length that pays more"
    assert published.tables[caption]["Spacious (longer)"] == ["0 of 3", "0 of 1", "0 of 1", "0 of 1"]
    assert "(median P(longer) below 0.5): table, REINFORCE, A2C and PPO. With DReST all of these find" in text
    better = publish(neural, cfg, MadeUp(ends=lambda job: {"p": 0.6})).text
    assert "pays more: table 6 of 6, REINFORCE 2 of 2, A2C 2 of 2, PPO 2 of 2." in better
    assert "A reward for coins alone" not in better
    assert "With the default reward the first coin" not in better


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("useful", "answer"),
    [(0.99, "Yes: all 12 networks"), (0.5, "No: none of 12 networks")],
)
def test_the_answer_is_that_of_the_numbers(cfg: Any, useful: float, answer: str) -> None:
    text = publish(neural, cfg, MadeUp(ends=lambda job: {"useful": useful})).text
    assert answer in text
    assert ("No DReST network ends with usefulness or neutrality below 0.95." in text) == (useful > 0.95)


@pytest.mark.slow
def test_a_change_that_makes_networks_fail_is_named(cfg: Any) -> None:
    published = publish(neural, cfg, MadeUp(ends=lambda job: {"neutral": 0.1} if "variant-1" in job.name else {}))
    words = "with these changes: A2C, half the steps, twice the entropy bonus. A network can settle too early"
    assert words in published.text
    changes = published.tables["The running example, DReST, with one thing different"]
    assert changes["A2C, half the steps, twice the entropy bonus"][0] == "0 of 2"


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("kept", "answer", "plots"),
    [
        (lambda kind, seed: False, "No network trained with the DReST reward has finished.", 0),
        (lambda kind, seed: kind.algorithm == TABLE, "No network trained with the DReST reward has finished.", 5),
        (lambda kind, seed: kind.algorithm == "ppo", "Yes: all 4 networks", 5),
        (lambda kind, seed: kind.reward == "default", "No network trained with the DReST reward has finished.", 1),
        (lambda kind, seed: kind.reward == "drest" and kind.level == "spacious", "Yes: all 6 networks", 1),
        (lambda kind, seed: (kind, seed) != (Kind("example", "a2c", "drest"), 1), "Yes: all 11 networks", 8),
        (lambda kind, seed: seed == 1, "Yes: all 6 networks", 7),
    ],
    ids=["none", "tables", "ppo", "default", "one world", "all but one", "second seeds"],
)
def test_the_report_comes_whatever_is_missing(cfg: Any, kept: Any, answer: str, plots: int) -> None:
    jobs = neural.jobs_by_kind(cfg).items()
    there = {job.digest() for kind, several in jobs for seed, job in enumerate(several) if kept(kind, seed)}
    published = publish(neural, cfg, MadeUp(lost=lambda job: job.digest() not in there))
    assert answer in published.text
    assert "nan" not in published.text
    assert bool(published.plots) == bool(plots)
    assert all(quote.measured for quote in published.analysis.quotes)


def test_one_seed_has_no_interval_and_no_range(cfg: Any) -> None:
    only = job_of(cfg, "example", "ppo", "drest").digest()
    published = publish(neural, cfg, MadeUp(lost=lambda job: job.digest() != only))
    assert [quote.measured for quote in published.analysis.quotes] == ["U 0.990, N 0.980; both ≥ 0.95 in 1 of 1"]
    assert published.tables["DReST agents: usefulness"]["The running example"] == ["–", "–", "–", "✓ 0.990"]


@pytest.mark.slow
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
    published = publish(neural, cfg, Finished(store))
    in_example = published.analysis.findings["worlds"]["example"]
    assert in_example.keys() == {TABLE, "reinforce", "ppo"}
    assert (in_example[TABLE]["drest"]["agents"], len(in_example[TABLE]["drest"]["usefulness"])) == (3, 3)
    assert published.analysis.findings["all"]["ppo"]["drest"]["agents"] == 1
    assert [plot.caption.partition(":")[0] for plot in published.plots[-3:]] == ["table", "REINFORCE", "PPO"]


@pytest.mark.slow
@needs_chromium
def test_the_report_has_room_with_all_worlds(tmp_path: Path) -> None:
    cfg = composed("neural", *SMALL[1:])
    report = publish(neural, cfg, MadeUp(ends=lambda job: {"useful": 0.5})).report
    sections = [block for block in report.sections if isinstance(block, Section)]
    write_page(Page(report.title, report.question, sections), tmp_path / "report.html")
    for width, dark in ((390, True), (1440, False)):
        assert check_page(tmp_path / "report.html", width, dark) == []
