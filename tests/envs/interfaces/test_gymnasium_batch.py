"""Copies of Gymnasium environments as one batched TorchRL environment: the same episodes as single ones, and resets."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TransformAction
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from drest_torch.envs.interfaces import minigrid
from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.errors import UserError
from tests.helpers.counter import Counter, die, leave, stop
from tests.helpers.job_runners import is_alive, wait_for
from tests.helpers.rollouts import rollout


def test_every_kind_of_space_is_observed_as_numbers():
    env = GymnasiumBatch(Counter, 2)
    td = env.reset()
    td = env.step(td.set("action", torch.zeros(2, 4)))["next"]
    kinds = {name: (tuple(entry.shape[1:]), entry.dtype) for name, entry in td.items() if name in env.observation_spec}
    assert kinds == {
        "body": ((7,), torch.float32),
        "image": ((2, 2, 3), torch.uint8),
        "dice": ((5,), torch.float32),
        "bits": ((3,), torch.float32),
        "pair": ((3,), torch.float32),
    }
    assert td["body"][0].tolist() == [0, 1, 0, 1, 1, 1, 1]
    assert td["pair"][0].tolist() == [0, 1, 1]
    assert td["dice"][0].tolist() == [0, 1, 0, 1, 0]
    assert td["bits"][0].tolist() == [1, 0, 1]
    assert env.action_spec.shape == (2, 4)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "minigrid:MiniGrid-Empty-Random-5x5-v0"])
def test_a_batch_equals_single_environments(name):
    """A copy waits between its end and its reset."""
    if name.startswith("minigrid"):
        pytest.importorskip("minigrid", reason="minigrid is not installed (the extra `envs`)")
    options = {"max_episode_steps": 30}
    batch = GymnasiumBatch(name, 3, options=options)
    singles = [gymnasium.make(name, **options) for _ in range(3)]
    key, waited = "image" if name.startswith("minigrid") else "observation", 0

    def seen(observation):
        return torch.as_tensor(observation["image"] if key == "image" else observation)

    td = batch.reset(TensorDict({"level_seed": torch.tensor([[4], [5], [6]])}, [3]))
    observations, over = [seen(env.reset(seed=4 + i)[0]) for i, env in enumerate(singles)], [[False, False]] * 3
    for step in range(100):
        assert torch.equal(td[key], torch.stack(observations))
        action, rewards = batch.action_spec.rand(), [0.0] * 3
        td = batch.step(td.set("action", action))["next"]
        waited += sum(map(any, over))
        for i, env in enumerate(singles):
            if not any(over[i]):
                observation, rewards[i], *over[i], _ = env.step(action[i].numpy())
                observations[i] = seen(observation)
        assert torch.equal(td[key], torch.stack(observations))
        assert td["reward"].flatten().tolist() == pytest.approx(rewards, rel=1e-6)
        assert torch.cat((td["terminated"], td["truncated"]), -1).tolist() == over
        assert td["done"].flatten().tolist() == list(map(any, over))
        if step % 3 == 0 and td["done"].any():
            again = 100 * step + torch.arange(3).unsqueeze(-1)
            td = batch.reset(td.exclude("reward").update({"_reset": td["done"], "level_seed": again}))
            for i, env in enumerate(singles):
                if any(over[i]):
                    observations[i], over[i] = seen(env.reset(seed=100 * step + i)[0]), [False, False]
    assert waited


def test_a_level_seed_leaves_the_streams_independent():
    env = GymnasiumBatch(Counter, 3)
    env.set_seed(0)
    level = torch.tensor([[7], [7], [-1]])
    first, second = (env.reset(TensorDict({"level_seed": level}, [3]))["image"][:, 0, 0, 0] for _ in range(2))
    assert first[0] == first[1] == second[0] == second[1]
    assert second[2] != first[2]
    later = env.reset()["image"][:, 0, 0, 0]
    assert later[0] != later[1]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_copy_that_is_not_chosen_is_not_stepped(workers):
    with closing(GymnasiumBatch(Counter, 3, workers=workers)) as env:
        state = env.reset()
        for time in range(2):
            chosen = torch.tensor([[True], [False], [time == 1]])
            state = env.step(env.rand_action(state).set("_step", chosen))["next"]
        assert state["body"][:, -1].tolist() == [2, 0, 1]
        assert state["reward"].flatten().tolist() == [1, 0, 1]
        state = env.step(env.rand_action(state))["next"]
        assert state["body"][:, -1].tolist() == [3, 1, 2]
        assert state["done"].flatten().tolist() == [True, False, False]
        state = env.reset(state.set("_reset", state["done"].clone()))
        state = env.step(env.rand_action(state).set("_step", ~chosen))["next"]
        assert state["body"][:, -1].tolist() == [0, 2, 2]
        assert not state["done"].any()


@pytest.mark.parametrize("make", ["CartPole-v1", Counter], ids=str)
def test_workers_change_nothing(make):
    env = GymnasiumBatch(make, 4, workers=4)
    processes = env.processes
    with closing(env):
        os.kill(processes[0].pid, signal.SIGINT)  # Ctrl-C is for the driver
        alone = GymnasiumBatch(make, 4)
        for batch in (env, alone):
            batch.set_seed(1)
        assert (rollout(env, 60) == rollout(alone, 60)).all()
    assert not any(process.is_alive() for process in processes)
    with pytest.raises(UserError, match="failed with ClosedEnvironmentError"):
        env.reset()


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (stop, r"^Counter failed with RuntimeError: the motor is hot \(counter.py, line \d+\)$"),
        (die, r"a process of a copy has ended \(exit status -9.*\); its own messages tell more"),
        (leave, r"exit status 3"),
        (None, r"exit status -9\)"),
    ],
)
def test_the_death_of_a_process_ends_all(fail, reason):
    env = GymnasiumBatch(partial(Counter, fail=fail) if fail else Counter, 2, workers=2)
    processes = env.processes
    td = env.step(env.rand_action(env.reset()))["next"]
    if fail is None:
        processes[1].kill()  # between two steps
    with pytest.raises(UserError, match=reason):
        env.step(env.rand_action(td))
    assert not any(process.is_alive() for process in processes)
    env.close()
    if fail is stop:
        with pytest.raises(UserError, match=reason):
            GymnasiumBatch(partial(Counter, fail=fail), 2).rollout(3)  # in this process


@pytest.mark.slow
def test_processes_end_with_a_driver_that_is_killed():
    program = (
        "import os, signal\n"
        "from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch\n"
        "if __name__ == '__main__':\n"
        "    env = GymnasiumBatch('CartPole-v1', 2, workers=2)\n"
        "    print(*[process.pid for process in env.processes], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not any(map(is_alive, map(int, done.stdout.split()))))


def test_a_picture_of_a_copy():
    env = GymnasiumBatch(partial(Counter, render_mode="rgb_array"), 2)
    levels = env.reset()["image"][:, 0, 0, 0]
    assert [env.render(i)[0, 0, 0] for i in range(2)] == levels.tolist()
    env = GymnasiumBatch(Counter, 2)
    env.reset()
    assert env.render() is None


def with_space(**space):
    return type("Odd", (Counter,), space)


def test_a_choice_is_counted_from_the_first_of_the_environment():
    actions = []

    def tell(action):
        actions.append(action)
        return np.zeros((2, 2))

    env = GymnasiumBatch(lambda: TransformAction(Counter(), tell, spaces.Discrete(2, start=5)), 20)
    action = env.rand_step(env.reset())["action"]
    assert actions == (5 + action).tolist()


def test_a_multi_discrete_space_is_several_categories():
    space, actions = spaces.MultiDiscrete([[3, 2], [2, 4]], start=[[0, 5], [-1, 0]]), []

    def tell(action):
        assert space.contains(action)
        actions.append(torch.from_numpy(action))
        return np.zeros((2, 2))

    env = GymnasiumBatch(lambda: TransformAction(Counter(), tell, space), 50)
    check_env_specs(env)
    assert env.action_spec.nvec[0].tolist() == [3, 2, 2, 4]
    action = env.rand_step(env.reset())["action"]
    assert torch.equal(torch.stack(actions[-50:]).flatten(1), action + torch.tensor([0, 5, -1, 0]))
    assert action.amax(0).tolist() == [2, 1, 1, 3]


@pytest.mark.parametrize(
    ("make", "copies", "more", "message"),
    [
        ("CartPol-v1", 1, {}, "CartPol-v1 failed with NameNotFound: .* Did you mean: `CartPole`"),
        ("nowhere_to_find:Some-v0", 1, {}, "No module named 'nowhere_to_find'"),
        ("CartPole-v1", 0, {}, "0 copies"),
        ("CartPole-v1", 4, {"workers": 3}, "3 workers for 4 copies; expected 0, or 4"),
        ("CartPole-v1", 4, {"workers": -1}, "-1 workers for 4 copies"),
        ("CartPole-v1", 1, {"options": {"gravitas": 1}}, "CartPole-v1 failed with TypeError: .*gravitas"),
        (Counter, 1, {"options": {"length": 1}}, r"options \['length'\]"),
        (stop, 1, {}, r"stop failed with RuntimeError: the motor is hot"),
        (dict, 1, {}, "dict makes a dict"),
        (with_space(action_space=spaces.MultiBinary(2)), 1, {}, r"action space MultiBinary\(2\)"),
        (with_space(observation_space=spaces.Text(3)), 1, {}, r"observation space Text"),
        (with_space(observation_space=spaces.Dict(reward=spaces.Discrete(2))), 1, {}, "named 'reward'"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(make, copies, more, message):
    with pytest.raises(UserError, match=message) as caught:
        GymnasiumBatch(make, copies, **more)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(minigrid, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"MiniGrid-Empty-5x5-v0 needs minigrid; pip install 'drest_torch\[envs\]'"):
        GymnasiumBatch(partial(minigrid.make_minigrid, "MiniGrid-Empty-5x5-v0"), 1)


def test_minigrid_is_one_hot_without_its_mission():
    pytest.importorskip("minigrid", reason="minigrid is not installed (the extra `envs`)")
    name = "MiniGrid-DoorKey-5x5-v0"
    env = GymnasiumBatch(partial(minigrid.make_minigrid, name), 2)
    assert env.name == name
    check_env_specs(env)
    td = env.reset(TensorDict({"level_seed": torch.tensor([[3], [3]])}, [2]))
    assert set(env.observation_spec.keys()) == {"image", "direction"}
    assert td["direction"].shape == (2, 4)
    codes = torch.from_numpy(gymnasium.make(name).reset(seed=3)[0]["image"])
    assert td["image"].shape == (2, 7, 7, 20)
    parts = td["image"][0].split([11, 6, 3], -1)
    assert all((part.sum(-1) == 1).all() for part in parts)
    assert torch.equal(torch.stack([part.argmax(-1) for part in parts], -1), codes.long())
