"""A check of an environment: environments with one fault each, and the sentence that names it."""

import math
import re
from functools import partial

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
    """Shows a random number in place of the last action."""

    shared = False
    """Whether all slots are shown the same."""

    def __init__(self, *arguments, **told):
        self.generator = torch.Generator()
        super().__init__(*arguments, **told)

    def _set_seed(self, seed):
        self.generator.manual_seed(0 if seed is None else seed)

    def _step(self, tensordict):
        step = super()._step(tensordict)
        noise = torch.rand(self.batch_size, generator=self.generator)
        step["observation"][..., 1] = noise[0] if self.shared else noise
        return step


def never(tensordict):
    """Ask for no delay."""
    return torch.zeros(tensordict.batch_size, dtype=torch.bool)


class Unseeded(Noisy):
    def _set_seed(self, seed):
        pass


class Alike(Noisy):
    shared = True


class Integers(Counting):
    """Shows integers, and declares real numbers."""

    def _step(self, tensordict):
        step = super()._step(tensordict)
        return step.set("observation", step["observation"].long())


class ResetsAll(Counting):
    def chosen(self, tensordict):
        return torch.ones_like(self.count, dtype=torch.bool)


class Continues(Growing):
    """Shows how often it was reset since it was seeded."""

    def _set_seed(self, seed):
        self.resets = 0

    def _reset(self, tensordict=None, **kwargs):
        shown = super()._reset(tensordict, **kwargs)
        before = self._shown()["observation"]
        return shown.set("observation", torch.where(self.chosen(tensordict), shown["observation"], before))


class Mixing(Counting):
    """Pays for what all slots do."""

    def _step(self, tensordict):
        step = super()._step(tensordict)
        return step.set("reward", self.count.float().mean(0, keepdim=True).expand_as(step["reward"]).clone())


class Own(Noisy):
    """Mini-episodes of its own, of 2 steps, or of 3 if the first action is 1, or by luck; four are a meta-episode."""

    def __init__(self, decides="action", offers=99.0, leaks=False, key="observation", ends=True):
        super().__init__(SLOTS)
        self.decides, self.offers, self.leaks, self.key, self.lasts = decides, offers, leaks, key, not ends
        one = (*SLOTS, 1)
        specs = {"mini_done": Binary(shape=one, dtype=torch.bool), "mini_len": Categorical(2, shape=one)}
        specs |= {"best_return": Unbounded(one), key: Unbounded((*SLOTS, 2))}
        self.observation_spec = Composite(specs, shape=SLOTS)
        self.longer = torch.zeros(one, dtype=torch.bool)
        self.played = torch.zeros(one, dtype=torch.int64)

    def said(self, ended, longer):
        shown = self._shown()["observation"] + self.leaks * (self.played > 0)
        entries = {
            "mini_done": ended,
            "mini_len": longer.long(),
            "best_return": torch.full_like(shown[:, :1], self.offers),
        }
        return self._shown().exclude("observation").update(entries | {self.key: shown})

    def _reset(self, tensordict=None, **kwargs):
        self.played = self.played * ~self.chosen(tensordict)
        Counting._reset(self, tensordict, **kwargs)
        return self.said(torch.zeros_like(self.longer), torch.zeros_like(self.longer))

    def _step(self, tensordict):
        luck = torch.rand(self.longer.shape, generator=self.generator) < 0.5
        chosen = luck if self.decides == "luck" else tensordict["action"].unsqueeze(-1) == 1
        self.longer = torch.where(self.count == 0, chosen, self.longer)
        step, longer = Counting._step(self, tensordict), self.longer
        ended = (self.count == 2 + longer) & (not self.lasts)
        self.count, self.last, self.played = self.count * ~ended, self.last * ~ended, self.played + ended
        done = self.played == 4
        return step.exclude("observation").update(self.said(ended, longer)).update({"done": done, "terminated": done})


class Gym(gymnasium.Env):
    """An environment of Gymnasium that is not random and ends after 5 steps."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = self.observation_space.low
        return self.count, {}

    def step(self, action):
        self.count = self.count + 1
        return self.count, float(action), bool(self.count == 5), False, {}


RIGHT = {
    "batch": partial(Counting, SLOTS),
    "box": partial(Counting, SLOTS, kind="box"),
    "ends": partial(Counting, SLOTS, 3),
    "noisy": partial(Noisy, SLOTS),
    "single": Counting,
    "queue": QueueEnv,
    "own": Own,
    "gymnasium": Gym,
}


def check(make, **told):
    return check_env(make, **{"base": 4, "delays": [2], "copies": 8, "episodes": 64} | told)


@pytest.mark.parametrize("case", RIGHT)
def test_nothing_is_wrong_with_what_is_right(case):
    found = check(RIGHT[case])
    assert found.problems == []
    assert [row.length for row in found.lengths] == ([0, 1] if case == "own" else [4, 6])
    assert sum(row.played for row in found.lengths) >= 64
    assert all(0 < row.mean <= row.best for row in found.lengths)
    assert str(found).endswith("Nothing is wrong.")


def test_returns_and_lengths_are_those_that_were_played():
    """An environment that pays 1 + 2 + … whatever is done, besides the action, of 0 to 2, or asking."""
    found = check(partial(Counting, SLOTS), episodes=800)
    short, long = found.lengths
    assert 10 < short.mean < short.best <= 10 + 4 * 2
    assert 21 < long.mean < long.best <= 21 + 6 * 2
    assert 0.3 < short.played / (short.played + long.played) < 0.7
    assert found.facts["rewards"] == "1 to 8 a step"


WRONG = {
    "specs": (partial(Integers, SLOTS), {}, "TorchRL says: .*dtypes .*observation"),
    "fails": (partial(Broken, SLOTS), {}, "Broken failed with KeyError: 'no motor' .counting.py, line"),
    "seeds": (
        partial(Unseeded, SLOTS),
        {},
        "the same seed and actions give another 'observation' in step 1, so that no",
    ),
    "keeps state": (partial(Growing, SLOTS), {}, "the same seed and actions give another 'observation'"),
    "alike": (partial(Alike, SLOTS), {}, "all copies have the same random numbers"),
    "resets all": (partial(ResetsAll, SLOTS), {}, "a reset of one copy changes the steps of others; reset the slots"),
    "continues": (partial(Continues, SLOTS), {}, "after a reset a copy shows another 'observation' than at first"),
    "mixing": (partial(Mixing, SLOTS), {}, "a reset of one copy changes the steps of others"),
    "one length": (partial(Counting, SLOTS), {"delays": []}, "there is a single length, so that DReST does nothing"),
    "unseen": (
        partial(Counting, SLOTS),
        {"control": f"{__name__}:never"},
        "of 2 lengths 6 did not occur .* one alone DReST does nothing",
    ),
    "hard": (
        partial(Counting, SLOTS),
        {"delays": [2] * 12, "window": 1},
        "of 13 lengths .*28 did not occur .* hard to learn",
    ),
    "NaN": (partial(Counting, SLOTS, pay=math.nan), {}, "paid a reward of NaN or infinity"),
    "pays nothing": (partial(Counting, SLOTS, pay=0.0), {}, "m is 0 for length 4: none of its "),
    "negative": (partial(Counting, SLOTS, pay=-1.0), {}, r"give a lower bound of the rewards \(env.floor=-8 or less\)"),
    "luck decides": (partial(Own, "luck"), {}, "no action changes the length of a mini-episode: luck decides it"),
    "small m": (partial(Own, offers=1.0), {}, "says that its length offers 1 at most"),
    "tells": (partial(Own, key="shown"), {}, "the policy would see 'mini_"),
    "tells the first": (
        partial(Own, leaks=True),
        {},
        "'observation' tells the first of a meta-episode from later ones",
    ),
    "never ends": (partial(Own, ends=False), {"steps": 50}, "no mini-episode has ended within 50 steps"),
    "actions": (partial(Counting, SLOTS, kind="box"), {"control": "action"}, "to which no action can be added"),
    "observed": (partial(Counting, SLOTS), {"observed": ["sound"]}, "env.observed with 'sound'"),
}


TWICE = ("pays nothing", "keeps state", "continues")
"""Faults of both lengths, or of both a seed and a reset."""


@pytest.mark.parametrize("case", WRONG)
def test_a_fault_has_its_sentence_and_no_other(case):
    make, told, sentence = WRONG[case]
    found = check(make, **told)
    assert not found.ok
    assert len(found.problems) == 1 + (case in TWICE), found.problems
    assert re.search(sentence, found.problems[0])
    assert f"{len(found.problems)} thing" in str(found)


def test_a_floor_and_an_m_of_its_own_are_taken_account_of():
    assert check(partial(Counting, SLOTS, pay=-1.0), floor=-8.0).problems == []


def test_an_environment_that_exists_is_checked_and_stays_open():
    env = QueueEnv(4)
    assert check(env).problems == []
    assert env.rollout(3).shape == (4, 3)
    with pytest.raises(ConfigError, match=r"of batch size .*; give a function that makes one"):
        check(QueueEnv())


def test_a_check_leaves_the_random_numbers_of_the_program_alone():
    before = torch.get_rng_state()
    assert str(check(RIGHT["noisy"])).splitlines()[:6] == str(check(RIGHT["noisy"])).splitlines()[:6]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("env", "told", "sentence"),
    [
        ("no_module:make", {}, "env.factory=no_module:make cannot be imported"),
        ("NoSuch-v0", {}, "NoSuch"),
        (QueueEnv, {"episodes": 0}, "episodes=0; expected"),
        (QueueEnv, {"seed": -1}, "seed=-1; expected"),
        (partial(Counting, (3,)), {}, "makes 3 slots, and 8 are wanted; set env.copies=3"),
        (lambda: 5, {}, "returns a int; expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_checked_is_refused(env, told, sentence):
    with pytest.raises(ValueError, match=sentence):
        check(env, **told)
