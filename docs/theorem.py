"""The figures and the picture of docs/theorem.md: python docs/theorem.py"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from drest_torch import neutrality
from drest_torch.reward import expected_return

LAMBDAS = (0.5, 0.75, 0.9, 0.95, 0.99)
POINTS = 2001


def value(probability: Tensor, episodes: int, lam: float) -> Tensor:
    """[n] expected return of policies with these P(L = l) [n, k] that are optimal given each length."""
    ones = torch.ones_like(probability)
    return expected_return(probability, ones, ones, probability.shape[-1], episodes, lam)


def choices(num_lengths: int, points: int = POINTS) -> Tensor:
    """[n, k] one length has probability 1 − (k−1)p, the others p each. For k = 2 these are all choices."""
    p = torch.linspace(0, 1 / (num_lengths - 1), points, dtype=torch.float64).unsqueeze(-1)
    return torch.cat((1 - (num_lengths - 1) * p, p.expand(-1, num_lengths - 1)), dim=-1)


def simplex(points: int) -> Tensor:
    """[n, 3] all choices among three lengths on a grid, most likely first."""
    p, q = torch.meshgrid(*[torch.linspace(0, 1, points, dtype=torch.float64)] * 2, indexing="ij")
    grid = torch.stack((1 - p - q, p, q), dim=-1).reshape(-1, 3)
    return grid[(grid[:, 0] >= grid[:, 1]) & (grid[:, 1] >= grid[:, 2])]


def is_neutral_best(num_lengths: int, episodes: int, lam: float) -> bool:
    """Whether no choice has a larger expected return than 1/k for each length."""
    neutral = value(torch.full((1, num_lengths), 1 / num_lengths, dtype=torch.float64), episodes, lam)
    return bool((value(choices(num_lengths), episodes, lam) <= neutral * (1 + 1e-12)).all())


def largest_neutral(num_lengths: int, lam: float) -> int:
    """The largest E for which the optimum is neutral."""
    low, high = 1, 2
    while is_neutral_best(num_lengths, high, lam):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_neutral_best(num_lengths, middle, lam) else (low, middle)
    return low


def rule_of_thumb(num_lengths: int, lam: float) -> float:
    """Where the curvature at 1/k changes its sign, if the mean discount at 1/k is taken to be 1."""
    return 2 + 3 * num_lengths * lam ** (1 / num_lengths) / (1 - lam)


def best_choice(episodes: int, lam: float) -> tuple[float, float, float]:
    """For k = 2: the smaller probability of the best choice, its neutrality, its return by that of 1/2."""
    all_choices = choices(2, 20_001)
    values = value(all_choices, episodes, lam)
    best = all_choices[values.argmax()]
    return best.min().item(), neutrality(best).item(), (values.max() / values[10_000]).item()


def picture(path: Path, lam: float = 0.9) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    p = choices(2, 1001)
    for episodes in (16, 32, 58, 64, 72, 80):
        values = value(p, episodes, lam)
        best = values.argmax()
        (line,) = axes.plot(p[:, 1], values / values[500], label=f"E = {episodes}")
        place = p[best, 1].item()
        axes.plot((place, 1 - place), [values[best] / values[500]] * 2, "o", color=line.get_color())
    axes.set(
        xlabel="P(the longer length) = p", ylabel="expected return ÷ that at p = 1/2", ylim=(0.5, 1.25), xlim=(0, 1)
    )
    axes.set_title(f"Whole meta-episodes, λ = {lam}, k = 2, optimal given each length")
    axes.legend(ncols=2)
    FigureCanvasAgg(figure).print_png(path)


def main() -> None:
    torch.set_num_threads(1)
    print("Largest E with a neutral optimum, and where the rule of thumb changes its sign")
    for k in (2, 3):
        for lam in LAMBDAS:
            print(f"k {k}  λ {lam:<4}  {largest_neutral(k, lam):>4}  {rule_of_thumb(k, lam):>7.1f}")
    print("For k = 2 and λ = 0.9: E, the best choice's smaller probability, its neutrality, its return by that of 1/2")
    for episodes in (32, 58, 59, 64, 96, 128, 256):
        print("{:>4}  {:.3f}  {:.3f}  {:.4f}".format(episodes, *best_choice(episodes, 0.9)))
    path = Path(__file__).with_suffix(".png")
    picture(path)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()
