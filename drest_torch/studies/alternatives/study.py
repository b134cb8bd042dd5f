"""What the paper names as alternatives to DReST, side by side on unseen levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.studies.alternatives import tables
from drest_torch.studies.alternatives.points import STOPPED, TESTED, WANTED, Point, differences, point, side
from drest_torch.studies.results import Results
from drest_torch.studies.shared import parse
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "The alternatives, side by side"
QUESTION = (
    "The paper names constrained optimisation, a price on the divergence from a reference, and a weighted sum of "
    "usefulness and neutrality as alternatives to DReST. Which of them are useful and neutral on unseen levels?"
)
BIT = "{}, a private bit"
RIVAL_KEYS = ("arguments", "strength", "values", "at", "about")


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/alternatives.yaml`."""

    seeds: int = limited(at_least=1)
    seeds_elsewhere: int = limited(at_least=0)
    arguments: str = MISSING
    rivals: dict[str, dict[str, Any]] = MISSING
    stopped: str = MISSING
    with_bit: list[str] = MISSING
    overrides: list[str] = MISSING


# -------------------------------------------------------------------------------------------- runs


def jobs(cfg: Config) -> list[Job]:
    """Return all rivals at their own strength seed by seed, and then at the others."""
    check(cfg)
    own = [trained(cfg, title) for title in titles(cfg)]
    seeds = [job for seed in range(cfg.seeds) for each in own for job in each[seed : seed + 1]]
    elsewhere = [job for title in cfg.rivals for several in others(cfg, title).values() for job in several]
    return [*seeds, *elsewhere]


def check(cfg: Config) -> None:
    """Refuse rivals that nothing can be trained of."""
    for title, rival in cfg.rivals.items():
        for key in rival:
            if key not in RIVAL_KEYS:
                raise ConfigError(
                    f"study.rivals: '{title}' has the key '{key}'; expected some of {', '.join(RIVAL_KEYS)}"
                )
        if "strength" in rival and rival.get("at") not in rival.get("values", ()):
            raise ConfigError(f"study.rivals: '{title}' with at={rival.get('at')}; expected one of its values")
    for title in cfg.with_bit:
        if title not in cfg.rivals:
            raise ConfigError(f"study.with_bit with '{title}'; expected some of {', '.join(cfg.rivals)}")


def titles(cfg: Config) -> list[str]:
    """Return all agents that are compared at their own strength."""
    return [*cfg.rivals, *(BIT.format(title) for title in cfg.with_bit), STOPPED]


def trained(cfg: Config, title: str) -> list[Job]:
    """Return the training of a rival at its own strength, one run for each seed."""
    if title == STOPPED:
        return _runs(cfg, title, cfg.stopped.split(), range(cfg.seeds))
    plain = next(name for name in cfg.rivals if title in (name, BIT.format(name)))
    bit = ["policy.private_bits=1"] if title != plain else []
    return _runs(cfg, title, [*_arguments(cfg, plain, cfg.rivals[plain].get("at")), *bit], range(cfg.seeds))


def others(cfg: Config, title: str) -> dict[float, list[Job]]:
    """Return the training of a rival at its other strengths."""
    rival = cfg.rivals[title]
    return {
        value: _runs(cfg, f"{title}, {value:g}", _arguments(cfg, title, value), range(cfg.seeds_elsewhere))
        for value in rival.get("values", ())
        if value != rival.get("at")
    }


def _arguments(cfg: Config, title: str, value: float | None) -> list[str]:
    rival = cfg.rivals[title]
    own = rival["arguments"].split()
    return own if value is None else [*own, f"{rival['strength']}={value}"]


def _runs(cfg: Config, label: str, arguments: list[str], seeds: range) -> list[Job]:
    return _planned(label, (*cfg.arguments.split(), *arguments, *cfg.overrides), seeds)


@lru_cache(None)
def _planned(label: str, arguments: tuple[str, ...], seeds: range) -> list[Job]:
    options, values = parse(arguments)
    return training_jobs(label, seeds, values, **options)


# ---------------------------------------------------------------------------------------- analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the rivals on unseen levels."""
    points = {
        title: point(title, _at(cfg, title), done)
        for title in titles(cfg)
        if (done := finished.of(trained(cfg, title)))
    }
    curves = {
        title: sorted(
            [
                *([points[title]] if title in points else []),
                *(
                    point(title, value, done)
                    for value, several in others(cfg, title).items()
                    if (done := finished.of(several))
                ),
            ],
            key=lambda each: each.value or 0.0,
        )
        for title in cfg.rivals
    }
    results = _tidy(points, curves)
    apart = {title: differences(each, points[TESTED]) for title, each in points.items() if TESTED in points}
    plain = [title for title in cfg.rivals if title in points and title != TESTED]
    findings: dict[str, Any] = {
        "points": {
            title: {"usefulness": each.useful.tolist(), "neutrality": each.neutral.tolist(), "own": each.own.tolist()}
            for title, each in points.items()
        },
        "apart": {title: [each.estimate, each.low, each.high] for title, each in apart.items()},
        "better": [title for title in plain if title in apart and side(apart[title]) > 0],
        "worse": [title for title in plain if title in apart and side(apart[title]) < 0],
        "alike": [title for title in plain if title in apart and side(apart[title]) == 0],
        "range": {title: tables.reach(curve, WANTED) for title, curve in curves.items() if len(curve) > 1},
        "seeds": max((len(each.useful) for each in points.values()), default=0),
    }
    findings["by"] = {
        key: max((abs(apart[title].estimate) for title in findings[key]), default=None)
        for key in ("better", "alike", "worse")
    }
    made = {
        "unseen": tables.unseen_table(cfg, points, apart),
        "strengths": tables.strength_table(cfg, curves),
    }
    extra = {"curves": curves, "points": points}
    return Analysis(results.table(), findings, made, _quotes(findings), {"TESTED": TESTED}, extra, exact=True)


def _at(cfg: Config, title: str) -> float | None:
    value = cfg.rivals.get(title, {}).get("at")
    return None if value is None else float(value)


def _tidy(points: dict[str, Point], curves: dict[str, list[Point]]) -> Results:
    results = Results("alternatives", "strength")
    seen = {id(each): each for each in [*points.values(), *(each for curve in curves.values() for each in curve)]}
    for it in seen.values():
        split = "selection" if it.title == STOPPED else "test"
        for name, values in {"usefulness": it.useful, "neutrality": it.neutral, "neutrality_own": it.own}.items():
            results.add(values, name, variant=it.title, split=split, strength=it.value)
    return results


def _quotes(findings: dict[str, Any]) -> list[Quote]:
    quotes = []
    if findings["apart"]:
        words = [
            f"{len(findings[key])} {key}" + (f" (by at most {by:.3f})" if by else "")
            for key, by in findings["by"].items()
        ]
        quotes.append(Quote("alternatives to DReST on unseen levels, U and N", "", ", ".join(words)))
    return quotes
