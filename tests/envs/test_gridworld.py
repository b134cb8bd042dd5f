"""The batched environment: against the simulator, batch against singles, resets, streams and seeds."""

import random

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import TIME_STEPS, VectorObservation, make_observation
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, LevelError, parse_level, world
from tests.helpers.rollouts import played, rollout
from tests.helpers.simulator import MIXED, Simulator, random_levels

NINE = [world(name) for name in PAPER_WORLDS]


def test_every_step_equals_the_simulators():
    levels = random_levels(80, 40, doors=(False, True), clock=None)
    env = GridworldEnv(levels, 80, episodes_per_meta=1000, gamma=0.9)
    elapsed, without = (make_observation(name, env.mdp) for name in ("centred_start_elapsed", "centred_start"))
    td = env.reset(level=torch.arange(80))
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
            shown = td["observation"][i, :5]
            walls = [[simulator.is_wall(row, column) for column in range(4)] for row in range(4)]
            assert shown[0].tolist() == walls  # smaller maps are padded with wall
            assert shown[3].nonzero().tolist() == [[simulator.row, simulator.column]]
            assert (shown[4] == simulator.time_left).all()
            coins = sum(c.value for c, there in zip(levels[i].coins, simulator.coins_present, strict=True) if there)
            delays = sum(
                b.delay for b, there in zip(levels[i].buttons, simulator.buttons_present, strict=True) if there
            )
            assert shown[1].sum().item() == pytest.approx(coins)
            assert shown[2].sum().item() == delays
        now = env._slots.now
        seen, less = (observe(now.spot, now.taken, now.time_left) for observe in (elapsed, without))
        assert torch.equal(seen[:, : -TIME_STEPS - 1], less)
        ticks = torch.tensor([simulator.ticks for simulator in simulators])
        assert torch.equal(now.ticks, ticks)
        assert torch.equal(seen[:, -TIME_STEPS - 1 : -1].sum(-1).long(), ticks)
        torch.testing.assert_close(seen[:, -1], ticks / TIME_STEPS)
    assert ended > 200


def test_batch_equals_singles():
    levels = random_levels(12, 12, chances=(False, True), clock=None)
    batch = GridworldEnv(levels, 8, episodes_per_meta=3, seed=4)
    rollout(batch, 30)
    state = {name: value.clone() for name, value in batch.state_dict().items()}
    together = rollout(batch, 80)
    for i in range(8):
        single = GridworldEnv(levels, 1, episodes_per_meta=3)
        single.load_state_dict({name: value[i : i + 1] for name, value in state.items()})
        generator = torch.Generator().manual_seed(0)
        actions = torch.stack([torch.randint(4, (8,), generator=generator) for _ in range(80)])
        assert (played(single, actions[:, i : i + 1]) == together[i : i + 1]).all()
    done = together["next", "done"]
    assert done.sum() > 8
    assert (together["next", "mini_idx"][done] == 3).all()


def test_a_group_plays_the_same_levels():
    env = GridworldEnv(NINE, 12, episodes_per_meta=1, group=4)
    for _ in range(5):
        env.reset()
        level = env._slots.now.level.reshape(3, 4)
        assert (level == level[:, :1]).all()
    with pytest.raises(ValueError, match="12 slots cannot be grouped by 5"):
        GridworldEnv(NINE, 12, group=5)


LUCK = {
    "a button that works by chance": "shutdown: 2\n. C2 .\nA B2@0.25 C1\n# B1 .",
    "lotteries": "lottery a: 1/4 C2 -1 | 1/2 C-1 +0 | 1/4 C4 +2\nlottery b: 1 C1 -9\nshutdown: 3\nC1 La .\nA . Lb",
}


@pytest.mark.parametrize("text", LUCK.values(), ids=LUCK)
def test_what_is_sampled_agrees_with_the_propagator(text):
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


def test_a_state_of_other_slots_is_refused():
    with pytest.raises(ValueError, match="expected"):
        GridworldEnv(NINE, 4).load_state_dict(GridworldEnv(NINE, 8).state_dict())


@pytest.mark.parametrize("name", ["grid", "centred"])
def test_the_start_is_shown_beside_all_that_is_shown_without_it(name):
    mdp = compile_levels(random_levels(6, 6))
    without, with_start = make_observation(name, mdp), make_observation(f"{name}_start", mdp)
    generator = torch.Generator().manual_seed(0)
    spot = torch.randint(mdp.num_levels * mdp.num_cells, (200,), generator=generator)
    taken, time = torch.randint(4, (200,), generator=generator), torch.randint(1, 9, (200,), generator=generator)
    seen, more = (see(spot, taken, time).flatten(1) for see in (without, with_start))
    start, here = mdp.start[mdp.level_of(spot)] % mdp.num_cells, spot % mdp.num_cells
    if name == "grid":
        assert with_start.planes == (*without.planes, "start")
        added, rest, place = mdp.num_cells, 0, start
    else:  # the time follows the window, whose middle is the agent
        added, rest = (2 * mdp.height - 1) * (2 * mdp.width - 1), TIME_STEPS + 1
        down, right = start // mdp.width - here // mdp.width, start % mdp.width - here % mdp.width
        place = (down + mdp.height - 1) * (2 * mdp.width - 1) + right + mdp.width - 1
    before, starts, after = more.split((seen.shape[1] - rest, added, rest), -1)
    assert torch.equal(torch.cat((before, after), -1), seen)
    assert torch.equal(starts, torch.nn.functional.one_hot(place, added).float())


def test_longer_times_are_told_apart_with_more_steps():
    mdp = compile_levels(random_levels(3, 3))
    few, many = (make_observation("centred_start", mdp, steps) for steps in (TIME_STEPS, 40))
    assert many.shape[0] - few.shape[0] == 24
    spot, taken = mdp.start[[0, 0, 0]], torch.zeros(3, dtype=torch.long)
    seen = many(spot, taken, torch.tensor([16, 17, 40]))
    assert seen[:, -41:-1].sum(-1).tolist() == [16, 17, 40]
    assert seen[:, -1].tolist() == pytest.approx([0.4, 0.425, 1.0])
    before = few(spot, taken, torch.tensor([16, 17, 40]))
    assert torch.equal(before[:, -17:-1], torch.ones(3, 16))
    assert torch.equal(before[:, :-17], seen[:, :-41])


def test_the_elapsed_time_is_not_shown_where_luck_decides_it() -> None:
    mdp = compile_levels([world("example"), *random_levels(1, 1, chances=True)])
    with pytest.raises(LevelError, match="has luck or lotteries"):
        make_observation("centred_elapsed", mdp)


@pytest.mark.parametrize("bits", [VectorObservation.TABLE_BITS, 0], ids=["from a table", "without"])
def test_vector_observation_is_the_papers(monkeypatch, bits):
    monkeypatch.setattr(VectorObservation, "TABLE_BITS", bits)
    env, simulator = GridworldEnv([world("example")], 1, observation="vector"), Simulator(world("example"))
    td, rng = env.reset(), random.Random(0)
    # The agent at x = 2, y = 4; C3, C2, C1 in reading order, then B4.
    assert td["observation"].tolist() == [[2, 4, 1, 1, 1, 1]]
    for _ in range(100):
        assert td["observation"].tolist() == [list(simulator.observation)]
        action = rng.randrange(4)
        simulator.step(action)
        simulator = Simulator(world("example")) if simulator.done else simulator
        _, td = env.step_and_maybe_reset(td.set("action", torch.tensor([action])))


@pytest.mark.parametrize(
    ("name", "message"), [("vector", "shows 1 level and the set has 9"), ("pixels", "no observation 'pixels'")]
)
def test_an_observation_that_cannot_be_shown_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        GridworldEnv(NINE, 2, observation=name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_equals_cpu():
    levels = random_levels(20, 20, **MIXED)
    cpu, cuda = (rollout(GridworldEnv(levels, 64, episodes_per_meta=2, device=d), 60) for d in ("cpu", "cuda"))
    assert (cpu == cuda).all()
