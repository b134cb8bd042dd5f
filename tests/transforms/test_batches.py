"""What is paid for a collected batch, and shown of it, in plain Python: with γ below 1, and no two numbers alike."""

import math

import pytest
import torch
from tensordict import TensorDict

from drest_torch.reward import Reward
from drest_torch.transforms.drest_reward import DReSTReward
from drest_torch.transforms.on_batches import Advance, LogDiscounts

SLOTS, TIME, GROUP = 6, 14, 3


def batch_of(seed):
    """Return steps of mini-episodes of any length, the last of which has no end, with k of 2 or 3 in each group."""
    rng = torch.Generator().manual_seed(seed)

    def whole(high):
        return torch.randint(high, (SLOTS, TIME, 1), generator=rng)

    k = (2 + torch.arange(SLOTS) // GROUP).reshape(-1, 1, 1).expand(SLOTS, TIME, 1)
    ended = torch.rand((SLOTS, TIME, 1), generator=rng) < 0.3
    ended[:, -1], ended[-1, :] = False, False
    ended[-1, 4] = True
    said = {"num_lengths": k.clone(), "tick": whole(5)}
    after = {
        "mini_done": ended,
        "mini_len": whole(6) % k,
        "best_return": 1 + torch.rand(k.shape, generator=rng),
        "reward": torch.rand(k.shape, generator=rng),
    }
    return TensorDict({**said, "next": after | {"num_lengths": k.clone()}}, (SLOTS, TIME))


def mini_episodes(batch, reward, tick_key):
    """Return (slot, first, last, coins, length, m, k) of each mini-episode, by group, round by round."""
    after, found = batch["next"], [[] for _ in range(SLOTS)]
    for slot in range(SLOTS):
        first = 0
        for last in after["mini_done"][slot].flatten().nonzero().flatten().tolist():
            coins = 0.0
            for time in range(first, last + 1):
                tick = time - first if tick_key is None else int(batch[tick_key][slot, time])
                coins += after["reward"][slot, time].item() * reward.gamma**tick
            length, m = int(after["mini_len"][slot, last]), after["best_return"][slot, last].item()
            found[slot].append((slot, first, last, coins, length, m, int(batch["num_lengths"][slot, 0])))
            first = last + 1
    groups = [found[first : first + GROUP] for first in range(0, SLOTS, GROUP)]
    return [
        [turn for number in range(TIME) for mine in slots for turn in mine[number : number + 1]] for slots in groups
    ]


REWARDS = {
    "plain": Reward(0.6, 0.7, GROUP),
    "not normalised": Reward(0.6, 0.9, GROUP, normalise=False),
    "not divided": Reward(0.3, 0.7, GROUP, divide_by_best=False),
    "clipped": Reward(0.2, 1.0, GROUP, clip=0.9),
}


@pytest.mark.parametrize("tick_key", [None, "tick"])
@pytest.mark.parametrize("name", REWARDS)
def test_a_batch_is_paid_in_order_of_play(name, tick_key):
    reward = REWARDS[name]
    drest = DReSTReward.of(reward, num_lengths=3, group=GROUP, tick_key=tick_key)
    batch = batch_of(4)
    raw = batch["next", "reward"].clone()
    paid = LogDiscounts(drest)(drest(batch))
    expected, count = torch.zeros(SLOTS, TIME), 0
    for played in mini_episodes(batch_of(4), reward, tick_key):
        before = [0, 0, 0]
        for index, (slot, first, last, coins, length, m, k) in enumerate(played):
            exponent = before[length] - (index / k if reward.normalise else 0)
            share = coins / (m if reward.divide_by_best else 1)
            expected[slot, last] = min(reward.lam**exponent * share, reward.clip or math.inf)
            assert paid["drest_counts"][slot, first : last + 1].tolist() == [before] * (last + 1 - first)
            shown = [(each - (index / k if reward.normalise else 0)) * math.log(reward.lam) for each in before]
            for row in paid["drest_log_discounts"][slot, first : last + 1].tolist():
                assert row == pytest.approx(shown, abs=1e-5)
            before[length] += 1
            count += 1
    assert torch.allclose(paid["next", "reward"].squeeze(-1), expected, rtol=1e-4)
    assert torch.equal(paid["next", "reward_raw"], raw)
    assert count > 12
    assert reward.clip is None or (expected == reward.clip).any()


def test_a_batch_is_paid_by_the_others_of_its_round():
    reward = Reward(0.5, 0.7, GROUP, "averaged")
    drest = DReSTReward.of(reward, num_lengths=3, group=GROUP, tick_key=None)
    paid = drest(batch_of(5))["next", "reward"].squeeze(-1)
    expected = torch.zeros(SLOTS, TIME)
    discounts = reward.group_discounts(3, GROUP)
    for played in mini_episodes(batch_of(5), reward, None):
        turns = [sum(other[0] == mine[0] for other in played[:index]) for index, mine in enumerate(played)]
        for (slot, _, last, coins, length, m, k), turn in zip(played, turns, strict=True):
            alike = sum(other[4] == length for other, its in zip(played, turns, strict=True) if its == turn)
            expected[slot, last] = discounts[k, alike - 1] * coins / m
    assert torch.allclose(paid, expected, rtol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
def test_rewards_in_advance_have_the_sum_that_is_paid(scaled):
    """Each is paid at once, over the mean of m, and the end settles the rest; what has no end is paid so, too."""
    drest = DReSTReward.of(Reward(0.6, 0.7, GROUP), num_lengths=3, group=GROUP, tick_key=None)
    batch = drest(batch_of(6))
    paid, raw = batch["next", "reward"].clone().squeeze(-1), batch["next", "reward_raw"].clone().squeeze(-1)
    told = Advance(drest, lambda: 2.5, scaled=scaled)(batch)["next", "reward"].squeeze(-1)
    assert torch.equal(batch["next", "reward_raw"].squeeze(-1), raw)
    ended = batch["next", "mini_done"].squeeze(-1)
    assert torch.allclose(told[~ended], raw[~ended] / 2.5)
    for played in mini_episodes(batch_of(6), drest.reward, None):
        for slot, first, last, *_ in played:
            total = told[slot, first : last + 1].sum().item()
            assert total == pytest.approx(paid[slot, last].item() / (2.5 if scaled else 1), rel=1e-4)
