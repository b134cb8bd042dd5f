"""The worlds as Gymnasium environments: its own checks, and the same rewards as through TorchRL."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from torchrl.envs import TransformedEnv

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.gymnasium_env import GridworldGymEnv
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import parse_level
from drest_torch.reward import Reward
from tests.helpers.collecting import NINE

CHANCES = [*NINE, parse_level("shutdown: 3\n. C2 B2@0.5\n. A B3@0.3\nC1 . .", name="luck")]
ACTIONS = np.random.default_rng(0).integers(4, size=400)


@pytest.mark.parametrize("observation", ["grid", "centred", "vector"])
def test_gymnasiums_own_check(observation):
    levels = NINE[:1] if observation == "vector" else CHANCES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")  # it was not made through gymnasium.make
        check_env(GridworldGymEnv(levels, observation=observation))


def test_every_tick_is_rendered():
    env = GridworldGymEnv([parse_level("shutdown: 2\nA C2 .", name="row")], render_mode="rgb_array")
    env.reset(seed=0)
    for place in range(3):
        if place:
            env.step(3)
        picture = env.render()
        assert picture.shape == (60, 180, 3)
        assert picture.dtype == np.uint8
        assert np.argmax([(cell < 120).mean() for cell in np.split(picture, 3, axis=1)]) == place  # the agent is dark
    with pytest.raises(ValueError, match="render_mode='human'; expected None or rgb_array"):
        GridworldGymEnv(NINE, render_mode="human")


def test_the_observation_space_has_tight_bounds():
    lottery = parse_level("lottery a: 1/2 C-7 +0 | 1/2 C4 +2\nshutdown: 3\nA La C1\n. B2 .")
    for levels, low in ((NINE, 0), ([lottery], -7)):
        assert GridworldGymEnv(levels).observation_space.low.min() == low


def test_a_step_outside_a_mini_episode_needs_a_reset():
    env = GridworldGymEnv([parse_level("shutdown: 1\nA C2 .")])
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            env.step(3)
        env.reset(seed=0)
        assert env.step(3)[2]


@pytest.mark.parametrize("count", [None, "tests.helpers.rules:waning"])
def test_rewards_agree_with_the_transform(count):
    """With ``plain_coins`` they are the rewards before the transform."""
    reward = Reward(0.7, 0.9, 8, count=count)
    episodes, slots = reward.episodes_per_meta, len(NINE)
    worlds = GridworldEnv(NINE, slots, episodes_per_meta=episodes, gamma=reward.gamma)
    paying = TransformedEnv(worlds, DReSTReward.from_reward(reward, num_lengths=2))
    td = paying.reset(level=torch.arange(slots))
    ours, plain = (
        [GridworldGymEnv(NINE, reward=reward, plain_coins=plain_coins) for _ in NINE] for plain_coins in (False, True)
    )
    seen = [env.reset(seed=0, options={"level": level})[0] for level, env in enumerate(ours)]
    for level, env in enumerate(plain):
        env.reset(options={"level": level})
    generator, played = np.random.default_rng(1), np.zeros(slots)
    while (played < episodes).any():
        action = generator.integers(4, size=slots)
        step, after = paying.step_and_maybe_reset(td.set("action", torch.from_numpy(action)))
        following = step["next"]
        for i in np.flatnonzero(played < episodes):
            assert torch.equal(td["observation"][i], torch.from_numpy(seen[i]))
            seen[i], paid, ended, _, info = ours[i].step(action[i])
            assert plain[i].step(action[i])[1] == following["reward_raw"][i]
            assert paid == pytest.approx(following["reward"][i].item(), abs=1e-6, rel=1e-5)
            assert ended == following["mini_done"][i].item()
            if ended:  # the last observation is that of the end
                assert info["length"] == worlds.optima.lengths[i, following["mini_len"][i]].item()
                assert not seen[i][4].any()
                assert seen[i][3].sum() == 1
                plain[i].reset()
                seen[i], played[i] = ours[i].reset()[0], played[i] + 1
        td = after


def test_each_meta_episode_samples_one_level():
    env = GridworldGymEnv(CHANCES, reward=Reward(episodes_per_meta=5))

    def played():
        names, rewards = [env.reset(seed=3)[1]["level"]], []
        while len(names) < 100:
            *_, reward, ended, _, _ = env.step(ACTIONS[len(rewards)])
            rewards.append(reward)
            names += [env.reset()[1]["level"]] if ended else []
        return names, rewards

    names, rewards = played()
    metas = [names[i : i + 5] for i in range(0, 100, 5)]
    assert all(len(set(meta)) == 1 for meta in metas)
    assert len({env.reset(seed=seed)[1]["level"] for seed in range(50)}) > 3
    assert len({meta[0] for meta in metas}) > 3
    assert played() == (names, rewards)


def test_a_button_works_with_its_chance():
    env, lengths = GridworldGymEnv([parse_level("shutdown: 1\nA B1@0.3 C1", name="luck")]), []
    for seed in range(400):
        env.reset(seed=seed)
        lengths.append(1 if env.step(3)[2] else 2)
    assert abs(lengths.count(2) / 400 - 0.3) < 4 * (0.3 * 0.7 / 400) ** 0.5


def test_an_abandoned_mini_episode_does_not_count():
    env = GridworldGymEnv([parse_level("shutdown: 2\nA C2\nB1 .", name="two")], reward=Reward(0.9, 1.0, 2))
    env.reset(seed=0)
    env.step(3)
    env.reset()
    env.step(0)
    assert env.step(0)[4] == {"level": "two", "length": 2, "coins": 0.0, "discount": 1.0}
