"""ShutdownTimer: what it says in every step against values by hand, and TorchRL's contract for transforms."""

import math

import pytest
import torch
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import TransformedEnv

from drest_torch.errors import ConfigError
from drest_torch.transforms import ShutdownTimer
from drest_torch.transforms.base import set_seed
from tests.helpers.counting import ACTIONS, Counting, timed

DELAYED = {"base": 3, "delays": [2, 4]}
KINDS = ("categorical", "one_hot", "box", "several")
WITH_DIMENSIONS = ("box", "several")


def around(batch=(), ends=None, kind="categorical", **arguments):
    arguments = DELAYED | {"control": "dimension" if kind in WITH_DIMENSIONS else "action"} | arguments
    return TransformedEnv(Counting(batch, ends, kind), ShutdownTimer(**arguments))


def action_of(kind, asks, action):
    """The action of each slot as the environment takes it; asks [*batch] bool, action [*batch] whole numbers."""
    if kind == "box":
        return torch.stack((action.float() / 4, torch.zeros_like(action).float(), asks.float() - 0.5), -1)
    if kind == "several":
        return torch.stack((action.long(), torch.zeros_like(action).long(), asks.long()), -1)
    chosen = torch.where(asks, ACTIONS, action)
    return chosen if kind == "categorical" else torch.nn.functional.one_hot(chosen, ACTIONS + 1).bool()


def play(env, kind, asks, actions):
    """Play [*batch, T] requests and actions; the steps stacked [*batch, T]."""
    td, steps = env.reset(), []
    for ask, action in zip(asks.unbind(-1), actions.unbind(-1), strict=True):
        step, td = env.step_and_maybe_reset(td.set("action", action_of(kind, ask, action)))
        steps.append(step.clone())
    return torch.stack(steps, -1)["next"]


def chosen(batch, steps, seed=0, often=0.3):
    generator = torch.Generator().manual_seed(seed)
    asks = torch.rand((*batch, steps), generator=generator) < often
    return asks, torch.randint(ACTIONS, (*batch, steps), generator=generator)


def flags(text):
    return torch.tensor([letter == "d" for letter in text])


def test_a_mini_episode_with_a_delay_by_hand():
    """Base 3, delays 2 and 4; a delay is asked for in step 2, in which the environment repeats its action."""
    said = play(around(), "categorical", flags(".d..."), torch.tensor([2, 0, 1, 0, 1]))
    assert said["observation"].tolist() == [[1, 2], [2, 2], [3, 1], [4, 0], [5, 1]]
    assert said["reward"].flatten().tolist() == [3, 4, 4, 4, 6]
    assert said["done"].flatten().tolist() == [False] * 4 + [True]
    assert said["terminated"].flatten().tolist() == [False] * 4 + [True]
    assert not said["truncated"].any()
    assert said["tick"].flatten().tolist() == [1, 2, 3, 4, 5]
    assert said["mini_len"].flatten().tolist() == [0, 1, 1, 1, 1]
    left = torch.tensor([2, 3, 2, 1, 0]) / 9
    torch.testing.assert_close(said["timer"][:, 0], left)
    assert said["timer"][:, 1:].tolist() == [[1, 0, 0, 1, 0]] + [[0, 1, 0, 1, 0]] * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(), (4,), (2, 2)], ids=str)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"ended": "restart"},
        {"window": 2, "cost": 0.25},
        {"window": 1, "base": 1, "delays": [1, 1, 1]},
        {"idle": 1, "cost": 1.5, "ended": "restart"},
        {"delays": []},
    ],
    ids=str,
)
def test_every_step_is_as_in_plain_python(kind, batch, arguments):
    ends = {(): 4, (4,): [4, 2, 1, 100], (2, 2): [[4, 2], [1, 100]]}[batch]
    env = around(batch, ends, kind, **arguments)
    asks, actions = chosen(batch, 60)
    said = play(env, kind, asks, actions).reshape(-1, 60)
    for slot in range(len(said)):
        own, told = torch.as_tensor(ends).flatten()[slot].item(), DELAYED | arguments
        if kind in WITH_DIMENSIONS:  # the others act as usual in a step that asks
            told |= {"idle": None}
        acting = actions.reshape(-1, 60)[slot] / (4 if kind == "box" else 1)
        rows = asks.reshape(-1, 60)[slot].tolist(), acting.tolist()
        expected = list(timed(zip(*rows, strict=True), end=own, **told))
        seen, reward, timer, used, down = zip(*expected, strict=True)
        torch.testing.assert_close(said["observation"][slot], torch.tensor(seen))
        torch.testing.assert_close(said["reward"][slot].flatten(), torch.tensor(reward).float())
        torch.testing.assert_close(said["timer"][slot], torch.tensor(timer))
        assert said["mini_len"][slot].flatten().tolist() == list(used)
        assert said["done"][slot].flatten().tolist() == list(down)
        assert sum(down) > 4


# ------------------------------------------------------------------------------------------ requests


def test_a_predicate_asks():
    env = around(control=lambda td: td["observation"][..., :1] == 2)
    assert env.action_spec.space.n == ACTIONS
    asks = torch.zeros(10, dtype=torch.bool)
    said = play(env, "categorical", asks, torch.zeros(10, dtype=torch.int64))
    assert said["mini_len"].flatten().tolist() == [0, 1, 1, 1, 1] * 2
    assert said["done"].flatten().nonzero().flatten().tolist() == [4, 9]


@pytest.mark.parametrize("wide", [True, False], ids=["a dimension of size 1", "none"])
def test_a_predicate_is_asked_of_each_slot(wide):
    def late(td):
        asks = (td["observation"][..., 0] == 2) & (td["observation"][..., 1] == 1)
        return asks.unsqueeze(-1) if wide else asks

    said = play(around((2,), control=late), "categorical", flags("..").expand(2, 2), torch.tensor([[0, 0], [0, 1]]))
    assert said["mini_len"][:, -1].flatten().tolist() == [0, 1]


def test_a_predicate_is_of_what_is_shown_where_the_environment_waits():
    """It ended after one step, and goes on unseen: a count of 2 is never shown."""
    env = around((), 1, control=lambda td: td["observation"][..., :1] != 1)
    said = play(env, "categorical", flags("..."), torch.zeros(3, dtype=torch.int64))
    assert said["done"].flatten().tolist() == [False, False, True]
    env = around((), 3, base=6, control=lambda td: td["observation"][..., :1] == 1)
    said = play(env, "categorical", flags("." * 8), torch.zeros(8, dtype=torch.int64))
    assert said["mini_len"].flatten().tolist() == [1] * 8


def test_requests_are_granted_with_their_chance():
    env = around((50,), chance=0.3, cost=1.0, base=2, delays=[1])
    asks = torch.ones((50, 40), dtype=torch.bool)
    first, second, other = (_lucky(env, seed, asks) for seed in (7, 7, 8))
    assert torch.equal(first["mini_len"], second["mini_len"])
    assert not torch.equal(first["mini_len"], other["mini_len"])
    before = torch.cat((torch.zeros(50, 1), first["mini_len"][:, :-1, 0] * ~first["done"][:, :-1, 0]), 1)
    asked = before == 0
    granted = (first["mini_len"][..., 0] == 1) & asked
    share, error = granted.sum() / asked.sum(), math.sqrt(0.3 * 0.7 / asked.sum())
    assert abs(share - 0.3) < 4 * error
    # Every request costs, granted or not, while one can be asked for.
    assert torch.equal(first["observation"].sum(-1) - first["reward"][..., 0], asked.float())


def _lucky(env, seed, asks):
    set_seed(env, seed)
    return play(env, "categorical", asks, torch.zeros_like(asks).long())


# ------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("asked", [None, torch.tensor(True), torch.ones(2, 3), torch.ones(2)], ids=str)
def test_a_predicate_that_only_broadcasts_is_refused(asked):
    env = TransformedEnv(Counting((2,)), ShutdownTimer(3, [2], control=lambda _: asked))
    with pytest.raises(ConfigError, match=r"asks ShutdownTimer .* returned .*expected booleans, torch.bool \(2,\)"):
        env.rollout(2)


def test_no_action_is_added_to_numbers_several_choices_or_without_an_action():
    with pytest.raises(ConfigError, match=r"Counting has the action space Bounded.*control=dimension"):
        around(kind="box", control="action")
    env = Counting((2,), kind="several")
    with pytest.raises(ConfigError, match=r"Counting has the action space MultiCategorical.*control=dimension for"):
        TransformedEnv(env, ShutdownTimer(5))
    env.set_spec_lock_(False)
    env.full_action_spec = Composite(one=Categorical(2, shape=(2,)), two=Unbounded((2, 1)), shape=(2,))
    with pytest.raises(ConfigError, match="no 'action'"):
        TransformedEnv(env, ShutdownTimer(5))


@pytest.mark.parametrize("pay", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_refused(pay):
    env = TransformedEnv(Counting(pay=pay), ShutdownTimer(3))
    with pytest.raises(ConfigError, match="Counting paid a reward of NaN or infinity"):
        env.rollout(2)
