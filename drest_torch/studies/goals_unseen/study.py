"""What agents reach in gridworlds that they have never seen, and what those of the follow-up's protocol reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import MISSING

from drest_torch.jobs.job import Job
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import MISSING as EMPTY
from drest_torch.studies import goals, unseen
from drest_torch.studies.goals import Score
from drest_torch.studies.goals_report import goals_table, set_name
from drest_torch.studies.study import Analysis, Finished
from drest_torch.studies.unseen import FILE, TRAIN

TITLE = "Goals in gridworlds never seen before"
QUESTION = "How useful and neutral can one agent be in gridworlds that it has never seen, and by how many of the seeds?"


@dataclass
class Config(goals.GoalsConfig):
    """The values of `configs/study/goals_unseen.yaml`."""

    path: str | None = MISSING
    train_path: str | None = MISSING
    follow_up: dict[str, dict[str, Any]] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of all goals, then those on the follow-up's training levels, where their file is given."""
    return [job for planned in (_jobs(cfg), _follow_up_jobs(cfg)) for several in planned.values() for job in several]


def _jobs(cfg: Config) -> dict[str, list[Job]]:
    return goals.jobs_of_goals(cfg, _chosen(cfg), cfg.path)


def _chosen(cfg: Config) -> dict[str, Any]:
    """Return the goals that the configuration chooses; rows of the follow-up's protocol are chosen by title as well."""
    return goals.chosen_goals(cfg, cfg.follow_up)


def _follow_up_jobs(cfg: Config) -> dict[str, list[Job]]:
    """Return runs on the levels of a file, which are known by its content as well."""
    if cfg.train_path is None:
        return {}
    path = Path(cfg.train_path).resolve()
    digest = unseen.hash_file(path)
    follow_up = goals.chosen(cfg, cfg.follow_up)
    planned = goals.jobs_of_goals(cfg, follow_up, cfg.path, {"levels": {"path": str(path)}})
    return {
        title: [replace(job, spec=job.spec | {"train_sha256": digest}) for job in several]
        for title, several in planned.items()
    }


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every seed reaches of what is wanted, and the follow-up's protocol beside what it reports."""
    wanted = _chosen(cfg)
    planned = _jobs(cfg) | _follow_up_jobs(cfg)
    results = goals.measure("goals_unseen", planned, {**cfg.follow_up, **wanted}, finished)
    scores, follow_up = goals.scores(results, wanted), goals.scores(results, cfg.follow_up)
    tables = {
        "follow_up": follow_up_table(cfg, follow_up),
        "goals": goals_table(scores, "Goals in unseen levels", cfg.path),
    }
    findings = {
        "path": None if cfg.path is None else Path(cfg.path).name,
        "goals": [asdict(score) for score in scores],
        "follow_up": [asdict(score) for score in follow_up],
        "published": {title: published(goal) for title, goal in cfg.follow_up.items()},
    }
    names = {
        **goals.summarise(scores),
        "file": None if cfg.path is None else set_name(FILE, cfg.path),
        "sets": {name: set_name(name, cfg.path) for name in {score.split for score in scores}},
        "better": better(cfg.follow_up, follow_up),
        "protocol": bool(follow_up),
        "train_designs": next((score.designs for score in follow_up if score.split == TRAIN), None),
        "lines": _commands(wanted),
        "follow_up_lines": _commands(cfg.follow_up),
    }
    quotes = [goals.quote(scores, "one agent for many gridworlds, in unseen levels")]
    return Analysis(results, findings, tables, quotes, names, scores)


def published(goal: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return what the follow-up reports by set of levels: usefulness and neutrality."""
    return {name: [float(value) for value in pair] for name, pair in goal["published"].items()}


def better(goals_: Mapping[str, Any], made: Sequence[Score]) -> list[str]:
    """Return the agents that are above the follow-up's in usefulness and neutrality, in levels not trained on."""
    above = []
    for score in made:
        useful, neutral = published(goals_[score.title])["test"]
        medians = [pd.Series(numbers).median() for numbers in (score.usefulness, score.neutrality)]
        if score.split == FILE and medians[0] > useful and medians[1] > neutral:
            above.append(score.title)
    return above


def _commands(wanted: Mapping[str, Any]) -> list[str]:
    """Return the commands that train an agent for each goal, each below its title."""
    pairs = [(f"# {title}", f"python -m drest_torch.train {goal['arguments']}") for title, goal in wanted.items()]
    return [line for pair in pairs for line in pair]


def follow_up_table(cfg: Config, made: Sequence[Score]) -> Table:
    """Return the agents trained on the follow-up's levels alone, beside what it reports."""
    measured = {(score.title, score.split): score for score in made}
    file = "unseen levels" if cfg.path is None else literal(set_name(FILE, cfg.path))
    header = ["", "training", "seconds", "training levels", file]
    rows = []
    for title, goal in cfg.follow_up.items():
        if (title, TRAIN) not in measured:
            continue
        ours = [_pair(measured.get((title, name))) for name in (TRAIN, FILE)]
        theirs = ["{:.3f}, {:.3f}".format(*published(goal)[name]) for name in ("train", "test")]
        rows.append(
            [literal(title), measured[title, TRAIN].training, f"{measured[title, TRAIN].seconds:.0f}", *ours, *theirs]
        )
    return Table("Trained on the follow-up's levels alone", [*header, "published: training", "published: test"], rows)


def _pair(score: Score | None) -> str:
    if score is None:
        return EMPTY
    return ", ".join(f"{pd.Series(numbers).median():.3f}" for numbers in (score.usefulness, score.neutrality))
