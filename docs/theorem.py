"""Print the figures of docs/explanation/theorem.md and plot its picture: python docs/theorem.py"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from drest_torch import neutrality
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, rule_of_thumb

LAMBDAS = (0.5, 0.75, 0.9, 0.95, 0.99)


def picture(path: Path, lam: float = 0.9) -> None:
    """Plot the expected return against P(longer) for several E, with its maxima."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    p = torch.linspace(0, 1, 1001, dtype=torch.float64)
    for episodes in (16, 32, 58, 64, 72, 80):
        values = choice_value(torch.stack((1 - p, p), dim=-1), episodes, lam)
        (line,) = axes.plot(p, values / values[500], label=f"E = {episodes}")
        axes.plot(best_choice(2, episodes, lam), [values.max() / values[500]] * 2, "o", color=line.get_color())
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
        choice = best_choice(2, episodes, 0.9)
        bits = neutrality(torch.tensor(choice, dtype=torch.float64)).item()
        print(f"{episodes:>4}  {min(choice):.3f}  {bits:.3f}  {1 + margin(2, episodes, 0.9):.4f}")
    path = Path(__file__).with_suffix(".png")
    picture(path)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()
