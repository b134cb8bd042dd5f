"""Evaluation in environments that are no gridworlds: estimates from mini-episodes that are given, counted by hand."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from drest_torch.evaluation.environment_evaluator import EnvironmentEvaluator
from drest_torch.evaluation.sampled import EndedEpisodes
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward
from drest_torch.statistics.counts import bounded_mean
from drest_torch.transforms import MetaEpisodes
from drest_torch.transforms.base import LEVEL

# Level, column of the length, return, m(l) as the environment says it, setting of the private bits.
PLAYED = [
    *[(0, 0, 1.0, 2.0, 0)] * 2,
    (0, 1, 3.0, 4.0, 0),
    (0, 1, 1.0, 4.0, 1),
    *[(0, 1, 0.0, 5.0, 1)] * 4,
    (1, 0, 3.0, 6.0, 1),
    (1, 1, 6.0, 8.0, 1),
]
BEST = [[2.0, 5.0], [4.0, 0.0]]
"""As training knows it; of the second level's longer length it has seen no return."""


SEEN = SimpleNamespace(fixed=None)
"""m(l) is the largest return that was seen."""


def environment(best, **values):
    """What an evaluator asks of an environment besides its mini-episodes."""
    return SimpleNamespace(
        **{"private_bits": 1, "lengths": [3, 7], "best": best} | values,
        actor=lambda policy: SimpleNamespace(policy=policy),
        uniform_actor=lambda: SimpleNamespace(policy="uniform"),
    )


class Replayed(EnvironmentEvaluator):
    """The evaluator, with mini-episodes that are given in place of those that are played."""

    def _play(self, actor, *, greedy=False, levels=1):
        self.asked = [*getattr(self, "asked", []), (actor.policy, greedy, levels)]
        level, length, coins, best, setting = map(torch.tensor, zip(*PLAYED, strict=True))
        slot = time = torch.zeros_like(level)
        return level, EndedEpisodes(slot, time, length, coins.double(), best.double(), setting)


def evaluator(best=BEST, seen=SEEN, **values):
    return Replayed(environment(seen, **values), torch.tensor(best), name="it", reward=Reward(0.9, 1.0, 8), seed=0)


def test_estimates_are_those_of_each_level_s_mini_episodes():
    found = evaluator().evaluate("agent")
    assert found.names == ["it, level 0", "it, level 1"]
    torch.testing.assert_close(found.outcome.probability, torch.tensor([[0.25, 0.75], [0.5, 0.5]]).double())
    assert found.best.tolist() == [[2, 5], [4, 6]]  # the last is the largest return here
    assert found.outcome.coins.tolist() == [[pytest.approx(1), pytest.approx(4 / 6)], [3, 6]]
    assert found.usefulness.tolist() == pytest.approx([(1 / 2 * 2 + 4 / 5) / 8, (3 / 4 + 1) / 2])
    assert found.mini_episodes == 2
    assert found.lengths.tolist() == [[3, 7]] * 2


def test_means_and_records_name_lengths():
    found = evaluator().evaluate("agent")
    means = found.means()
    assert (means["p_length/3"], means["p_length/7"]) == pytest.approx((0.375, 0.625))
    first, second = json.loads(json.dumps(found.records()))
    assert first["best_return"] == {"3": 2, "7": 5}
    assert first["return_given_length"] == pytest.approx({"3": 1, "7": 4 / 6})
    assert second["return_given_length"] == {"3": 3, "7": 6}


def test_a_level_of_its_own_has_the_plain_name():
    assert evaluator([[2.0, 5.0]]).evaluate("agent").names == ["it"]


@pytest.mark.parametrize("given", [None, [2.0, 5.0]])
def test_returns_above_m_count_as_m_unless_m_is_given(given):
    """m of the only level is far too small, 1."""
    found = evaluator([[1.0, 1.0]], SimpleNamespace(fixed=given)).evaluate("agent")
    most = 1.0 if given is None else 6.0
    shares = torch.tensor([min(coins, most) for _, _, coins, _, _ in PLAYED]).double()
    assert found.usefulness.item() == pytest.approx(shares.mean().item())
    inside = bounded_mean(torch.tensor(10.0), (shares / most).sum(), (shares / most).square().sum())
    assert [end.item() for end in found.usefulness_range] == pytest.approx([most * end.item() for end in inside])


def test_m_that_an_environment_says_itself_is_that_of_the_mini_episode():
    found = evaluator([[1.0, 1.0]], None).evaluate("agent")
    shares = [coins / best for _, _, coins, best, _ in PLAYED]
    assert found.usefulness.tolist() == pytest.approx([sum(shares) / len(PLAYED)])


def test_settings_of_private_bits_are_counted_one_by_one():
    found = evaluator([[2.0, 5.0]]).evaluate("agent")
    of_setting = torch.tensor([[2 / 3, 1 / 3], [1 / 7, 6 / 7]]).double()
    # Entropies are corrected for the bias of observed shares, (k − 1) / (2 M ln 2).
    corrected = neutrality(of_setting) + torch.tensor([1 / 3, 1 / 7]) / (2 * math.log(2))
    assert found.neutrality_own.item() == pytest.approx((0.3 * corrected[0] + 0.7 * corrected[1]).item())


def test_a_greedy_evaluation_is_greedy_and_random_actions_are_not():
    ready = evaluator()
    ready.summarised("agent", greedy=True)
    ready.summarised("agent")
    assert ready.asked == [
        ("uniform", False, 2),
        ("agent", True, 2),
        ("uniform", False, 2),
        ("agent", False, 2),
    ]


def ended_with(*, time, length):
    """A mini-episode of each of two slots."""
    zeros = torch.zeros(2, dtype=torch.int64)
    return EndedEpisodes(torch.tensor([0, 1]), torch.tensor(time), torch.tensor(length), zeros, zeros, zeros)


def test_a_collector_is_told_to_be_greedy(monkeypatch):
    asked = []

    def collector(actor, *, greedy):
        asked.append((actor, greedy))
        return SimpleNamespace(collect=lambda rng: {})

    slots = SimpleNamespace(batch_size=torch.Size([2]))
    made = SimpleNamespace(collector=collector, env=slots, ends=None, num_lengths=2, private_bits=0)
    ready = EnvironmentEvaluator(made, torch.ones(1, 2), name="it", reward=Reward(), seed=0, mini_episodes=5)
    ends = ended_with(time=[4, 2], length=[1, 0])
    monkeypatch.setattr("drest_torch.evaluation.environment_evaluator.ended_episodes", lambda batch, *_, **__: ends)
    level, episodes = ready._play("actor", greedy=True)
    assert (level.tolist(), episodes.length.tolist()) == ([0] * 6, [1, 0] * 3)  # three batches of two, for five
    ready._play("actor")
    assert asked == [("actor", True), ("actor", False)]


def test_more_levels_than_slots_are_played_in_turn(monkeypatch):
    """Five levels in two slots take three batches, which begin where the one before has ended."""
    begun, ends = [], MetaEpisodes(1, together=True, levels=range(5))

    def collect(rng):
        begun.append((ends.first, rng.initial_seed()))
        first = ends.first
        return {LEVEL: torch.tensor([[[first % 5]], [[(first + 1) % 5]]])}

    collector = SimpleNamespace(collect=collect)
    slots = SimpleNamespace(batch_size=torch.Size([2]))
    made = SimpleNamespace(
        collector=lambda actor, greedy: collector, env=slots, ends=ends, num_lengths=2, private_bits=0
    )
    ready = EnvironmentEvaluator(made, torch.ones(5, 2), name="it", reward=Reward(), seed=7)
    ended = ended_with(time=[0, 0], length=[1, 0])
    monkeypatch.setattr("drest_torch.evaluation.environment_evaluator.ended_episodes", lambda batch, *_, **__: ended)
    level, episodes = ready._play("actor", levels=5)
    assert begun == [(0, 7), (2, 7), (4, 7)]
    assert (level.tolist(), episodes.length.tolist()) == ([0, 1, 2, 3, 4, 0], [1, 0] * 3)
    assert ready.mini_episodes == 1
