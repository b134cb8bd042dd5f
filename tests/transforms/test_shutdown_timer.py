"""`ShutdownTimer` against a timer in plain Python, in every step."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torchrl.envs import TransformedEnv

from drest_torch.transforms import ShutdownTimer
from tests.helpers.counting import ACTIONS, Counting, timed
from tests.helpers.rollouts import played

WITH_DIMENSIONS = ("box", "several")


def play(env, kind, asks, actions):
    """Play requests and actions [*batch, T] in this kind of action space; return the entries after each step."""
    chosen, none = torch.where(asks, ACTIONS, actions), torch.zeros_like(actions)
    taken = {
        "categorical": chosen,
        "one_hot": torch.nn.functional.one_hot(chosen, ACTIONS + 1).bool(),
        "box": torch.stack((actions / 4, none.float(), asks.float() - 0.5), -1),
        "several": torch.stack((actions, none, asks.long()), -1),
    }
    return played(env, taken[kind].unbind(env.batch_dims))["next"]


@given(
    settings=st.fixed_dictionaries(
        {
            "base": st.integers(1, 4),
            "delays": st.sampled_from([[2, 4], [1, 1, 1], [3], []]),
            "window": st.sampled_from([1, 2, None]),
            "cost": st.sampled_from([0.25, 0.0]),
            "ended": st.sampled_from(["absorb", "restart"]),
            "idle": st.sampled_from(["repeat", 1]),
        }
    ),
    kind=st.sampled_from(["categorical", "one_hot", *WITH_DIMENSIONS]),
    place=st.none() | st.tuples(st.integers(0, 4), st.sampled_from([0, slice(1)])),
    batch=st.sampled_from([(), (4,), (2, 2)]),
    ends=st.lists(st.sampled_from([1, 2, 4, 100]), min_size=4, max_size=4),
    seed=st.integers(0, 99),
)
def test_every_step_equals_a_timer_in_plain_python(settings, kind, place, batch, ends, seed):
    """With ``place``, a predicate requests delays at this count and returns values with or without a dimension of size
    1."""
    steps, slots = 24, math.prod(batch)
    generator = torch.Generator().manual_seed(seed)
    asks = torch.rand((*batch, steps), generator=generator) < 0.3
    actions = torch.randint(ACTIONS, (*batch, steps), generator=generator)
    control = "dimension" if kind in WITH_DIMENSIONS else "action"
    expected = (
        settings if control == "action" else settings | {"idle": None}
    )  # otherwise a request leaves the action as it is
    if place is not None:
        count, index = place
        control, kind, asks = lambda td: td["observation"][..., index] == count, "categorical", torch.zeros_like(asks)
        expected = settings | {"idle": None}
    inner = Counting(batch, torch.tensor(ends[:slots]).reshape(batch), kind)
    env = TransformedEnv(inner, ShutdownTimer(control=control, **settings))
    assert kind != "categorical" or env.action_spec.space.n == ACTIONS + (place is None)
    after = play(env, kind, asks, actions).reshape(-1, steps)
    lengths = torch.tensor([settings["base"], *settings["delays"]]).cumsum(0)
    acting = actions.reshape(-1, steps) / (4 if kind == "box" else 1)
    for slot in range(slots):
        requests = asks.reshape(-1, steps)[slot].tolist() if place is None else [lambda seen: seen[0] == count] * steps
        rows = list(timed(zip(requests, acting[slot].tolist(), strict=True), end=ends[slot], **expected))
        seen, reward, timer, used, down = zip(*rows, strict=True)
        torch.testing.assert_close(after["observation"][slot], torch.tensor(seen))
        torch.testing.assert_close(after["reward"][slot].flatten(), torch.tensor(reward).float())
        torch.testing.assert_close(after["timer"][slot], torch.tensor(timer))
        assert after["mini_len"][slot].flatten().tolist() == list(used)
        left = torch.tensor(timer)[:, 0] * lengths[-1]
        torch.testing.assert_close(lengths[torch.tensor(used)] - left, after["tick"][slot, :, 0].float())
        for key in ("done", "terminated"):
            assert after[key][slot].flatten().tolist() == list(down)
    assert not after["truncated"].any()
