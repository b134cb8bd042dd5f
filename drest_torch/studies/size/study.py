"""Larger worlds: what agents reach there, what those of small worlds do in larger ones, and what size costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch.building.checkpoints import PRETRAINED, step_checkpoints
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import IN_A_STUDY, run_config, training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import MISSING as EMPTY
from drest_torch.report.tables import median_range, select
from drest_torch.studies import goals, unseen
from drest_torch.studies.goals_report import goals_table
from drest_torch.studies.results import Results
from drest_torch.studies.size import runs
from drest_torch.studies.study import Analysis, Finished

TITLE = "Larger worlds"
QUESTION = (
    "How useful and neutral can agents be on large maps, trained there or on small ones, and what does size cost?"
)
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality_normalised"}
RANDOM = "random actions"
LEVEL_COSTS = {
    "generate": "generate a level",
    "solve": "find its lengths and m(l)",
    "evaluate": "evaluate a uniform policy exactly",
}
"""What is timed with every level, and its words; the other times are those of an environment step, by network."""


@dataclass
class Config(goals.GoalsConfig):
    """The values of `configs/study/size.yaml`."""

    transfer: dict[str, str] = MISSING
    pretrained: list[str] = MISSING
    sides: list[int] = MISSING
    levels: int = limited(at_least=1)
    levels_seed: int = MISSING
    exact_to: int = MISSING
    sampled: int = limited(at_least=1)
    cost_levels: int = limited(at_least=2)
    cost_updates: int = limited(at_least=1)
    cost_networks: list[str] = MISSING


# -------------------------------------------------------------------------------------------- runs


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of all goals, the agents that are evaluated by size, and the timings, one for each size."""
    planned = (*_goal_jobs(cfg).values(), *_transfer_jobs(cfg).values(), _cost_jobs(cfg).values())
    return [job for several in planned for job in several]


def _goal_jobs(cfg: Config) -> dict[str, list[Job]]:
    return goals.jobs_of_goals(cfg, goals.chosen_goals(cfg, cfg.transfer))


def _transfer(cfg: Config) -> dict[str, str]:
    """Return the agents of small maps that the configuration chooses."""
    return goals.chosen(cfg, cfg.transfer)


def at_side(side: int) -> dict[str, Any]:
    """Return what levels of this side have in place of the values of `levels=large`: times grow with the side."""
    return {"height": side, "width": side, "shutdown": [side // 2, 3 * side // 2], "delay": [2, side + 2]}


def _records(cfg: Config) -> dict[str, Any]:
    return unseen.shift(run_config(levels="large"), {str(side): at_side(side) for side in cfg.sides})


def _transfer_jobs(cfg: Config) -> dict[str, list[Job]]:
    """Return the runs of the agents that are evaluated by size, the shipped ones first."""
    sizes = {
        "records": _records(cfg),
        "levels": cfg.levels,
        "seed": cfg.levels_seed,
        "exact_to": cfg.exact_to,
        "sampled": cfg.sampled,
    }
    planned = {}
    for name in cfg.pretrained:
        digest = unseen.hash_file(step_checkpoints(PRETRAINED / name / "checkpoints")[-1])
        planned[name] = [Job(name, runs.SHIPPED, {"agent": name, "sha256": digest, "sizes": sizes})]
    for title, arguments in _transfer(cfg).items():
        options, own = goals.parse([*arguments.split(), *cfg.overrides])
        plain = training_jobs(title, range(cfg.seeds), own, **options)
        planned[title] = [replace(job, runner=runs.TRANSFER, spec=job.spec | {"sizes": sizes}) for job in plain]
    return planned


def _cost_jobs(cfg: Config) -> dict[int, Job]:
    """Return the timings of each size."""
    planned = {}
    for side, (name, record) in zip(cfg.sides, _records(cfg).items(), strict=True):
        own = {
            "levels": {"generator": at_side(side), "train": cfg.cost_levels, "selection": 1, "test": 1},
            "algo": {"episodes": 16 * cfg.cost_levels},
            "reward": {"group": 16},
            "evaluations": 1,
        }
        configs = {}
        for network in cfg.cost_networks:
            values = OmegaConf.merge(IN_A_STUDY, own)
            run = run_config(values, algo="ppo", levels="large", policy=network, logger="none")
            configs[network] = cast("dict[str, Any]", OmegaConf.to_container(cast(Any, run), resolve=True))
            configs[network]["run_dir"] = ""
        spec = {
            "record": record,
            "levels": cfg.cost_levels,
            "seed": cfg.levels_seed,
            "updates": cfg.cost_updates,
            "configs": configs,
        }
        planned[side] = Job(f"cost-{name}", runs.COST, spec)
    return planned


# --------------------------------------------------------------------------------------- analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every seed reaches of what is wanted, the agents by size, and the costs."""
    wanted = goals.chosen_goals(cfg, cfg.transfer)
    of_goals = goals.measure("size", _goal_jobs(cfg), wanted, finished)
    scores = goals.scores(of_goals, wanted)
    by_size = measure_sizes(cfg, finished)
    costs = {side: result.numbers for side, job in _cost_jobs(cfg).items() if (result := finished.get(job)) is not None}
    tables = {
        "goals": goals_table(scores, "Goals in large levels"),
        **{measure: size_table(cfg, by_size, measure) for measure in MEASURES},
        "cost": cost_table(cfg, costs),
    }
    findings = {
        "goals": [asdict(score) for score in scores],
        "sizes": size_means(by_size),
        "cost": {str(side): numbers for side, numbers in costs.items()},
    }
    names = {**goals.summarise(scores), "commands_of": _commands(wanted, _transfer(cfg))}
    quotes = [goals.quote(scores, "agents on maps of 7 to 9 and of 10 to 16 cells a side")]
    results = pd.concat([table for table in (of_goals, by_size) if len(table)] or [by_size], ignore_index=True)
    return Analysis(results, findings, tables, quotes, names, scores, exact=False)


def measure_sizes(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return what each agent does in each level of each size; the split is the side of the map."""
    results, random = Results("size"), None
    for title, planned in _transfer_jobs(cfg).items():
        done = finished.of(planned)
        for job, result in done:
            _add(results, result, title, "", job.spec.get("config", {}).get("seed", 0), cfg)
            random = random or result
    if random is not None:
        _add(results, random, RANDOM, "random/", 0, cfg)
    return results.table()


def _add(results: Results, result: Result, title: str, prefix: str, seed: int, cfg: Config) -> None:
    for side in cfg.sides:
        for metric in MEASURES.values():
            array = result.arrays[f"{side}/{prefix}{metric}"][np.newaxis]
            levels = [str(index) for index in range(array.shape[1])]
            results.add(array, metric, variant=title, split=str(side), level=levels, seeds=[seed])


def size_means(by_size: pd.DataFrame) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return by agent, measure and side the mean over levels of each seed."""
    means: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (title, side), rows in by_size.groupby(["variant", "split"], sort=False):
        for measure, metric in MEASURES.items():
            seeds = select(rows, metric=metric).groupby("seed", sort=False)["value"].mean()
            means.setdefault(str(title), {}).setdefault(measure, {})[str(side)] = seeds.tolist()
    return means


def size_table(cfg: Config, by_size: pd.DataFrame, measure: str) -> Table:
    """Return a measure of each agent by the side of the map."""
    rows = [
        [
            literal(title),
            *(median_range(means[measure][str(side)]) if str(side) in means[measure] else EMPTY for side in cfg.sides),
        ]
        for title, means in size_means(by_size).items()
    ]
    words = "Neutrality ÷ log2 k" if measure == "neutrality" else "Usefulness"
    return Table(f"{words} by the side of the map", ["agent", *(f"{side}" for side in cfg.sides)], rows)


def cost_table(cfg: Config, costs: Mapping[int, Mapping[str, Any]]) -> Table:
    """Return the times of each size: milliseconds per level, microseconds per environment step."""
    header = ["side", "states of a level", *(f"{words}, ms" for words in LEVEL_COSTS.values())]
    header += [f"step of PPO, {network}, µs" for network in cfg.cost_networks]
    rows = []
    for side, numbers in costs.items():
        seconds = numbers["seconds"]
        cells = [f"{1e3 * seconds[name]:.2f}" for name in LEVEL_COSTS]
        cells += [f"{1e6 * seconds[network]:.0f}" for network in cfg.cost_networks]
        rows.append([str(side), f"{numbers['states']:,.0f}", *cells])
    return Table("Seconds by the side of the map", header, rows)


def _commands(wanted: Mapping[str, Any], transfer: Mapping[str, str]) -> list[str]:
    """Return the commands that train the agents, each below its title."""
    arguments = {title: goal["arguments"] for title, goal in wanted.items()} | dict(transfer)
    pairs = [(f"# {title}", f"python -m drest_torch.train {words}") for title, words in arguments.items()]
    return [line for pair in pairs for line in pair]
