"""An environment that counts, for tests of what is put around environments, and what a shutdown timer makes of it."""

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
    """Shows the steps since its reset and its last action, and pays the number of these steps plus the action.

    ``ends`` are the steps after which the slots end, None: they never do. With ``levels`` a reset takes a level seed,
    which is shown. The reward is ``pay`` · (steps + action), in this precision.
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

    def _shown(self):
        shown = {"observation": torch.cat((self.count.float(), self.last), -1)}
        return TensorDict(shown | ({"level": self.level.clone()} if self.levels else {}), batch_size=self.batch_size)

    def chosen(self, tensordict):
        """Return the slots that a reset is of."""
        every = torch.ones_like(self.count, dtype=torch.bool)
        return every if tensordict is None else tensordict.get("_reset", every).reshape(every.shape)

    def _reset(self, tensordict=None, **kwargs):
        chosen = self.chosen(tensordict)
        unseeded = torch.full_like(self.level, -1)
        seeds = unseeded if tensordict is None else tensordict.get("level_seed", unseeded)
        self.level = torch.where(chosen, seeds, self.level)
        self.count, self.last = self.count * ~chosen, self.last * ~chosen
        return self._shown()

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
        return self._shown().update({"reward": reward.to(self.precision), **ends})


def timed(steps, *, base, delays=(), window=None, cost=0.0, end=None, ended="absorb", idle="repeat"):
    """Yield what a timer around `Counting` has to say, in plain Python: one mini-episode after the other.

    ``steps`` are (whether a delay is asked for, the action otherwise, which with ``idle=None`` is taken in any case).
    Instead of whether, a function may say so of what is shown after the step. What is said: the observation, the
    reward, the timer, the number of delays, and whether this is shutdown.
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


# ------------------------------------------------------------------------------------ factories of runs


counting = Counting
# Slots with an end of their own, and actions that are a box, or two choices at once.
boxes = partial(Counting, (16,), 5, "box")
several = partial(Counting, (16,), 5, "several")
eight_slots, forty_slots, plane = (partial(Counting, batch) for batch in ((8,), (40,), (4, 4)))


def fails():
    raise KeyError("no motor")


def leaves():
    sys.exit(0)


def leaves_too(tensordict):
    sys.exit(0)


class OneLength(Counting):
    """Says itself that every mini-episode has the first of two lengths."""

    def __init__(self, batch=(), **options):
        super().__init__(batch, **options)
        self.observation_spec["mini_len"] = Categorical(2, shape=(*batch, 1), dtype=torch.int64)

    def _shown(self):
        return super()._shown().set("mini_len", torch.zeros_like(self.count))


class Broken(Counting):
    """Fails in its second step."""

    def _step(self, tensordict):
        if self.count.any():
            raise KeyError("no motor")
        return super()._step(tensordict)


class Growing(Counting):
    """Shows how often it was reset."""

    resets = 0

    def _reset(self, tensordict=None, **kwargs):
        self.resets += 1
        shown = super()._reset(tensordict, **kwargs)
        return shown.set("observation", shown["observation"] + self.resets)


def number():
    return 5


def worlds():
    """An environment with mini-episodes, lengths and m of its own."""
    return GridworldEnv([world("example")], 8, episodes_per_meta=4, observation="vector")


def last_count_is_two(tensordict):
    return tensordict["observation"][..., :1] == 2
