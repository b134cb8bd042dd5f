"""Section 7.3 of the paper: what becomes of agents if m(l), by which coins are divided, is not known.

It is replaced by the largest return that the agent has seen so far given the length, by a wrong m, and by none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import TabularTraining
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import Line, lines_plot
from drest_torch.report.tables import MISSING, marked, mean_sd
from drest_torch.report.template import num
from drest_torch.studies.engine import Done, Quote, Report, as_table, value
from drest_torch.studies.shared import EXAMPLE, MOVES, TablesConfig, at_the_end, gamma_of, of_two, tables_job, title
from drest_torch.theory import balance

TITLE = "If m is not known (section 7.3)"
QUESTION = (
    "The DReST reward divides coins by m(l), the most that can be collected given the length. What if nobody knows it?"
)
MEASURES = ["neutrality", "usefulness"]
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
    """By how much m of the longer length is wrong."""
    patience: int = 4
    """The largest factor is also tried with training and schedules so many times as long."""
    training: TabularTraining = value(replace(EXAMPLE, evaluate_every=2048))


QUICK = {
    "worlds": ["example", "spacious"],
    "agents": 2,
    "factors": [0.5, 2.0],
    "training": {"meta_episodes": 256, "decay_episodes": 8192},
    "in_worlds": {"meta_episodes": 256, "decay_episodes": 8192},
}


class Key(NamedTuple):
    world: str
    divisor: str
    """Of coins: m, seen or none; or longer, where m of the longer length is wrong by a factor."""
    factor: float = 1.0
    patience: int = 1
    """How many times as long the training is."""


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each world and divisor: all of its agents."""
    wrong = [*((factor, 1) for factor in cfg.factors), (max(cfg.factors), cfg.patience)]
    divisors = [*((divisor, 1.0, 1) for divisor in UNKNOWN), *(("longer", *each) for each in wrong)]
    runs, usual = {}, cast(Any, cfg.training)
    for key in (Key(name, *divisor) for name, divisor in product(cfg.worlds, divisors)):
        training = {**usual, **({} if key.world == "example" else cfg.in_worlds)}
        for length in ("meta_episodes", "decay_episodes", "evaluate_every"):
            training[length] *= key.patience
        label = f"{key.world}-{key.divisor}{'' if key.divisor in UNKNOWN else f'-x{key.factor:g}'}"
        runs[key] = tables_job(
            cfg,
            label if key.patience == 1 else f"{label}-patient",
            world=key.world,
            clock="moves",
            reward="drest",
            divisor=key.divisor if key.divisor in ("seen", "none") else "best",
            factors=(1.0, key.factor) if key.divisor == "longer" else None,
            **training,
        )
    return runs


# --------------------------------------------------------------------------------------- measurement


def measure(cfg: Config, done: Done) -> pd.DataFrame:
    """Return what every agent does at the end of training, on each clock, and what is predicted."""
    agents = at_the_end(done)
    offered = [offers(cfg, Key(*key)) for key in agents[[*Key._fields]].itertuples(index=False)]
    return agents.join(rest(cfg, *np.transpose(offered)).add_suffix("_predicted"))


def offers(cfg: Config, key: Key) -> tuple[float, float]:
    """Return what the shorter and the longer length offer, up to a factor: the most coins over their divisor."""
    return best_return(cfg, key.world) if key.divisor == "none" else (1.0, 1 / key.factor)


def rest(cfg: Config, shorter: Any, longer: Any) -> pd.DataFrame:
    """Return P(longer) and neutrality where both lengths pay the same, for what the lengths offer."""
    return of_two(balance(shorter, longer, cfg.training.lam, cfg.training.episodes_per_meta))


def best_return(cfg: Config, name: str) -> tuple[float, float]:
    """Return m of the shorter and of the longer length of a world, with its γ."""
    shorter, longer = solve(compile_levels([world(name)]), gamma_of(cfg, name)).best_return[0].tolist()
    return shorter, longer


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    agents = measure(cfg, done)
    moves = agents[agents.clocks == MOVES].drop(columns="clocks")
    means = moves.set_index([*Key._fields[1:], "world"]).sort_index().map(np.mean)
    return Report(
        agents.melt([*Key._fields, "clocks"], var_name="metric"),
        partial(quotes, cfg, means),
        {"unknown": partial(unknown_table, cfg, moves)},
        {"longer": partial(factor_plot, cfg, means.neutrality)},
        partial(sentences, cfg, means),
    )


def sentences(cfg: Config, means: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    none = means.loc["none"]
    usual, patient = (means.xs(("longer", max(cfg.factors), patience)) for patience in (1, cfg.patience))
    return {
        "seen": means.loc["seen"],
        "undivided": none,
        "undivided_lowest": title(none.neutrality.idxmin()[-1]),
        "undivided_apart": (none.neutrality - none.neutrality_predicted).abs().mean(),
        "usual": usual.neutrality.min(),
        "longer": patient.neutrality.min(),
        "predicted": patient.neutrality_predicted.iloc[0],
    }


def quotes(cfg: Config, means: pd.DataFrame) -> list[Quote]:
    measured = "N ≥ {:.3f}, U ≥ {:.3f}".format(*means.loc["seen"][MEASURES].min()) + f" in {len(cfg.worlds)} worlds"
    lowest, none = means.loc["longer"].neutrality.groupby(["factor", "patience"]).min(), means.loc["none"].neutrality
    by_words = "; ".join(
        f"× {factor:g}{'' if patience == 1 else f', trained {patience} times as long'}: N ≥ {bits:.3f}"
        for (factor, patience), bits in lowest.items()
    )
    return [
        Quote("m replaced by the largest return seen so far", "suggested", measured),
        Quote("m of the longer length wrong by a factor", "an approximate m suffices", by_words),
        Quote("coins not divided at all", "", f"N from {none.min():.3f} to {none.max():.3f}"),
    ]


def unknown_table(cfg: Config, moves: pd.DataFrame) -> Table:
    """Return a row for each world."""
    mark, several = marked(MARK, FAIRLY), moves[moves.divisor.isin([*UNKNOWN])].set_index(["world", "divisor"])
    texts = several.neutrality.map(lambda values: f"{mark(values).split()[0]} {mean_sd()(values)}")
    cells = texts.unstack(sort=False, fill_value=MISSING)[[*UNKNOWN]]
    cells.insert(0, "best", [", ".join(f"{m:.2f}" for m in best_return(cfg, name)) for name in cells.index])
    predicted = several.neutrality_predicted.xs("none", level="divisor").map(num)
    cells["predicted"] = predicted.reindex(cells.index, fill_value=MISSING)
    caption = "Neutrality (bits) if coins are divided by m, by the largest return seen so far, or by nothing"
    return as_table(cells.rename(title), caption, ["world", "m short, long", *UNKNOWN.values(), "none, predicted"])


def factor_plot(cfg: Config, means: pd.Series) -> Plot:
    """Plot the mean neutrality of the worlds, in a band, and the prediction against the factor of m."""
    worlds = means.xs(1, level="patience").loc[["m", "longer"]].droplevel("divisor").unstack("factor")
    factors, patient = [*worlds.columns], means.xs(("longer", worlds.columns[-1], cfg.patience)).mean()
    fine = np.geomspace(factors[0], factors[-1], 101)
    lines = [
        Line("worlds", factors, worlds.T.to_numpy(), "drest", "o-"),
        Line("predicted", fine, rest(cfg, np.ones_like(fine), 1 / fine).neutrality, "text", "--"),
        Line(f"trained {cfg.patience} times as long", factors[-1:], [patient], "green", "o"),
    ]
    xlabel = "f, by which m of the longer length is wrong"
    return lines_plot(lines, title="neutrality (bits)", xlabel=xlabel, log="x")
