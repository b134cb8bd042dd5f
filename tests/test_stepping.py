"""Steps on plain dictionaries are those of TorchRL, entry by entry."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchrl.envs import Compose, TransformedEnv

gymnasium = pytest.importorskip("gymnasium")

from drest_torch.rollout import stepping  # noqa: E402

from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch  # noqa: E402
from drest_torch.reward import Reward  # noqa: E402
from drest_torch.transforms import BestReturn, DReSTReward, MetaEpisodes, ShutdownTimer  # noqa: E402
from drest_torch.transforms.base import set_seed  # noqa: E402

SLOTS, STEPS = 6, 90


def chain(group: int, levels: bool, **timer: Any) -> TransformedEnv:
    reward = Reward(episodes_per_meta=3 if group == 1 else group, counting="sequential" if group == 1 else "averaged")
    transforms = (
        ShutdownTimer(12, [9], window=12, **timer),
        BestReturn(2, levels=2 if levels else 1, floor=-0.5),
        MetaEpisodes(3, group=group, levels=range(2) if levels else None),
        DReSTReward.of(reward, num_lengths=2, num_lengths_key=None, group=group),
    )
    return TransformedEnv(GymnasiumBatch("CartPole-v1", SLOTS), Compose(*transforms))


def play(env: TransformedEnv, take: Any, begun: Any) -> list[dict[str, torch.Tensor]]:
    rng = torch.Generator().manual_seed(3)
    before, told = begun, []
    for _ in range(STEPS):
        asks = torch.rand(SLOTS, generator=rng) < 0.06
        before.set("action", torch.where(asks, 2, torch.randint(2, (SLOTS,), generator=rng)))
        after, before = take(before)
        told.append({key: after.get(key).clone() for key in after.keys()})  # noqa: SIM118 (a TensorDict)
    return told


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("levels", [False, True], ids=["as it comes", "levels"])
@pytest.mark.parametrize("ended", ["absorb", "restart"])
def test_both_ways_of_stepping_give_the_same(group: int, levels: bool, ended: Any) -> None:
    told = []
    for by_hand in (True, False):
        env = chain(group, levels, ended=ended, chance=0.7, cost=0.1)
        set_seed(env, 5)
        begun, take = stepping.begin_with(env)
        assert isinstance(begun, stepping.Entries)  # the fast way is taken
        if not by_hand:
            set_seed(env, 5)
            begun, take = env.reset(), stepping._by_torchrl(env)
        told.append(play(env, take, begun))
    ends = torch.stack([said["mini_done"] for said in told[0]])
    assert ends.any(0).all()
    assert not ends.all(0).any()
    assert torch.stack([said["done"] for said in told[0]]).any()
    assert torch.stack([said["reward"] for said in told[0]]).unique().numel() > 3
    for plain, torchrl in zip(*told, strict=True):
        assert plain.keys() == torchrl.keys()
        for key in plain:
            torch.testing.assert_close(plain[key], torchrl[key], rtol=0, atol=0, msg=key)


def test_other_environments_are_stepped_by_torchrl() -> None:
    env = TransformedEnv(GymnasiumBatch("CartPole-v1", 2), Compose(ShutdownTimer(5, [5], control=lambda after: False)))
    begun, _ = stepping.begin_with(env)
    assert not isinstance(begun, stepping.Entries)


def test_what_waits_for_its_group_is_not_stepped() -> None:
    """One slot of a group asks for a delay: the others stand still, and are unseen, until it ends."""
    env = TransformedEnv(GymnasiumBatch("CartPole-v1", 2), Compose(ShutdownTimer(4, [4]), MetaEpisodes(2, group=2)))
    set_seed(env, 0)
    before, take = stepping.begin_with(env)
    shown = []
    for step in range(8):
        before.set("action", torch.tensor([2 if step == 0 else 0, step % 2]))
        after, before = take(before)
        shown.append(after.get("observation").clone())
    assert all(torch.equal(shown[3][1], shown[i][1]) for i in (4, 5, 6))
    assert not any(torch.equal(shown[i][0], shown[i + 1][0]) for i in range(7))
    assert after.get("mini_done").all()
