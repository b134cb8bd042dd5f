"""Tables of an earlier study, runs of agents that can be asked, and the runner."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from omegaconf import OmegaConf

from drest_torch.choices import bits
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import read_levels
from drest_torch.jobs.job import Failure, Job, Result
from drest_torch.jobs.store import Store
from drest_torch.report.blocks import Commands, Details, Prose, Section, Table
from drest_torch.studies import choosers, lambda_meta, old_report, runner, scores
from drest_torch.studies.catalogue import StudyCommand
from drest_torch.studies.engine import Done, Published, Quote
from drest_torch.studies.generalization.runs import at_side
from tests.helpers.studies import all_blocks, composed_study

SMALL = GeneratorConfig(height=3, width=4, walls=(0, 3), coins=2, coin_values=(1, 9), shutdown=(2, 3), delay=(1, 2))
LEVELS = generate(SMALL, 9, seed=1)


# -------------------------------------------------------------------------------- tables of an earlier study


def test_tables_by_size_have_the_median_and_the_range():
    net = {"5": [0.78, 0.88, 0.76], "7": [0.58, 0.68, 0.56]}
    table = scores.size_table({"net": {"neutrality": net}}, "neutrality", [7, 5])
    assert table.rows[0] == ["net", "0.580 (0.560 to 0.680)", "0.780 (0.760 to 0.880)"]
    assert (table.header, table.caption) == (["agent", "7", "5"], "Neutrality ÷ log2 k by the side of the map")
    means = {"net": {"usefulness": net, "neutrality": net}}
    assert "net from 0.78 to 0.58" in scores.sizes_plot(means).alt


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
    table = scores.cost_table(cost)
    assert [[*row] for row in table.rows] == [
        ["5", "813", "2.00", "15.10", "100.00", "30"],
        ["9", "12,345", "20.00", "50.00", "2000.00", "70"],
    ]
    assert table.header[-1] == "step of PPO, mlp, µs"
    alt = scores.cost_plot(cost).alt
    assert "generate a level from 2 to 20; find its lengths and m(l) from 15.1 to 50" in alt
    assert "mlp from 30 to 70" in alt


def test_times_grow_with_the_side_of_a_map():
    assert at_side(7) == {"height": 7, "width": 7, "shutdown": [3, 10], "delay": [2, 9]}


def scored(split, useful, neutral):
    return scores.Score("follow_up", "PPO", "", split, 2, {}, useful, neutral, [], 9.0, None, "2.0 M steps")


def test_agents_of_the_follow_up_stand_beside_what_it_reports():
    made = [scored("train", (0.9, 0.8), (0.7, 0.5)), scored("file", (0.85, 0.75), (0.6, 0.3))]
    published = {"PPO": {"train": [0.95, 0.9], "test": [0.7, 0.4]}}
    table = scores.follow_up_table(published, made)
    assert [*table.rows[0]] == [
        "PPO",
        "2.0 M steps",
        "9",
        "0.850 (0.800 to 0.900), 0.600 (0.500 to 0.700)",
        "0.800 (0.750 to 0.850), 0.450 (0.300 to 0.600)",
        "0.950, 0.900",
        "0.700, 0.400",
    ]
    assert scores.follow_up_table(published, made[:1]).rows[0][4] == "–"


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
    study = lambda_meta
    for name in ("TITLE", "QUESTION"):
        monkeypatch.setattr(study, name, f"its {name}", raising=False)
    cfg = composed_study("lambda_meta", "study.agents=2")
    found = Published([Prose("text")], pd.DataFrame({"value": [1.5]}), [Quote("a", "", "1")], {"k": 2}, {"so": True})
    settings = StudyCommand(out=str(tmp_path), quick=quick)
    folder = tmp_path / "lambda_meta"
    old_report._write(cfg, study, found, [Prose("made")], settings=settings, folder=folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == {
        "k": 2,
        "claims": {"so": True},
        "quotes": [{"what": "a", "reported": "", "measured": "1"}],
        "changed": ["agents"],
    }
    assert (folder / "results.csv").read_text() == "value\n1.5\n"
    ((page, where),) = pages
    assert where == folder / "report.html"
    assert page.title == study.TITLE + " – quick version" * quick
    assert bool(page.banner) is quick
    titles = [block.title for block in page.blocks if isinstance(block, Section)]
    assert titles == ["In numbers", "How this was made"]
