"""Exact evaluation on levels with two and three lengths, by definition and by what a policy does under each setting."""

import math
from itertools import product

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.exact.propagator import mixture
from drest_torch.envs.levels import LevelError, parse_level
from drest_torch.evaluation import exact_evaluator, memory_guard
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import BYTES_PER_STATE, memory_text
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward

REWARD = Reward(0.6, 0.8, 3)
TWO = parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two")
THREE = parse_level("shutdown: 2\nC1 A B1 C2\n# . B1 .", name="three")


def ready(*levels, reward=REWARD, **values):
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
    return ready()


def test_a_summary_compares_with_chance_and_with_the_optimum(evaluator):
    policy = policy_for(evaluator)
    evaluation, summary = evaluator.summarised(policy, greedy=True)
    uniform = evaluator.evaluate_uniform()
    assert summary["optimum"] == {"usefulness": 1, "neutrality": pytest.approx((1 + math.log2(3)) / 2)}
    assert summary["levels"] == 2
    assert summary["neutrality"] == evaluation.neutrality.mean().item() == 0  # it is greedy
    assert summary["usefulness"] == pytest.approx(evaluation.usefulness.mean().item())
    assert summary["uniform"] == pytest.approx(
        {"usefulness": uniform.usefulness.mean().item(), "neutrality": uniform.neutrality.mean().item()}
    )
    assert 0 < summary["uniform"]["usefulness"] < 0.5


def test_each_level_has_its_lengths_with_their_probabilities(evaluator):
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
    means = evaluation.means()
    assert not any(name.startswith("p_length") for name in means)
    assert means["return/expected_drest"] == pytest.approx(sum(record["expected_drest"] for record in records) / 2)
    alone = ready(THREE).evaluate(policy_for(evaluator)).means()
    assert [alone[f"p_length/{length}"] for length in chances] == pytest.approx([*chances.values()])


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


def test_usefulness_at_each_discount_is_that_of_an_evaluation_with_it(evaluator):
    policy = policy_for(evaluator, private_bits=1)
    in_parts = ready(memory_gib=int(evaluator.sizes.states.max()) * BYTES_PER_STATE / 2**30)
    assert len(in_parts._parts) == 2
    for greedy in (False, True):
        for each in (evaluator, in_parts):
            found = each.usefulness_at(policy, greedy=greedy)
            assert list(found) == [0.95, 0.9]
            for gamma, values in found.items():
                expected = ready(reward=Reward(0.6, gamma, 3)).evaluate(policy, greedy=greedy).usefulness
                assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert found[0.95][0] != found[0.9][0]


@pytest.mark.parametrize("bits", [1, 2])
def test_private_bits_average_and_their_own_neutrality(evaluator, bits):
    policy = policy_for(evaluator, private_bits=bits, std=1.2)
    reachable = evaluator.unrolled(range(2))
    tables = list(evaluator.tables(policy, reachable))
    assert len(tables) == 2**bits
    several = [reachable.arrivals(table) for table in tables]
    evaluation = evaluator.evaluate(policy)
    chance = torch.stack([each.probability for each in several])
    torch.testing.assert_close(evaluation.outcome.probability, chance.mean(0))
    torch.testing.assert_close(evaluation.neutrality_own, neutrality(chance).mean(0))
    assert (evaluation.neutrality_own < evaluation.neutrality - 0.01).any()
    # One policy without bits that acts as often as on average comes to the same.
    average = evaluator.probabilities(policy)
    torch.testing.assert_close(average.sum(-1), torch.ones(len(reachable)).double())
    torch.testing.assert_close(reachable.visits(average), torch.stack([*map(reachable.visits, tables)]).mean(0))
    torch.testing.assert_close(reachable.arrivals(average).coins, mixture(several).coins)
    shown = evaluator.policies_by_private_bits(policy)
    assert list(shown) == {1: ["bit 0", "bit 1"], 2: ["bits 0, 0", "bits 1, 0", "bits 0, 1", "bits 1, 1"]}[bits]
    setting = torch.tensor([1.0, 0.0][:bits])
    torch.testing.assert_close([*shown.values()][1], evaluator.table(policy, reachable, setting))


def test_more_settings_than_are_shown_are_averaged(evaluator):
    for bits in (0, 3):
        policy = policy_for(evaluator, private_bits=bits)
        shown = evaluator.policies_by_private_bits(policy, greedy=True)
        assert list(shown) == [""]
        torch.testing.assert_close(shown[""], evaluator.probabilities(policy, greedy=True))


def test_a_greedy_policy_takes_the_likeliest_action(evaluator):
    policy = policy_for(evaluator)
    reachable = evaluator.unrolled(range(2))
    usual, greedy = (evaluator.table(policy, reachable, None, greedy=greedy) for greedy in (False, True))
    assert torch.equal(greedy.argmax(-1), usual.argmax(-1))
    assert (greedy.max(-1).values == 1).all()
    assert usual.max() < 1


def test_batches_of_observations_change_nothing(evaluator, monkeypatch):
    policy = policy_for(evaluator)
    whole = evaluator.probabilities(policy)
    monkeypatch.setattr(exact_evaluator, "STATES_AT_ONCE", 7)
    torch.testing.assert_close(evaluator.probabilities(policy), whole, atol=1e-5, rtol=1e-5)
    numbers = math.prod(evaluator.observe.shape)
    monkeypatch.setattr(exact_evaluator, "NUMBERS_AT_ONCE", 5 * numbers + 1)
    assert [evaluator.batch_size(most) for most in (3, 9)] == [3, 5]
    monkeypatch.setattr(exact_evaluator, "NUMBERS_AT_ONCE", 1)
    assert evaluator.batch_size(9) == 1


def test_levels_that_do_not_fit_into_memory_are_named_with_their_size():
    states = ready().sizes.states.tolist()
    between = sum(states) / 2 * BYTES_PER_STATE / 2**30
    largest = max(states)
    with pytest.raises(LevelError, match=rf"^\w+ \(\w+\) has up to {largest:,} reachable states .* and memory_gib="):
        ready(memory_gib=between)
    fits = ready(memory_gib=largest * BYTES_PER_STATE / 2**30)
    assert [list(fits.fitting_levels(most)) for most in (1, 2)] == [[0], [0]]
    assert list(ready().fitting_levels(2)) == [0, 1]


def test_the_size_of_levels_in_words():
    gib = 2**30 // BYTES_PER_STATE
    assert memory_text(3 * gib) == (
        f"up to {3 * gib:,} reachable states (estimated), for which exact evaluation takes 3.0 GiB,"
    )
    assert memory_text(gib, 4).endswith("takes 4.0 GiB under 4 settings of the private bits,")
    assert memory_text(memory_guard.MAX_STATES + 1).startswith(
        f"more than {memory_guard.MAX_STATES:,} reachable states (estimated)"
    )


def test_some_of_the_levels_are_unrolled_alone(evaluator):
    first, second = (evaluator.unrolled(range(index, index + 1)) for index in (0, 1))
    whole = evaluator.unrolled(range(2))
    assert first.num_levels == second.num_levels == 1
    assert len(first) + len(second) == len(whole)
    assert first.lengths.tolist() == [whole.lengths[0, :2].tolist()]


def test_levels_that_are_played_are_searchable(monkeypatch):
    asked = []
    monkeypatch.setattr(memory_guard, "check_searchable", lambda mdp, states: asked.append(states.tolist()))
    memory_guard.check_size(ready().mdp, ready().sizes, None)
    assert asked == [ready().sizes.states.tolist()]


def test_the_expected_return_is_divided_by_m_where_luck_makes_it_large():
    """In a level with luck a policy that is sure of the length can expect less than m."""
    text = "lottery a: 1/2 C4 +0 | 1/2 C0 +0\nlottery b: 1/3 C-1 +2 | 2/3 C0 -1\nshutdown: 3\nA La .\n. Lb B2"
    lucky = ready(parse_level(text, name="luck"), reward=Reward(0.6, 0.8, 3))
    evaluation, k = lucky.evaluate_uniform(), int(lucky.optima.num_lengths)
    assert (lucky.committed < lucky.optima.best_return).any()
    expected = 0.0
    columns = (
        each[0].tolist()
        for each in (evaluation.outcome.probability, evaluation.outcome.coins, lucky.optima.best_return)
    )
    for p, coins, most in zip(*columns, strict=True):
        earlier = sum((1 - p * 0.4) ** i * 0.6 ** (-i / k) for i in range(3))
        expected += p * coins * earlier / most if most > 0 else 0.0
    assert evaluation.expected_drest.item() == pytest.approx(expected)
    assert evaluation.usefulness.item() < evaluation.usefulness_committed.item()
