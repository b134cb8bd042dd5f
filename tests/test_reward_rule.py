"""A discount of a user's own: what is averaged and expected follows from the one function."""

import itertools

import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from tests.helpers import rules

DREST = Reward(episodes_per_meta=16, rule="tests.helpers.rules:drest")
PAPER = Reward(episodes_per_meta=16)
P = torch.linspace(0, 1, 9, dtype=torch.float64)


def test_the_papers_rule_written_by_a_user_pays_what_the_closed_forms_pay():
    torch.testing.assert_close(DREST.group_discounts(3, 16), PAPER.group_discounts(3, 16), rtol=1e-6, atol=0)
    torch.testing.assert_close(DREST.group_discounts(3, 8)[1:], PAPER.group_discounts(3, 8)[1:], rtol=1e-6, atol=0)
    k = torch.tensor([[2], [3]])
    torch.testing.assert_close(DREST.expected_discount(P, k), PAPER.expected_discount(P, k), rtol=1e-9, atol=0)
    before, index = torch.tensor([0.0, 2, 3]), torch.tensor([0, 2, 5])
    torch.testing.assert_close(DREST.discount(before, index, 2), PAPER.discount(before, index, 2))
    assert torch.autograd.gradcheck(lambda p: DREST.expected_discount(p, 2), P[1:-1].clone().requires_grad_())
    assert DREST.log10_of_largest() > 0


def test_a_rule_is_averaged_over_all_orders_and_expected_over_all_histories():
    episodes, p, k = 5, 0.3, 2
    reward = Reward(lam=0.8, episodes_per_meta=episodes, rule="tests.helpers.rules:odd")

    def paid(history: tuple[int, ...], place: int) -> float:
        before = torch.tensor(history[:place].count(1), dtype=torch.float64)
        return float(rules.odd(before, place, k, 0.8))

    for alike in range(episodes):
        orders = list(itertools.permutations([1] * (alike + 1) + [0] * (episodes - 1 - alike)))
        own = [paid(order, place) for order in orders for place in range(episodes) if order[place] == 1]
        found = reward.group_discounts(k, episodes)[k, alike]
        assert found == pytest.approx(sum(own) / len(own), rel=1e-6)
    expected = 0.0
    for history in itertools.product((0, 1), repeat=episodes):
        for place in range(episodes):
            others = [length for at, length in enumerate(history) if at != place]
            chance = 0.5 * p ** sum(others) * (1 - p) ** (episodes - 1 - sum(others))  # either length at its own place
            expected += chance * paid(history, place)
    assert float(reward.expected_discount(torch.tensor(p, dtype=torch.float64), k)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rule": "tests.helpers.rules:wrong"}, "must return a tensor"),
        ({"rule": "tests.helpers.rules:none"}, r"reward\.rule=.* cannot be imported"),
        ({"rule": "tests.helpers.rules:drest", "episodes_per_meta": 1001}, r"reward\.episodes_per_meta=1001"),
    ],
)
def test_a_rule_of_which_nothing_can_be_made_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        Reward(**values).expected_discount(P, 2)
