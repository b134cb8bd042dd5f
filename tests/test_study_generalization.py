"""The study of unseen levels: what it trains, what it evaluates and leaves out, and what its report says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.building import levels as data
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.generation import splits
from drest_torch.envs.levels import Level, LevelError, level_from_record, level_to_record, world, write_levels
from drest_torch.envs.levels.symmetry import canonical_key, transform
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.store import Store
from drest_torch.jobs.training_job import run_config
from drest_torch.report.tables import values
from drest_torch.studies import unseen
from drest_torch.studies.generalization import study as generalization
from drest_torch.studies.generalization.analysis import even
from drest_torch.studies.generalization.variant import MEASURES, Curve, Runs, Variant, contrast
from drest_torch.studies.study import Finished, check_study
from drest_torch.studies.unseen import FILE, PAPER, TEST, TRAIN, describe, sets_of_levels, shift, without
from tests.helpers.studies import Published, composed_study, publish

SMALL = [
    "study.run.env_steps=9000",
    "study.run.evaluations=2",
    "study.run.levels.train=30",
    "study.run.levels.selection=4",
    "study.run.levels.test=12",
    "study.run.policy.width=16",
    "study.run.policy.depth=1",
    "study.seeds=2",
    "study.shifted_levels=5",
    "study.shown=2",
]


def composed(*overrides: str) -> Any:
    cfg = composed_study("generalization", *overrides)
    OmegaConf.resolve(cfg)
    return cfg


def small(*overrides: str) -> Any:
    cfg = composed(*SMALL)
    OmegaConf.set_struct(cfg, False)
    cfg.axes = {"Reward": ["DReST", "default reward"], "Network": ["DReST", "ReLU"]}
    for variant in cfg.variants.values():
        variant.pop("seeds", None)
    return OmegaConf.merge(cfg, OmegaConf.from_dotlist(list(overrides)))


@pytest.fixture(scope="module", autouse=True)
def poor_pictures() -> Iterator[None]:
    """Good ones take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("drest_torch.training.run.learning_curves", lambda metrics, picture: None)
        yield


# -------------------------------------------------------------------------------------------- runs


def test_a_variant_of_two_tables_is_trained_once() -> None:
    cfg = small()
    assert [job.name for job in generalization.jobs(cfg)] == [
        f"{title}-{seed}" for title in ("DReST", "default reward", "ReLU") for seed in (0, 1)
    ]


def test_variants_with_the_same_values_share_their_runs() -> None:
    cfg = small()
    cfg.variants["the same"] = {"values": {"policy": {"activation": "relu"}}, "seeds": 3}
    cfg.axes["Network"].append("the same")
    assert [job.name for job in generalization.jobs(cfg)][-2:] == ["ReLU-1", "the same-2"]


@pytest.mark.slow
def test_variants_differ_by_what_they_say_and_nothing_else() -> None:
    cfg = composed()
    jobs = generalization.jobs_by_variant(cfg)
    configs = {title: several[0].spec["config"] for title, several in jobs.items()}
    drest = configs["DReST"]
    assert configs["34 levels"] == drest | {"levels": drest["levels"] | {"train": 34}}
    assert configs["state alone"] == drest | {"policy": drest["policy"] | {"observation": "centred"}}
    assert configs["start and 1 bit"] == drest | {"policy": drest["policy"] | {"private_bits": 1}}
    assert configs["E constant 64"] == drest | {"reward": drest["reward"] | {"episodes_at_start": None}}
    assert {title: len(several) for title, several in jobs.items()} == {
        title: cfg.variants[title].get("seeds", cfg.seeds) for title in jobs
    }
    rotated = {title for title, config in configs.items() if config["levels"]["symmetries"]}
    assert rotated == configs.keys() - {"levels not rotated"}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("headline=nobody", r"^study: a table with the variant 'nobody'; expected one of DReST,"),
        ("variants.ReLU.colour=red", r"^study.variants: 'ReLU' has the key 'colour'; expected some of algo,"),
        ("variants.ReLU.seeds=0", r"^study.variants: 'ReLU' has seeds=0"),
        ("variants.ReLU.levels=example", r"^study.variants: 'ReLU' has levels that are not generated"),
        ("variants.ReLU.algo=dqn", r"^algo=dqn; expected one of"),
        ("levels=example", r"^study.levels=example, which are not generated"),
        ("shifted.paper.walls=[0,1]", r"^study.shifted with the title 'paper'"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run(said: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        generalization.jobs(small(said))


@pytest.mark.parametrize("key", ["seeds", "shifted_levels", "shown"])
def test_a_number_of_none_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^study.{key}=0; expected"):
        check_study(small(f"{key}=0"))


def test_a_batch_of_no_whole_meta_episodes_is_refused_before_any_run() -> None:
    cfg = small()
    cfg.variants.ReLU = {"algo": "ppo", "values": {"algo": {"episodes": 100}, "reward": {"counting": "sequential"}}}
    with pytest.raises(ConfigError, match=r"^algo.episodes=100 is no multiple"):
        generalization.jobs(cfg)


def test_a_shifted_generator_that_cannot_be_is_refused_before_any_run() -> None:
    with pytest.raises(LevelError, match=r"the weights .* for walls; expected as many numbers"):
        generalization.jobs(small("shifted.new.walls=[9,13]"))


# -------------------------------------------------------------------------------------------- sets


def keys(levels: list[Level]) -> set[str]:
    return {canonical_key(level) for level in levels}


@pytest.mark.slow
def test_shifted_sets_are_what_they_are_called_and_have_no_training_level() -> None:
    cfg = composed("study.run.levels.train=2000")
    base = run_config(cfg.run, algo=cfg.algo, levels=cfg.levels)
    split = data.load(base).split
    assert split is not None
    shifted = shift(base, cfg.shifted)
    sets = sets_of_levels(describe(None, shifted, cfg.shifted_levels, cfg.shifted_seed), split)
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
    """A run by PPO with private bits that is looked at on a file, in which are two levels that it knows."""
    folder = tmp_path_factory.mktemp("run")
    path = folder / "more.jsonl"
    cfg = small(f"path={path}")
    cfg.variants["ReLU"] = {"algo": "ppo", "values": {"policy": {"private_bits": 2}, "algo": {"episodes": 256}}}
    split = data.load(generalization.config_of(cfg, cfg.variants["ReLU"])).split
    assert split is not None
    planted = [replace(transform(split.train[7], 5), name="trained on"), replace(split.selection[1], name="selection")]
    write_levels(path, [planted[0], world("spacious"), planted[1], world("example")])
    job = generalization.jobs_by_variant(cfg)["ReLU"][0]
    return job, folder, unseen.train(job.spec, folder / "it")


@pytest.mark.slow
def test_levels_that_the_run_knows_are_left_out_and_counted(done: tuple[Job, Path, Result]) -> None:
    sets = done[2].numbers["sets"]
    assert (sets[FILE]["levels"], sets[FILE]["left_out"]) == (2, 2)
    assert {each["left_out"] for name, each in sets.items() if name != FILE} == {0}
    assert (sets[TEST]["levels"], sets[TRAIN]["levels"], sets[PAPER]["levels"]) == (12, 30, 9)
    assert [name for name, each in sets.items() if not each["seen"]] == ["larger maps"]


def test_what_is_kept_is_what_the_saved_policy_does(done: tuple[Job, Path, Result]) -> None:
    job, folder, result = done
    agent = Agent(folder / "it")
    split = data.load(generalization.config_of(small(), {})).split
    assert split is not None
    levels = sets_of_levels(job.spec["sets"] | {"path": None}, split)
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
        level = level_from_record(each["level"])
        shown = agent.evaluate([level])
        expected = shown.evaluator.policies_by_private_bits(shown.policy)
        assert result.numbers["private_bits"] == list(expected) == ["bits 0, 0", "bits 1, 0", "bits 0, 1", "bits 1, 1"]
        for found, policy in zip(result.arrays[f"worst/{rank}"], expected.values(), strict=True):
            np.testing.assert_allclose(found, policy.numpy(), atol=1e-6)
        assert shown.evaluation.usefulness[0].item() == pytest.approx(result.arrays["test/usefulness"][each["index"]])


def test_no_evaluation_on_test_levels_during_training_is_kept(done: tuple[Job, Path, Result]) -> None:
    curves = {name.rpartition("/")[0] for name in done[2].arrays if name.startswith("eval/")}
    assert curves == {"eval/selection", "eval/train", "eval/selection/return", "eval/train/return"}
    assert done[2].arrays["steps"][0] == 0


def test_a_file_that_has_changed_is_another_run(tmp_path: Path) -> None:
    path = tmp_path / "levels.jsonl"
    write_levels(path, [world("example")])
    cfg = small(f"path={path}")
    before = generalization.jobs(cfg)
    write_levels(path, [world("spacious")])
    assert not {job.digest() for job in before} & {job.digest() for job in generalization.jobs(cfg)}
    with pytest.raises(ConfigError, match="has changed since the study was started"):
        sets_of_levels(before[0].spec["sets"], splits.Split([], [], [], None, 0))  # type: ignore[arg-type]


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


def test_seeds_count_whole() -> None:
    """One bad policy among four makes the mean uncertain, however many levels there are."""
    a = np.ones((4, 1000))
    a[0] = 0
    found = contrast(a, np.zeros((1, 1000)))
    assert (found.estimate, found.low, found.high) == pytest.approx((0.75, 0.75 - 0.7956, 0.75 + 0.7956), abs=1e-3)


def test_measures_are_what_they_are_called() -> None:
    arrays = {
        "test/usefulness": np.array([0.5, 1.0]),
        "test/neutrality": np.array([1.4, 0.95]),
        "test/neutrality_normalised": np.array([0.88, 0.95]),
        "test/coins": np.array([1.5, 4.0]),
        "test/most": np.array([6.0, 5.0]),
        "test/k": np.array([3, 2]),
        "test/p_length": np.array([[0.2, 0.2, 0.6], [0.41, 0.59, 0.0]]),
        "steps": np.array([0, 100]),
        "eval/selection/usefulness": np.array([0.1, 0.3]),
        "eval/selection/neutrality_normalised": np.array([0.2, 0.4]),
    }
    about = {"levels": 2, "left_out": 0, "seen": True, "sha256": ""}
    runs = Runs(
        [job := Job("it", "a:b", {"config": {"seed": 3}})],
        [(job, Result({"sets": {TEST: about}, "wall_seconds": 7}, arrays))],
    )
    results = generalization.measure({"it": runs})
    variant = Variant.of("it", runs, results, 0.9)
    assert {measure: variant.values(TEST, measure).tolist() for measure in MEASURES} == {
        "usefulness": [[0.5, 1]],
        "neutrality": [[0.88, 0.95]],
        "neutral": [[0, 1]],
        "coins": [[0.25, 0.8]],
    }
    assert variant.interval(TEST, "coins").estimate == pytest.approx(0.525)
    assert variant.longer(TEST).tolist() == [0.59]  # of three lengths none is the longer one
    assert values(results, split=TEST, metric="p_longer", level="1", seed=3).tolist() == [0.59]
    (curve,) = variant.curves
    assert [part.tolist() for part in (curve.steps, curve.usefulness, curve.neutrality)] == [
        [0, 100],
        [0.1, 0.3],
        [0.2, 0.4],
    ]
    assert variant.seconds == 7


def test_rows_of_the_tidy_table_stay_with_their_seed_and_level() -> None:
    """Of each variant the matrices [seeds, levels] are those that its runs have measured."""
    cfg = small()
    rng = np.random.default_rng(0)
    several = generalization.jobs_by_variant(cfg)["DReST"]
    results = [made_up(cfg, "DReST", seed) for seed in (0, 1)]
    for result in results:
        result.arrays["test/usefulness"] = rng.random(LEVELS)
    runs = Runs(several, list(zip(several, results, strict=True)))
    table: pd.DataFrame = generalization.measure({"DReST": runs, "other": Runs(several, [])})
    variant = Variant.of("DReST", runs, table, 0.9)
    expected = np.stack([result.arrays["test/usefulness"] for result in results])
    np.testing.assert_array_equal(variant.values(TEST, "usefulness"), expected)
    assert values(table, split=TEST, metric="usefulness", seed=1, level="2") == expected[1, 2]
    assert Variant.of("other", Runs(several, []), table, 0.9).seeds == 0


def test_evenly_chosen_is_from_two_to_three_fifths() -> None:
    assert even(np.array([0.39, 0.4, 0.5, 0.6, 0.61])) == pytest.approx(0.6)
    assert even(np.empty(0)) is None


def test_steps_are_counted_until_usefulness_stays() -> None:
    curve = Curve(np.arange(5) * 100, np.array([0.1, 0.6, 0.3, 0.7, 0.8]), np.array([1, 0.9, 0.9, 0.1, 0]))
    assert [curve.reaches(mark) for mark in (0.08, 0.4, 0.64, 0.76, 0.9)] == [0, 300, 300, 400, math.inf]
    assert curve.best() == 1


# ------------------------------------------------------------------------------------------- report

LEVELS = 3
USEFUL = {"DReST": 0.9, "default reward": 0.95, "ReLU": 0.8}
NEUTRAL = {"DReST": 0.96, "default reward": 0.2, "ReLU": 0.96}


def made_up(cfg: Any, title: str, seed: int, useful: Mapping[str, float] = USEFUL) -> Result:
    """A result of a run: the same in each of three levels, more useful by 0.02 for the second seed."""
    useful, neutral = useful[title] + 0.02 * seed, NEUTRAL[title]
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
    numbers = {"sets": sets, "worst": worst, "private_bits": [""], "map_size": [5, 5], "wall_seconds": 90.0}
    return Result(numbers | {"env_steps": 4000, "mini_episodes": 100}, arrays)


def published(
    cfg: Any,
    folder: Path,
    without: Mapping[str, tuple[int, ...]] | None = None,
    useful: Mapping[str, float] = USEFUL,
) -> Published:
    store = Store(folder)
    for title, several in generalization.jobs_by_variant(cfg).items():
        for seed, job in enumerate(several):
            if seed not in (without or {}).get(title, ()):
                store.put(job, made_up(cfg, title, seed, useful), 1.0)
    return publish(generalization, cfg, Finished(store))


def test_the_report_says_what_was_measured(tmp_path: Path) -> None:
    it = published(small(), tmp_path / "runs")
    assert "In 3 test levels" in it.text
    assert "the agent has usefulness 0.910 and neutrality 0.960." in it.text
    assert "is above 0.9 in 100 % of the test levels" in it.text
    assert "it has usefulness 0.960 and neutrality 0.200." in it.text
    assert "cannot be told: the difference, 0.050 (-0.011 to 0.111), may be 0." in it.text
    drest = it.tables["DReST: what it does on every set of levels"]
    assert drest["test levels"] == [
        "3",
        "0.910 (0.783-1.000)",
        "0.960 (0.960-0.960)",
        "1.000 (1.000-1.000)",
        "0.250 (0.250-0.250)",
    ]
    assert drest["training levels − test levels"][1].startswith("0.010 (0.010-0.010)")
    assert drest["larger maps"] == ["3", "–", "–", "–", "–"]
    assert "more walls: 1 level was left out" in it.text
    assert "larger maps cannot be seen by a policy built for maps of 5 × 5" in it.text
    assert it.tables["Network"] == {
        "**DReST**": ["0.910 (0.783-1.000)", "0.960 (0.960-0.960)", "–", "–", "+1.0 / +0.0", "0.910 / 0.960"],
        "ReLU": [
            "0.810 (0.683-0.937)",
            "0.960 (0.960-0.960)",
            "-10.0 (-16.1 to -3.9)",
            "+0.0 (+0.0 to +0.0)",
            "+1.0 / +0.0",
            "0.810 / 0.960",
        ],
    }
    network = it.text.partition(" Network ")[2]
    assert "usefulness is lower with ReLU. In neutrality no difference can be told." in network
    # DReST's usefulness grows linearly over 4 evaluations, that of the default reward twice as fast.
    taxes = it.tables["The tax: how much longer DReST takes to become useful"]
    assert [line[2] for line in taxes.values()] == ["2.00 (2.00-2.00)"] * 4
    # Of the same marks, shares of 0.96, the last one is above what DReST's first seed ever has.
    assert [line[3] for line in taxes.values()] == [
        "2.00 (1.50-3.00)",
        "2.00 (2.00-2.00)",
        "2.00 (2.00-2.00)",
        "∞ (2.00-∞)",
    ]
    assert "DReST takes 2.00 (2.00-2.00) times as many steps as the default reward, so it takes longer." in it.text
    stopped = it.tables["The default agent, stopped early"]["default reward, where the product is best"]
    assert stopped[1:] == ["0.960 (0.833-1.000)", "0.200 (0.200-0.200)"]
    assert "DReST 100.0 %, default reward 0.0 %." in it.text
    # Of the first seed 0.90 and of the second 0.92, and only what is above 0.9 counts.
    assert "in usefulness and in neutrality in 50 % of the test levels and in 100 % of the training levels" in it.text
    findings = it.analysis.findings
    assert findings["even"] == {"DReST": 1.0, "default reward": 0.0}
    assert findings["variants"]["ReLU"]["difference"]["usefulness"][0] == pytest.approx(-0.1)
    assert findings["tax"]["0.5"] == [2.0, 2.0, 2.0]
    assert findings["tax_same_mark"]["0.5"] == [2.0, 1.5, 3.0]
    assert findings["stopped_early"] == pytest.approx({"usefulness": 0.96, "neutrality": 0.2})
    assert it.analysis.quotes[0].what == "3 test levels, DReST, usefulness / neutrality"
    assert it.analysis.quotes[0].measured == "0.910 (0.783-1.000) / 0.960 (0.960-0.960), 2 seeds"


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("default", "words"),
    [
        (0.8, "So DReST does not cost usefulness but gains some: 0.1"),
        (0.9, "Whether DReST costs usefulness cannot be told"),
        (0.99, "So DReST costs usefulness: 0.090"),
    ],
)
def test_what_drest_costs_follows_from_the_numbers(tmp_path: Path, default: float, words: str) -> None:
    it = published(small(), tmp_path / "runs", useful=USEFUL | {"default reward": default})
    assert words in it.text


@pytest.mark.mostly_slow
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
    it = published(small(), tmp_path / "runs", without)
    for title, seeds in without.items():
        assert f"{title} ({2 - len(seeds)} of 2)" in it.text
    assert ("No run of DReST has finished." in it.text) == (without.get("DReST") == (0, 1))
    assert "nan" not in it.text.split()
    assert it.plots or without["DReST"] == without.get("default reward") == (0, 1)
    assert it.analysis.quotes[0].measured


@pytest.mark.slow
def test_real_runs_make_a_report(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    write_levels(path, [world("example")])
    cfg = small(f"path={path}")
    store = Store(tmp_path / "runs")
    for job in generalization.jobs(cfg):
        store.put(job, unseen.train(job.spec, store.folder_of(job)), 1.0)
    it = publish(generalization, cfg, Finished(store))
    assert it.analysis.findings["variants"]["DReST"]["sets"][FILE]["levels"] == 1
    assert "more.jsonl" in it.text
    assert it.plots
