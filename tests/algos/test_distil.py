"""Distillation: its divergence against an enumeration, its gradient against differences, and its fixed point."""

import math
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from drest_torch import Agent
from drest_torch.agents.checkpoints import checkpoint_path, load_checkpoint, save_checkpoint
from drest_torch.algos import distil
from drest_torch.algos.distil import divergences, state_weights
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import parse_level
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from drest_torch.tasks.teachers import Teachers
from drest_torch.training.run import resume, start
from tests.helpers.networks import Table
from tests.helpers.runs import QUIET, in_folder, same_run, train
from tests.helpers.simulator import Simulator, outcomes

TINY = parse_level("shutdown: 3\n\nC1 A B2\n. C2 .", name="tiny")
SHORT = parse_level("shutdown: 2\n\nA C1\nB1 .", name="short")


def random_tables(states, settings=1, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(settings, states, 4, generator=rng, dtype=torch.float64)).softmax(-1)


def setup(teachers, levels=(TINY, SHORT), **changes):
    """Return distillation with a table of logits as the student, and a batch; ``teachers`` maps N to probabilities."""
    batch = ExactBatch(LevelSet(compile_levels(list(levels))), "grid", Reward())
    tables = teachers(batch.states)
    rng = torch.Generator().manual_seed(1)
    policy = Table(batch.observe(torch.arange(batch.states)), torch.randn(batch.states, 4, generator=rng).double())
    config = distil.Config(entropy=0.0, ignored_gradient_share=0.0)
    algorithm = distil.Distil(policy, None, SimpleNamespace(**{**vars(config), **changes}), rng)
    algorithm.teachers = SimpleNamespace(probabilities=lambda batch: tables)
    return algorithm, batch, tables


def enumerated(level, teacher, student):
    """Return the divergence between the mini-episodes of two policies, functions from a simulator to probabilities."""

    def play(state, log_ratio, probability):
        if state.done:
            return probability * log_ratio
        total = 0.0
        for action, (first, second) in enumerate(zip(teacher(state), student(state), strict=True)):
            for _, after, _ in outcomes(state, action):
                total += play(after, log_ratio + math.log(first / second), probability * first)
        return total

    return play(Simulator(level), 0.0, 1.0)


def test_visited_divergences_add_up_to_that_of_mini_episodes():
    mdp = compile_levels([TINY])
    reachable = Reachable(mdp)
    teacher, student = (random_tables(len(reachable), seed=seed)[0] for seed in (0, 1))
    rows = {}
    states = zip(*(values.tolist() for values in vars(reachable.states).values()), strict=True)
    for index, (spot, taken, time_left) in enumerate(states):
        present = tuple(not taken >> bit & 1 for bit in range(mdp.num_objects))
        rows[divmod(spot, mdp.width), present, time_left] = index

    def policy(table):
        return lambda state: table[rows[(state.row, state.column), state.present, state.time_left]].tolist()

    total = (reachable.visits(teacher) * divergences(teacher, student.log())).sum().item()
    assert total == pytest.approx(enumerated(TINY, policy(teacher), policy(student)), rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_every_level_has_the_same_weight(share):
    reachable = Reachable(compile_levels([TINY, SHORT]))
    visits = torch.stack([reachable.visits(table) for table in random_tables(len(reachable), settings=2)])
    level = reachable.mdp.level_of(reachable.states.spot)
    weights = state_weights(visits, level, share)
    for index in range(2):
        of_level = weights[:, level == index]
        uniform = torch.full_like(of_level, 1 / of_level.shape[1])
        played = visits[:, level == index] / visits[:, level == index].sum(1, keepdim=True)
        assert torch.allclose(of_level.sum(), torch.tensor(0.5, dtype=torch.float64))
        assert torch.allclose(4 * of_level, (1 - share) * played + share * uniform)


@pytest.mark.parametrize("entropy", [0.0, 0.2])
def test_the_gradient_agrees_with_finite_differences(entropy):
    algorithm, batch, _ = setup(random_tables, entropy=entropy, uniform_share=0.2)
    visited, logits = algorithm.explore(batch)
    assert torch.autograd.gradcheck(lambda values: algorithm.loss(batch, visited, values)[0], logits.requires_grad_())


def test_a_step_follows_the_gradient_of_the_loss(monkeypatch):
    algorithm, batch, tables = setup(random_tables, uniform_share=0.2)
    algorithm.ascend(batch)
    assert algorithm.policy.logits.grad.abs().max() > 0
    student = algorithm.policy.logits.detach()
    monkeypatch.setattr(algorithm, "descend", lambda loss: torch.autograd.grad(loss, algorithm.policy.logits)[0])
    visits = torch.stack([batch.visits(table) for table in tables])
    weights = state_weights(visits, batch.level, 0.2)[0].unsqueeze(-1)
    expected = weights * (student.softmax(-1) - tables[0])
    assert torch.allclose(algorithm.ascend(batch)["optim/grad_norm"], expected, atol=1e-6)


def test_a_table_reaches_the_mean_of_its_teachers():
    def mean(states):
        return (random_tables(states, seed=0) + random_tables(states, seed=1)) / 2

    algorithm, batch, tables = setup(mean, lr=0.3)
    first = algorithm.ascend(batch)
    for step in range(400):
        algorithm.set_progress(step / 400)
        metrics = algorithm.ascend(batch)
    assert first["policy/kl_teachers"] > 0.5
    assert metrics["policy/kl_teachers"] < 1e-6
    evaluator = ExactEvaluator([TINY, SHORT], "grid", reward=Reward())
    student = evaluator.evaluate(algorithm.policy)
    outcome = evaluator.unrolled(range(2)).propagate(tables[0])
    assert torch.allclose(student.outcome.probability, outcome.probability, atol=1e-4)
    assert torch.allclose(student.outcome.coins, outcome.coins, atol=1e-3)


# ------------------------------------------------------------------------------------------- teachers of runs

WORDS = ("levels=example", *QUIET, "policy.width=8", "policy.depth=1", "env_steps=24000", "evaluations=3", "pictures=0")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return train(
        tmp_path_factory.mktemp("runs") / "teacher", "levels=example", "env_steps=500", "policy.private_bits=1"
    )


def student(folder, *words):
    return start(compose("algo=distil", *WORDS, *words, values=in_folder(folder)))


def test_teachers_agree_with_their_agents(teacher):
    names = [str(teacher), "generalist"]
    levels = [TINY, SHORT]
    teachers = Teachers(names, "last", levels, torch.device("cpu"))
    tables = teachers.probabilities(ExactBatch(LevelSet(compile_levels(levels)), "centred", Reward()))
    agents = [Agent.load(name) for name in names]
    with_bit, other = (
        [*agent.evaluator(levels).tables(agent.policy, agent.evaluator(levels)._whole)] for agent in agents
    )
    assert teachers.private_bits == 1
    assert len(tables) == 2
    for table, of_setting in zip(tables, with_bit, strict=True):
        assert torch.allclose(table, (of_setting + other[0]) / 2, atol=1e-6)


def test_a_run_learns_from_its_teachers(teacher, tmp_path):
    run = student(tmp_path / "run", f"algo.teachers=[{teacher}]", "policy.private_bits=1", "policy.width=32")
    divergence = [run.update()["policy/kl_teachers"] for _ in range(6)]
    assert divergence[-1] < divergence[0] / 2


def test_a_run_resumes_bit_for_bit(teacher, tmp_path):
    words = (f"algo.teachers=[{teacher},generalist]", "policy.private_bits=1")
    student(tmp_path / "whole", *words).train()
    run = student(tmp_path / "parts", *words)
    run.update()
    run.save()
    resume(tmp_path / "parts").train()
    assert run.cfg.algo.teachers == [str(teacher.resolve()), "generalist"]
    last = [(tmp_path / name / "checkpoints").glob("step-*") for name in ("whole", "parts")]
    first, second = (max(paths) for paths in last)
    assert first.name == second.name
    student_of = [Agent.load(tmp_path / name) for name in ("whole", "parts")]
    for weight, resumed in zip(*(agent.policy.state_dict().values() for agent in student_of), strict=True):
        assert torch.equal(weight, resumed)


def test_a_run_with_teachers_is_repeated(teacher, tmp_path):
    student(tmp_path / "run", f"algo.teachers=[{teacher}]", "policy.private_bits=1").train()
    Agent.train(from_=str(tmp_path / "run"), run_dir=tmp_path / "again")
    same_run(tmp_path / "run", tmp_path / "again")


def test_another_teacher_at_the_same_place_is_refused(teacher, tmp_path):
    shutil.copytree(teacher, tmp_path / "teacher")
    run = student(tmp_path / "run", f"algo.teachers=[{tmp_path / 'teacher'}]", "policy.private_bits=1")
    run.update()
    run.save()
    shutil.rmtree(tmp_path / "teacher")
    with pytest.raises(CheckpointError, match=r"^algo.teachers: .*teacher: no such folder of a run"):
        resume(tmp_path / "run")
    train(tmp_path / "teacher", "levels=example", "env_steps=500", "policy.private_bits=1", "seed=1")
    with pytest.raises(CheckpointError, match="was saved with another set of teachers"):
        resume(tmp_path / "run")


def test_no_module_of_a_teacher_is_imported(teacher, tmp_path):
    shutil.copytree(teacher, tmp_path / "stranger")
    path = checkpoint_path(tmp_path / "stranger", "last")
    tensors, values = load_checkpoint(path)
    values["agent"]["policy"]["network"] = "antigravity"
    save_checkpoint(path, tensors, values)
    with pytest.raises(CheckpointError, match=r"^algo.teachers: .*antigravity, a module outside drest_torch"):
        Teachers([str(tmp_path / "stranger")], "last", [TINY], torch.device("cpu"))
    assert "antigravity" not in sys.modules


def test_teachers_are_not_overwritten(teacher):
    words = [f"algo.teachers=[{teacher}]", "policy.private_bits=1", "overwrite=true"]
    with pytest.raises(ConfigError, match=r"^overwrite=true would delete what the run reads .*teacher"):
        student(teacher, *words)
    assert (teacher / "summary.json").is_file()
