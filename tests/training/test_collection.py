"""Batches of whole mini-episodes: where their levels come from, how they are played and paid, and what can be seen."""

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


def in_order_of_play(found, group):
    """Yield the mini-episodes of each group of slots, which take turns, round by round."""
    for first in range(0, len(found), group):
        rounds = itertools.zip_longest(*found[first : first + group])
        yield [each for turn in rounds for each in turn if each is not None]


def check_pay(batch, made, group):
    """Compare the pay, and what a critic is shown, with the simulator; return how many mini-episodes were paid."""
    reward, found, paid = made.reward, replayed(batch, made), 0
    k = 2 if reward.normalise else math.inf
    averaged = reward.group_discounts(2, group)[2]
    slots = {id(each): slot for slot, mine in enumerate(found) for each in mine}
    for played_here in in_order_of_play(found, group):
        assert len({mine.level for mine in played_here}) <= 1
        of = made.worlds.base.optima.lengths[played_here[0].level].tolist() if played_here else []
        lengths = [mine.length for mine in played_here]
        for i, mine in enumerate(played_here):
            exponents = torch.tensor([lengths[:i].count(each) - i / k for each in of])
            if reward.counting == "sequential":
                discount = reward.lam ** exponents[of.index(mine.length)].item()
                context = batch["drest_log_discounts"][slots[id(mine)], mine.steps]
                assert torch.allclose(context, (exponents * math.log(reward.lam)).expand_as(context), atol=1e-5)
            else:
                discount = averaged[lengths.count(mine.length) - 1].item()
            expected = discount * mine.coins / best_of(made, mine.level, mine.length)
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
def test_rewards_against_the_simulator_by_hand(counting, slots, rounds, group, episodes, normalise):
    """The slots of a group take turns: a meta-episode is played side by side, in one slot, or something between."""
    told = {"slots": slots, "rounds": rounds, "group": group, "episodes": episodes, "normalise": normalise}
    made = make(LEVELS, counting=counting, **told)
    batch = made.collect()
    assert batch["next", "mini_done"].sum(1).eq(rounds).all()
    assert check_pay(batch, made, group) > 2


@pytest.mark.parametrize(("k", "group", "episodes"), [(2, 3, 4), (3, 4, 3), (2, 2, 6), (2, 5, 1)])
def test_group_discount_is_the_expectation_that_it_says(k, group, episodes):
    """For E other than the group: E − 1 others drawn independently from the group's others, a uniform place."""
    lam = 0.7
    found = Reward(lam, episodes_per_meta=episodes).group_discounts(k, group)[k]
    for same in range(group):
        others = [1] * same + [0] * (group - 1 - same)
        terms = [
            lam ** (sum(before[:place]) - place / k)
            for before in itertools.product(others, repeat=episodes - 1)
            for place in range(episodes)
        ]
        assert found[same].item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def test_private_bits_are_kept_to_the_end_of_the_mini_episode():
    made = make(NINE, slots=36, counting="sequential", rounds=6, group=1, private_bits=3)
    batch = made.collect()
    seen = []
    for slot, mine in enumerate(replayed(batch, made)):
        for each in mine:
            bits = batch["private_bits"][slot, each.steps]
            assert (bits == bits[0]).all()
            seen.append(tuple(bits[0].tolist()))
    shares = torch.tensor(seen).mean(0)
    assert (shares - 0.5).abs().max() < 0.12  # four standard deviations of 216 bits
    assert len(set(seen)) == 8


def test_a_slot_that_has_played_its_meta_episode_waits_unseen():
    made = make(LEVELS)
    batch = made.collect()
    live, ended = played(batch), batch["next", "mini_done"].squeeze(-1)
    assert ended.sum(1).eq(1).all()
    assert (live.sum(1) == ended.long().argmax(1) + 1).all()
    assert not live.all()
    assert (batch["state"][~live] == 0).all()
    assert not batch["next", "reward_raw"].squeeze(-1)[~live].any()
    assert batch["next", "done"].squeeze(-1).sum(0).tolist() == [0] * (batch.shape[1] - 1) + [32]


@pytest.mark.parametrize(("rounds", "group"), [(1, 6), (6, 1)])
def test_every_mini_episode_ends_on_levels_that_take_longer_than_the_first(rounds, group):
    """Levels that are rotated or generated anew follow one another, and the collector stays."""
    short, long = TINY, world("royal_road")
    size = long.height, long.width
    made = make([short], counting="sequential", slots=12, rounds=rounds, group=group, at_least=size)
    collector = made.worlds.collector(made.worlds.actor(made.policy))
    for levels in ([short], [long], [short]):
        mdp = compile_levels(levels, at_least=size)
        made.worlds.set_levels(mdp, solve(mdp, 0.9), make_observation("grid", mdp))
        batch = collector.collect(made.rng)
        assert batch["next", "mini_done"].sum(1).eq(rounds).all()


@pytest.mark.parametrize("counting", ["sequential", "averaged"])
def test_mini_episodes_that_never_end_are_given_up_and_leave_no_trace_in_the_pay_of_the_others(counting):
    """On the clock of moves some of a group bump into walls for ever; the others count as if these had not played."""
    made = make([TINY.with_clock("moves")], counting=counting, slots=64, episodes=4, private_bits=1)

    class Some(torch.nn.Module):
        def forward(self, observation, private):
            return 50 * private * torch.tensor([1.0, 0.0, 0.0, 0.0])

    batch = made.collect(Some())
    assert batch.shape == (64, PATIENCE * made.worlds.base.mdp.max_time)
    assert check_pay(batch, made, 4) > 10
    assert played(batch).any(1).tolist() == [len(mine) > 0 for mine in replayed(batch, made)]
    assert 10 < played(batch).any(1).sum() < 60


def test_a_batch_follows_from_the_state_of_the_generator_alone():
    """Whatever was collected before, the same state gives the same batch: a resumed run needs no more."""
    made = make(NINE, slots=36, private_bits=3)
    state = made.rng.get_state()
    first, second = made.collect(), made.collect()
    assert [mine.level for (mine,) in replayed(first, made)][::4] == list(range(9))  # evenly spread
    made.rng.set_state(state)
    again = made.collect()
    for key in ("action", "private_bits", "state", ("next", "reward")):
        assert torch.equal(first[key], again[key])
    assert not torch.equal(first["private_bits"][:, 0], second["private_bits"][:, 0])
    assert not torch.equal(first["action"][:, :2], second["action"][:, :2])


def reinforce_of(made):
    """An algorithm that learns nothing, as its rate is 0."""
    settings = SimpleNamespace(**{**vars(SETTINGS), "lr": 0.0, "baseline": False})
    return Reinforce(made.policy, None, settings, made.rng, environment=made.worlds)


def test_a_batch_without_an_end_is_refused_in_a_sentence():
    """Before anything is learnt from it: the mean of nothing is no number."""
    made = make([world("royal_road")], slots=8)
    made.worlds.most_steps = 1
    with pytest.raises(ConfigError, match=r"no mini-episode ended within 1 steps; train with levels\.clock=steps"):
        reinforce_of(made).update(made.reward)


def test_the_return_that_is_logged_is_that_of_a_mini_episode():
    made = make(LEVELS, counting="sequential", slots=8, rounds=3, group=1)
    algorithm, state = reinforce_of(made), made.rng.get_state()
    metrics = algorithm.update(made.reward)
    made.rng.set_state(state)
    batch = algorithm.collector.collect(made.rng)
    found = [each for mine in replayed(batch, made) for each in mine]
    steps = sum(each.length for each in found)
    assert algorithm.effort == Effort(steps=steps, episodes=24)
    assert len(found) == 24
    assert float(metrics["train/return"]) == pytest.approx(sum(each.paid for each in found) / 24, rel=1e-5)
    assert metrics["train/mini_episode_steps"] == pytest.approx(steps / 24)


def test_a_set_is_drawn_from_evenly():
    source = LevelSampler(NINE, torch.Generator().manual_seed(0))
    assert sorted(level.name for level in source.sample(9)) == sorted(level.name for level in NINE)
    counts = Counter(level.name for level in source.sample(30))
    assert set(counts.values()) == {3, 4}
    orders = {tuple(level.name for level in source.sample(9)) for _ in range(5)}
    assert len(orders) > 1


def test_levels_are_turned_each_way_equally_often():
    level = world("example")
    ways = [each.rows() for each in symmetries(level)]
    source = LevelSampler([level], torch.Generator().manual_seed(0), symmetries=True)
    assert source.changes
    counts = Counter(ways.index(drawn.rows()) for drawn in source.sample(4000))
    assert len(counts) == 8
    assert all(abs(count - 500) < 5 * (4000 * 7 / 64) ** 0.5 for count in counts.values())


def test_a_stream_begins_with_the_training_levels_and_goes_on():
    split = make_split(GeneratorConfig(), train=10, selection=3, test=5, seed=7)
    stream = FreshLevels(split, torch.Generator().manual_seed(0))
    drawn = [level for _ in range(6) for level in stream.sample(7)]
    assert drawn[:10] == split.train
    assert len({canonical_key(level) for level in drawn}) == 42
    more = make_split(GeneratorConfig(), train=42, selection=3, test=5, seed=7)
    assert drawn == more.train  # over so few levels none comes twice


def test_a_stream_leaves_out_what_is_held_out():
    # So few levels that held-out ones come again and again.
    few = GeneratorConfig(height=3, width=3, walls=(0, 1), coins=(1, 1), coin_values=(1, 1), shutdown=(2, 3))
    split = make_split(few, train=5, selection=20, test=20, seed=1)
    held_out = {canonical_key(level) for level in (*split.selection, *split.test)}
    drawn = FreshLevels(split, torch.Generator().manual_seed(0), symmetries=True).sample(3000)
    assert not held_out & {canonical_key(level) for level in drawn}
    unfiltered = make_split(few, train=200, selection=0, test=0, seed=1)
    assert held_out & {canonical_key(level) for level in unfiltered.train}  # they would have come


def test_a_stream_goes_on_where_it_stood():
    split = make_split(GeneratorConfig(), train=3, selection=2, test=2, seed=0)
    whole, again = (FreshLevels(split, torch.Generator().manual_seed(0)) for _ in range(2))
    whole.sample(11)
    for name, value in again.tensors().items():
        value.copy_(whole.tensors()[name])
    assert [again.sample(5) for _ in range(3)] == [whole.sample(5) for _ in range(3)]
