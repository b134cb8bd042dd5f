"""The study of held-out levels: what it trains, what it looks at and what it leaves out, and what its report says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.errors import ConfigError
from drest_torch.jobs.store import Job, Result, Store
from drest_torch.jobs.training_job import configured
from drest_torch.report import html as pages
from drest_torch.report.blocks import Details, Page, Table
from drest_torch.report.html import write_page
from drest_torch.studies.heldout import study as heldout
from drest_torch.studies.heldout import tables as heldout_report
from drest_torch.studies.heldout.sets import FILE, PAPER, TEST, TRAIN, described, held_out, without
from drest_torch.studies.heldout.tables import Curve, Row, contrast
from drest_torch.studies.study import Finished, Report, compose_study
from drest_torch.training import levels as data
from envs.dynamics.mdp import compile_levels
from envs.exact.propagator import Reachable
from envs.generation import splits
from envs.levels import Level, LevelError, level_to_record, world, write_levels
from envs.levels.symmetry import canonical_key, transform
from tests.helpers.chromium import check_page, needs_chromium

SMALL = [
    "study.run.env_steps=9000",
    "study.run.evaluations=2",
    "study.run.levels.train=30",
    "study.run.levels.selection=4",
    "study.run.levels.heldout=12",
    "study.run.policy.width=16",
    "study.run.policy.depth=1",
    "study.seeds=2",
    "study.shifted_levels=5",
    "study.shown=2",
]


def composed(*overrides: str) -> Any:
    cfg = compose_study("heldout", *overrides).study
    OmegaConf.resolve(cfg)
    return cfg


def small(*overrides: str) -> Any:
    cfg = composed(*SMALL)
    OmegaConf.set_struct(cfg, False)
    cfg.axes = {"Reward": ["DReST", "default reward"], "Network": ["DReST", "ReLU"]}
    for row in cfg.rows.values():
        row.pop("seeds", None)
    return OmegaConf.merge(cfg, OmegaConf.from_dotlist(list(overrides)))


@pytest.fixture(scope="module", autouse=True)
def poor_pictures() -> Iterator[None]:
    """Good ones take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("drest_torch.training.run.learning_curves", lambda metrics, picture: None)
        patched.setattr(pages, "_DOTS", 40)
        yield


# -------------------------------------------------------------------------------------------- runs


def test_a_row_of_two_tables_is_trained_once() -> None:
    cfg = small()
    assert [job.name for job in heldout.jobs(cfg)] == [
        f"{title}-{seed}" for title in ("DReST", "default reward", "ReLU") for seed in (0, 1)
    ]


def test_rows_with_the_same_values_share_their_runs() -> None:
    cfg = small()
    cfg.rows["the same"] = {"values": {"policy": {"activation": "relu"}}, "seeds": 3}
    cfg.axes["Network"].append("the same")
    assert [job.name for job in heldout.jobs(cfg)][-2:] == ["ReLU-1", "the same-2"]


def test_a_row_is_what_it_says() -> None:
    cfg = composed()
    jobs = heldout._jobs(cfg)
    configs = {title: several[0].spec["config"] for title, several in jobs.items()}
    assert {title: len(several) for title, several in jobs.items()} == {
        title: cfg.rows[title].get("seeds", cfg.seeds) for title in jobs
    }
    assert len(jobs["DReST"]) == len(jobs["default reward"]) == 5
    assert configs["DReST"]["levels"]["train"] == 20_000
    assert configs["34 levels"] == configs["DReST"] | {"levels": configs["DReST"]["levels"] | {"train": 34}}
    assert configs["fresh levels"]["levels"]["fresh"]
    assert configs["DReST"]["reward"]["episodes_at_start"] == 16
    assert configs["E constant 64"]["reward"]["episodes_at_start"] is None
    assert configs["DReST"]["algo"]["muon_lr"] == 0.025
    assert configs["DReST"]["policy"]["noise"] == 1
    assert configs["no coin"] == configs["DReST"] | {"policy": configs["DReST"]["policy"] | {"noise": 0}}
    assert configs["Adam instead of Muon"]["algo"]["muon_lr"] is None
    assert configs["symmetric"]["policy"]["network"] == "symmetric"
    assert configs["default reward"]["reward"]["lam"] == 1
    assert configs["PPO, sequential counting"]["algo"]["name"] == "ppo"
    assert configs["PPO, sequential counting"]["reward"]["counting"] == "sequential"
    assert configs["credit over the meta-episode"]["algo"]["credit"] == "meta"
    assert configs["convolutional, two coins, on three_lengths"]["levels"]["generator"]["lengths"] == 3
    turned = {title for title, each in configs.items() if each["levels"]["symmetries"]}
    assert turned == configs.keys() - {"levels not turned"}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("headline=nobody", r"^study: a table with the row 'nobody'; expected one of DReST,"),
        ("rows.ReLU.colour=red", r"^study.rows: 'ReLU' has the key 'colour'; expected some of algo,"),
        ("rows.ReLU.seeds=0", r"^study.rows: 'ReLU' has seeds=0"),
        ("rows.ReLU.levels=example", r"^study.rows: 'ReLU' has levels that are not generated"),
        ("rows.ReLU.algo=dqn", r"^algo=dqn; expected one of"),
        ("levels=example", r"^study.levels=example, which are not generated"),
        ("shifted.paper.walls=[0,1]", r"^study.shifted with the title 'paper'"),
        ("shown=0", r"^study.shown=0; expected at least 1"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run(said: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        heldout.jobs(small(said))


def test_a_batch_of_no_whole_meta_episodes_is_refused_before_any_run() -> None:
    cfg = small()
    cfg.rows.ReLU = {"algo": "ppo", "values": {"algo": {"episodes": 100}, "reward": {"counting": "sequential"}}}
    with pytest.raises(ConfigError, match=r"^algo.episodes=100 is no multiple"):
        heldout.jobs(cfg)


def test_a_shifted_generator_that_cannot_be_is_refused_before_any_run() -> None:
    with pytest.raises(LevelError, match=r"the weights .* for walls; expected as many numbers"):
        heldout.jobs(small("shifted.new.walls=[9,13]"))


# -------------------------------------------------------------------------------------------- sets


def keys(levels: list[Level]) -> set[str]:
    return {canonical_key(level) for level in levels}


def test_shifted_sets_are_what_they_are_called_and_have_no_training_level() -> None:
    cfg = composed("study.run.levels.train=2000")
    base = configured(cfg.run, algo=cfg.algo, levels=cfg.levels)
    split = data.load(base).split
    assert split is not None
    sets = held_out(described(cfg, base), split)
    assert list(sets) == [TEST, PAPER, *cfg.shifted]
    assert all(len(sets[title]) == cfg.shifted_levels for title in cfg.shifted)
    assert not set.union(*map(keys, sets.values())) & keys(split.train)
    assert min(sum(map(sum, level.walls)) for level in sets["more walls"]) >= 9
    assert min(level.buttons[0].delay for level in sets["longer delays"]) >= 9
    assert min(coin.value for level in sets["larger coins"] for coin in level.coins) >= 11
    assert {(level.height, level.width) for level in sets["larger maps"]} == {(7, 7)}
    assert {len(Reachable(compile_levels([level])).lengths[0]) for level in sets["three lengths"][:20]} == {3}


def test_a_level_that_is_known_turned_around_is_left_out() -> None:
    levels = [world(name) for name in ("example", "spacious", "royal_road")]
    known = frozenset([canonical_key(transform(levels[1], 3))])
    assert without(levels, known) == [levels[0], levels[2]]


# --------------------------------------------------------------------------------------------- run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path, Result]:
    """A run by PPO with private noise that is looked at on a file, in which are two levels that it knows."""
    folder = tmp_path_factory.mktemp("run")
    path = folder / "more.jsonl"
    cfg = small(f"path={path}")
    cfg.rows["ReLU"] = {"algo": "ppo", "values": {"policy": {"noise": 2}, "algo": {"episodes": 256}}}
    split = data.load(heldout._configured(cfg, cfg.rows["ReLU"])).split
    assert split is not None
    planted = [replace(transform(split.train[7], 5), name="trained on"), replace(split.selection[1], name="selection")]
    write_levels(path, [planted[0], world("spacious"), planted[1], world("example")])
    job = heldout._jobs(cfg)["ReLU"][0]
    return job, folder, heldout.train(job.spec, folder / "it")


def test_levels_that_the_run_knows_are_left_out_and_counted(done: tuple[Job, Path, Result]) -> None:
    sets = done[2].numbers["sets"]
    assert (sets[FILE]["levels"], sets[FILE]["left_out"]) == (2, 2)
    assert {each["left_out"] for name, each in sets.items() if name != FILE} == {0}
    assert (sets[TEST]["levels"], sets[TRAIN]["levels"], sets[PAPER]["levels"]) == (12, 30, 9)
    assert [name for name, each in sets.items() if not each["seen"]] == ["larger maps"]


def test_what_is_kept_is_what_the_saved_policy_does(done: tuple[Job, Path, Result]) -> None:
    job, folder, result = done
    agent = Agent(folder / "it")
    split = data.load(heldout._configured(small(), {})).split
    assert split is not None
    levels = held_out(job.spec["sets"] | {"path": None}, split)
    levels |= {FILE: [world("spacious"), world("example")], TRAIN: split.train}
    for name in {*levels} - {"larger maps"}:
        expected = agent.evaluate(levels[name])
        found = expected.evaluation
        best = expected.evaluator.optima.best_return
        for what, value in {
            "usefulness": found.usefulness,
            "neutrality": found.neutrality,
            "neutrality_normalised": found.neutrality_normalised,
            "p_length": found.found.probability,
            "k": found.num_lengths,
            "coins": (found.found.probability * found.found.coins).sum(-1),
            "most": best.amax(-1),
        }.items():
            np.testing.assert_allclose(result.arrays[f"{name}/{what}"], value.numpy(), atol=1e-9)
        shares = (result.arrays[f"{name}/p_length"] * result.arrays[f"{name}/share_of_best"]).sum(-1)
        np.testing.assert_allclose(shares, result.arrays[f"{name}/usefulness"], atol=1e-9)


def test_the_worst_levels_come_with_the_policy_there(done: tuple[Job, Path, Result]) -> None:
    _, _, result = done
    score = result.arrays["test/usefulness"] * result.arrays["test/neutrality_normalised"]
    assert [each["index"] for each in result.numbers["worst"]] == np.argsort(score)[:2].tolist()
    agent = Agent(done[1] / "it")
    for rank, each in enumerate(result.numbers["worst"]):
        level = heldout_report.level_from_record(each["level"])
        shown = agent.evaluate([level])
        expected = shown.evaluator.to_show(shown.policy)
        assert (
            result.numbers["noise"]
            == list(expected)
            == ["tails, tails", "heads, tails", "tails, heads", "heads, heads"]
        )
        for found, policy in zip(result.arrays[f"worst/{rank}"], expected.values(), strict=True):
            np.testing.assert_allclose(found, policy.numpy(), atol=1e-6)
        assert shown.evaluation.usefulness[0].item() == pytest.approx(result.arrays["test/usefulness"][each["index"]])


def test_nothing_that_was_found_on_held_out_levels_during_training_is_kept(done: tuple[Job, Path, Result]) -> None:
    curves = {name.rpartition("/")[0] for name in done[2].arrays if name.startswith("eval/")}
    assert curves == {"eval/selection", "eval/train", "eval/selection/return", "eval/train/return"}
    assert done[2].arrays["steps"][0] == 0


def test_a_file_that_has_changed_is_another_run(tmp_path: Path) -> None:
    path = tmp_path / "levels.jsonl"
    write_levels(path, [world("example")])
    cfg = small(f"path={path}")
    before = heldout.jobs(cfg)
    write_levels(path, [world("spacious")])
    assert not {job.digest() for job in before} & {job.digest() for job in heldout.jobs(cfg)}
    with pytest.raises(ConfigError, match="has changed since the study was started"):
        held_out(before[0].spec["sets"], splits.Split([], [], [], None, 0))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ numbers


def test_the_luck_of_what_two_rows_have_in_common_cancels() -> None:
    rng = np.random.default_rng(1)
    levels = rng.random(40)
    b = np.stack([levels, levels])
    a = b + 0.25
    assert contrast(a, b, same_levels=True).low == pytest.approx(0.25)
    assert contrast(a, b, same_levels=True).high == pytest.approx(0.25)
    apart = contrast(a, b)
    assert apart.estimate == pytest.approx(0.25)
    # Two independent means of 40 levels.
    assert apart.high - apart.low == pytest.approx(2 * 1.96 * levels.std() * (2 / 40) ** 0.5, rel=0.1)


def test_the_luck_of_the_same_seeds_cancels() -> None:
    seeds = np.array([[0.1], [0.9], [0.4]])
    a, b = seeds + np.zeros((3, 5)), seeds + np.full((3, 8), 0.1)
    gap = contrast(a, b, same_seeds=True)
    assert (gap.estimate, gap.low, gap.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert contrast(a, b).low < -0.3


def test_seeds_are_drawn_whole() -> None:
    """One bad policy among four makes the mean uncertain, however many levels there are."""
    a = np.ones((4, 1000))
    a[0] = 0
    found = contrast(a, np.zeros((1, 1000)))
    assert (found.estimate, found.low, found.high) == pytest.approx((0.75, 0.25, 1.0))


def test_measures_are_what_they_are_called() -> None:
    arrays = {
        "test/usefulness": np.array([0.5, 1.0]),
        "test/neutrality": np.array([1.4, 0.95]),
        "test/neutrality_normalised": np.array([0.88, 0.95]),
        "test/coins": np.array([1.5, 4.0]),
        "test/most": np.array([6.0, 5.0]),
        "test/k": np.array([3, 2]),
        "test/p_length": np.array([[0.2, 0.2, 0.6], [0.41, 0.59, 0.0]]),
    }
    row = Row("it", {}, [Result({}, arrays)], 1, 0.9)
    found = {each: row.values("test", each).tolist() for each in heldout_report.MEASURES}
    assert found == {
        "usefulness": [[0.5, 1]],
        "neutrality": [[0.88, 0.95]],
        "neutral": [[0, 1]],
        "coins": [[0.25, 0.8]],
    }
    assert row.interval("test", "coins").estimate == pytest.approx(0.525)
    assert heldout_report.longest(row, "test").tolist() == [0.59]  # of three lengths none is the longer one


def test_evenly_chosen_is_from_two_to_three_fifths() -> None:
    assert heldout_report.even(np.array([0.39, 0.4, 0.5, 0.6, 0.61])) == pytest.approx(0.6)


def test_steps_are_counted_until_usefulness_stays() -> None:
    curve = Curve(np.arange(5) * 100, np.array([0.1, 0.6, 0.3, 0.7, 0.8]), np.array([1, 0.9, 0.9, 0.1, 0]))
    assert [curve.reaches(mark) for mark in (0.08, 0.4, 0.64, 0.76, 0.9)] == [0, 300, 300, 400, math.inf]
    assert curve.best() == 1


# ------------------------------------------------------------------------------------------- report

LEVELS = 3
USEFUL = {"DReST": 0.9, "default reward": 0.95, "ReLU": 0.8}
NEUTRAL = {"DReST": 0.96, "default reward": 0.2, "ReLU": 0.96}


def made_up(cfg: Any, title: str, seed: int) -> Result:
    """What a run could have found: the same in each of three levels, larger by 0.02 for the second seed."""
    useful, neutral = USEFUL[title] + 0.02 * seed, NEUTRAL[title]
    p = 0.5 if neutral > 0.9 else 0.1
    arrays = {"steps": np.arange(5) * 1000}
    for name, value in {"usefulness": useful, "neutrality_normalised": neutral, "neutrality": neutral}.items():
        grown = np.linspace(0, value, 5)
        arrays[f"eval/selection/{name}"] = np.minimum(2 * grown, value) if title != "DReST" else grown
    sets: dict[str, Any] = {}
    for name in (TEST, TRAIN, PAPER, *cfg.shifted):
        left_out = 1 if name == "more walls" else 0
        sets[name] = {"levels": LEVELS, "left_out": left_out, "seen": name != "larger maps", "sha256": f"of {name}"}
        if sets[name]["seen"]:
            better = 0.01 if name == TRAIN else 0
            for what, value in {"usefulness": useful + better, "coins": 1.0, "most": 4.0, "k": 2}.items():
                arrays[f"{name}/{what}"] = np.full(LEVELS, value)
            for what in ("neutrality", "neutrality_normalised"):
                arrays[f"{name}/{what}"] = np.full(LEVELS, neutral)
            arrays[f"{name}/p_length"] = np.tile([1 - p, p], (LEVELS, 1))
            arrays[f"{name}/share_of_best"] = np.full((LEVELS, 2), useful)
    level = world("example")
    states = len(Reachable(compile_levels([level], at_least=(5, 5))))
    arrays |= {f"worst/{rank}": np.full((1, states, 4), 0.25, np.float32) for rank in range(cfg.shown)}
    worst = [{"index": rank, "level": level_to_record(level)} for rank in range(cfg.shown)]
    numbers = {"sets": sets, "worst": worst, "noise": [""], "map_size": [5, 5], "wall_seconds": 90.0}
    return Result(numbers | {"env_steps": 4000, "mini_episodes": 100}, arrays)


def reported(cfg: Any, folder: Path, without: Mapping[str, tuple[int, ...]] | None = None) -> Report:
    store = Store(folder)
    for title, several in heldout._jobs(cfg).items():
        for seed, job in enumerate(several):
            if seed not in (without or {}).get(title, ()):
                store.put(job, made_up(cfg, title, seed), 1.0)
    return heldout.report(cfg, Finished(store))


def tables(report: Report) -> dict[str, Table]:
    blocks = [block for section in report.sections for block in section.blocks]
    blocks += [inner for block in blocks if isinstance(block, Details) for inner in block.blocks]
    return {block.caption: block for block in blocks if isinstance(block, Table)}


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    report = reported(small(), tmp_path / "runs")
    lead = report.sections[0].lead
    assert "In 3 gridworlds that it has never seen, the agent has usefulness 0.910 (0.900-0.920)" in lead
    assert "with more than 0.9 in 100% of the levels" in lead
    assert (
        "usefulness 0.960 (0.950-0.970) and neutrality 0.200 (0.200-0.200) of log2 k, with more than 0.9 in 0%" in lead
    )
    found = tables(report)
    drest = {line[0]: line[1:] for line in found["DReST: what it does on every set"].rows}
    assert drest["held out, as trained on"][1:] == [
        "0.910 (0.900-0.920)",
        "0.960 (0.960-0.960)",
        "1.000 (1.000-1.000)",
        "0.250 (0.250-0.250)",
    ]
    assert drest["trained on − held out"][1].startswith("0.010 (0.010-0.010)")
    assert drest["larger maps"] == ["3", "–", "–", "–", "–"]
    note = found["DReST: what it does on every set"].note
    assert "more walls: 1 level was left out" in note
    assert "larger maps are not what a policy built for maps of 5 × 5 can see" in note
    assert found["Network"].rows == [
        ["**DReST**", "0.910 (0.900-0.920)", "0.960 (0.960-0.960)", "–", "–", "+1.0 / +0.0", "0.910 / 0.960"],
        [
            "ReLU",
            "0.810 (0.800-0.820)",
            "0.960 (0.960-0.960)",
            "-10.0 (-12.0 to -8.0)",
            "+0.0 (+0.0 to +0.0)",
            "+1.0 / +0.0",
            "0.810 / 0.960",
        ],
    ]
    # DReST's usefulness grows linearly over 4 evaluations, that of the default reward twice as fast.
    taxes = found["The tax: how much longer DReST takes to become useful"].rows
    assert [line[3] for line in taxes] == ["2.00 (2.00-2.00)"] * 4
    # Of the same marks, shares of 0.96, the last one is above what DReST's first seed ever has.
    assert [line[4] for line in taxes] == ["2.00 (1.50-3.00)", "2.00 (2.00-2.00)", "2.00 (2.00-2.00)", "∞ (2.00-∞)"]
    assert found["The default agent, stopped early"].rows[0][2:] == ["0.960 (0.950-0.970)", "0.200 (0.200-0.200)"]
    assert report.numbers["even"] == {"DReST": 1.0, "default reward": 0.0}
    assert report.numbers["rows"]["ReLU"]["difference"]["usefulness"][0] == pytest.approx(-0.1)
    assert report.numbers["tax"]["0.5"] == [2.0, 2.0, 2.0]
    assert report.numbers["tax_same_mark"]["0.5"] == [2.0, 1.5, 3.0]
    assert report.quotes[0].measured == "0.910 (0.900-0.920) / 0.960 (0.960-0.960), 2 seeds"


@pytest.mark.parametrize(
    "without",
    [
        {"DReST": (0, 1), "default reward": (0, 1), "ReLU": (0, 1)},
        {"DReST": (0, 1)},
        {"default reward": (0, 1)},
        {"ReLU": (0, 1)},
        {"DReST": (0,), "ReLU": (1,)},
    ],
    ids=["none", "no headline", "no default", "no other", "one seed each"],
)
def test_the_report_comes_whatever_is_missing(tmp_path: Path, without: dict[str, tuple[int, ...]]) -> None:
    report = reported(small(), tmp_path / "runs", without)
    write_page(Page(report.title, report.question, report.sections), tmp_path / "report.html")
    page = re.sub(r'"data:[^"]*"', "", (tmp_path / "report.html").read_text("utf-8"))
    assert len(report.sections) == 6
    for title, seeds in without.items():
        assert f"{title} ({2 - len(seeds)} of 2)" in page
    assert not re.search(r"\bnan\b", page)
    assert report.quotes[0].measured


@pytest.mark.slow
@needs_chromium
def test_real_runs_make_a_page_that_has_room(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    write_levels(path, [world("example")])
    cfg = small(f"path={path}")
    store = Store(tmp_path / "runs")
    for job in heldout.jobs(cfg):
        store.put(job, heldout.train(job.spec, store.folder_of(job)), 1.0)
    report = heldout.report(cfg, Finished(store))
    assert report.numbers["rows"]["DReST"]["sets"][FILE]["levels"] == 1
    assert "more.jsonl" in tables(report)["Network"].header
    write_page(Page(report.title, report.question, report.sections), tmp_path / "report.html")
    for width, dark in ((390, True), (1440, False)):
        assert check_page(tmp_path / "report.html", width, dark) == []
