"""Networks in place of the table (section 8.1 of the paper): REINFORCE, A2C and PPO in each of its worlds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.report.tables import select, values
from drest_torch.reward import group_discount
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.neural import analysis, tables
from drest_torch.studies.neural.analysis import CLOCK, LEARNED, NOTICED, TABLE, UNIFORM, Agents, Kind, chance
from drest_torch.studies.neural.tables import kinds, short_title, title
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "Networks in place of the table (section 8.1)"
QUESTION = (
    "The paper trains tables of logits, and expects its reward to work with neural networks, PPO and A2C as well. "
    "Does it?"
)


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/neural.yaml`."""

    worlds: list[str] = MISSING
    gamma: float = MISSING
    gammas: dict[str, float] = MISSING
    seeds: int = limited(at_least=1)
    default_seeds: int = MISSING
    run: dict[str, Any] = MISSING
    algorithms: dict[str, dict[str, Any]] = MISSING
    variants: dict[str, dict[str, Any]] = MISSING
    variants_of: list[str] = MISSING
    agents: int = limited(at_least=1)
    table: Training = field(default_factory=Training)
    tables: dict[str, dict[str, Any]] = MISSING
    mark: float = MISSING
    shown: str = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return the runs in every world with every algorithm and both rewards, then those with something different."""
    if cfg.shown not in cfg.worlds:
        raise ConfigError(f"study.shown={cfg.shown}; expected one of study.worlds, which are {', '.join(cfg.worlds)}")
    for algo in cfg.variants_of:
        if algo not in cfg.algorithms:
            raise ConfigError(f"study.variants_of={algo}; expected some of {', '.join(cfg.algorithms)}")
    return [job for several in jobs_by_kind(cfg).values() for job in several]


def jobs_by_kind(cfg: Config) -> dict[Kind, list[Job]]:
    """Return the runs of each kind: one of all tabular agents, and one of a network for each seed."""
    by_kind: dict[Kind, list[Job]] = {}
    for name in cfg.worlds:
        for reward in REWARDS:
            by_kind[Kind(name, TABLE, reward)] = [table_job(cfg, name, reward)]
            for algo in cfg.algorithms:
                by_kind[Kind(name, algo, reward)] = network_jobs(cfg, name, algo, reward)
    for index, (words, changes) in enumerate(cfg.variants.items()):
        for algo in cfg.variants_of:
            by_kind[Kind(cfg.shown, algo, "drest", words)] = network_jobs(
                cfg, cfg.shown, algo, "drest", f"-variant-{index}", changes
            )
    return by_kind


def table_job(cfg: Config, name: str, reward: str) -> Job:
    """Return the run of a world's tabular agents."""
    return agents_job(
        cfg.table,
        label=f"{name}-{TABLE}-{reward}",
        world=name,
        clock=CLOCK,
        reward=reward,
        agents=cfg.agents,
        evaluated_on=(CLOCK,),
        **dict(cfg.tables.get(name, {})),
    )


def network_jobs(cfg: Config, name: str, algo: str, reward: str, label: str = "", changes: Any = None) -> list[Job]:
    """Return the runs of an algorithm in a world, one for each seed."""
    parts = [OmegaConf.to_container(part) for part in (cfg.run, cfg.algorithms[algo])]
    merged = OmegaConf.merge(*parts, changes or {}, {"reward": {"gamma": gamma_of(cfg, name)}})
    seeds = range(cfg.seeds if reward == "drest" else cfg.default_seeds)
    return training_jobs(f"{name}-{algo}-{reward}{label}", seeds, merged, algo=algo, levels=name, reward=reward)


def gamma_of(cfg: Config, name: str) -> float:
    """Return the γ of a world."""
    return float(cfg.gammas.get(name, cfg.gamma))


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return how useful and neutral the agents of every kind are, when they became so, and what stood in the way."""
    results, agents = measure(cfg, finished)
    findings: dict[str, Any] = {"mark": cfg.mark, "worlds": {}, "all": {}}
    for kind in agents:
        if not kind.change:
            by_kind = findings["worlds"].setdefault(kind.level, {}).setdefault(kind.algorithm, {})
            by_kind[kind.reward] = analysis.summary(select(results, **kind._asdict()))
    totals = tables.totals_by_kind(cfg, results)
    for (algo, reward), total in totals.items():
        findings["all"].setdefault(algo, {})[reward] = asdict(total)
    names = {
        "drest": [
            {"name": short_title(algo), "good": total.good, "agents": total.agents}
            for (algo, reward), total in totals.items()
            if reward == "drest" and algo != TABLE
        ],
        "shown": title(cfg.shown),
        "settled": settled(cfg, results),
        "stuck": stuck(cfg, results),
        "changed": tables.changed(cfg, results),
        "first_found": first_found(cfg),
        "config": network_jobs(cfg, cfg.worlds[0], next(iter(cfg.algorithms)), "drest")[0].spec["config"],
        "env_steps": {
            short_title(algo): network_jobs(cfg, cfg.worlds[0], algo, "drest")[0].spec["config"]["env_steps"]
            for algo in cfg.algorithms
        },
        "policies": [f"policy_{algo}" for algo in kinds(cfg) if Kind(cfg.shown, algo, "drest") in agents],
        "hardest": tables.hardest_first(results)[0],
        "NOTICED": NOTICED,
        "LEARNED": LEARNED,
        "title": title,
    }
    return Analysis(results, findings, tables.all_tables(cfg, results, totals), quotes(cfg, totals), names, agents)


def measure(cfg: Config, finished: Finished) -> tuple[pd.DataFrame, dict[Kind, Agents]]:
    """Return every agent's measures, and the agents of each kind of which any run has a result."""
    results, agents = Results("neural", "algorithm", "reward", "change"), dict[Kind, Agents]()
    for kind, several in jobs_by_kind(cfg).items():
        done = finished.of(several)
        if not done:
            continue
        gamma, seeds = gamma_of(cfg, kind.level), None
        if kind.algorithm == TABLE:
            table: Any = cfg.table
            random = int({**table, **cfg.tables.get(kind.level, {})}["random_episodes"])
            agents[kind] = analysis.tabular(done[0][1], kind.level, gamma, random)
        else:
            agents[kind] = analysis.networks([result for _, result in done])
            seeds = [job.spec["config"]["seed"] for job, _ in done]
        for metric, ends in agents[kind].metrics(cfg.mark, chance(kind.level, gamma).better).items():
            _add(results, kind, metric, ends, seeds)
    for name in cfg.worlds:
        for metric, value in chance(name, gamma_of(cfg, name)).metrics().items():
            _add(results, Kind(name, UNIFORM, ""), metric, np.array([value]))
    return results.table(), agents


def _add(results: Results, kind: Kind, metric: str, ends: np.ndarray, seeds: list[int] | None = None) -> None:
    results.add(ends, metric, variant="-".join(filter(None, kind)), seeds=seeds, **kind._asdict())


def settled(cfg: Config, results: pd.DataFrame) -> list[dict[str, Any]]:
    """Return of each algorithm how many default agents end with the length that pays more."""
    rows = []
    for algo in kinds(cfg):
        better = values(results, algorithm=algo, reward="default", metric="p_better")
        if len(better):
            good = int((better > 0.5).sum())
            rows.append({"name": short_title(algo), "good": good, "agents": len(better), "network": algo != TABLE})
    return rows


def stuck(cfg: Config, results: pd.DataFrame) -> dict[str, list[str]]:
    """Return the algorithms whose default agents stay with the shorter length in the world that is shown.

    ``found`` are those of them whose DReST agents find the longer one.
    """
    shown = select(results, level=cfg.shown, change="")
    names, found = [], []
    for algo in kinds(cfg):
        longer = values(shown, algorithm=algo, reward="default", metric="p_longer")
        until = values(shown, algorithm=algo, reward="drest", metric="steps_until_longer")
        if len(longer) and np.median(longer) < 0.5:
            names.append(short_title(algo))
            if len(until) and np.isfinite(np.median(until)):
                found.append(short_title(algo))
    return {"default": names, "found": found}


def first_found(cfg: Config) -> dict[str, float] | None:
    """Return what DReST pays while all of a group but one have the same length: to these, and to that one."""
    reward = network_jobs(cfg, cfg.shown, next(iter(cfg.algorithms)), "drest")[0].spec["config"]["reward"]
    if reward["counting"] != "averaged":
        return None
    k = len(chance(cfg.shown, gamma_of(cfg, cfg.shown)).lengths)
    discount = group_discount(k, reward["group"], reward["episodes_per_meta"], reward["lam"])
    return {"common": float(discount[-1]), "rare": float(discount[0])}


def quotes(cfg: Config, totals: tables.Totals) -> list[Quote]:
    """Return what the paper expects of networks, and what they do."""
    seeds = f"{cfg.seeds} seed{'' if cfg.seeds == 1 else 's'}"
    rows = []
    for algo in cfg.algorithms:
        if (total := totals.get((algo, "drest"))) is not None:
            reported = "no large difficulties anticipated" if algo in ("ppo", "a2c") else ""
            ends = f"U {total.text('usefulness')}, N {total.text('neutrality')}"
            measured = f"{ends}; both ≥ {cfg.mark} in {total.good} of {total.agents}"
            what = f"{len(cfg.worlds)} worlds, DReST, a network trained with {short_title(algo)}, {seeds}"
            rows.append(Quote(what, reported, measured))
    default = [
        f"{short_title(algo)} {total.text('neutrality')}"
        for (algo, reward), total in totals.items()
        if reward == "default"
    ]
    if default:
        rows.append(Quote(f"{len(cfg.worlds)} worlds, default, neutrality", "", ", ".join(default)))
    return rows
