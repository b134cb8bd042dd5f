"""The worlds as Gymnasium environments: its own checks, and the same rewards as through TorchRL."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from torchrl.envs import TransformedEnv

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.gymnasium_env import GridworldGymEnv, GridworldVectorEnv, register
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.reward import Reward
from tests.helpers.documents import ROOT, blocks

NINE = [world(name) for name in PAPER_WORLDS]
CHANCES = [*NINE, parse_level("shutdown: 3\n. C2 B2@0.5\n. A B3@0.3\nC1 . .", name="luck")]
ACTIONS = np.random.default_rng(0).integers(4, size=400)


@pytest.mark.parametrize(("observation", "mode"), [("grid", "rgb_array"), ("centred", "ansi"), ("vector", "ansi")])
def test_gymnasiums_own_check(observation, mode):
    levels = NINE[:1] if observation == "vector" else CHANCES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")  # it was not made through gymnasium.make
        check_env(GridworldGymEnv(levels, observation=observation, render_mode=mode))


def rendered(mode):
    env = GridworldGymEnv([parse_level("shutdown: 2\nA C2 .", name="row")], render_mode=mode)
    env.reset(seed=0)
    pictures = [env.render()]
    for _ in range(2):
        env.step(3)
        pictures.append(env.render())
    return pictures


def test_every_tick_is_rendered_as_a_picture_and_as_text():
    pictures = rendered("rgb_array")
    assert {(picture.shape, str(picture.dtype)) for picture in pictures} == {((60, 180, 3), "uint8")}
    cells = np.stack(pictures).reshape(3, 60, 3, 60, 3)[:, 10:-10, :, 10:-10]
    dark = (cells < 100).all(-1).mean((1, 3))  # the agent is a dark counter
    assert dark.argmax(-1).tolist() == [0, 1, 2]
    yellow = ((cells[..., 0] > 200) & (cells[..., 2] < 150)).any((1, 3))
    assert yellow.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    texts = [" ".join(text.split()) for text in rendered("ansi")]
    assert texts == ["A C2 . time left: 2", ". A . time left: 1", ". . A time left: 0"]
    assert rendered(None) == [None] * 3
    with pytest.raises(ValueError, match="render_mode='human'; expected None or one of rgb_array, ansi"):
        rendered("human")


def test_rewards_equal_those_of_the_transform_and_plain_coins_are_paid_when_they_are_collected():
    reward = Reward(0.7, 0.9, 8)
    episodes, slots = reward.episodes_per_meta, len(NINE)
    env = GridworldEnv(NINE, slots, episodes_per_meta=episodes, gamma=reward.gamma)
    paying = TransformedEnv(env, DReSTReward.of(reward, num_lengths=2))
    ours, plain = (GridworldVectorEnv(NINE, slots, reward=reward, plain_coins=each) for each in (False, True))
    level = torch.arange(slots)
    td = paying.reset(level=level)
    seen, _ = (each.reset(seed=0, options={"level": level})[0] for each in (ours, plain))
    generator = np.random.default_rng(1)
    played = np.zeros(slots)
    while (played < episodes).any():
        goes_on = torch.from_numpy(played < episodes)
        assert torch.equal(td["observation"][goes_on], torch.from_numpy(seen)[goes_on])
        action = generator.integers(4, size=slots)
        td.set("action", torch.from_numpy(action))
        step, td = paying.step_and_maybe_reset(td)
        coins = plain.step(action)[1]
        seen, reward, terminated, _, info = ours.step(action)
        assert coins[played < episodes].tolist() == step["next", "reward_raw"].flatten()[goes_on].tolist()
        for i in np.flatnonzero(terminated):  # what is seen last shows the end
            assert not info["final_obs"][i][4].any()
            assert info["final_obs"][i][3].sum() == 1
        expected = step["next", "reward"].squeeze(-1)[goes_on].double()
        torch.testing.assert_close(torch.from_numpy(reward)[goes_on], expected, atol=1e-6, rtol=1e-5)
        assert torch.equal(torch.from_numpy(terminated)[goes_on], step["next", "mini_done"].squeeze(-1)[goes_on])
        played += terminated


def test_a_meta_episode_stays_on_one_level_and_the_next_draws_anew():
    env = GridworldGymEnv(NINE, reward=Reward(episodes_per_meta=5))
    names = [env.reset(seed=3)[1]["level"]]
    while len(names) < 100:
        if env.step(0)[2]:
            names.append(env.reset()[1]["level"])
    metas = [names[i : i + 5] for i in range(0, 100, 5)]
    assert all(len(set(meta)) == 1 for meta in metas)
    assert len({env.reset(seed=seed)[1]["level"] for seed in range(50)}) > 3
    assert len({meta[0] for meta in metas}) > 3


def test_a_mini_episode_that_is_left_does_not_count():
    env = GridworldGymEnv([parse_level("shutdown: 2\nA C2\nB1 .", name="two")], reward=Reward(0.9, 1.0, 2))
    env.reset(seed=0)
    env.step(3)
    env.reset()
    env.step(0)
    assert env.step(0)[4] == {"level": "two", "length": 2, "coins": 0.0, "discount": 1.0}


def test_a_vector_equals_single_environments():
    reward = Reward(episodes_per_meta=3)
    vector = GridworldVectorEnv(CHANCES, 4, observation="centred", reward=reward)
    singles = [GridworldGymEnv(CHANCES, observation="centred", reward=reward) for _ in range(4)]
    seen, info = vector.reset(seed=7)
    for i, env in enumerate(singles):
        first, said = env.reset(seed=7 + i)
        assert np.array_equal(first, seen[i])
        assert said["level"] == info["level"][i]
    for actions in ACTIONS.reshape(-1, 4):
        seen, reward, terminated, truncated, info = vector.step(actions)
        assert seen in vector.observation_space
        assert not truncated.any()
        for i, env in enumerate(singles):
            last, paid, ended, _, said = env.step(actions[i])
            assert (paid, ended) == (reward[i], terminated[i])
            if ended:
                assert np.array_equal(last, info["final_obs"][i])
                assert said == {key: info["final_info"][key][i] for key in said}
                last, said = env.reset()
            assert np.array_equal(last, seen[i])
            assert said["level"] == info["level"][i]


def test_a_vector_takes_one_seed_for_each_environment():
    vector = GridworldVectorEnv(NINE, 3)
    assert np.array_equal(vector.reset(seed=[4, 5, 6])[0], vector.reset(seed=4)[0])
    with pytest.raises(ValueError, match="2 seeds for 3 environments"):
        vector.reset(seed=[1, 2])


def test_registered_only_when_asked():
    name = "drest/Test-v0"
    assert not any(each.startswith("drest") for each in gymnasium.registry)
    register(name)
    try:
        assert gymnasium.make(name, levels=NINE, render_mode="ansi").render_mode == "ansi"
        assert gymnasium.make(name, levels=NINE).reset(seed=0)[0].shape[0] == 5
        envs = gymnasium.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point", levels=NINE)
        assert envs.reset(seed=0)[0].shape[0] == 3
    finally:
        del gymnasium.registry[name]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "least"), [("GridworldGymEnv", 0.3), ("CartPole", 0.25)])
def test_stable_baselines3_learns_what_the_page_says(what, least):
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra `gym`)")
    texts = [block.text for block in blocks(ROOT / "docs" / "howto" / "gymnasium.md") if block.language == "python"]
    (block,) = [text for text in texts if "stable_baselines3" in text and what in text]
    threads, names = torch.get_num_threads(), {}
    torch.set_num_threads(1)  # with more, small networks are slower on a busy machine
    try:
        exec(compile(block, "docs/howto/gymnasium.md", "exec"), names)
    finally:
        torch.set_num_threads(threads)
    if what == "CartPole":
        counts = {length: len(each) for length, each in names["shares"].items()}
        assert all(np.mean(each) > 0.7 for each in names["shares"].values())
    else:
        counts = names["lengths"]
    assert set(counts) == ({50, 100} if what == "CartPole" else {3, 5})
    assert min(counts.values()) > least * sum(counts.values())
