"""Tables of invalid arguments, environments and orders of transforms, each of which is refused in one sentence."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

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
with_levels = partial(Counting, (8,), levels=True)


def two_slots():
    """Return an environment with two slots."""
    return Counting((2,))


def self_resetting():
    """Return copies of CartPole that reset themselves."""
    make = [partial(gymnasium.make, "CartPole-v1")] * 2
    return GymWrapper(gymnasium.vector.SyncVectorEnv(make, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP))


class Refusal(NamedTuple):
    """Transforms around an environment, and the message of their refusal."""

    name: str
    message: str
    transforms: Sequence[Callable[[], Any]]
    env: Callable[[], Any] = Counting


def argument(kind, name, message, **arguments):
    """Return the refusal of arguments of one transform, besides those that it requires."""
    required = {BestReturn: {"num_lengths": 2}, ShutdownTimer: {"base": 3, "delays": [2]}}.get(kind, {})
    return Refusal(f"{kind.__name__}: {name}", message, [partial(kind, **required | arguments)], two_slots)


def predicate(name, result):
    """Return the refusal of a predicate that does not return a boolean for each of two slots."""
    message = "asks ShutdownTimer .* returned .*expected booleans, torch.bool"
    return argument(ShutdownTimer, f"predicate of {name}", message, control=lambda _: result)


ARGUMENTS = [
    argument(DReSTReward, "lam above 1", "lam[= ]1.1", lam=1.1),
    argument(MetaEpisodes, "half an episode", "episodes=2.5; expected a whole number", episodes=2.5),
    argument(MetaEpisodes, "no levels", "no levels", episodes=2, levels=[]),
    argument(MetaEpisodes, "group", "2 slots cannot be grouped by 3", episodes=2, group=3),
    argument(MetaEpisodes, "levels", "Counting takes no seed of a level from 'level_seed'", episodes=2, levels=[1]),
    argument(BestReturn, "too few m", "expected 2 finite numbers above 0", fixed=[1.0]),
    argument(BestReturn, "m of 0", "above 0", fixed=[1.0, 0.0]),
    argument(BestReturn, "m of NaN", "above 0", fixed=[1.0, math.nan]),
    argument(BestReturn, "infinite m", "above 0", fixed=[1.0, math.inf]),
    argument(BestReturn, "gamma of NaN", "gamma=nan", gamma=math.nan),
    argument(BestReturn, "floor of NaN", "a finite floor", floor=math.nan),
    argument(BestReturn, "no lengths", "'mini_len', the index of the length, but Counting does not declare it"),
    argument(ShutdownTimer, "base of 0", "base=0", base=0),
    argument(ShutdownTimer, "large base", "base=1000000000000 .* 50000 steps or fewer", base=10**12),
    argument(ShutdownTimer, "delay of 0", r"delays\[1\]=0", delays=[3, 0]),
    argument(ShutdownTimer, "negative cost", "cost=-1.0", cost=-1.0),
    argument(ShutdownTimer, "cost of NaN", "cost=nan", cost=math.nan),
    argument(ShutdownTimer, "window of 0", "window=0", window=0),
    argument(ShutdownTimer, "ended", "ended=stop", ended="stop"),
    argument(ShutdownTimer, "large idle", "idle=3, but Counting has the actions 0 to 2", idle=3),
    argument(ShutdownTimer, "negative idle", "idle=-1", idle=-1),
    argument(ShutdownTimer, "idle text", "idle=rest", idle="rest"),
    argument(
        ShutdownTimer,
        "dimension of a discrete action",
        "Counting has the action space Categorical.*control=action",
        control="dimension",
    ),
    predicate("None", None),
    predicate("one boolean", torch.tensor(True)),
    predicate("a wide tensor", torch.ones(2, 3)),
    predicate("floats", torch.ones(2)),
]
ORDERS = [
    Refusal("timer last", "finds 'mini_done' .*put ShutdownTimer before MetaE", [metas, timer]),
    Refusal("two timers", "ShutdownTimer adds .*attach ShutdownTimer once", [timer, timer]),
    Refusal("two rewards", "DReSTReward adds .*attach DReSTReward once", [timer, metas, reward, reward]),
    Refusal("best last", "before DReSTReward", [timer, metas, reward, best]),
    Refusal("bits without ends", "'mini_done'.*put MetaEpisodes before it", [timer, bits]),
    Refusal("two bits", "PrivateBits adds 'private_bits'", [timer, metas, bits, bits]),
]
DISAGREEMENTS = [
    Refusal(
        "lengths of the reward",
        "DReSTReward counts 3; give it num_lengths=2",
        [timer, metas, partial(reward, num_lengths=3)],
    ),
    Refusal("lengths of m", "Counting has 2 lengths; give num_lengths=2", [timer, partial(BestReturn, 3)]),
    Refusal(
        "gamma of m",
        "measures m with gamma=0.5, but DReSTReward pays with gamma=1",
        [timer, discounted, metas, pays],
    ),
    Refusal(
        "gamma of the reward",
        "with gamma=1, but DReSTReward pays with gamma=0.5",
        [timer, best, metas, partial(pays, gamma=0.5)],
    ),
    Refusal(
        "averaged counting",
        "pays for a collected batch, not in an environment; give it to a coll",
        [timer, metas, averaged],
    ),
    Refusal("no level", "is on no level", [timer, best_of_levels, partial(MetaEpisodes, 2)], with_levels),
    Refusal(
        "a level without m",
        "is on level 5; use MetaEpisodes",
        [timer, best_of_levels, partial(MetaEpisodes, 2, levels=[0, 5])],
        with_levels,
    ),
]
NAMES = [
    Refusal(
        f"entry {name}",
        f"adds '{name}', but Counting already has such",
        [partial(copied, [name]), timer, metas, reward],
    )
    for name in ("timer", "tick", "mini_len", "mini_idx", "mini_waits", "reward_raw")
]
SELF_RESETTING = "copies .*of GymWrapper .*reset themselves; use SerialEnv"
ENVIRONMENTS = [
    Refusal("timer on self-resetting copies", SELF_RESETTING, [timer], self_resetting),
    Refusal("meta-episodes on self-resetting copies", SELF_RESETTING, [metas], self_resetting),
    Refusal(
        "mini-episodes of the environment",
        "plays mini-episodes of its own",
        [partial(MetaEpisodes, 3)],
        lambda: GridworldEnv([world("example")], 2),
    ),
    Refusal(
        "action on a box",
        r"Counting has the action space Bounded.*control=dimension",
        [timer],
        partial(Counting, kind="box"),
    ),
    Refusal(
        "action on several choices",
        r"has the action space MultiCategorical.*control=dimension for",
        [timer],
        partial(Counting, kind="several"),
    ),
    Refusal("no action", "no 'action'", [partial(RenameTransform, [], [], ["action"], ["move"]), timer]),
]
REWARDS = [
    Refusal(
        f"{kind.__name__} pays {pay}",
        f"{kind.__name__} paid a reward of NaN or infinity",
        [transform, metas],
        partial(kind, pay=pay),
    )
    for pay in (math.nan, math.inf, -math.inf)
    for kind, transform in ((Counting, timer), (OneLength, best))
]
NEGATIVE = Refusal(
    "negative return",
    r"Counting was -\d+ above a floor of 0 .*set `floor`",
    [timer, best],
    partial(Counting, pay=-1),
)
REFUSALS = [*ARGUMENTS, *ORDERS, *DISAGREEMENTS, *NAMES, *ENVIRONMENTS, *REWARDS, NEGATIVE]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_invalid_transforms_are_refused_in_one_sentence(refusal):
    """The transform is refused when it is attached, or in the first steps."""
    with pytest.raises(ConfigError, match=refusal.message) as caught:
        TransformedEnv(refusal.env(), Compose(*(make() for make in refusal.transforms))).rollout(9)
    assert "\n" not in str(caught.value)


def test_names_of_refusals_are_unique():
    assert len({refusal.name for refusal in REFUSALS}) == len(REFUSALS)
