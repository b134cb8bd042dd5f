"""Networks in place of the table (section 8.1 of the paper): REINFORCE, A2C and PPO in each of its worlds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import TabularTraining, last, p_longest
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import PALETTE, THREE_ABREAST, Line, dots, lines_plot
from drest_torch.report.tables import count, median_range
from drest_torch.report.template import MISSING, plural
from drest_torch.statistics.intervals import runs_interval
from drest_torch.statistics.times import hitting_times
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, as_table, value
from drest_torch.studies.shared import EXAMPLE, REWARDS, WORLDS, gamma_of, tables_job, title, whole_range

TITLE = "Networks in place of the table (section 8.1)"
QUESTION = (
    "The paper trains tables of logits, and expects its reward to work with neural networks, PPO and A2C as well. "
    "Does it?"
)
CLOCK = "steps"
"""Of training and of evaluation."""
TABLE = "table"
TITLES = {"reinforce": "REINFORCE", "a2c": "A2C", "ppo": "PPO"}
MEASURES = ("usefulness", "neutrality")
HEADS = ("usefulness", "neutrality (bits)")


@dataclass
class Config(StudyConfig):
    worlds: list[str] = value([*PAPER_WORLDS])
    """Each is trained in alone; the first is shown in detail."""
    seeds: int = limited(at_least=1, default=3)
    """Networks of each algorithm in each world with DReST."""
    default_seeds: int = limited(at_least=1, default=1)
    """Networks of each with the default reward."""
    run: dict[str, Any] = value({"levels": {"clock": CLOCK}, "policy": {"width": 128}, "evaluations": 24})
    """What the runs of networks have in place of the values in configs/."""
    algorithms: dict[str, dict[str, Any]] = value(
        {"reinforce": {"env_steps": 6000000}, "a2c": {"env_steps": 6000000}, "ppo": {"env_steps": 3000000}}
    )
    """The algorithms, each with what else its runs have."""
    variants: dict[str, dict[str, Any]] = value(
        {
            "half the steps": {"env_steps": 3000000},
            "half the steps, twice the entropy bonus": {"env_steps": 3000000, "algo": {"entropy": 0.6}},
            "advantages scaled to unit variance": {"algo": {"normalise_advantage": True}},
        }
    )
    """What else is tried with DReST in the first world."""
    variants_of: list[str] = value(["reinforce", "a2c"])
    """The algorithms that it is tried with."""
    agents: int = limited(at_least=1, default=100)
    """Tabular agents of each kind in each world; their runs are those of the study `example`."""
    training: TabularTraining = value(replace(EXAMPLE, random_episodes=524288))
    """Training of the tables in the running example."""
    in_worlds: dict[str, Any] = value(WORLDS)
    """What differs from that in the other worlds."""
    mark: float = 0.95
    """Usefulness and neutrality that are good enough."""


QUICK = {
    "worlds": ["example", "spacious"],
    "seeds": 2,
    "run": {"policy": {"width": 16}, "evaluations": 4},
    "algorithms": {algo: {"env_steps": 40000} for algo in TITLES},
    "variants": {key: {"env_steps": 20000} for key in ("half the steps", "half the steps, twice the entropy bonus")},
    "variants_of": ["a2c"],
    "agents": 3,
    "training": {"meta_episodes": 32, "decay_episodes": 1024, "random_episodes": 2048},
    "in_worlds": {"meta_episodes": 32, "decay_episodes": 1024},
}


class Key(NamedTuple):
    level: str
    algorithm: str
    """Or the table, whose agents are trained in one run."""
    reward: str
    change: str = ""
    """What is different from other runs, in words."""
    seed: int = 0


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the tabular agents and the networks of every world, then the networks with something different."""
    runs: dict[Key, Job] = {}
    for name, reward, algo in product(cfg.worlds, ("drest", "default"), (TABLE, *cfg.algorithms)):
        key, own = Key(name, algo, reward), {} if name == "example" else dict(cfg.in_worlds)
        if algo == TABLE:
            runs[key] = tables_job(cfg, "-".join(key[:3]), world=name, clock=CLOCK, reward=reward, **own)
        else:
            runs |= networks(cfg, key)
    for (number, (words, changes)), algo in product(enumerate(cfg.variants.items()), cfg.variants_of):
        runs |= networks(cfg, Key(cfg.worlds[0], algo, "drest", words), f"-variant-{number}", changes)
    return runs


def networks(cfg: Config, kind: Key, label: str = "", changes: Any = None) -> dict[Key, Job]:
    """Return the runs of networks that differ in their seeds."""
    parts = [OmegaConf.to_container(part) for part in (cfg.run, cfg.algorithms[kind.algorithm])]
    values = OmegaConf.merge(*parts, changes or {}, {"reward": {"gamma": gamma_of(cfg, kind.level)}})
    seeds = range(cfg.seeds if kind.reward == "drest" else cfg.default_seeds)
    options = {"levels": kind.level, "algo": kind.algorithm, "reward": kind.reward}
    runs = training_jobs("-".join(options.values()) + label, seeds, values, **options)
    return {kind._replace(seed=seed): job for seed, job in zip(seeds, runs, strict=True)}


# --------------------------------------------------------------------------------------- measurement


@lru_cache
def length_at_random(name: str) -> float:
    """Return the mean length of a mini-episode in a world if all actions are equally likely."""
    mdp = compile_levels([world(name).with_clock(CLOCK)])
    return float(solve(mdp).lengths[0].double() @ Reachable(mdp).evaluate(uniform_policy, 1.0).probability[0])


class Course(NamedTuple):
    """The agents of a run, A of them, after the same environment steps, and by length at the end."""

    steps: np.ndarray
    """[T]"""
    usefulness: np.ndarray
    """[T, A], as the two that follow."""
    neutrality: np.ndarray
    p_longer: np.ndarray
    p_length: np.ndarray
    """[A, K]"""
    share_of_best: np.ndarray
    """[A, K] of m, given the length."""


def course(cfg: Config, key: Key, result: Result) -> Course:
    of = result.arrays
    if key.algorithm == TABLE:
        steps = table_steps(result, length_at_random(key.level), cfg.training.random_episodes)
        useful, neutral = (of[f"{CLOCK}/{name}"].astype(float) for name in MEASURES)
        p_length, share = (last(result, CLOCK, name) for name in ("p_length", "share_of_best"))
        return Course(steps, useful, neutral, p_longest(result, CLOCK), p_length, share)
    names = (*MEASURES, f"p_length/{of['train/lengths'][-1]}")
    useful, neutral, longer = (of[f"eval/train/{name}"][:, None] for name in names)
    return Course(of["steps"], useful, neutral, longer, of["train/p_length"][None], of["train/share_of_best"][None])


def table_steps(result: Result, length: float, random_episodes: int) -> np.ndarray:
    """Return [T] environment steps of an agent: known at the end of random play and at the end, even between them."""
    episodes = result.arrays["episodes"]
    total = result.numbers["steps"] / result.arrays[f"{CLOCK}/usefulness"].shape[1]
    later = np.maximum(episodes - random_episodes, 0) / (episodes[-1] - random_episodes)
    return np.minimum(episodes, random_episodes) * length + later * (total - random_episodes * length)


def measure(cfg: Config, done: Done) -> pd.DataFrame:
    """Return a row for each agent: its end, and after which environment steps it reached what."""
    parts = []
    for key, result in done.items():
        it = course(cfg, key, result)
        ends = {name: getattr(it, name)[-1] for name in MEASURES}
        columns = key._asdict() | ends
        columns["seed"] = key.seed + np.arange(len(it.p_length))
        columns["both"] = 1.0 * (np.minimum(*ends.values()) >= cfg.mark)
        columns["p_longer"] = it.p_length[:, -1]
        columns["share_shorter"], columns["share_longer"] = it.share_of_best[:, 0], it.share_of_best[:, -1]
        both = np.minimum(it.usefulness, it.neutrality)
        columns["steps_until_both"] = hitting_times(it.steps, both, cfg.mark, window=1)
        parts.append(pd.DataFrame(columns | {"seconds": result.numbers.get("wall_seconds", np.nan)}))
    return pd.concat(parts, ignore_index=True)


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    every = measure(cfg, done)
    agents = every[every.change == ""]
    here = every[(every.level == cfg.worlds[0]) & (every.reward == "drest") & every.algorithm.isin(cfg.variants_of)]
    return Report(
        every.melt([*Key._fields], var_name="metric").dropna(subset=["value"]),
        lambda: list(quotes(cfg, agents)),
        {"totals": partial(totals_table, cfg, agents), "changed": partial(changed, cfg, here)},
        {f"all {measure}": partial(all_agents, cfg, agents, measure) for measure in MEASURES}
        | {metric: partial(over_training, cfg, done, metric) for metric in (*MEASURES, "p_longer")},
        partial(sentences, cfg, done, agents, here),
    )


def called(algo: str) -> str:
    return TITLES.get(algo, algo)


def steps(values: pd.Series) -> str:
    """Return the median of environment steps: ``1.25 M``, or ``never``."""
    return f"{np.median(values) / 1e6:.2f} M".replace("inf M", "never")


def totals(agents: pd.DataFrame) -> pd.DataFrame:
    """Return texts on each reward and algorithm: means with intervals over seeds, counts, medians of times."""
    groups = agents.groupby(["reward", "algorithm"], sort=False)
    found = groups.agg(good=("both", count), steps=("steps_until_both", steps), seconds=("seconds", "median"))
    for measure in MEASURES:
        runs = [group.pivot(index="seed", columns="level", values=measure) for _, group in groups]
        intervals = [(len(each), runs_interval(each).within(0, 1)) for each in runs]
        found[measure] = [str(it) if seeds > 1 else f"{it.estimate:.3f}" for seeds, it in intervals]
    return found


def quotes(cfg: Config, agents: pd.DataFrame) -> Iterator[Quote]:
    worlds, found = f"{len(cfg.worlds)} worlds", totals(agents)
    for algo in cfg.algorithms:
        ends = found.loc["drest", algo]
        reported = "no large difficulties anticipated" if algo in ("ppo", "a2c") else ""
        measured = f"U {ends.usefulness}, N {ends.neutrality}; both ≥ {cfg.mark} in {ends.good}"
        what = f"{worlds}, DReST, a network trained with {called(algo)}, {plural(cfg.seeds, 'seed')}"
        yield Quote(what, reported, measured)
    neutrality = found.neutrality["default"].items()
    yield Quote(f"{worlds}, default, neutrality", "", ", ".join(f"{called(algo)} {text}" for algo, text in neutrality))


def totals_table(cfg: Config, agents: pd.DataFrame) -> Table:
    cells = totals(agents)
    cells.loc[cells.index.isin(["default"], level=0), ["good", "steps"]] = MISSING  # they are not meant to be neutral
    cells["seconds"] = cells.seconds.map("{:.0f} s".format).replace("nan s", MISSING)
    cells.index = [f"{REWARDS[reward]}, {called(algo)}" for reward, algo in cells.index]
    header = ["", f"both ≥ {cfg.mark}", *HEADS, "environment steps until both", "time"]
    return as_table(cells[["good", *MEASURES, "steps", "seconds"]], "All worlds together", header)


def changed(cfg: Config, here: pd.DataFrame) -> Table:
    groups = here.groupby(["algorithm", "change"], sort=False)
    cells = groups[["both"]].agg(count).join(groups[[*MEASURES, "share_shorter", "share_longer"]].agg(median_range))
    cells = cells.sort_index(level="algorithm", sort_remaining=False, kind="stable")
    cells.index = [f"{called(algo)}, {change or 'as above'}" for algo, change in cells.index]
    header = ["", f"both ≥ {cfg.mark}", *HEADS, "of m, shorter", "of m, longer"]
    return as_table(cells, f"{title(cfg.worlds[0])}, DReST, with one thing different", header)


def sentences(cfg: Config, done: Done, agents: pd.DataFrame, here: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says."""
    drest = agents[(agents.algorithm != TABLE) & (agents.reward == "drest")]
    both = here.groupby(["algorithm", "change"], sort=False).both.mean().unstack(sort=False)
    worse = both.lt(both[""], axis=0).stack()
    name = cfg.worlds[0]
    return {
        "both": drest.both,
        "by_algorithm": drest.groupby("algorithm", sort=False).both.agg(count).rename(index=called),
        "worse": [f"{called(algo)}, {change}" for algo, change in worse.index[worse]],
        "config": done.planned[Key(name, next(iter(cfg.algorithms)), "drest")].spec["config"],
        "shown": title(name),
    }


def all_agents(cfg: Config, agents: pd.DataFrame, measure: str) -> Plot:
    """Plot the median and the range of a measure, a row for each world."""
    shown = agents[(agents.reward == "drest") | (agents.algorithm != TABLE)]
    label = shown.algorithm.map(called).where(shown.reward == "drest", "default reward")
    ends = shown.groupby([label, "level"], sort=False)[measure].agg(whole_range)
    series = {name: group.droplevel(0).rename(title).to_dict() for name, group in ends.groupby(level=0, sort=False)}
    return dots(series, title=measure, lines={cfg.mark: "--"}, limits=(-0.03, 1.03))


def over_training(cfg: Config, done: Done, metric: str) -> Plot:
    """Plot a metric of DReST agents in the first world; each network is evaluated after steps of its own."""
    runs: dict[str, list[Course]] = {}
    for key, result in done.items():
        if (key.level, key.reward, key.change) == (cfg.worlds[0], "drest", ""):
            runs.setdefault(called(key.algorithm), []).append(course(cfg, key, result))
    x = np.linspace(0, max(it.steps[-1] for several in runs.values() for it in several), 200)
    lines, words = [], metric.replace("p_longer", "P(longer)")
    for (name, several), colour in zip(runs.items(), PALETTE, strict=False):
        curves = [np.interp(x, it.steps, curve, right=np.nan) for it in several for curve in getattr(it, metric).T]
        lines.append(Line(name, x / 1e6, np.stack(curves, 1), colour))
    return lines_plot(lines, title=words, xlabel="millions of environment steps", size=THREE_ABREAST)
