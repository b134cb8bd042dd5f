"""The values of objectives and their rewards for samples, against plain Python, on levels with distinct numbers."""

import math

import pytest
import torch

from drest_torch.algos.objectives import base
from drest_torch.algos.objectives.supports import over_supports
from drest_torch.reward import Reward
from tests.helpers.gradient_ascent import named

P = [[0.7, 0.3, 0.0], [0.15, 0.6, 0.25]]
COINS_OF_LENGTH = [[2.0, 1.0, 0.0], [4.0, 3.0, 1.5]]
M = [[2.5, 4.0, 0.0], [5.0, 4.0, 6.0]]
K = [2, 3]
"""Two levels, of two lengths and of three."""
LAM, EPISODES = 0.6, 5
DIVERGENCE = [0.8, 1.9]


def outcome(reward=None, credit="mini"):
    probability = torch.tensor(P, dtype=torch.float64, requires_grad=True)
    coins = probability * torch.tensor(COINS_OF_LENGTH, dtype=torch.float64)

    def divergence(reference):
        return {"uniform": 1.0, "entropy": 2.0}[reference] * torch.tensor(DIVERGENCE, dtype=torch.float64)

    reward = reward or Reward(LAM, episodes_per_meta=EPISODES)
    levels = torch.tensor(M), torch.tensor(K), torch.tensor([False, True])
    return base.PolicyOutcome(probability, coins, *levels, reward, credit, None, divergence)


def share(level, length):
    return COINS_OF_LENGTH[level][length] / M[level][length]


def useful(level):
    return sum(P[level][length] * share(level, length) for length in range(K[level]))


def bits(level):
    return -sum(p * math.log2(p) for p in P[level] if p)


def coins(level):
    return sum(p * mean_coins for p, mean_coins in zip(P[level], COINS_OF_LENGTH[level], strict=True))


def drest(level, worth=share):
    """Return the expected return of a meta-episode of E mini-episodes, divided by E."""
    total = 0.0
    for length in range(K[level]):
        p = P[level][length]
        discounts = [((1 - p * (1 - LAM)) * LAM ** (-1 / K[level])) ** before for before in range(EPISODES)]
        total += p * worth(level, length) * sum(discounts) / EPISODES
    return total


def flat(level):
    return sum(share(level, length) for length in range(K[level])) / K[level]


def rare(level):
    others, total = 3, useful(level)
    for p in P[level]:
        ways = [math.comb(others, n) * p**n * (1 - p) ** (others - n) for n in range(others + 1)]
        total += 0.7 * p * sum(way / math.sqrt(n + 1) for n, way in enumerate(ways))
    return total


VALUES = {
    "drest": ({"name": "drest"}, drest),
    "weighted": ({"name": "weighted", "weight": 0.4}, lambda level: useful(level) + 0.4 * bits(level)),
    "gini": (
        {"name": "weighted", "weight": 0.4, "spread": "gini"},
        lambda level: useful(level) + 0.4 * (1 - sum(p * p for p in P[level])),
    ),
    "product": (
        {"name": "weighted", "product": True},
        lambda level: useful(level) * bits(level) / math.log2(K[level]),
    ),
    "unequal": (
        {"name": "unequal", "factor": 3.0},
        lambda level: drest(level, lambda level, length: share(level, length) * (3 if length == K[level] - 1 else 1)),
    ),
    "rarity": ({"name": "rarity", "weight": 0.7, "group": 4}, rare),
    "kl": ({"name": "kl", "beta": 0.3}, lambda level: useful(level) - 0.3 * DIVERGENCE[level]),
    "entropy": (
        {"name": "kl", "beta": 0.3, "reference": "entropy"},
        lambda level: useful(level) - 0.3 * 2 * DIVERGENCE[level],
    ),
    "neutrality+": ({"name": "neutrality_plus"}, lambda level: flat(level) if level else drest(level)),
    "neutrality+ everywhere": ({"name": "neutrality_plus", "where": "everywhere"}, flat),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_value_of_an_objective_equals_its_formula(name):
    values, by_hand = VALUES[name]
    value = named(values).value(outcome())
    assert value.tolist() == pytest.approx([by_hand(level) for level in (0, 1)], rel=1e-6)


def test_values_without_division_by_m():
    plain = outcome(Reward(LAM, episodes_per_meta=EPISODES, divide_by_best=False))
    value = named({"name": "drest"}).value(plain)
    expected = [drest(level, lambda level, length: COINS_OF_LENGTH[level][length]) for level in (0, 1)]
    assert value.tolist() == pytest.approx(expected)
    value = named({"name": "kl", "beta": 0.3}).value(plain)
    assert value.tolist() == pytest.approx([coins(level) - 0.3 * DIVERGENCE[level] for level in (0, 1)])


@pytest.mark.parametrize("name", ["drest", "rarity"])
def test_mini_episode_credit_takes_discounts_as_constants(name):
    """The gradient is computed with fixed discounts, or bonuses."""
    level_outcome = outcome()
    values, _ = VALUES[name]
    (slope,) = torch.autograd.grad(named(values).value(level_outcome).sum(), level_outcome.probability)
    for level in (0, 1):
        for length in range(K[level]):
            p = P[level][length]
            if name == "drest":
                ratio = (1 - p * (1 - LAM)) * LAM ** (-1 / K[level])
                expected = share(level, length) * sum(ratio**before for before in range(EPISODES)) / EPISODES
            else:
                ways = [math.comb(3, n) * p**n * (1 - p) ** (3 - n) / math.sqrt(n + 1) for n in range(4)]
                expected = share(level, length) + 0.7 * sum(ways)
            assert slope[level, length].item() == pytest.approx(expected, rel=1e-5)
    if name == "drest":
        whole = outcome(credit="meta")
        (other,) = torch.autograd.grad(named(values).value(whole).sum(), whole.probability)
        assert (other[0] < slope[0])[:2].all()


BOUND, PROPORTIONAL, INTEGRAL = 0.95, 4.0, 0.5
PROBLEMS = {
    "coins_entropy": (coins, lambda level: bits(level) / math.log2(K[level]) - BOUND),
    "usefulness_entropy": (useful, lambda level: bits(level) / math.log2(K[level]) - BOUND),
    "entropy_usefulness": (lambda level: bits(level) / math.log2(K[level]), lambda level: useful(level) - BOUND),
}


def constraint(problem):
    values = {"at_least": BOUND, "proportional": PROPORTIONAL, "integral": INTEGRAL}
    return named({"name": "constrained", "problem": problem, **values})


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_multiplier_is_controlled_by_the_violation(problem):
    objective, (maximised, slack) = constraint(problem), PROBLEMS[problem]
    violation, total = -(slack(0) + slack(1)) / 2, 0.0
    assert violation > 0.01
    for _ in range(3):
        value = objective.value(outcome())
        total += INTEGRAL * violation
        price = total + PROPORTIONAL * violation
        expected = [(maximised(level) + price * slack(level)) / (1 + price) for level in (0, 1)]
        assert value.tolist() == pytest.approx(expected, rel=1e-6)
        metrics = {name: value.item() for name, value in objective.metrics().items()}
        assert metrics == pytest.approx({"objective/multiplier": price, "objective/largest_multiplier": price})
    assert objective.tensors()["sum"][0].item() == pytest.approx(total)


def test_every_length_has_its_own_multiplier():
    objective = constraint("coins_shares")
    slack = [
        [p - BOUND / K[level] if length < K[level] else 0 for length, p in enumerate(P[level])] for level in (0, 1)
    ]
    prices = [max(0.0, -(INTEGRAL + PROPORTIONAL) * (slack[0][length] + slack[1][length]) / 2) for length in range(3)]
    assert prices[0] == prices[1] == 0 < prices[2]
    expected = [
        (coins(level) + sum(price * violation for price, violation in zip(prices, slack[level], strict=True)))
        / (1 + sum(prices))
        for level in (0, 1)
    ]
    assert objective.value(outcome()).tolist() == pytest.approx(expected)
    metrics = [value.item() for value in objective.metrics().values()]
    assert metrics == pytest.approx([sum(prices), max(prices)])
    sums = objective.tensors()["sum"].tolist()
    violations = [-(slack[0][length] + slack[1][length]) / 2 for length in range(3)]
    assert sums[:3] == pytest.approx([max(0.0, INTEGRAL * violation) for violation in violations])
    assert not any(sums[3:])


# ------------------------------------------------------------------------------------------- samples

COLUMN, ALIKE = [0, 0, 1, 0, 2, 0, 0, 2], [2, 2, 0, 2, 1, 1, 1, 1]
"""The length of each mini-episode in two groups of four, on levels of two and of three lengths, and its count of
others in the group with this length."""
COINS, SHARE = [1.0, 2.0, 3.0, 0.5, 2.5, 1.5, 0.0, 4.0], [0.5, 1.0, 0.6, 0.25, 0.9, 0.3, 0.0, 0.8]
OF = [2] * 4 + [3] * 4
RETURNS = [0.4, 0.8, 0.7, 0.2, 1.1, 0.3, 0.0, 0.9]
STEPS, LOG_PROB = [3, 3, 5, 3, 7, 2, 2, 7], [-2.0, -3.0, -4.0, -1.0, -6.0, -1.5, -2.5, -7.0]
PLAYED = base.EpisodeBatch(
    torch.tensor(COINS), torch.tensor(SHARE), torch.tensor(COLUMN), torch.tensor(ALIKE), 3, torch.tensor(OF),
    torch.tensor(LOG_PROB), torch.tensor(STEPS), torch.tensor(RETURNS),
)  # fmt: skip


def surprise(index):
    return -math.log2((ALIKE[index] + 0.5) / (3 + OF[index] / 2))


def entropy(index):
    """Return the entropy of its group's shares plus (occurring lengths − 1) ÷ 2g nats."""
    group = COLUMN[:4] if index < 4 else COLUMN[4:]
    shares = [group.count(length) / 4 for length in set(group)]
    return -sum(share_of_length * math.log2(share_of_length) for share_of_length in shares) + (len(shares) - 1) / (
        2 * 4 * math.log(2)
    )


def largest(index):
    return math.log2(OF[index])


PAID = {
    "weighted": ({"name": "weighted", "weight": 0.4}, lambda i: SHARE[i] + 0.4 * surprise(i)),
    "gini": ({"name": "weighted", "weight": 0.4, "spread": "gini"}, lambda i: SHARE[i] - 0.8 * ALIKE[i] / 3),
    "rarity": ({"name": "rarity", "weight": 0.7}, lambda i: SHARE[i] + 0.7 / math.sqrt(ALIKE[i] + 1)),
    "kl": (
        {"name": "kl", "beta": 0.3},
        lambda i: SHARE[i] - 0.3 * (LOG_PROB[i] + STEPS[i] * math.log(4)),
    ),
    "entropy": ({"name": "kl", "beta": 0.3, "reference": "entropy"}, lambda i: SHARE[i] - 0.3 * LOG_PROB[i]),
    "unequal": (
        {"name": "unequal", "factor": 3.0, "length": "shortest"},
        lambda i: RETURNS[i] * (3 if COLUMN[i] == 0 else 1),
    ),
}


@pytest.mark.parametrize("name", PAID)
def test_the_reward_of_a_sample_equals_its_formula(name):
    values, by_hand = PAID[name]
    objective = named(values)
    assert objective.can_be_sampled()
    assert objective.pay(PLAYED).tolist() == pytest.approx([by_hand(index) for index in range(8)], rel=1e-5)


def test_objectives_say_if_they_can_be_sampled():
    for values in ({"name": "weighted", "product": True}, {"name": "kl", "reference": "best"}, {"name": "drest"}):
        assert not named(values).can_be_sampled()
    assert named({"name": "constrained"}).can_be_sampled()


PRICED = {
    "coins_entropy": (COINS, surprise, lambda i: entropy(i) / largest(i) - BOUND),
    "usefulness_entropy": (SHARE, surprise, lambda i: entropy(i) / largest(i) - BOUND),
    "entropy_usefulness": (None, lambda i: SHARE[i] * largest(i), lambda i: SHARE[i] - BOUND),
}


@pytest.mark.parametrize("problem", PRICED)
def test_samples_are_paid_at_the_price_of_the_constraint(problem):
    objective, (maximised, pays, slack) = constraint(problem), PRICED[problem]
    violation = -sum(slack(index) for index in range(8)) / 8
    assert violation > 0.01
    price = (INTEGRAL + PROPORTIONAL) * violation
    value = [surprise(index) / largest(index) for index in range(8)] if maximised is None else maximised
    expected = [(value[index] + price * pays(index) / largest(index)) / (1 + price) for index in range(8)]
    assert objective.pay(PLAYED).tolist() == pytest.approx(expected, rel=1e-5)


def test_samples_are_paid_at_the_price_of_their_length():
    objective = constraint("coins_shares")
    means = [
        sum((COLUMN[i] == length) - BOUND / OF[i] if length < OF[i] else 0 for i in range(8)) / 8 for length in range(3)
    ]
    prices = [max(0.0, -(INTEGRAL + PROPORTIONAL) * mean) for mean in means]
    assert max(prices) > 0
    expected = [(COINS[index] + prices[COLUMN[index]]) / (1 + sum(prices)) for index in range(8)]
    assert objective.pay(PLAYED).tolist() == pytest.approx(expected, rel=1e-5)


# ------------------------------------------------------------------------------------------- sets of lengths


@pytest.mark.parametrize("credit", ["mini", "meta"])
def test_lotteries_with_the_same_lengths_are_one_group(credit):
    """The level has two lotteries over both lengths, one with a certain length, and padding."""
    chance = [[0.5, 0.5], [0.2, 0.8], [1.0, 0.0], [0.0, 0.0]]
    mean_coins = [[2.0, 3.0], [1.0, 6.0], [4.0, 0.0], [0.0, 0.0]]
    entered = [0.3, 0.2, 0.4, 0.0]
    columns = (torch.tensor(column, dtype=torch.float64).unsqueeze(1) for column in (entered, chance, mean_coins))
    level = outcome(credit=credit)
    value = over_supports(level, *columns)
    both = entered[0] + entered[1]
    arrives = [entered[0] * chance[0][length] + entered[1] * chance[1][length] for length in (0, 1)]
    coins = [
        sum(entered[lottery] * chance[lottery][length] * mean_coins[lottery][length] for lottery in (0, 1))
        for length in (0, 1)
    ]
    best = [2.0, 6.0]
    groups = {both: sum(coins[length] / arrives[length] / best[length] for length in (0, 1)) / 2, entered[2]: 1.0}
    expected = 0.0
    for p, worth in groups.items():
        discounts = [((1 - p * (1 - LAM)) * LAM ** (-1 / 2)) ** before for before in range(EPISODES)]
        expected += p * worth * sum(discounts) / EPISODES
    assert value.tolist() == pytest.approx([expected])
