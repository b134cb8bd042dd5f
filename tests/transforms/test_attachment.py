"""What transforms cannot be given, or put around, is refused in a sentence: a table."""

import math
from functools import partial

import gymnasium
import pytest
import torch
from torchrl.envs import Compose, GymWrapper, RenameTransform, TransformedEnv

from drest_torch import DReSTReward
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, MetaEpisodes, PrivateBits, ShutdownTimer
from tests.helpers.counting import Counting, OneLength

timer = partial(ShutdownTimer, 3, [2])
metas = partial(MetaEpisodes, 3, together=True)
reward = partial(DReSTReward, num_lengths_key=None, divide_by_best=False)
pays = partial(DReSTReward, num_lengths=2, num_lengths_key=None)
best = partial(BestReturn, 2)
discounted = partial(BestReturn, 2, gamma=0.5)
averaged = partial(DReSTReward.from_reward, Reward(counting="averaged"), num_lengths=2, num_lengths_key=None, group=2)
bits = partial(PrivateBits, 1)
copied = partial(RenameTransform, ["observation"], create_copy=True)
best_of_levels = partial(BestReturn, 2, levels=2)
levelled = partial(Counting, (8,), levels=True)
PREDICATES = [lambda _, asked=asked: asked for asked in (None, torch.tensor(True), torch.ones(2, 3), torch.ones(2))]
"""Functions that do not return a boolean for each of two slots."""


def vector():
    """Return copies of CartPole that reset themselves."""
    make = [partial(gymnasium.make, "CartPole-v1")] * 2
    return GymWrapper(gymnasium.vector.SyncVectorEnv(make, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP))


ARGUMENTS = [
    (DReSTReward, {"lam": 1.1}, "lam[= ]1.1"),
    (MetaEpisodes, {"episodes": 2.5}, "episodes=2.5; expected a whole number"),
    (MetaEpisodes, {"episodes": 2, "levels": []}, "no levels"),
    (MetaEpisodes, {"episodes": 2, "group": 3}, "2 slots cannot be grouped by 3"),
    (MetaEpisodes, {"episodes": 2, "levels": [1]}, "Counting takes no seed of a level from 'level_seed'"),
    (BestReturn, {"fixed": [1.0]}, "expected 2 finite numbers above 0"),
    *((BestReturn, {"fixed": [1.0, value]}, "above 0") for value in (0.0, math.nan, math.inf)),
    (BestReturn, {"gamma": math.nan}, "gamma=nan"),
    (BestReturn, {"floor": math.nan}, "a finite floor"),
    (BestReturn, {}, "'mini_len', the index of the length, and Counting does not declare it"),
    (ShutdownTimer, {"base": 0}, "base=0"),
    (ShutdownTimer, {"base": 10**12}, "base=1000000000000 .* 50000 steps or fewer"),
    (ShutdownTimer, {"delays": [3, 0]}, r"delays\[1\]=0"),
    *((ShutdownTimer, {"cost": value}, f"cost={value}") for value in (-1.0, math.nan)),
    (ShutdownTimer, {"window": 0}, "window=0"),
    (ShutdownTimer, {"ended": "stop"}, "ended=stop"),
    (ShutdownTimer, {"idle": 3}, "idle=3, and Counting has the actions 0 to 2"),
    *((ShutdownTimer, {"idle": value}, f"idle={value}") for value in (-1, "rest")),
    (ShutdownTimer, {"control": "dimension"}, "Counting has the action space Categorical.*control=action"),
    *(
        (ShutdownTimer, {"control": asks}, "asks ShutdownTimer .* returned .*expected booleans, torch.bool")
        for asks in PREDICATES
    ),
]
REQUIRED = {BestReturn: {"num_lengths": 2}, ShutdownTimer: {"base": 3, "delays": [2]}}
TOGETHER = [
    ([metas, timer], Counting, "finds 'mini_done' .*put ShutdownTimer before MetaE"),
    ([timer, timer], Counting, "ShutdownTimer adds .*attach ShutdownTimer once"),
    ([timer, metas, reward, reward], Counting, "DReSTReward adds .*attach DReSTReward once"),
    ([timer, metas, reward, lambda: BestReturn(2)], Counting, "before DReSTReward"),
    ([timer, bits], Counting, "'mini_done'.*put MetaEpisodes before it"),
    ([timer, metas, bits, bits], Counting, "PrivateBits adds 'private_bits'"),
    ([timer, metas, partial(reward, num_lengths=3)], Counting, "DReSTReward counts 3; give it num_lengths=2"),
    (
        [timer, discounted, metas, pays],
        Counting,
        "measures m with gamma=0.5, and DReSTReward pays with gamma=1",
    ),
    ([timer, best, metas, partial(pays, gamma=0.5)], Counting, "with gamma=1, and DReSTReward pays with gamma=0.5"),
    *(([step], vector, "copies .*of GymWrapper .*reset themselves .*use SerialEnv") for step in (timer, metas)),
    ([timer, lambda: BestReturn(3)], Counting, "Counting has 2 lengths; give num_lengths=2"),
    *(
        ([partial(copied, [name]), timer, metas, reward], Counting, f"adds '{name}', and Counting has such")
        for name in ("timer", "tick", "mini_len", "mini_idx", "mini_waits", "reward_raw")
    ),
    ([timer, metas, averaged], Counting, "pays for a collected batch, and not in an environment; give it to a coll"),
    ([lambda: MetaEpisodes(3)], lambda: GridworldEnv([world("example")], 2), "plays mini-episodes of its own"),
    ([timer], lambda: Counting(kind="box"), r"Counting has the action space Bounded.*control=dimension"),
    ([timer], lambda: Counting(kind="several"), r"has the action space MultiCategorical.*control=dimension for"),
    ([partial(RenameTransform, [], [], ["action"], ["move"]), timer], Counting, "no 'action'"),
    *(
        ([*steps, metas], lambda kind=kind, pay=pay: kind(pay=pay), f"{kind.__name__} paid a reward of NaN or infinity")
        for pay in (math.nan, math.inf, -math.inf)
        for kind, steps in ((Counting, [timer]), (OneLength, [lambda: BestReturn(2)]))
    ),
    ([timer, lambda: BestReturn(2)], lambda: Counting(pay=-1), r"Counting was -\d+ above a floor of 0 .*set `floor`"),
    ([timer, best_of_levels, partial(MetaEpisodes, 2)], levelled, "is on no level"),
    ([timer, best_of_levels, partial(MetaEpisodes, 2, levels=[0, 5])], levelled, "is on level 5; use MetaEpisodes"),
]


@pytest.mark.parametrize(
    ("steps", "env", "message"),
    [
        *(
            ([lambda kind=kind, told=told: kind(**REQUIRED.get(kind, {}) | told)], lambda: Counting((2,)), message)
            for kind, told, message in ARGUMENTS
        ),
        *TOGETHER,
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(steps, env, message):
    """When it is attached, or in the first steps."""
    with pytest.raises(ConfigError, match=message) as caught:
        TransformedEnv(env(), Compose(*(step() for step in steps))).rollout(9)
    assert "\n" not in str(caught.value)
