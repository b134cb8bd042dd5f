"""The estimate of a run's memory: formulas against the sizes of tensors, and refusals of runs that do not fit."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import StateCounts
from drest_torch.envs.levels import parse_level
from drest_torch.errors import ConfigError
from drest_torch.evaluation.memory_guard import BYTES_KEPT_PER_STATE, BYTES_PER_STATE, MemoryPart, RunMemory
from drest_torch.tasks import gridworld_memory
from drest_torch.tasks.gridworld_memory import (
    BatchMemory,
    batch_memory,
    compiled_bytes,
    evaluation_part,
    played_states,
    saved_bytes,
    weights_part,
)
from drest_torch.training.run import start
from tests.helpers.runs import FEW, QUIET, SMALLEST, small

KIB = 1024.0
SEQUENTIAL = ("reward.counting=sequential", "reward.episodes_per_meta=4")


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from tensors_in(part)


def part(name, size, key, **values):
    return MemoryPart(name, size, key, **values)


@pytest.mark.parametrize("button", ["B2", "B2@0.5"])
def test_a_compiled_set_has_the_bytes_of_its_tensors(button):
    level = parse_level(f"shutdown: 2\nC1 A {button}\n. C3 C2")
    mdp = compile_levels([level] * 3)
    actual = sum(tensor.nbytes for field in fields(mdp) for tensor in tensors_in(getattr(mdp, field.name)))
    assert compiled_bytes(3, 6, layers=len(mdp.layers), outcomes=mdp.num_outcomes) == actual


@pytest.mark.parametrize("overrides", [(), SEQUENTIAL, (*SEQUENTIAL, "algo.credit=meta"), ("policy.private_bits=2",)])
def test_a_batch_has_the_bytes_of_its_tensors(overrides, tmp_path):
    run = start(small(tmp_path / "run", "algo=ppo", *overrides))
    task, algorithm = run.gridworlds, run.algorithm
    mdp = task.trained.mdp
    sizes = batch_memory(run.cfg, mdp, task.observation(mdp), algorithm.environment, algorithm)
    batch = algorithm.collector.collect(run.rng)
    bytes_of_batch = sum(tensor.nbytes for tensor in batch.values(True, True))
    slots, ticks = batch.shape
    assert slots == sizes.slots
    assert ticks <= sizes.ticks
    assert bytes_of_batch == slots * ticks * sizes.step


def test_distinct_states_are_counted_at_each_tick():
    mdp = compile_levels([parse_level("shutdown: 2\nA C1")] * 2)
    states, number = played_states(mdp, 64, 2)
    assert number == 3  # the start, then the start after a bump, or the coin
    assert states.time_left.tolist() == [2, 1, 1]


def test_slots_do_not_play_beyond_the_end_of_their_level():
    mdp = compile_levels([parse_level(f"shutdown: {ticks}\nA C1") for ticks in (1, 3)])
    states, _ = played_states(mdp, 64, 2)
    assert states.time_left.tolist() == [1]


def test_saved_activations_are_counted_per_row():
    network = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    rows = torch.zeros(32, 8)
    assert saved_bytes(network, rows) == 4 * (8 + 16)


def test_a_critic_doubles_the_saved_activations(tmp_path):
    run = start(small(tmp_path / "run", "algo=ppo"))
    task, algorithm = run.gridworlds, run.algorithm
    mdp, policy = task.trained.mdp, algorithm.policy
    with_critic, without = (
        batch_memory(run.cfg, mdp, task.observation(mdp), algorithm.environment, networks).saved
        for networks in (algorithm, SimpleNamespace(policy=policy, critic=None))
    )
    assert with_critic == 2 * without > 0


def test_an_update_needs_three_times_the_memory_of_the_weights():
    assert weights_part(nn.Linear(10, 4), None).bytes == 3 * 44 * 4


def test_the_memory_of_an_update_includes_copies():
    sizes = BatchMemory(slots=4, slots_of_level=1, ticks=5, step=10, rows=6, row=100, saved=40.0, minibatches=2)
    assert sizes.bytes == 3.5 * (200 + 600) + 1.5 * 120


def test_sets_that_fit_stay_unrolled_between_evaluations():
    small_set, large_set = (StateCounts(torch.tensor([states]), torch.ones(1)) for states in (1_000, 9_000))
    limit = 2_000 * BYTES_PER_STATE / 2**30
    needed = evaluation_part([small_set, large_set], [], 4, limit).bytes
    passing = 2_000 * BYTES_PER_STATE + 3 * 8_192 * 4
    assert needed == pytest.approx(1_000 * BYTES_KEPT_PER_STATE + passing)


def test_a_refusal_names_the_largest_value_that_fits():
    batch = part("a batch", 100 * KIB, "algo.episodes", per_unit=KIB, step=8)
    memory = RunMemory([part("evaluation", 10 * KIB, "memory_gib"), batch], taken=0.0)
    memory.check(110 * KIB)
    with pytest.raises(ConfigError, match=r"are free; use algo\.episodes=80, the largest value that fits$"):
        memory.check(97 * KIB)


def test_a_refusal_names_keys_if_no_value_fits():
    batch = part("a batch", 100 * KIB, "algo.episodes", per_unit=KIB, step=8)
    memory = RunMemory([part("evaluation", 60 * KIB, "memory_gib"), batch], taken=0.0)
    with pytest.raises(ConfigError, match=r"use a smaller algo\.episodes and a smaller memory_gib$"):
        memory.check(50 * KIB)


def test_a_run_fits_with_the_value_that_its_refusal_names(tmp_path, monkeypatch):
    needed = start(small(tmp_path / "fits", "algo=ppo", "algo.episodes=4096")).memory.needed
    monkeypatch.setattr("drest_torch.training.run.free_memory", lambda: 0.8 * needed)
    folder = tmp_path / "run"
    with pytest.raises(ConfigError, match="the largest value that fits") as error:
        start(small(folder, "algo=ppo", "algo.episodes=4096"))
    assert not folder.exists()
    _, _, remedy = str(error.value).partition("; use ")
    override, _, _ = remedy.partition(",")
    start(small(folder, "algo=ppo", override))


def test_too_many_levels_are_refused_before_generation(tmp_path, monkeypatch):
    monkeypatch.setattr(gridworld_memory, "free_memory", lambda: 2.0**30)
    monkeypatch.setattr("drest_torch.play.level_sets.load", lambda cfg: pytest.fail("levels are generated"))
    cfg = compose("levels=generated", *SMALLEST, *QUIET, "levels.train=10000000", f"run_dir={tmp_path / 'run'}")
    with pytest.raises(ConfigError, match=r"use levels\.train=\d+, the largest value that fits"):
        start(cfg)


KINDS = [("algo=exact", *FEW), ("algo=tabular", "levels=example"), ("algo=ppo", "sampled=8", *FEW)]


@pytest.mark.parametrize("overrides", KINDS)
def test_runs_of_every_kind_estimate_their_memory(overrides, tmp_path):
    run = start(compose(*overrides, *QUIET, f"run_dir={tmp_path / 'run'}"))
    assert {part.name for part in run.memory.parts} >= {"evaluation", "gradients"}
    assert run.memory.peak > run.memory.taken > 0


def test_parts_of_less_than_a_mebibyte_are_omitted():
    batch = part("a batch", 2.0**30, "algo.episodes")
    memory = RunMemory([part("gradients", KIB, "policy.width"), batch], taken=2.0**29)
    text = "about 1.5 GiB at most (0.5 taken already, a batch 1)"
    assert memory.text(float("inf")) == text
    assert memory.text(2.0**34) == f"{text}; 16 GiB are free"
