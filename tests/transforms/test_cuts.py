"""Warnings and errors for mini-episodes and meta-episodes cut by a batch, or by a truncation outside the transforms."""

import warnings
from functools import partial

import pytest
import torch
from torchrl.collectors import Collector
from torchrl.envs import Compose, SerialEnv, StepCounter, TransformedEnv

from drest_torch import DReSTReward
from drest_torch.errors import ConfigError
from drest_torch.transforms import BestReturn, MetaEpisodes, ShutdownTimer
from tests.helpers.counting import Counting

drest = partial(DReSTReward, num_lengths=2, num_lengths_key=None)
on_batches = partial(drest, counting="averaged", group=2)


def env_of(*further, batch=(2,), inner=(), together=True):
    """Return an environment with mini-episodes of 3 or 5 steps, two in a meta-episode."""
    steps = ShutdownTimer(3, [2]), BestReturn(2), MetaEpisodes(2, together=together)
    return TransformedEnv(Counting(batch), Compose(*inner, *steps, *further))


def play(env, steps):
    """Return a batch of mini-episodes of 3 steps, with rewards of 1, 2, 3."""
    return env.rollout(steps, lambda td: td.set("action", torch.zeros(env.batch_size).long()))


def warned(call):
    """Return the messages of the warnings of `DReSTReward`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if "DReSTReward" in str(warning.message)]


def test_whole_meta_episodes_are_paid_without_a_warning():
    batch = play(env_of(), 6)
    assert warned(lambda: on_batches()(batch)) == []
    assert batch["next", "reward"].sum() > 3


@pytest.mark.parametrize("arguments", [{}, {"tick_key": None}], ids=["tick", "best_tick"])
def test_a_mini_episode_that_began_before_the_batch_is_refused(arguments):
    batch = play(env_of(), 6)
    with pytest.raises(ConfigError, match=r"first step in slot 0 is in the middle of a mini-episode .*collect whole"):
        on_batches(**arguments)(batch[:, 1:])
    assert on_batches(**arguments)(batch[:, 3:])["next", "reward"][:, -1].all()


def test_a_mini_episode_that_ends_after_the_batch_is_not_paid():
    pays, first = on_batches(), play(env_of(), 3)
    cut = play(env_of(), 5)
    (warning,) = warned(lambda: [pays(cut), pays(play(env_of(), 5))])  # once
    assert "2 mini-episodes have not ended when the batch does; they are neither paid nor counted" in warning
    assert cut["next", "reward"].flatten().tolist() == [*pays(first)["next", "reward"][0].flatten(), 0, 0] * 2


def collected(env, frames, postproc=None, **arguments):
    """Return the batches of TorchRL's collector."""
    arguments = {"total_frames": 2 * frames, "auto_register_policy_transforms": False} | arguments
    return list(Collector(env, None, frames_per_batch=frames, postproc=postproc, **arguments))


def test_frames_per_batch_that_cut_mini_episodes_are_refused():
    with pytest.raises(ConfigError, match="in the middle of a mini-episode"):
        collected(env_of(), 2 * 4, on_batches())


def test_the_padding_of_an_interrupted_batch_is_not_a_cut():
    env = env_of()
    ends = {"interruptor": env.transform[-1], "reset_at_each_iter": True}
    assert warned(lambda: collected(env, 2 * 20, on_batches(), **ends)) == []


@pytest.mark.parametrize(
    "collect",
    [
        lambda: collected(env_of(), 40, on_batches(), max_frames_per_traj=4),
        lambda: on_batches()(env_of(StepCounter(4)).rollout(20, break_when_any_done=False)),
    ],
)
def test_a_truncated_mini_episode_in_a_batch_is_refused(collect):
    with pytest.raises(ConfigError, match="a mini-episode of slot 0 was truncated before its end; if StepCounter"):
        collect()


CUT = {
    "StepCounter": lambda: env_of(drest(), StepCounter(4)).rollout(20, break_when_any_done=False),
    "around copies": lambda: TransformedEnv(
        SerialEnv(1, lambda: env_of(drest(), batch=(), together=False)), StepCounter(4)
    ).rollout(20, break_when_any_done=False),
    "max_frames_per_traj": lambda: collected(env_of(drest()), 40, max_frames_per_traj=4),
}


@pytest.mark.parametrize("case", CUT)
def test_a_meta_episode_cut_from_outside_gives_one_warning(case):
    (warning,) = warned(CUT[case])
    assert "was reset in the middle of its meta-episode (mini-episodes so far: " in warning
    assert "StepCounter(max_steps) or max_frames_per_traj" in warning


QUIET = {
    "inner": lambda: env_of(drest(), inner=[StepCounter(2)]).rollout(20, break_when_any_done=False),
    "no limit": lambda: env_of(drest(), StepCounter()).rollout(20, break_when_any_done=False),
    "large limit": lambda: env_of(drest(), StepCounter(10)).rollout(20, break_when_any_done=False),
    "batches": lambda: collected(env_of(drest()), 2 * 4),
    "resets": lambda: [env.rollout(4) for env in [env_of(drest())] for _ in range(2)],
}


@pytest.mark.parametrize("case", QUIET)
def test_whole_meta_episodes_give_no_warning(case):
    assert warned(QUIET[case]) == []
