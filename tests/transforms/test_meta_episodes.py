"""MetaEpisodes, m(l) as it is seen, and averaged counting: against values by hand and plain Python."""

import math

import pytest
import torch
from torchrl.envs import Compose, ExcludeTransform, TransformedEnv, check_env_specs

from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import parse_level
from drest_torch.errors import ConfigError, UserError
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, DReSTReward, MetaEpisodes, ShutdownTimer, meta_episodes
from drest_torch.transforms.base import set_seed
from tests.helpers.counting import ACTIONS, Counting
from tests.helpers.paymaster import Paymaster

TIMER = {"base": 2, "delays": [1, 3]}


def play(env, actions):
    """Play [*batch, T] actions; the steps stacked [*batch, T], and what each begins with."""
    td, steps, begun = env.reset(), [], []
    for action in actions.unbind(-1):
        step, td = env.step_and_maybe_reset(td.set("action", action))
        begun.append(step.exclude("next").clone())
        steps.append(step["next"].clone())
    return torch.stack(steps, -1), torch.stack(begun, -1)


def chosen(batch, steps, seed=0, count=ACTIONS + 1):
    return torch.randint(count, (*batch, steps), generator=torch.Generator().manual_seed(seed))


def column(data, key):
    return data[key].squeeze(-1).tolist()


# ------------------------------------------------------------------------------------ mini-episodes


def test_mini_episodes_by_hand():
    env = TransformedEnv(Counting((2,), [2, 3]), MetaEpisodes(2))
    said, begun = play(env, torch.ones((2, 6), dtype=torch.int64))
    assert column(said, "mini_done")[0] == [False, True] * 3
    assert column(said, "done")[0] == column(said, "terminated")[0] == [False, False, False, True, False, False]
    assert column(said, "mini_idx")[0] == [0, 1, 1, 2, 0, 1]
    assert column(said, "reward")[0] == [2, 3] * 3
    assert said["observation"][0].tolist() == [[1, 1], [0, 0], [1, 1], [2, 1], [1, 1], [0, 0]]
    assert begun["observation"][0, 4].tolist() == [0, 0]
    assert column(said, "mini_done")[1] == [False, False, True] * 2
    assert column(said, "done")[1] == [False] * 5 + [True]
    assert not said["truncated"].any()
    assert column(said, "mini_idx")[1] == [0, 0, 1, 1, 1, 2]


def test_what_describes_the_mini_episode_that_has_ended_is_kept():
    steps = Compose(ShutdownTimer(**TIMER), BestReturn(3, given=[5, 7, 9]), MetaEpisodes(3))
    said, _ = play(TransformedEnv(Counting(), steps), torch.tensor([3, 0, 0, 0, 0, 3, 3, 3, 0, 0, 0]))
    ends = said["mini_done"].squeeze(-1)
    assert ends.nonzero().flatten().tolist() == [2, 4, 10]
    assert column(said[ends], "mini_len") == [1, 0, 2]
    assert column(said[ends], "best_return") == [7, 5, 9]
    assert not said["best_return"][~ends].any()
    assert column(said[ends], "tick") == [0, 0, 6]  # of the next mini-episode, which begins in the same step
    assert column(said, "done") == [False] * 10 + [True]


def meta(batch=(2,), ends=4, *, together=False, group=1, levels=None, **timer):
    episodes = MetaEpisodes(3, together=together, group=group, levels=levels)
    steps = [ShutdownTimer(**TIMER | timer), BestReturn(3), episodes]
    steps.append(DReSTReward.of(Reward(0.5), num_lengths=3, num_lengths_key=None))
    return TransformedEnv(Counting(batch, ends, levels=levels is not None), Compose(*steps))


# ------------------------------------------------------------------------------------ together


def test_slots_wait_for_one_another():
    """Each plays its mini-episodes as it would alone, then waits; all are done in the same step, and begin again."""
    slots, episodes, steps = 4, 3, 60
    actions = chosen((slots,), steps, seed=2)
    meta_episodes = MetaEpisodes(episodes, together=True)
    env = TransformedEnv(Counting((slots,)), Compose(ShutdownTimer(**TIMER), meta_episodes))
    said, begun = play(env, actions)
    done, ended = said["done"].squeeze(-1), said["mini_done"].squeeze(-1)
    assert (done == done[:1]).all()
    ends = done[0].nonzero().flatten().tolist()
    assert len(ends) > 2
    waited = 0
    for first, last in zip([0, *[end + 1 for end in ends[:-1]]], ends, strict=True):
        over = []
        for slot in range(slots):
            env_alone = TransformedEnv(Counting((1,)), Compose(ShutdownTimer(**TIMER), MetaEpisodes(episodes)))
            alone, _ = play(env_alone, actions[slot : slot + 1, first : last + 1])
            end = int(alone["done"][0, :, 0].nonzero()[0])
            over.append(end)
            for key in ("mini_done", "mini_len", "mini_idx", "reward"):
                assert torch.equal(said[key][slot, first : first + end + 1], alone[key][0, : end + 1]), key
            waits = begun["mini_waits"][slot, first : last + 1, 0]
            assert waits.tolist() == [tick > end for tick in range(last - first + 1)]
            assert not ended[slot, first : last + 1][waits].any()
            assert not said["reward"][slot, first : last + 1, 0][waits].any()
            assert (said["mini_idx"][slot, first + end : last + 1, 0] == episodes).all()
            waited += int(waits.sum())
        assert max(over) == last - first
    assert waited > 5


def test_it_says_when_all_slots_are_through():
    env = meta(together=True)
    episodes = next(part for part in env.transform if isinstance(part, MetaEpisodes))
    td = env.reset()
    found = []
    for action in chosen((2,), 40).unbind(-1):
        step, td = env.step_and_maybe_reset(td.set("action", action))
        found.append(episodes.collection_stopped() == bool(step["next", "done"].all()))
    assert all(found)


def test_mini_episodes_that_never_end_are_refused(monkeypatch):
    monkeypatch.setattr(meta_episodes, "MOST_STEPS", 5)
    env = TransformedEnv(Counting((2,), [3, 3]), MetaEpisodes(2))
    env.rollout(12, break_when_any_done=False)
    with pytest.raises(UserError, match="Counting has played 5 steps, and no mini-episode has ended"):
        TransformedEnv(Counting((2,)), MetaEpisodes(2)).rollout(6)


def test_an_environment_with_mini_episodes_of_its_own_can_be_made_to_wait():
    levels = [parse_level(f"shutdown: {time}\nA B2 C1", name=str(time)) for time in (1, 4)]
    alone = GridworldEnv(levels, 6, episodes_per_meta=3, seed=5)
    env = TransformedEnv(GridworldEnv(levels, 6, episodes_per_meta=3, seed=5), MetaEpisodes(1, together=True))
    actions = chosen((6,), 30, count=4)
    said, begun = play(env, actions)
    own, _ = play(alone, actions)
    last = int(said["done"][0, :, 0].nonzero()[0])
    for slot in range(6):
        end = int(own["done"][slot, :, 0].nonzero()[0])
        assert end <= last
        for key in ("mini_done", "mini_len", "reward"):
            assert torch.equal(said[key][slot, : end + 1], own[key][slot, : end + 1]), key
        assert not said["mini_done"][slot, end + 1 : last + 1].any()
        assert begun["mini_waits"][slot, : last + 1, 0].tolist() == [tick > end for tick in range(last + 1)]
    assert max(int(own["done"][slot, :, 0].nonzero()[0]) for slot in range(6)) == last
    with pytest.raises(ConfigError, match="plays mini-episodes of its own"):
        TransformedEnv(GridworldEnv(levels, 6), MetaEpisodes(3))


# ------------------------------------------------------------------------------------ levels


@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize("group", [1, 2])
def test_a_meta_episode_and_a_group_have_one_level(group, ended):
    env = meta((4,), [2, 3, 1, 50], together=group > 1, group=group, levels=[3, 5, 7, 11], ended=ended)
    set_seed(env, 1)
    said, begun = play(env, chosen((4,), 120))
    levels = begun["level"].squeeze(-1)
    assert set(levels.flatten().tolist()) == {3, 5, 7, 11}
    for slot in range(4):
        done = said["done"][slot, :, 0]
        number = torch.cat((torch.zeros(1), done[:-1].cumsum(0))).long()
        for meta_episode in range(int(number.max()) + 1):
            assert len(levels[slot, number == meta_episode].unique()) == 1
        assert number.max() > 2
    if group == 2:
        assert torch.equal(levels[0], levels[1])
        assert torch.equal(levels[2], levels[3])
    set_seed(env, 1)
    assert torch.equal(play(env, chosen((4,), 120))[1]["level"].squeeze(-1), levels)


# ------------------------------------------------------------------------------------ averaged counting


def averaged(reward, group, actions, groups=2, episodes=4):
    """What slots are paid that play these actions [slots, time], by the transform, on the batch."""
    steps = ShutdownTimer(**TIMER), BestReturn(3, given=[4.0, 8.0, 30.0]), MetaEpisodes(episodes, together=True)
    said, begun = play(TransformedEnv(Counting((group * groups,)), Compose(*steps)), actions)
    batch = begun.set("next", said)
    return DReSTReward.of(reward, num_lengths=3, num_lengths_key=None, group=group)(batch)["next"]


def mini_episodes(said):
    """The length, the return, the reward and the number of the step of each mini-episode [slots, rounds]."""
    ends = said["mini_done"].squeeze(-1)
    rounds = int(ends.sum(-1).min())
    place = torch.stack([row.nonzero().flatten()[:rounds] for row in ends])
    total = torch.nn.functional.pad(said["reward_raw"].squeeze(-1).cumsum(-1).gather(1, place), (1, 0)).diff(dim=-1)
    return (said["mini_len"].squeeze(-1).gather(1, place), total, said["reward"].squeeze(-1).gather(1, place))


@pytest.mark.parametrize("episodes_per_meta", [4, 64])
@pytest.mark.parametrize("divide_by_best", [True, False])
def test_averaged_counting_pays_as_the_paymaster(divide_by_best, episodes_per_meta):
    group, slots = 4, 8
    reward = Reward(0.8, 1.0, episodes_per_meta, "averaged", divide_by_best=divide_by_best)
    said = averaged(reward, group, chosen((slots,), 150))
    length, total, paid = mini_episodes(said)
    assert not said["reward"][~said["mini_done"]].any()
    paymaster = Paymaster(reward, slots, 3, group=group)
    assert len(length.T) > 20
    best = torch.tensor([4.0, 8.0, 30.0])
    for column_now, coins, reward_now in zip(length.T, total.T, paid.T, strict=True):
        expected, _ = paymaster.pay(coins, column_now, torch.full((slots,), 3), best[column_now])
        torch.testing.assert_close(reward_now, expected)


def test_what_pays_a_batch_is_refused_in_an_environment():
    steps = (ShutdownTimer(2, [1]), MetaEpisodes(3), BestReturn(2))
    pays = DReSTReward.of(Reward(counting="averaged"), num_lengths=2, num_lengths_key=None, group=2)
    with pytest.raises(ConfigError, match="pays for a collected batch, and not in an environment; give it to a coll"):
        TransformedEnv(Counting((2,)), Compose(*steps, pays))


# ------------------------------------------------------------------------------------ m(l)


def seen(batch=(), pay=1.0, **arguments):
    best = BestReturn(2, **arguments)
    return TransformedEnv(Counting(batch, pay=pay), Compose(ShutdownTimer(2, [1]), best, MetaEpisodes(100))), best


def best_by_hand(said, gamma=1.0, floor=0.0):
    """The length and the return of every mini-episode, in order, from the rewards as they are paid."""
    found, coins, tick = [], 0.0, 0
    for reward, length, ended in zip(*(column(said, key) for key in ("reward", "mini_len", "mini_done")), strict=True):
        coins, tick = coins + reward * gamma**tick, tick + 1
        if ended:
            found.append((length, coins))
            coins, tick = 0.0, 0
    return found


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_the_largest_return_so_far(gamma):
    env, best = seen(gamma=gamma)
    said, _ = play(env, chosen((), 60))
    largest, returns = [0.0, 0.0], best_by_hand(said, gamma)
    announced = column(said[said["mini_done"].squeeze(-1)], "best_return")
    for (length, coins), value in zip(returns, announced, strict=True):
        largest[length] = max(largest[length], coins)
        assert value == pytest.approx(largest[length])
    assert best.best[0].tolist() == pytest.approx(largest)
    assert min(largest) > 0


def test_a_quantile_of_the_last_returns():
    env, _ = seen(quantile=0.7, window=5)
    said, _ = play(env, chosen((), 90))
    last = {0: [], 1: []}
    announced = column(said[said["mini_done"].squeeze(-1)], "best_return")
    for (length, coins), value in zip(best_by_hand(said), announced, strict=True):
        last[length].append(coins)
        assert value == pytest.approx(torch.tensor(last[length][-5:]).quantile(0.7).item())
    assert min(len(values) for values in last.values()) > 8


def test_m_is_what_is_given():
    env, best = seen(given=[2.5, 40.0])
    said, _ = play(env, chosen((), 60))
    ends = said["mini_done"].squeeze(-1)
    assert column(said[ends], "best_return") == [[2.5, 40.0][length] for length in column(said[ends], "mini_len")]
    assert best.best[0].tolist() == [2.5, 40.0]


def test_ends_of_mini_episodes_that_the_environment_announces():
    level = parse_level("shutdown: 2\nA C1 .\nB3 . C2", name="small")
    best = BestReturn(2)
    env = TransformedEnv(GridworldEnv([level], 3, episodes_per_meta=5), Compose(ExcludeTransform("best_return"), best))
    check_env_specs(env)
    said, _ = play(env, chosen((3,), 60, count=4))
    largest = [0.0, 0.0]
    for slot in said:
        for length, coins in best_by_hand(slot):
            largest[length] = max(largest[length], coins)
    assert best.best[0].tolist() == largest
    assert min(largest) > 0


def test_slots_share_what_was_seen():
    env, _ = seen((2,))
    said, _ = play(env, torch.tensor([[2, 2, 0, 0], [0, 0, 0, 0]]))
    assert column(said, "best_return") == [[0, 7, 0, 7]] * 2


def test_a_floor_makes_returns_positive():
    env, best = seen(pay=-1.0, floor=-6.0)
    said, _ = play(env, torch.tensor([2, 0, 0, 0]))
    assert column(said, "reward") == [3, 4, 5, 4]
    assert best.best[0].tolist() == [9, 0]


def test_a_negative_return_is_refused():
    env, _ = seen(pay=-1.0)
    with pytest.raises(ConfigError, match=r"mini-episode of Counting was -3 above a floor of 0 .*set `floor`"):
        play(env, torch.tensor([0, 0]))


@pytest.mark.parametrize("pay", [math.nan, -math.inf])
def test_a_reward_that_is_no_number_is_refused(pay):
    env = TransformedEnv(Counting(pay=pay), Compose(MiniLength(), BestReturn(1)))
    with pytest.raises(ConfigError, match="Counting paid a reward of NaN or infinity"):
        env.rollout(2)


class MiniLength(ShutdownTimer):
    """Declares a length, and leaves the environment as it is."""

    def __init__(self):
        super().__init__(1000)

    def _step(self, tensordict, next_tensordict):
        return next_tensordict.set("mini_len", tensordict["mini_len"])


@pytest.mark.parametrize(("levels", "message"), [(None, "is on no level"), ([0, 5], "is on level 5; use MetaEpisodes")])
def test_levels_without_an_m_are_refused(levels, message):
    steps = Compose(ShutdownTimer(2), BestReturn(1, levels=2), MetaEpisodes(2, levels=levels))
    with pytest.raises(ConfigError, match=message):
        TransformedEnv(Counting((8,), levels=True), steps).rollout(9)


@pytest.mark.parametrize("arguments", [{}, {"quantile": 0.5, "window": 4}], ids=str)
def test_what_was_seen_is_saved_and_restored(arguments):
    env, best = seen(**arguments)
    play(env, chosen((), 40))
    other, restored = seen(**arguments)
    restored.load_state_dict(best.state_dict())
    actions = chosen((), 40, seed=1)
    assert torch.equal(play(other, actions)[0]["best_return"], play(env, actions)[0]["best_return"])
    assert not torch.equal(play(seen(**arguments)[0], actions)[0]["best_return"], play(env, actions)[0]["best_return"])


def test_each_level_has_a_best_return_of_its_own():
    """Brute force: the largest return of each level and length that was seen up to the end of a mini-episode."""
    torch.manual_seed(0)
    steps = (ShutdownTimer(3, [2]), MetaEpisodes(4, levels=[0, 1, 2]), BestReturn(2, levels=3))
    env = TransformedEnv(Counting((6,), levels=True), Compose(*steps))
    batch = env.rollout(40, break_when_any_done=False)
    after, best = batch["next"], torch.zeros(3, 2)
    paid = torch.zeros(6)
    for time in range(40):
        paid += after["reward"][:, time, 0]
        ended = after["mini_done"][:, time, 0]
        where = batch["level_seed"][:, time, 0], after["mini_len"][:, time, 0]
        for slot in ended.nonzero().flatten().tolist():
            place = where[0][slot], where[1][slot]
            best[place] = max(best[place], paid[slot])
        for slot in ended.nonzero().flatten().tolist():
            assert after["best_return"][slot, time, 0] == best[where[0][slot], where[1][slot]]
        paid *= ~ended
    assert torch.equal(env.transform[2].best, best)
    assert len(best[:, 0].unique()) == 3  # levels differ, so that one m for all would be wrong
