"""Fixed points of DReST with credit within the mini-episode, for choices between sure lengths or lotteries over two.

`drest_torch.theory.balance` is the fixed point for two sure lengths. Here the options are lotteries, in which every
length offers the same share of m(l): all of it, or 1 − κ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.reward import Reward, expected_discount
from drest_torch.theory import balance


def _mean_reward(chance: float, longer: Tensor, lam: float, episodes: int) -> Tensor:
    """Return the mean reward of a lottery with this chance of the longer length, if P(longer) = ``longer``."""
    short, long = (expected_discount(p, 2, episodes, lam) for p in (1 - longer, longer))
    return (1 - chance) * short + chance * long


def critical_cost(first: float, second: float, lam: float, episodes: int) -> float:
    """Return κ*, the share of the coins below which DReST pays for a shift from p to q; 0 if it never pays."""
    longer = torch.tensor(first, dtype=torch.float64)
    ratio = _mean_reward(first, longer, lam, episodes) / _mean_reward(second, longer, lam, episodes)
    return max(0.0, 1 - ratio.item())


def paid_shift(first: float, second: float, cost: float, lam: float, episodes: int) -> float:
    """Return α, the probability of taking the lottery with chance q at the cost κ rather than that with chance p."""
    low, high = 0.0, 1.0
    for _ in range(60):
        alpha = (low + high) / 2
        longer = torch.tensor((1 - alpha) * first + alpha * second, dtype=torch.float64)
        gain = (1 - cost) * _mean_reward(second, longer, lam, episodes) - _mean_reward(first, longer, lam, episodes)
        if gain > 0:
            low = alpha
        else:
            high = alpha
    return (low + high) / 2


def button_fixed_point(chance: float, lam: float, episodes: int) -> float:
    """Return P(longer) = min(c, b(c)) for a button that works with chance c and costs the coins of the shorter
    length."""
    return min(chance, balance(1.0, chance, lam, episodes).item())


def button_optimum(chance: float, lam: float, episodes: int) -> float:
    """Return the P(longer) of such a button that maximises the expected return of a meta-episode, by grid search.

    Training has credit within the mini-episode, so this is not its fixed point.
    """
    longer = torch.linspace(0, chance, 200_001, dtype=torch.float64)
    short, long = (expected_discount(p, 2, episodes, lam) for p in (1 - longer, longer))
    return longer[((1 - longer / chance) * short + longer * long).argmax()].item()


def button_usefulness(chance: float, longer: float) -> float:
    """Return USEFULNESS = 1 − P(1 − c) / c for a policy that presses such a button so that P(longer) = P."""
    return 1 - longer * (1 - chance) / chance


def press_rate(reward: Reward, stay: Tensor, press: Tensor, chance: float = 1.0) -> Tensor:
    """Return P(press) = min(q, b) / q for a button that works with chance q, where lengths pay these values [...].

    b is the probability of the length of the button at which both choices pay the same (`balance`): b(x) for
    x = q · press / stay. A press that does not work gives the other length, without coins. The result is NaN if the
    reward is indifferent, and for rewards without this closed form: custom rules, no normalising factor, and a clip
    together with chance.
    """
    plain = reward.rule is None and reward.count is None and reward.normalise
    if not plain or (reward.clip is not None and chance < 1):
        return torch.full_like(stay, torch.nan)
    longer = balance(stay, chance * press, reward.lam, reward.episodes_per_meta, reward.clip)
    rate = longer.clamp_max(chance) / chance
    indifferent = (reward.lam == 1) & ((chance * press - stay).abs() <= 1e-9 * stay.abs())
    return rate.masked_fill(indifferent, torch.nan)
