"""Resumed runs equal uninterrupted ones bit for bit; runs can begin with the weights of another agent."""

import shutil
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from drest_torch import Agent
from drest_torch.agents.checkpoints import algorithm_tensors
from drest_torch.agents.specification import check_alike
from drest_torch.algos.tabular_kernel import TableState
from drest_torch.config.compose import compose
from drest_torch.config.stored import load_config
from drest_torch.errors import ConfigError
from drest_torch.training.run import resume, start
from tests.helpers.runs import FEW, arguments, metrics, same_run, small, stop_after, train, weights

ELSEWHERE = (
    *("env.copies=16", "algo.episodes=32", "env_steps=1200", "evaluations=3", "sampled=40", "policy.width=8"),
    *("policy.depth=1", "logger=none", "progress=false", "pictures=0", "threads=1"),
)
CARTPOLE = ("env=cartpole", "env.base=8", "env.delays=[8]", *ELSEWHERE)
TORCHRL = ("env=torchrl", *ELSEWHERE)
FACTORY = "env.factory=tests.helpers.counting"
RECURRENT = ("policy=recurrent", "policy.width=16", "policy.depth=1", "sampled=16", "levels.selection=0")
REGULARIZED = ("algo.weight_decay=0.1", "algo.muon_lr=0.02", "algo.average=0.9", "policy.dropout=0.25", "patience=50")
IN_TURN = ("reward.counting=sequential", "reward.episodes_per_meta=4")


WORLDS = {
    "ppo": ["algo=ppo", "progress=true"],
    "a2c in turn, two threads": ["algo=a2c", "threads=2", "reward.counting=sequential", "algo.credit=meta"],
    "symmetric, two threads": ["algo=ppo", *FEW, "threads=2", "policy=symmetric", "policy.width=256"],
    "reinforce": ["algo=reinforce", "policy.private_bits=2"],
    "longer than at first": ["algo=ppo"],
    "exact": ["algo=exact", "levels=paper", "algo.levels_at_once=4", "policy.observation=grid", "env_steps=40000"],
    "rotated levels": ["algo=ppo", *FEW, "levels.symmetries=true"],
    "fresh levels": [*("algo=reinforce", *FEW, "levels.fresh=true"), *("policy=symmetric", "algo.muon_lr=0.02")],
    "E grows": ["algo=a2c", *FEW, "reward.episodes_at_start=8"],
    "convolutional": ["algo=ppo", *FEW, "policy=convolutional", "policy.depth=2", "policy.private_bits=1"],
    "planning": ["algo=ppo", *FEW, "policy=planning", "policy.width=16"],
    "exact, convolutional": ["algo=exact", *FEW, "policy=convolutional", "policy.private_bits=1", "env_steps=40000"],
    "exact, fresh": [*("algo=exact", *FEW, "levels.fresh=true", "algo.levels_at_once=5"), "env_steps=40000"],
    "by regret": ["algo=ppo", *FEW, "levels.sampler=regret", "levels.regret.every=2", "levels.regret.pool=9"],
    "recurrent": ["algo=ppo", *RECURRENT, "policy.private_bits=1"],
    "recurrent, in turn": ["algo=reinforce", *FEW, *RECURRENT, *IN_TURN],
    "regularised": ["algo=ppo", *FEW, *REGULARIZED, "policy=symmetric", "policy.norm=layer"],
    "exact, regularised": [
        *("algo=exact", *FEW, *REGULARIZED, "policy=convolutional", "policy.norm=rms", "env_steps=40000"),
    ],
    "recurrent, regularised": ["algo=a2c", *FEW, *REGULARIZED, *RECURRENT[:-1], "policy.norm=layer"],
    "table": [
        *("algo=tabular", "algo.random_episodes=300", "algo.decay_episodes=800"),
        *("reward.episodes_per_meta=48", "pictures=0"),
    ],
}
OTHERS = {
    "cartpole": CARTPOLE,
    "cartpole, longer than at first": CARTPOLE,
    "cartpole, restarted": (
        *CARTPOLE,
        *("algo=reinforce", "policy.private_bits=1", "env.ended=restart"),
    ),
    "cartpole, in turn": (*CARTPOLE, "algo=a2c", *IN_TURN[:1], "reward.episodes_per_meta=2"),
    "cartpole, recurrent": (*CARTPOLE, "algo=a2c", "policy=recurrent"),
    "several": (*TORCHRL, f"{FACTORY}:two_actions", "env.base=4", "env.delays=[3]"),
    "box": (*TORCHRL, f"{FACTORY}:boxes", "env.base=4", "env.delays=[3]", "env.floor=-2", "env.window=2"),
    "own mini-episodes": (*TORCHRL, f"{FACTORY}:worlds", "env.base=null", "env.copies=8", *IN_TURN),
}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("name", [*WORLDS, *OTHERS])
def test_a_run_resumed_twice_equals_an_uninterrupted_one(tmp_path, name, monkeypatch, capsys):
    if "cartpole" in name:
        pytest.importorskip("gymnasium", reason="gymnasium is not installed (the extra `envs`)")

    def begun(folder):
        words = arguments(folder, *WORLDS[name]) if name in WORLDS else OTHERS[name]
        run = start(compose(*words, f"run_dir={folder}"))
        if "longer" in name:
            run.train()
            before, evaluations, steps = metrics(folder), run.cfg.evaluations, 5 * run.cfg.env_steps // 2
            run = resume(folder, env_steps=steps)
            assert not (folder / "summary.json").exists()
            stored = load_config(folder)
            assert stored.env_steps == steps
            assert stored.evaluations == round(2.5 * evaluations)  # at the same intervals
            assert metrics(folder) == before
        return run

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    begun(whole).train()
    run = begun(parts)
    for updates in (2, 1):
        stop_after(run, updates, monkeypatch)
        assert run.train() is None
        printed = capsys.readouterr().err.replace("\n", " ")
        assert (f" -m drest_torch.train resume={parts}" in printed) == run.cfg.progress
        run = resume(parts)
    run.train()
    same_run(whole, parts)
    if "longer" in name:  # schedules follow the new length
        rates = [row["optim/lr"] for row in metrics(parts) if "optim/lr" in row]
        assert any(later > earlier for earlier, later in pairwise(rates))
    if name == "exact":  # resuming a finished run changes nothing
        resume(parts).train()
        same_run(whole, parts)
    if name == "table":
        saved = weights(parts)
        assert {f"algorithm.{field}" for field in TableState._fields if field != "logits"} <= saved.keys()
        assert saved["algorithm.steps"] == metrics(parts)[-1]["step"]


FRESH = (*FEW, "levels.fresh=true", "levels.symmetries=true")
BY_REGRET = ("levels.sampler=regret", "levels.regret.every=2", "levels.regret.pool=9")
NEXT = {
    "ppo, muon": ["algo=ppo", *FRESH, "algo.minibatches=2", "algo.muon_lr=0.02"],
    "a2c in turn": ["algo=a2c", *FEW, "levels.symmetries=true", *IN_TURN, "algo.credit=meta"],
    "reinforce": ["algo=reinforce", *FEW, "policy.private_bits=2", "reward.episodes_at_start=8"],
    "ppo, varied": ["algo=ppo", *FRESH, "levels/vary=wide"],
    "exact, varied, by regret": [
        *("algo=exact", *FEW, "levels/vary=usual", "levels.sampler=regret", "levels.regret.every=2"),
        *("algo.levels_at_once=3", "env_steps=40000"),
    ],
    "a constraint": ["algo=reinforce", *FEW, "objective=constrained"],
    "exact": ["algo=exact", *FRESH, "algo.levels_at_once=3", "objective=constrained", "env_steps=40000"],
    "exact, by regret": ["algo=exact", *FRESH, *BY_REGRET, "algo.levels_at_once=3", "env_steps=40000"],
    "ppo, by regret": ["algo=ppo", *FEW, *BY_REGRET],
    "regularised": ["algo=ppo", *FEW, *REGULARIZED, "policy.norm=layer"],
    "exact, regularised": ["algo=exact", *FRESH, *REGULARIZED, "policy.norm=rms", "env_steps=40000"],
    "distil": ["algo=distil", *FRESH, "algo.teachers=[generalist]", "algo.levels_at_once=3", "env_steps=40000"],
    "table": ["algo=tabular", "algo.random_episodes=150", "algo.decay_episodes=800", "reward.episodes_per_meta=48"],
}


def state_of(run):
    return {**algorithm_tensors(run.algorithm), **run.task.tensors(), "generator": run.rng.get_state()}


@pytest.mark.parametrize("name", NEXT)
def test_an_update_is_the_same_in_a_resumed_run(tmp_path, name):
    run = start(compose(*arguments(tmp_path / "run", *NEXT[name], "policy.width=8")))
    before = {key: value.clone() for key, value in state_of(run).items()}
    for _ in range(2):
        run.update()
    run.state.best_score, run.state.wandb_id = 0.25, "an id"
    run.save()
    saved = vars(run.state).copy()
    again = resume(tmp_path / "run")
    assert vars(again.state) == saved
    assert again.update() == run.update()
    resumed, expected = state_of(again), state_of(run)
    assert resumed.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(resumed[key], value), key
    learned = {key for key in before if not torch.equal(before[key], expected[key])}
    assert learned >= {key for key in before if key.startswith(("policy.", "critic.")) and name != "table"}
    assert "generator" in learned or name == "table"
    assert any("policy." in key for key in learned)


# ------------------------------------------------------------------------------------ the weights of another agent


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(tmp_path_factory.mktemp("source") / "run", *FEW)


def test_a_run_begins_with_the_weights_of_another_agent(source, tmp_path):
    run = start(small(tmp_path / "run", *FEW, "algo=a2c", "policy=convolutional", "seed=1", f"start_from={source}"))
    policy, source_weights = run.algorithm.policy, Agent(source).policy.state_dict()
    assert all(torch.equal(value, source_weights[name]) for name, value in policy.state_dict().items())
    run.train()
    assert not all(torch.equal(value, source_weights[name]) for name, value in policy.state_dict().items())
    now, before = (row["eval/selection/usefulness"] for row in (metrics(tmp_path / "run")[0], metrics(source)[-1]))
    assert now == pytest.approx(before, abs=1e-6)  # the levels are the same


def test_weights_for_other_numbers_of_private_bits_are_refused():
    source = Agent.load("generalist-bit").spec
    with pytest.raises(ConfigError, match=r"has a policy of another kind; add policy\.private_bits=1$"):
        check_alike("generalist-bit", source, replace(source.policy, private_bits=2))


def test_the_path_of_an_initial_agent_is_stored_as_absolute(source, tmp_path, monkeypatch):
    monkeypatch.chdir(source.parent)
    start(small(tmp_path / "run", *FEW, f"start_from={source.name}"))
    assert load_config(tmp_path / "run").start_from == str(source.resolve())


@pytest.mark.slow
def test_a_resumed_run_does_not_need_its_initial_agent(source, tmp_path, monkeypatch):
    copied, whole, parted = tmp_path / "source", tmp_path / "whole", tmp_path / "parted"
    shutil.copytree(source, copied)
    train(whole, *FEW, f"start_from={source}")
    run = start(small(parted, *FEW, f"start_from={copied}"))
    stop_after(run, 1, monkeypatch)
    assert run.train() is None
    shutil.rmtree(copied)
    resume(parted).train()
    same_run(whole, parted)
