"""MetaEpisodes and m(l) as it is seen: against values by hand and plain Python."""

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
    """Play [*batch, T] actions; what follows them [*batch, T], and what each step begins with."""
    steps = played(env, actions.unbind(-1))
    return steps["next"], steps.exclude("next")


def chosen(batch, steps, seed=0, count=ACTIONS + 1):
    return torch.randint(count, (*batch, steps), generator=torch.Generator().manual_seed(seed))


def column(data, key):
    return data[key].squeeze(-1).tolist()


def test_mini_episodes_by_hand():
    env = TransformedEnv(Counting((2,), [2, 3]), MetaEpisodes(2))
    said, begun = play(env, torch.ones((2, 6), dtype=torch.int64))
    assert column(said, "mini_done") == [[False, True] * 3, [False, False, True] * 2]
    assert column(said, "done")[0] == column(said, "terminated")[0] == [False, False, False, True, False, False]
    assert column(said, "done")[1] == [False] * 5 + [True]
    assert not said["truncated"].any()
    assert column(said, "mini_idx") == [[0, 1, 1, 2, 0, 1], [0, 0, 1, 1, 1, 2]]
    assert column(said, "reward")[0] == [2, 3] * 3
    assert said["observation"][0].tolist() == [[1, 1], [0, 0], [1, 1], [2, 1], [1, 1], [0, 0]]
    assert begun["observation"][0, 4].tolist() == [0, 0]


def of_counting(together):
    return TransformedEnv(Counting((6,)), Compose(ShutdownTimer(**TIMER), MetaEpisodes(3, together=together)))


def with_its_own(together):
    """An environment that has mini-episodes itself."""
    levels = [parse_level(f"shutdown: {time}\nA B2 C1", name=str(time)) for time in (1, 4)]
    env = GridworldEnv(levels, 6, episodes_per_meta=3, seed=5)
    return TransformedEnv(env, MetaEpisodes(1, together=True)) if together else env


@pytest.mark.parametrize("made", [of_counting, with_its_own])
def test_slots_wait_for_one_another(made):
    """Each plays its mini-episodes as it would alone, then waits; all are done in the same step, and begin again."""
    actions = chosen((6,), 60, seed=2, count=4)
    said, begun = play(made(together=True), actions)
    done = said["done"].squeeze(-1)
    assert (done == done[:1]).all()
    ends = done[0].nonzero().flatten().tolist()
    starts, waited = [0, *[end + 1 for end in ends[:-1]]], 0
    for first, last in list(zip(starts, ends, strict=True))[: 1 if made is with_its_own else 9]:
        here = slice(first, last + 1)
        alone, _ = play(made(together=False), actions[:, here])
        end = alone["done"].squeeze(-1).long().argmax(1)
        waits = torch.arange(last + 1 - first) > end.unsqueeze(1)
        assert end.max() == last - first
        assert torch.equal(begun["mini_waits"][:, here, 0], waits)
        for key in ("mini_done", "mini_len", "reward"):
            assert torch.equal(said[key][:, here][~waits], alone[key][~waits]), key
        assert not said["mini_done"][:, here][waits].any()
        assert not said["reward"][:, here][waits].any()
        assert made is with_its_own or (said["mini_idx"][:, here][waits] == 3).all()
        waited += int(waits.sum())
    assert waited > 5


def test_it_says_when_all_slots_are_through():
    env = of_counting(together=True)
    td = env.reset()
    for action in chosen((6,), 40).unbind(-1):
        step, td = env.step_and_maybe_reset(td.set("action", action))
        assert env.transform[1].collection_stopped() == bool(step["next", "done"].all())


def test_mini_episodes_that_never_end_are_refused(monkeypatch):
    monkeypatch.setattr(meta_episodes, "MOST_STEPS", 5)
    env = TransformedEnv(Counting((2,), [3, 3]), MetaEpisodes(2))
    env.rollout(12, break_when_any_done=False)
    with pytest.raises(UserError, match="Counting has played 5 steps, and no mini-episode has ended"):
        TransformedEnv(Counting((2,)), MetaEpisodes(2)).rollout(6)


@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize("group", [1, 2])
def test_a_meta_episode_and_a_group_have_one_level(group, ended):
    episodes = MetaEpisodes(3, together=group > 1, group=group, levels=[3, 5, 7, 11])
    steps = Compose(ShutdownTimer(**TIMER, ended=ended), episodes)
    env = TransformedEnv(Counting((4,), [2, 3, 1, 50], levels=True), steps)
    set_seed(env, 1)
    said, begun = play(env, chosen((4,), 120))
    levels = begun["level"].squeeze(-1)
    assert set(levels.flatten().tolist()) == {3, 5, 7, 11}
    done = said["done"][:, :-1, 0]
    assert (done.sum(1) >= 3).all()
    assert not levels.diff()[~done].any()
    assert group == 1 or torch.equal(levels[::2], levels[1::2])
    set_seed(env, 1)
    assert torch.equal(play(env, chosen((4,), 120))[1]["level"].squeeze(-1), levels)


def of_a_timer(best, levels, pay, together):
    """Mini-episodes of 2 steps or, with a delay, 3, on one of some levels."""
    meta = MetaEpisodes(5, levels=None if levels == 1 else range(levels), together=together)
    steps = ShutdownTimer(2, [1]), best, meta
    return TransformedEnv(Counting((2,), levels=levels > 1, pay=pay), Compose(*steps))


def announced(best, *_):
    """Mini-episodes whose ends the environment announces."""
    level = parse_level("shutdown: 2\nA C1 .\nB3 . C2", name="small")
    env = GridworldEnv([level], 2, episodes_per_meta=5)
    return TransformedEnv(env, Compose(ExcludeTransform("best_return"), best))


@settings(max_examples=20)
@given(
    made=st.sampled_from([of_a_timer, announced]),
    levels=st.sampled_from([1, 2]),
    pay=st.sampled_from([1.0, -1.0]),
    told=st.sampled_from([{}, {"fixed": [2.5, 40.0]}]),
    gamma=st.sampled_from([1.0, 0.5]),
    together=st.sampled_from([True, False]),
    seed=st.integers(0, 99),
)
# The largest return is of a slot that waits, and so was not played.
@example(made=of_a_timer, levels=2, pay=1.0, told={}, gamma=1.0, together=True, seed=35)
def test_m_is_of_returns_that_were_seen_or_what_is_given(made, levels, pay, told, gamma, together, seed):
    """Plain Python: the returns of each level and length, of all slots, up to the end of a mini-episode."""
    if made is announced:
        levels, pay, together = 1, 1.0, False
    floor = min(6 * pay, 0)
    best = BestReturn(2, levels=levels, gamma=gamma, floor=floor, **told)
    env, actions = made(best, levels, pay, together), chosen((2,), 40, seed, count=4)
    set_seed(env, seed)
    said, begun = play(env, actions)
    if made is of_a_timer and not together:
        for slot, row in enumerate(actions.tolist()):
            plain = timed([(action == ACTIONS, action) for action in row], base=2, delays=[1])
            assert column(said, "reward")[slot] == [pay * reward - floor for _, reward, *_ in plain]
    returns = {place: [] for place in itertools.product(range(levels), range(2))}

    def m(level, length):
        return told["fixed"][length] if told else max(returns[level, length], default=0.0)

    coins, tick = [0.0, 0.0], [0, 0]
    for time in range(40):
        playing = [slot for slot in range(2) if not (together and begun["mini_waits"][slot, time])]
        ended = {}
        for slot in playing:
            coins[slot] += said["reward"][slot, time].item() * gamma ** tick[slot]
            tick[slot] += 1
            if said["mini_done"][slot, time]:
                level = int(begun["level_seed"][slot, time]) if levels > 1 else 0
                ended[slot] = level, int(said["mini_len"][slot, time])
                returns[ended[slot]].append(coins[slot])
                coins[slot], tick[slot] = 0.0, 0
        expected = [m(*ended[slot]) or 1.0 if slot in ended else 0.0 for slot in playing]
        assert said["best_return"][playing, time, 0].tolist() == pytest.approx(expected)
    assert best.best.flatten().tolist() == pytest.approx([m(*place) for place in returns])
    assert sum(map(len, returns.values())) > 10
