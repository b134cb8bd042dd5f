"""What training reaches: in the paper's worlds, on levels never seen, on larger maps, and in environments of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import PRETRAINED, step_checkpoints
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import IN_A_STUDY, over, run_config
from drest_torch.limits import limited
from drest_torch.play.level_sets import generator_config
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import mean_range
from drest_torch.studies import sizes, unseen
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, value
from drest_torch.studies.scores import AT, DESIGN, MARKS, METRICS, SETS, Score, goals_plot, goals_table, score, took
from drest_torch.studies.shared import check_known, command_jobs
from drest_torch.studies.unseen import FILE, TEST, TRAIN

TITLE = "What training reaches"
QUESTION = (
    "How useful and neutral do agents become: with every algorithm in the paper's worlds, on levels that they have "
    "never seen, on larger maps, and in environments that are not ours? And by how many of the seeds?"
)
PARTS = {
    "learning": "training in the paper's worlds, and the default command in unseen levels",
    "unseen": "one agent for many gridworlds, in unseen levels",
    "follow_up": "the follow-up's protocol: its training levels alone",
    "choices": "what the choices of one agent for many gridworlds contribute",
    "size": "agents on maps of 7 to 9 and of 10 to 16 cells a side",
    "beyond": "environments of others, from samples",
    "sizes": "agents of small maps on larger ones",
    "cost": "what the size of a map costs",
}
"""The parts of the study, and what their goals are about."""
GOAL_KEYS = ("part", "like", "arguments", "strengths", "wanted", "published", "seeds")


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Agents for each goal that does not say otherwise; their seeds are 0, 1, 2, …"""
    parts: list[str] = value(list(PARTS))
    """What is done: any of these."""
    chosen: list[str] | None = None
    """Titles of the goals that agents are trained for; null: all of these parts."""
    overrides: list[str] = value([])
    """Arguments of all runs besides their own, over these: ["env_steps=1000000"], for instance."""
    in_gridworlds: list[str] = value([])
    """Further arguments of the runs in gridworlds alone."""
    path: str | None = None
    """A level file (.jsonl or .txt) on which agents for unseen levels are evaluated as well, such as val.jsonl."""
    train_path: str | None = None
    """The follow-up's training levels (train.jsonl), for its protocol; null: not done."""
    goals: dict[str, dict[str, Any]] = value({})
    """By title: see `goals.yaml`."""
    pretrained: list[str] = value(["generalist", "generalist-buttons"])
    """Agents that come with the project, evaluated in the same way."""
    sides: list[int] = value([5, 6, 7, 8, 9, 12, 16])
    """Rows and columns of the maps that these are evaluated on, and whose cost is measured."""
    levels: int = limited(at_least=1, default=200)
    """Generated levels of each size."""
    levels_seed: int = 11
    """Their seed."""
    exact_to: int = 9
    """Maps of at most this side are evaluated exactly, larger ones by sampling."""
    sampled: int = limited(at_least=1, default=256)
    """Mini-episodes on each level that is evaluated by sampling."""
    cost_levels: int = limited(at_least=2, default=64)
    """Levels by which the cost of a size is measured."""
    cost_updates: int = limited(at_least=1, default=3)
    """Updates by which the cost of a step is measured."""
    cost_networks: list[str] = value(["mlp", "convolutional"])
    """Networks whose step is measured."""


QUICK = {
    "seeds": 1,
    "chosen": [
        *("REINFORCE on example", "default command", "MLP on followup_like", "CartPole", "paper_like"),
    ],
    "overrides": ["env_steps=3000", "policy.width=8", "policy.depth=2", "evaluations=1"],
    "in_gridworlds": ["levels.train=100", "levels.selection=5", "levels.test=10"],
    "sides": [5, 9, 12],
    "levels": 10,
    "sampled": 64,
    "cost_levels": 4,
    "cost_updates": 1,
}


class Key(NamedTuple):
    title: str
    """Of a goal or an agent; of the cost, the side of the map."""
    seed: int


# ---------------------------------------------------------------------------------------------- runs


def goals_of(cfg: Config) -> dict[str, dict[str, Any]]:
    """Return the goals that are pursued, those of the default reward beside those in environments of others."""
    goals = all_goals(cfg)
    check_known("study.chosen with", cfg.chosen or (), goals)
    check_known("study.parts with", cfg.parts, PARTS)
    made = {}
    for title, goal in goals.items():
        if goal["part"] not in cfg.parts or (cfg.chosen is not None and title not in cfg.chosen):
            continue
        if goal["part"] == "follow_up" and cfg.train_path is None:
            continue
        made[title] = goal
        if goal["part"] == "beyond":
            wanted: dict[str, Any] = {name: {} for name in goal["wanted"]}
            arguments = f"{goal['arguments']} reward=default"
            made[f"{title}, default reward"] = goal | {"arguments": arguments, "wanted": wanted}
    return made


def all_goals(cfg: Config) -> dict[str, dict[str, Any]]:
    """Return the goals by title, each with all that it is like, and one for each strength of an argument."""
    given = cast("dict[str, dict[str, Any]]", OmegaConf.to_container(OmegaConf.create(cfg.goals)))
    made: dict[str, dict[str, Any]] = {}
    for title, own in given.items():
        check_known(f"study.goals: '{title}' has the key", own, GOAL_KEYS)
        if "like" in own:
            check_known(f"study.goals: '{title}' is like", [own["like"]], given)
            other = given[own["like"]]
            several = [each.get("arguments", "").split() for each in (other, own)]
            own |= {**other, "strengths": {}, **own, "arguments": " ".join(over(*several))}
        check_known(f"study.goals: '{title}' wants something on", own["wanted"], SETS)
        for marks in own["wanted"].values():
            check_known(f"study.goals: '{title}' wants", marks, MARKS)
        made[title] = own
        for argument, values in own.get("strengths", {}).items():
            for strength in values:
                goal = own | {"arguments": f"{own['arguments']} {argument}={strength}"}
                is_own = strength == values[0]
                made[title if is_own else f"{title}, {strength:g}"] = goal if is_own else goal | {"seeds": 1}
    return made


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the agents that come with the project, the runs of all goals, and the timings, one for each size."""
    runs = _shipped_jobs(cfg) if "sizes" in cfg.parts else {}
    for title, goal in goals_of(cfg).items():
        for seed, job in enumerate(_goal_jobs(cfg, title, goal)):
            runs[Key(title, seed)] = job
    return runs | (_cost_jobs(cfg) if "cost" in cfg.parts else {})


def _goal_jobs(cfg: Config, title: str, goal: Mapping[str, Any]) -> list[Job]:
    """Return the runs of a goal, which end with an evaluation on all sets of levels."""
    in_gridworlds = "env=" not in goal["arguments"]
    overrides = [*cfg.overrides, *(cfg.in_gridworlds if in_gridworlds else ())]
    further: dict[str, Any] = {"sets": unseen.describe(cfg.path if goal["part"] in ("unseen", "follow_up") else None)}
    values: dict[str, Any] = {}
    if goal["part"] == "follow_up":
        path = Path(str(cfg.train_path)).resolve()
        values = {"levels": {"path": str(path)}}
        further["train_sha256"] = unseen.hash_file(path)
    seeds = min(goal.get("seeds") or cfg.seeds, cfg.seeds)
    plain = command_jobs(title, seeds, goal["arguments"], overrides, values)
    if not in_gridworlds:
        return plain
    if goal["part"] == "sizes":
        return [replace(job, runner=sizes.TRANSFER, spec=job.spec | {"sizes": _sizes(cfg)}) for job in plain]
    return [replace(job, runner=unseen.RUNNER, spec=job.spec | further | {"shown": 0}) for job in plain]


def at_side(side: int) -> dict[str, Any]:
    """Return what levels of this side have in place of the values of `levels=large`: times grow with the side."""
    return {"height": side, "width": side, "shutdown": [side // 2, 3 * side // 2], "delay": [2, side + 2]}


def _records(cfg: Config) -> dict[str, Any]:
    levels: Any = run_config(levels="large").levels
    generators: dict[str, Any] = {str(side): OmegaConf.merge(levels.generator, at_side(side)) for side in cfg.sides}
    return {side: generator_config(values, levels.clock).to_record() for side, values in generators.items()}


def _sizes(cfg: Config) -> dict[str, Any]:
    levels = {"levels": cfg.levels, "seed": cfg.levels_seed, "exact_to": cfg.exact_to, "sampled": cfg.sampled}
    return {"records": _records(cfg), **levels}


def _shipped_jobs(cfg: Config) -> dict[Key, Job]:
    """Return the agents that come with the project, evaluated by size."""
    runs = {}
    for name in cfg.pretrained:
        digest = unseen.hash_file(step_checkpoints(PRETRAINED / name / "checkpoints")[-1])
        runs[Key(name, 0)] = Job(name, sizes.SHIPPED, {"agent": name, "sha256": digest, "sizes": _sizes(cfg)})
    return runs


def _cost_jobs(cfg: Config) -> dict[Key, Job]:
    """Return the timings of each size."""
    runs = {}
    for name, record in _records(cfg).items():
        own = {
            "levels": {"generator": at_side(int(name)), "train": cfg.cost_levels, "selection": 1, "test": 1},
            "algo": {"episodes": 16 * cfg.cost_levels},
            "reward": {"group": 16},
            "evaluations": 1,
        }
        configs = {}
        for network in cfg.cost_networks:
            run: Any = run_config(own, IN_A_STUDY, algo="ppo", levels="large", policy=network)
            configs[network] = cast("dict[str, Any]", OmegaConf.to_container(run, resolve=True)) | {"run_dir": ""}
        spec = {"record": record, "levels": cfg.cost_levels, "seed": cfg.levels_seed}
        spec |= {"updates": cfg.cost_updates, "configs": configs}
        runs[Key(name, 0)] = Job(f"cost-{name}", sizes.COST, spec)
    return runs


# --------------------------------------------------------------------------------------- measurement


def measure(cfg: Config, done: Done) -> Iterator[dict[str, Any]]:
    """Yield what each policy does in each level of the sets that its goal names, and what training took."""
    goals, beside = goals_of(cfg), None
    for key, result in done.items():
        of = {"title": key.title, "seed": key.seed}
        if key.title in goals and goals[key.title]["wanted"]:
            for split in goals[key.title]["wanted"]:
                for metric in (*METRICS.values(), *AT.values(), DESIGN):
                    if (array := result.arrays.get(f"{split}/{metric}")) is not None:
                        yield of | {"split": split, "metric": metric, "value": array}
            for metric, number in took(result.numbers).items():
                yield of | {"split": "all", "metric": metric, "value": np.array([number])}
        elif "seconds" not in result.numbers:
            agents = {"": key.title} if beside else {"": key.title, "random/": sizes.RANDOM}
            beside = sizes.RANDOM
            for prefix, title in agents.items():
                for side in cfg.sides:
                    for metric in sizes.MEASURES.values():
                        array = result.arrays[f"{side}/{prefix}{metric}"]
                        yield of | {"title": title, "split": str(side), "metric": metric, "value": array}


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    rows = pd.DataFrame(measure(cfg, done), columns=["title", "seed", "split", "metric", "value"])
    goals, by_title = goals_of(cfg), dict(iter(rows.groupby("title", sort=False)))
    scores = [
        score(title, goal, split, of[of.split == split], of[of.split == "all"])
        for title, goal in goals.items()
        if (of := by_title.get(title)) is not None
        for split in goal["wanted"]
        if (of.split == split).any()
    ]
    cost = {key.title: result.numbers for key, result in done.items() if "seconds" in result.numbers}
    means = sizes.size_means(rows[rows.split.isin([*map(str, cfg.sides)])])
    parts = {part: [each for each in scores if each.part == part] for part in PARTS}
    parts = {part: several for part, several in parts.items() if several}
    plots: dict[str, Plot] = {part: goals_plot(several) for part, several in parts.items()}
    tables: dict[str, Table | Callable[[], Table]] = {
        part: goals_table(several, f"Goals: {PARTS[part]}") for part, several in parts.items()
    }
    published = {title: goal["published"] for title, goal in all_goals(cfg).items() if "published" in goal}
    if "follow_up" in parts:
        tables["follow_up"] = follow_up_table(published, parts["follow_up"])
    if means:
        plots["sizes"] = sizes.sizes_plot(means)
        tables |= {measure: sizes.size_table(means, measure, cfg.sides) for measure in sizes.MEASURES}
    if cost:
        plots["cost"], tables["cost"] = sizes.cost_plot(cost), sizes.cost_table(cost)
    kept = {
        "path": None if cfg.path is None else Path(cfg.path).name,
        "goals": [asdict(each) for each in scores],
        "published": published,
        "sizes": means,
        "cost": cost,
    }
    return Report(
        rows,
        lambda: [*quotes(parts)],
        tables,
        plots,
        lambda: sentences(goals, parts, published),
        kept,
        exact=False,
    )


def quotes(parts: Mapping[str, list[Score]]) -> Iterator[Quote]:
    for part, made in parts.items():
        wanted = [each for each in made if each.wanted]
        complete = sum(each.complete for each in wanted)
        agents, reached = sum(len(each.usefulness) for each in wanted), sum(each.reached or 0 for each in wanted)
        if wanted:
            counts = f"{complete} of {len(wanted)} goals by every seed; {reached} of {agents} agents"
            yield Quote(PARTS[part], "", counts)


def sentences(
    goals: Mapping[str, Any], parts: Mapping[str, list[Score]], published: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the page says."""
    wanted = [each for several in parts.values() for each in several if each.wanted]
    titles = {part: dict.fromkeys(each.title for each in several) for part, several in parts.items()}
    return {
        "parts": list(parts),
        "wanted": len(wanted),
        "missed": [each for each in wanted if not each.complete],
        "lines": {
            part: [line for title in each for line in (f"# {title}", f"drest train {goals[title]['arguments']}")]
            for part, each in titles.items()
        },
        "better": better(published, parts.get("follow_up", [])),
    }


def better(published: Mapping[str, Any], made: list[Score]) -> list[str]:
    """Return the agents above the follow-up's in usefulness and neutrality, in levels that were not trained on."""
    ours = {each.title: (fmean(each.usefulness), fmean(each.neutrality)) for each in made if each.split == FILE}
    return [title for title, pair in ours.items() if all(np.greater(pair, published[title][TEST]))]


def follow_up_table(published: Mapping[str, Any], made: list[Score]) -> Table:
    """Return the agents trained on the follow-up's levels alone, beside what it reports."""
    measured = {(each.title, each.split): each for each in made}
    rows = []
    for title in dict.fromkeys(each.title for each in made):
        ours = [_pair(measured.get((title, name))) for name in (TRAIN, FILE)]
        theirs = ["{:.3f}, {:.3f}".format(*published[title][name]) for name in (TRAIN, TEST)]
        training = measured[title, TRAIN]
        rows.append([literal(title), training.training, f"{training.seconds:.0f}", *ours, *theirs])
    header = [
        "",
        "training",
        "slowest, s",
        "ours, on training levels",
        "ours, on validation levels",
        "published, on training levels",
        "published, on test levels",
    ]
    return Table("Trained on the follow-up's levels alone: usefulness, neutrality ÷ log2 k", header, rows)


def _pair(found: Score | None) -> str:
    return "–" if found is None else f"{mean_range(found.usefulness)}, {mean_range(found.neutrality)}"
