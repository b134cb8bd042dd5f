"""Payments of collected batches against plain Python, with γ below 1 and distinct numbers everywhere."""

import math

import pytest
import torch
from tensordict import TensorDict

from drest_torch.algos.objectives.base import Objective
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.play.gridworld_slots import Gridworlds, ObjectiveReward
from drest_torch.reward import Reward
from drest_torch.transforms.drest_reward import DReSTReward
from drest_torch.transforms.on_batches import Advance, LogDiscounts
from tests.helpers import rules

pytestmark = pytest.mark.filterwarnings("ignore:DReSTReward.* have not ended when the batch does")
SLOTS, TIME, GROUP = 6, 14, 3


def batch_of(seed):
    """Return steps of mini-episodes of random lengths, the last unfinished, with k of 2 or 3 in each group."""
    rng = torch.Generator().manual_seed(seed)

    def whole(high):
        return torch.randint(high, (SLOTS, TIME, 1), generator=rng)

    k = (2 + torch.arange(SLOTS) // GROUP).reshape(-1, 1, 1).expand(SLOTS, TIME, 1)
    ended = torch.rand((SLOTS, TIME, 1), generator=rng) < 0.3
    ended[:, -1], ended[-1, :] = False, False
    ended[-1, 4] = True
    begins = torch.cat((torch.ones_like(ended[:, :1]), ended[:, :-1]), 1)
    before = {"num_lengths": k.clone(), "tick": whole(5) * ~begins}
    after = {
        "mini_done": ended,
        "mini_len": whole(6) % k,
        "best_return": 1 + torch.rand(k.shape, generator=rng),
        "reward": torch.rand(k.shape, generator=rng),
    }
    return TensorDict({**before, "next": after | {"num_lengths": k.clone()}}, (SLOTS, TIME))


def mini_episodes(batch, reward, tick_key):
    """Return (slot, first, last, coins, length, m, k) of each mini-episode, by group, round by round."""
    after, episodes = batch["next"], [[] for _ in range(SLOTS)]
    for slot in range(SLOTS):
        first = 0
        for last in after["mini_done"][slot].flatten().nonzero().flatten().tolist():
            coins = 0.0
            for time in range(first, last + 1):
                tick = time - first if tick_key is None else int(batch[tick_key][slot, time])
                coins += after["reward"][slot, time].item() * reward.gamma**tick
            length, m = int(after["mini_len"][slot, last]), after["best_return"][slot, last].item()
            episodes[slot].append((slot, first, last, coins, length, m, int(batch["num_lengths"][slot, 0])))
            first = last + 1
    groups = [episodes[first : first + GROUP] for first in range(0, SLOTS, GROUP)]
    return [_by_rounds(slots) for slots in groups]


def _by_rounds(slots):
    """Return the mini-episodes of slots, round by round."""
    return [episode for number in range(TIME) for episodes in slots for episode in episodes[number : number + 1]]


def with_rounds(played):
    """Return pairs of a mini-episode and its round, the number of earlier ones of its slot."""
    return [(episode, sum(other[0] == episode[0] for other in played[:index])) for index, episode in enumerate(played)]


REWARDS = {
    "plain": Reward(0.6, 0.7, GROUP),
    "not normalised": Reward(0.6, 0.9, GROUP, normalise=False),
    "not divided": Reward(0.3, 0.7, GROUP, divide_by_best=False),
    "clipped": Reward(0.2, 1.0, GROUP, clip=0.9),
    "counted": Reward(0.6, 1.0, GROUP, count="tests.helpers.rules:waning"),
}


@pytest.mark.parametrize("tick_key", [None, "tick"])
@pytest.mark.parametrize("name", REWARDS)
def test_a_batch_is_paid_in_order_of_play(name, tick_key):
    reward = REWARDS[name]
    drest = DReSTReward.from_reward(reward, num_lengths=3, group=GROUP, tick_key=tick_key)
    batch = batch_of(4)
    raw = batch["next", "reward"].clone()
    paid = LogDiscounts(drest)(drest(batch))
    expected, count = torch.zeros(SLOTS, TIME), 0
    counts = [1] * 50 if reward.count is None else rules.waning(torch.arange(1.0, 51.0)).tolist()
    for played in mini_episodes(batch_of(4), reward, tick_key):
        for number, (slot, first, last, coins, length, m, k) in enumerate(played):
            before = [0, 0, 0]
            for age, (*_, earlier, _, _) in enumerate(reversed(played[:number])):
                before[earlier] += counts[age]
            index = sum(before)
            exponent = before[length] - (index / k if reward.normalise else 0)
            share = coins / (m if reward.divide_by_best else 1)
            expected[slot, last] = min(reward.lam**exponent * share, reward.clip or math.inf)
            for row in paid["drest_counts"][slot, first : last + 1].tolist():
                assert row == pytest.approx(before)
            normaliser = index / k if reward.normalise else 0
            log_discounts = [(count_before - normaliser) * math.log(reward.lam) for count_before in before]
            for row in paid["drest_log_discounts"][slot, first : last + 1].tolist():
                assert row == pytest.approx(log_discounts, abs=1e-5)
            count += 1
    assert torch.allclose(paid["next", "reward"].squeeze(-1), expected, rtol=1e-4)
    assert torch.equal(paid["next", "reward_raw"], raw)
    assert count > 12
    assert reward.clip is None or (expected == reward.clip).any()


def test_a_batch_is_paid_by_the_others_of_its_round():
    reward = Reward(0.5, 0.7, GROUP, "averaged")
    drest = DReSTReward.from_reward(reward, num_lengths=3, group=GROUP, tick_key=None)
    paid = drest(batch_of(5))["next", "reward"].squeeze(-1)
    expected = torch.zeros(SLOTS, TIME)
    discounts = reward.group_discounts(3, GROUP)
    for played in mini_episodes(batch_of(5), reward, None):
        rounds = with_rounds(played)
        for (slot, _, last, coins, length, m, k), turn in rounds:
            alike = sum(other[4] == length for other, other_turn in rounds if other_turn == turn)
            expected[slot, last] = discounts[k, alike - 1] * coins / m
    assert torch.allclose(paid, expected, rtol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
def test_advanced_rewards_sum_to_the_paid_reward(scaled):
    """Coins are paid at once, divided by the mean of m; the last step pays the difference."""
    drest = DReSTReward.from_reward(Reward(0.6, 0.7, GROUP), num_lengths=3, group=GROUP, tick_key=None)
    batch = drest(batch_of(6))
    paid, raw = batch["next", "reward"].clone().squeeze(-1), batch["next", "reward_raw"].clone().squeeze(-1)
    advanced = Advance(drest, lambda: 2.5, scaled=scaled)(batch)["next", "reward"].squeeze(-1)
    assert torch.equal(batch["next", "reward_raw"].squeeze(-1), raw)
    ended = batch["next", "mini_done"].squeeze(-1)
    assert torch.allclose(advanced[~ended], raw[~ended] / 2.5)
    for played in mini_episodes(batch_of(6), drest.reward, None):
        for slot, first, last, *_ in played:
            total = advanced[slot, first : last + 1].sum().item()
            assert total == pytest.approx(paid[slot, last].item() / (2.5 if scaled else 1), rel=1e-4)


class RecordingObjective(Objective):
    """An objective that pays the index of each mini-episode, and records its arguments."""

    def value(self, outcome):
        raise NotImplementedError

    def pay(self, played):
        self.played = played
        return torch.arange(len(played.coins)) + 1.0


@pytest.mark.parametrize("divides", [True, False])
def test_an_objective_gets_the_mini_episodes_of_each_round(divides):
    reward = Reward(0.5, 0.7, GROUP, "averaged", divide_by_best=divides)
    paying = ObjectiveReward.from_reward(reward, num_lengths=3, group=GROUP, tick_key=None)
    paying.objective = RecordingObjective(None)
    batch = batch_of(5)
    log_prob = -torch.rand((SLOTS, TIME), generator=torch.Generator().manual_seed(2))
    paid = paying(batch.set("action_log_prob", log_prob))["next", "reward"].squeeze(-1)
    outcome, expected = paying.objective.played, torch.zeros(SLOTS, TIME)
    assert len(outcome.coins) // SLOTS > 2
    assert outcome.others == GROUP - 1
    for played in mini_episodes(batch_of(5), reward, None):
        rounds = with_rounds(played)
        for (slot, first, last, coins, length, m, k), turn in rounds:
            place = turn * SLOTS + slot
            alike = sum(other[4] == length for other, other_turn in rounds if other_turn == turn) - 1
            share = coins / m if divides else coins
            steps = slice(first, last + 1)
            assert outcome.coins[place].item() == pytest.approx(coins, rel=1e-4)
            assert outcome.share[place].item() == pytest.approx(share, rel=1e-4)
            assert outcome.log_prob[place].item() == pytest.approx(log_prob[slot, steps].sum().item(), rel=1e-4)
            assert outcome.steps[place] == last + 1 - first
            assert outcome.column[place] == length
            assert outcome.alike[place] == alike
            assert outcome.num_lengths[place] == k
            expected[slot, last] = place + 1
    assert torch.equal(paid, expected)


@pytest.mark.parametrize(("clock", "patience"), [("steps", 1), ("moves", 100)])
def test_the_limit_of_steps_follows_from_the_longest_length(clock, patience):
    mdp = compile_levels([world("royal_road").with_clock(clock), world("example").with_clock(clock)])
    worlds = Gridworlds.on(mdp, solve(mdp), make_observation("grid", mdp), slots=6, rounds=3, group=2)
    assert worlds.most_steps == 3 * mdp.max_time * patience
    assert worlds.base.episodes_per_meta == 3
