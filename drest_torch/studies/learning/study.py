"""Whether training works: every algorithm in the paper's worlds, and the default command in levels it has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from drest_torch.jobs.job import Job
from drest_torch.studies import goals
from drest_torch.studies.goals_report import goals_table
from drest_torch.studies.study import Analysis, Finished

TITLE = "What training reaches"
QUESTION = (
    "Does every algorithm learn what it should in the paper's worlds, and the default command in levels that it has "
    "never seen?"
)


@dataclass
class Config(goals.GoalsConfig):
    """The values of `configs/study/learning.yaml`."""


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of all goals."""
    return [job for several in _jobs(cfg).values() for job in several]


def _jobs(cfg: Config) -> dict[str, list[Job]]:
    return goals.jobs_of_goals(cfg, goals.chosen_goals(cfg))


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every seed reaches of what is wanted."""
    wanted = goals.chosen_goals(cfg)
    results = goals.measure("learning", _jobs(cfg), wanted, finished)
    scores = goals.scores(results, wanted)
    tables = {"goals": goals_table(scores, "Goals of training", arguments=True)}
    findings = {"goals": [asdict(score) for score in scores]}
    quotes = [goals.quote(scores, "training in the paper's worlds, and the default command in unseen levels")]
    return Analysis(results, findings, tables, quotes, goals.summarise(scores), scores)
