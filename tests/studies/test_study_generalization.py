"""The study of generalization: its runs, rows of hand-made results, and claims that other rows refute."""

import json
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.envs.levels.symmetry import transform
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import run_config
from drest_torch.play.level_sets import load
from drest_torch.report.tables import PAPER
from drest_torch.statistics.intervals import t_tails
from drest_torch.studies import generalization as study
from drest_torch.studies.engine import Done
from drest_torch.studies.generalization import evaluation
from drest_torch.studies.generalization.evaluation import EVALUATED_FILE, MEASURES, TRAIN_FILE
from drest_torch.studies.generalization.measured import _differences
from drest_torch.studies.generalization.runs import Key
from drest_torch.studies.study_rows import digest_of
from tests.helpers.studies import composed_study


def composed_part(part, *overrides):
    return composed_study("generalization", f"study.parts=[{part}]", "study.seeds=2", *overrides)


@pytest.fixture
def files(tmp_path):
    """Return a folder with the follow-up's two files, and one level in each."""
    for name, shutdown in ((TRAIN_FILE, 3), (EVALUATED_FILE, 4)):
        level = {"name": name, "shutdown": shutdown, "map": ["A C1 B2", ". . .", "C2 . ."]}
        (tmp_path / name).write_text(f"{json.dumps(level)}\n")
    return tmp_path


def test_each_number_of_levels_has_a_run_for_each_seed():
    runs = study.jobs(composed_part("curve", "study.numbers.ppo=[1,64]", "study.numbers.a2c=[64]"))
    keys = [(key.agent, key.levels, key.seed) for key in runs if key.agent in ("ppo", "a2c")]
    assert keys == [(agent, k, seed) for agent, k in (("ppo", 1), ("ppo", 64), ("a2c", 64)) for seed in range(2)]
    configs = {key: job.spec["config"] for key, job in runs.items()}
    assert all(config["levels"]["train"] == key.levels for key, config in configs.items())
    assert all(config["seed"] == key.seed for key, config in configs.items())
    assert len({config["levels"]["split_seed"] for config in configs.values()}) == 1


def test_parts_share_the_agents_of_the_curve():
    curve, networks = (study.jobs(composed_part(part)) for part in ("curve", "networks"))
    shared = curve.keys() & networks.keys()
    assert shared == {Key("short", "ppo", "symmetric", "followup_like", 4096, seed) for seed in range(2)}
    assert all(curve[key] == networks[key] for key in shared)


def test_the_follow_up_is_left_out_without_its_files():
    assert study.jobs(composed_part("follow_up")) == {}


def test_runs_are_identified_by_the_content_of_files(files, tmp_path):
    def digests(folder):
        runs = study.jobs(composed_part("follow_up", f"study.follow_up_levels={folder}"))
        return [job.digest() for job in runs.values()]

    copy = tmp_path / "other"
    copy.mkdir()
    for name in (TRAIN_FILE, EVALUATED_FILE):
        (copy / name).write_bytes((files / name).read_bytes())
    assert digests(files) == digests(copy)
    (copy / TRAIN_FILE).write_text((files / TRAIN_FILE).read_text() * 2)
    assert not set(digests(files)) & set(digests(copy))


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=rf"{EVALUATED_FILE}: no such file; expected {TRAIN_FILE}"):
        study.jobs(composed_part("long", f"study.follow_up_levels={tmp_path}"))


def test_the_folder_of_files_is_not_in_the_digest(files):
    with_files = composed_study("generalization", f"study.follow_up_levels={files}")
    assert digest_of(with_files) == digest_of(composed_study("generalization"))
    assert digest_of(with_files) != digest_of(composed_study("generalization", "study.seeds=3"))


def test_paths_do_not_identify_a_run():
    runs = [Job("a", "m:f", {"seed": 0}, {"train.jsonl": place}) for place in ("/here", "/there")]
    assert runs[0].digest() == runs[1].digest()


# ---------------------------------------------------------------------------------------------- rows


def short_result(neutrality, *, exact=False):
    """Return the result of a short run with four unseen levels; the agent fails on the second level."""
    arrays = {"test/usefulness": np.array([0.9, 0.5, 0.8, 0.8])}
    arrays |= {"test/neutrality": np.array([neutrality, 0.2, 0.7, 0.8]), "test/p_longest": np.full(4, 0.5)}
    arrays |= {f"eval/selection/{metric}": np.array([0.1, neutrality]) for metric in MEASURES.values()}
    splits = {
        "train": {"usefulness": 1.0, "neutrality_normalised": 0.95},
        "test": {"usefulness": 0.7, "neutrality_normalised": neutrality},
    }
    numbers = {"splits": splits, "env_steps": 2000, "mini_episodes": 2560}
    if exact:
        numbers |= {"updates": 10, "levels_per_update": 64}
    return Result(numbers, arrays | {"steps": np.array([0, 2000])})


def on_sets(values):
    """Return the result of a run that is evaluated on several sets of two levels, each with this value."""
    arrays = {f"{name}/{measure}": np.array([value, value]) for name, value in values.items() for measure in MEASURES}
    return Result({"env_steps": 5, "wall_seconds": 90.0}, arrays)


def done_of(results):
    """Return results by key, with jobs whose groups have 128 mini-episodes."""
    spec = {"config": {"reward": {"group": 128}}}
    planned = {key: Job(f"run {place}", "m:f", spec | {"place": place}) for place, key in enumerate(results)}
    by_digest = {planned[key].digest(): result for key, result in results.items()}
    return Done(planned, SimpleNamespace(get=lambda job: by_digest[job.digest()]))


def short(agent, levels, seed, network="symmetric"):
    return Key("short", agent, network, "followup_like", levels, seed)


@pytest.fixture(scope="module")
def cfg():
    return composed_study("generalization", "study.run.levels.test=4", "study.number=4")


@pytest.fixture(scope="module")
def rows(cfg):
    results = {short("ppo", k, seed): short_result(0.6 + k / 10 + seed / 100) for k in (1, 4) for seed in range(2)}
    results |= {short("generalist", 4, seed): short_result(0.5 + seed / 100, exact=True) for seed in range(2)}
    results[Key("long", "PPO")] = on_sets({"training": 1.0, "unseen": 0.9, "file": 0.8})
    return study.rows(cfg, done_of(results))


def test_rows_have_the_ends_of_each_seed(rows):
    ends = rows[(rows.part == "end") & (rows.agent == "ppo") & (rows.levels == 4) & (rows.seed == 1)]
    assert ends.set_index("set").neutrality.to_dict() == {"training": 0.95, "unseen": pytest.approx(1.01)}


def test_rows_count_the_meetings_of_a_level(rows):
    ends = rows[(rows.part == "end") & (rows.levels == 4)].groupby("agent").times.first()
    assert ends.to_dict() == {"ppo": 2560 / 128 / 4, "generalist": 10 * 64 / 4}


def test_the_profile_is_the_share_of_levels(rows):
    profile = rows[(rows.part == "profile") & (rows.levels == 1) & (rows.seed == 0)].set_index("x").share
    assert profile.loc[[0, 0.2, 0.25, 0.7, 0.75, 1]].tolist() == [1, 1, 0.75, 0.75, 0.25, 0]


def test_level_rows_have_the_most_training_levels(rows):
    levels = rows[rows.part == "level"]
    assert levels.groupby("seed").neutrality.max().to_dict() == {0: 1.0, 1: pytest.approx(1.01)}
    assert (rows.part == "property").sum() == 4


def test_differences_are_from_ppo_on_the_same_levels(rows):
    differences = rows[rows.part == "difference"].set_index("measure")
    assert differences.agent.unique().tolist() == ["generalist"]
    assert differences.y.to_dict() == pytest.approx({"usefulness": 0.0, "neutrality": -0.5 / 4})
    assert differences.low["neutrality"] < differences.y["neutrality"] < differences.high["neutrality"]


def test_p_values_are_corrected_for_all_comparisons(rows):
    """Usefulness does not differ; the difference in neutrality has a t of 1 with 3 degrees of freedom, p = 0.391."""
    p = rows[rows.part == "difference"].set_index("measure").p
    assert p.to_dict() == pytest.approx({"usefulness": 1.0, "neutrality": 2 * t_tails(1, 3)}, abs=1e-4)


def test_differences_leave_out_seeds_without_a_reference(cfg):
    results = {short("ppo", 4, seed): short_result(0.6) for seed in (0, 1)}
    results |= {short("generalist", 4, seed): short_result(neutrality) for seed, neutrality in enumerate((0.6, 0.6, 1))}
    differences = _differences(cfg, done_of(results))
    assert [row["y"] for row in differences] == [0, 0]


def test_rows_have_a_mean_for_each_set_of_levels(rows):
    long = rows[rows.part == "long"].set_index("set")
    assert long.neutrality.to_dict() == {"training": 1.0, "unseen": 0.9, "file": 0.8}
    assert set(long.levels) == {2}


def test_properties_describe_the_unseen_levels(rows):
    config = run_config({"levels": {"test": 4, "selection": 50, "train": 1}}, algo="ppo", levels="followup_like")
    levels = load(config).reported["test"]
    properties = rows[rows.part == "property"]
    assert properties.shutdown.tolist() == [level.shutdown for level in levels]
    optima = solve(compile_levels(levels)).best_return
    assert properties.ratio.tolist() == pytest.approx((optima[:, 1] / optima[:, 0]).tolist(), abs=1e-3)


# --------------------------------------------------------------------------------- claims and tables


def claim(beginning):
    (function,) = (holds for sentence, holds in study.CLAIMS.items() if sentence.startswith(beginning))
    return function


def ends_of(agent, unseen, training=None):
    """Return the end rows of an algorithm, from usefulness and neutrality by the number of training levels."""
    training = training or dict.fromkeys(unseen, (0.9, 0.95))
    columns = {"part": "end", "agent": agent, "network": "symmetric", "kind": "followup_like", "seed": 0}
    return [
        columns | {"levels": k, "set": name, "usefulness": values[k][0], "neutrality": values[k][1], "times": 3000 / k}
        for k in unseen
        for name, values in {"unseen": unseen, "training": training}.items()
    ]


CURVE = {1: (0.4, 0.4), 16: (0.85, 0.5), 256: (0.9, 0.7), 4096: (0.86, 0.9), 16384: (0.86, 0.91)}
TRAINING = {1: (1.0, 1.0), 16: (0.97, 0.98), 256: (0.95, 0.97), 4096: (0.88, 0.91), 16384: (0.87, 0.91)}


@pytest.mark.parametrize(
    ("beginning", "changes"),
    [
        ("Neutrality on unseen levels rises", {4096: (0.86, 0.6)}),
        ("Usefulness carries over", {16: (0.85, 0.85)}),
        ("Usefulness carries over", {16: (0.5, 0.5)}),
        ("The gap to the training levels closes", {16384: (0.86, 0.8)}),
        ("At this number of steps", {16384: (0.95, 0.91)}),
        ("From {fresh} levels on", {16384: (0.86, 0.95)}),
    ],
)
def test_another_curve_refutes_a_claim(beginning, changes):
    assert claim(beginning)(pd.DataFrame(ends_of("ppo", CURVE, TRAINING)))
    assert not claim(beginning)(pd.DataFrame(ends_of("ppo", CURVE | changes, TRAINING)))


@pytest.mark.parametrize(("few", "holds"), [((0.4, 0.7, 0.5), True), ((0.4, 0.6, 0.7), False)])
def test_rising_neutrality_refutes_overfitting(few, holds):
    curves = {64: few, 16384: (0.4, 0.8, 0.9)}
    rows = pd.DataFrame(
        {"part": "curve", "agent": "ppo", "levels": k, "seed": 0, "x": place, "neutrality": value}
        for k, curve in curves.items()
        for place, value in enumerate(curve)
    )
    assert claim("With few levels")(rows) == holds


def test_an_algorithm_with_a_flat_curve_refutes_the_claim():
    curves = {agent: ends_of(agent, CURVE) for agent in ("ppo", "a2c", "reinforce", "generalist")}
    holds = claim("With every algorithm")
    assert holds(pd.DataFrame(chain(*curves.values())))
    curves["a2c"] = ends_of("a2c", dict.fromkeys(CURVE, (0.8, 0.5)))
    assert not holds(pd.DataFrame(chain(*curves.values())))


@pytest.mark.parametrize(
    ("beginning", "rivals"),
    [("With the same number", [("a2c", "symmetric"), ("reinforce", "symmetric")]), ("Symmetries", [("ppo", "mlp")])],
)
def test_an_interval_with_zero_refutes_a_comparison(beginning, rivals):
    rows = pd.DataFrame(
        {"part": "difference", "agent": agent, "network": network, "measure": measure, "low": -0.2, "high": -0.1}
        for agent, network in rivals
        for measure in MEASURES
    )
    assert claim(beginning)(rows)
    rows.loc[0, "high"] = 0.01
    assert not claim(beginning)(rows)


def profile_rows(shares):
    return pd.DataFrame({"part": "profile", "agent": "ppo", "x": 0.5, "levels": [*shares], "share": [*shares.values()]})


def test_failures_that_do_not_fall_refute_the_claim():
    holds = claim("The mean hides failures")
    assert holds(profile_rows({1: 0.9, 64: 0.5, 1024: 0.9}))
    assert not holds(profile_rows({64: 0.5, 256: 0.9, 1024: 0.6}))


def level_rows(by_seed, shutdown=(1, 2, 3, 4)):
    """Return rows of four levels: their neutrality by seed, and properties unrelated to it, except ``shutdown``."""
    levels = [
        {"part": "level", "seed": seed, "level": level, "neutrality": value}
        for seed, values in enumerate(by_seed)
        for level, value in enumerate(values)
    ]
    names = ("walls", "delay", "distance", "coins", "ratio", "slack")
    values = [(2, 4, 1, 3), (3, 1, 4, 2), (2, 4, 1, 3), (3, 1, 4, 2), (2, 4, 1, 3), (3, 1, 4, 2)]
    table = dict(zip(names, values, strict=True))
    properties = pd.DataFrame({"part": "property", "level": range(4), "shutdown": shutdown, **table})
    return pd.concat([pd.DataFrame(levels), properties], ignore_index=True)


def test_seeds_that_fail_on_other_levels_refute_the_claim():
    holds = claim("The same levels fail")
    assert holds(level_rows([(0.1, 0.5, 0.6, 0.9), (0.2, 0.5, 0.7, 0.9)]))
    assert not holds(level_rows([(0.1, 0.5, 0.6, 0.9), (0.9, 0.5, 0.7, 0.2)]))


def test_a_property_that_explains_failures_refutes_the_claim():
    seeds = [(0.1, 0.5, 0.6, 0.9)]
    holds = claim("No simple property")
    assert holds(level_rows(seeds, shutdown=(2, 4, 1, 3)))
    assert not holds(level_rows(seeds))


def kind_rows(unseen):
    columns = {"part": "end", "agent": "ppo", "network": "symmetric", "levels": 4096, "seed": 0}
    return pd.DataFrame(
        columns | {"kind": kind, "set": name, "usefulness": values[0], "neutrality": values[1]}
        for kind, of_kind in unseen.items()
        for name, values in {"unseen": of_kind, "training": (0.8, 0.9)}.items()
    )


@pytest.mark.parametrize(
    ("beginning", "changes"),
    [("Neutrality carries over on every", {"hard": (0.7, 0.7)}), ("What is hard", {"followup_like": (0.6, 0.9)})],
)
def test_another_kind_of_level_refutes_a_claim(beginning, changes):
    reached = {"followup_like": (0.85, 0.9), "hard": (0.7, 0.85)}
    assert claim(beginning)(kind_rows(reached))
    assert not claim(beginning)(kind_rows(reached | changes))


def size_rows(generalist, at_random):
    return pd.DataFrame(
        {"part": "size", "agent": agent, "measure": measure, "x": 5 + place, "y": value}
        for agent, values in {"generalist": generalist, "random": at_random}.items()
        for measure in MEASURES
        for place, value in enumerate(values)
    )


@pytest.mark.parametrize(("generalist", "holds"), [((0.9, 0.5), True), ((0.5, 0.9), False), ((0.9, 0.1), False)])
def test_agents_worse_than_random_actions_refute_the_claim(generalist, holds):
    assert claim("On larger maps")(size_rows(generalist, (0.3, 0.2))) == holds


def set_rows(part, values):
    """Return rows of usefulness and neutrality by agent and set."""
    return pd.DataFrame(
        {"part": part, "seed": 0, "agent": agent, "set": name, "usefulness": usefulness, "neutrality": neutrality}
        for (agent, name), (usefulness, neutrality) in values.items()
    )


@pytest.mark.parametrize(("neutrality", "holds"), [(0.97, True), (0.94, False)])
def test_a_long_run_below_the_mark_refutes_the_claim(neutrality, holds):
    values = {("PPO", "unseen"): (0.5, 0.5), ("PPO, convolutional", "unseen"): (0.96, neutrality)}
    assert claim("Trained for long")(set_rows("long", values)) == holds


@pytest.mark.parametrize(("usefulness", "holds"), [(0.95, True), (0.8, False)])
def test_failure_in_the_papers_worlds_refutes_the_claim(usefulness, holds):
    values = {("exact gradients, convolutional, paper_like", "paper"): (usefulness, 0.95)}
    assert claim("An agent of levels like")(set_rows("long", values)) == holds


PROTOCOL = {
    ("PPO, DReST", "training"): (0.99, 0.99),
    ("PPO, DReST", "file"): (0.88, 0.74),
    ("PPO, default", "training"): (0.99, 0.01),
    ("PPO, default", "file"): (0.89, 0.2),
}


@pytest.mark.parametrize(
    ("beginning", "changes"),
    [
        ("On the follow-up's levels", {("PPO, DReST", "file"): (0.75, 0.74)}),
        ("With the default reward", {("PPO, default", "training"): (0.99, 0.3)}),
        ("With the default reward", {("PPO, default", "file"): (0.99, 0.0)}),
    ],
)
def test_other_results_of_the_protocol_refute_a_claim(beginning, changes):
    assert claim(beginning)(set_rows("follow_up", PROTOCOL))
    assert not claim(beginning)(set_rows("follow_up", PROTOCOL | changes))


def test_the_table_has_the_follow_ups_numbers():
    table = study.TABLES["follow_up"](set_rows("follow_up", PROTOCOL))
    cells = {row[0]: row[1:] for row in table.rows}
    assert table.header[-1] == PAPER
    assert cells["PPO, DReST: validation levels"] == ["0.880", "0.740", "0.742, 0.747"]


# ---------------------------------------------------------------------------------------------- runs


def test_a_run_on_files_is_evaluated_on_both_files(files, tmp_path):
    overrides = "study.overrides=['env_steps=2000','evaluations=1','policy.width=8','policy.depth=1','device=cpu']"
    runs = study.jobs(composed_part("follow_up", f"study.follow_up_levels={files}", overrides))
    job = next(iter(runs.values()))
    arrays = evaluation.train(job.spec | {"places": job.places}, tmp_path / "run").arrays
    assert {name: array.shape for name, array in arrays.items()} == {
        f"{split}/{measure}": (1,) for split in ("training", "file") for measure in MEASURES
    }
    (files / EVALUATED_FILE).write_text("changed")
    with pytest.raises(ConfigError, match=r"val.jsonl has changed since the study was started"):
        evaluation.checked_file(job.spec | {"places": job.places}, EVALUATED_FILE)


def test_agents_on_larger_maps_are_sampled(tmp_path):
    sizes = ("agents=[generalist]", "sides=[5,6,7]", "exact_to=6", "levels=3")
    runs = study.jobs(composed_part("sizes", *(f"study.sizes.{value}" for value in sizes)))
    (spec,) = (job.spec for job in runs.values())
    sampled, exact = (evaluation.by_size(spec | {"exact_to": side}, tmp_path).arrays for side in (6, 7))
    assert len(sampled) == 3 * 2 * 2
    assert sampled["6/usefulness"].mean() > 2 * sampled["6/random/usefulness"].mean()
    assert np.array_equal(exact["6/usefulness"], sampled["6/usefulness"])
    assert not np.array_equal(exact["7/usefulness"], sampled["7/usefulness"])
    assert exact["7/usefulness"] == pytest.approx(sampled["7/usefulness"], abs=0.2)


def test_excluded_levels_are_left_out():
    levels = [world("example"), world("spacious")]
    assert evaluation.without(levels, frozenset(keys_of(levels[:1]))) == levels[1:]


def test_levels_of_training_or_selection_are_not_unseen():
    """Nor are their rotations."""
    levels = [world(name) for name in ("example", "spacious", "lopsided")]
    splits = SimpleNamespace(train=[transform(levels[0], 1)], selection=[transform(levels[1], 2)])
    run = SimpleNamespace(gridworlds=SimpleNamespace(levels=splits))
    assert evaluation._unseen(run, levels) == levels[2:]
