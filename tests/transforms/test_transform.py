"""`DReSTReward` tested like TorchRL's transforms, and against the paper in plain Python."""

import math

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import Compose, StepCounter, TransformedEnv, check_env_specs

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from tests.helpers import rules
from tests.helpers.counting import Counting
from tests.helpers.rollouts import played, rollout


def play(env, actions):
    """Play the same actions in every slot; return the steps [*batch, T]."""
    return played(env, [torch.full(env.batch_size, action) for action in actions])


def test_a_batch_without_slots_by_time_is_refused():
    with pytest.raises(ConfigError, match=r"a batch of shape \(2,\) and group=1; expected \[slots, time\]"):
        DReSTReward()(TensorDict({}, batch_size=2))
    with pytest.raises(ConfigError, match="a group that divides the slots"):
        DReSTReward(counting="averaged", group=2)(TensorDict({}, batch_size=(3, 4)))


class Coins(Counting):
    """An environment with rewards of 1. Action 0 ends the mini-episode, others take one more step; three make a
    meta-episode.

    Entries can be nested under ``inner``, or lack the dimension of size 1; ``changed`` are specs.
    """

    def __init__(self, batch=(2,), episodes=3, last=(1,), inner=None, **changed):
        super().__init__(batch)
        self.episodes, self.inner, self.form = episodes, inner, (*batch, *last)
        kinds = {"mini_done": torch.bool, "best_return": torch.float32, "num_lengths": torch.int64, "tick": torch.int64}
        specs = {name: Unbounded(self.form, dtype=kind) for name, kind in kinds.items()}
        specs |= {"mini_len": Categorical(2, shape=self.form, dtype=torch.int64)}
        self.reward_spec = changed.pop("reward", Unbounded((*batch, 1)))
        specs = {name: spec for name, spec in (specs | changed).items() if spec is not None}
        specs = {inner: Composite(specs, shape=batch)} if inner else specs
        self.observation_spec = Composite(observation=Unbounded((*batch, 2)), **specs, shape=batch)
        self.played = torch.zeros_like(self.count)

    def with_entries(self, step, ended, length):
        entries = {"mini_done": ended, "mini_len": length, "best_return": length + 1.0, "tick": self.count}
        entries |= {"num_lengths": torch.full_like(length, 2)}
        entries = {name: value.reshape(self.form) for name, value in entries.items()}
        return step.update({self.inner: entries} if self.inner else entries)

    def _reset(self, tensordict=None, **kwargs):
        self.played = self.played * ~self.chosen(tensordict)
        state, zero = super()._reset(tensordict, **kwargs), torch.zeros_like(self.count)
        return self.with_entries(state, zero.bool(), zero)

    def _step(self, tensordict):
        length, step = self.count, super()._step(tensordict)
        ended = (tensordict["action"].unsqueeze(-1) == 0) | (length == 1)
        self.count, self.played = self.count * ~ended, self.played + ended
        done = self.played == self.episodes
        step.update({"reward": self.reward_spec.one(), "done": done, "terminated": done.clone()})
        return self.with_entries(step, ended, length)


INT8 = {"shape": (2, 1), "dtype": torch.int8}
WRONG = {
    "no end": ({"mini_done": None}, {}, r"'mini_done' \(whether .* no such entry; declare Unbounded.*torch.bool\)"),
    "int8 end": ({"mini_done": Unbounded(**INT8)}, {}, r"'mini_done' .* as torch.int8 of shape \(2, 1\); declare"),
    "wide end": ({"mini_done": Binary(shape=(2, 3), dtype=torch.bool)}, {}, r"bool of shape \(2, 3\)"),
    "no length": ({"mini_len": None}, {}, "'mini_len' .*or give length_key"),
    "float length": ({"mini_len": Unbounded((2, 1))}, {}, "float32 of shape .*dtype=torch.int64"),
    "bool length": ({"mini_len": Binary(shape=(2, 1), dtype=torch.bool)}, {}, "'mini_len' .* as torch.bool"),
    "more lengths": ({"mini_len": Categorical(5, shape=(2, 1))}, {}, "5 lengths .* counts 2; give it num_lengths=5"),
    "no k": ({"num_lengths": None}, {}, "'num_lengths' .*num_lengths_key=None and num_lengths=k"),
    "no m": ({"best_return": None}, {}, "'best_return' .*divide_by_best=False"),
    "no tick": ({"tick": None}, {"gamma": 0.9}, "'tick' .*tick_key=None"),
    "other key": ({}, {"mini_done_key": ("info", "ended")}, r"\('info', 'ended'\)"),
    "other reward": ({"reward": Composite(pay=Unbounded((2, 1)), shape=(2,))}, {}, "reads 'reward'.*no such entry"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_missing_or_wrong_entry_is_refused_at_the_attachment(case):
    changed, arguments, message = WRONG[case]
    for attach in (
        TransformedEnv,
        lambda env, transform: TransformedEnv(env, Compose(StepCounter(), transform)),
        lambda env, transform: TransformedEnv(env, StepCounter()).append_transform(transform),
    ):
        with pytest.raises(ConfigError, match=message):
            attach(Coins(**changed), DReSTReward(**arguments))


IMPOSSIBLE = {"best_return": (0.0, -1.0, math.nan, math.inf), "mini_len": (2, -1), "num_lengths": (0, 3)}


@pytest.mark.parametrize("attached", [True, False], ids=["in an environment", "on a batch"])
@pytest.mark.parametrize(("key", "value"), [(key, value) for key in IMPOSSIBLE for value in IMPOSSIBLE[key]])
def test_impossible_values_at_the_end_are_refused(key, value, attached):
    env, drest = Coins(mini_len=Unbounded((2, 1), dtype=torch.int64)), DReSTReward()
    env._step = lambda td, step=env._step: (out := step(td)).set(key, torch.full_like(out[key], value))
    with pytest.raises(ConfigError, match=f"DReSTReward read {value:g} from '{key}' at the end of a mini-episode"):
        TransformedEnv(env, drest).rollout(4) if attached else drest(env.rollout(4))


@pytest.mark.parametrize("attached", [True, False], ids=["in an environment", "on a batch"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_infinite_reward_is_refused_before_the_payment(value, attached):
    """The reward is in a step before the end of its mini-episode."""
    env, drest = Coins(), DReSTReward()
    env._step = lambda td, step=env._step: (out := step(td)).set("reward", torch.where(out["mini_done"], 1.0, value))
    with pytest.raises(ConfigError, match=f"paid rewards that add up to {value:g} in a mini-episode; mend its reward"):
        play(TransformedEnv(env, drest), [1, 0]) if attached else drest(play(env, [1, 0]))


KEYS = {name: name for name in ("mini_done", "num_lengths", "best_return", "tick")} | {"length": "mini_len"}
PLAN = [0, 1, 0, 0, 1, 1, 1, 0, 0, 1]


@pytest.mark.filterwarnings("error:DReSTReward")  # `check_env_specs` resets before the end
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("last", [(1,), ()], ids=["a dimension of size 1", "none"])
@pytest.mark.parametrize("inner", [None, "info"])
def test_keys_can_be_nested_in_any_batch(batch, last, inner):
    nested = {f"{name}_key": (inner, key) if inner else key for name, key in KEYS.items()}
    env = TransformedEnv(Coins(batch, last=last, inner=inner), DReSTReward(0.5, gamma=0.9, **nested))
    check_env_specs(env)
    paid = play(env, PLAN)["next", "reward"]
    plain = play(TransformedEnv(Coins((1,)), DReSTReward(0.5, gamma=0.9)), PLAN)["next", "reward"]
    assert torch.equal(paid, plain[0].expand_as(paid))
    assert paid.any()


def test_a_meta_episode_of_one_mini_episode_gives_one_warning():
    env = TransformedEnv(Coins((2,), episodes=1), DReSTReward())
    with pytest.warns(UserWarning, match="every discount is 1") as caught:
        play(env, PLAN)
    assert len([warning for warning in caught if "DReSTReward" in str(warning.message)]) == 1


def test_a_counting_rule_needs_the_e_of_the_environment():
    drest = DReSTReward.from_reward(Reward(episodes_per_meta=2, count="tests.helpers.rules:waning"), num_lengths=2)
    with pytest.raises(ConfigError, match=r"reward\.count=.* more than 2 mini-episodes; give"):
        play(TransformedEnv(Coins(), drest), [0, 0, 0])


def test_small_weights_give_no_warning_of_single_episodes(recwarn):
    drest = DReSTReward.from_reward(Reward(episodes_per_meta=3, count="tests.helpers.rules:hundredths"), num_lengths=2)
    play(TransformedEnv(Coins(), drest), PLAN)
    assert not [warning for warning in recwarn if "DReSTReward" in str(warning.message)]


def test_a_reward_keeps_double_precision():
    check_env_specs(TransformedEnv(Coins(reward=Unbounded((2, 1), dtype=torch.float64)), DReSTReward()))


@pytest.mark.parametrize("tick_key", ["tick", None])
@pytest.mark.parametrize(
    "reward",
    [
        Reward(0.9, 1.0, 3),
        Reward(0.5, 0.9, 4, divide_by_best=False),
        Reward(0.5, 1.0, 4, normalise=False),
        Reward(0.1, 0.9, 9, clip=5.0),
        Reward(1.0, 0.95, 4),
        Reward(0.5, 1.0, 5, count="tests.helpers.rules:waning"),
    ],
    ids=str,
)
def test_every_payment_equals_plain_python(reward, tick_key):
    """The levels have different k, and slots have independent counts."""
    slots = 22
    levels = [parse_level(f"shutdown: 1\nC1 A B1\n. . {last}", name=last) for last in (".", "B2")]
    levels += map(world, PAPER_WORLDS)
    counts = torch.ones(9) if reward.count is None else rules.waning(torch.arange(1.0, 10.0))
    env = GridworldEnv(levels, slots, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma)
    paying = TransformedEnv(env, DReSTReward.from_reward(reward, num_lengths=3, tick_key=tick_key))
    after, payments = rollout(paying, 150)["next"], set()
    names = (*KEYS.values(), "reward", "reward_raw", "done")
    for slot in range(slots):
        coins, earlier = [], []
        for values in zip(*(after[name][slot].flatten().tolist() for name in names), strict=True):
            ended, k, m, _, length, paid, raw, done = values
            coins.append(raw)
            expected = 0.0
            if ended:
                weights = counts[: len(earlier)].tolist()[::-1]
                before = sum(weight for weight, other in zip(weights, earlier, strict=True) if other == length)
                exponent = before - (sum(weights) / k if reward.normalise else 0)
                share = sum(c * reward.gamma**tick for tick, c in enumerate(coins))
                share /= (m or 1.0) if reward.divide_by_best else 1.0
                expected = min(reward.lam**exponent * share, reward.clip or math.inf)
                coins = []
                earlier.append(length)
            assert paid == pytest.approx(expected, rel=1e-5)
            assert done == (len(earlier) == reward.episodes_per_meta)
            earlier = [] if done else earlier
            payments.add(round(paid, 5))
    assert len(payments) > 3
