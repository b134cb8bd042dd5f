"""Rewards, their expectations and means over orders, against the paper's formulas and a user's rule."""

import itertools
import math

import pytest
import torch

from drest_torch import DReSTReward, neutrality
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward, expected_discount, largest_reward, log_expected_discount
from tests.helpers import rules


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def discounts(lengths, k, lam, kind):
    """Return the discounts of a meta-episode in this order, literally by the paper's formula or the rule."""
    counts = rules.waning(torch.arange(1.0, 1 + len(lengths))).tolist() if "count" in kind else [1] * len(lengths)
    values = []
    for place, length in enumerate(lengths):
        weights = counts[:place][::-1]  # of earlier mini-episodes, the oldest first
        before = sum(weight for weight, other in zip(weights, lengths, strict=False) if other == length)
        index = sum(weights)
        if "rule" in kind:
            values.append(rules.odd(double(before), index, k, lam).item())
        else:
            values.append(lam ** (before - (index / k if kind.get("normalise", True) else 0)))
    return values


RULES = "tests.helpers.rules:"
each_kind = pytest.mark.parametrize(
    "kind",
    [
        {"normalise": True},
        {"normalise": False},
        {"rule": f"{RULES}odd"},
        {"count": f"{RULES}waning"},
        {"count": f"{RULES}waning", "normalise": False},
    ],
    ids=str,
)


def test_exponents_by_hand():
    chosen_before, index, k = double(0, 1, 3, 0), double(0, 2, 4, 5), torch.tensor([2, 2, 2, 5])
    assert Reward().exponent(chosen_before, index, k).tolist() == pytest.approx([0, 0, 1, -1], abs=1e-12)
    without = Reward(0.5, normalise=False)
    assert without.exponent(chosen_before, index, k).tolist() == [0, 1, 3, 0]
    assert without.discount(chosen_before, index, k).tolist() == [1, 0.5, 0.125, 1]
    assert without.discount(chosen_before, 7, 2).tolist() == [1, 0.5, 0.125, 1]


@each_kind
@pytest.mark.parametrize(("k", "episodes", "lam"), [(2, 1, 0.9), (2, 6, 0.7), (3, 5, 0.6)])
def test_expectations_agree_with_full_enumeration(k, episodes, lam, kind):
    """The sums are over all sequences of lengths: discounts of each length, and the return."""
    reward = Reward(lam, episodes_per_meta=episodes, **kind)
    probability, share = double(0.5, 0.3, 0.2)[:k], double(1.0, 0.4, 0.7)[:k]
    probability = probability / probability.sum()
    of_length, total = [0.0] * k, 0.0
    for lengths in itertools.product(range(k), repeat=episodes):
        chance = math.prod(probability[length].item() for length in lengths)
        for length, discount in zip(lengths, discounts(lengths, k, lam, kind), strict=True):
            of_length[length] += chance * discount
            total += chance * discount * share[length].item()
    assert (probability * reward.expected_discount(probability, k)).tolist() == pytest.approx(of_length)
    assert reward.expected_return(probability, probability * share, k).item() == pytest.approx(total)


ANY_DISCOUNT = [(lam, k, p) for lam in (0.1, 0.5, 0.9, 1.0) for k in (2, 5) for p in (0.002, 0.5, 0.9)]


def log_mean_discount(lam, k, p, before):
    """Return log E[λ^(N − before/k)] as a sum over N in log space, because terms may exceed a float."""
    number = torch.arange(before + 1, dtype=torch.float64)
    ways = math.lgamma(before + 1) - torch.lgamma(number + 1) - torch.lgamma(before - number + 1)
    log_terms = ways + number * math.log(p * lam) + (before - number) * math.log1p(-p)
    return log_terms.logsumexp(-1).item() - before / k * math.log(lam)


@pytest.mark.parametrize("episodes", [1, 2, 16, 300])
@pytest.mark.parametrize(("lam", "k", "p"), ANY_DISCOUNT)
def test_expected_discounts_agree_with_log_space_sums(lam, k, p, episodes):
    logs = double(*(log_mean_discount(lam, k, p, before) for before in range(episodes)))
    assert log_expected_discount(double(p), k, episodes, lam).item() == pytest.approx(logs.logsumexp(-1).item())
    assert expected_discount(double(p), k, episodes, lam).item() == pytest.approx(logs.exp().sum().item())


@pytest.mark.parametrize("episodes", [682, 1024, 10_000])
@pytest.mark.parametrize(("lam", "k", "p"), ANY_DISCOUNT)
def test_the_last_of_many_mini_episodes_adds_its_mean_discount(lam, k, p, episodes):
    """The sums over E and E − 1 mini-episodes, which may exceed a float, differ by the last term."""
    without, whole = (log_expected_discount(double(p), k, size, lam) for size in (episodes - 1, episodes))
    last = double(log_mean_discount(lam, k, p, episodes - 1))
    assert whole.item() == pytest.approx(torch.logaddexp(without, last).item(), rel=1e-9)


def test_only_paid_discounts_are_clipped():
    """With λ = 1/2 and E = 2,000 the largest discount, 2^999.5, fits into 64 bits but exceeds the largest reward."""
    exact = expected_discount(double(0.0), 2, 2000, 0.5)
    paid = Reward(0.5, episodes_per_meta=2000).expected_discount(double(0.0), 2)
    assert exact.log2().item() == pytest.approx(999.5 + math.log2(1 / (1 - 0.5**0.5)))
    assert largest_reward(torch.float64) < paid.item() < 2000 * largest_reward(torch.float64)


@each_kind
@pytest.mark.parametrize(("k", "lengths", "lam"), [(3, (0, 0, 1, 0, 2), 0.8), (2, (0, 0, 1, 0, 1, 0), 0.5)])
def test_a_group_side_by_side_is_the_mean_over_orders(k, lengths, lam, kind):
    """A group is paid the mean over orders, both in total and for each mini-episode."""
    episodes = len(lengths)
    reward = Reward(lam, episodes_per_meta=episodes, counting="averaged", **kind)
    orders = [(order, discounts(order, k, lam, kind)) for order in itertools.permutations(lengths)]
    paid = reward.group_discounts(k, episodes)[k, [lengths.count(length) - 1 for length in lengths]]
    for length in set(lengths):
        in_orders = []
        for order, of_order in orders:
            in_orders += [discount for other, discount in zip(order, of_order, strict=True) if other == length]
        mean = pytest.approx(sum(in_orders) / len(in_orders), rel=1e-6)
        assert all(discount == mean for discount, at in zip(paid.tolist(), lengths, strict=True) if at == length)


def test_the_papers_rule_by_a_user_equals_the_closed_forms():
    drest, paper = Reward(episodes_per_meta=16, rule=f"{RULES}drest"), Reward(episodes_per_meta=16)
    torch.testing.assert_close(drest.group_discounts(3, 16), paper.group_discounts(3, 16), rtol=1e-6, atol=0)
    torch.testing.assert_close(drest.group_discounts(3, 8)[1:], paper.group_discounts(3, 8)[1:], rtol=1e-6, atol=0)
    p, k = torch.linspace(0, 1, 9, dtype=torch.float64), torch.tensor([[2], [3]])
    torch.testing.assert_close(drest.expected_discount(p, k), paper.expected_discount(p, k), rtol=1e-9, atol=0)
    before, index = double(0, 2, 3), torch.tensor([0, 2, 5])
    torch.testing.assert_close(drest.discount(before, index, 2), paper.discount(before, index, 2))
    assert torch.autograd.gradcheck(lambda p: drest.expected_discount(p, 2), p[1:-1].clone().requires_grad_())
    most = (
        drest.group_discounts(2, 16)[2].max().item()
    )  # a mean over places, all of which may be paid in a single place
    assert drest.log10_of_largest() == pytest.approx(math.log10(16 * most))


def test_a_counting_rule_of_ones_equals_the_papers_rule():
    drest, paper = Reward(episodes_per_meta=16, count=f"{RULES}ones"), Reward(episodes_per_meta=16)
    torch.testing.assert_close(drest.group_discounts(3, 16), paper.group_discounts(3, 16), rtol=1e-6, atol=0)
    torch.testing.assert_close(drest.group_discounts(3, 8), paper.group_discounts(3, 8), rtol=1e-6, atol=0)
    p, k = torch.linspace(0, 1, 9, dtype=torch.float64), torch.tensor([[2], [3]])
    torch.testing.assert_close(drest.expected_discount(p, k), paper.expected_discount(p, k), rtol=1e-9, atol=0)
    assert torch.autograd.gradcheck(lambda p: drest.expected_discount(p, 2), p[1:-1].clone().requires_grad_())
    assert drest.log10_of_largest() == pytest.approx(paper.log10_of_largest())


@pytest.mark.parametrize(("episodes", "percent"), [(16, 0.0), (32, 3.0), (64, 13.6)])
def test_a_group_smaller_than_a_meta_episode_pays_more(episodes, percent):
    """The share of 15 other mini-episodes is noisy, and the discount is a convex function of it."""
    p, group = 0.5, 16
    chances = double(*(math.comb(group - 1, n) * p**n * (1 - p) ** (group - 1 - n) for n in range(group)))
    reward = Reward(0.9, episodes_per_meta=episodes)
    paid = (chances * reward.group_discounts(2, group)[2]).sum()
    in_order = reward.expected_discount(double(p), 2)[0] / episodes
    assert 100 * (paid / in_order - 1).item() == pytest.approx(percent, abs=0.1)


def test_gradients_of_mini_credit_hold_the_counts_fixed():
    reward, p = Reward(0.9, episodes_per_meta=40), double(0.3, 0.7).requires_grad_()
    values = {credit: reward.expected_return(p, p, 2, credit=credit) for credit in ("meta", "mini")}
    assert values["meta"].item() == values["mini"].item()
    (fixed,) = torch.autograd.grad(values["mini"], p)
    assert torch.allclose(fixed, reward.expected_discount(p, 2).detach())
    (whole,) = torch.autograd.grad(values["meta"], p)
    assert not torch.allclose(fixed, whole)


def ascended(k, episodes, normalise):
    """Maximise the return of a meta-episode from random choices among k lengths; return the choices [4, k]."""
    reward = Reward(0.9, episodes_per_meta=episodes, normalise=normalise)
    logits = torch.randn(4, k, dtype=torch.float64, generator=torch.Generator().manual_seed(k)).requires_grad_()
    optimiser = torch.optim.Adam([logits], eps=1e-30)  # gradients are tiny for a large E
    for step in range(200):
        optimiser.param_groups[0]["lr"] = 0.15 * (1 - step / 200)
        choices = logits.softmax(-1)
        optimiser.zero_grad()
        (-reward.expected_return(choices, choices, k, credit="meta").sum()).backward()
        optimiser.step()
    return logits.detach().softmax(-1)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("episodes", [64, 256])
def test_meta_credit_leads_to_neutrality_without_the_factor(k, episodes):
    """With the factor it does not, except for three lengths at E = 64, where the theorem holds."""
    assert neutrality(ascended(k, episodes, normalise=False)).min() > 0.99 * math.log2(k)
    with_the_factor = neutrality(ascended(k, episodes, normalise=True)) / math.log2(k)
    assert with_the_factor.min() > 0.999 if (k, episodes) == (3, 64) else with_the_factor.max() < 0.92


def test_rewards_are_clipped_to_finite_values():
    coins = torch.tensor([1.0, 0.0, 1.0])
    discount = torch.tensor([math.inf, math.inf, 4.0])
    best = torch.full((3,), 2)
    most = pytest.approx(largest_reward(torch.float32))
    assert (torch.tensor([largest_reward(torch.float32)]).square() * 2**40).isfinite()
    assert Reward().pay(coins, discount, best).tolist() == [most, 0, 2]
    assert Reward(clip=1.5).pay(coins, discount, best).tolist() == [1.5, 0, 1.5]
    assert Reward(divide_by_best=False).pay(coins, discount, None).tolist() == [most, 0, 4]


@pytest.mark.parametrize("shares", [(0.0, 1.0), (1e-6, 1 - 1e-6), (0.5, 0.5)])
def test_gradients_of_the_largest_discounts_are_finite(shares):
    """With λ = 0.5 and E = 512 they are up to 2^255.5, which exceeds 32-bit floats."""
    probability = torch.tensor(shares, requires_grad=True)
    reward = Reward(0.5, episodes_per_meta=512)
    reward.expected_return(probability, probability, 2).backward()
    assert probability.grad.square().sum().isfinite()  # then each entry is finite
    assert (probability.grad[0] >= probability.grad[1]).item()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lam": 0.0}, "lam=.*expected"),
        ({"counting": "sideways"}, "counting=.*expected"),
        ({"counting": "averaged"}, r"or counting=.sequential"),  # mini-episodes are played in order
        ({"rule": f"{RULES}wrong"}, "must return a tensor"),
        ({"rule": f"{RULES}none"}, r"reward\.rule=.* cannot be imported"),
        ({"rule": f"{RULES}drest", "episodes_per_meta": 1001}, r"reward\.episodes_per_meta=1001"),
        ({"count": f"{RULES}negative"}, r"reward\.count=.* of at least 0"),
        ({"count": f"{RULES}none"}, r"reward\.count=.* cannot be imported"),
        ({"count": f"{RULES}ones", "episodes_per_meta": 1002}, r"reward\.count=.* 1001 mini-episodes"),
        ({"count": f"{RULES}ones", "rule": f"{RULES}drest"}, "leave out one of them"),
    ],
)
def test_invalid_settings_of_the_reward_are_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        DReSTReward.from_reward(Reward(**values)).reward.expected_discount(double(0.5), 2)
