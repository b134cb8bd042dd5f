"""One contract for all transforms, in the ways in which TorchRL tests its own."""

from functools import partial

import pytest
import torch
from torchrl.envs import Compose, ParallelEnv, SerialEnv, StepCounter, TransformedEnv, check_env_specs

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, MetaEpisodes, OwnLengths, PrivateBits, ShutdownTimer
from drest_torch.transforms.base import set_seed
from tests.helpers.counting import Counting
from tests.helpers.rollouts import played

NINE = [world(name) for name in PAPER_WORLDS]
PAID = DReSTReward.of(Reward(0.5), num_lengths=3, num_lengths_key=None)
ENDS = [2, 5]

timer = partial(ShutdownTimer, 3, [2, 4])
levelled = partial(Counting, levels=True)


def worlds(batch, ends):
    return GridworldEnv(NINE, *batch, episodes_per_meta=3)


ALONE = {
    "timer": (Counting, lambda: [timer()]),
    "one-hot": (partial(Counting, kind="one_hot"), lambda: [timer(idle=2)]),
    "box": (partial(Counting, kind="box"), lambda: [timer(control="dimension", window=2, ended="restart")]),
    "several": (partial(Counting, kind="several"), lambda: [timer(control="dimension", window=2)]),
    "restart": (Counting, lambda: [timer(ended="restart", cost=1.0)]),
    "predicate": (Counting, lambda: [timer(control=lambda td: td["observation"][..., :1] > 1)]),
    "skip": (Counting, lambda: [timer(skip=True)]),
    "own lengths": (Counting, lambda: [OwnLengths(ENDS), MetaEpisodes(3)]),
    "mini-episodes": (Counting, lambda: [timer(), MetaEpisodes(3)]),
    "reward": (Counting, lambda: [timer(), BestReturn(3, given=[4, 9, 30]), MetaEpisodes(3), PAID.clone()]),
}
"""Transforms of which each slot is as if it were alone."""
TOGETHER = {
    "chance": (Counting, lambda: [timer(chance=0.5)]),
    "best": (Counting, lambda: [timer(), BestReturn(3), MetaEpisodes(3)]),
    "levels": (levelled, lambda: [timer(), MetaEpisodes(3, levels=[3, 5])]),
    "own lengths together": (Counting, lambda: [OwnLengths(ENDS), MetaEpisodes(3, together=True)]),
    "together": (Counting, lambda: [timer(), MetaEpisodes(3, together=True), PrivateBits(2)]),
    "group": (levelled, lambda: [timer(), MetaEpisodes(3, together=True, group=2, levels=[1, 4])]),
    "worlds": (worlds, lambda: [DReSTReward()]),
    "discounted": (worlds, lambda: [DReSTReward(0.5, clip=5.0, divide_by_best=False, tick_key=None, gamma=0.9)]),
}
ALL = ALONE | TOGETHER


def made(case, batch=(2,), ends=ENDS):
    inner, steps = ALL[case]
    return TransformedEnv(inner(batch, ends), Compose(*steps()))


def around(case, batched=SerialEnv):
    """The transforms of a case around two batches, and not in each."""
    inner, steps = ALL[case]
    return TransformedEnv(batched(2, partial(inner, (2,), ENDS)), Compose(*steps(), StepCounter()))


def chosen(env, steps=40):
    torch.manual_seed(0)
    return [env.action_spec.rand() for _ in range(steps)]


def play(env, actions):
    """Play these actions from a seed; what follows them [*batch, T]."""
    set_seed(env, 0)
    return played(env, actions)["next"]


def same(one, two):
    """What both say is equal."""
    for key in set(one.keys()) & set(two.keys()):
        assert torch.equal(one[key], two[key]), key
    assert one["done"].any()


@pytest.mark.parametrize("case", ALL)
def test_specs(case):
    check_env_specs(made(case))
    check_env_specs(SerialEnv(2, partial(made, case)))
    check_env_specs(around(case))
    if case not in ("group", "worlds", "discounted"):
        check_env_specs(made(case, (), 4))


@pytest.mark.parametrize("case", ALL)
def test_a_rollout_is_the_same_as_single_steps(case):
    env = made(case)
    actions = chosen(env)
    said = play(env, actions)
    set_seed(env, 0)
    plans = iter(actions)
    rolled = env.rollout(len(actions), lambda td: td.set("action", next(plans)), break_when_any_done=False)
    if case != "best":  # it has seen more by then
        same(said, rolled["next"])


@pytest.mark.parametrize("case", ALONE)
def test_each_slot_is_as_if_it_were_alone_inside_and_outside_a_batch(case):
    inside, outside = SerialEnv(2, partial(made, case)), around(case)
    actions = chosen(inside)
    one = play(inside, actions)
    same(one, play(outside, actions))
    for slot, end in enumerate(ENDS):
        same(one[1, slot], play(made(case, (), end), [action[1, slot] for action in actions]))


@pytest.mark.parametrize("case", ALONE)
def test_a_reset_of_some_slots_leaves_the_others(case):
    env = made(case)
    td = env.reset()
    for action in chosen(env, 1):
        td = env.step_and_maybe_reset(td.set("action", action))[1]
    again = env.reset(td.clone().set("_reset", torch.tensor([[True], [False]])))
    fresh, keys = env.reset(), set(td.keys()) & set(env.state_spec.keys()) | {"observation"}
    assert any(not torch.equal(td[key][0], fresh[key][0]) for key in keys)
    for key in keys:
        assert torch.equal(again[key][1], td[key][1]), key
        assert torch.equal(again[key][0], fresh[key][0]), key


def test_own_lengths_are_those_after_which_the_environment_ends():
    env = made("own lengths")
    said = play(env, chosen(env))
    for slot, end in enumerate(ENDS):
        ended = said["mini_done"][slot].squeeze(-1)
        assert (1 + ended.nonzero().flatten()).tolist() == [*range(end, len(ended) + 1, end)]
        assert said["mini_len"][slot][ended].unique().item() == slot


@pytest.mark.slow
@pytest.mark.parametrize("case", ["box", "reward"])
def test_in_and_around_processes(case):
    said = [play(SerialEnv(2, partial(made, case)), actions := chosen(around(case)))]
    for env in (ParallelEnv(2, partial(made, case)), around(case, ParallelEnv)):
        try:
            check_env_specs(env)
            said.append(play(env, actions))
        finally:
            env.close()
    same(*said[:2])
    same(*said[1:])
