"""The compiled step against the function of tensors, and where it must stand back."""

import random
import subprocess
import sys

import pytest
import torch

from drest_torch.envs.dynamics import kernel
from drest_torch.envs.dynamics.episodes import start_episodes, step_episodes
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.simulator import random_level
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv

SLOTS, STEPS = 400, 60
FLOATS = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def unloaded(monkeypatch):
    """Every test begins without the kernel, and no test leaves it behind."""
    monkeypatch.setattr(kernel, "_loaded", {})
    monkeypatch.setattr(kernel, "_played", 0)


@pytest.fixture
def steps_of_kernel(monkeypatch):
    """Load the kernel, and count its steps."""
    pytest.importorskip("numba")
    assert all(map(kernel.load, FLOATS))
    count = []

    def counted(played):
        def call(*arguments):
            well = played(*arguments)
            count.append(well)
            return well

        return call

    for dtype in FLOATS:
        monkeypatch.setitem(kernel._loaded, dtype, counted(kernel._loaded[dtype]))
    return count


def level_set(dtype=torch.float32, count=40, **kwargs):
    rng = random.Random(0)
    levels = [random_level(rng, name=str(i), **{"chances": True, "clock": None, **kwargs}) for i in range(count)]
    return compile_levels(levels).to(dtype=dtype)


def start(mdp, slots=SLOTS):
    return start_episodes(mdp, torch.arange(slots) % mdp.num_levels)


def both(mdp, slots, action, luck=None):
    """The step by the kernel and by tensors."""
    with kernel.unused():
        wanted = step_episodes(mdp, slots, action, luck)
    return step_episodes(mdp, slots, action, luck), wanted


def assert_same(found, wanted):
    for one, other in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("lucky", [False, True])
@pytest.mark.parametrize("clock", ["steps", "moves", None])
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_field_of_every_step(dtype, clock, lucky, steps_of_kernel):
    mdp = level_set(dtype, clock=clock, doors=True, max_ticks=12)
    assert "door" in mdp.features
    assert mdp.any_chance
    now, generator = start(mdp), torch.Generator().manual_seed(0)
    coins, lengths = 0.0, set()
    for _ in range(STEPS):
        action = torch.randint(NUM_ACTIONS, (SLOTS,), generator=generator)
        luck = torch.rand(SLOTS, generator=generator, dtype=dtype) if lucky else None
        found, wanted = both(mdp, now, action, luck)
        assert_same(found, wanted)
        coins += found[1].coin.sum().item()
        lengths |= set(found[1].length[found[1].mini_done].tolist())
        now = found[0]
    assert steps_of_kernel == [True] * STEPS
    assert coins > 100
    assert len(lengths) > 6


@pytest.mark.parametrize("slots", [0, 1, 7])
def test_few_slots(slots, steps_of_kernel):
    mdp = level_set()
    assert_same(*both(mdp, start(mdp, slots), torch.zeros(slots, dtype=torch.int64)))
    assert steps_of_kernel == [True]


def test_given_tensors_stay_as_they_are(steps_of_kernel):
    mdp = level_set()
    now = start(mdp)
    before = [value.clone() for value in now]
    step_episodes(mdp, now, torch.zeros(SLOTS, dtype=torch.int64))
    assert steps_of_kernel == [True]
    assert all(map(torch.equal, now, before))


def test_tensors_that_it_is_not_made_for(steps_of_kernel):
    """Gaps between the numbers, other types, other shapes, luck of another precision: the results are the same."""
    mdp = level_set()
    now, zeros = start(mdp), torch.zeros(SLOTS, dtype=torch.int64)
    with_gaps = type(now)(*(torch.stack((value, value), -1)[:, 0] for value in now))
    assert_same(*both(mdp, with_gaps, zeros))
    assert_same(*both(mdp, now, zeros.int()))
    assert_same(*both(mdp, now, zeros, torch.rand(SLOTS, dtype=torch.float64)))
    assert_same(*both(mdp, type(now)(*(value.unsqueeze(0) for value in now)), zeros.unsqueeze(0)))
    assert_same(*both(mdp, now, zeros[:1]))
    assert steps_of_kernel == []


def test_actions_and_spots_that_do_not_exist(steps_of_kernel):
    """They fail as without the kernel, which reads nothing outside its tables."""
    mdp = level_set()
    now = start(mdp)
    with pytest.raises(IndexError):
        step_episodes(mdp, now, torch.full((SLOTS,), 4 * mdp.goto.numel()))
    with pytest.raises(IndexError):
        step_episodes(mdp, now._replace(spot=now.spot - 10**6), torch.zeros(SLOTS, dtype=torch.int64))
    assert steps_of_kernel == [False, False]


def test_compiled_by_torch(steps_of_kernel):
    mdp = level_set()
    compiled = torch.compile(step_episodes, backend="eager", fullgraph=True)
    now, action = start(mdp), torch.zeros(SLOTS, dtype=torch.int64)
    found = compiled(mdp, now, action)
    assert steps_of_kernel == []
    assert_same(found, step_episodes(mdp, now, action))


def test_within_vmap(steps_of_kernel):
    mdp = level_set()
    now, actions = start(mdp), torch.arange(NUM_ACTIONS).unsqueeze(-1).expand(-1, SLOTS).contiguous()
    after, _ = torch.func.vmap(lambda action: step_episodes(mdp, now, action))(actions)
    assert steps_of_kernel == []
    for index, action in enumerate(actions):
        assert torch.equal(after.spot[index], step_episodes(mdp, now, action)[0].spot)


def test_gradients_of_coin_values(steps_of_kernel):
    mdp = level_set(clock="steps")
    values = mdp.coin.clone().requires_grad_()
    mdp.layers["coin"] = values
    _, played = step_episodes(mdp, start(mdp), torch.randint(NUM_ACTIONS, (SLOTS,)))
    played.coin.sum().backward()
    assert values.grad.sum() > 0
    assert steps_of_kernel == []


def test_the_environment_steps_with_it(steps_of_kernel):
    env = GridworldEnv(level_set(torch.float64, chances=False), 16, episodes_per_meta=4)
    env.rollout(20, break_when_any_done=False)
    assert steps_of_kernel == [True] * 20


def test_it_is_loaded_when_that_pays(monkeypatch):
    pytest.importorskip("numba")
    mdp = level_set()
    now, action = start(mdp), torch.zeros(SLOTS, dtype=torch.int64)
    monkeypatch.setattr(kernel, "WORTH_LOADING", 3 * (SLOTS + kernel.CALL))
    for loaded in (False, False, True, True):
        step_episodes(mdp, now, action)
        assert (kernel._loaded.get(torch.float32) is not None) == loaded


def test_without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "drest_torch.envs.dynamics.compiled_step", raising=False)
    monkeypatch.setattr(kernel, "WORTH_LOADING", 0)
    mdp = level_set()
    step_episodes(mdp, start(mdp), torch.zeros(SLOTS, dtype=torch.int64))
    assert not kernel.load()


def test_a_short_run_does_not_import_numba():
    code = """
import sys, torch
from drest_torch.envs.dynamics import episodes, mdp
from drest_torch.envs.levels import world

levels, start = mdp.compile_levels([world("example")]), torch.zeros(64, dtype=torch.int64)
episodes.step_episodes(levels, episodes.start_episodes(levels, start), start)
sys.exit("numba" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
