"""One contract for all transforms, tested like TorchRL's own transforms."""

import itertools
import multiprocessing
import pickle
from functools import partial

import pytest
import torch
from torchrl.envs import Compose, ParallelEnv, SerialEnv, StepCounter, TransformedEnv, check_env_specs

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, MetaEpisodes, PrivateBits, ShutdownTimer
from drest_torch.transforms.base import set_seed
from drest_torch.transforms.streams import RandomStream, seeded_transforms
from tests.helpers.counting import ACTIONS, Counting
from tests.helpers.rollouts import played

NINE = [world(name) for name in PAPER_WORLDS]
PAID = DReSTReward.from_reward(Reward(0.5), num_lengths=3, num_lengths_key=None)
COUNTED = DReSTReward.from_reward(
    Reward(0.5, episodes_per_meta=3, count="tests.helpers.rules:waning"), num_lengths=3, num_lengths_key=None
)
ENDS = [2, 5]

timer = partial(ShutdownTimer, 3, [2, 4])
levelled = partial(Counting, levels=True)


def worlds(batch, ends):
    return GridworldEnv(NINE, *batch, episodes_per_meta=3)


def paid(gamma):
    return MetaEpisodes(3), DReSTReward(gamma=gamma, num_lengths=3, num_lengths_key=None)


ALONE = {
    "timer": (Counting, lambda: [timer()]),
    "one-hot": (partial(Counting, kind="one_hot"), lambda: [timer(idle=2)]),
    "box": (partial(Counting, kind="box"), lambda: [timer(control="dimension", window=2, ended="restart")]),
    "several": (partial(Counting, kind="several"), lambda: [timer(control="dimension", window=2)]),
    "restart": (Counting, lambda: [timer(ended="restart", cost=1.0)]),
    "predicate": (Counting, lambda: [timer(control=lambda td: td["observation"][..., :1] > 1)]),
    "skip": (Counting, lambda: [timer(skip=True)]),
    "mini-episodes": (Counting, lambda: [timer(), MetaEpisodes(3)]),
    "reward": (Counting, lambda: [timer(), BestReturn(3, fixed=[4, 9, 30]), MetaEpisodes(3), PAID.clone()]),
    "counted": (Counting, lambda: [timer(), BestReturn(3, fixed=[4, 9, 30]), MetaEpisodes(3), COUNTED.clone()]),
}
"""Transforms whose slots are independent."""
TOGETHER = {
    "best": (Counting, lambda: [timer(), BestReturn(3), MetaEpisodes(3)]),
    "levels": (levelled, lambda: [timer(), MetaEpisodes(3, levels=[3, 5])]),
    "together": (Counting, lambda: [timer(), MetaEpisodes(3, together=True), PrivateBits(2)]),
    "group": (levelled, lambda: [timer(), MetaEpisodes(3, together=True, group=2, levels=[1, 4])]),
    "double": (partial(Counting, precision=torch.float64), lambda: [timer(cost=1.0), BestReturn(3), *paid(1.0)]),
    "discounted best": (Counting, lambda: [timer(), BestReturn(3, gamma=0.5), *paid(0.5)]),
    "worlds": (worlds, lambda: [DReSTReward()]),
    "discounted": (worlds, lambda: [DReSTReward(0.5, clip=5.0, divide_by_best=False, tick_key=None, gamma=0.9)]),
}
ALL = ALONE | TOGETHER


def make_env(case, batch=(2,), ends=ENDS):
    inner, steps = ALL[case]
    return TransformedEnv(inner(batch, ends), Compose(*steps()))


def around(case, batched=SerialEnv):
    """Return the environment of a case with its transforms around two batches, not in each of them."""
    inner, steps = ALL[case]
    return TransformedEnv(batched(2, partial(inner, (2,), ENDS)), Compose(*steps(), StepCounter()))


def chosen(env, steps=40):
    torch.manual_seed(0)
    return [env.action_spec.rand() for _ in range(steps)]


def play(env, actions):
    """Play these actions from a seed; return the entries after each of them [*batch, T]."""
    set_seed(env, 0)
    return played(env, actions)["next"]


def assert_equal(first, second):
    """Assert that shared entries are equal, and that some meta-episode ends."""
    for key in set(first.keys()) & set(second.keys()):
        assert torch.equal(first[key], second[key]), key
    assert first["done"].any()


@pytest.mark.parametrize("case", ALL)
def test_specs_agree_with_the_steps(case):
    check_env_specs(make_env(case))
    check_env_specs(SerialEnv(2, partial(make_env, case)))
    check_env_specs(around(case))
    if case not in ("group", "worlds", "discounted"):
        check_env_specs(make_env(case, (), 4))


@pytest.mark.parametrize("case", ALL)
def test_a_rollout_is_the_same_as_single_steps(case):
    env = make_env(case)
    actions = chosen(env)
    steps = play(env, actions)
    set_seed(env, 0)
    plans = iter(actions)
    rolled = env.rollout(len(actions), lambda td: td.set("action", next(plans)), break_when_any_done=False)
    if case not in ("best", "double", "discounted best"):  # m is larger by then
        assert_equal(steps, rolled["next"])


@pytest.mark.parametrize("case", ALONE)
def test_slots_are_independent_inside_or_outside_a_batch(case):
    inside, outside = SerialEnv(2, partial(make_env, case)), around(case)
    actions = chosen(inside)
    steps = play(inside, actions)
    assert_equal(steps, play(outside, actions))
    for slot, end in enumerate(ENDS):
        assert_equal(steps[1, slot], play(make_env(case, (), end), [action[1, slot] for action in actions]))


@pytest.mark.parametrize("case", ALONE)
def test_a_reset_of_some_slots_leaves_the_others(case):
    env = make_env(case)
    td = env.reset()
    for action in chosen(env, 1):
        td = env.step_and_maybe_reset(td.set("action", action))[1]
    again = env.reset(td.clone().set("_reset", torch.tensor([[True], [False]])))
    fresh, keys = env.reset(), set(td.keys()) & set(env.state_spec.keys()) | {"observation"}
    assert any(not torch.equal(td[key][0], fresh[key][0]) for key in keys)
    for key in keys:
        assert torch.equal(again[key][1], td[key][1]), key
        assert torch.equal(again[key][0], fresh[key][0]), key


SAMPLES = {
    "private_bits": lambda: [timer(), MetaEpisodes(3), PrivateBits(4)],
    "level": lambda: [timer(), MetaEpisodes(3, levels=range(999))],
}
"""The transforms that sample, by the entry of their samples."""


def sampling(key):
    return TransformedEnv(levelled((8,), 5), Compose(*SAMPLES[key]()))


def sampled(env, key, seed=None):
    """Return the samples [*batch, steps, …] of a rollout that requests a delay in every step."""
    if seed is not None:
        env.set_seed(seed)
    requests = torch.full(env.batch_size, ACTIONS)
    return env.rollout(6, lambda td: td.set("action", requests), break_when_any_done=False)[key]


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("key", SAMPLES)
def test_set_seed_seeds_the_samples_of_transforms(key, copies):
    env = sampling(key) if copies == 1 else SerialEnv(copies, partial(sampling, key))
    samples = sampled(env, key, seed=3)
    assert torch.equal(sampled(env, key, seed=3), samples)
    assert not torch.equal(sampled(env, key, seed=4), samples)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("key", SAMPLES)
def test_copies_have_independent_random_numbers(key, seed):
    torch.manual_seed(0)
    copies = sampled(SerialEnv(6, partial(sampling, key)), key, seed)
    assert not any(torch.equal(first, second) for first, second in itertools.combinations(copies, 2))


@pytest.mark.parametrize("key", SAMPLES)
def test_without_a_seed_torch_seeds_the_random_numbers(key):
    samples = [sampled(sampling(key), key) for seed in (0, 0, 1) if torch.manual_seed(seed)]
    assert torch.equal(*samples[:2])
    assert not torch.equal(*samples[1:])


def test_streams_of_an_environment_are_independent():
    env = TransformedEnv(levelled((8,)), Compose(timer(), MetaEpisodes(3, levels=range(2)), PrivateBits(1)))
    env.set_seed(0)
    numbers = [torch.rand(500, generator=transform.random.generator) for transform in seeded_transforms(env)]
    assert len(numbers) == 2
    assert abs(torch.corrcoef(torch.stack(numbers))[0, 1]) < 0.2


def test_streams_of_forked_processes_are_independent(monkeypatch):
    """Forked processes start with the same state of torch's generator, and differ in their names."""
    numbers = []
    for name in ("ForkProcess-1", "ForkProcess-2"):
        monkeypatch.setattr(multiprocessing.current_process(), "name", name)
        torch.manual_seed(0)
        numbers.append(torch.rand(4, generator=RandomStream(None).generator))
    assert not torch.equal(*numbers)


def test_set_seed_seeds_the_transforms_of_a_pickled_environment():
    env = pickle.loads(pickle.dumps(sampling("private_bits")))
    assert torch.equal(sampled(env, "private_bits", seed=3), sampled(env, "private_bits", seed=3))


@pytest.mark.slow
def test_copies_in_processes_have_independent_random_numbers():
    """Forked processes start with the same state of torch's generator."""
    env = ParallelEnv(3, partial(make_env, "together", (8,), 5), mp_start_method="fork")
    try:
        copies = env.reset()["private_bits"]
    finally:
        env.close()
    assert not any(torch.equal(first, second) for first, second in itertools.combinations(copies, 2))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["box", "reward"])
def test_processes_give_the_same_steps_as_one_process(case):
    rollouts = [play(SerialEnv(2, partial(make_env, case)), actions := chosen(around(case)))]
    for env in (ParallelEnv(2, partial(make_env, case)), around(case, ParallelEnv)):
        try:
            check_env_specs(env)
            rollouts.append(play(env, actions))
        finally:
            env.close()
    assert_equal(*rollouts[:2])
    assert_equal(*rollouts[1:])
