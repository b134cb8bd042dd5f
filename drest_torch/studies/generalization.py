"""How well does what an agent learned carry over to unseen gridworlds, and how many training levels does that take?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, curve_figure, curves_of, profile_of
from drest_torch.report.tables import mean_range, table_of
from drest_torch.studies.engine import Done, StudyConfig, value
from drest_torch.studies.shapes import falls, rises, within

METRICS = {"usefulness": "usefulness", "neutrality": "neutrality, bits"}
QUICK = {"seeds": 2, "numbers": [1, 64], "run": {"env_steps": 100_000}}


@dataclass
class Config(StudyConfig):
    seeds: int = 5
    numbers: list[int] = value([1, 4, 16, 64, 256, 1024, 4096, 16384])
    """Numbers of training levels."""
    run: dict[str, Any] = value({"env_steps": 2_000_000, "evaluations": 10, "levels": {"test": 100, "selection": 50}})
    """Values of every run of `drest train`."""


def jobs(cfg: Config) -> dict[Any, Job]:
    runs: dict[Any, Job] = {}
    for number in cfg.numbers:
        values = {**cfg.run, "levels": {**cfg.run["levels"], "train": number}}
        seeds = training_jobs(f"levels={number}", range(cfg.seeds), values, algo="ppo", levels="followup_like")
        runs |= {(number, seed): job for seed, job in enumerate(seeds)}
    return runs


def rows(cfg: Config, done: Done) -> pd.DataFrame:
    """Return what agents reach at the end, on each unseen level, and during training on other unseen levels."""
    parts = []
    for (number, seed), result in done.items():
        run, arrays = {"levels": number, "seed": seed}, result.arrays
        for split, name in (("training", "train"), ("unseen", "test")):
            end = {metric: result.numbers["splits"][name][metric] for metric in METRICS}
            parts.append(pd.DataFrame([{"part": "end", **run, "split": split, **end}]))
        by_level = {name: arrays[f"test/{name}"].round(3) for name in (*METRICS, "p_longest")}
        parts.append(pd.DataFrame({"part": "level", **run, **by_level}))
        curve = {metric: arrays[f"eval/selection/{metric}"].round(4) for metric in METRICS}
        parts.append(pd.DataFrame({"part": "curve", **run, "steps": arrays["steps"], **curve}))
    return pd.concat(parts, ignore_index=True)


def of_part(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    return rows[rows.part == part].assign(k=rows.levels.map("k = {:,}".format))


def at_end(rows: pd.DataFrame, metric: str) -> Plot:
    colours = {"training": "muted", "unseen": "drest"}
    curves = curves_of(of_part(rows, "end"), x="levels", y=metric, by="split", spread=RANGE, colours=colours)
    title, ylabel = f"{metric.capitalize()} on training and unseen levels", METRICS[metric]
    return curve_figure(curves, title=title, xlabel="number of training levels, k", ylabel=ylabel, log="x")


def profile(rows: pd.DataFrame) -> Plot:
    curves = profile_of(of_part(rows, "level"), value="neutrality", by="k", spread=RANGE)
    title, ylabel = "Performance profile, unseen levels", "share of levels with neutrality ≥ τ"
    return curve_figure(curves, title=title, xlabel="τ, bits", ylabel=ylabel)


def learning(rows: pd.DataFrame, metric: str) -> Plot:
    curves = curves_of(of_part(rows, "curve"), x="steps", y=metric, by="k", spread=RANGE, look="-")
    title = f"{metric.capitalize()} on unseen levels during training"
    return curve_figure(curves, title=title, xlabel="environment steps", ylabel=METRICS[metric])


def end_table(rows: pd.DataFrame) -> Table:
    cells = of_part(rows, "end").pivot_table(index="levels", columns="split", values=[*METRICS], aggfunc=mean_range)
    cells.columns = pd.Index([f"{metric}, {split} levels" for metric, split in cells.columns])
    return table_of(cells, "At the end of training", first="k", note="The mean, the lowest and the highest seed.")


def failures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return on what share of unseen levels agents are far from neutral, and what they do there and elsewhere."""
    levels = of_part(rows, "level")
    fails = levels.neutrality < 0.5
    far, others = (levels[where].groupby("levels") for where in (fails, ~fails))
    shares = {"fails": fails.groupby(levels.levels).mean(), "longer": far.p_longest.agg(lambda p: (p > 0.5).mean())}
    return pd.DataFrame({**shares, "usefulness": far.usefulness.mean(), "elsewhere": others.usefulness.mean()})


def failure_table(rows: pd.DataFrame) -> Table:
    heads = ["share of unseen levels", "of these, longer length", "usefulness there", "usefulness elsewhere"]
    cells = failures(rows).map("{:.2f}".format).set_axis(heads, axis=1)
    return table_of(cells, "Unseen levels with neutrality below half a bit", first="k")


def means(rows: pd.DataFrame, metric: str, split: str = "unseen") -> pd.Series:
    return of_part(rows, "end").query("split == @split").groupby("levels")[metric].mean()


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{f"{metric}_at_end": partial(at_end, metric=metric) for metric in METRICS},
    **{f"{metric}_learning": partial(learning, metric=metric) for metric in METRICS},
    "profile": profile,
}
TABLES = {"ends": end_table, "failures": failure_table}


def gap(rows: pd.DataFrame) -> pd.Series:
    return means(rows, "neutrality", "training") - means(rows, "neutrality")


NUMBERS = {
    "most": lambda rows: f"{rows.levels.max():,}",
    "first": lambda rows: f"{means(rows, 'neutrality').iloc[0]:.2f}",
    "last": lambda rows: f"{means(rows, 'neutrality').iloc[-1]:.2f}",
    "gap": lambda rows: f"{gap(rows).max():.2f}",
    "end_gap": lambda rows: f"{gap(rows).iloc[-1]:.2f}",
    "fails_few": lambda rows: f"{failures(rows).fails.loc[64]:.0%}",
    "fails_most": lambda rows: f"{failures(rows).fails.iloc[-1]:.0%}",
}
CLAIMS = {
    "Neutrality on unseen levels rises with the number of training levels, from {first} bits with one to {last} with "
    "{most}.": lambda rows: rises(means(rows, "neutrality"), tolerance=0.02),
    "Usefulness carries over with fewer levels: with 16 it exceeds 0.8 on unseen levels, where neutrality is 0.5.": (
        lambda rows: means(rows, "usefulness")[16] > 0.8 and within(means(rows, "neutrality")[16], 0.5, 0.05)
    ),
    "The gap to the training levels closes: it is {gap} bits at its largest, and {end_gap} with {most} levels.": (
        lambda rows: gap(rows).idxmax() < 256 and gap(rows).iloc[-1] < 0.05
    ),
    "The mean hides failures: with 64 training levels, neutrality is below half a bit on {fails_few} of the unseen "
    "levels, with {most} on {fails_most}.": lambda rows: falls(failures(rows).fails.loc[64:], tolerance=0.02),
}
