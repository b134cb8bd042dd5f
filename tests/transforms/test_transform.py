"""DReSTReward in the way TorchRL tests its transforms, and against the paper by hand."""

import itertools
import math

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Categorical, Composite, OneHot, Unbounded
from torchrl.envs import Compose, EnvBase, RenameTransform, RewardSum, StepCounter, TransformedEnv, check_env_specs

from drest_torch import DReSTReward
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import optimal_route
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, MetaEpisodes, OwnLengths, PrivateBits, ShutdownTimer
from tests.helpers.counting import Counting
from tests.helpers.paymaster import Paymaster

NINE = [world(name) for name in PAPER_WORLDS]
LAM = 0.9


def make(levels=NINE, slots=4, episodes=3, gamma=1.0, observation="grid", **kwargs):
    env = GridworldEnv(levels, slots, episodes_per_meta=episodes, gamma=gamma, observation=observation)
    return TransformedEnv(env, DReSTReward(gamma=gamma, num_lengths=env.optima.lengths.shape[1], **kwargs))


def play(env, actions):
    """Play the same actions in every slot; the steps stacked [*batch, T]."""
    td, steps = env.reset(), []
    for action in actions:
        td.set("action", torch.full(env.batch_size, action))
        step, td = env.step_and_maybe_reset(td)
        steps.append(step.clone())
    return torch.stack(steps, dim=-1)


def test_a_batch_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"a batch of shape \(2,\) and group=1; expected \[slots, time\]"):
        DReSTReward()(TensorDict({}, batch_size=2))
    with pytest.raises(ConfigError, match="a group that divides the slots"):
        DReSTReward(counting="averaged", group=2)(TensorDict({}, batch_size=(3, 4)))


# ---------------------------------------------------------------------------- what the environment declares


class Coins(EnvBase):
    """Pays 1 a step. Action 0 ends the mini-episode, action 1 goes on for one step more; ``batch`` may be empty."""

    def __init__(self, batch=(2,), episodes=3, last=(1,), inner=None, **changed):
        super().__init__(batch_size=torch.Size(batch))
        self.episodes, self.last, self.inner = episodes, last, inner
        batch = tuple(batch)
        announced = {
            "mini_done": Binary(shape=(*batch, *last), dtype=torch.bool),
            "mini_len": Categorical(2, shape=(*batch, *last), dtype=torch.int64),
            "best_return": Unbounded((*batch, *last)),
            "num_lengths": Unbounded((*batch, *last), dtype=torch.int64),
            "tick": Unbounded((*batch, *last), dtype=torch.int64),
        }
        announced |= changed
        self.reward_spec = announced.pop("reward", Unbounded((*batch, 1)))
        announced = {name: spec for name, spec in announced.items() if spec is not None}
        shown = {inner: Composite(announced, shape=batch)} if inner else announced
        self.observation_spec = Composite(observation=Unbounded((*batch, 1)), **shown, shape=batch)
        self.action_spec = Categorical(2, shape=batch, dtype=torch.int64)
        flag = Binary(shape=(*batch, 1), dtype=torch.bool)
        self.full_done_spec = Composite(done=flag, terminated=flag.clone(), shape=batch)
        self.tick = self.played = torch.zeros((*batch, 1), dtype=torch.int64)

    def _set_seed(self, seed):
        pass

    def _entries(self, ended, length):
        announced = {
            "mini_done": ended,
            "mini_len": length,
            "best_return": length + 1.0,
            "num_lengths": torch.full_like(length, 2),
            "tick": self.tick,
        }
        announced = {name: value.reshape((*self.batch_size, *self.last)) for name, value in announced.items()}
        announced = {self.inner: announced} if self.inner else announced
        return TensorDict({"observation": self.tick.float(), **announced}, batch_size=self.batch_size)

    def _reset(self, tensordict=None, **kwargs):
        whole = torch.ones_like(self.tick, dtype=torch.bool)
        stays = ~(whole if tensordict is None else tensordict.get("_reset", whole).reshape(whole.shape))
        self.tick, self.played = self.tick * stays, self.played * stays
        return self._entries(torch.zeros_like(whole), torch.zeros_like(self.tick))

    def _step(self, tensordict):
        ended = (tensordict["action"].unsqueeze(-1) == 0) | (self.tick == 1)
        length = self.tick
        self.tick, self.played = (self.tick + 1) * ~ended, self.played + ended
        done = self.played == self.episodes
        step = {"reward": torch.ones_like(self.tick).float(), "done": done, "terminated": done.clone()}
        return self._entries(ended, length).update(step)


INT8 = {"shape": (2, 1), "dtype": torch.int8}
WRONG = {
    "no end": ({"mini_done": None}, {}, r"'mini_done' \(whether this step ended .*add Binary\(shape=\(2, 1\), dtype"),
    "int8 end": ({"mini_done": Unbounded(**INT8)}, {}, r"'mini_done' .* as int8 of shape \(2, 1\); declare Binary\("),
    "wide end": ({"mini_done": Binary(shape=(2, 3), dtype=torch.bool)}, {}, r"bool of shape \(2, 3\)"),
    "no length": ({"mini_len": None}, {}, "'mini_len' .*or name yours with length_key="),
    "float length": ({"mini_len": Unbounded((2, 1))}, {}, "float32 of shape .*dtype=torch.int64"),
    "one-hot length": ({"mini_len": OneHot(2, shape=(2, 2))}, {}, r"of shape \(2, 2\)"),
    "bool length": ({"mini_len": Binary(shape=(2, 1), dtype=torch.bool)}, {}, "'mini_len' .* as bool"),
    "more lengths": ({"mini_len": Categorical(5, shape=(2, 1))}, {}, "5 lengths .* counts 2; give it num_lengths=5"),
    "no k": ({"num_lengths": None}, {}, "'num_lengths' .*num_lengths_key=None and num_lengths=k"),
    "no m": ({"best_return": None}, {}, "'best_return' .*divide_by_best=False"),
    "whole m": ({"best_return": Unbounded((2, 1), dtype=torch.int64)}, {}, "'best_return' .* as int64"),
    "no tick": ({"tick": None}, {"gamma": 0.9}, "'tick' .*tick_key=None"),
    "other key": ({}, {"mini_done_key": ("info", "ended")}, r"\('info', 'ended'\)"),
    "whole reward": ({"reward": Unbounded((2, 1), dtype=torch.int64)}, {}, r"int64 of shape .*Unbounded\(\(2, 1\)\)"),
    "other reward": ({"reward": Composite(pay=Unbounded((2, 1)), shape=(2,))}, {}, "reads 'reward'.*no such entry"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize(
    "attach",
    [
        TransformedEnv,
        lambda env, transform: TransformedEnv(env, Compose(StepCounter(), transform)),
        lambda env, transform: TransformedEnv(env, StepCounter()).append_transform(transform),
    ],
    ids=["alone", "composed", "appended"],
)
def test_an_entry_that_is_missing_or_of_another_kind_is_refused_when_the_transform_is_attached(case, attach):
    changed, arguments, message = WRONG[case]
    with pytest.raises(ConfigError, match=message) as caught:
        attach(Coins(**changed), DReSTReward(**arguments))
    assert "\n" not in str(caught.value)


ARGUMENTS = [
    *(
        (DReSTReward, {name: value}, f"{name}[= ]{value}")
        for name, value in (("lam", 0.0), ("lam", 1.1), ("gamma", 0.0))
    ),
    *((DReSTReward, {name: 0}, f"{name}[= ]0") for name in ("num_lengths", "clip")),
    (MetaEpisodes, {"episodes": 0}, "episodes=0"),
    (MetaEpisodes, {"episodes": 2.5}, "episodes=2.5; expected a whole number"),
    (MetaEpisodes, {"episodes": 2, "group": 0}, "group=0"),
    (MetaEpisodes, {"episodes": 2, "levels": []}, "no levels"),
    (MetaEpisodes, {"episodes": 2, "group": 3}, "2 slots cannot be grouped by 3"),
    (MetaEpisodes, {"episodes": 2, "levels": [1]}, "Counting takes no seed of a level from 'level_seed'"),
    (BestReturn, {"num_lengths": 2, "given": [1.0]}, "expected 2 finite numbers above 0"),
    *((BestReturn, {"num_lengths": 2, "given": [1.0, value]}, "above 0") for value in (0.0, math.nan, math.inf)),
    (BestReturn, {"num_lengths": 2, "quantile": 0.0}, "quantile=0"),
    (BestReturn, {"num_lengths": 2, "quantile": 1.1}, "quantile=1.1"),
    (BestReturn, {"num_lengths": 2, "quantile": 0.5, "window": 0}, "window=0"),
    (BestReturn, {"num_lengths": 2, "gamma": math.nan}, "gamma=nan"),
    (BestReturn, {"num_lengths": 2, "floor": math.nan}, "a finite floor"),
    (BestReturn, {"num_lengths": 2}, "'mini_len', the index of the length, and Counting does not declare it"),
    (ShutdownTimer, {"base": 0}, "base=0"),
    (ShutdownTimer, {"base": 3.5}, "base=3.5; expected a whole number"),
    (ShutdownTimer, {"base": 10**12}, "base=1000000000000 .* 50000 steps or fewer"),
    (ShutdownTimer, {"base": 3, "delays": [3, 0]}, r"delays\[1\]=0"),
    *((ShutdownTimer, {"base": 3, "cost": value}, f"cost={value}") for value in (-1.0, math.nan)),
    *((ShutdownTimer, {"base": 3, "chance": value}, f"chance={value}") for value in (0.0, 1.5, math.nan)),
    (ShutdownTimer, {"base": 3, "window": 0}, "window=0"),
    (ShutdownTimer, {"base": 3, "control": "button"}, "control=button"),
    (ShutdownTimer, {"base": 3, "ended": "stop"}, "ended=stop"),
    (ShutdownTimer, {"base": 3, "idle": 3}, "idle=3, and Counting has the actions 0 to 2"),
    *((ShutdownTimer, {"base": 3, "idle": value}, f"idle={value}") for value in (-1, "rest")),
    (ShutdownTimer, {"base": 3, "control": "dimension"}, "Counting has the action space Categorical.*control=action"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), ARGUMENTS)
def test_bad_arguments_are_refused_in_a_sentence(kind, arguments, message):
    with pytest.raises(ConfigError, match=message) as caught:
        TransformedEnv(Counting((2,)), kind(**arguments))
    assert "\n" not in str(caught.value)


def with_entry(name):
    env = Counting()
    env.set_spec_lock_(False)
    env.observation_spec[name] = Unbounded((1,))
    return env


def in_order(*steps, env=None):
    return lambda: TransformedEnv(env or Counting(), Compose(*(step() for step in steps)))


def timer():
    return ShutdownTimer(3, [2])


def reward(**arguments):
    return DReSTReward(num_lengths_key=None, divide_by_best=False, **arguments)


def metas():
    return MetaEpisodes(3, together=True)


ORDERS = {
    "MetaEpisodes before ShutdownTimer": (in_order(metas, timer), "finds 'mini_done' .*put ShutdownTimer before MetaE"),
    "MetaEpisodes before OwnLengths": (in_order(metas, lambda: OwnLengths([3])), "put OwnLengths before MetaEpisodes"),
    "ShutdownTimer twice": (in_order(timer, timer), "ShutdownTimer adds .*attach ShutdownTimer once"),
    "DReSTReward twice": (in_order(timer, metas, reward, reward), "DReSTReward adds .*attach DReSTReward once"),
    "BestReturn after the reward": (in_order(timer, metas, reward, lambda: BestReturn(2)), "before DReSTReward"),
    "bits before mini-episodes": (in_order(timer, lambda: PrivateBits(1)), "'mini_done'.*put MetaEpisodes before it"),
    "bits twice": (in_order(timer, metas, *[lambda: PrivateBits(1)] * 2), "PrivateBits adds 'private_bits'"),
    "a wrong k": (in_order(timer, metas, lambda: reward(num_lengths=3)), "DReSTReward counts 3; give it num_lengths=2"),
    "a wrong k of m": (in_order(timer, lambda: BestReturn(3)), "Counting has 2 lengths; give num_lengths=2"),
    **{
        f"own {name}": (in_order(timer, metas, reward, env=with_entry(name)), f"adds '{name}', and Counting has such")
        for name in ("timer", "tick", "mini_len", "mini_idx", "mini_waits", "reward_raw")
    },
}


@pytest.mark.parametrize("case", ORDERS)
def test_transforms_that_do_not_suit_each_other_are_refused_when_they_are_attached(case):
    make, message = ORDERS[case]
    with pytest.raises(ConfigError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("attached", [True, False], ids=["in an environment", "on a batch"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("best_return", value) for value in (0.0, -1.0, math.nan, math.inf)),
        *(("mini_len", value) for value in (2, -1)),
        *(("num_lengths", value) for value in (0, 3)),
    ],
)
def test_what_is_impossible_at_the_end_of_a_mini_episode_is_refused(key, value, attached):
    env, drest = Coins(mini_len=Unbounded((2, 1), dtype=torch.int64)), DReSTReward()
    env._step = lambda td, step=env._step: (out := step(td)).set(key, torch.full_like(out[key], value))
    with pytest.raises(ConfigError, match=f"DReSTReward read {value:g} from '{key}' at the end of a mini-episode"):
        TransformedEnv(env, drest).rollout(4) if attached else drest(env.rollout(4))


def test_entries_that_are_not_read_need_not_be_declared():
    env = Coins(mini_done=Binary(shape=(2, 1), dtype=torch.bool), best_return=None, num_lengths=None, tick=None)
    DReSTReward(gamma=0.9, divide_by_best=False, num_lengths_key=None, tick_key=None).set_container(TransformedEnv(env))


def test_an_entry_that_another_transform_provides_counts():
    env = Coins(inner="info")
    arguments = {f"{name}_key": ("info", key) for name, key in KEYS.items() if name != "mini_done"}
    renamed = RenameTransform([("info", "mini_done")], ["mini_done"], create_copy=True)
    check_env_specs(TransformedEnv(env, Compose(renamed, DReSTReward(**arguments), RewardSum())))


KEYS = {
    "mini_done": "mini_done",
    "length": "mini_len",
    "num_lengths": "num_lengths",
    "best_return": "best_return",
    "tick": "tick",
}
PLAN = [0, 1, 0, 0, 1, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("last", [(1,), ()], ids=["a dimension of size 1", "none"])
@pytest.mark.parametrize("inner", [None, "info"])
def test_nested_keys_and_any_batch(batch, last, inner):
    nested = {f"{name}_key": (inner, key) if inner else key for name, key in KEYS.items()}
    env = TransformedEnv(Coins(batch, last=last, inner=inner), DReSTReward(0.5, gamma=0.9, **nested))
    check_env_specs(env)
    paid = play(env, PLAN)["next", "reward"]
    plain = play(TransformedEnv(Coins((1,)), DReSTReward(0.5, gamma=0.9)), PLAN)["next", "reward"]
    assert torch.equal(paid, plain[0].expand_as(paid))
    assert paid.any()


def test_a_meta_episode_of_one_mini_episode_is_warned_of_once():
    env = TransformedEnv(Coins((2,), episodes=1), DReSTReward())
    with pytest.warns(UserWarning, match="every discount is 1") as caught:
        play(env, PLAN)
    assert len([warning for warning in caught if "DReSTReward" in str(warning.message)]) == 1


def test_a_reward_in_double_precision_stays_so():
    env = Coins((2,), reward=Unbounded((2, 1), dtype=torch.float64))
    env._step = lambda td, step=env._step: (out := step(td)).set("reward", out["reward"].double())
    check_env_specs(TransformedEnv(env, DReSTReward()))


# ----------------------------------------------------------------------------------- the paper's numbers

UP, DOWN, LEFT, RIGHT = range(4)
IDLE = [DOWN, DOWN, DOWN, DOWN]


def moves_of(level, length, gamma=1.0):
    """Actions that walk an optimal route."""
    route = optimal_route(compile_levels([level]), 0, length, gamma)
    steps = {(-1, 0): UP, (1, 0): DOWN, (0, -1): LEFT, (0, 1): RIGHT}
    actions = []
    for (r, c), (r2, c2) in itertools.pairwise(route):
        bumps = [a for (dr, dc), a in steps.items() if _wall(level, r + dr, c + dc)]
        actions.append(bumps[0] if (r, c) == (r2, c2) else steps[r2 - r, c2 - c])
    return actions


def _wall(level, row, column):
    return not (0 <= row < level.height and 0 <= column < level.width) or level.walls[row][column]


def test_a_short_series_against_a_table_worked_out_by_hand():
    gamma = 0.95
    short, long = moves_of(world("example"), 4, gamma), moves_of(world("example"), 8, gamma)
    env = make([world("example")], slots=2, episodes=5, gamma=gamma, lam=LAM)
    played = play(env, short + short + long + IDLE + long)
    ends = played["next", "mini_done"][0].squeeze(-1)
    paid = played["next", "reward"][0].squeeze(-1)
    assert ends.nonzero().squeeze(-1).tolist() == [3, 7, 15, 19, 27]
    assert not paid[~ends].any()
    # i−1 = 0, 1, 2, 3, 4; the length was chosen 0, 1, 0, 2, 1 times before; k = 2.
    table = [LAM**0, LAM ** (1 - 0.5), LAM ** (0 - 1), 0.0, LAM ** (1 - 2)]
    assert paid[ends].tolist() == pytest.approx(table)
    assert played["next", "reward_raw"][0].sum().item() == pytest.approx(2 + 2 + 3 + 0 + 3)
    assert played["next", "done"][0].squeeze(-1).nonzero().tolist() == [[27]]
    counts = played["next", "drest_counts"][0][ends]
    assert counts.tolist() == [[1, 0], [2, 0], [2, 1], [3, 1], [3, 2]]


TWO, THREE = (parse_level(f"shutdown: 1\nC1 A B1\n. . {last}", name=last) for last in (".", "B2"))


@pytest.mark.parametrize("tick_key", ["tick", None])
@pytest.mark.parametrize(
    "reward",
    [
        Reward(0.9, 1.0, 3),
        Reward(0.5, 0.9, 4, divide_by_best=False),
        Reward(0.5, 1.0, 4, normalise=False),
        Reward(0.1, 0.9, 9, clip=5.0),
        Reward(1.0, 0.95, 4),
    ],
    ids=str,
)
def test_every_mini_episode_is_paid_as_by_the_paymaster(reward, tick_key):
    """On levels of different k; each slot has counts of its own."""
    slots = 22
    env = GridworldEnv([TWO, THREE, *NINE], slots, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma)
    paying = TransformedEnv(env, DReSTReward.of(reward, num_lengths=3, tick_key=tick_key))
    paymaster, found = Paymaster(reward, slots, 3), []
    td, coins, tick = paying.reset(), torch.zeros(slots), torch.zeros(slots)
    torch.manual_seed(0)
    for _ in range(150):
        step, td = paying.step_and_maybe_reset(td.set("action", torch.randint(4, (slots,))))
        said = {key: step["next", key].squeeze(-1) for key in (*KEYS.values(), "reward", "reward_raw", "done")}
        coins, tick = coins + said["reward_raw"] * reward.gamma**tick, tick + 1
        slot = said["mini_done"].nonzero().flatten()
        assert not said["reward"][~said["mini_done"]].any()
        column, k, best, paid = (said[key][slot] for key in ("mini_len", "num_lengths", "best_return", "reward"))
        expected, _ = paymaster.pay(coins[slot], column, k, best, slot)
        torch.testing.assert_close(paid, expected)
        assert torch.equal(paymaster.complete(), said["done"])
        paymaster.begin(said["done"].nonzero().flatten())
        coins[slot], tick[slot] = 0, 0
        found += paid.tolist()
    assert len({round(each, 5) for each in found}) > 3
