"""Theorem 5.1, checked numerically: which policies maximise the expected return of a meta-episode.

The best policy of a level can be climbed to by exact gradients (`climbing`). It can also be had without a level, as
the best choice of lengths on the simplex (`drest_torch.theory`). The two do not know of each other, and have to agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import MISSING

from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig
from drest_torch.studies.theorem import analysis
from drest_torch.studies.theorem.analysis import Setting
from drest_torch.studies.theorem.climbing import CREDITS
from drest_torch.studies.theorem.tables import (
    format_choice,
    format_missing,
    format_over,
    level_tables,
    limit_table,
    mini_table,
    optimum_table,
)
from drest_torch.theory import rule_of_thumb

TITLE = "Theorem 5.1, checked numerically"
QUESTION = (
    "Is a policy that maximises the expected return of a meta-episode maximally useful and maximally neutral, "
    "as Theorem 5.1 says, and by how much does the best policy win?"
)

FACTORS = ("credit", "lam", "episodes_per_meta", "num_lengths", "start", "length")
"""Columns of the results. Rows without a credit are those of the best choice of lengths, without any level."""


@dataclass
class RewardSetting:
    """A reward: λ and E."""

    lam: float = MISSING
    episodes_per_meta: int = MISSING


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/theorem.yaml`."""

    worlds: list[str] = MISSING
    gamma: float = MISSING
    gammas: dict[str, float] = MISSING
    levels: dict[str, str] = MISSING
    settings: list[RewardSetting] = MISSING
    papers: RewardSetting = MISSING
    random_starts: int = MISSING
    slip: float = MISSING
    steps: int = limited(at_least=1)
    lr: list[float] = MISSING
    curve_lam: float = MISSING
    curve_episodes: list[int] = MISSING
    lams: list[float] = MISSING
    lengths: list[int] = MISSING
    most_episodes: int = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each credit, reward and γ: all levels that have a γ are climbed at the same time."""
    gammas = {name: float(cfg.gammas.get(name, cfg.gamma)) for name in [*cfg.worlds, *cfg.levels]}
    runs = []
    for credit in CREDITS:
        for setting in cfg.settings:
            for gamma in dict.fromkeys(gammas.values()):
                lam, episodes = float(setting.lam), int(setting.episodes_per_meta)
                spec = {
                    "worlds": [name for name in cfg.worlds if gammas[name] == gamma],
                    "levels": {name: text for name, text in cfg.levels.items() if gammas[name] == gamma},
                    "gamma": gamma,
                    "lam": lam,
                    "episodes_per_meta": episodes,
                    "credit": credit,
                    "random_starts": cfg.random_starts,
                    "slip": cfg.slip,
                    "steps": cfg.steps,
                    "lr": list(cfg.lr),
                }
                label = f"{credit}-lambda={lam:g}-E={episodes}-gamma={gamma:g}"
                runs.append(Job(label, "drest_torch.studies.theorem.climbing:optimise", spec))
    return runs


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the best policies that were climbed to and the best choices of lengths, side by side."""
    settings = [
        Setting(float(reward.lam), int(reward.episodes_per_meta), k) for reward in cfg.settings for k in cfg.lengths
    ]
    paper = Setting(float(cfg.papers.lam), int(cfg.papers.episodes_per_meta), 2)
    limits = analysis.limits([float(lam) for lam in cfg.lams], list(cfg.lengths))
    results = measure(cfg, finished, [*settings, paper], limits)
    meta, mini = (analysis.climbs(results, credit, [*cfg.worlds, *cfg.levels]) for credit in CREDITS)
    verdicts = [analysis.verdict(meta, setting) for setting in settings]
    minis = analysis.mini_credit(mini, meta, settings)
    findings = {
        "papers": analysis.verdict(meta.iloc[:0], paper),
        "verdicts": verdicts,
        "largest_neutral": {str(k): {f"{lam:g}": most for lam, most in row.items()} for k, row in limits.items()},
        "mini_credit": minis,
    }
    tables = {
        "optimum": optimum_table(verdicts),
        "largest_neutral": limit_table(limits),
        "mini_credit": mini_table(minis),
        **{f"levels, {reward}": table for reward, table in level_tables(meta, settings).items()},
    }
    names = analysis.conclusions(verdicts, minis, limits) | analysis.arrivals(meta)
    return Analysis(results, findings, tables, _quotes(findings, names), names, extra=(meta, limits))


def measure(
    cfg: Any, finished: Finished, settings: Sequence[Setting], limits: Mapping[int, Mapping[float, int]]
) -> pd.DataFrame:
    """Return the outcome of every climb, and the best choices of lengths for these settings and over E."""
    results = Results("theorem", *FACTORS)
    for run, result in finished.of(jobs(cfg)):
        add_climbs(results, run, result)
    for setting in dict.fromkeys(settings):
        optimum = analysis.optimum(setting)
        probabilities = {f"p_{rank}": p for rank, p in enumerate(optimum.pop("choice"), 1)}
        for metric, value in (optimum | probabilities).items():
            results.add(np.array([value]), metric, variant="optimum", **setting.where())
    most = int(cfg.most_episodes)
    for k, row in limits.items():
        for lam, limit in row.items():
            near = limit + np.array([0, 1, 2, 4, 8])
            steps = np.unique(np.geomspace(2, most, 30).astype(int))
            sizes = np.unique(np.concatenate([steps, near[near <= most]])).tolist()
            values = analysis.neutrality_over_episodes(k, lam, sizes)
            where: dict[str, Any] = {"lam": lam, "episodes_per_meta": sizes, "num_lengths": k}
            results.add(values, "neutrality_normalised", variant="optimum over E", seeds=[0] * len(sizes), **where)
            for metric, value in (("largest_neutral", limit), ("rule_of_thumb", rule_of_thumb(k, lam))):
                results.add(np.array([value]), metric, variant="limit of E", lam=lam, num_lengths=k)
    return results.table()


def add_climbs(results: Results, run: Job, result: Result) -> None:
    """Add what a run found in each level from each start."""
    factors = {name: run.spec[name] for name in ("credit", "lam", "episodes_per_meta")}
    for index, (level, lengths) in enumerate(zip(result.numbers["levels"], result.numbers["lengths"], strict=True)):
        k = len(lengths)
        probability, share = (
            torch.from_numpy(result.arrays[name][:, index, :k]) for name in ("p_length", "share_of_best")
        )
        metrics = {
            "return": torch.from_numpy(result.arrays["value"][:, index, 0]),
            "usefulness": usefulness(probability, share, torch.ones_like(share)),
            "neutrality": neutrality(probability),
            "neutrality_normalised": neutrality_normalised(probability, k),
        }
        where: dict[str, Any] = {**factors, "num_lengths": k, "start": result.numbers["starts"], "level": level}
        for metric, value in metrics.items():
            results.add(value.numpy(), metric, variant=run.name, **where)
        for column, length in enumerate(lengths):
            results.add(probability[:, column].numpy(), "p_length", variant=run.name, length=length, **where)
            results.add(share[:, column].numpy(), "share_of_best", variant=run.name, length=length, **where)


def _quotes(findings: Mapping[str, Any], names: Mapping[str, Any]) -> list[Quote]:
    paper, verdicts = findings["papers"], findings["verdicts"]
    reward = f"λ = {paper['lam']:g}, E = {paper['episodes_per_meta']}, two lengths"
    choice, more = format_choice(paper["choice"]), format_over(paper["margin"])
    best = f"N {paper['neutrality']:.3f}, P(L) {choice}, return {more} over neutral"
    quotes = [Quote(f"the best policy for whole meta-episodes, {reward}", "N 1", best)]
    if levels := {level for row in verdicts for level in row["levels"]}:
        rewards = len({(row["lam"], row["episodes_per_meta"]) for row in verdicts})
        what = f"usefulness of the best policy, {len(levels)} levels, {rewards} rewards"
        quotes.append(Quote(what, "1", f"≥ 1 − {format_missing(names['useful']['least'])}"))
    if findings["mini_credit"]:
        ended = "neutral in {neutral} of {climbs} climbs".format(**names["mini"])
        quotes.append(Quote("where credit within mini-episodes leads, the same levels and rewards", "", ended))
    return quotes
