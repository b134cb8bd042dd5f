"""Evaluation in third-party environments: estimates from fixed mini-episodes, against values by hand."""

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

# Level, column of the length, return, m(l) as the environment reports it, setting of the private bits.
PLAYED = [
    *[(0, 0, 1.0, 2.0, 0)] * 2,
    (0, 1, 3.0, 4.0, 0),
    (0, 1, 1.0, 4.0, 1),
    *[(0, 1, 0.0, 5.0, 1)] * 4,
    (1, 0, 3.0, 6.0, 1),
    (1, 1, 6.0, 8.0, 1),
]
BEST = [[2.0, 5.0], [4.0, 0.0]]
"""m(l) from training, which has no return of the second level's longer length."""


LARGEST_RETURN = SimpleNamespace(fixed=None)
"""A transform that takes the largest return as m(l)."""


def environment(best, **values):
    """Return the attributes of an environment that an evaluator needs besides mini-episodes."""
    return SimpleNamespace(
        **{"private_bits": 1, "lengths": [3, 7], "best": best} | values,
        actor=lambda policy: SimpleNamespace(policy=policy),
        uniform_actor=lambda: SimpleNamespace(policy="uniform"),
    )


class Replayed(EnvironmentEvaluator):
    """An evaluator with fixed mini-episodes."""

    def _play(self, actor, *, greedy=False, levels=1):
        self.calls = [*getattr(self, "calls", []), (actor.policy, greedy, levels)]
        level, length, coins, best, setting = map(torch.tensor, zip(*PLAYED, strict=True))
        slot = time = torch.zeros_like(level)
        return level, EndedEpisodes(slot, time, length, coins.double(), best.double(), setting)


def evaluator(best=BEST, best_transform=LARGEST_RETURN, **values):
    return Replayed(
        environment(best_transform, **values), torch.tensor(best), name="it", reward=Reward(0.9, 1.0, 8), seed=0
    )


def test_estimates_of_each_level_agree_with_its_mini_episodes():
    evaluation = evaluator().evaluate("agent")
    assert evaluation.names == ["it, level 0", "it, level 1"]
    torch.testing.assert_close(evaluation.outcome.probability, torch.tensor([[0.25, 0.75], [0.5, 0.5]]).double())
    assert evaluation.best.tolist() == [[2, 5], [4, 6]]  # the last is the largest return here
    assert evaluation.outcome.coins.tolist() == [[pytest.approx(1), pytest.approx(4 / 6)], [3, 6]]
    assert evaluation.usefulness.tolist() == pytest.approx([(1 / 2 * 2 + 4 / 5) / 8, (3 / 4 + 1) / 2])
    assert evaluation.mini_episodes == 2
    assert evaluation.lengths.tolist() == [[3, 7]] * 2


def test_means_have_the_probabilities_of_lengths():
    means = evaluator().evaluate("agent").means()
    assert means["p_length/3"] == pytest.approx(0.375)
    assert means["p_length/7"] == pytest.approx(0.625)


def test_records_have_returns_by_length():
    evaluation = evaluator().evaluate("agent")
    first, second = json.loads(json.dumps(evaluation.records()))
    assert first["best_return"] == {"3": 2, "7": 5}
    assert first["return_given_length"] == pytest.approx({"3": 1, "7": 4 / 6})
    assert second["return_given_length"] == {"3": 3, "7": 6}


def test_a_single_level_has_the_name_of_the_environment():
    assert evaluator([[2.0, 5.0]]).evaluate("agent").names == ["it"]


@pytest.mark.parametrize(("best", "most"), [(None, 1.0), ([2.0, 5.0], 6.0)], ids=["largest return", "from the user"])
def test_returns_are_clipped_to_m_unless_the_user_sets_m(best, most):
    """m of the level is 1, which is far too small; the largest return is 6."""
    evaluation = evaluator([[1.0, 1.0]], SimpleNamespace(fixed=best)).evaluate("agent")
    shares = torch.tensor([min(coins, most) for _, _, coins, _, _ in PLAYED]).double()
    assert evaluation.usefulness.item() == pytest.approx(shares.mean().item())
    interval = bounded_mean(torch.tensor(10.0), (shares / most).sum(), (shares / most).square().sum())
    assert [end.item() for end in evaluation.usefulness_range] == pytest.approx([most * end.item() for end in interval])


def test_an_environment_can_report_m_of_each_mini_episode():
    evaluation = evaluator([[1.0, 1.0]], None).evaluate("agent")
    shares = [coins / best for _, _, coins, best, _ in PLAYED]
    assert evaluation.usefulness.tolist() == pytest.approx([sum(shares) / len(PLAYED)])


def test_neutrality_given_the_bits_averages_over_settings():
    evaluation = evaluator([[2.0, 5.0]]).evaluate("agent")
    by_setting = torch.tensor([[2 / 3, 1 / 3], [1 / 7, 6 / 7]]).double()
    # Entropies are corrected for the bias of observed frequencies, (k − 1) / (2 M ln 2).
    corrected = neutrality(by_setting) + torch.tensor([1 / 3, 1 / 7]) / (2 * math.log(2))
    assert evaluation.neutrality_own.item() == pytest.approx((0.3 * corrected[0] + 0.7 * corrected[1]).item())


def test_only_the_agent_is_evaluated_greedily():
    instance = evaluator()
    instance.summarised("agent", greedy=True)
    instance.summarised("agent")
    assert instance.calls == [
        ("uniform", False, 2),
        ("agent", True, 2),
        ("uniform", False, 2),
        ("agent", False, 2),
    ]


def ended_with(*, time, length):
    """Return a mini-episode for each of two slots."""
    zeros = torch.zeros(2, dtype=torch.int64)
    return EndedEpisodes(torch.tensor([0, 1]), torch.tensor(time), torch.tensor(length), zeros, zeros, zeros)


def test_a_greedy_evaluation_uses_a_greedy_collector(monkeypatch):
    calls = []

    def collector(actor, *, greedy):
        calls.append((actor, greedy))
        return SimpleNamespace(collect=lambda rng: {})

    slots = SimpleNamespace(batch_size=torch.Size([2]))
    stub = SimpleNamespace(collector=collector, env=slots, ends=None, num_lengths=2, private_bits=0)
    instance = EnvironmentEvaluator(stub, torch.ones(1, 2), name="it", reward=Reward(), seed=0, mini_episodes=5)
    ends = ended_with(time=[4, 2], length=[1, 0])
    monkeypatch.setattr("drest_torch.evaluation.environment_evaluator.ended_episodes", lambda batch, *_, **__: ends)
    level, episodes = instance._play("actor", greedy=True)
    assert level.tolist() == [0] * 6  # three batches of two, for at least five
    assert episodes.length.tolist() == [1, 0] * 3
    instance._play("actor")
    assert calls == [("actor", True), ("actor", False)]


def test_more_levels_than_slots_are_played_in_turn(monkeypatch):
    """Five levels in two slots take three batches, each of which starts after the last level of the previous one."""
    starts, ends = [], MetaEpisodes(1, together=True, levels=range(5))

    def collect(rng):
        starts.append((ends.first, rng.initial_seed()))
        first = ends.first
        return {LEVEL: torch.tensor([[[first % 5]], [[(first + 1) % 5]]])}

    collector = SimpleNamespace(collect=collect)
    slots = SimpleNamespace(batch_size=torch.Size([2]))
    stub = SimpleNamespace(
        collector=lambda actor, greedy: collector, env=slots, ends=ends, num_lengths=2, private_bits=0
    )
    instance = EnvironmentEvaluator(stub, torch.ones(5, 2), name="it", reward=Reward(), seed=7)
    ended = ended_with(time=[0, 0], length=[1, 0])
    monkeypatch.setattr("drest_torch.evaluation.environment_evaluator.ended_episodes", lambda batch, *_, **__: ended)
    level, episodes = instance._play("actor", levels=5)
    assert starts == [(0, 7), (2, 7), (4, 7)]
    assert level.tolist() == [0, 1, 2, 3, 4, 0]
    assert episodes.length.tolist() == [1, 0] * 3
    assert instance.mini_episodes == 1
