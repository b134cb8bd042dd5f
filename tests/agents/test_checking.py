"""The check of an environment, on environments with a single fault."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
import pytest
import torch
from torchrl.data import Binary, Categorical, Composite, Unbounded

from drest_torch import check_env
from drest_torch.envs.tasks.queue import QueueEnv
from drest_torch.errors import ConfigError
from tests.helpers.counting import Broken, Counting, Growing

SLOTS = (8,)


class Noisy(Counting):
    """An environment that shows a random number in place of the last action."""

    shared = False
    """True if all slots get the same number."""

    def __init__(self, *arguments, **values):
        self.generator = torch.Generator()
        super().__init__(*arguments, **values)

    def _set_seed(self, seed):
        self.generator.manual_seed(0 if seed is None else seed)

    def _step(self, tensordict):
        step = super()._step(tensordict)
        noise = torch.rand(self.batch_size, generator=self.generator)
        step["observation"][..., 1] = noise[0] if self.shared else noise
        return step


def never(tensordict):
    """Request no delay."""
    return torch.zeros(tensordict.batch_size, dtype=torch.bool)


class Unseeded(Noisy):
    def _set_seed(self, seed):
        pass


class Alike(Noisy):
    shared = True


class Integers(Counting):
    """An environment that shows integers, and declares real numbers."""

    def _step(self, tensordict):
        step = super()._step(tensordict)
        return step.set("observation", step["observation"].long())


class ResetsAll(Counting):
    def chosen(self, tensordict):
        return torch.ones_like(self.count, dtype=torch.bool)


class Continues(Growing):
    """An environment that shows how often it was reset since it was seeded."""

    def _set_seed(self, seed):
        self.resets = 0

    def _reset(self, tensordict=None, **kwargs):
        reset = super()._reset(tensordict, **kwargs)
        before = self._observation()["observation"]
        return reset.set("observation", torch.where(self.chosen(tensordict), reset["observation"], before))


class Mixing(Counting):
    """An environment whose reward depends on all slots."""

    def _step(self, tensordict):
        step = super()._step(tensordict)
        return step.set("reward", self.count.float().mean(0, keepdim=True).expand_as(step["reward"]).clone())


class OwnMiniEpisodes(Noisy):
    """An environment with four mini-episodes in a meta-episode: 2 steps, or 3 if the first action is 1 or by chance."""

    def __init__(self, decides="action", offers=99.0, leaks=False, key="observation", ends=True):
        super().__init__(SLOTS)
        self.decides, self.offers, self.leaks, self.key, self.lasts = decides, offers, leaks, key, not ends
        shape = (*SLOTS, 1)
        specs = {"mini_done": Binary(shape=shape, dtype=torch.bool), "mini_len": Categorical(2, shape=shape)}
        specs |= {"best_return": Unbounded(shape), key: Unbounded((*SLOTS, 2))}
        self.observation_spec = Composite(specs, shape=SLOTS)
        self.longer = torch.zeros(shape, dtype=torch.bool)
        self.played = torch.zeros(shape, dtype=torch.int64)

    def entries(self, ended, longer):
        observation = self._observation()["observation"] + self.leaks * (self.played > 0)
        entries = {
            "mini_done": ended,
            "mini_len": longer.long(),
            "best_return": torch.full_like(observation[:, :1], self.offers),
        }
        return self._observation().exclude("observation").update(entries | {self.key: observation})

    def _reset(self, tensordict=None, **kwargs):
        self.played = self.played * ~self.chosen(tensordict)
        Counting._reset(self, tensordict, **kwargs)
        return self.entries(torch.zeros_like(self.longer), torch.zeros_like(self.longer))

    def _step(self, tensordict):
        is_long = tensordict["action"].unsqueeze(-1) == 1
        if self.decides == "luck":
            is_long = torch.rand(self.longer.shape, generator=self.generator) < 0.5
        self.longer = torch.where(self.count == 0, is_long, self.longer)
        step, longer = Counting._step(self, tensordict), self.longer
        ended = (self.count == 2 + longer) & (not self.lasts)
        self.count, self.last, self.played = self.count * ~ended, self.last * ~ended, self.played + ended
        done = self.played == 4
        return (
            step.exclude("observation").update(self.entries(ended, longer)).update({"done": done, "terminated": done})
        )


class Gym(gymnasium.Env):
    """A deterministic Gymnasium environment that ends after 5 steps."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = self.observation_space.low
        return self.count, {}

    def step(self, action):
        self.count = self.count + 1
        return self.count, float(action), bool(self.count == 5), False, {}


FAULTLESS = {
    "batch": partial(Counting, SLOTS),
    "box": partial(Counting, SLOTS, kind="box"),
    "ends": partial(Counting, SLOTS, 3),
    "noisy": partial(Noisy, SLOTS),
    "single": Counting,
    "queue": QueueEnv,
    "own": OwnMiniEpisodes,
    "gymnasium": Gym,
}


def check(make, **values):
    return check_env(make, **{"base": 4, "delays": [2], "copies": 8, "episodes": 64} | values)


@pytest.mark.parametrize("case", FAULTLESS)
def test_an_environment_without_faults_has_no_problems(case):
    result = check(FAULTLESS[case])
    assert result.problems == []
    assert [row.length for row in result.lengths] == ([0, 1] if case == "own" else [4, 6])
    assert sum(row.played for row in result.lengths) >= 64
    assert all(0 < row.mean <= row.best for row in result.lengths)
    assert str(result).endswith("No problems found.")


def test_statistics_are_of_the_played_mini_episodes():
    """The environment pays 1 + 2 + …, and the action (0 to 2) or the request in each step."""
    result = check(partial(Counting, SLOTS), episodes=800)
    short, long = result.lengths
    assert 10 < short.mean < short.best <= 10 + 4 * 2
    assert 21 < long.mean < long.best <= 21 + 6 * 2
    assert 0.3 < short.played / (short.played + long.played) < 0.7
    assert result.facts["rewards"] == "1 to 8 a step"


@dataclass(frozen=True)
class Fault:
    """An environment with a fault, and the problem that the check reports."""

    make: Callable[..., Any]
    problem: str
    """A regular expression."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the check."""
    problems: int = 1
    """Number of problems: a fault can concern both lengths, or seeds and resets."""


FAULTS = {
    "specs": Fault(partial(Integers, SLOTS), "TorchRL says: .*dtypes .*observation"),
    "fails": Fault(partial(Broken, SLOTS), "Broken failed with KeyError: 'no motor' .counting.py, line"),
    "seeds": Fault(
        partial(Unseeded, SLOTS), "the same seed and actions give another 'observation' in step 1, so that no"
    ),
    "keeps state": Fault(partial(Growing, SLOTS), "the same seed and actions give another 'observation'", problems=2),
    "alike": Fault(partial(Alike, SLOTS), "all copies have the same random numbers"),
    "resets all": Fault(partial(ResetsAll, SLOTS), "a reset of one copy changes the steps of others; reset the slots"),
    "continues": Fault(
        partial(Continues, SLOTS), "after a reset a copy shows another 'observation' than at first", problems=2
    ),
    "mixing": Fault(partial(Mixing, SLOTS), "a reset of one copy changes the steps of others"),
    "one length": Fault(
        partial(Counting, SLOTS), "there is a single length, so that DReST does nothing", {"delays": []}
    ),
    "unseen": Fault(
        partial(Counting, SLOTS),
        "of 2 lengths 6 did not occur .* one alone DReST does nothing",
        {"control": f"{__name__}:never"},
    ),
    "hard": Fault(
        partial(Counting, SLOTS),
        "of 13 lengths .*28 did not occur .* hard to learn",
        {"delays": [2] * 12, "window": 1},
    ),
    "NaN": Fault(partial(Counting, SLOTS, pay=math.nan), "paid a reward of NaN or infinity"),
    "pays nothing": Fault(partial(Counting, SLOTS, pay=0.0), "m is 0 for length 4: none of its ", problems=2),
    "negative": Fault(
        partial(Counting, SLOTS, pay=-1.0), r"give a lower bound of the rewards \(env.floor=-8 or less\)"
    ),
    "luck decides": Fault(
        partial(OwnMiniEpisodes, "luck"), "no action changes the length of a mini-episode, which is random"
    ),
    "small m": Fault(partial(OwnMiniEpisodes, offers=1.0), "says that its length offers 1 at most"),
    "tells": Fault(partial(OwnMiniEpisodes, key="shown"), "the policy would see 'mini_"),
    "tells the first": Fault(
        partial(OwnMiniEpisodes, leaks=True), "'observation' tells the first of a meta-episode from later ones"
    ),
    "never ends": Fault(
        partial(OwnMiniEpisodes, ends=False), "no mini-episode has ended within 50 steps", {"steps": 50}
    ),
    "actions": Fault(partial(Counting, SLOTS, kind="box"), "to which no action can be added", {"control": "action"}),
    "observed": Fault(partial(Counting, SLOTS), "env.observed with 'sound'", {"observed": ["sound"]}),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_reported_without_further_problems(fault):
    result = check(fault.make, **fault.values)
    assert not result.ok
    assert len(result.problems) == fault.problems, result.problems
    assert re.search(fault.problem, result.problems[0])
    assert f"{fault.problems} problem" in str(result)


def test_a_floor_allows_negative_rewards():
    assert check(partial(Counting, SLOTS, pay=-1.0), floor=-8.0).problems == []


def test_an_environment_stays_open_after_its_check():
    env = QueueEnv(4)
    assert check(env).problems == []
    assert env.rollout(3).shape == (4, 3)


def test_an_environment_without_a_batch_dimension_is_refused():
    with pytest.raises(ConfigError, match=r"of batch size .*; give a function that makes one"):
        check(QueueEnv())


def test_a_check_does_not_change_the_global_random_state():
    before = torch.get_rng_state()
    first, second = (str(check(FAULTLESS["noisy"])).splitlines() for _ in range(2))
    assert first[:6] == second[:6]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("env", "values", "message"),
    [
        ("no_module:make", {}, "env.factory=no_module:make cannot be imported"),
        ("NoSuch-v0", {}, "NoSuch"),
        (QueueEnv, {"episodes": 0}, "episodes=0; expected"),
        (QueueEnv, {"seed": -1}, "seed=-1; expected"),
        (partial(Counting, (3,)), {}, "makes 3 slots, but 8 are needed; set env.copies=3"),
        (lambda: 5, {}, "returns a int; expected"),
    ],
    ids=["no module", "no id", "no mini-episodes", "negative seed", "other copies", "no environment"],
)
def test_invalid_arguments_of_a_check_are_refused(env, values, message):
    with pytest.raises(ValueError, match=message):
        check(env, **values)
