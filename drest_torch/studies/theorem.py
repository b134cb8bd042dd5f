"""Theorem 5.1 checked numerically: the exact optimum of the expected return against usefulness and neutrality.

The best policy of a level can be climbed to by exact gradients (`climbing`). It can also be had without a level, as
the best choice of lengths on the simplex (`drest_torch.theory`). The two do not know of each other, and have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job
from drest_torch.limits import limited
from drest_torch.metrics import neutrality_normalised
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import PALETTE, Line, lines_plot
from drest_torch.studies.climbing import CREDITS, SETTING, best_of, climbs, optimum
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, as_table, value
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, neutral_value, rule_of_thumb

TITLE = "Theorem 5.1, checked numerically"
QUESTION = (
    "Is a policy that maximises the expected return of a meta-episode maximally useful and maximally neutral, "
    "as Theorem 5.1 says, and by how much does the best policy win?"
)
EXACT = 1e-6
"""Relative differences below this are taken for rounding and for what is left to climb."""


@dataclass
class Config(StudyConfig):
    worlds: list[str] = value(["example", "lopsided", *(name for name in PAPER_WORLDS if name != "example")])
    """Played on the clock that counts every step."""
    gamma: float = 0.9
    """γ in worlds that ``gammas`` does not name."""
    gammas: dict[str, float] = value({"example": 0.95, "lopsided": 1.0})
    """γ in these worlds."""
    levels: dict[str, str] = value({})
    """Further levels by name: in `theorem.yaml` those with three and four lengths."""
    settings: list[Any] = value([[0.5, 8], [0.9, 32], [0.5, 16], [0.9, 64], [0.9, 128]])
    """The rewards that the optimum is sought for, λ and E. With two lengths the theorem holds for the first two."""
    papers: list[Any] = value([0.9, 64])
    """λ and E of the paper's experiments."""
    random_starts: int = 3
    """Random policies to start from, beside the uniform one, one near neutrality and one near each length."""
    slip: float = 0.02
    """Near: for each time that a best route takes an action in a state, the other actions there have so much of it."""
    steps: int = limited(at_least=1, default=450)
    """Steps of Adam."""
    lr: list[float] = value([0.1, 1.0, 0.0001])
    """Learning rate in the first third of the steps, in the second, and at the end of the third, to which it falls."""
    curve_lam: float = 0.9
    """λ in the plot of the return against p."""
    curve_episodes: list[int] = value([16, 32, 58, 64, 72, 80])
    """E of the lines of that plot."""
    lams: list[float] = value([0.5, 0.75, 0.9, 0.95, 0.99])
    """Values of λ for which the largest E with a neutral optimum is computed."""
    lengths: list[int] = value([2, 3, 4])
    """Numbers of lengths for which it is computed."""
    most_episodes: int = 1024
    """The largest E that is plotted."""


QUICK = {
    "worlds": ["example", "lopsided"],
    "settings": [[0.5, 8], [0.9, 64]],
    "random_starts": 1,
    "steps": 180,
    "lams": [0.5, 0.9],
    "most_episodes": 256,
}


class Key(NamedTuple):
    credit: str
    lam: float
    episodes_per_meta: int
    gamma: float


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each credit, reward and γ: all levels that have a γ are climbed at the same time."""
    gammas = {name: float(cfg.gammas.get(name, cfg.gamma)) for name in [*cfg.worlds, *cfg.levels]}
    runs = {}
    for credit, (lam, episodes), gamma in product(CREDITS, cfg.settings, dict.fromkeys(gammas.values())):
        key = Key(credit, float(lam), int(episodes), gamma)
        spec = key._asdict() | {
            "worlds": [name for name in cfg.worlds if gammas[name] == gamma],
            "levels": {name: text for name, text in cfg.levels.items() if gammas[name] == gamma},
            "random_starts": cfg.random_starts,
            "slip": cfg.slip,
            "steps": cfg.steps,
            "lr": list(cfg.lr),
        }
        label = f"{credit}-lambda={lam:g}-E={episodes:g}-gamma={gamma:g}"
        runs[key] = Job(label, "drest_torch.studies.climbing:optimise", spec)
    return runs


# --------------------------------------------------------------------------------------- measurement


def compare(optima: pd.DataFrame, meta: pd.DataFrame, mini: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each setting: the best choice, and what was climbed to with both credits."""
    best = best_of(meta).merge(optima[[*SETTING, "margin"]], on=SETTING)
    best["apart"] = (best.ratio / (1 + best.margin) - 1).abs()
    mini = mini.assign(neutral=mini.neutrality_normalised >= 1 - EXACT)
    of_best = best.groupby(SETTING).agg(
        levels=("level", "nunique"), useful=("usefulness", "min"), apart=("apart", "max")
    )
    of_mini = mini.groupby(SETTING).agg(climbs=("level", "size"), neutral=("neutral", "sum"))
    return optima.join(of_best, on=SETTING).join(of_mini, on=SETTING)


def over_episodes(cfg: Config) -> pd.DataFrame:
    """Return the neutrality of the best choice ÷ log2 k over E, for each number of lengths and λ, and its limit."""
    rows = []
    for k, lam in product(cfg.lengths, cfg.lams):
        limit, most = largest_neutral(k, lam), cfg.most_episodes
        near = limit + np.array([0, 1, 2, 4, 8])
        steps = np.unique(np.geomspace(2, most, 30).astype(int))
        sizes = np.unique(np.concatenate([steps, near[near <= most]])).tolist()
        choices = torch.tensor([best_choice(k, size, lam) for size in sizes], dtype=torch.float64)
        of = {"k": k, "lam": lam, "largest_neutral": limit, "rule_of_thumb": rule_of_thumb(k, lam)}
        rows.append(of | {"sizes": sizes, "neutrality": neutrality_normalised(choices, k).tolist()})
    return pd.DataFrame(rows)


def tidy(climbed: pd.DataFrame, optima: pd.DataFrame, over: pd.DataFrame) -> pd.DataFrame:
    """Return one value in each row."""
    of, by_length = ["credit", *SETTING, "level", "start", "seed"], ["p_length", "share_of_best"]
    single = ["return", "usefulness", "neutrality", "neutrality_normalised"]
    choices, curves = optima.explode("choice"), over.explode(["sizes", "neutrality"])
    curves = curves.rename(columns={"sizes": "episodes_per_meta", "neutrality": "neutrality_normalised"})
    choices["metric"] = [f"p_{rank + 1}" for rank in choices.groupby(SETTING).cumcount()]
    parts = {
        "climb": climbed.melt(of, single, "metric"),
        "climb, by length": climbed.explode(["length", *by_length]).melt([*of, "length"], by_length, "metric"),
        "optimum": optima.drop(columns="choice").melt(SETTING, var_name="metric"),
        "optimum, P(L)": choices[[*SETTING, "metric", "choice"]].rename(columns={"choice": "value"}),
        "optimum over E": curves.melt(["k", "lam", "episodes_per_meta"], ["neutrality_normalised"], "metric"),
        "limit of E": over.melt(["k", "lam"], ["largest_neutral", "rule_of_thumb"], "metric"),
    }
    rows = pd.concat([part.assign(variant=variant) for variant, part in parts.items()], ignore_index=True)
    return rows.assign(value=rows["value"].astype(float))


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    settings = [(lam, int(episodes), k) for (lam, episodes), k in product(cfg.settings, cfg.lengths)]
    optima, over = pd.DataFrame([optimum(*setting) for setting in settings]), over_episodes(cfg)
    climbed = climbs(done, [*cfg.worlds, *cfg.levels])
    paper = pd.DataFrame([optimum(cfg.papers[0], cfg.papers[1], 2)])
    meta, mini = (climbed[climbed.credit == credit] for credit in CREDITS)
    found = compare(optima, meta, mini)
    plots = {"return": return_plot(cfg, meta)}
    plots |= {f"neutrality_{k}": neutrality_plot(cfg, paper.iloc[0], k, rows) for k, rows in over.groupby("k")}
    return Report(
        tidy(climbed, pd.concat([optima, paper]).drop_duplicates(SETTING), over),
        partial(quotes, found, paper.iloc[0], meta),
        {"optimum": optimum_table(found.dropna(subset=["levels"]))},
        plots,
        partial(sentences, found, over, paper.iloc[0], meta),
    )


def sentences(found: pd.DataFrame, over: pd.DataFrame, paper: pd.Series, meta: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    limits = found.merge(over[["k", "lam", "largest_neutral"]], on=["k", "lam"], how="left").largest_neutral
    most = meta.groupby([*SETTING, "level"])["return"].transform("max")
    return {
        "found": found,
        "paper": paper,
        "as_limits_say": (found.neutral_is_best == (found.episodes_per_meta <= limits)).all(),
        "arrived": int((meta["return"] >= most * (1 - EXACT)).sum()),
        "climbs": len(meta),
        "rule": over.largest_neutral / over.rule_of_thumb,
    }


def quotes(found: pd.DataFrame, paper: pd.Series, meta: pd.DataFrame) -> list[Quote]:
    reward = f"λ = {paper.lam:g}, E = {paper.episodes_per_meta}, two lengths"
    best = f"N {paper.neutrality:.3f}, P(L) {a_choice(paper.choice)}, return {more(paper.margin)} over neutral"
    rewards = len(found[["lam", "episodes_per_meta"]].drop_duplicates())
    useful = f"usefulness of the best policy, {meta.level.nunique()} levels, {rewards} rewards"
    ended = f"neutral in {found.neutral.sum():.0f} of {found.climbs.sum():.0f} climbs"
    return [
        Quote(f"the best policy for whole meta-episodes, {reward}", "N 1", best),
        Quote(useful, "1", f"≥ 1 − {missing(found.useful.min())}"),
        Quote("where credit within mini-episodes leads, the same levels and rewards", "", ended),
    ]


def a_choice(probabilities: Sequence[float]) -> str:
    """``0.317, 0.683``"""
    return ", ".join(f"{p:.3f}" for p in probabilities)


def more(share: float) -> str:
    """``+1.1%``: how much more or less than all of it; 0 within rounding."""
    return "0" if abs(share) < EXACT else f"{share:+,.1%}"


def missing(share: float) -> str:
    """``2e-08``: what is missing to 1."""
    return f"{max(0.0, 1 - share):.0e}"


def optimum_table(found: pd.DataFrame) -> Table:
    marks = found.neutral_is_best.map({True: "✓ ", False: "✗ "})
    columns = {
        "levels": found.levels.map("{:.0f}".format),
        "1 − usefulness ≤": found.useful.map(missing),
        "best P(L)": found.choice.map(a_choice),
        "neutrality ÷ log2\u00a0k": marks + found.neutrality_normalised.map("{:.3f}".format),
        "over neutral": found.margin.map(more),
        "apart": found.apart.map("{:.0e}".format),
        "neutral ÷ one length": found.neutral_over_one_length.map(
            lambda ratio: f"{ratio:,.1f} ×" if ratio < 1000 else f"{ratio:.0e} ×"
        ),
    }
    cells = pd.DataFrame(columns).set_axis(
        [f"{row.lam:g} / {row.episodes_per_meta} / {row.k}" for row in found.itertuples()]
    )
    return as_table(cells, "The optimum of the expected return of a meta-episode", ["λ / E / k", *columns])


# --------------------------------------------------------------------------------------------- plots


def return_plot(cfg: Config, meta: pd.DataFrame) -> Plot:
    """Plot the expected return against P(longer) for several E, with its maxima and what was climbed to."""
    lam, p = float(cfg.curve_lam), torch.linspace(0, 1, 401, dtype=torch.float64)
    best = best_of(meta[(meta.lam == lam) & (meta.k == 2) & meta.episodes_per_meta.isin(cfg.curve_episodes)])
    lines = []
    for episodes, colour in zip(cfg.curve_episodes, cycle(PALETTE), strict=False):
        height = choice_value(torch.stack((1 - p, p), -1), episodes, lam) / neutral_value(2, episodes, lam)
        least, most = best_choice(2, episodes, lam)[0], 1 + margin(2, episodes, lam)
        lines += [Line(f"E = {episodes}", p, height, colour), Line("", [least, 1 - least], [most, most], colour, "o")]
    lines.append(Line("climbed to", best.p_length.str[-1].to_numpy(), best.ratio, "text", "x"))
    title, caption = (
        f"return ÷ a neutral policy's, λ = {lam:g}, k = 2",
        "Dots: the best choice. Crosses: what was climbed to.",
    )
    return lines_plot(lines, title=title, xlabel="P(the longer length)", limits=(0.5, 1.2), caption=caption)


def neutrality_plot(cfg: Config, paper: pd.Series, k: int, over: pd.DataFrame) -> Plot:
    """Plot the neutrality of the best choice among k lengths against E, with a line for each λ."""
    lines = []
    for row, colour in zip(over.itertuples(), cycle(PALETTE), strict=False):
        lines.append(Line(f"λ = {row.lam:g}", row.sizes, row.neutrality, colour))
        if row.largest_neutral <= cfg.most_episodes:
            lines.append(Line("", [row.largest_neutral], [1], colour, "o"))
    if k == 2:
        lines.append(Line("the paper's", [paper.episodes_per_meta], [paper.neutrality], "text", "*"))
    title, xlabel = f"neutrality ÷ log2 k of the best choice, k = {k}", "E, mini-episodes of a meta-episode"
    caption = "Dots: the largest E for which the best choice is neutral."
    return lines_plot(lines, title=title, xlabel=xlabel, log="x", caption=caption)
