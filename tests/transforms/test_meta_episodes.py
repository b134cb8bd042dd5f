"""`MetaEpisodes` and `BestReturn` against values by hand and plain Python."""

import itertools

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torchrl.envs import Compose, ExcludeTransform, TransformedEnv

from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import parse_level
from drest_torch.errors import UserError
from drest_torch.transforms import BestReturn, MetaEpisodes, ShutdownTimer, meta_episodes
from drest_torch.transforms.base import set_seed
from tests.helpers.counting import ACTIONS, Counting, timed
from tests.helpers.rollouts import played

TIMER = {"base": 2, "delays": [1, 3]}


def play(env, actions):
    """Play actions [*batch, T]; return the entries after and before each step [*batch, T]."""
    steps = played(env, actions.unbind(-1))
    return steps["next"], steps.exclude("next")


def chosen(batch, steps, seed=0, count=ACTIONS + 1):
    return torch.randint(count, (*batch, steps), generator=torch.Generator().manual_seed(seed))


def column(data, key):
    return data[key].squeeze(-1).tolist()


def test_mini_episodes_by_hand():
    env = TransformedEnv(Counting((2,), [2, 3]), MetaEpisodes(2))
    after, before = play(env, torch.ones((2, 6), dtype=torch.int64))
    assert column(after, "mini_done") == [[False, True] * 3, [False, False, True] * 2]
    assert column(after, "done")[0] == column(after, "terminated")[0] == [False, False, False, True, False, False]
    assert column(after, "done")[1] == [False] * 5 + [True]
    assert not after["truncated"].any()
    assert column(after, "mini_idx") == [[0, 1, 1, 2, 0, 1], [0, 0, 1, 1, 1, 2]]
    assert column(after, "reward")[0] == [2, 3] * 3
    assert after["observation"][0].tolist() == [[1, 1], [0, 0], [1, 1], [2, 1], [1, 1], [0, 0]]
    assert before["observation"][0, 4].tolist() == [0, 0]


def of_counting(together):
    return TransformedEnv(Counting((6,)), Compose(ShutdownTimer(**TIMER), MetaEpisodes(3, together=together)))


def with_own_mini_episodes(together):
    """Return an environment that has its own mini-episodes."""
    levels = [parse_level(f"shutdown: {time}\nA B2 C1", name=str(time)) for time in (1, 4)]
    env = GridworldEnv(levels, 6, episodes_per_meta=3, seed=5)
    return TransformedEnv(env, MetaEpisodes(1, together=True)) if together else env


@pytest.mark.parametrize("make", [of_counting, with_own_mini_episodes])
def test_slots_wait_for_each_other(make):
    """Every slot plays its mini-episodes as if it were alone, then waits until all slots are done."""
    actions = chosen((6,), 60, seed=2, count=4)
    after, before = play(make(together=True), actions)
    done = after["done"].squeeze(-1)
    assert (done == done[:1]).all()
    ends = done[0].nonzero().flatten().tolist()
    starts, waited = [0, *[end + 1 for end in ends[:-1]]], 0
    for first, last in list(zip(starts, ends, strict=True))[: 1 if make is with_own_mini_episodes else 9]:
        steps = slice(first, last + 1)
        alone, _ = play(make(together=False), actions[:, steps])
        end = alone["done"].squeeze(-1).long().argmax(1)
        waits = torch.arange(last + 1 - first) > end.unsqueeze(1)
        assert end.max() == last - first
        assert torch.equal(before["mini_waits"][:, steps, 0], waits)
        for key in ("mini_done", "mini_len", "reward"):
            assert torch.equal(after[key][:, steps][~waits], alone[key][~waits]), key
        assert not after["mini_done"][:, steps][waits].any()
        assert not after["reward"][:, steps][waits].any()
        assert make is with_own_mini_episodes or (after["mini_idx"][:, steps][waits] == 3).all()
        waited += int(waits.sum())
    assert waited > 5


def test_a_collection_stops_when_all_slots_are_done():
    env = of_counting(together=True)
    td = env.reset()
    for action in chosen((6,), 40).unbind(-1):
        step, td = env.step_and_maybe_reset(td.set("action", action))
        assert env.transform[1].collection_stopped() == bool(step["next", "done"].all())


def test_mini_episodes_that_never_end_are_refused(monkeypatch):
    monkeypatch.setattr(meta_episodes, "MOST_STEPS", 5)
    env = TransformedEnv(Counting((2,), [3, 3]), MetaEpisodes(2))
    env.rollout(12, break_when_any_done=False)
    with pytest.raises(UserError, match="Counting has played 5 steps, but no mini-episode has ended"):
        TransformedEnv(Counting((2,)), MetaEpisodes(2)).rollout(6)


@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize("group", [1, 2])
def test_the_level_is_constant_in_a_meta_episode_of_a_group(group, ended):
    episodes = MetaEpisodes(3, together=group > 1, group=group, levels=[3, 5, 7, 11])
    steps = Compose(ShutdownTimer(**TIMER, ended=ended), episodes)
    env = TransformedEnv(Counting((4,), [2, 3, 1, 50], levels=True), steps)
    set_seed(env, 1)
    after, before = play(env, chosen((4,), 120))
    levels = before["level"].squeeze(-1)
    assert set(levels.flatten().tolist()) == {3, 5, 7, 11}
    done = after["done"][:, :-1, 0]
    assert (done.sum(1) >= 3).all()
    assert not levels.diff()[~done].any()
    assert group == 1 or torch.equal(levels[::2], levels[1::2])
    set_seed(env, 1)
    assert torch.equal(play(env, chosen((4,), 120))[1]["level"].squeeze(-1), levels)


def of_a_timer(best, levels, pay, together):
    """Return an environment with mini-episodes of 2 steps or, with a delay, 3, on one or more levels."""
    meta = MetaEpisodes(5, levels=None if levels == 1 else range(levels), together=together)
    steps = ShutdownTimer(2, [1]), best, meta
    return TransformedEnv(Counting((2,), levels=levels > 1, pay=pay), Compose(*steps))


def announced(best, *_):
    """Return an environment that declares the ends of its own mini-episodes."""
    level = parse_level("shutdown: 2\nA C1 .\nB3 . C2", name="small")
    env = GridworldEnv([level], 2, episodes_per_meta=5)
    return TransformedEnv(env, Compose(ExcludeTransform("best_return"), best))


@settings(max_examples=20)
@given(
    make=st.sampled_from([of_a_timer, announced]),
    levels=st.sampled_from([1, 2]),
    pay=st.sampled_from([1.0, -1.0]),
    fixed=st.sampled_from([{}, {"fixed": [2.5, 40.0]}]),
    gamma=st.sampled_from([1.0, 0.5]),
    together=st.sampled_from([True, False]),
    seed=st.integers(0, 99),
)
# The largest return is of a slot that waits, and so was not played.
@example(make=of_a_timer, levels=2, pay=1.0, fixed={}, gamma=1.0, together=True, seed=35)
def test_m_is_the_largest_return_so_far_or_the_fixed_number(make, levels, pay, fixed, gamma, together, seed):
    """Plain Python records the returns of each level and length, of all slots, up to the end of a mini-episode."""
    if make is announced:
        levels, pay, together = 1, 1.0, False
    floor = min(6 * pay, 0)
    best = BestReturn(2, levels=levels, gamma=gamma, floor=floor, **fixed)
    env, actions = make(best, levels, pay, together), chosen((2,), 40, seed, count=4)
    set_seed(env, seed)
    after, before = play(env, actions)
    if make is of_a_timer and not together:
        for slot, row in enumerate(actions.tolist()):
            plain = timed([(action == ACTIONS, action) for action in row], base=2, delays=[1])
            assert column(after, "reward")[slot] == [pay * reward - floor for _, reward, *_ in plain]
    returns = {place: [] for place in itertools.product(range(levels), range(2))}

    def m(level, length):
        return fixed["fixed"][length] if fixed else max(returns[level, length], default=0.0)

    coins, tick = [0.0, 0.0], [0, 0]
    for time in range(40):
        playing = [slot for slot in range(2) if not (together and before["mini_waits"][slot, time])]
        ended = {}
        for slot in playing:
            coins[slot] += after["reward"][slot, time].item() * gamma ** tick[slot]
            tick[slot] += 1
            if after["mini_done"][slot, time]:
                level = int(before["level_seed"][slot, time]) if levels > 1 else 0
                ended[slot] = level, int(after["mini_len"][slot, time])
                returns[ended[slot]].append(coins[slot])
                coins[slot], tick[slot] = 0.0, 0
        expected = [m(*ended[slot]) or 1.0 if slot in ended else 0.0 for slot in playing]
        assert after["best_return"][playing, time, 0].tolist() == pytest.approx(expected)
    assert best.best.flatten().tolist() == pytest.approx([m(*place) for place in returns])
    assert sum(map(len, returns.values())) > 10
