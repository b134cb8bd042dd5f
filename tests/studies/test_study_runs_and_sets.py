"""The sets that policies are evaluated on, agents by size, runs of agents that can be asked, and the runner."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from drest_torch.choices import bits
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import PAPER_WORLDS, read_levels, world, write_levels
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Failure, Job, Result
from drest_torch.jobs.store import Store
from drest_torch.report.blocks import Commands, Details, Prose, Section, Table
from drest_torch.studies import choosers, goals, lambda_meta, old_report, runner, sizes, unseen
from drest_torch.studies.catalogue import StudyCommand
from drest_torch.studies.engine import Done, Published, Quote
from drest_torch.studies.scores import score
from tests.helpers.studies import all_blocks, composed_study

SMALL = GeneratorConfig(height=3, width=4, walls=(0, 3), coins=2, coin_values=(1, 9), shutdown=(2, 3), delay=(1, 2))
LEVELS = generate(SMALL, 9, seed=1)


def run_on(split=True, *, reads_maps=False, map_size=(5, 5)):
    """A run that has trained on two levels, selected by one and has six test levels, two of them known by then."""
    test = [LEVELS[3], symmetries(LEVELS[0])[3], LEVELS[4], symmetries(LEVELS[2])[5], LEVELS[5], LEVELS[6]]
    levels = SimpleNamespace(
        split=SimpleNamespace(test=test) if split else None,
        train=[LEVELS[0], LEVELS[1], world("spacious")],
        selection=[LEVELS[2], world("example")],
    )
    policy = SimpleNamespace(reads_maps=reads_maps)
    worlds = SimpleNamespace(levels=levels, map_size=map_size)
    return SimpleNamespace(gridworlds=worlds, algorithm=SimpleNamespace(policy=policy), cfg=None)


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(unseen, "can_see", lambda run, levels: True)
    monkeypatch.setattr(unseen, "outcome", lambda run, levels: {"levels": [level.name for level in levels]})
    monkeypatch.setattr(unseen, "trained_levels_reported", lambda cfg: 2)


def test_levels_of_training_and_selection_are_not_among_the_unseen(seen):
    found = unseen.evaluate_sets(run_on(), unseen.describe(None))
    assert found == {
        "test/levels": [LEVELS[index].name for index in (3, 4, 5, 6)],
        "paper/levels": [name for name in PAPER_WORLDS if name not in ("spacious", "example")],
        "train/levels": [LEVELS[0].name, LEVELS[1].name],
    }
    assert "test/levels" not in unseen.evaluate_sets(run_on(split=False), unseen.describe(None))


def test_levels_of_a_file_are_those_that_were_there_when_the_study_began(seen, tmp_path):
    write_levels(tmp_path / "own.jsonl", [LEVELS[1], LEVELS[7]])
    sets = unseen.describe(str(tmp_path / "own.jsonl"))
    assert unseen.evaluate_sets(run_on(), sets)["file/levels"] == [LEVELS[7].name]
    write_levels(tmp_path / "own.jsonl", [LEVELS[8]])
    with pytest.raises(ConfigError, match=r"own\.jsonl has changed since the study was started"):
        unseen.evaluate_sets(run_on(), sets)


@pytest.mark.parametrize(
    ("reads_maps", "map_size", "shapes", "sees"),
    [
        (False, (5, 5), [(7, 5, 5), (7, 5, 5)], True),
        (False, (5, 5), [(9, 5, 5), (7, 5, 5)], False),  # it was built for less than is shown of these levels
        (False, (3, 4), [(7, 3, 4), (7, 3, 4)], True),  # as large as the level
        (False, (3, 3), [(7, 5, 5), (7, 5, 5)], False),  # narrower than the level
        (False, (2, 5), [(7, 5, 5), (7, 5, 5)], False),
        (True, (3, 3), [(7, 6, 6), (7, 5, 5)], True),
        (True, (3, 3), [(9, 5, 5), (7, 5, 5)], False),
    ],
)
def test_a_policy_sees_maps_that_it_was_built_for(monkeypatch, reads_maps, map_size, shapes, sees):
    given = iter(shapes)
    monkeypatch.setattr(unseen, "shown_features", lambda cfg: ())
    run = run_on(reads_maps=reads_maps, map_size=map_size)
    run.gridworlds.observation = lambda mdp: SimpleNamespace(shape=next(given))
    assert unseen.can_see(run, LEVELS[3:4]) is sees


def test_what_is_measured_of_each_level():
    levels = [LEVELS[0], LEVELS[1], symmetries(LEVELS[0])[2]]
    evaluation = SimpleNamespace(
        usefulness=torch.tensor([0.9, 0.5, 0.7]),
        neutrality_normalised=torch.tensor([0.8, 0.6, 0.1]),
        neutrality_own=torch.tensor([0.4, 0.9, 0.0]),
        num_lengths=torch.tensor([2, 4, 1]),
    )
    evaluator = SimpleNamespace(
        evaluate=lambda policy: evaluation,
        usefulness_at=lambda policy: {0.95: torch.tensor([0.1, 0.2, 0.3]), 0.9: torch.tensor([0.4, 0.5, 0.6])},
    )
    run = run_on()
    run.gridworlds.evaluator = lambda several: evaluator
    found = {name: values.tolist() for name, values in unseen.outcome(run, levels).items()}
    assert found == {
        "usefulness": pytest.approx([0.9, 0.5, 0.7]),
        "neutrality_normalised": pytest.approx([0.8, 0.6, 0.1]),
        "neutrality_own_normalised": pytest.approx([0.4, 0.45, 0.0]),
        "design": [0, 1, 0],
        "usefulness_at_0.95": pytest.approx([0.1, 0.2, 0.3]),
        "usefulness_at_0.9": pytest.approx([0.4, 0.5, 0.6]),
    }


# -------------------------------------------------------------------------------------------- sizes


def test_agents_are_not_measured_on_maps_of_training_and_selection(monkeypatch, tmp_path):
    run, known = run_on(), []
    monkeypatch.setattr(sizes, "trained", lambda spec, folder: (run, None))
    monkeypatch.setattr(sizes.Agent, "load", lambda folder: folder)
    monkeypatch.setattr(sizes, "by_size", lambda agent, keys, spec: known.append(keys) or {"5/x": np.array([1.0])})
    assert sizes.transfer({"sizes": {}}, tmp_path).arrays["5/x"] == [1.0]
    levels = [LEVELS[0], LEVELS[1], world("spacious"), LEVELS[2], world("example")]
    assert known == [frozenset(canonical_key(level) for level in levels)]


def by_side():
    rows = []
    for title, shift in (("net", 0.0), (sizes.RANDOM, -0.5)):
        for seed, change in ((0, 0.0), (1, 0.1), (2, -0.02)):
            for side, of in ((5, 0.9), (7, 0.7)):
                for metric, value in (("usefulness", of), ("neutrality_normalised", of - 0.1)):
                    array = np.array([value + shift + change, value + shift + change - 0.04])
                    rows.append({"title": title, "seed": seed, "split": str(side), "metric": metric, "value": array})
    return pd.DataFrame(rows)


def test_means_by_size_are_one_for_each_seed():
    means = sizes.size_means(by_side())
    assert list(means) == ["net", sizes.RANDOM]
    assert means["net"]["usefulness"] == {
        "5": pytest.approx([0.88, 0.98, 0.86]),
        "7": pytest.approx([0.68, 0.78, 0.66]),
    }
    assert means[sizes.RANDOM]["neutrality"]["7"] == pytest.approx([0.08, 0.18, 0.06])
    table = sizes.size_table(means, "neutrality", [7, 5])
    assert table.rows[0] == ["net", "0.580 (0.560 to 0.680)", "0.780 (0.760 to 0.880)"]
    assert (table.header, table.caption) == (["agent", "7", "5"], "Neutrality ÷ log2 k by the side of the map")
    assert "net from 0.88 to 0.68; random actions from 0.38 to 0.18" in sizes.sizes_plot(means).alt


def test_times_are_per_level_and_per_step():
    cost = {
        "5": {
            "cells": 25,
            "states": 812.6,
            "seconds": {"generate": 0.002, "solve": 0.0151, "evaluate": 0.1, "mlp": 3e-5},
        },
        "9": {
            "cells": 81,
            "states": 12_345.0,
            "seconds": {"generate": 0.02, "solve": 0.05, "evaluate": 2.0, "mlp": 7e-5},
        },
    }
    table = sizes.cost_table(cost)
    assert [[*row] for row in table.rows] == [
        ["5", "813", "2.00", "15.10", "100.00", "30"],
        ["9", "12,345", "20.00", "50.00", "2000.00", "70"],
    ]
    assert table.header[-1] == "step of PPO, mlp, µs"
    alt = sizes.cost_plot(cost).alt
    assert "generate a level from 2 to 20; find its lengths and m(l) from 15.1 to 50" in alt
    assert "mlp from 30 to 70" in alt


def test_times_grow_with_the_side_of_a_map():
    assert goals.at_side(7) == {"height": 7, "width": 7, "shutdown": [3, 10], "delay": [2, 9]}


# ------------------------------------------------------------------------------------- goals, scores


def scored(split, useful, neutral, seconds=(5.0, 9.0)):
    rows = [
        {"seed": seed, "metric": metric, "value": np.array([value - 0.1, value + 0.1])}
        for metric, values in (("usefulness", useful), ("neutrality_normalised", neutral))
        for seed, value in enumerate(values)
    ]
    took = [{"metric": "seconds", "value": np.array([each])} for each in seconds]
    took += [{"metric": "env_steps", "value": np.array([2e6])}]
    goal = {"part": "follow_up", "arguments": "algo=ppo", "wanted": {split: {"usefulness": 0.8}}}
    return score("PPO", goal, split, pd.DataFrame(rows), pd.DataFrame(took))


def test_agents_of_the_follow_up_stand_beside_what_it_reports():
    made = [scored("train", (0.9, 0.8), (0.7, 0.5)), scored("file", (0.85, 0.75), (0.6, 0.3))]
    published = {"PPO": {"train": [0.95, 0.9], "test": [0.7, 0.4]}}
    table = goals.follow_up_table(published, made)
    assert [*table.rows[0]] == [
        "PPO",
        "2.0 M steps",
        "9",
        "0.850 (0.800 to 0.900), 0.600 (0.500 to 0.700)",
        "0.800 (0.750 to 0.850), 0.450 (0.300 to 0.600)",
        "0.950, 0.900",
        "0.700, 0.400",
    ]
    assert goals.follow_up_table(published, made[:1]).rows[0][4] == "–"
    assert goals.better(published, made) == ["PPO"]
    assert goals.better({"PPO": {"test": [0.7, 0.5]}}, made) == []  # less neutral
    assert goals.better({"PPO": {"test": [0.9, 0.4]}}, made[:1]) == []


def test_goals_are_counted_by_seed():
    made = [scored("train", (0.9, 0.7), (0.7, 0.5)), scored("file", (0.85, 0.95), (0.6, 0.3))]
    (quote,) = goals.quotes({"follow_up": made})
    assert quote.measured == "1 of 2 goals by every seed; 3 of 4 agents"
    said = goals.sentences({"PPO": {"arguments": "algo=ppo"}}, {"follow_up": made}, {"PPO": {"test": [0.1, 0.1]}})
    assert (said["parts"], said["wanted"], said["missed"]) == (["follow_up"], 2, [made[0]])
    assert said["lines"] == {"follow_up": ["# PPO", "drest train algo=ppo"]}
    assert said["better"] == ["PPO"]


# ----------------------------------------------------------------------- agents that can be asked


def test_what_is_hidden_at_times_in_training_is_shown_afterwards(monkeypatch, tmp_path):
    asked = []
    agent = SimpleNamespace(
        levels=SimpleNamespace(reported={"test": ["level"]}), policy=SimpleNamespace(private_bits=1)
    )
    monkeypatch.setattr(choosers, "trained_agent", lambda spec, folder: agent)
    monkeypatch.setattr(choosers.Agent, "load", lambda name: agent)
    monkeypatch.setattr(choosers, "find_levels", lambda name: [name])
    monkeypatch.setattr(choosers, "measure", lambda who, showing, sets: asked.append((showing, sets)) or {})
    for shown, chance in (("at times", 0.3), ("again", 0.4), ("first", None)):
        choosers.train({"shown": shown, "chance": chance}, tmp_path)
    choosers.shipped({"agent": "generalist-bit"}, tmp_path)
    agent.policy.private_bits = 0
    choosers.shipped({"agent": "generalist"}, tmp_path)
    assert [showing for showing, _ in asked] == [
        bits.always(),
        bits.drawn_again(0.4),
        bits.at_first(),
        bits.always(),
        bits.never(),
    ]
    assert asked[0][1] == {"test": ["level"]}
    assert asked[-1][1] == {"paper": ["paper"], "test": ["level"]}


def test_agents_are_trained_on_as_many_menus_of_each_kind(monkeypatch, tmp_path):
    made = []

    def random_choice_levels(kind, number, rng):
        made.append((kind, number, rng.initial_seed()))
        return [LEVELS[number - 1 + len(made)]]

    generated = SimpleNamespace(train=LEVELS[:1], selection=LEVELS[4:6], reported={"test": LEVELS[6:]})
    cfg = SimpleNamespace(levels=SimpleNamespace(train=7), device=None)
    monkeypatch.setattr(choosers, "run_config", lambda values, levels: cfg)
    monkeypatch.setattr(choosers, "load", lambda config: generated)
    monkeypatch.setattr(choosers, "random_choice_levels", random_choice_levels)
    spec = {"levels": {"name": "x", "values": {}}, "config": {"device": "cpu", "seed": 5}, "menus": ["sure", "shared"]}
    files = choosers.write_level_files(spec, tmp_path / "run")
    assert made == [("sure", 3, 5), ("shared", 3, 5)]
    names = {name: [level.name for level in read_levels(path)] for name, path in files.items()}
    assert names == {
        "train": [LEVELS[0].name, LEVELS[3].name, LEVELS[4].name],
        "selection": [level.name for level in LEVELS[4:6]],
        "test": [level.name for level in LEVELS[6:]],
    }


# ------------------------------------------------------------------------------------------- runner


def test_durations_in_words():
    assert [old_report.duration(seconds) for seconds in (89.4, 90, 5399, 5400, 9000)] == [
        "89 s",
        "2 min",
        "90 min",
        "1.5 h",
        "2.5 h",
    ]


def test_an_overview_has_the_papers_column_if_it_says_anything():
    quotes = [Quote("a", "", "1"), Quote("b", "N 1", "2")]
    table = old_report.overview(quotes)
    assert table.header == ["", "the paper", "measured"]
    assert [*table.rows] == [["a", "", "1"], ["b", "N 1", "2"]]
    alone = old_report.overview(quotes[:1])
    assert (alone.header, [*alone.rows]) == (["", "measured"], [["a", "1"]])


def test_values_of_the_quick_version_take_the_place_of_others():
    cfg = composed_study("lambda_meta", "study.agents=5")
    assert old_report.changed(cfg, lambda_meta) == ["agents"]
    assert runner._effective(cfg, False).agents == 5
    quick = runner._effective(cfg, True)
    assert (quick.agents, list(quick.lams), quick.training.clip) == (2, [0.5, 0.9, 0.99], 5.0)


def test_runs_go_to_the_executor_that_is_asked_for(monkeypatch, tmp_path):
    heard = []
    monkeypatch.setattr(
        runner, "run_jobs", lambda jobs, store, executor, **how: heard.append((jobs, executor, how)) or []
    )
    monkeypatch.setattr(runner, "RayCluster", lambda *where, **how: ("ray", *where, how))
    monkeypatch.setattr(runner, "Local", lambda workers: ("local", workers))
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 6)
    runner._run(iter(["a", "b"]), None, StudyCommand(progress=False))
    runner._run(["a"], None, StudyCommand(progress=False, workers=3))
    ray = StudyCommand(progress=True, executor="ray", address="auto", workers=2, runs_per_gpu=4)
    runner._run(["a", "b", "c"], None, ray)
    assert heard[0] == (["a", "b"], ("local", 6), {})
    assert heard[1][1] == ("local", 3)
    assert heard[2][1] == ("ray", "auto", 2, {"runs_per_gpu": 4})
    assert heard[2][2]["report"].total == 3


@pytest.fixture
def made(tmp_path):
    """A study of three runs, of which one is done, one has failed and one is a run twice."""
    jobs = {name: Job(name, "none:none", {"n": index}) for index, name in enumerate(("done", "failed"))}
    jobs["again"] = Job("again", "none:none", {"n": 0})
    store = Store(tmp_path / "runs")
    store.put(jobs["done"], Result({}), 75.0)
    failures = [Failure(jobs["failed"], "it broke", ""), Failure(Job("other", "none:none", {"n": 9}), "not here", "")]
    cfg = OmegaConf.create({"name": "mine", "agents": 3})
    done = Done(jobs, store)

    def blocks(exact, quick=False):
        published = Published([], pd.DataFrame(), exact=exact)
        settings = StudyCommand(quick=quick)
        return old_report._how_it_was_made(cfg, published, done, failures, store, settings)

    return blocks


def test_how_a_study_was_made(made):
    blocks = made(None)
    assert next(block for block in blocks if isinstance(block, Commands)).lines == [
        "python -m drest_torch.study study=mine"
    ]
    facts = next(block for block in blocks if isinstance(block, Prose)).markdown
    assert "2 of 2 runs, 2 min of computing in all" in facts
    assert "Every number in this report is exact" in facts
    failed, runs = (block for block in all_blocks(blocks) if isinstance(block, Table))
    assert [[*row] for row in failed.rows] == [["failed", "it broke"]]
    assert [row[:2] for row in runs.rows] == [["done", "75.0"], ["again", "75.0"]]
    quick = made(False, quick=True)
    assert quick[0].lines[0].endswith("study=mine quick=true")
    assert "Some numbers in this report are sampled" in quick[1].markdown
    assert any(isinstance(block, Details) for block in quick)


@pytest.mark.parametrize("quick", [False, True])
def test_what_is_written_of_a_study(monkeypatch, tmp_path, quick):
    pages = []
    monkeypatch.setattr(old_report, "write_page", lambda page, path: pages.append((page, path)))
    study = goals
    cfg = composed_study("goals", "study.seeds=2")
    found = Published([Prose("text")], pd.DataFrame({"value": [1.5]}), [Quote("a", "", "1")], {"k": 2}, {"so": True})
    settings = StudyCommand(out=str(tmp_path), quick=quick)
    folder = tmp_path / "goals"
    old_report._write(cfg, study, found, [Prose("made")], settings=settings, folder=folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == {
        "k": 2,
        "claims": {"so": True},
        "quotes": [{"what": "a", "reported": "", "measured": "1"}],
        "changed": ["seeds"],
    }
    assert (folder / "results.csv").read_text() == "value\n1.5\n"
    ((page, where),) = pages
    assert where == folder / "report.html"
    assert page.title == study.TITLE + " – quick version" * quick
    assert bool(page.banner) is quick
    titles = [block.title for block in page.blocks if isinstance(block, Section)]
    assert titles == ["In numbers", "How this was made"]
