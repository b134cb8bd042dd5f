"""The Gymnasium wrappers, checked step by step on an environment that counts, and with Gymnasium's own checks."""

import math
import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.interfaces.gymnasium_wrappers import DReSTWrapper, ShutdownTimerWrapper
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from tests.helpers.counting import timed

VECTOR = spaces.Box(0, 1000, (2,), np.float32)
ASK = 3


class Counting(gymnasium.Env):
    """Counts its steps and shows a random number of its episode; the reward is the action, or its sum."""

    def __init__(self, life=1000, actions=None, observations=VECTOR, rewards=None, truncates=False):
        self.life, self.rewards, self.truncates = life, rewards, truncates
        self.action_space = actions or spaces.Discrete(3)
        self.observation_space = observations
        self.options = []

    def _observation(self):
        seen = np.array([self.count, self.luck], np.float32)
        if isinstance(self.observation_space, spaces.Dict):
            return dict.fromkeys(self.observation_space.spaces, seen)
        return self.count if isinstance(self.observation_space, spaces.Discrete) else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.options.append(options)
        self.count, self.luck = 0, int(self.np_random.integers(1000))
        return self._observation(), {}

    def step(self, action):
        self.count += 1
        reward = float(np.sum(action)) if self.rewards is None else self.rewards
        over = self.count >= self.life
        info = {"count": self.count}
        return self._observation(), reward, over and not self.truncates, over and self.truncates, info


def timer(*arguments, base=3, delays=(2,), **options):
    return ShutdownTimerWrapper(Counting(*arguments), base, delays, **options)


def play(env, actions, seed=0):
    """Return the rewards and the counts of a mini-episode with these actions, which must end with the last."""
    env.reset(seed=seed)
    rewards, counts = [], []
    for i, action in enumerate(actions):
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        counts.append(observation[0])
        assert (terminated, truncated) == (i == len(actions) - 1, False)
    return rewards, counts, info


class Telling(Counting):
    """Shows its steps and the last action, and pays their sum, as the reference of timers has it."""

    def _observation(self):
        return np.array([self.count, self.last], np.float32)

    def reset(self, **options):
        self.last = 0
        return super().reset(**options)

    def step(self, action):
        self.last = action
        observation, _, *ends, info = super().step(action)
        return observation, float(self.count + action), *ends, info


@given(
    st.fixed_dictionaries(
        {
            "base": st.integers(1, 4),
            "delays": st.lists(st.integers(1, 3), min_size=1, max_size=2),
            "window": st.sampled_from((None, 1, 2)),
            "cost": st.sampled_from((0.0, 0.5)),
            "ended": st.sampled_from(("absorb", "restart")),
            "idle": st.sampled_from(("repeat", 1)),
        }
    ),
    st.sampled_from((None, 1, 2, 5)),
    st.booleans(),
    st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=60),
)
def test_a_timer_is_the_reference_whatever_it_is_told(told, end, truncates, steps):
    env = ShutdownTimerWrapper(Telling(end or 1000, truncates=truncates), **told)
    env.reset(seed=0)
    for (ask, action), (seen, reward, clock, used, down) in zip(steps, timed(steps, end=end, **told), strict=True):
        observation, paid, terminated, truncated, info = env.step(ASK if ask else action)
        assert observation in env.observation_space
        assert observation[2:].tolist() == pytest.approx(clock)
        if not (down and told["ended"] == "restart"):  # it may have been restarted already
            assert observation[:2].tolist() == seen
        assert (paid, terminated, truncated) == (pytest.approx(reward), down, False)
        if down:
            assert (info["delays"], info["length_index"]) == (used, used)
            assert info["length"] == told["base"] + sum(told["delays"][:used])
            env.reset()


def test_the_first_action_of_a_space_may_have_another_number():
    env = timer(1000, spaces.Discrete(2, start=5))
    assert env.action_space == spaces.Discrete(3, start=5)
    assert play(env, [7, 6, 7, 5, 5])[0] == [5, 6, 6, 5, 5]
    assert play(timer(base=2, cost=0.5, chance=1e-9), [ASK, ASK])[0] == [-0.5, -0.5]


def test_other_observations_stand_beside_the_timer():
    clock = spaces.Box(0, 1, (5,), np.float32)
    env = timer(1000, None, spaces.Discrete(100))
    assert env.observation_space == spaces.Dict({"observation": spaces.Discrete(100), "timer": clock})
    assert env.reset(seed=0)[0] in env.observation_space
    env = timer(1000, None, spaces.Dict({"a": VECTOR, "b": VECTOR}))
    assert env.observation_space == spaces.Dict({"a": VECTOR, "b": VECTOR, "timer": clock})
    assert env.reset(seed=0)[0] in env.observation_space
    whole = spaces.Box(0, 255, (2,), np.uint8)
    assert timer(1000, None, whole).observation_space.dtype == np.float32


@pytest.mark.parametrize("truncates", [False, True])
def test_an_environment_that_has_ended_is_restarted_with_its_own_stream(truncates):
    env = timer(2, None, VECTOR, None, truncates, base=5, delays=(2,), ended="restart")
    base = Counting()
    lucks = [base.reset(seed=4)[0][1], base.reset()[0][1], base.reset()[0][1]]
    seen = [env.reset(seed=4, options={"a": 1})[0], *[env.step(2)[0] for _ in range(5)]]
    assert [each[0] for each in seen] == [0, 1, 0, 1, 0, 1]
    assert [each[1] for each in seen] == [lucks[i] for i in (0, 0, 1, 1, 2, 2)]
    assert not any(each[-1] for each in seen)
    assert env.unwrapped.options == [{"a": 1}] * 3
    assert play(env, [1] * 5)[0] == [1] * 5


def test_requests_are_granted_by_chance_with_the_seed_and_leave_the_stream_of_the_environment_alone():
    env, sure = (timer(base=1, delays=(1,), chance=chance) for chance in (0.3, 1.0))
    generator = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(1,)))
    for seed in (5, *[None] * 200):
        assert env.reset(seed=seed)[0][1] == sure.reset(seed=seed)[0][1]
        granted = not env.step(ASK)[2]
        assert granted == (generator.random() < 0.3)


def test_a_box_gets_one_more_dimension():
    env = timer(1000, spaces.Box(np.array([-2, 0]), np.array([2, 5]), dtype=np.float64), control="dimension")
    assert env.action_space == spaces.Box(np.array([-2.0, 0, -1]), np.array([2.0, 5, 1]), dtype=np.float64)
    rewards, _, info = play(env, np.array([[1, 2, -1], [1, 0, 0], [-1, 1, 0.1], [0, 0, 1], [2, 5, 1]]))
    assert rewards == [3, 1, 0, 0, 7]
    assert info["length"] == 5


def test_a_function_of_what_is_seen_asks():
    env = timer(control=lambda observation, info: observation[0] == 2 and info["count"] == 2, cost=1.0)
    assert env.action_space == spaces.Discrete(3)
    assert play(env, [1, 1, 1, 1, 1])[0] == [1, 0, 1, 1, 1]
    # it sees the last observation before a restart, and the same one while the environment waits
    seen = []
    env = timer(2, control=lambda observation, info: bool(seen.append(observation[0])), ended="restart")
    play(env, [0] * 3)
    assert seen == [1, 2, 1]
    seen.clear()
    play(timer(2, control=lambda observation, info: bool(seen.append(observation[0]))), [0] * 3)
    assert seen == [1, 2, 2]


def leave(env, times):
    for _ in range(times):
        env.reset()
        env.step(0)
        env.step(0)


def test_a_time_limit_outside_the_timer_is_warned_of_once():
    env = gymnasium.wrappers.TimeLimit(timer(base=3), 2)
    with pytest.warns(UserWarning, match="first 20 mini-episodes .* after 2 steps; put a TimeLimit inside") as caught:
        leave(env, 30)
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
def test_a_mini_episode_that_is_abandoned_now_and_then_is_not_and_one_has_to_begin():
    env = timer(base=3)
    with pytest.raises(ResetNeeded, match=r"Counting: .* call reset\(\) first"):
        env.step(0)
    play(env, [0, 0, 0])
    with pytest.raises(ResetNeeded):
        env.step(0)
    leave(env, 5)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {"base": 0}, "base=0"),
        ((), {"base": 2.5}, "base=2.5"),
        ((), {"delays": [3, 0]}, "delays[1]=0"),
        ((), {"delays": 50}, "delays=50"),
        ((), {"window": 0}, "window=0"),
        ((), {"chance": 0.0}, "chance=0.0"),
        ((), {"chance": 1.1}, "chance=1.1"),
        ((), {"cost": np.inf}, "cost=inf"),
        ((), {"ended": "stop"}, "ended='stop'; expected one of absorb, restart"),
        ((), {"control": "button"}, "control='button'"),
        ((), {"idle": 3}, "idle=3; expected repeat"),
        ((), {"control": "dimension"}, 'Discrete(3); use control="action"'),
        ((1, VECTOR), {}, 'use control="dimension"'),
        ((1, spaces.MultiBinary(2)), {}, "use a function as control"),
        ((1, spaces.Box(0, 9, (2,), int)), {"control": "dimension"}, "use a function as control"),
        ((1, None, spaces.Dict({"timer": VECTOR})), {}, "timer already; rename it"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_in_a_sentence(arguments, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        timer(*arguments, **options)
    assert str(error.value).startswith("Counting: ")


@pytest.mark.parametrize("reward", [np.nan, np.inf])
@pytest.mark.parametrize("wrap", [timer, lambda *arguments: DReSTWrapper(Counting(*arguments), Reward(), lengths=2)])
def test_a_reward_that_is_no_number_is_refused(reward, wrap):
    env = wrap(1000, None, VECTOR, reward)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=f"Counting: a step was rewarded with {reward}; let the environment return"):
        env.step(0)


TWO = Reward(0.8, episodes_per_meta=3)
LONG, SHORT = [ASK, 1, 1, 1, 1], [2, 2, 0]  # C = 4 in 5 steps, and 4 in 3 steps


def paying(reward=TWO, arguments=(), options=(), **others):
    return DReSTWrapper(timer(*arguments, **dict(options)), reward, **{"lengths": 2, **others})


def pays(env, actions, seed=None):
    """Return the reward with the last step and ``info``; every other step must pay 0."""
    rewards, _, info = play(env, actions, seed)
    assert not any(rewards[:-1])
    return rewards[-1], info


@pytest.mark.parametrize("reward", [Reward(0.7, 0.9, 4), Reward(0.5, episodes_per_meta=4, clip=0.6)], ids=str)
def test_payments_are_those_of_the_reward(reward):
    env, other, order = paying(reward, best=[5, 8]), paying(reward, best=[5, 8]), (True, True, False, True)
    rewards = {True: [0, 1, 1, 1, 1], False: SHORT}
    for number, long in enumerate(order * 2):
        before = order[: number % 4]
        coins = sum(c * reward.gamma**t for t, c in enumerate(rewards[long]))
        share = coins / (8.0 if long else 5.0)
        discount = reward.lam ** (before.count(long) - len(before) / 2)
        paid, info = pays(env, LONG if long else SHORT)
        pays(other, LONG)  # each copy keeps its own counts
        assert paid == pytest.approx(min(discount * share, reward.clip or math.inf))
        assert info.pop("count") == info["length"]
        assert info == {
            "coins": pytest.approx(coins),
            "discount": pytest.approx(discount),
            "length": 5 if long else 3,
            "length_index": int(long),
            "delays": int(long),
            "meta_done": number % 4 == 3,
            "share": pytest.approx(share),
        }


def test_the_largest_c_so_far_stands_for_m():
    env = paying(Reward(1.0), best="largest")
    shares = [pays(env, actions)[1]["share"] for actions in ([0, 0, 0], [0, 2, 0], [1, 0, 0], [2, 2, 0], [2, 0, 0])]
    assert shares == [0, 1, 0.5, 1, 0.5]
    assert pays(env, LONG)[0] == 1  # of the other length it is the first
    assert pays(env, [1, 0, 0], seed=0)[0] == 1  # a seed begins everything anew


@pytest.mark.parametrize(("reward", "floor", "coins"), [(-1.0, -2, 3), (np.float32(-0.1), -0.1, 0), (-1.0, 0.0, None)])
def test_floor_lifts_negative_rewards(reward, floor, coins):
    env = paying(TWO, (1000, None, VECTOR, reward), floor=floor)
    if coins is None:
        with pytest.raises(ConfigError, match=r"^Counting: the rewards .* add up to -3, .*; set floor to the smallest"):
            play(env, [0, 0, 0])
    else:
        assert pays(env, [0, 0, 0])[1]["coins"] == coins


def test_an_episode_that_is_abandoned_does_not_count():
    env = paying()
    env.reset(seed=0)
    env.step(2)
    discounts = [pays(env, SHORT, seed)[1]["discount"] for seed in (None, None, 0)]
    assert discounts == pytest.approx([1, 0.8**0.5, 1])


def test_an_environment_may_say_its_length_itself_and_truncate():
    class Own(Counting):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, info | {"which": 1}

    env = DReSTWrapper(Own(life=2, truncates=True), TWO, lengths=2, length_key="which")
    reward, info = pays(env, [2, 2])
    assert (reward, info["length"], info["length_index"]) == (4, 2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": 0}, "lengths=0"),
        ({"best": [5]}, "best has 1 values for 2 lengths"),
        ({"best": [5, 0]}, r"best\[1\]=0"),
        ({"best": "exact"}, "best='exact'"),
        ({"floor": np.nan}, "floor=nan"),
        ({"reward": Reward(counting="averaged")}, "counting=sequential"),
        ({"length_key": "which"}, "Counting: info holds no which at the end"),
        ({"lengths": 1}, "info holds length_index=1 at the end of an episode; .* 0 to 0"),
    ],
)
def test_a_reward_or_a_length_that_cannot_be_paid_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        play(paying(**options), LONG)


@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize(
    ("arguments", "control"),
    [
        ((2,), "action"),
        ((2, spaces.Box(-1, 1, (2,), np.float32)), "dimension"),
        ((2, None, spaces.Dict({"a": VECTOR})), lambda observation, info: observation["a"][1] > 500),
    ],
)
def test_gymnasiums_own_check(arguments, control, ended):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(spec|wrapper applied|symmetric and normalized).*")
        env = timer(*arguments, base=4, delays=(3, 2), control=control, chance=0.5, ended=ended)
        check_env(env)
        floor = {"floor": -2.0} if control == "dimension" else {}
        check_env(DReSTWrapper(env, TWO, lengths=3, best="largest", **floor))


def test_gymnasium_makes_a_wrapped_environment_anew_from_its_spec():
    inner = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), 10, [5], window=4, ended="restart")
    env = DReSTWrapper(inner, Reward(lam=0.8), lengths=2, floor=-1.0)
    again = gymnasium.make(env.spec)
    assert again.spec == env.spec
    assert again.observation_space == env.observation_space
