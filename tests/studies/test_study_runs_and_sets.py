"""Sizes of maps, runs of agents that can be asked, and the runner."""

from types import SimpleNamespace

from drest_torch.choices import bits
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import read_levels
from drest_torch.studies import choosers, runner
from drest_torch.studies.catalogue import StudyCommand
from drest_torch.studies.generalization.runs import at_side
from tests.helpers.studies import composed_study

SMALL = GeneratorConfig(height=3, width=4, walls=(0, 3), coins=2, coin_values=(1, 9), shutdown=(2, 3), delay=(1, 2))
LEVELS = generate(SMALL, 9, seed=1)


def test_times_grow_with_the_side_of_a_map():
    assert at_side(7) == {"height": 7, "width": 7, "shutdown": [3, 10], "delay": [2, 9]}


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
        bits.redrawn(0.4),
        bits.first_tick_only(),
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
    assert [runner._duration(seconds) for seconds in (89.4, 90, 5399, 5400, 9000)] == [
        "89 s",
        "2 min",
        "90 min",
        "1.5 h",
        "2.5 h",
    ]


def test_values_of_the_quick_version_take_the_place_of_others():
    cfg = composed_study("lambda_meta", "study.agents=5")
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
