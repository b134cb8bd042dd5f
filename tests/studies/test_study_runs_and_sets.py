"""The levels of larger maps, the runs of agents that choose between lotteries, and the runner of studies."""

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


# ---------------------------------------------------------- agents that choose between lotteries


def test_a_bit_that_was_hidden_in_training_is_shown_afterwards(monkeypatch, tmp_path):
    measured = []
    agent = SimpleNamespace(
        levels=SimpleNamespace(reported={"test": ["level"]}), policy=SimpleNamespace(private_bits=1)
    )
    monkeypatch.setattr(choosers, "trained_agent", lambda spec, folder: agent)
    monkeypatch.setattr(choosers.Agent, "load", lambda name: agent)
    monkeypatch.setattr(choosers, "find_levels", lambda name: [name])
    monkeypatch.setattr(choosers, "measure", lambda agent, showing, sets: measured.append((showing, sets)) or {})
    for name, chance in (("at times", 0.3), ("again", 0.4), ("first", None)):
        choosers.train({"shown": name, "chance": chance}, tmp_path)
    choosers.shipped({"agent": "generalist-bit"}, tmp_path)
    agent.policy.private_bits = 0
    choosers.shipped({"agent": "generalist"}, tmp_path)
    assert [showing for showing, _ in measured] == [
        bits.always(),
        bits.redrawn(0.4),
        bits.first_tick_only(),
        bits.always(),
        bits.never(),
    ]
    assert measured[0][1] == {"test": ["level"]}
    assert measured[-1][1] == {"paper": ["paper"], "test": ["level"]}


def test_training_levels_have_the_same_number_of_each_menu(monkeypatch, tmp_path):
    calls = []

    def random_choice_levels(kind, number, rng):
        calls.append((kind, number, rng.initial_seed()))
        return [LEVELS[number - 1 + len(calls)]]

    generated = SimpleNamespace(train=LEVELS[:1], selection=LEVELS[4:6], reported={"test": LEVELS[6:]})
    cfg = SimpleNamespace(levels=SimpleNamespace(train=7), device=None)
    monkeypatch.setattr(choosers, "run_config", lambda values, levels: cfg)
    monkeypatch.setattr(choosers, "load", lambda config: generated)
    monkeypatch.setattr(choosers, "random_choice_levels", random_choice_levels)
    spec = {"levels": {"name": "x", "values": {}}, "config": {"device": "cpu", "seed": 5}, "menus": ["sure", "shared"]}
    files = choosers.write_level_files(spec, tmp_path / "run")
    assert calls == [("sure", 3, 5), ("shared", 3, 5)]
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


def test_values_of_the_quick_version_override_defaults():
    quick = runner._effective(composed_study("lambda_meta"), True)
    assert quick.agents == 2
    assert list(quick.lams) == [0.5, 0.9, 0.99]
    assert quick.training.clip == 5.0


def test_values_of_the_user_override_the_quick_version():
    cfg = composed_study("lambda_meta", "study.agents=5", "study.lams=[0.9]", "study.training.clip=2.0")
    assert runner._effective(cfg, False).agents == 5
    quick = runner._effective(cfg, True)
    assert quick.agents == 5
    assert list(quick.lams) == [0.9]
    assert quick.training.clip == 2.0


def test_a_user_chooses_methods_of_the_quick_bench():
    cfg = runner._effective(composed_study("alternatives", "study.methods=[drest,indifference]"), True)
    assert list(cfg.methods) == ["drest", "indifference"]
    assert cfg.seeds == 1
    assert list(cfg.all_methods.drest["values"]) == [64, 4]


def test_runs_go_to_the_chosen_executor(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        runner, "run_jobs", lambda jobs, store, executor, **options: calls.append((jobs, executor, options)) or []
    )
    monkeypatch.setattr(runner, "RayCluster", lambda *where, **how: ("ray", *where, how))
    monkeypatch.setattr(runner, "Local", lambda workers: ("local", workers))
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 6)
    runner._run(iter(["a", "b"]), None, StudyCommand(progress=False))
    runner._run(["a"], None, StudyCommand(progress=False, workers=3))
    ray = StudyCommand(progress=True, executor="ray", address="auto", workers=2, runs_per_gpu=4)
    runner._run(["a", "b", "c"], None, ray)
    assert calls[0] == (["a", "b"], ("local", 6), {})
    assert calls[1][1] == ("local", 3)
    assert calls[2][1] == ("ray", "auto", 2, {"runs_per_gpu": 4})
    assert calls[2][2]["report"].total == 3
