from dataclasses import dataclass

import pandas as pd

from drest_torch.jobs.training_job import training_jobs
from drest_torch.report.figures import RANGE, curve_figure, curves_of
from drest_torch.report.tables import mean_range, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shapes import rises

METRICS = {"usefulness": "usefulness", "neutrality": "neutrality, bits"}
QUICK = {"seeds": 2, "numbers": [1, 16], "run": {"env_steps": 20_000, "levels": {"test": 20}}}


@dataclass
class Config(StudyConfig):
    seeds: int = 5
    numbers: list[int] = value([1, 4, 16, 64, 256])
    run: dict = value({"env_steps": 2_000_000, "levels": {"test": 100, "selection": 0}})


def jobs(cfg):
    runs = {}
    for number in cfg.numbers:
        values = {**cfg.run, "levels": {**cfg.run["levels"], "train": number}}
        seeds = training_jobs(f"levels={number}", range(cfg.seeds), values, algo="ppo", levels="followup_like")
        runs |= {(number, seed): job for seed, job in enumerate(seeds)}
    return runs


def rows(cfg, done):
    rows = []
    for (number, seed), result in done.items():
        for split in ("train", "test"):
            values = {metric: result.numbers["splits"][split][metric] for metric in METRICS}
            rows.append({"levels": number, "seed": seed, "split": split, **values})
    return pd.DataFrame(rows)


def figure_of(metric):
    def figure(rows):
        curves = curves_of(rows, x="levels", y=metric, by="split", spread=RANGE)
        title, xlabel = "Training and test levels", "number of training levels, k"
        return curve_figure(curves, title=title, xlabel=xlabel, ylabel=METRICS[metric], log="x")

    return figure


def unseen(rows, metric):
    return rows[rows.split == "test"].groupby("levels")[metric]


def table(rows):
    cells = pd.DataFrame({metric: unseen(rows, metric).agg(mean_range) for metric in METRICS})
    return table_of(cells, "Unseen levels, at the end of training", first="k", note="Mean, and range of seeds.")


FIGURES = {metric: figure_of(metric) for metric in METRICS}
TABLES = {"unseen": table}
CLAIMS = {"Neutrality on unseen levels rises with k.": lambda rows: rises(unseen(rows, "neutrality").mean())}
