"""Batches of whole mini-episodes: how they are played, how they are paid, and what the policy can see."""

import itertools
import math

import pytest
import torch

from drest_torch.envs.levels import world
from drest_torch.reward import Reward, averaged_discount, group_discount
from tests.helpers.collecting import NINE, TINY, best_of, make, replayed


@pytest.mark.parametrize("normalise", [True, False])
def test_averaged_rewards_against_the_simulator_by_hand(normalise):
    levels = [TINY, world("royal_road"), world("spacious")]
    collector, policy = make(levels, episodes=4, group=4, normalise=normalise)
    batch = collector.collect(policy)
    played = replayed(batch, collector)
    discount = averaged_discount(2 if normalise else math.inf, 4, 0.8)
    for first in range(0, 32, 4):
        group = played[first : first + 4]
        assert len({index for index, _, _ in group}) == 1
        for slot, (index, length, coins) in enumerate(group):
            others = sum(1 for _, other, _ in group if other == length) - 1
            expected = discount[others].item() * coins / best_of(collector, index, length)
            assert batch.reward[first + slot].item() == pytest.approx(expected, rel=1e-5)
    assert batch.reward.count_nonzero() > 2


@pytest.mark.parametrize("normalise", [True, False])
def test_sequential_rewards_against_the_simulator_by_hand(normalise):
    collector, policy = make([TINY], counting="sequential", slots=8, episodes=6, normalise=normalise)
    batch = collector.collect(policy)
    played = replayed(batch, collector)
    assert batch.episodes == 48
    for slot in range(8):
        lengths = []
        for i in range(6):
            index, length, coins = played[i * 8 + slot]
            discount = 0.8 ** (lengths.count(length) - (i / 2 if normalise else 0))
            expected = discount * coins / best_of(collector, index, length)
            assert batch.reward[i * 8 + slot].item() == pytest.approx(expected, rel=1e-5)
            lengths.append(length)
    assert batch.reward.count_nonzero() > 10


def test_default_reward_and_clip():
    collector, policy = make([TINY], lam=1.0, divide_by_best=False)
    batch = collector.collect(policy)
    coins = [coins for _, _, coins in replayed(batch, collector)]
    assert batch.reward.tolist() == pytest.approx(coins, rel=1e-5)
    collector, policy = make([TINY], lam=0.1, clip=0.5)
    paid = collector.collect(policy).reward
    assert paid.max() == 0.5


@pytest.mark.parametrize(("k", "group", "episodes"), [(2, 3, 4), (3, 4, 3), (2, 2, 6), (2, 5, 1)])
def test_group_discount_is_the_expectation_that_it_says(k, group, episodes):
    """For E other than the group: E − 1 others drawn independently from the group's others, a uniform place."""
    lam = 0.7
    found = group_discount(k, group, episodes, lam)
    for same in range(group):
        others = [1] * same + [0] * (group - 1 - same)
        terms = [
            lam ** (sum(before[:place]) - place / k)
            for before in itertools.product(others, repeat=episodes - 1)
            for place in range(episodes)
        ]
        assert found[same].item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def test_group_discount_of_the_whole_meta_episode_is_the_mean_over_orders():
    assert torch.allclose(group_discount(3, 6, 6, 0.9), averaged_discount(3, 6, 0.9).float())


def test_log_probs_are_those_of_the_policy_in_the_state():
    collector, policy = make(NINE, private_bits=2)
    batch = collector.collect(policy)
    with torch.no_grad():
        log_probs = policy(batch.observation, batch.private_bits).log_softmax(-1)[batch.seen]
    expected = log_probs.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(batch.log_prob, expected, atol=1e-6)
    rows = torch.cat((batch.observation.flatten(1), batch.private_bits), dim=-1)
    assert len(rows.unique(dim=0)) == len(rows) < batch.steps


def test_noise_is_kept_to_the_end_of_the_mini_episode():
    collector, policy = make(NINE, private_bits=3)
    batch = collector.collect(policy)
    private_bits = batch.private_bits[batch.seen]
    per_episode = {}
    for episode, row in zip(batch.episode.tolist(), private_bits.tolist(), strict=True):
        assert per_episode.setdefault(episode, row) == row
    assert len({tuple(row) for row in per_episode.values()}) > 4


def test_blocks_hold_steps_of_different_mini_episodes():
    collector, policy = make([TINY], counting="sequential", slots=8, episodes=3)
    batch = collector.collect(policy)
    assert sum(batch.blocks) == batch.steps
    blocks = batch.episode.split(batch.blocks)
    assert all(len(block.unique()) == len(block) for block in blocks)
    assert blocks[0].tolist() == list(range(24))
    assert sorted(batch.episode[batch.ended].tolist()) == list(range(batch.episodes))


def test_mini_episodes_of_a_slot_share_a_level_and_are_counted_in_their_order():
    collector, policy = make(NINE, counting="sequential", slots=9, episodes=5)
    batch = collector.collect(policy)
    played = replayed(batch, collector)
    assert [index for index, _, _ in played] == 5 * [index for index, _, _ in played[:9]]
    assert (batch.context[:9] == 0).all()
    for episode in range(9, 45):
        index, length, _ = played[episode - 9]
        column = collector.optima.lengths[index].tolist().index(length)
        change = batch.context[episode] - batch.context[episode - 9]
        assert change.argmin() == column


def test_same_seed_same_batch_and_levels_evenly_spread():
    one, two, other = (make(NINE, slots=36, seed=seed) for seed in (3, 3, 4))
    first, second, third = (collector.collect(policy) for collector, policy in (one, two, other))
    assert torch.equal(first.action, second.action)
    assert torch.equal(first.reward, second.reward)
    assert not torch.equal(first.reward, third.reward)
    level = one[0]._sample_levels().reshape(9, 4)
    assert level[:, 0].tolist() == list(range(9))


def test_the_policy_cannot_depend_on_the_counts():
    """Mini-episodes look alike: the policy's input is the observation and its noise, and neither moves with counts.

    In a sequential batch the counts differ from round to round. Wherever the same state is met, the policy
    is given the same tensor and so has the same output; the critic is given the counts beside it.
    """
    collector, policy = make([TINY], counting="sequential", slots=64, episodes=8)
    batch = collector.collect(policy)
    assert policy.net.body[0].in_features == collector.observe.scale.expand(collector.observe.shape).numel()
    states = collector.observe(collector.mdp.start, torch.zeros(1, dtype=torch.int64), collector.mdp.shutdown)
    rounds = batch.episode // batch.slots
    at_start = (batch.observation[batch.seen] == states[0]).flatten(1).all(-1)
    assert set(rounds[at_start].tolist()) == set(range(8))
    assert len(batch.context[batch.episode[at_start]].unique(dim=0)) > 8
    inputs = batch.observation[batch.seen[at_start]]
    assert (inputs == inputs[0]).all()
    output = policy(inputs)
    assert (output == output[0]).all()


def test_impossible_groups_are_refused():
    with pytest.raises(ValueError, match="30 slots cannot be grouped by 4"):
        make(NINE, slots=30)
    with pytest.raises(ValueError, match="groups of 1"):
        make(NINE, group=1)
    with pytest.raises(ValueError, match="counting=sideways"):
        make(NINE, counting="sideways")


def test_discounts_beyond_the_largest_float_give_no_nan():
    collector, policy = make([TINY], counting="sequential", slots=4, episodes=400, lam=0.3)
    batch = collector.collect(policy)
    assert batch.context.max() > 100  # whose exponential no float32 holds
    assert batch.context.isfinite().all()
    assert batch.reward.isfinite().all()
    assert (batch.reward == 0).any()


def test_the_incentive_grows_by_equal_factors():
    reward = Reward(0.9, 1.0, 64, episodes_at_start=16)
    assert [reward.at(progress).episodes_per_meta for progress in (0, 0.25, 0.5, 1, 2)] == [16, 23, 32, 64, 64]
    assert Reward(0.9, 1.0, 64).at(0.3) == Reward(0.9, 1.0, 64)


def test_a_collector_pays_by_the_reward_it_is_given():
    """Played alike, from the same seed: as if it had been made with that reward."""
    (changed, policy), (made, _) = make(NINE, episodes=6), make(NINE, episodes=40)
    changed.set_reward(made.reward)
    assert torch.equal(changed.collect(policy).reward, made.collect(policy).reward)


def test_a_collector_plays_on_the_levels_it_is_given():
    (changed, policy), (made, _) = make(NINE), make([world("example").with_clock("moves"), world("spacious")])
    changed.set_levels(made.mdp, made.optima, made.observe)
    one, two = changed.collect(policy), made.collect(policy)
    assert torch.equal(one.observation, two.observation)
    assert torch.equal(one.reward, two.reward)
