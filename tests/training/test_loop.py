"""The loop of a run with artificial updates: its evaluations, checkpoints, schedules, callbacks and messages."""

from itertools import pairwise

import pytest
import torch

from drest_torch.agents.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.algos.base import Effort, cut_rewards
from drest_torch.config.compose import compose
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.files import read_metrics
from drest_torch.reward import Reward
from drest_torch.tracking.sinks import Sink
from drest_torch.training.folder import lengthen
from drest_torch.training.plan import few_updates, introduction
from drest_torch.training.run import resume, start
from tests.helpers.runs import FEW, QUIET, WITHOUT_EPISODES, small

STEPS = 130
"""The steps of an artificial update."""


class Logger(Sink):
    """A sink that keeps the id of a resumed run."""

    run_ids = []

    def __init__(self, run, options):
        self.run_ids.append(run.run_id)
        self.run_id = run.run_id or "first"


def looped(run, monkeypatch, scores=None, interrupt=None):
    """Replace a run's updates and evaluations by artificial ones; return E, the rate and the steps of each update."""
    updates, scores = [], iter(scores or [])

    def update(reward):
        updates.append((reward.episodes_per_meta, run.algorithm.scheduled()["optim/lr"], run.state.steps))
        run.algorithm.effort = Effort(steps=STEPS, episodes=7)
        return {"train/return": torch.tensor([1.0, 4.0])}

    def watch(policy):
        usefulness, neutrality = next(scores, (0.5, 0.5))
        names = ("usefulness", usefulness), ("neutrality_normalised", neutrality), ("neutrality", 2 - neutrality)
        other = {f"eval/train/{name}": 1 - value for name, value in names}
        return other | {f"eval/selection/{name}": value for name, value in names}

    monkeypatch.setattr(run.algorithm, "update", update)
    monkeypatch.setattr(run.task, "watch", watch)
    monkeypatch.setattr(run.task, "judge", lambda policy, folder: ({}, {}))
    return updates


def configuration(folder, *overrides):
    return small(folder, *FEW, "env_steps=1000", "keep_last=2", "algo=reinforce", *overrides)


def evaluated(folder):
    return [int(row["step"]) for row in read_metrics(folder / "metrics.jsonl") if "eval/train/usefulness" in row]


def best_step(folder):
    return load_checkpoint(folder / "checkpoints" / "best.safetensors")[1]["steps"]


SCORES = [(1.0, 1.0), (0.5, 0.9), (0.9, 0.4), (0.6, 0.8), (0.3, 0.95), (0.8, 0.6)]
"""Usefulness and neutrality of an untrained policy, which is not saved, and then with products 0.45, 0.36, 0.48, 0.285
and 0.48."""


@pytest.mark.parametrize("stopped_after", [None, 3, 5])
def test_the_best_checkpoint_has_the_largest_product(stopped_after, tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run", "evaluations=5"))
    looped(run, monkeypatch, SCORES)
    if stopped_after is not None:
        interrupted = iter([False] * (stopped_after - 1) + [True] * 9)
        monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(interrupted))
        assert run.train() is None
        monkeypatch.undo()
        seen = len(evaluated(tmp_path / "run"))
        run = resume(tmp_path / "run")
        looped(run, monkeypatch, SCORES[seen:])
    run.train()
    assert evaluated(tmp_path / "run") == [0, 260, 520, 650, 910, 1040]
    assert best_step(tmp_path / "run") == 650
    saved = load_checkpoint(step_checkpoints(tmp_path / "run" / "checkpoints")[-1])[1]
    assert saved["best_score"] == pytest.approx(0.48)
    assert saved["steps"] == 1040
    assert saved["updates"] == 8
    assert saved["episodes"] == 56
    assert saved["evaluated"] == 5


FALLING = [(1.0, 1.0), (0.5, 0.9), (0.9, 0.4), (0.6, 0.8), (0.3, 0.95), (0.8, 0.5), (1.0, 1.0)]
"""As `SCORES`, with products 0.45, 0.36, 0.48, 0.285, 0.4 and 1 after training began."""


@pytest.mark.parametrize("stopped_after", [None, 5, 6])
def test_a_run_ends_when_its_patience_is_exhausted(stopped_after, tmp_path, monkeypatch, capsys):
    run = start(configuration(tmp_path / "run", "evaluations=6", "patience=2", "progress=true"))
    looped(run, monkeypatch, FALLING)
    if stopped_after is not None:
        interrupted = iter([False] * (stopped_after - 1) + [True] * 9)
        monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(interrupted))
        assert run.train() is None
        monkeypatch.undo()
        run = resume(tmp_path / "run")
        looped(run, monkeypatch, FALLING[len(evaluated(tmp_path / "run")) :])
    summary = run.train()
    assert evaluated(tmp_path / "run") == [0, 260, 390, 520, 780, 910]
    rates = [row["optim/lr"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")[1:]]
    assert rates == pytest.approx([0.001 * (1 - 0.13 * step) for step in range(7)])  # as for the whole budget
    assert best_step(tmp_path / "run") == 520
    assert run.state.steps == summary["env_steps"] == 910
    reason = "no better score on the selection levels in 2 evaluations (patience=2); the best weights, of step 520 "
    assert summary["ended_early"].startswith(reason)
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.count(f"ended early after 910 steps: {reason}") == 1
    again = resume(tmp_path / "run")
    updates = looped(again, monkeypatch)
    again.train()
    assert updates == []  # it stays ended
    with pytest.raises(ConfigError, match=r"ended early: .*; more env_steps do not change that: train anew with a "):
        resume(tmp_path / "run", env_steps=2000)
    assert load_config(tmp_path / "run").env_steps == 1000


def test_a_run_without_worse_scores_trains_to_its_end(tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run", "evaluations=5", "patience=2"))
    looped(run, monkeypatch, SCORES)
    summary = run.train()
    assert summary["env_steps"] == 1040
    assert "ended_early" not in summary


class Pressed:
    """A replacement of `interruptible` with predetermined interruptions."""

    def __init__(self, pressed):
        self.pressed = pressed

    def __enter__(self):
        return lambda: next(self.pressed)

    def __exit__(self, *error):
        pass


def test_evaluations_are_evenly_spaced(tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run", "evaluations=3"))
    looped(run, monkeypatch)
    run.train()
    folder = tmp_path / "run"
    assert evaluated(folder) == [0, 390, 780, 1040]
    saved = step_checkpoints(folder / "checkpoints")
    assert [load_checkpoint(path)[1]["steps"] for path in saved] == [780, 1040]


def test_schedules_follow_the_steps_of_the_run(tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run", "evaluations=3", "reward.episodes_at_start=16", "algo.lr=0.5"))
    updates, heard = looped(run, monkeypatch), []
    run.callbacks = [lambda step, metrics: heard.append((step, metrics))]
    run.train()
    assert [step for *_, step in updates] == [STEPS * update for update in range(8)]
    growth = run.cfg.reward.episodes_per_meta / 16
    assert growth != 1
    for index, (episodes, rate, step) in enumerate(updates):
        assert episodes == round(16 * growth ** (step / 1000))
        assert rate == pytest.approx(0.5 * (1 - step / 1000))
        step_after, metrics = heard[index + 1]
        assert step_after == step + STEPS
        assert metrics["optim/lr"] == rate
        assert metrics["reward/episodes_per_meta"] == episodes
        assert metrics["train/return"] == 2.5
    assert heard[0][0] == 0
    assert heard[0][1].keys() == run.task.watch(run.algorithm.policy).keys()
    assert len(heard) == 9


def test_an_interruption_in_the_last_update_is_ignored(tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run"))
    looped(run, monkeypatch)
    monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(iter([False] * 7 + [True] * 2)))
    assert run.train()["env_steps"] == 1040


def test_a_resumed_run_continues_its_wall_time(tmp_path, monkeypatch):
    run, clock = start(configuration(tmp_path / "run")), iter(range(1000, 2000))
    monkeypatch.setattr("drest_torch.training.run.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(iter([False, False, True])))
    looped(run, monkeypatch)
    assert run.train() is None
    run = resume(tmp_path / "run")
    assert run.state.wall_seconds == 3
    looped(run, monkeypatch)
    monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(iter([False] * 9)))
    assert run.train()["wall_seconds"] == 8  # the clock, read after each update, advances by a second
    seconds = [row["time/wall_seconds"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")[1:]]
    assert [later - earlier for earlier, later in pairwise(seconds)] == [1.0] * 7


def test_the_id_of_a_logger_is_kept_for_the_resumed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Logger, "run_ids", [])
    run = start(configuration(tmp_path / "run", f"+logger.sinks={{{__name__}: null}}"))
    monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(iter([False, True])))
    looped(run, monkeypatch)
    assert run.train() is None
    run = resume(tmp_path / "run")
    looped(run, monkeypatch)
    monkeypatch.setattr("drest_torch.training.run.interruptible", lambda: Pressed(iter([True])))
    assert run.train() is None
    assert Logger.run_ids == [None, "first"]
    assert resume(tmp_path / "run").state.wandb_id == "first"


@pytest.mark.parametrize("evaluations", [0, 1, 2, 3])
def test_a_trained_run_without_checkpoints_is_not_resumed(evaluations, tmp_path):
    """The first evaluation precedes training, and a run can be killed between the second and its checkpoint."""
    start(configuration(tmp_path / "run"))
    rows = ['{"step": 5, "optim/lr": 1.0}\n', *('{"step": 5, "eval/train/usefulness": 0.5}\n',) * evaluations]
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(rows))
    if evaluations == 3:
        with pytest.raises(CheckpointError, match="though the run has trained"):
            resume(tmp_path / "run")
    else:
        assert resume(tmp_path / "run").state.steps == 0


# ------------------------------------------------------------------------------------ messages

MANY = (*FEW, "levels.fresh=true", "evaluated_levels=30", "algo=ppo", "algo.episodes=64", "reward.group=16", "seed=3")
INTRODUCTIONS = {
    "generated": (
        (*MANY, "algo.minibatches=9", "policy.private_bits=1"),
        [
            "algorithm: ppo, reward drest, 2,000 steps, seed 3",
            "trained on: 40 levels (generated, and as many new ones as are needed)",
            "evaluated on: 40 training levels, 10 test levels, exactly",
            "during training: on 30 of those trained on",
            "varied by: start state",
            "best checkpoint by: 10 selection levels",
            "minibatches: 4 and not 9, as a batch has 4 groups of mini-episodes",
            "policy: convolutional network, POLICY parameters, and a critic of CRITIC",
        ],
    ),
    "enough": (
        (*MANY, "algo.minibatches=4", "levels.fresh=false", "levels.train=30", "levels.selection=1", "test.paper=true"),
        [
            "algorithm: ppo, reward drest, 2,000 steps, seed 3",
            "trained on: 30 levels (generated)",
            "evaluated on: 30 training levels, 10 test levels, 9 paper worlds, exactly",
            "varied by: start state",
            "best checkpoint by: 1 selection level",
            "policy: convolutional network, POLICY parameters, and a critic of CRITIC",
        ],
    ),
    "exact": (
        ("algo=exact", "levels=example", "env_steps=20000"),
        [
            "algorithm: exact, reward drest, 5 updates of 1 level, seed 0",
            "trained on: 1 level (example)",
            "evaluated on: 1 training level, exactly",
            "policy: mlp network, POLICY parameters",
        ],
    ),
    "table": (
        ("algo=tabular", "levels=example"),
        [
            "algorithm: tabular, reward drest, 2,000 steps, seed 0",
            "trained on: 1 level (example)",
            "evaluated on: 1 training level, exactly",
            "policy: a table",
        ],
    ),
    "sampled": (
        ("algo=reinforce", "levels=paper", "sampled=7", "policy=recurrent"),
        [
            "algorithm: reinforce, reward drest, 2,000 steps, seed 0",
            "trained on: 9 levels (paper)",
            "evaluated on: 9 training levels, by 7 mini-episodes on each level",
            "policy: recurrent network, POLICY parameters",
        ],
    ),
}


@pytest.mark.parametrize("name", INTRODUCTIONS)
def test_a_run_introduces_itself(name, tmp_path):
    overrides, expected = INTRODUCTIONS[name]
    run = start(compose(*WITHOUT_EPISODES, *QUIET, f"run_dir={tmp_path / 'run'}", *overrides))
    networks = {"POLICY": run.algorithm.policy, "CRITIC": run.algorithm.critic}
    for word, network in networks.items():
        count = 0 if network is None else sum(parameter.numel() for parameter in network.parameters())
        expected = [line.replace(word, f"{count:,}") for line in expected]
    lines = introduction(run.plan, run.task, run.algorithm, tmp_path, memory=run.memory).splitlines()
    *described, device, memory, folder = lines
    assert described == expected
    threads = torch.get_num_threads()
    assert device == f"device: cpu, {threads} thread{'' if threads == 1 else 's'}"
    assert memory.startswith("memory: about ")
    assert folder == f"folder: {tmp_path}"


def test_a_budget_of_few_updates_gives_a_warning(tmp_path):
    run = start(configuration(tmp_path / "run"))
    warning = few_updates(run.plan, run.algorithm, 180)
    assert warning.startswith("env_steps=1000 is a budget of 6 updates, of about 180 steps each: ")
    episodes = run.algorithm.config.episodes
    assert warning.endswith(
        f"; give more env_steps, or play fewer mini-episodes for each than algo.episodes={episodes}"
    )


@pytest.mark.parametrize(("update", "is_few"), [(1001, True), (53, True), (52, False)])
def test_nineteen_updates_are_few_twenty_are_not(update, is_few, tmp_path):
    run = start(configuration(tmp_path / "run"))
    assert (few_updates(run.plan, run.algorithm, update) is not None) == is_few


def test_a_table_needs_no_number_of_updates(tmp_path):
    run = start(configuration(tmp_path / "run", "algo=tabular", "levels=example"))
    assert few_updates(run.plan, run.algorithm, 500) is None


def test_few_updates_are_warned_of_once(tmp_path, monkeypatch, capsys):
    run = start(configuration(tmp_path / "run", "progress=true"))
    looped(run, monkeypatch)
    run.train()
    notes = [line for line in capsys.readouterr().err.splitlines() if "budget" in line]
    assert len(notes) == 1
    assert notes[0].startswith("drest_torch: env_steps=1000 is a budget of 8 updates")


def test_clipped_rewards_are_warned_of():
    assert cut_rewards(Reward(0.9, episodes_per_meta=64)) is None
    assert cut_rewards(Reward(0.5, episodes_per_meta=256, clip=2.0)) is None
    warning = cut_rewards(Reward(0.5, episodes_per_meta=256))
    assert warning.startswith("with reward.lam=0.5 and reward.episodes_per_meta=256 ")
    assert warning.endswith("can be paid 10^38; rewards are cut at 10^13")


@pytest.mark.parametrize(("steps", "evaluations"), [(2500, 10), (1001, 5), (1200, 5), (1400, 6), (9000, 36)])
def test_a_longer_run_is_evaluated_at_the_same_intervals(steps, evaluations, tmp_path):
    cfg = configuration(tmp_path, "evaluations=4")
    assert lengthen(cfg, steps, tmp_path)
    assert cfg.env_steps == steps
    assert cfg.evaluations == evaluations


def test_a_longer_run_has_no_summary(tmp_path, monkeypatch):
    run = start(configuration(tmp_path / "run", "evaluations=4"))
    looped(run, monkeypatch)
    run.train()
    summary = tmp_path / "run" / "summary.json"
    resume(tmp_path / "run", env_steps=1000)
    assert summary.exists()
    resume(tmp_path / "run", env_steps=2000)
    assert not summary.exists()
    stored = load_config(tmp_path / "run")
    assert stored.env_steps == 2000
    assert stored.evaluations == 8


def test_a_run_cannot_be_shortened(tmp_path):
    cfg = configuration(tmp_path, "evaluations=4")
    assert not lengthen(cfg, 1000, tmp_path)
    assert cfg.env_steps == 1000
    assert cfg.evaluations == 4
    with pytest.raises(ConfigError, match=r"env_steps=999 with resume=.*, a run of 1000 steps; give more"):
        lengthen(cfg, 999, tmp_path)
