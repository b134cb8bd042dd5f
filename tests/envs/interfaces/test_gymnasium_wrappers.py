"""The Gymnasium wrappers, checked step by step on an environment that counts, and with Gymnasium's own checks."""

import math
import re
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.interfaces.gymnasium_wrappers import DReSTWrapper, ShutdownTimerWrapper
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from tests.helpers import rules
from tests.helpers.counting import timed

VECTOR = spaces.Box(-9, 1000, (2,), np.float32)
ASK = 3


class Counting(gymnasium.Env):
    """An environment that shows its steps and its last action, and pays their sum, like the reference of timers, or
    ``rewards``."""

    def __init__(self, life=1000, actions=None, observations=VECTOR, rewards=None, truncates=False):
        self.life, self.rewards, self.truncates = life, rewards, truncates
        self.action_space = actions or spaces.Discrete(3)
        self.observation_space = observations
        self.options = []

    def _observation(self):
        seen = np.array([self.count, self.last], np.float32)
        space = self.observation_space
        return dict.fromkeys(space.spaces, seen) if isinstance(space, spaces.Dict) else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.options.append(options)
        self.count, self.last, self.luck = 0, 0, int(self.np_random.integers(1000))
        return self._observation(), {}

    def step(self, action):
        self.count += 1
        self.last = action - self.action_space.start if isinstance(self.action_space, spaces.Discrete) else action[0]
        reward = float(self.count + self.last) if self.rewards is None else self.rewards
        over = self.count >= self.life
        info = {"count": self.count, "last": self.last}
        return self._observation(), reward, over and not self.truncates, over and self.truncates, info


def timer(*arguments, base=3, delays=(2,), **options):
    return ShutdownTimerWrapper(Counting(*arguments), base, delays, **options)


ARGUMENTS = st.fixed_dictionaries(
    {
        "base": st.integers(1, 4),
        "delays": st.lists(st.integers(1, 3), min_size=1, max_size=2),
        "window": st.sampled_from((None, 1, 2)),
        "cost": st.sampled_from((0.0, 0.5)),
        "ended": st.sampled_from(("absorb", "restart")),
    }
)
# The control, the action space of the base environment, and the action from a request and a base action.
CONTROLS = [
    ("action", spaces.Discrete(3, start=5), lambda ask, action: 5 + (ASK if ask else action)),
    ("dimension", spaces.Box(-1, 9, (2,), np.float64), lambda ask, action: np.array([action, 0, 0.1 if ask else 0])),
    # It gets the last observation before a restart, and the repeated one of a waiting environment.
    (lambda seen, info: seen[0] == info["count"] == 2, spaces.Discrete(3, start=-1), lambda ask, action: action - 1),
]


@given(
    ARGUMENTS,
    st.sampled_from(("repeat", 1)),
    st.sampled_from((None, 1, 2, 5)),
    st.booleans(),
    st.sampled_from(CONTROLS),
    st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=60),
)
def test_a_timer_equals_the_reference(arguments, idle, end, truncates, how, steps):
    control, space, action_of = how
    base, reference_idle = Counting(end or 1000, space, truncates=truncates), idle if control == "action" else None
    if callable(control):
        steps = [(lambda seen: seen[0] == 2, action) for _, action in steps]
    env = ShutdownTimerWrapper(base, control=control, idle=idle if idle == "repeat" else 5 + idle, **arguments)
    env.reset(seed=0)
    expected = timed(steps, end=end, idle=reference_idle, **arguments)
    for (ask, action), (seen, reward, clock, used, down) in zip(steps, expected, strict=True):
        observation, paid, terminated, truncated, info = env.step(action_of(ask, action))
        assert observation in env.observation_space
        assert observation[2:].tolist() == pytest.approx(clock)
        if not (down and arguments["ended"] == "restart"):  # it may have been restarted already
            assert observation[:2].tolist() == seen
        assert paid == pytest.approx(reward)
        assert terminated == down
        assert truncated is False
        if down:
            assert info["delays"] == used
            assert info["length_index"] == used
            assert info["length"] == arguments["base"] + sum(arguments["delays"][:used])
            env.reset()


def test_a_restart_continues_the_stream_of_the_environment():
    env, base = timer(2, base=7, ended="restart"), Counting()
    env.reset(seed=4, options={"a": 1})
    for seed in (4, None, None):
        base.reset(seed=seed)
        for _ in range(2):
            assert env.unwrapped.luck == base.luck
            env.step(2)
    assert env.unwrapped.options == [{"a": 1}] * 4


@pytest.mark.filterwarnings("error")
def test_a_time_limit_outside_the_timer_gives_one_warning():
    with pytest.warns(UserWarning, match="first 20 mini-episodes .* after 2 steps; put a TimeLimit inside") as caught:
        abandon(gymnasium.wrappers.TimeLimit(timer(base=3), 2), 30)
    assert len(caught) == 1


def abandon(env, times):
    """Play two steps of each mini-episode."""
    for _ in range(times):
        env.reset()
        env.step(0)
        env.step(0)


@pytest.mark.filterwarnings("error")
def test_later_abandoned_mini_episodes_give_no_warning():
    env = timer(base=3)
    env.reset(seed=0)
    assert [env.step(0)[2] for _ in range(3)] == [False, False, True]
    abandon(env, 30)


def test_a_step_outside_a_mini_episode_needs_a_reset():
    env = timer(base=3)
    with pytest.raises(ResetNeeded, match=r"Counting: .* call reset\(\) first"):
        env.step(0)
    env.reset(seed=0)
    assert [env.step(0)[2] for _ in range(3)] == [False, False, True]
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {"base": 2.5}, "base=2.5"),
        ((), {"delays": [3, 0]}, "delays[1]=0"),
        ((), {"delays": 50}, "delays=50"),
        ((), {"window": 0}, "window=0"),
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
def test_invalid_arguments_are_refused_in_one_sentence(arguments, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        timer(*arguments, **options)
    assert str(error.value).startswith("Counting: ")


@pytest.mark.parametrize("wrap", [timer, lambda *arguments: DReSTWrapper(Counting(*arguments), Reward(), lengths=2)])
def test_a_reward_of_nan_is_refused(wrap):
    env = wrap(1000, None, VECTOR, np.nan)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="Counting: a step was rewarded with nan; let the environment return"):
        env.step(0)


TWO = Reward(0.8, episodes_per_meta=3)


def paying(reward=TWO, arguments=(), **others):
    return DReSTWrapper(timer(*arguments), reward, **{"lengths": 2, **others})


def play(env, actions, seed=None):
    """Return the reward of the last step and its ``info``; every other step must pay 0."""
    env.reset(seed=seed)
    *before, (_, reward, terminated, truncated, info) = map(env.step, actions)
    assert terminated is True
    assert truncated is False
    assert not any(any(step[1:4]) for step in before)
    return reward, info


@given(
    st.builds(
        Reward,
        st.sampled_from((0.5, 0.9)),
        st.sampled_from((1.0, 0.9)),
        st.integers(1, 4),
        clip=st.sampled_from((None, 0.6)),
        count=st.sampled_from((None, "tests.helpers.rules:waning")),
    ),
    st.sampled_from(([5, 8], "largest", None)),
    st.sampled_from((0.0, -1.0)),
    st.lists(st.tuples(st.sampled_from(("long", "short", "left", "anew")), st.integers(0, 2)), max_size=12),
)
def test_payments_equal_the_reward_in_plain_python(reward, best, floor, episodes):
    """Abandoned mini-episodes do not count, a seed restarts the counts, and copies have their own counts."""
    options = {"reward": reward, "best": best, "floor": floor}
    env, other, before, most = paying(**options), paying(**options), [], [0.0, 0.0]
    for kind, action in episodes:
        if kind == "left":
            env.reset()
            env.step(action)
            continue
        if kind == "anew":
            before, most = [], [0.0, 0.0]
        index = int(kind == "long")
        actions = [ASK, *[action] * 4] if index else [action] * 3
        base_actions = [0 if chosen == ASK else chosen for chosen in actions]
        rewards = [tick + chosen - floor for tick, chosen in enumerate(base_actions, 1)]
        coins = sum(paid * reward.gamma**tick for tick, paid in enumerate(rewards))
        most[index] = max(most[index], coins)
        divisor = (most if best == "largest" else best or [1, 1])[index]
        share = coins / divisor if divisor else 0.0
        counts = [1.0] * 3 if reward.count is None else rules.waning(torch.arange(1.0, 4.0)).tolist()
        counts = counts[: len(before)][::-1]
        alike = sum(count for count, earlier in zip(counts, before, strict=True) if earlier == index)
        discount = reward.lam ** (alike - sum(counts) / 2)
        before = [*before, index]
        paid, info = play(env, actions, seed=0 if kind == "anew" else None)
        play(other, [ASK, 0, 0, 0, 0])
        assert paid == pytest.approx(min(discount * share, reward.clip or math.inf))
        share_entry = {} if best is None else {"share": pytest.approx(share)}
        assert info == share_entry | {
            "coins": pytest.approx(coins),
            "discount": pytest.approx(discount),
            "length": len(actions),
            "length_index": index,
            "delays": index,
            "meta_done": len(before) == reward.episodes_per_meta,
            "count": len(actions),
            "last": action,
        }
        before = before if len(before) < reward.episodes_per_meta else []


def test_rounding_below_the_floor_counts_as_the_floor():
    tenth = paying(TWO, (1000, None, VECTOR, np.float32(-0.1)), floor=-0.1)
    assert play(tenth, [0, 0, 0])[1]["coins"] == 0


def test_an_environment_can_end_by_truncation():
    """The environment itself writes the index of its length."""
    env = DReSTWrapper(Counting(life=2, truncates=True), TWO, lengths=2, length_key="last")
    reward, info = play(env, [2, 1])
    assert reward == 6
    assert info["length"] == 2
    assert info["length_index"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arguments": (1000, None, VECTOR, -1.0)}, "^Counting: the rewards .* add up to -5, .*; set floor to the"),
        ({"best": [5]}, "best has 1 values for 2 lengths"),
        ({"best": [5, 0]}, r"best\[1\]=0"),
        ({"best": "exact"}, "best='exact'"),
        ({"reward": Reward(counting="averaged")}, "counting=sequential"),
        ({"length_key": "which"}, "Counting: info holds no which at the end"),
        ({"lengths": 1}, "info holds length_index=1 at the end of an episode; .* 0 to 0"),
    ],
)
def test_an_invalid_reward_or_length_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        play(paying(**options), [ASK, 1, 1, 1, 1])


@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize(
    ("arguments", "control"),
    [
        ((2,), "action"),
        ((2, spaces.Box(-1, 1, (2,), np.float32)), "dimension"),
        ((2, None, spaces.Dict({"a": VECTOR})), lambda observation, info: observation["a"][1] > 0),
    ],
)
def test_gymnasiums_own_check(arguments, control, ended):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(spec|wrapper applied|symmetric and normalized).*")
        env = timer(*arguments, base=4, delays=(3, 2), control=control, ended=ended)
        check_env(env)
        check_env(DReSTWrapper(env, TWO, lengths=3, best="largest"))
