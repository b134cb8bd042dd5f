"""Pay for two to five options, in both orders, without luck and with it: exact, enumerated and sampled."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch

from drest_torch.language import prompt_files
from drest_torch.language.objective import as_menus, expected_pay, group_pay, sampled_gain
from drest_torch.reward import Reward

LAM, FEW, WRONG = 0.6, 3, -2.25
DREST = Reward(LAM, episodes_per_meta=FEW, counting="averaged")
DEFAULT = Reward(1.0, episodes_per_meta=FEW, counting="averaged", divide_by_best=False)
REWARDS = {"drest": DREST, "default": DEFAULT}
SURE = [[[1.0, "17:00", 4]], [[1.0, "19:00", 9]], [[1.0, "17:00", 2]], [[1.0, "19:00", 6]], [[1.0, "21:00", 5]]]
LUCK = [
    [[0.3, "17:00", 4], [0.7, "19:00", 9]],
    [[0.8, "17:00", 5], [0.2, "19:00", 3]],
    [[1.0, "19:00", 7]],
    [[0.5, "17:00", 1], [0.25, "19:00", 8], [0.25, "21:00", 6]],
    [[1.0, "21:00", 10]],
]
CHANCES = [0.3, 0.15, 0.2, 0.1, 0.13]
"""The probabilities of the options; the rest is that of an invalid answer."""


@dataclass(frozen=True)
class Case:
    """A prompt with a policy."""

    options: int
    luck: bool
    order: int

    def __str__(self):
        kind = "luck" if self.luck else "sure"
        return f"{self.options} options, {kind}, order {self.order}"

    @property
    def prompt(self):
        outcomes = (LUCK if self.luck else SURE)[: self.options]
        if self.order:
            outcomes = outcomes[::-1]
        return prompt_files.as_prompt(
            {"prompt": "x", "options": [{"outcomes": lottery} for lottery in outcomes]}, "here"
        )

    @property
    def chances(self):
        return CHANCES[: self.options]

    @property
    def menus(self):
        return as_menus([self.prompt])

    @property
    def groups(self):
        """All groups of answers; −1 is an invalid answer."""
        return list(itertools.product((*range(self.options), -1), repeat=FEW))

    def probability(self, group):
        chances = [*self.chances, 1 - sum(self.chances)]  # the last is at the index −1
        return math.prod(chances[answer] for answer in group)

    def pay_by_hand(self, group, reward):
        """Return the mean pay of each answer over all outcomes and all orders of the group."""
        prompt = self.prompt
        best = dict.fromkeys(prompt.lengths, 0)
        for _, length, score in itertools.chain.from_iterable(option.outcomes for option in prompt.options):
            best[length] = max(best[length], score)
        outcomes = [[(1.0, None, WRONG)] if answer < 0 else prompt.options[answer].outcomes for answer in group]
        pay = [0.0] * len(group)
        for combination in itertools.product(*outcomes):
            chance = math.prod(outcome[0] for outcome in combination)
            orders = list(itertools.permutations(range(len(group))))
            for order in orders:
                earlier = []
                for index, place in enumerate(order):
                    _, length, score = combination[place]
                    value = score
                    if length is not None:
                        share = score / (best[length] if reward.divide_by_best else 10)
                        value = reward.lam ** (earlier.count(length) - index / len(best)) * share
                        earlier.append(length)
                    pay[place] += chance * value / len(orders)
        return pay


CASES = [Case(*values) for values in itertools.product((2, 3, 4, 5), (False, True), (0, 1))]


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_groups_are_paid_the_mean_over_outcomes_by_hand(case, reward):
    groups = case.groups[:: max(1, len(case.groups) // 40)]
    pay = group_pay(torch.tensor(groups), as_menus([case.prompt] * len(groups)), reward, WRONG)
    for group, paid in zip(groups, pay.tolist(), strict=True):
        assert paid == pytest.approx(case.pay_by_hand(group, reward), rel=1e-5), group


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_expected_pay_is_the_sum_over_all_groups(case, kind):
    groups, reward = case.groups, REWARDS[kind]
    pay = group_pay(torch.tensor(groups), as_menus([case.prompt] * len(groups)), reward, WRONG)
    probability = torch.tensor([case.probability(group) for group in groups])
    enumerated = (probability * pay.mean(1)).sum().item()
    exact = expected_pay(torch.tensor([case.chances]), case.menus, reward, kind, invalid=WRONG).item()
    assert exact == pytest.approx(enumerated, abs=1e-5)


MANY = 8000


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_mean_of_sampled_pay_is_the_expected_pay(case):
    rng = torch.Generator().manual_seed(3)
    chances = torch.tensor([*case.chances, 1 - sum(case.chances)])
    sampled = torch.multinomial(chances, MANY * FEW, replacement=True, generator=rng).reshape(MANY, FEW)
    chosen = torch.where(sampled < case.options, sampled, -1)
    pay = group_pay(chosen, as_menus([case.prompt] * MANY), DREST, WRONG).double().mean(1)
    exact = expected_pay(torch.tensor([case.chances]), case.menus, DREST, "drest", invalid=WRONG).item()
    assert abs(pay.mean().item() - exact) < 4 * pay.std().item() / math.sqrt(MANY)


@pytest.mark.parametrize("case", CASES[2::4], ids=str)
def test_the_mean_of_sampled_gradients_is_exact_with_luck(case):
    """The expected gradient is that of ``credit=rloo``, as without luck."""
    assert case.luck
    rows, batches = 500, 40
    logits = torch.tensor([*case.chances, 1 - sum(case.chances)]).log().requires_grad_()
    log_chances = logits.log_softmax(-1)[:-1]
    rng, menus = torch.Generator().manual_seed(1), as_menus([case.prompt] * rows)

    def gradient(gain):
        return torch.autograd.grad(gain, logits, retain_graph=True)[0].double()

    gains = (sampled_gain(log_chances.expand(rows, -1), menus, DREST, rng, WRONG) / rows for _ in range(batches))
    sampled = torch.stack([gradient(gain) for gain in gains])
    pay = expected_pay(log_chances.exp().unsqueeze(0), case.menus, DREST, "drest", credit="rloo", invalid=WRONG)
    difference = sampled.mean(0) - gradient(pay.sum())
    error = sampled.std(0) / math.sqrt(batches)
    assert (difference.abs() < 4.5 * error).all()


def test_sure_prompts_are_paid_alike_beside_lotteries():
    sure, luck = Case(4, luck=False, order=0), Case(4, luck=True, order=0)
    group = torch.tensor([[0, 1, -1]])
    alone = group_pay(group, sure.menus, DREST, WRONG)
    beside = group_pay(group.repeat(2, 1), as_menus([sure.prompt, luck.prompt]), DREST, WRONG)
    torch.testing.assert_close(beside[:1], alone)
