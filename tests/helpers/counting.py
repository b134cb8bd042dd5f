"""A TorchRL environment that counts its steps, and a simulation of a shutdown timer around it, in plain Python."""

import sys
from functools import partial

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, OneHot, Unbounded
from torchrl.envs import EnvBase

from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import world

ACTIONS = 3


class Counting(EnvBase):
    """An environment that observes the steps since its reset and its last action.

    A slot ends after ``ends`` steps (None: never). With ``levels`` a reset takes a level seed, which is observed.
    The reward is ``pay`` · (steps + action), in this precision.
    """

    batch_locked = True

    def __init__(self, batch=(), ends=None, kind="categorical", *, levels=False, pay=1.0, precision=torch.float32):
        super().__init__(batch_size=torch.Size(batch))
        self.kind, self.levels, self.pay, self.precision = kind, levels, pay, precision
        shape = (*batch, 1)
        self.ends = torch.full(shape, 10**6) if ends is None else torch.as_tensor(ends).expand(batch).unsqueeze(-1)
        self.count, self.last = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
        self.level = torch.zeros(shape, dtype=torch.int64)
        entries = {"observation": Unbounded((*batch, 2))}
        if levels:
            entries["level"] = Unbounded(shape, dtype=torch.int64)
            self.state_spec = Composite(level_seed=Unbounded(shape, dtype=torch.int64), shape=batch)
        self.observation_spec = Composite(entries, shape=batch)
        self.action_spec = {
            "categorical": Categorical(ACTIONS, shape=batch, dtype=torch.int64),
            "one_hot": OneHot(ACTIONS, shape=(*batch, ACTIONS), dtype=torch.bool),
            "several": MultiCategorical([ACTIONS, 2], shape=(*batch, 2), dtype=torch.int64),
            "box": Bounded(-1.0, 1.0, shape=(*batch, 2)),
        }[kind]
        self.reward_spec = Unbounded(shape, dtype=precision)
        flags = {name: Binary(shape=shape, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(flags, shape=batch)

    def _set_seed(self, seed):
        pass

    def _observation(self):
        entries = {"observation": torch.cat((self.count.float(), self.last), -1)}
        if self.levels:
            entries["level"] = self.level.clone()
        return TensorDict(entries, batch_size=self.batch_size)

    def chosen(self, tensordict):
        """Return the slots that are reset."""
        every = torch.ones_like(self.count, dtype=torch.bool)
        return every if tensordict is None else tensordict.get("_reset", every).reshape(every.shape)

    def _reset(self, tensordict=None, **kwargs):
        chosen = self.chosen(tensordict)
        unseeded = torch.full_like(self.level, -1)
        seeds = unseeded if tensordict is None else tensordict.get("level_seed", unseeded)
        self.level = torch.where(chosen, seeds, self.level)
        self.count, self.last = self.count * ~chosen, self.last * ~chosen
        return self._observation()

    def _step(self, tensordict):
        action = tensordict["action"]
        assert tuple(action.shape) == tuple(self.action_spec.shape)
        if self.kind == "one_hot":
            assert (action.sum(-1) == 1).all()
            action = action.long().argmax(-1)
        self.last = (action[..., :1] if self.kind in ("box", "several") else action.unsqueeze(-1)).float()
        assert (self.count < self.ends).all(), "a step after the end"
        self.count = self.count + 1
        done = self.count == self.ends
        ends = {"done": done, "terminated": done.clone(), "truncated": torch.zeros_like(done)}
        reward = self.pay * (self.count + self.last)
        return self._observation().update({"reward": reward.to(self.precision), **ends})


def timed(steps, *, base, delays=(), window=None, cost=0.0, end=None, ended="absorb", idle="repeat"):
    """Simulate a shutdown timer around `Counting`; yield (observation, reward, timer, number of delays, shutdown).

    ``steps`` are pairs: True to ask for a delay (or a function of the observation after the step that returns this),
    and the action. With ``idle=None`` the action is also taken by a step that asks for a delay.
    """
    longest = base + sum(delays)
    down = True
    for ask, action in steps:
        if down:
            count = last = tick = used = since = 0
            shutdown, waits, seen = base, False, [0.0, 0.0]
        is_open = used < len(delays) and (window is None or since < window)
        last = (last if idle == "repeat" else idle) if ask and idle is not None else action
        count, tick = count + 1, tick + 1
        reward = 0.0 if waits else count + last
        if not waits:
            seen = [float(count), float(last)]
        since += 1
        if (ask(seen) if callable(ask) else ask) and is_open:
            reward -= cost
            shutdown += delays[used]
            used, since = used + 1, 0
        down = tick == shutdown
        if count == end:
            if ended == "absorb":
                waits = True
            elif not down:
                seen = [0.0, 0.0]
            count = 0
        is_open = used < len(delays) and (window is None or since < window)
        steps_used = [float(used == n) for n in range(len(delays) + 1)]
        timer = [(shutdown - tick) / longest, *steps_used, float(is_open), float(waits)]
        yield seen, reward, timer, used, down


# --------------------------------------------------------------------------------- factories for runs


counting = Counting
# Slots that end after 5 steps, with a continuous action or with two discrete actions.
boxes = partial(Counting, (16,), 5, "box")
two_actions = partial(Counting, (16,), 5, "several")
eight_slots, forty_slots, plane = (partial(Counting, batch) for batch in ((8,), (40,), (4, 4)))


def fails():
    raise KeyError("no motor")


def leaves():
    sys.exit(0)


def leaves_too(tensordict):
    sys.exit(0)


class OneLength(Counting):
    """An environment that reports the first of two lengths for every mini-episode."""

    def __init__(self, batch=(), **options):
        super().__init__(batch, **options)
        self.observation_spec["mini_len"] = Categorical(2, shape=(*batch, 1), dtype=torch.int64)

    def _observation(self):
        return super()._observation().set("mini_len", torch.zeros_like(self.count))


class Broken(Counting):
    """An environment that fails in its second step."""

    def _step(self, tensordict):
        if self.count.any():
            raise KeyError("no motor")
        return super()._step(tensordict)


class Growing(Counting):
    """An environment that adds the number of its resets to the observation."""

    resets = 0

    def _reset(self, tensordict=None, **kwargs):
        self.resets += 1
        first = super()._reset(tensordict, **kwargs)
        return first.set("observation", first["observation"] + self.resets)


def number():
    return 5


def worlds():
    """Return an environment that reports mini-episodes, lengths and m itself."""
    return GridworldEnv([world("example")], 8, episodes_per_meta=4, observation="vector")


def last_count_is_two(tensordict):
    return tensordict["observation"][..., :1] == 2
