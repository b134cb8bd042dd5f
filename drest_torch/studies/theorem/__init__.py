"""A numerical check of Theorem 5.1: is the exact optimum of the expected return useful and neutral?

The best policy of a level is found by gradient ascent (`ascent`). It can also be computed without a level, as the best
choice of lengths on the simplex (`drest_torch.theory`). The two are independent, and have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.metrics import neutrality_normalised
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import EXACT as NO_SPREAD
from drest_torch.report.figures import Curve, curve_figure, curves_of
from drest_torch.report.tables import table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shapes import falls, rises, within
from drest_torch.studies.shared import of_part
from drest_torch.studies.theorem.ascent import CREDITS
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, neutral_value, rule_of_thumb

EXACT = 1e-6
"""Relative differences below this are due to rounding or to an ascent that has not fully converged."""
LAM, EPISODES = 0.9, 64
"""λ and E of the paper's experiments, which have two lengths."""
QUICK = {
    "worlds": ["example", "lopsided"],
    "settings": [[0.5, 8], [0.9, 64]],
    "random_starts": 1,
    "steps": 180,
    "lams": [0.5, 0.9],
    "most_episodes": 256,
}


@dataclass
class Config(StudyConfig):
    worlds: list[str] = value(["example", "lopsided", *(name for name in PAPER_WORLDS if name != "example")])
    """The worlds, on the clock that counts every step."""
    gamma: float = 0.9
    """γ in worlds that ``gammas`` does not name."""
    gammas: dict[str, float] = value({"example": 0.95, "lopsided": 1.0})
    """γ in particular worlds."""
    levels: dict[str, str] = value({})
    """Further levels by name: `theorem.yaml` has levels with three and four lengths."""
    settings: list[Any] = value([[0.5, 8], [0.9, 32], [0.5, 16], [0.9, 64], [0.9, 128]])
    """The rewards that are optimised, as λ and E. With two lengths the theorem holds for the first two."""
    random_starts: int = 3
    """Random starting policies, besides the uniform policy, one near neutrality and one near each length."""
    slip: float = 0.02
    """The weight of other actions in a start near a best route, where each action of the route has weight 1."""
    steps: int = limited(at_least=1, default=450)
    """Steps of Adam."""
    lr: list[float] = value([0.1, 1.0, 0.0001])
    """Learning rates in the first and the second third of the steps, and at the end of the third, to which it falls."""
    curve_episodes: list[int] = value([16, 32, 58, 64, 72, 80])
    """E of the curves of the return against P(longer), at the paper's λ."""
    lams: list[float] = value([0.5, 0.75, 0.9, 0.95, 0.99])
    """Values of λ for which the largest E with a neutral optimum is computed."""
    lengths: list[int] = value([2, 3, 4])
    """Numbers of lengths for which this largest E is computed."""
    most_episodes: int = 1024
    """The largest E of the curves of neutrality."""


class Key(NamedTuple):
    credit: str
    lam: float
    episodes_per_meta: int
    gamma: float


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each credit, reward and γ, which optimises all levels with this γ at the same time."""
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
        runs[key] = Job(label, "drest_torch.studies.theorem.ascent:optimise", spec)
    return runs


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return four kinds of rows, by the column ``part``.

    - ascent: the end of gradient ascent from each start in each level,
    - optimum: the best choice of lengths for each reward,
    - limit, episodes: the largest E with a neutral optimum, and the neutrality of the optimum for each E,
    - return, maximum: the expected return, relative to a neutral policy's, for each P(longer) at the paper's λ.
    """
    settings = {(float(lam), int(episodes), k) for (lam, episodes), k in product(cfg.settings, cfg.lengths)}
    optima = [optimum(*setting) for setting in sorted({*settings, (LAM, EPISODES, 2)})]
    ascents = [row for key, result in done.items() for row in ascent_rows(key, result)]
    parts = [*ascents, *optima, *limit_rows(cfg), *return_rows(cfg)]
    return pd.DataFrame(parts)


def ascent_rows(key: Key, result: Result) -> list[dict[str, Any]]:
    """Return a row for each level and start of a run.

    ``return_ratio`` is the return ÷ a neutral policy's, and ``apart`` its relative difference from the best choice's.
    """
    records = []
    for place, (level, lengths) in enumerate(zip(result.numbers["levels"], result.numbers["lengths"], strict=True)):
        k = len(lengths)
        probability, share = (result.arrays[name][:, place, :k] for name in ("p_length", "share_of_best"))
        useful = (probability * share).sum(-1)
        neutral = neutrality_normalised(torch.from_numpy(probability), k)
        value_of_neutral = neutral_value(k, key.episodes_per_meta, key.lam)
        best = 1 + margin(k, key.episodes_per_meta, key.lam)
        for start, name in enumerate(result.numbers["starts"]):
            ratio = result.arrays["value"][start, place, 0] / value_of_neutral
            record = {
                "part": "ascent",
                "credit": key.credit,
                "lam": key.lam,
                "episodes": key.episodes_per_meta,
                "k": k,
                "level": level,
                "start": name,
                "p_longest": probability[start, -1],
                "not_useful": max(0.0, 1 - useful[start]),
                "neutrality": neutral[start].item(),
                "return_ratio": ratio,
                "apart": ratio / best - 1,
            }
            records.append(record)
    return records


def optimum(lam: float, episodes: int, k: int) -> dict[str, Any]:
    """Return the row of the best choice of lengths for a reward, computed without a level."""
    choice = torch.tensor(best_choice(k, episodes, lam), dtype=torch.float64)
    one_length = choice_value(torch.eye(k, dtype=torch.float64)[0], episodes, lam).item()
    return {
        "part": "optimum",
        "lam": lam,
        "episodes": episodes,
        "k": k,
        "choice": ", ".join(f"{p:.3f}" for p in choice),
        "neutrality": neutrality_normalised(choice, k).item(),
        "return_ratio": 1 + margin(k, episodes, lam),
        "neutral_over_one_length": neutral_value(k, episodes, lam) / one_length,
    }


def limit_rows(cfg: Config) -> list[dict[str, Any]]:
    """Return the largest E with a neutral optimum, and neutrality over E, for each number of lengths and λ."""
    records = []
    for k, lam in product(cfg.lengths, cfg.lams):
        limit = largest_neutral(k, lam)
        reward = {"k": k, "lam": lam}
        records.append({"part": "limit", **reward, "episodes": limit, "rule_of_thumb": rule_of_thumb(k, lam)})
        near = limit + np.array([0, 1, 2, 4, 8])
        steps = np.unique(np.geomspace(2, cfg.most_episodes, 30).astype(int))
        sizes = np.unique(np.concatenate([steps, near[near <= cfg.most_episodes]])).tolist()
        for size in sizes:
            choice = torch.tensor(best_choice(k, size, lam), dtype=torch.float64)
            bits = neutrality_normalised(choice, k).item()
            records.append({"part": "episodes", **reward, "episodes": size, "neutrality": bits})
    return records


def return_rows(cfg: Config) -> list[dict[str, Any]]:
    """Return the expected return, relative to a neutral policy's, for each P(longer) and several E, and its maxima."""
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    records = []
    for size in cfg.curve_episodes:
        ratios = choice_value(torch.stack((1 - p, p), -1), size, LAM) / neutral_value(2, size, LAM)
        curve = {"part": "return", "lam": LAM, "k": 2, "episodes": size}
        for p_longest, ratio in zip(p.tolist(), ratios.tolist(), strict=True):
            records.append({**curve, "p_longest": p_longest, "return_ratio": ratio})
        maximum = curve | {"part": "maximum", "return_ratio": 1 + margin(2, size, LAM)}
        records += [maximum | {"p_longest": p_longest} for p_longest in best_choice(2, size, LAM)]
    return records


REWARD = ["lam", "episodes", "k"]


def compare(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each reward: the best choice, and the best end of gradient ascent over all levels."""
    ascents = of_part(rows, "ascent", credit="meta")
    best = ascents.loc[ascents.groupby([*REWARD, "level"]).return_ratio.idxmax()]
    optima = of_part(rows, "optimum").set_index(REWARD)
    by_reward = best.assign(apart=best.apart.abs()).groupby(REWARD)
    ends = by_reward.agg(
        levels=("level", "nunique"),
        not_useful=("not_useful", "max"),
        apart=("apart", "max"),
    )
    return optima.join(ends, how="inner").reset_index()


def at_paper(rows: pd.DataFrame) -> pd.Series:
    """Return the row of the best choice at the paper's λ and E."""
    return of_part(rows, "optimum", lam=LAM, episodes=EPISODES, k=2).iloc[0]


# ------------------------------------------------------------------------------------------ claims


def neutral_is_best_within_limit(rows: pd.DataFrame) -> bool:
    """Return whether the optimum is neutral up to the largest E of each λ and k, and not beyond it."""
    limits = of_part(rows, "limit").set_index(["k", "lam"]).episodes
    curves = of_part(rows, "episodes").groupby(["k", "lam"])
    return all(((curve.neutrality > 1 - EXACT) == (curve.episodes <= limits[reward])).all() for reward, curve in curves)


def neutrality_falls_beyond_limit(rows: pd.DataFrame) -> bool:
    """Return whether every curve falls from its largest neutral E to its end."""
    limits = of_part(rows, "limit").set_index(["k", "lam"]).episodes
    curves = of_part(rows, "episodes").groupby(["k", "lam"])
    reached = [(curve, limits[reward]) for reward, curve in curves if curve.episodes.max() > limits[reward]]
    return all(falls(curve[curve.episodes >= limit].neutrality) for curve, limit in reached)


def maxima_move_outwards(rows: pd.DataFrame) -> bool:
    """Return whether the maxima of the return are at one half up to E = 58, and move away from it beyond."""
    maxima = of_part(rows, "maximum").set_index("episodes").p_longest
    distance = (maxima - 0.5).abs().groupby("episodes").max()
    return bool((distance.loc[:58] < EXACT).all()) and rises(distance.loc[58:])


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "The best policy is useful, as the theorem says: in every level its usefulness is at least 1 − {not_useful}.": (
        lambda rows: compare(rows).not_useful.max() < EXACT
    ),
    "The best policy is not always neutral. With the paper's λ = 0.9, E = 64 and two lengths it chooses the lengths "
    "with probabilities {paper_choice}, and its return is {paper_margin} above that of a neutral policy.": (
        lambda rows: at_paper(rows).return_ratio > 1 + EXACT
    ),
    "A neutral policy is best up to a largest E, which depends on λ and the number of lengths, and for no larger E.": (
        neutral_is_best_within_limit
    ),
    "Beyond that E, the neutrality of the best policy falls in E, for every λ and every number of lengths.": (
        neutrality_falls_beyond_limit
    ),
    "With λ = 0.9 and two lengths, the return has its maximum at one half up to E = 58. Beyond it there are two "
    "maxima, which move outwards as E grows.": maxima_move_outwards,
    "In every level gradient ascent reaches the return of the best choice of lengths; the largest relative "
    "difference is {apart}.": lambda rows: within(compare(rows).apart, 0, EXACT),
    "The reward serves its purpose in all of these cases, whether or not the optimum is neutral: the return of a "
    "neutral policy is {least_over_one} to {most_over_one} times that of a policy that always takes the same "
    "length.": lambda rows: compare(rows).neutral_over_one_length.min() > 1,
    "Credit within the mini-episode, which is how the paper trains, leads to neutrality from every start and with "
    "every E: in all of {mini_ascents} ascents.": (
        lambda rows: of_part(rows, "ascent", credit="mini").neutrality.min() > 1 - EXACT
    ),
    "The largest E with a neutral optimum is {least_rule} to {most_rule} of the rule of thumb.": (
        lambda rows: within(rule_ratio(rows), 1, 0.1)
    ),
}


# ----------------------------------------------------------------------------------------- numbers


def rule_ratio(rows: pd.DataFrame) -> pd.Series:
    """Return the largest E with a neutral optimum ÷ the rule of thumb."""
    limits = of_part(rows, "limit")
    return limits.episodes / limits.rule_of_thumb


def arrived(rows: pd.DataFrame) -> int:
    """Return the number of ascents that reach the best return of their level."""
    ascents = of_part(rows, "ascent", credit="meta")
    most = ascents.groupby([*REWARD, "level"]).return_ratio.transform("max")
    return int((ascents.return_ratio >= most * (1 - EXACT)).sum())


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "not_useful": lambda rows: f"{compare(rows).not_useful.max():.0e}",
    "apart": lambda rows: f"{compare(rows).apart.max():.0e}",
    "paper_choice": lambda rows: at_paper(rows).choice.replace(", ", " and "),
    "paper_neutrality": lambda rows: f"{at_paper(rows).neutrality:.3f}",
    "paper_margin": lambda rows: f"{at_paper(rows).return_ratio - 1:.1%}",
    "least_over_one": lambda rows: f"{compare(rows).neutral_over_one_length.min():.2g}",
    "most_over_one": lambda rows: f"{compare(rows).neutral_over_one_length.max():,.0f}",
    "mini_ascents": lambda rows: len(of_part(rows, "ascent", credit="mini")),
    "meta_ascents": lambda rows: len(of_part(rows, "ascent", credit="meta")),
    "arrived": arrived,
    "least_rule": lambda rows: f"{rule_ratio(rows).min():.0%}",
    "most_rule": lambda rows: f"{rule_ratio(rows).max():.0%}",
    "levels": lambda rows: of_part(rows, "ascent").level.nunique(),
}


# ------------------------------------------------------------------------------ figures and tables


def return_figure(rows: pd.DataFrame) -> Plot:
    """Plot the expected return against P(longer) for several E, with its maxima and the ends of gradient ascent."""
    returns = of_part(rows, "return")
    labels = {size: f"E = {size:g}" for size in returns.episodes}
    curves = curves_of(
        returns, x="p_longest", y="return_ratio", by="episodes", spread=NO_SPREAD, labels=labels, look="-"
    )
    best = of_part(rows, "maximum")
    ascents = of_part(rows, "ascent", credit="meta", lam=LAM, k=2)
    ascents = ascents[ascents.episodes.isin(returns.episodes)]
    ends = ascents.loc[ascents.groupby(["episodes", "level"]).return_ratio.idxmax()]
    curves.append(Curve("best choice of lengths", best.p_longest, best.return_ratio, "muted", "o"))
    curves.append(Curve("end of gradient ascent", ends.p_longest, ends.return_ratio, "text", "x"))
    return curve_figure(
        curves,
        title="Expected return of a choice, λ = 0.9, two lengths",
        xlabel="P(the longer length)",
        ylabel="return ÷ neutral policy's",
        limits=(0.5, 1.2),
    )


def neutrality_figure(rows: pd.DataFrame, k: int) -> Plot:
    """Plot the neutrality of the best choice among k lengths against E, with a curve for each λ."""
    of_k = of_part(rows, "episodes", k=k)
    labels = {lam: f"λ = {lam:g}" for lam in of_k.lam}
    curves = curves_of(of_k, x="episodes", y="neutrality", by="lam", spread=NO_SPREAD, labels=labels, look="-")
    limits = of_part(rows, "limit", k=k)
    limits = limits[limits.episodes <= of_k.episodes.max()]
    curves.append(Curve("largest E with a neutral optimum", limits.episodes, np.ones(len(limits)), "muted", "o"))
    if k == 2:
        paper = at_paper(rows)
        curves.append(Curve("the paper's λ and E", [paper.episodes], [paper.neutrality], "text", "*"))
    return curve_figure(
        curves,
        title=f"The best choice among {k} lengths",
        xlabel="E, mini-episodes of a meta-episode",
        ylabel="neutrality" if k == 2 else f"neutrality ÷ log2 {k}",
        log="x",
    )


def optimum_table(rows: pd.DataFrame) -> Table:
    """Return the table of the optimum of each reward."""
    optima = compare(rows)
    marks = np.where(optima.return_ratio < 1 + EXACT, "✓ ", "✗ ")
    cells = pd.DataFrame(
        {
            "neutrality ÷ log2\u00a0k": marks + optima.neutrality.map("{:.3f}".format),
            "best P(L)": optima.choice,
            "return over neutral": optima.return_ratio.map(_more),
            "neutral ÷ one length": optima.neutral_over_one_length.map("{:,.3g} ×".format),
            "levels": optima.levels.map("{:.0f}".format),
            "1 − usefulness ≤": optima.not_useful.map("{:.0e}".format),
            "ascent differs by": optima.apart.map("{:.0e}".format),
        }
    )
    cells.index = pd.Index([f"{row.lam:g} / {row.episodes:g} / {row.k:g}" for row in optima.itertuples()])
    note = (
        "✓: a neutral policy is best. Return over neutral: of the best choice. Neutral ÷ one length: the return of a "
        "neutral policy by that of a policy that always takes the same length. The last two columns are of gradient "
        "ascent: the largest in any of the levels."
    )
    return table_of(cells, "The optimum of the expected return of a meta-episode", first="λ / E / k", note=note)


def _more(ratio: float) -> str:
    """Return the excess of a ratio over 1 as text, such as ``+1.1%``; 0 within rounding."""
    return "0" if abs(ratio - 1) < EXACT else f"{ratio - 1:+,.1%}"


def limit_table(rows: pd.DataFrame) -> Table:
    """Return the table of the largest E with a neutral optimum for each λ and number of lengths."""
    limits = of_part(rows, "limit").sort_values(["k", "lam"])
    cells = pd.DataFrame({"lam": limits.lam.map("λ = {:g}".format)})
    cells["k"] = limits.k.map("{:g} lengths".format)
    cells["text"] = [f"{row.episodes:g} ({row.rule_of_thumb:.1f})" for row in limits.itertuples()]
    table = cells.pivot(index="lam", columns="k", values="text")
    note = "In brackets: the rule of thumb 2 + 3k · λ^(1/k) ÷ (1−λ)."
    return table_of(table, "The largest E with a neutral optimum", first="λ", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "return": return_figure,
    **{f"neutrality_{k}": partial(neutrality_figure, k=k) for k in (2, 3, 4)},
}
TABLES = {"optimum": optimum_table, "limit": limit_table}
