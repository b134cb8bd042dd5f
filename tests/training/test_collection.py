"""Batches of whole mini-episodes: the sampling of levels, rewards, observations and private bits."""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from drest_torch.algos.base import Effort
from drest_torch.algos.reinforce import Reinforce
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import world
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from drest_torch.errors import ConfigError
from drest_torch.play.gridworld_slots import PATIENCE
from drest_torch.reward import Reward
from drest_torch.tasks.sampling import FreshLevels, LevelSampler
from drest_torch.transforms.mini_episodes import played
from tests.helpers.collecting import NINE, TINY, best_of, make, replayed
from tests.helpers.settings import SETTINGS

LEVELS = [TINY, world("royal_road"), world("spacious")]


def in_order_of_play(episodes, group):
    """Yield the mini-episodes of each group of slots in the order of rounds."""
    for first in range(0, len(episodes), group):
        rounds = itertools.zip_longest(*episodes[first : first + group])
        yield [episode for turn in rounds for episode in turn if episode is not None]


def check_pay(batch, setup, group):
    """Compare rewards and a critic's context with the simulator; return the number of rewarded mini-episodes."""
    reward, episodes, paid = setup.reward, replayed(batch, setup), 0
    k = 2 if reward.normalise else math.inf
    averaged = reward.group_discounts(2, group)[2]
    slots = {id(episode): slot for slot, mine in enumerate(episodes) for episode in mine}
    for played_here in in_order_of_play(episodes, group):
        assert len({mine.level for mine in played_here}) <= 1
        lengths_of_level = setup.worlds.base.optima.lengths[played_here[0].level].tolist() if played_here else []
        lengths = [mine.length for mine in played_here]
        for i, mine in enumerate(played_here):
            exponents = torch.tensor([lengths[:i].count(episode) - i / k for episode in lengths_of_level])
            if reward.counting == "sequential":
                discount = reward.lam ** exponents[lengths_of_level.index(mine.length)].item()
                context = batch["drest_log_discounts"][slots[id(mine)], mine.steps]
                assert torch.allclose(context, (exponents * math.log(reward.lam)).expand_as(context), atol=1e-5)
            else:
                discount = averaged[lengths.count(mine.length) - 1].item()
            expected = discount * mine.coins / best_of(setup, mine.level, mine.length)
            assert mine.paid == pytest.approx(expected, rel=1e-5)
            paid += mine.paid > 0
    return paid


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(
    ("counting", "slots", "rounds", "group", "episodes"),
    [
        ("averaged", 32, 1, 4, 4),
        ("averaged", 32, 1, 4, 64),
        ("sequential", 48, 1, 6, 6),
        ("sequential", 8, 6, 1, 6),
        ("sequential", 16, 3, 2, 6),
    ],
)
def test_rewards_of_a_batch_agree_with_the_simulator(counting, slots, rounds, group, episodes, normalise):
    """A meta-episode is spread over the slots and rounds of a group: one slot, one round, or several of both."""
    options = {"slots": slots, "rounds": rounds, "group": group, "episodes": episodes, "normalise": normalise}
    setup = make(LEVELS, counting=counting, **options)
    batch = setup.collect()
    assert batch["next", "mini_done"].sum(1).eq(rounds).all()
    assert check_pay(batch, setup, group) > 2


@pytest.mark.parametrize(("k", "group", "episodes"), [(2, 3, 4), (3, 4, 3), (2, 2, 6), (2, 5, 1)])
def test_the_discount_of_a_group_is_an_expectation(k, group, episodes):
    """E − 1 mini-episodes are drawn independently from the others of the group; the position is uniform."""
    lam = 0.7
    discounts = Reward(lam, episodes_per_meta=episodes).group_discounts(k, group)[k]
    for same in range(group):
        others = [1] * same + [0] * (group - 1 - same)
        terms = [
            lam ** (sum(before[:place]) - place / k)
            for before in itertools.product(others, repeat=episodes - 1)
            for place in range(episodes)
        ]
        assert discounts[same].item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def test_private_bits_are_constant_within_a_mini_episode():
    setup = make(NINE, slots=36, counting="sequential", rounds=6, group=1, private_bits=3)
    batch = setup.collect()
    seen = []
    for slot, mine in enumerate(replayed(batch, setup)):
        for episode in mine:
            bits = batch["private_bits"][slot, episode.steps]
            assert (bits == bits[0]).all()
            seen.append(tuple(bits[0].tolist()))
    shares = torch.tensor(seen).mean(0)
    assert (shares - 0.5).abs().max() < 0.12  # four standard deviations of 216 bits
    assert len(set(seen)) == 8


def test_a_slot_waits_after_its_meta_episode():
    setup = make(LEVELS)
    batch = setup.collect()
    live, ended = played(batch), batch["next", "mini_done"].squeeze(-1)
    assert ended.sum(1).eq(1).all()
    assert (live.sum(1) == ended.long().argmax(1) + 1).all()
    assert not live.all()
    assert (batch["state"][~live] == 0).all()
    assert not batch["next", "reward_raw"].squeeze(-1)[~live].any()
    assert batch["next", "done"].squeeze(-1).sum(0).tolist() == [0] * (batch.shape[1] - 1) + [32]


@pytest.mark.parametrize(("rounds", "group"), [(1, 6), (6, 1)])
def test_a_collector_plays_longer_levels_than_the_first(rounds, group):
    """The collector is reused for new or rotated levels."""
    short, long = TINY, world("royal_road")
    size = long.height, long.width
    setup = make([short], counting="sequential", slots=12, rounds=rounds, group=group, at_least=size)
    collector = setup.worlds.collector(setup.worlds.actor(setup.policy))
    for levels in ([short], [long], [short]):
        mdp = compile_levels(levels, at_least=size)
        setup.worlds.set_levels(mdp, solve(mdp, 0.9), make_observation("grid", mdp))
        batch = collector.collect(setup.rng)
        assert batch["next", "mini_done"].sum(1).eq(rounds).all()


@pytest.mark.parametrize("counting", ["sequential", "averaged"])
def test_endless_mini_episodes_do_not_change_other_rewards(counting):
    """With `levels.clock=moves` some slots of a group bump into walls forever, and do not affect the others."""
    setup = make([TINY.with_clock("moves")], counting=counting, slots=64, episodes=4, private_bits=1)

    class Some(torch.nn.Module):
        def forward(self, observation, private):
            return 50 * private * torch.tensor([1.0, 0.0, 0.0, 0.0])

    batch = setup.collect(Some())
    assert batch.shape == (64, PATIENCE * setup.worlds.base.mdp.max_time)
    assert check_pay(batch, setup, 4) > 10
    assert played(batch).any(1).tolist() == [len(mine) > 0 for mine in replayed(batch, setup)]
    assert 10 < played(batch).any(1).sum() < 60


def test_a_batch_is_a_function_of_the_generator_state():
    """The same state gives the same batch after any other batch, as a resumed run requires."""
    setup = make(NINE, slots=36, private_bits=3)
    state = setup.rng.get_state()
    first, second = setup.collect(), setup.collect()
    assert [mine.level for (mine,) in replayed(first, setup)][::4] == list(range(9))  # evenly spread
    setup.rng.set_state(state)
    again = setup.collect()
    for key in ("action", "private_bits", "state", ("next", "reward")):
        assert torch.equal(first[key], again[key])
    assert not torch.equal(first["private_bits"][:, 0], second["private_bits"][:, 0])
    assert not torch.equal(first["action"][:, :2], second["action"][:, :2])


def reinforce_of(setup):
    """Return an algorithm with a learning rate of 0."""
    settings = SimpleNamespace(**{**vars(SETTINGS), "lr": 0.0, "baseline": False})
    return Reinforce(setup.policy, None, settings, setup.rng, environment=setup.worlds)


def test_a_batch_without_an_end_is_refused_in_a_sentence():
    """The batch is refused before training, because a mean over no steps is not a number."""
    setup = make([world("royal_road")], slots=8)
    setup.worlds.most_steps = 1
    with pytest.raises(ConfigError, match=r"no mini-episode ended within 1 steps; train with levels\.clock=steps"):
        reinforce_of(setup).update(setup.reward)


def test_the_logged_return_is_the_mean_over_mini_episodes():
    setup = make(LEVELS, counting="sequential", slots=8, rounds=3, group=1)
    algorithm, state = reinforce_of(setup), setup.rng.get_state()
    metrics = algorithm.update(setup.reward)
    setup.rng.set_state(state)
    batch = algorithm.collector.collect(setup.rng)
    episodes = [episode for mine in replayed(batch, setup) for episode in mine]
    steps = sum(episode.length for episode in episodes)
    assert algorithm.effort == Effort(steps=steps, episodes=24)
    assert len(episodes) == 24
    assert float(metrics["train/return"]) == pytest.approx(sum(episode.paid for episode in episodes) / 24, rel=1e-5)
    assert metrics["train/mini_episode_steps"] == pytest.approx(steps / 24)


def test_levels_of_a_set_are_sampled_equally_often():
    source = LevelSampler(NINE, torch.Generator().manual_seed(0))
    assert sorted(level.name for level in source.sample(9)) == sorted(level.name for level in NINE)
    counts = Counter(level.name for level in source.sample(30))
    assert set(counts.values()) == {3, 4}
    orders = {tuple(level.name for level in source.sample(9)) for _ in range(5)}
    assert len(orders) > 1


def test_symmetries_of_levels_are_sampled_equally_often():
    level = world("example")
    ways = [turned.rows() for turned in symmetries(level)]
    source = LevelSampler([level], torch.Generator().manual_seed(0), symmetries=True)
    assert source.changes
    counts = Counter(ways.index(drawn.rows()) for drawn in source.sample(4000))
    assert len(counts) == 8
    assert all(abs(count - 500) < 5 * (4000 * 7 / 64) ** 0.5 for count in counts.values())


def test_a_stream_extends_the_training_levels():
    split = make_split(GeneratorConfig(), train=10, selection=3, test=5, seed=7)
    stream = FreshLevels(split, torch.Generator().manual_seed(0))
    drawn = [level for _ in range(6) for level in stream.sample(7)]
    assert drawn[:10] == split.train
    assert len({canonical_key(level) for level in drawn}) == 42
    more = make_split(GeneratorConfig(), train=42, selection=3, test=5, seed=7)
    assert drawn == more.train  # no duplicate among so few levels


def test_a_stream_excludes_held_out_levels():
    # There are so few levels that the generator yields held-out ones repeatedly.
    few = GeneratorConfig(height=3, width=3, walls=(0, 1), coins=(1, 1), coin_values=(1, 1), shutdown=(2, 3))
    split = make_split(few, train=5, selection=20, test=20, seed=1)
    held_out = {canonical_key(level) for level in (*split.selection, *split.test)}
    drawn = FreshLevels(split, torch.Generator().manual_seed(0), symmetries=True).sample(3000)
    assert not held_out & {canonical_key(level) for level in drawn}
    unfiltered = make_split(few, train=200, selection=0, test=0, seed=1)
    assert held_out & {canonical_key(level) for level in unfiltered.train}


def test_a_stream_resumes_from_its_tensors():
    split = make_split(GeneratorConfig(), train=3, selection=2, test=2, seed=0)
    whole, again = (FreshLevels(split, torch.Generator().manual_seed(0)) for _ in range(2))
    whole.sample(11)
    again.sample(2)
    for name, value in again.tensors().items():
        value.copy_(whole.tensors()[name])
    assert [again.sample(5) for _ in range(3)] == [whole.sample(5) for _ in range(3)]
