"""Goals of training: what is wanted of which agent on which levels, and how many of the seeds reach it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch.effort import NUMBERS, effort, is_exact, million, rows
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact import PAPER_GAMMAS
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.report.tables import select, values
from drest_torch.studies import unseen
from drest_torch.studies.results import Results
from drest_torch.studies.study import Finished, Quote, StudyConfig
from drest_torch.studies.unseen import FILE, PAPER, TEST, TRAIN

GROUPS = ("algo", "objective", "reward", "policy", "levels", "env", "logger")
"""Groups of yaml files, from which arguments may choose."""
GOAL_KEYS = ("arguments", "wanted", "published")
METRICS = {
    "usefulness": "usefulness",
    "neutrality": "neutrality_normalised",
    "neutrality_own": "neutrality_own_normalised",
}
"""The measures of goals, and their names in the tidy table."""
AT = {f"{gamma:g}": f"usefulness_at_{gamma:g}" for gamma in PAPER_GAMMAS}
"""The usefulness at other discounts γ, by γ, and its names in the tidy table."""
DESIGN = "design"
"""The number of the design that a level is a symmetry of, in the tidy table."""
MARKS: dict[str, tuple[str, str, Callable[[np.ndarray, float], np.ndarray]]] = {
    "usefulness": ("usefulness", "U ≥ {:g}", np.greater_equal),
    "neutrality": ("neutrality", "N ≥ {:g}", np.greater_equal),
    "neutrality_at_most": ("neutrality", "N ≤ {:g}", np.less_equal),
}
"""What may be wanted: the measure, the words of tables, and the comparison with the mark."""
MINI_EPISODES = "new mini-episodes"
"""What agents are evaluated on in an environment that is no gridworld."""
SETS = {TEST: "its own test levels", TRAIN: "its training levels", PAPER: "the paper's nine"}


@dataclass
class GoalsConfig(StudyConfig):
    """The values of every study that pursues goals."""

    seeds: int = limited(at_least=1)
    chosen: list[str] | None = MISSING
    overrides: list[str] = MISSING
    goals: dict[str, dict[str, Any]] = MISSING


# -------------------------------------------------------------------------------------------- runs


def jobs_of_goals(
    cfg: GoalsConfig, goals: Mapping[str, Any], path: str | None = None, values: Any = None
) -> dict[str, list[Job]]:
    """Return the training runs of each goal, which end with an evaluation on all sets of levels.

    ``path`` is a file of levels to evaluate on, and ``values`` are over those of the goals' arguments.
    """
    sets = unseen.describe(path)
    planned = {}
    for title, goal in goals.items():
        _check(title, goal)
        options, own = parse([*goal["arguments"].split(), *cfg.overrides])
        plain = training_jobs(title, range(cfg.seeds), OmegaConf.merge(own, values or {}), **options)
        planned[title] = (
            plain
            if "env" in options
            else [replace(job, runner=unseen.RUNNER, spec=job.spec | {"sets": sets, "shown": 0}) for job in plain]
        )
    return planned


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], Any]:
    """Return what arguments of `python -m drest_torch.train` choose from groups of yaml files, and their values."""
    chosen, values = {}, []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise ConfigError(f"study: the argument '{argument}' of a run; expected key=value")
        if key in GROUPS:
            chosen[key] = value
        else:
            values.append(argument)
    return chosen, OmegaConf.from_dotlist(values)


def chosen_goals(cfg: GoalsConfig, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the goals that the configuration chooses; it can choose ``others`` by title as well (`chosen`)."""
    return chosen(cfg, cfg.goals, others)


def chosen(cfg: GoalsConfig, agents: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return those of the agents that the configuration chooses by title, among them and others."""
    known = [*cfg.goals, *agents, *(others or {})]
    for title in cfg.chosen or ():
        if title not in known:
            raise ConfigError(f"study.chosen with '{title}'; expected some of {', '.join(dict.fromkeys(known))}")
    return {title: agents[title] for title in agents if cfg.chosen is None or title in cfg.chosen}


def _check(title: str, goal: Mapping[str, Any]) -> None:
    for key in goal:
        if key not in GOAL_KEYS:
            raise ConfigError(f"study.goals: '{title}' has the key '{key}'; expected some of {', '.join(GOAL_KEYS)}")
    for name, marks in goal["wanted"].items():
        if name not in (*SETS, FILE):
            known = ", ".join((*SETS, FILE))
            raise ConfigError(f"study.goals: '{title}' wants something on '{name}'; expected some of {known}")
        for key in marks:
            if key not in MARKS:
                raise ConfigError(f"study.goals: '{title}' wants '{key}'; expected some of {', '.join(MARKS)}")


# ----------------------------------------------------------------------------------------- results


def measure(
    study: str, planned: Mapping[str, Sequence[Job]], goals: Mapping[str, Any], finished: Finished
) -> pd.DataFrame:
    """Return what each policy does in each level of the sets that its goal names, and what training took."""
    results = Results(study)
    for title, jobs in planned.items():
        done = finished.of(jobs)
        if not done:
            continue
        seeds = [job.spec["config"]["seed"] for job, _ in done]
        for name in goals[title]["wanted"]:
            for metric in (*METRICS.values(), *AT.values(), DESIGN):
                if (key := f"{name}/{metric}") in done[0][1].arrays:
                    array = np.stack([result.arrays[key] for _, result in done])
                    levels = [str(index) for index in range(array.shape[1])]
                    results.add(array, metric, variant=title, split=name, level=levels, seeds=seeds)
        took = NUMBERS if is_exact(done[0][1].numbers) else ("env_steps",)
        for metric, number in (("seconds", "wall_seconds"), *zip(took, took, strict=True)):
            array = np.array([result.numbers[number] for _, result in done])
            results.add(array, metric, variant=title, split="all", level="all", seeds=seeds)
    return results.table()


@dataclass(frozen=True)
class Score:
    """What the agents of a goal reach on one set of levels, and what is wanted of them there."""

    title: str
    arguments: str
    split: str
    levels: int
    wanted: dict[str, float]
    usefulness: list[float]
    """Means over levels, one for each seed; neutrality is ÷ log2 k."""
    neutrality: list[float]
    neutrality_own: list[float]
    """The neutrality given the private bits; empty if it was not measured."""
    seconds: float
    """Of the slowest run."""
    reached: int | None
    """By how many seeds; None where nothing is wanted."""
    training: str = ""
    """What training took: environment steps, or, of exact gradients, updates × levels and the network's rows."""
    designs: int | None = None
    """How many of the levels are different up to rotation and reflection, if known."""
    usefulness_at: dict[str, list[float]] = field(default_factory=dict)
    """The usefulness at the discounts γ of the paper, by γ, one for each seed."""

    @property
    def complete(self) -> bool:
        """Return whether every seed reaches the goal."""
        return self.reached == len(self.usefulness)

    @property
    def in_gridworlds(self) -> bool:
        """Return whether the agents act in gridworlds."""
        return "env=" not in self.arguments

    @property
    def words(self) -> str:
        """Return what is wanted, for a table."""
        return ", ".join(MARKS[key][1].format(mark) for key, mark in self.wanted.items()) or "–"


def scores(results: pd.DataFrame, goals: Mapping[str, Any]) -> list[Score]:
    """Return a score for each goal and each of its sets that was measured."""
    made = []
    for title, goal in goals.items():
        for name, wanted in goal["wanted"].items():
            own = select(results, variant=title, split=name)
            means = {measure: _seed_means(own, metric) for measure, metric in METRICS.items()}
            if not len(means["usefulness"]):
                continue
            marks = {key: float(mark) for key, mark in wanted.items()}
            met = [compare(means[measure], marks[key]) for key, (measure, _, compare) in MARKS.items() if key in marks]
            made.append(
                Score(
                    title,
                    goal["arguments"],
                    name,
                    own["level"].nunique(),
                    marks,
                    means["usefulness"].tolist(),
                    means["neutrality"].tolist(),
                    means["neutrality_own"].tolist(),
                    values(results, variant=title, metric="seconds").max(),
                    int(np.logical_and.reduce(met).sum()) if met else None,
                    took(results, title),
                    select(own, metric=DESIGN)["value"].nunique() or None,
                    {gamma: found.tolist() for gamma, metric in AT.items() if len(found := _seed_means(own, metric))},
                )
            )
    return made


def _seed_means(results: pd.DataFrame, metric: str) -> np.ndarray:
    return select(results, metric=metric).groupby("seed", sort=False)["value"].mean().to_numpy()


def took(results: pd.DataFrame, title: str) -> str:
    """Return what the longest of a goal's runs took: steps are played, updates of exact gradients are not."""
    longest = {
        name: int(found.max())
        for name in ("env_steps", *NUMBERS)
        if len(found := values(results, variant=title, metric=name))
    }
    if is_exact(longest):
        return f"{effort(longest)}; {rows(longest)}"
    return f"{million(longest['env_steps'])} steps"


def summarise(made: Sequence[Score]) -> dict[str, Any]:
    """Return how many goals every seed reaches, how many some miss, and by which: for the report's sentences."""
    wanted = [score for score in made if score.wanted]
    missed = [score for score in wanted if not score.complete]
    return {"wanted": len(wanted), "complete": len(wanted) - len(missed), "missed": missed}


def quote(made: Sequence[Score], what: str) -> Quote:
    """Return the row of the overview."""
    counts = summarise(made)
    agents = sum(len(score.usefulness) for score in made if score.wanted)
    reached = sum(score.reached or 0 for score in made)
    text = "{complete} of {wanted} goals by every seed".format(**counts)
    return Quote(what, "", f"{text}; {reached} of {agents} agents" if agents else "no run has finished")
