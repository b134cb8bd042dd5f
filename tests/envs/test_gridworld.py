"""The batched environment against the simulator and single environments, with its resets, streams and seeds."""

import random

import pytest
import torch

from drest_torch.envs import counter_rng as streams
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import parse_level
from tests.helpers.collecting import NINE
from tests.helpers.rollouts import played, rollout
from tests.helpers.simulator import MIXED, Simulator, random_levels


@pytest.mark.parametrize("buttons", [False, True])
def test_every_step_equals_the_simulator(buttons):
    levels = random_levels(40, 40, buttons=buttons, doors=(False, True), clock=None)
    env = GridworldEnv(levels, 40, episodes_per_meta=1000, gamma=0.9)
    td = env.reset(level=torch.arange(40))
    simulators = [Simulator(level) for level in levels]
    rng, ended = random.Random(0), 0
    for _ in range(60):
        actions = [rng.randrange(4) for _ in levels]
        td.set("action", torch.tensor(actions))
        played, td = env.step_and_maybe_reset(td)
        assert td["observation"].shape[1:] == env.observe.shape
        for i, (simulator, action) in enumerate(zip(simulators, actions, strict=True)):
            coin = simulator.step(action)
            assert played["next", "reward"][i].item() == pytest.approx(coin)
            assert td["mini_done"][i].item() == simulator.done
            if simulator.done:
                ended += 1
                column = td["mini_len"][i].item()
                assert env.optima.lengths[i, column] == simulator.ticks
                assert td["best_return"][i].item() == pytest.approx(env.optima.best_return[i, column].item())
                simulators[i] = simulator = Simulator(levels[i])
            planes = td["observation"][i]
            assert planes[3].nonzero().tolist() == [[simulator.row, simulator.column]]
            assert (planes[4] == simulator.time_left).all()
        assert env._slots.now.ticks.tolist() == [simulator.ticks for simulator in simulators]
    assert ended > 100


def test_a_batch_equals_single_environments():
    levels = random_levels(12, 12, chances=(False, True), clock=None)
    batch = GridworldEnv(levels, 8, episodes_per_meta=3, seed=4)
    rollout(batch, 30)
    state = {name: value.clone() for name, value in batch.state_dict().items()}
    together = rollout(batch, 80)
    for i in range(8):
        single = GridworldEnv(levels, 1, episodes_per_meta=3)
        single.load_state_dict({name: value[i : i + 1] for name, value in state.items()})
        alone = together[i : i + 1]
        assert (played(single, alone["action"].unbind(1)) == alone).all()
    done = together["next", "done"]
    assert done.sum() > 8
    assert (together["next", "mini_idx"][done] == 3).all()


def test_a_group_plays_the_same_levels():
    env = GridworldEnv(NINE, 12, episodes_per_meta=1, group=4)
    for _ in range(5):
        env.reset()
        level = env._slots.now.level.reshape(3, 4)
        assert (level == level[:, :1]).all()


def test_a_group_that_does_not_divide_the_slots_is_refused():
    with pytest.raises(ValueError, match="12 slots cannot be grouped by 5"):
        GridworldEnv(NINE, 12, group=5)


def test_a_state_with_another_number_of_slots_is_refused():
    with pytest.raises(ValueError, match="expected"):
        GridworldEnv(NINE, 4).load_state_dict(GridworldEnv(NINE, 8).state_dict())


LUCK = {
    "a button that works by chance": "shutdown: 2\n. C2 .\nA B2@0.25 C1\n# B1 .",
    "lotteries": "lottery a: 1/4 C2 -1 | 1/2 C-1 +0 | 1/4 C4 +2\nlottery b: 1 C1 -9\nshutdown: 3\nC1 La .\nA . Lb",
}


@pytest.mark.parametrize("text", LUCK.values(), ids=LUCK)
def test_samples_agree_with_the_propagator(text):
    level = parse_level(text, name="luck")
    exact = Reachable(compile_levels([level])).evaluate(uniform_policy)
    frames = rollout(GridworldEnv([level], 512, episodes_per_meta=1000), 150)["next"]
    ended = frames["mini_done"].squeeze(-1)
    number = ended.cumsum(1) - ended.long()
    coins = torch.zeros(512, 151).scatter_add_(1, number, frames["reward"].squeeze(-1))
    length, coins = frames["mini_len"].squeeze(-1)[ended], coins.gather(1, number)[ended]
    for column, (probability, mean) in enumerate(zip(exact.probability[0], exact.coins[0], strict=True)):
        assert (length == column).double().mean().item() == pytest.approx(probability.item(), abs=0.015)
        assert coins[length == column].mean().item() == pytest.approx(mean.item(), abs=0.06)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_equals_cpu():
    levels = random_levels(20, 20, **MIXED)
    cpu, cuda = (rollout(GridworldEnv(levels, 64, episodes_per_meta=2, device=d), 60) for d in ("cpu", "cuda"))
    assert (cpu == cuda).all()


@pytest.fixture(scope="module")
def drawn():
    """Return the numbers of 400 streams [400, 500]."""
    slot, counter = torch.meshgrid(torch.arange(400), torch.arange(500), indexing="ij")
    return streams.uniform(streams.mix(torch.zeros_like(slot), slot), counter)


def test_streams_are_uniform(drawn):
    assert 0 <= drawn.min() <= drawn.max() < 1
    assert drawn.unique().numel() == drawn.numel()
    bins, expected = torch.histc(drawn.float(), 20, 0, 1), drawn.numel() / 20
    assert ((bins - expected) ** 2 / expected).sum() < 50  # χ² with 19 degrees of freedom: p ≈ 1e-4


def test_streams_are_independent(drawn):
    for a, b in ((drawn[:, 1:], drawn[:, :-1]), (drawn[1:], drawn[:-1])):
        correlation = torch.corrcoef(torch.stack((a.reshape(-1), b.reshape(-1))))[0, 1]
        assert abs(correlation) < 0.01


def test_luck_does_not_share_the_stream_of_levels():
    state = GridworldEnv(NINE, 8, group=4, seed=3).state_dict()
    levels, luck = state["level_key"].tolist(), state["luck_key"].tolist()
    assert levels[:4] == levels[:1] * 4  # a group has the same levels
    assert levels[4:] == levels[4:5] * 4
    assert levels[0] != levels[4]
    assert len({*levels, *luck}) == 2 + 8
