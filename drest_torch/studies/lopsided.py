"""Figure 6 of the paper: one length offers x times as much as the other, and the reward is not divided by m."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import TabularTraining
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import Line, lines_plot
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, as_table, value
from drest_torch.studies.shared import EXAMPLE, at_the_end, of_two, tables_job
from drest_torch.theory import balance, value_for

TITLE = "Lopsided rewards (Figure 6)"
QUESTION = (
    "How far apart may the lengths' returns be for DReST agents to stay neutral, if nothing is divided by m, and does "
    "a lower λ help?"
)
MARK = 0.5
"""Neutrality in bits, and the values of x for which the paper reports more than that at its λ."""
REPORTED = (0.1, 10.0)
SMALLER = 0.110028
"""The smaller probability where neutrality is ½ bit."""
COLLAPSED = 0.1
"""Neutrality below this: all but one length."""
MANY = 0.1
"""A share of agents that choose all but one length though that is not predicted: training has collapsed."""
CLOSE = 0.05
"""P(longer) is as predicted if it is no further away than this, on average over x."""
USEFUL = 0.95
"""The paper says that usefulness approaches 1; at least this is taken for it."""
FINE = 161
"""Values of x in a predicted curve."""
LINES = ("default", "drest", "green", "pink", "violet", "brown")
METRICS = {"p_longer": "P(longer)", "neutrality": "neutrality (bits)"}
"""What is predicted."""
DEFAULT = (1.0, False)
"""The λ of the default reward, and no clip."""


@dataclass
class Config(StudyConfig):
    world: str = "lopsided"
    """Its coin Cx is the best of the longer length, and a coin of value 1 that of the shorter."""
    agents: int = limited(at_least=1, default=10)
    """Of each kind, for each x."""
    x_first: float = 0.01
    """The smallest x."""
    x_last: float = 100.0
    """The largest."""
    x_count: int = 25
    """Values of x from the smallest to the largest, at equal ratios."""
    clocks: list[str] = value(["moves", "steps"])
    """Of training; the first as in the paper."""
    lams: list[float] = value([0.9, 0.8, 0.5, 0.3])
    """The paper's, and lower ones, which it suggests where returns are lopsided."""
    every: int = 3
    """Lower ones without a clip are tried at one of so many values of x: agents that collapse are slow to train."""
    clip: float = 5.0
    """The largest reward of a coin where rewards are clipped, as in the paper's appendix E."""
    training: TabularTraining = value(
        replace(
            EXAMPLE,
            gamma=1.0,
            meta_episodes=512,
            lr_end=0.003,
            epsilon_end=0.0001,
            decay_episodes=16384,
            evaluate_every=512,
        )
    )
    """How every agent is trained."""


QUICK = {
    "agents": 2,
    "x_count": 5,
    "lams": [0.9, 0.5],
    "every": 2,
    "training": {"meta_episodes": 32, "decay_episodes": 1024},
}


class Key(NamedTuple):
    trained_on: str
    lam: float
    clipped: bool
    x: float


KIND = ["clocks", "lam", "clipped"]
"""Columns that tell curves over x from each other."""


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return on each clock a run for each x: of the default reward, then of every λ without a clip and with it."""
    runs = {}
    xs = [float(f"{x:.4g}") for x in np.geomspace(cfg.x_first, cfg.x_last, cfg.x_count)]
    kinds = [DEFAULT, *((float(lam), clipped) for clipped, lam in product((False, True), cfg.lams))]
    for clock, (lam, clipped) in product(cfg.clocks, kinds):
        for x in xs if clipped or lam in (1, cfg.lams[0]) else xs[:: cfg.every]:
            name = ("default" if lam == 1 else f"lambda={lam:g}") + (f"-clip={cfg.clip:g}" if clipped else "")
            reward, clip = "default" if lam == 1 else "drest", cfg.clip if clipped else None
            changes: dict[str, Any] = {"reward": reward, "divisor": "none", "lam": lam, "clip": clip, "x": x}
            key, label = Key(clock, lam, clipped, x), f"{clock}-{name}-x={x:g}"
            runs[key] = tables_job(cfg, label, world=cfg.world, clock=clock, **changes)
    return runs


# --------------------------------------------------------------------------------------- measurement


def measure(cfg: Config, done: Done) -> pd.DataFrame:
    """Return what every agent does at the end of training, on each clock, and what is predicted."""
    agents, names = at_the_end(done), ["p_longer_predicted", "neutrality_predicted"]
    for (lam, clipped), several in agents.groupby(["lam", "clipped"]):
        agents.loc[several.index, names] = predict(*reward(cfg, lam, clipped), *several.x).to_numpy()
    return agents


def reward(cfg: Config, lam: float, clipped: bool) -> tuple[float, int, float | None]:
    """Return λ, E and the clip."""
    return lam, cfg.training.episodes_per_meta, cfg.clip if clipped else None


@cache
def predict(lam: float, episodes: int, clip: float | None, *x: float) -> pd.DataFrame:
    """Return the predicted P(longer) and neutrality of agents that come to rest, a row for each x."""
    return of_two(balance(1.0, torch.tensor(x, dtype=torch.float64), lam, episodes, clip))


def predicted_range(cfg: Config, lam: float, clipped: bool) -> tuple[float, float]:
    """Return the values of x between which neutrality is predicted to be above ½ bit."""
    low, high = (value_for(p, *reward(cfg, lam, clipped)) for p in (SMALLER, 1 - SMALLER))
    return low, high


def range_above(x: np.ndarray, values: np.ndarray, mark: float) -> list[float] | None:
    """Return the ends of the longest stretch of x, ascending, in which values are above the mark, or None.

    Between two values of x the curve is a straight line in log x. At the first or last x the stretch ends for
    want of more.
    """
    edges = np.flatnonzero(np.diff(values > mark, prepend=False, append=False))
    if not len(edges):
        return None
    begin, end = max(edges.reshape(-1, 2).tolist(), key=np.ptp)

    def crossing(outside: int, inside: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[inside])
        return float(np.exp(np.interp(mark, values[[outside, inside]], np.log(x[[outside, inside]]))))

    return [crossing(begin - 1, begin), crossing(end, end - 1)]


def summarise(cfg: Config, agents: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each kind of agents and clock of evaluation: their curves over x in numbers."""
    means = agents.map(np.mean)
    means["apart"] = (means.p_longer - means.p_longer_predicted).abs()
    means["collapsed"] = agents.neutrality.map(lambda bits: (bits < COLLAPSED).mean())
    means["expected"] = means.neutrality_predicted < COLLAPSED
    by_kind = means.groupby(KIND, sort=False)
    kinds = by_kind[["usefulness", "apart", "collapsed", "expected"]].mean()
    kinds["lowest"], kinds["lowest_usefulness"] = by_kind.neutrality.min(), by_kind.usefulness.min()
    x = means.index.get_level_values("x")
    kinds["lowest_reported"] = means[(x >= REPORTED[0]) & (x <= REPORTED[1])].groupby(KIND).neutrality.min()
    kinds["range"] = by_kind.neutrality.agg(range_text)
    kinds["predicted"] = ["{:.3g} to {:.3g}".format(*predicted_range(cfg, *reward)) for _, *reward in kinds.index]
    kinds["unstable"] = kinds.collapsed - kinds.expected > MANY
    return kinds


def range_text(means: pd.Series) -> str:
    """Return the values of x with mean neutrality above ½ bit: ``0.08 to 13``."""
    x = means.index.get_level_values("x").to_numpy()
    ends = range_above(x, means.to_numpy(), MARK)
    if ends is None:
        return "none"
    low, high = (f"{end:g}" if end in x else f"{end:.3g}" for end in ends)
    return f"all from {low} to {high}" if ends == [x[0], x[-1]] else f"{low} to {high}"


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    measured = measure(cfg, done)
    agents = measured.set_index([*KIND, "x"]).drop(columns="trained_on")
    kinds = summarise(cfg, agents)
    shown = {"rewards": [DEFAULT, (cfg.lams[0], False)]}
    shown |= {words: [(lam, clip) for lam in cfg.lams] for words, clip in (("free", False), ("clipped", True))}
    return Report(
        measured.melt([*Key._fields, "clocks"], var_name="metric"),
        partial(quotes, cfg, kinds),
        {"lower": partial(by_lam, cfg, kinds)},
        {
            f"{name}, {metric}": partial(against_x, cfg, agents, kinds, metric, several)
            for (name, several), metric in product(shown.items(), METRICS)
        },
        partial(sentences, cfg, agents, kinds),
    )


def first_pair(cfg: Config) -> str:
    return f"{cfg.clocks[0]} / {cfg.clocks[0]}"


def parts(cfg: Config, kinds: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the DReST agents of the first clock by λ and clip, and those with the paper's λ by their clocks."""
    main = kinds.xs(first_pair(cfg), level="clocks").drop(index=1.0, level="lam")
    return main, kinds.xs((cfg.lams[0], False), level=KIND[1:])


def sentences(cfg: Config, agents: pd.DataFrame, kinds: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    main, papers = parts(cfg, kinds)
    by_lam = main.reset_index()
    lower = by_lam[by_lam.lam < cfg.lams[0]]
    clipped = lower[lower.clipped]
    curve = agents.xs((first_pair(cfg), cfg.lams[0], False), level=KIND).map(np.mean)
    apart = (curve.p_longer - curve.p_longer_predicted).abs()
    (low, high), *others = (predicted_range(cfg, lam, False) for lam in cfg.lams)
    half = (cfg.training.episodes_per_meta - 1) / 2
    return {
        "first": main.loc[cfg.lams[0], False],
        "most": apart.max(),
        "most_at": apart.idxmax(),
        "wider": all(least < low and most > high for least, most in others),
        "unstable": lower[lower.unstable & ~lower.clipped],
        "clipped_apart": clipped.apart.max(),
        "safest": clipped.loc[clipped.lowest.idxmax()],
        "largest": [f"{lam**-half:.3g} for λ = {lam:g}" for lam in cfg.lams],
        "papers": papers,
        "same": papers.loc[[f"{clock} / {clock}" for clock in cfg.clocks]],
    }


def quotes(cfg: Config, kinds: pd.DataFrame) -> list[Quote]:
    """Return what the paper reports of x and λ, and what was measured."""
    main, papers = parts(cfg, kinds)
    first, paper, inside = main.loc[cfg.lams[0], False], cfg.lams[0], f"{REPORTED[0]:g} to {REPORTED[1]:g}"
    ranges = {
        clipped: "; ".join(f"λ = {lam:g}: {main.range[lam, clipped]}" for lam in cfg.lams if lam < paper)
        for clipped in (False, True)
    }
    measured = f"{first.range} (predicted {first.predicted})"
    lowest = "; ".join(f"{bits:.3f} {clocks}" for clocks, bits in papers.lowest_reported.items())
    lower = f"x with N > {MARK:g} at a lower λ"
    return [
        Quote(f"lopsided, λ = {paper:g}: x with N > {MARK:g}", f"at least {inside}", measured),
        Quote(f"the lowest mean N for x from {inside}", f"> {MARK:g}", lowest),
        Quote(f"{lower}, without a clip", "a wider range", ranges[False]),
        Quote(f"{lower}, rewards clipped at {cfg.clip:g}", "", ranges[True]),
    ]


def by_lam(cfg: Config, kinds: pd.DataFrame) -> Table:
    """Return a row for each λ, without a clip and with it."""
    main, _ = parts(cfg, kinds)
    numbers = main[["lowest", "lowest_usefulness"]].map("{:.3f}".format)
    cells = main[["range", "predicted"]].join(numbers).join(main[["collapsed", "expected"]].map("{:.0%}".format))
    cells.index = [f"{lam:g}, {f'at most {cfg.clip:g}' if clipped else 'any reward'}" for lam, clipped in main.index]
    header = ["λ and rewards", f"x with neutrality > {MARK:g}", "predicted", "lowest neutrality (bits)"]
    header += ["lowest usefulness", f"agents with neutrality < {COLLAPSED:g}", "predicted"]
    return as_table(cells, "What a lower λ does, with and without a clip", header)


def against_x(
    cfg: Config, agents: pd.DataFrame, kinds: pd.DataFrame, metric: str, shown: Sequence[tuple[float, bool]]
) -> Plot:
    """Plot several kinds of agents on the first clock: what they do and, dashed, what is predicted."""
    pair, with_default, lines = first_pair(cfg), DEFAULT in shown, []
    fine = np.geomspace(cfg.x_first, cfg.x_last, FINE).tolist()
    for kind, colour in zip(shown, LINES[not with_default :], strict=False):
        curve = agents[metric].xs((pair, *kind), level=KIND)
        settings = (pair, *kind)
        unstable = kinds.unstable[settings]  # a band would fill the whole plot
        values = curve.map(np.mean) if unstable else np.stack(curve.to_list())
        name = "default" if kind == DEFAULT else f"λ = {kind[0]:g}"
        lines.append(Line(name, curve.index, values, colour, "o-" if unstable else "-"))
        if kind != DEFAULT:
            lines.append(Line("", fine, predict(*reward(cfg, *kind), *fine)[metric], colour, "--"))
    lines += [Line("", [place, place], [0, 1], "muted", ":") for place in REPORTED]
    if metric == "neutrality":
        lines.append(Line("", [cfg.x_first, cfg.x_last], [MARK, MARK], "muted", ":"))
    limited_to = f"rewards of at most {cfg.clip:g}" if shown[0][1] else "any reward"
    title = f"{METRICS[metric]}, {pair if with_default else limited_to}"
    return lines_plot(lines, title=title, xlabel="x, the longer length's coin (the shorter's is 1)", log="x")
