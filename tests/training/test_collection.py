"""Batches of whole mini-episodes: how they are played, how they are paid, and what a policy and a critic can see."""

import math
from types import SimpleNamespace

import pytest
import torch

from drest_torch.building.checkpoints import State
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.gridworlds import PATIENCE
from drest_torch.training.updates import SampledUpdater
from drest_torch.transforms.base import played
from tests.helpers.collecting import TINY, best_of, make, replayed

LEVELS = [TINY, world("royal_road"), world("spacious")]


def in_order_of_play(found, group):
    """Yield the mini-episodes of each group of slots, which take turns, round by round."""
    for first in range(0, len(found), group):
        mine = found[first : first + group]
        rounds = max(map(len, mine))
        yield [slot[turn] for turn in range(rounds) for slot in mine if turn < len(slot)]


def check_pay(batch, made, group):
    """Compare the pay, and what a critic is shown, with the simulator; return how many mini-episodes were paid."""
    reward, found, paid = made.reward, replayed(batch, made), 0
    k = 2 if reward.normalise else math.inf
    averaged = reward.group_discounts(2, group)[2]
    slots = {id(each): slot for slot, mine in enumerate(found) for each in mine}
    for played_here in in_order_of_play(found, group):
        assert len({mine.level for mine in played_here}) <= 1
        of = made.worlds.base.optima.lengths[played_here[0].level].tolist() if played_here else []
        lengths = [mine.length for mine in played_here]
        for i, mine in enumerate(played_here):
            exponents = torch.tensor([lengths[:i].count(each) - i / k for each in of])
            if reward.counting == "sequential":
                discount = reward.lam ** exponents[of.index(mine.length)].item()
                context = batch["drest_log_discounts"][slots[id(mine)], mine.steps]
                assert torch.allclose(context, (exponents * math.log(reward.lam)).expand_as(context), atol=1e-5)
            else:
                discount = averaged[lengths.count(mine.length) - 1].item()
            expected = discount * mine.coins / best_of(made, mine.level, mine.length)
            assert mine.paid == pytest.approx(expected, rel=1e-5)
            paid += mine.paid > 0
    return paid


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(
    ("counting", "slots", "rounds", "group", "episodes"),
    [
        ("averaged", 32, 1, 4, 4),
        ("averaged", 32, 1, 4, 64),
        ("sequential", 48, 1, 6, 6),
        ("sequential", 8, 6, 1, 6),
        ("sequential", 16, 3, 2, 6),
    ],
)
def test_rewards_against_the_simulator_by_hand(counting, slots, rounds, group, episodes, normalise):
    """The slots of a group take turns: a meta-episode is played side by side, in one slot, or something between."""
    told = {"slots": slots, "rounds": rounds, "group": group, "episodes": episodes, "normalise": normalise}
    made = make(LEVELS, counting=counting, **told)
    batch = made.collect()
    assert batch["next", "mini_done"].sum(1).eq(rounds).all()
    assert check_pay(batch, made, group) > 2


@pytest.mark.parametrize("counting", ["sequential", "averaged"])
def test_mini_episodes_that_never_end_are_given_up_and_leave_no_trace_in_the_pay_of_the_others(counting):
    """On the clock of moves some of a group bump into walls for ever; the others count as if these had not played."""
    made = make([TINY.with_clock("moves")], counting=counting, slots=64, episodes=4, private_bits=1)

    class Some(torch.nn.Module):
        def forward(self, observation, private):
            return 50 * private * torch.tensor([1.0, 0.0, 0.0, 0.0])

    batch = made.collect(Some())
    assert batch.shape == (64, PATIENCE * made.worlds.base.mdp.max_time)
    assert check_pay(batch, made, 4) > 10
    assert played(batch).any(1).tolist() == [len(mine) > 0 for mine in replayed(batch, made)]
    assert 10 < played(batch).any(1).sum() < 60


def test_a_batch_without_an_end_is_refused_in_a_sentence():
    """Before anything is learnt from it: the mean of nothing is no number."""
    made = make([world("royal_road")], slots=8)
    made.worlds.most_steps = 1
    learner = SimpleNamespace(actor=made.worlds.actor(made.policy), policy=made.policy, critic=None)
    updater = SampledUpdater(learner, made.worlds, made.rng)
    with pytest.raises(ConfigError, match=r"no mini-episode ended within 1 steps; train with levels\.clock=steps"):
        updater.take(made.reward, State())
