"""Exact evaluation on levels with two and three lengths, compared with definitions."""

import math
from itertools import product
from typing import NamedTuple

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.exact.propagator import Reachable, mixture
from drest_torch.envs.levels import LevelError, parse_level
from drest_torch.evaluation import exact_evaluator, memory_guard
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import BYTES_PER_STATE, memory_text
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward

REWARD = Reward(0.6, 0.8, 3)
TWO = parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two")
THREE = parse_level("shutdown: 2\nC1 A B1 C2\n# . B1 .", name="three")


def evaluator_of(*levels, reward=REWARD, **values):
    return ExactEvaluator(levels or (TWO, THREE), "grid", reward=reward, **values)


def policy_for(evaluator, private_bits=0, std=0.8):
    torch.manual_seed(3)
    size, observe = NetworkSize(16, 1, "tanh"), evaluator.observe
    policy = Policy(observe.shape, 4, size, scale=observe.scale, private_bits=private_bits)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return policy


@pytest.fixture(scope="module")
def evaluator():
    return evaluator_of()


def test_a_summary_has_the_means_of_the_agent(evaluator):
    evaluation, summary = evaluator.summarised(policy_for(evaluator), greedy=True)
    assert summary["levels"] == 2
    assert summary["neutrality"] == evaluation.neutrality.mean().item() == 0  # a greedy policy is deterministic
    assert summary["usefulness"] == pytest.approx(evaluation.usefulness.mean().item())


def test_a_summary_has_the_optimum(evaluator):
    _, summary = evaluator.summarised(policy_for(evaluator))
    assert summary["optimum"] == {"usefulness": 1, "neutrality": pytest.approx((1 + math.log2(3)) / 2)}


def test_a_summary_has_the_means_of_the_random_policy(evaluator):
    _, summary = evaluator.summarised(policy_for(evaluator))
    uniform = evaluator.evaluate_uniform()
    assert summary["uniform"] == pytest.approx(
        {"usefulness": uniform.usefulness.mean().item(), "neutrality": uniform.neutrality.mean().item()}
    )
    assert 0 < summary["uniform"]["usefulness"] < 0.5


def test_records_have_the_metrics_of_each_level(evaluator):
    evaluation = evaluator.evaluate(policy_for(evaluator))
    assert evaluation.length_probabilities(0).keys() == {2, 4}
    records = evaluation.records()
    assert [record["name"] for record in records] == ["two", "three"]
    for index, record in enumerate(records):
        chances = record["length_probabilities"]
        assert sum(chances.values()) == pytest.approx(1)
        assert record["neutrality"] == pytest.approx(-sum(p * math.log2(p) for p in chances.values()))
        assert record["neutrality_normalised"] == pytest.approx(record["neutrality"] / math.log2(len(chances)))
        assert record["usefulness"] == evaluation.usefulness[index].item()
        assert record["expected_drest"] == evaluation.expected_drest[index].item()


def test_means_average_over_levels(evaluator):
    evaluation = evaluator.evaluate(policy_for(evaluator))
    means = evaluation.means()
    expected = [record["expected_drest"] for record in evaluation.records()]
    assert not any(name.startswith("p_length") for name in means)
    assert means["return/expected_drest"] == pytest.approx(sum(expected) / 2)


def test_means_of_a_single_level_have_its_lengths(evaluator):
    policy = policy_for(evaluator)
    _, record = evaluator.evaluate(policy).records()
    means = evaluator_of(THREE).evaluate(policy).means()
    for length, probability in record["length_probabilities"].items():
        assert means[f"p_length/{length}"] == pytest.approx(probability)


def test_the_expected_return_is_the_mean_over_all_meta_episodes(evaluator):
    evaluation = evaluator.evaluate(policy_for(evaluator))
    lam, episodes = REWARD.lam, REWARD.episodes_per_meta
    for index, k in enumerate((2, 3)):
        chance = evaluation.outcome.probability[index, :k].tolist()
        share = (evaluation.outcome.coins / evaluator.optima.best_return)[index, :k].tolist()
        expected = 0.0
        for lengths in product(range(k), repeat=episodes):
            paid = [share[l] * lam ** (lengths[:i].count(l) - i / k) for i, l in enumerate(lengths)]
            expected += math.prod(chance[l] for l in lengths) * sum(paid)
        assert evaluation.expected_drest[index].item() == pytest.approx(expected, rel=1e-6)


def test_usefulness_at_a_discount_agrees_with_an_evaluation(evaluator):
    policy = policy_for(evaluator, private_bits=1)
    in_parts = evaluator_of(memory_gib=int(evaluator.sizes.states.max()) * BYTES_PER_STATE / 2**30)
    assert len(in_parts._parts) == 2
    for greedy in (False, True):
        for level_set in (evaluator, in_parts):
            usefulness = level_set.usefulness_at(policy, greedy=greedy)
            assert list(usefulness) == [0.95, 0.9]
            for gamma, values in usefulness.items():
                expected = evaluator_of(reward=Reward(0.6, gamma, 3)).evaluate(policy, greedy=greedy).usefulness
                assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert usefulness[0.95][0] != usefulness[0.9][0]


class Randomised(NamedTuple):
    """A policy with private bits, and its action probabilities under each setting of them."""

    policy: Policy
    reachable: Reachable
    tables: list[torch.Tensor]


@pytest.fixture(params=[1, 2], ids=["1 bit", "2 bits"])
def randomised(request, evaluator):
    policy = policy_for(evaluator, private_bits=request.param, std=1.2)
    reachable = evaluator.unrolled(range(2))
    tables = list(evaluator.tables(policy, reachable))
    assert len(tables) == 2**request.param
    return Randomised(policy, reachable, tables)


def test_evaluation_averages_over_private_bits(evaluator, randomised):
    evaluation = evaluator.evaluate(randomised.policy)
    outcomes = [randomised.reachable.arrivals(table) for table in randomised.tables]
    chance = torch.stack([outcome.probability for outcome in outcomes])  # [settings, B, K]
    torch.testing.assert_close(evaluation.outcome.probability, chance.mean(0))
    torch.testing.assert_close(evaluation.neutrality_own, neutrality(chance).mean(0))
    assert (evaluation.neutrality_own < evaluation.neutrality - 0.01).any()


def test_average_actions_have_the_outcomes_of_the_mixture(evaluator, randomised):
    """A policy without bits that acts with the average frequencies has the same visits and coins."""
    reachable = randomised.reachable
    average = evaluator.probabilities(randomised.policy)
    visits = torch.stack([reachable.visits(table) for table in randomised.tables])  # [settings, N]
    outcomes = [reachable.arrivals(table) for table in randomised.tables]
    torch.testing.assert_close(average.sum(-1), torch.ones(len(reachable)).double())
    torch.testing.assert_close(reachable.visits(average), visits.mean(0))
    torch.testing.assert_close(reachable.arrivals(average).coins, mixture(outcomes).coins)


SETTINGS = {1: ["bit 0", "bit 1"], 2: ["bits 0, 0", "bits 1, 0", "bits 0, 1", "bits 1, 1"]}
"""Names of the settings by the number of private bits."""


def test_policies_are_named_by_their_private_bits(evaluator, randomised):
    bits = randomised.policy.private_bits
    policies = evaluator.policies_by_private_bits(randomised.policy)
    setting = torch.tensor([1.0, 0.0][:bits])
    assert list(policies) == SETTINGS[bits]
    second = policies[SETTINGS[bits][1]]
    torch.testing.assert_close(second, evaluator.table(randomised.policy, randomised.reachable, setting))


def test_many_settings_of_private_bits_are_averaged(evaluator):
    for bits in (0, 3):
        policy = policy_for(evaluator, private_bits=bits)
        policies = evaluator.policies_by_private_bits(policy, greedy=True)
        assert list(policies) == [""]
        torch.testing.assert_close(policies[""], evaluator.probabilities(policy, greedy=True))


def test_a_greedy_policy_takes_the_most_likely_action(evaluator):
    policy = policy_for(evaluator)
    reachable = evaluator.unrolled(range(2))
    stochastic = evaluator.table(policy, reachable, None)
    greedy = evaluator.table(policy, reachable, None, greedy=True)
    assert torch.equal(greedy.argmax(-1), stochastic.argmax(-1))
    assert (greedy.max(-1).values == 1).all()
    assert stochastic.max() < 1


def test_the_batch_size_does_not_change_probabilities(evaluator, monkeypatch):
    policy = policy_for(evaluator)
    whole = evaluator.probabilities(policy)
    monkeypatch.setattr(exact_evaluator, "STATES_AT_ONCE", 7)
    torch.testing.assert_close(evaluator.probabilities(policy), whole, atol=1e-5, rtol=1e-5)


def test_the_batch_size_is_limited_by_the_size_of_observations(evaluator, monkeypatch):
    numbers = math.prod(evaluator.observe.shape)
    monkeypatch.setattr(exact_evaluator, "NUMBERS_AT_ONCE", 5 * numbers + 1)
    assert [evaluator.batch_size(most) for most in (3, 9)] == [3, 5]
    monkeypatch.setattr(exact_evaluator, "NUMBERS_AT_ONCE", 1)
    assert evaluator.batch_size(9) == 1


def test_a_level_that_exceeds_the_memory_is_named_with_its_size():
    states = evaluator_of().sizes.states.tolist()
    between = sum(states) / 2 * BYTES_PER_STATE / 2**30
    largest = max(states)
    with pytest.raises(LevelError, match=rf"^\w+ \(\w+\) has up to {largest:,} reachable states .* but memory_gib="):
        evaluator_of(memory_gib=between)


def test_fitting_levels_depend_on_the_memory():
    largest = max(evaluator_of().sizes.states.tolist())
    limited = evaluator_of(memory_gib=largest * BYTES_PER_STATE / 2**30)
    assert list(limited.fitting_levels(1)) == [0]
    assert list(limited.fitting_levels(2)) == [0]
    assert list(evaluator_of().fitting_levels(2)) == [0, 1]


def test_the_size_of_levels_as_text():
    gib = 2**30 // BYTES_PER_STATE
    assert memory_text(3 * gib) == (
        f"up to {3 * gib:,} reachable states (estimated), for which exact evaluation takes 3.0 GiB,"
    )
    assert memory_text(gib, 4).endswith("takes 4.0 GiB under 4 settings of the private bits,")
    assert memory_text(memory_guard.MAX_STATES + 1).startswith(
        f"more than {memory_guard.MAX_STATES:,} reachable states (estimated)"
    )


def test_a_range_of_levels_can_be_unrolled(evaluator):
    first, second = (evaluator.unrolled(range(index, index + 1)) for index in (0, 1))
    whole = evaluator.unrolled(range(2))
    assert first.num_levels == second.num_levels == 1
    assert len(first) + len(second) == len(whole)
    assert first.lengths.tolist() == [whole.lengths[0, :2].tolist()]


def test_levels_for_sampling_must_be_searchable(monkeypatch):
    calls = []
    monkeypatch.setattr(memory_guard, "check_searchable", lambda mdp, states: calls.append(states.tolist()))
    memory_guard.check_size(evaluator_of().mdp, evaluator_of().sizes, None)
    assert calls == [evaluator_of().sizes.states.tolist()]


def test_the_expected_return_is_divided_by_m_despite_chance():
    """In a level with luck, a policy that is certain of the length can have an expectation below m."""
    text = "lottery a: 1/2 C4 +0 | 1/2 C0 +0\nlottery b: 1/3 C-1 +2 | 2/3 C0 -1\nshutdown: 3\nA La .\n. Lb B2"
    lucky = evaluator_of(parse_level(text, name="luck"), reward=Reward(0.6, 0.8, 3))
    evaluation, k = lucky.evaluate_uniform(), int(lucky.optima.num_lengths)
    assert (lucky.committed < lucky.optima.best_return).any()
    expected = 0.0
    outcome, best_return = evaluation.outcome, lucky.optima.best_return[0].tolist()
    rows = zip(outcome.probability[0].tolist(), outcome.coins[0].tolist(), best_return, strict=True)
    for p, coins, most in rows:
        earlier = sum((1 - p * 0.4) ** i * 0.6 ** (-i / k) for i in range(3))
        if most > 0:
            expected += p * coins * earlier / most
    assert evaluation.expected_drest.item() == pytest.approx(expected)
    assert evaluation.usefulness.item() < evaluation.usefulness_committed.item()
