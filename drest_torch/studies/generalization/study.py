"""One agent for many gridworlds: is it useful and neutral in ones that it has never seen, and what makes it so?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch.config.schema import Config as RunConfig
from drest_torch.effort import is_exact
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import run_config, training_jobs
from drest_torch.limits import limited
from drest_torch.studies import unseen
from drest_torch.studies.generalization import analysis, tables
from drest_torch.studies.generalization.variant import BOTH, METRICS, Runs, Variant
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig
from drest_torch.studies.unseen import TEST, TRAIN

TITLE = "Gridworlds never seen before"
QUESTION = (
    "One agent is trained on many generated gridworlds with DReST. Is it useful and neutral in gridworlds that it has "
    "never seen, what does that cost beside the default reward, and what makes it so?"
)

GROUPS = ("algo", "reward", "policy", "levels")
"""Groups of yaml files, from which a variant may choose."""
VARIANT_KEYS = (*GROUPS, "values", "seeds")
FOLLOW_UP = (
    "nothing; [the follow-up](https://arxiv.org/abs/2604.17502), trained on 34 designs (976 levels), on test levels "
    "of its own, after 100 million sampled steps: PPO 0.742 / 0.747, A2C 0.742 / 0.769"
)


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/generalization.yaml`."""

    algo: str = MISSING
    reward: str = MISSING
    policy: str = MISSING
    levels: str = MISSING
    run: dict[str, Any] = MISSING
    seeds: int = limited(at_least=1)
    variants: dict[str, dict[str, Any]] = MISSING
    headline: str = MISSING
    default: str = MISSING
    axes: dict[str, list[str]] = MISSING
    shifted: dict[str, dict[str, Any]] = MISSING
    shifted_levels: int = limited(at_least=1)
    shifted_seed: int = MISSING
    path: str | None = MISSING
    mark: float = MISSING
    shares: list[float] = MISSING
    shown: int = limited(at_least=1)


# -------------------------------------------------------------------------------------------- runs


def jobs(cfg: Config) -> list[Job]:
    """Return the runs of all variants; variants with the same values share them."""
    distinct: dict[str, Job] = {}
    for several in jobs_by_variant(cfg).values():
        for job in several:
            distinct.setdefault(job.digest(), job)
    return list(distinct.values())


def jobs_by_variant(cfg: Config) -> dict[str, list[Job]]:
    """Return the runs of the variants that stand in a table, by title."""
    titles = dict.fromkeys([cfg.headline, cfg.default, *(title for axis in cfg.axes.values() for title in axis)])
    _check(cfg, titles)
    shifted = unseen.shift(config_of(cfg, {}), cfg.shifted)
    further = {
        "sets": unseen.describe(cfg.path, shifted, cfg.shifted_levels, cfg.shifted_seed),
        "shown": cfg.shown,
    }
    return {title: _jobs_of(cfg, title, further) for title in titles}


def _check(cfg: Config, titles: Iterable[str]) -> None:
    for title in titles:
        if title not in cfg.variants:
            names = ", ".join(cfg.variants)
            raise ConfigError(f"study: a table with the variant '{title}'; expected one of {names}")
        for key in cfg.variants[title]:
            if key not in VARIANT_KEYS:
                keys = ", ".join(VARIANT_KEYS)
                raise ConfigError(f"study.variants: '{title}' has the key '{key}'; expected some of {keys}")
        if cfg.variants[title].get("seeds", 1) < 1:
            raise ConfigError(
                f"study.variants: '{title}' has seeds={cfg.variants[title]['seeds']}; expected at least 1"
            )


def _jobs_of(cfg: Config, title: str, further: dict[str, Any]) -> list[Job]:
    variant = cfg.variants[title]
    seeds = range(variant.get("seeds", cfg.seeds))
    plain = training_jobs(title, seeds, _values(cfg, variant), **_options(cfg, variant))
    values: Any = OmegaConf.create(plain[0].spec["config"])
    if values.levels.generator is None or values.levels.path is not None:
        raise ConfigError(f"study.variants: '{title}' has levels that are not generated, so it has no test levels")
    return [replace(job, runner=unseen.RUNNER, spec=job.spec | further) for job in plain]


def config_of(cfg: Config, variant: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of a variant's runs."""
    return run_config(_values(cfg, variant), **_options(cfg, variant))


def _values(cfg: Config, variant: Mapping[str, Any]) -> Any:
    parts = [OmegaConf.to_container(OmegaConf.create(part)) for part in (cfg.run, variant.get("values", {}))]
    return OmegaConf.merge(*parts)


def _options(cfg: Config, variant: Mapping[str, Any]) -> dict[str, str]:
    return {group: variant.get(group, getattr(cfg, group)) for group in GROUPS}


# ----------------------------------------------------------------------------------------- analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every variant does on every set, and how variants compare on the test levels."""
    planned = jobs_by_variant(cfg)
    runs = {title: Runs(several, finished.of(several)) for title, several in planned.items()}
    results = measure(runs)
    variants = {title: Variant.of(title, of_title, results, cfg.mark) for title, of_title in runs.items()}
    headline = variants[cfg.headline]
    named = [variants[title] for title in dict.fromkeys((cfg.headline, cfg.default)) if variants[title].seeds]
    findings = analysis.findings(cfg, variants, named)
    names = {
        "few": [variant for variant in variants.values() if variant.seeds < variant.wanted],
        "labels": {name: analysis.label(cfg, name) for name in (*analysis.set_names(cfg), TRAIN)},
        "map_size": next((variant.map_size for variant in named), ()),
        "gap_levels": headline.about(TRAIN)["levels"] if headline.seeds else None,
        "evaluations": len(headline.curves[0].steps) if headline.seeds else None,
        "above": analysis.above_both(headline, cfg.mark) if headline.seeds else None,
        "worst": [f"worst_{rank}" for rank in range(len(headline.worst))],
        "settings": planned[cfg.headline][0].spec["config"],
        "headline_training": headline.training if headline.seeds else None,
        "unit": headline.unit if headline.seeds else "steps",
        "minutes": headline.seconds / 60 if headline.seeds else None,
        "shown_axes": [title for title, titles in cfg.axes.items() if any(variants[each].seeds for each in titles)],
        "EVEN": analysis.EVEN,
    }
    quotes = [_quote(headline)]
    return Analysis(results, findings, tables.tables(cfg, variants, named), quotes, names, (variants, named))


def measure(runs: Mapping[str, Runs]) -> pd.DataFrame:
    """Return what every policy does in every level, and its curves on the selection levels."""
    results = Results("generalization")
    for title, of_title in runs.items():
        if not of_title.done:
            continue
        first = of_title.done[0][1]
        for name, about in first.numbers["sets"].items():
            if about["seen"]:
                _measure_set(results, title, of_title, name)
        for job, result in of_title.done:
            seeds = [job.spec["config"]["seed"]]
            for metric in BOTH:
                curve = result.arrays[f"eval/selection/{METRICS[metric]}"][:, None]
                steps = result.arrays["steps"] / (counted_steps(job) if is_exact(result.numbers) else 1)
                results.add(
                    curve, METRICS[metric], variant=title, level="all", split="selection", seeds=seeds, steps=steps
                )
        seconds = np.array([result.numbers["wall_seconds"] for _, result in of_title.done])
        results.add(seconds, "seconds", variant=title, split="all", level="all", seeds=of_title.seeds)
    return results.table()


def counted_steps(job: Job) -> int:
    """Return the counted steps of an update of exact gradients, whose curves are over updates."""
    steps: int = job.spec["config"]["algo"]["counted_steps"]
    return steps


def _measure_set(results: Results, title: str, runs: Runs, name: str) -> None:
    """Add one set of levels [S, n]; P(longer) is that of levels with two lengths."""

    def array(what: str) -> np.ndarray:
        return np.stack([result.arrays[f"{name}/{what}"] for _, result in runs.done])

    two = array("k")[0] == 2
    levels = [str(index) for index in range(len(two))]
    where: dict[str, Any] = {"variant": title, "split": name, "seeds": runs.seeds}
    for metric in BOTH:
        results.add(array(METRICS[metric]), METRICS[metric], level=levels, **where)
    results.add(array("coins") / array("most"), METRICS["coins"], level=levels, **where)
    if two.any():
        longer = array("p_length")[:, two, 1]
        results.add(longer, METRICS["longer"], level=[levels[i] for i in np.flatnonzero(two)], **where)


def _quote(headline: Variant) -> Quote:
    if not headline.seeds:
        return Quote("test levels, DReST, usefulness / neutrality", FOLLOW_UP, "no run has finished")
    useful, neutral = (headline.interval(TEST, metric) for metric in BOTH)
    what = f"{headline.about(TEST)['levels']:,} test levels, DReST, usefulness / neutrality"
    seeds = f"{headline.seeds} {'seed' if headline.seeds == 1 else 'seeds'}"
    return Quote(what, FOLLOW_UP, f"{useful} / {neutral}, {seeds}")
