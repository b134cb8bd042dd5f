"""ShutdownTimer: what it says in every step is what a timer in plain Python says."""

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
    """Play [*batch, T] requests and actions, as this kind of environment takes them; what follows them [*batch, T]."""
    chosen, none = torch.where(asks, ACTIONS, actions), torch.zeros_like(actions)
    taken = {
        "categorical": chosen,
        "one_hot": torch.nn.functional.one_hot(chosen, ACTIONS + 1).bool(),
        "box": torch.stack((actions / 4, none.float(), asks.float() - 0.5), -1),
        "several": torch.stack((actions, none, asks.long()), -1),
    }
    return played(env, taken[kind].unbind(env.batch_dims))["next"]


@given(
    told=st.fixed_dictionaries(
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
def test_every_step_is_as_in_plain_python(told, kind, place, batch, ends, seed):
    """With ``place`` a predicate asks where this count is shown, with a dimension of size 1 or without."""
    steps, slots = 24, math.prod(batch)
    generator = torch.Generator().manual_seed(seed)
    asks = torch.rand((*batch, steps), generator=generator) < 0.3
    actions = torch.randint(ACTIONS, (*batch, steps), generator=generator)
    control = "dimension" if kind in WITH_DIMENSIONS else "action"
    expected = told if control == "action" else told | {"idle": None}  # others act as usual in a step that asks
    if place is not None:
        count, shown = place
        control, kind, asks = lambda td: td["observation"][..., shown] == count, "categorical", torch.zeros_like(asks)
        expected = told | {"idle": None}
    inner = Counting(batch, torch.tensor(ends[:slots]).reshape(batch), kind)
    env = TransformedEnv(inner, ShutdownTimer(control=control, **told))
    assert kind != "categorical" or env.action_spec.space.n == ACTIONS + (place is None)
    said = play(env, kind, asks, actions).reshape(-1, steps)
    lengths = torch.tensor([told["base"], *told["delays"]]).cumsum(0)
    acting = actions.reshape(-1, steps) / (4 if kind == "box" else 1)
    for slot in range(slots):
        asked = asks.reshape(-1, steps)[slot].tolist() if place is None else [lambda seen: seen[0] == count] * steps
        rows = list(timed(zip(asked, acting[slot].tolist(), strict=True), end=ends[slot], **expected))
        seen, reward, timer, used, down = zip(*rows, strict=True)
        torch.testing.assert_close(said["observation"][slot], torch.tensor(seen))
        torch.testing.assert_close(said["reward"][slot].flatten(), torch.tensor(reward).float())
        torch.testing.assert_close(said["timer"][slot], torch.tensor(timer))
        assert said["mini_len"][slot].flatten().tolist() == list(used)
        left = torch.tensor(timer)[:, 0] * lengths[-1]
        torch.testing.assert_close(lengths[torch.tensor(used)] - left, said["tick"][slot, :, 0].float())
        for key in ("done", "terminated"):
            assert said[key][slot].flatten().tolist() == list(down)
    assert not said["truncated"].any()
