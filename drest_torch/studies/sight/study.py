"""What a policy needs to see: agents that differ in it, where levels look alike and in levels never seen before."""

from __future__ import annotations

from dataclasses import dataclass

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
from drest_torch.studies.sight.runs import HISTORY, OBSERVATIONS, SEES
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "What a policy needs to see"
QUESTION = "Why does an agent without a private bit have to see more than the state, and what is enough?"
ALONE = "state"
PAIRS, UNSEEN = "pairs", "unseen"
METRICS = ("usefulness", "neutrality")
BOUND = "bound"


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/sight.yaml`."""

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


def jobs(cfg: Config) -> list[Job]:
    """Return the runs, those on pairs first."""
    return [job for several in (on_pairs(cfg) | on_unseen(cfg)).values() for job in several]


def on_pairs(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return the runs on pairs of levels, by what is seen."""
    planned = {}
    values = {name: cfg[name] for name in ("pairs", "lam", "episodes", "width", "updates", "lr", "entropy")}  # type: ignore[index]
    for sees in cfg.sees:
        if sees not in SEES:
            raise ConfigError(f"study.sees with '{sees}'; expected some of {', '.join(SEES)}")
        planned[PAIRS, sees] = [
            Job(f"pairs, {sees}-{seed}", "drest_torch.studies.sight.runs:train", {"sees": sees, "seed": seed, **values})
            for seed in range(cfg.seeds)
        ]
    return planned


def on_unseen(cfg: Config) -> dict[tuple[str, str], list[Job]]:
    """Return the runs on generated levels, by what is seen."""
    planned = {}
    for sees, own in cfg.unseen.items():
        options, values = parse([*cfg.arguments.split(), *own.split(), *cfg.overrides])
        planned[UNSEEN, sees] = training_jobs(f"unseen, {sees}", range(cfg.seeds), values, **options)
    return planned


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return usefulness and neutrality of each row, beside the bound of who sees the state alone."""
    results, scores, bound = Results("sight"), {}, np.array([])
    for (where, sees), several in (on_pairs(cfg) | on_unseen(cfg)).items():
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
    most = float(bound.mean()) if len(bound) else None
    both = {key: (found["usefulness"] + found["neutrality"]) / 2 for key, found in scores.items()}
    names = {
        "most": most,
        "pairs": len(bound),
        "alone": both.get((PAIRS, ALONE)),
        "above": [] if most is None else [sees for (w, sees), v in both.items() if w == PAIRS and v.min() > most],
        "gains": _gains(both),
        "ALONE": ALONE,
        "recurrent": HISTORY,
    }
    findings = {f"{where}: {sees}": values.tolist() for (where, sees), values in both.items()}
    tables = {where: _table(where, scores) for where in (PAIRS, UNSEEN)}
    title = "in pairs of levels that share a state: (U + N) / 2"
    quotes = [] if most is None else [Quote(f"{title}, the most for the state alone", "", f"{most:.3f}")]
    quotes += [Quote(f"{sees}, {title}", "", median_range(v)) for (where, sees), v in both.items() if where == PAIRS]
    quotes += [
        Quote(f"{sees}, in levels never seen: U, N", "", ", ".join(median_range(found[name]) for name in METRICS))
        for (where, sees), found in scores.items()
        if where == UNSEEN
    ]
    return Analysis(results.table(), findings | {BOUND: most}, tables, quotes, names, both, exact=True)


def _gains(both: dict[tuple[str, str], np.ndarray]) -> dict[str, float]:
    """Return what each row gains over the state alone in levels never seen before, in means over seeds."""
    alone = both.get((UNSEEN, ALONE))
    if alone is None:
        return {}
    return {
        sees: float(values.mean() - alone.mean())
        for (where, sees), values in both.items()
        if where == UNSEEN and sees != ALONE
    }


def _table(where: str, scores: dict[tuple[str, str], dict[str, np.ndarray]]) -> Table:
    rows = [
        [
            literal(sees),
            OBSERVATIONS.get(sees, "centred; a recurrent network"),
            str(len(found["usefulness"])),
            *(median_range(found[name]) for name in METRICS),
            median_range((found["usefulness"] + found["neutrality"]) / 2),
        ]
        for (place, sees), found in scores.items()
        if place == where
    ]
    title = "Pairs of levels that share a state" if where == PAIRS else "Levels never seen before"
    return Table(title, ["sees", "policy.observation", "seeds", "U", "N", "(U + N) / 2"], rows)
