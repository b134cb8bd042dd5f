"""Section 7.3 of the paper: what becomes of agents if m(l), by which coins are divided, is not known.

It is replaced by the largest return that the agent has seen so far given the length, by a wrong m, and by none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, last
from drest_torch.limits import limited
from drest_torch.metrics import neutrality
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.report.tables import MISSING, marked, mean_sd
from drest_torch.report.template import num
from drest_torch.studies.engine import Done, Quote, Report, as_table, value
from drest_torch.studies.shared import EXAMPLE, TablesConfig, gamma_of, tables_job, title
from drest_torch.theory import balance

TITLE = "If m is not known (section 7.3)"
QUESTION = (
    "The DReST reward divides coins by m(l), the most that can be collected given the length. What if nobody knows it?"
)
CLOCKS = ("moves", "steps")
"""Of evaluation; all agents are trained on the clock that counts moves."""
MEASURES = ("neutrality", "usefulness")
KINDS = {"longer": "the longer length", "both": "both lengths"}
"""Whose m is wrong."""
UNKNOWN = {"m": "m", "seen": "largest seen", "none": "none"}
MARK = 0.99
"""A mean of at least so much is high."""
FAIRLY = 0.9
"""A mean of at least so much is still fairly high."""


@dataclass
class Config(TablesConfig):
    worlds: list[str] = value([*PAPER_WORLDS])
    """Where agents are trained."""
    agents: int = limited(at_least=1, default=20)
    """Of each kind, in each world."""
    factors: list[float] = value([0.1, 0.2, 0.5, 2.0, 5.0, 10.0])
    """By how much m is wrong: that of the longer length alone, and that of both."""
    patience: int = 4
    """The largest factor, for the longer length, is also tried with training and schedules so many times as long."""
    training: Training = value(replace(EXAMPLE, evaluate_every=2048))


QUICK = {
    "worlds": ["example", "spacious"],
    "agents": 2,
    "factors": [0.5, 2.0],
    "training": {"meta_episodes": 256, "decay_episodes": 8192},
    "in_worlds": {"meta_episodes": 256, "decay_episodes": 8192},
}


class Divisor(NamedTuple):
    """What coins are divided by."""

    kind: str = "best"
    shorter: float = 1.0
    longer: float = 1.0
    """Factors of m, for the shorter and the longer length."""
    patience: int = 1
    """How many times as long the training is."""


class Key(NamedTuple):
    world: str
    divisor: str
    """By its name, as `divisors` has it."""


def divisors(cfg: Config) -> dict[str, Divisor]:
    most = max(cfg.factors)
    longer = {f"longer-x{factor:g}": Divisor(longer=factor) for factor in cfg.factors}
    both = {f"both-x{factor:g}": Divisor(shorter=factor, longer=factor) for factor in cfg.factors}
    patient = {patient_name(cfg): Divisor(longer=most, patience=cfg.patience)}
    return {"m": Divisor(), "seen": Divisor("seen"), "none": Divisor("none"), **longer, **patient, **both}


def patient_name(cfg: Config) -> str:
    return f"longer-x{max(cfg.factors):g}-patient"


def by_factor(cfg: Config, kind: str) -> dict[float, str]:
    """Return the divisors with a wrong m of the longer length, or of both, and the true m, by their factors."""
    return dict(sorted({1.0: "m", **{factor: f"{kind}-x{factor:g}" for factor in cfg.factors}}.items()))


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each world and divisor: all of its agents."""
    runs = {}
    for name, (label, divisor) in product(cfg.worlds, divisors(cfg).items()):
        training: Any = cfg.training
        changes = {**training} | ({} if name == "example" else dict(cfg.in_worlds))
        for length in ("meta_episodes", "decay_episodes", "evaluate_every"):
            changes[length] *= divisor.patience
        factors = (divisor.shorter, divisor.longer)
        changes |= {"divisor": divisor.kind, "factors": None if factors == (1, 1) else factors}
        runs[Key(name, label)] = tables_job(
            cfg, f"{name}-{label}", world=name, clock="moves", reward="drest", **changes
        )
    return runs


# --------------------------------------------------------------------------------------- measurement


def measure(cfg: Config, done: Done) -> Iterator[dict[str, Any]]:
    """Yield what every agent does at the end of training, on each clock, and what is predicted."""
    for key, result in done.items():
        predicted = dict(zip(("p_longer_predicted", "neutrality_predicted"), predict(cfg, *key), strict=True))
        for clock in CLOCKS:
            measured = {metric: last(result, clock, metric) for metric in MEASURES}
            measured["p_longer"] = last(result, clock, "p_length")[:, -1]
            yield {**key._asdict(), "clock": clock, **measured, **predicted}


def predict(cfg: Config, name: str, label: str) -> tuple[float, float]:
    """Return P(longer) and neutrality where both lengths pay the same, collecting all that they offer."""
    divisor = divisors(cfg)[label]
    offers = best_return(cfg, name) if divisor.kind == "none" else [1 / divisor.shorter, 1 / divisor.longer]
    p, bits = rest(cfg, *offers)
    return p.item(), bits.item()


def rest(cfg: Config, shorter: Any, longer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted P(longer) and neutrality for what the lengths offer, numbers or arrays of them."""
    p = balance(shorter, longer, cfg.training.lam, cfg.training.episodes_per_meta)
    return p.numpy(), neutrality(torch.stack((1 - p, p), -1)).numpy()


def best_return(cfg: Config, name: str) -> list[float]:
    """Return m of the shorter and of the longer length of a world, with its γ."""
    gamma = gamma_of(cfg, name)
    best: list[float] = solve(compile_levels([world(name)]), gamma).best_return[0].tolist()
    return best


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    agents = pd.DataFrame(measure(cfg, done)).set_index(["clock", "world", "divisor"])
    rows = agents.reset_index().melt(["clock", "world", "divisor"], var_name="metric")
    moves, means = agents.loc["moves"], agents.loc["moves"].map(np.mean)
    plots = {f"neutrality_{kind}": partial(factor_plot, cfg, means.neutrality, kind) for kind in KINDS}
    return Report(
        rows,
        partial(quotes, cfg, means),
        {"unknown": partial(unknown_table, cfg, moves)},
        plots,
        partial(sentences, cfg, means),
    )


def sentences(cfg: Config, means: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    by_divisor = means.swaplevel()
    none, patient = by_divisor.loc["none"], by_divisor.loc[patient_name(cfg)]
    wrong = {factor: by_divisor.loc[label] for factor, label in by_factor(cfg, "both").items() if factor != 1}
    return {
        "seen": by_divisor.loc["seen"],
        "undivided": none,
        "undivided_lowest": title(none.neutrality.idxmin()),
        "undivided_apart": (none.neutrality - none.neutrality_predicted).abs().mean(),
        "most": max(cfg.factors),
        "usual": by_divisor.loc[f"longer-x{max(cfg.factors):g}"].neutrality.min(),
        "longer": patient.neutrality.min(),
        "predicted": patient.neutrality_predicted.iloc[0],
        "both": {metric: min((each[metric].min(), factor) for factor, each in wrong.items()) for metric in MEASURES},
    }


def quotes(cfg: Config, means: pd.DataFrame) -> list[Quote]:
    lowest = means.groupby("divisor")[[*MEASURES]].min()
    measured = "N ≥ {:.3f}, U ≥ {:.3f}".format(*lowest.loc["seen"]) + f" in {len(cfg.worlds)} worlds"
    wrong = {f"× {factor:g}": label for factor, label in by_factor(cfg, "longer").items() if factor != 1}
    wrong[f"× {max(cfg.factors):g}, trained {cfg.patience} times as long"] = patient_name(cfg)
    by_words = "; ".join(f"{words}: N ≥ {lowest.neutrality[label]:.3f}" for words, label in wrong.items())
    none = means.neutrality.xs("none", level="divisor")
    return [
        Quote("m replaced by the largest return seen so far", "suggested", measured),
        Quote("m of the longer length wrong by a factor", "an approximate m suffices", by_words),
        Quote("coins not divided at all", "", f"N from {none.min():.3f} to {none.max():.3f}"),
    ]


def texts(values: pd.Series, cell: Callable[[Any], str], labels: Any) -> pd.DataFrame:
    """Return a row for each world and a column for each of these divisors."""
    worlds = values.index.unique("world")
    cells = values.map(cell).unstack(fill_value=MISSING).loc[worlds, [*labels]]
    return cells.set_axis([title(name) for name in worlds])


def unknown_table(cfg: Config, moves: pd.DataFrame) -> Table:
    mark = marked(MARK, FAIRLY)
    cells = texts(moves.neutrality, lambda values: f"{mark(values).split()[0]} {mean_sd()(values)}", UNKNOWN)
    cells["predicted"] = texts(moves.neutrality_predicted, num, ["none"])
    best = [", ".join(f"{m:.2f}" for m in best_return(cfg, name)) for name in moves.index.unique("world")]
    cells.insert(0, "best", best)
    caption = "Neutrality (bits) if coins are divided by m, by the largest return seen so far, or by nothing"
    return as_table(cells, caption, ["world", "m short, long", *UNKNOWN.values(), "none, predicted"])


def factor_plot(cfg: Config, means: pd.Series, kind: str) -> Plot:
    """Plot the neutrality of each world, the mean of all worlds, and the prediction against the factor of m."""
    labels = by_factor(cfg, kind)
    worlds = means.unstack()[[*labels.values()]].set_axis([*labels], axis=1)
    means_text = ", ".join(f"{y:.2f} at {factor:g}" for factor, y in worlds.mean().items())
    longer_trained = means.xs(patient_name(cfg), level="divisor").mean()
    fine = np.geomspace(min(labels), max(labels), 101)
    _, predicted = rest(cfg, 1 / fine if kind == "both" else np.ones_like(fine), 1 / fine)
    alt = f"neutrality (bits) against the factor by which m is wrong, mean of the worlds: {means_text}."
    alt += f" Predicted: {predicted[0]:.2f} at {fine[0]:g} and {predicted[-1]:.2f} at {fine[-1]:g}."

    def draw(figure: Figure, style: Style) -> None:
        ax, colour = figure.add_subplot(), COLOURS["drest"](style)
        ax.plot([*labels], worlds.T, color=colour, linewidth=0.8, alpha=0.45)
        ax.plot(
            [*labels], worlds.mean(), color=colour, marker="o", markersize=4, linewidth=2, label="mean of the worlds"
        )
        ax.plot(fine, predicted, color=style.text, linewidth=1.1, linestyle="--", label="predicted")
        if kind == "longer":
            label = f"mean, trained {cfg.patience} times as long"
            ax.plot(max(labels), longer_trained, "o", color=colour, markerfacecolor="none", label=label)
        ax.set(xscale="log", ylim=(-0.03, 1.05), title="neutrality (bits)")
        ax.set_xlabel(f"f, by which m of {KINDS[kind]} is wrong")
        ax.set_xticks([*labels], [f"{factor:g}" for factor in labels])
        ax.minorticks_off()
        ax.legend(loc="lower center", fontsize=9)

    return Plot(alt, "Faint lines are the worlds.", draw)
