"""Tasks beyond gridworlds: what agents learn from samples in environments of others, with DReST and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drest_torch.jobs.job import Job, Result
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.studies import goals
from drest_torch.studies.goals_report import goals_table
from drest_torch.studies.study import Analysis, Finished

TITLE = "Beyond gridworlds"
QUESTION = "Do agents become useful and neutral in environments that are not ours, from samples alone?"
REWARDS = {"DReST": "reward=drest", "default reward": "reward=default"}


@dataclass
class Config(goals.GoalsConfig):
    """The values of `configs/study/beyond.yaml`."""


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of all tasks, with DReST and with the default reward."""
    return [job for several in _jobs(cfg).values() for job in several]


def variants(cfg: Config) -> dict[str, Any]:
    """Return the goals, and beside each the same task with the default reward, of which nothing is wanted."""
    chosen = {}
    for title, goal in goals.chosen_goals(cfg).items():
        chosen[title] = goal
        arguments = f"{goal['arguments'].strip()} {REWARDS['default reward']}"
        chosen[default_of(title)] = {"arguments": arguments, "wanted": {name: {} for name in goal["wanted"]}}
    return chosen


def default_of(title: str) -> str:
    """Return the title of a task with the default reward."""
    return f"{title}, default reward"


def _jobs(cfg: Config) -> dict[str, list[Job]]:
    return goals.jobs_of_goals(cfg, variants(cfg))


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every seed reaches of what is wanted, and both rewards side by side."""
    wanted = variants(cfg)
    planned = _jobs(cfg)
    results = goals.measure("beyond", planned, wanted, finished)
    scores = goals.scores(results, wanted)
    runs = {title: [result for _, result in finished.of(several)] for title, several in planned.items()}
    lengths = {title: by_length(several) for title, several in runs.items() if several}
    tables = {
        "goals": goals_table([score for score in scores if score.wanted], "Goals"),
        "lengths": lengths_table(cfg, lengths),
    }
    findings = {"goals": [asdict(score) for score in scores], "lengths": lengths}
    lines = [line for title, goal in wanted.items() for line in (f"# {title}", _command(goal))]
    names = {**goals.summarise(scores), "lines": lines, "delays": _delays(cfg, lengths)}
    quotes = [goals.quote(scores, "environments of others, from samples")]
    return Analysis(results, findings, tables, quotes, names, (scores, runs), exact=False)


def _command(goal: Any) -> str:
    return "python -m drest_torch.train " + " ".join(goal["arguments"].split())


def by_length(runs: Sequence[Result]) -> dict[str, list[Any]]:
    """Return the median over seeds, by length, of its probability, its return and the share of m(l) that this is."""
    arrays = [run.arrays for run in runs]
    returns = np.array([(each["test/return_given_length"]).mean(0) for each in arrays])
    shares = np.array([(each["test/return_given_length"] / each["test/best_return"]).mean(0) for each in arrays])
    chances = np.array([each["test/p_length"].mean(0) for each in arrays])
    never = chances == 0
    return {
        "lengths": arrays[0]["test/lengths"].astype(int).tolist(),
        "probability": np.median(chances, 0).tolist(),
        "return": _medians(np.where(never, np.nan, returns)),
        "share": _medians(np.where(never, np.nan, shares)),
    }


def _medians(values: np.ndarray) -> list[float | None]:
    """Return the median of each column, None for one without numbers."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return [float(np.median(column)) if len(column) else None for column in columns]


def lengths_table(cfg: Config, found: dict[str, dict[str, list[Any]]]) -> Table:
    """Return what becomes of each length, with both rewards."""
    header = ["task", "length", "P, DReST", "P, default", "return, DReST", "return, default", "÷ m(l), DReST"]
    rows = []
    for title in goals.chosen_goals(cfg):
        both = [found.get(name) for name in (title, default_of(title))]
        some = both[0] or both[1]
        for index, length in enumerate(some["lengths"] if some else ()):
            chances, returns = (
                [_cell(each, key, index, digits) for each in both]
                for key, digits in (("probability", 3), ("return", 1))
            )
            share = _cell(both[0], "share", index, 3)
            rows.append([literal(title) if index == 0 else "", str(length), *chances, *returns, share])
    return Table("Each length, with DReST and with the default reward", header, rows)


def _cell(found: dict[str, list[Any]] | None, key: str, index: int, digits: int) -> str:
    value = None if found is None else found[key][index]
    return "–" if value is None else f"{value:.{digits}f}"


def _delays(cfg: Config, found: dict[str, dict[str, list[Any]]]) -> dict[str, float]:
    """Return by task the probability of the longest length with the default reward."""
    names = ((title, default_of(title)) for title in goals.chosen_goals(cfg))
    return {title: found[default]["probability"][-1] for title, default in names if default in found}
