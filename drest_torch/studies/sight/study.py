"""What a policy needs to see: agents that differ in it, where levels look alike and in levels never seen before."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import median_range
from drest_torch.studies.goals import parse
from drest_torch.studies.results import Results
from drest_torch.studies.sight.runs import OBSERVATIONS, SEES
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "What a policy needs to see"
QUESTION = "Why does an agent without a private bit have to see more than the state, and what is enough?"
ALONE = "state"
PAIRS, UNSEEN, SAMPLED = "pairs", "unseen", "sampled"
TITLES = {
    PAIRS: "Pairs of levels that share a state",
    UNSEEN: "Levels never seen before",
    SAMPLED: "Levels never seen before, from samples",
}
QUOTED = {UNSEEN: "in levels never seen", SAMPLED: "in levels never seen, from samples"}
METRICS = ("usefulness", "neutrality")
BOUND = "bound"


@dataclass
class Sampled:
    """The values of `sampled` there."""

    arguments: str = MISSING
    rows: dict[str, str] = MISSING
    overrides: list[str] = MISSING


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/sight.yaml`."""

    parts: list[str] = MISSING
    seeds: int = limited(at_least=1)
    pairs: int = limited(at_least=1)
    sees: list[str] = MISSING
    lam: float = limited(above=0, at_most=1)
    episodes: int = limited(at_least=2)
    width: int = limited(at_least=1)
    updates: int = limited(at_least=1)
    lr: float = limited(above=0)
    entropy: float = limited(at_least=0)
    arguments: str = MISSING
    unseen: dict[str, str] = MISSING
    overrides: list[str] = MISSING
    sampled: Sampled = field(default_factory=Sampled)


def jobs(cfg: Config) -> list[Job]:
    """Return the runs, those on pairs first."""
    return [job for several in planned(cfg).values() for job in several]


def planned(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return all runs, by the part of the study and what is seen."""
    parts = {PAIRS: on_pairs, UNSEEN: on_unseen, SAMPLED: from_samples}
    for key, chosen, known in (("parts", cfg.parts, parts), ("sees", cfg.sees, SEES)):
        for name in chosen:
            if name not in known:
                raise ConfigError(f"study.{key} with '{name}'; expected some of {', '.join(known)}")
    return {key: runs for part in cfg.parts for key, runs in parts[part](cfg).items()}


def on_pairs(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return the runs on pairs of levels, by what is seen."""
    values = {name: cfg[name] for name in ("pairs", "lam", "episodes", "width", "updates", "lr", "entropy")}  # type: ignore[index]
    runner = "drest_torch.studies.sight.runs:train"
    return {
        (PAIRS, sees): [
            Job(f"{PAIRS}, {sees}-{seed}", runner, {"sees": sees, "seed": seed, **values}) for seed in range(cfg.seeds)
        ]
        for sees in cfg.sees
    }


def on_unseen(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return the runs on generated levels, by what is seen; a policy that remembers is not among them."""
    return _trained(cfg, UNSEEN, cfg.arguments, cfg.unseen, cfg.overrides)


def from_samples(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return the runs on generated levels that learn from samples, by what is seen."""
    return _trained(cfg, SAMPLED, cfg.sampled.arguments, cfg.sampled.rows, cfg.sampled.overrides)


def _trained(
    cfg: Config, where: str, arguments: str, rows: dict[str, str], overrides: list[str]
) -> dict[tuple[str, str], list[Job]]:
    runs = {}
    for sees in (sees for sees in cfg.sees if sees in rows):
        options, values = parse([*arguments.split(), *rows[sees].split(), *overrides])
        runs[where, sees] = training_jobs(f"{where}, {sees}", range(cfg.seeds), values, **options)
    return runs


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return usefulness and neutrality of each row, beside the bound of who sees the state alone."""
    results, scores, bound = Results("sight"), {}, np.array([])
    steps: list[float] = []
    mini_episodes = 0
    for (where, sees), several in planned(cfg).items():
        done = [result.arrays for _, result in finished.of(several)]
        if not done:
            continue
        prefix = "" if where == PAIRS else "test/"
        found = {name: np.array([arrays[prefix + name].mean() for arrays in done]) for name in METRICS}
        scores[where, sees] = found
        for name, values in found.items():
            results.add(values, name, variant=sees, split=where)
        if where == PAIRS:
            bound = done[0][BOUND]
        if where == SAMPLED:
            steps += [result.numbers["env_steps"] for _, result in finished.of(several)]
            mini_episodes = several[0].spec["config"]["sampled"]
    most = float(bound.mean()) if len(bound) else None
    both = {key: (found["usefulness"] + found["neutrality"]) / 2 for key, found in scores.items()}
    names = {
        "parts": {where for where, _ in scores},
        "most": most,
        "pairs": len(bound),
        "alone": both.get((PAIRS, ALONE)),
        "above": [] if most is None else [sees for (w, sees), v in both.items() if w == PAIRS and v.min() > most],
        "gains": {where: _gains(both, where) for where in (UNSEEN, SAMPLED)},
        "steps": float(np.median(steps)) if steps else None,
        "mini_episodes": mini_episodes,
    }
    findings = {f"{where}: {sees}": values.tolist() for (where, sees), values in both.items()}
    tables = {where: _table(where, scores) for where in TITLES}
    title = "in pairs of levels that share a state: (U + N) / 2"
    quotes = [] if most is None else [Quote(f"{title}, the most for the state alone", "", f"{most:.3f}")]
    quotes += [Quote(f"{sees}, {title}", "", median_range(v)) for (where, sees), v in both.items() if where == PAIRS]
    quotes += [
        Quote(f"{sees}, {QUOTED[where]}: U, N", "", ", ".join(median_range(found[name]) for name in METRICS))
        for (where, sees), found in scores.items()
        if where in QUOTED
    ]
    exact = not any(where == SAMPLED for where, _ in scores)
    return Analysis(results.table(), findings | {BOUND: most}, tables, quotes, names, both, exact=exact)


def _gains(both: dict[tuple[str, str], np.ndarray], where: str) -> dict[str, float]:
    """Return what each row gains over the state alone on these levels, in means over seeds."""
    alone = both.get((where, ALONE))
    if alone is None:
        return {}
    return {
        sees: float(values.mean() - alone.mean())
        for (place, sees), values in both.items()
        if place == where and sees != ALONE
    }


def _table(where: str, scores: dict[tuple[str, str], dict[str, np.ndarray]]) -> Table:
    rows = [
        [
            literal(sees),
            OBSERVATIONS.get(sees, f"{OBSERVATIONS[ALONE]}; a recurrent network"),
            str(len(found["usefulness"])),
            *(median_range(found[name]) for name in METRICS),
            median_range((found["usefulness"] + found["neutrality"]) / 2),
        ]
        for (place, sees), found in scores.items()
        if place == where
    ]
    return Table(TITLES[where], ["sees", "policy.observation", "seeds", "U", "N", "(U + N) / 2"], rows)
