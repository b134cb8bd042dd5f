"""One agent for many gridworlds: is it useful and neutral in ones that it has never seen, and what makes it so?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf

from drest_torch.config.schema import Config as RunConfig
from drest_torch.errors import ConfigError
from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.training_job import run_config, trained, training_jobs
from drest_torch.limits import limited
from drest_torch.studies.heldout import tables as heldout_report
from drest_torch.studies.heldout.sets import described, looked_at
from drest_torch.studies.heldout.tables import Row
from drest_torch.studies.study import Finished, Report, StudyConfig

GROUPS = ("algo", "reward", "policy", "levels")
"""Of yaml files, from which a row may choose."""
ROW_KEYS = (*GROUPS, "values", "seeds")
CURVES = ("steps", "eval/selection/", "eval/train/")
"""What is kept of what was found during training: nothing on the levels that are held out."""


@dataclass
class Config(StudyConfig):
    algo: str = MISSING
    reward: str = MISSING
    policy: str = MISSING
    levels: str = MISSING
    run: dict[str, Any] = MISSING
    seeds: int = limited(at_least=1)
    rows: dict[str, dict[str, Any]] = MISSING
    headline: str = MISSING
    default: str = MISSING
    axes: dict[str, list[str]] = MISSING
    shifted: dict[str, dict[str, Any]] = MISSING
    shifted_levels: int = MISSING
    shifted_seed: int = MISSING
    path: str | None = MISSING
    mark: float = MISSING
    shares: list[float] = MISSING
    shown: int = MISSING


# -------------------------------------------------------------------------------------------- runs


def jobs(cfg: Any) -> list[Job]:
    """The runs of all rows; rows with the same values share them."""
    found: dict[str, Job] = {}
    for several in _jobs(cfg).values():
        for job in several:
            found.setdefault(job.digest(), job)
    return list(found.values())


def _jobs(cfg: Any) -> dict[str, list[Job]]:
    """The runs by the titles of the rows that stand in a table."""
    titles = dict.fromkeys([cfg.headline, cfg.default, *(title for axis in cfg.axes.values() for title in axis)])
    _check(cfg, titles)
    further = {"sets": described(cfg, _configured(cfg, {})), "shown": cfg.shown}
    return {title: _of_row(cfg, title, further) for title in titles}


def _check(cfg: Any, titles: Iterable[str]) -> None:
    for title in titles:
        if title not in cfg.rows:
            raise ConfigError(f"study: a table with the row '{title}'; expected one of {', '.join(cfg.rows)}")
        for key in cfg.rows[title]:
            if key not in ROW_KEYS:
                raise ConfigError(f"study.rows: '{title}' has the key '{key}'; expected some of {', '.join(ROW_KEYS)}")
        if cfg.rows[title].get("seeds", 1) < 1:
            raise ConfigError(f"study.rows: '{title}' has seeds={cfg.rows[title].seeds}; expected at least 1")
    for key in ("shifted_levels", "shown"):
        if cfg[key] < 1:
            raise ConfigError(f"study.{key}={cfg[key]}; expected at least 1")


def _of_row(cfg: Any, title: str, further: dict[str, Any]) -> list[Job]:
    row = cfg.rows[title]
    plain = training_jobs(title, range(row.get("seeds", cfg.seeds)), _values(cfg, row), **_options(cfg, row))
    for job in plain[:1]:
        values: Any = OmegaConf.create(job.spec["config"])
        if values.levels.generator is None or values.levels.path is not None:
            raise ConfigError(f"study.rows: '{title}' has levels that are not generated, of which none are held out")
    return [replace(job, runner="drest_torch.studies.heldout.study:train", spec=job.spec | further) for job in plain]


def _configured(cfg: Any, row: Any) -> RunConfig:
    return run_config(_values(cfg, row), **_options(cfg, row))


def _values(cfg: Any, row: Any) -> Any:
    parts = [OmegaConf.to_container(OmegaConf.create(each)) for each in (cfg.run, row.get("values", {}))]
    return OmegaConf.merge(*parts)


def _options(cfg: Any, row: Any) -> dict[str, str]:
    return {group: row.get(group, cfg[group]) for group in GROUPS}


def train(spec: dict[str, Any], folder: Path) -> Result:
    """A training run as `drest_torch.jobs.training_job.train` does it, then one look at the sets of the spec.

    numbers and arrays: those of `looked_at`; ``env_steps``, ``mini_episodes`` and ``wall_seconds``; and, over
    training at ``steps`` [T], ``eval/selection/<metric>`` and ``eval/train/<metric>`` [T].
    """
    run, found = trained(spec, folder)
    numbers, arrays = looked_at(run, spec["sets"], spec["shown"])
    numbers |= {name: found.numbers[name] for name in ("env_steps", "mini_episodes", "wall_seconds")}
    return Result(numbers, arrays | {name: each for name, each in found.arrays.items() if name.startswith(CURVES)})


# ------------------------------------------------------------------------------------------ report


def report(cfg: Any, finished: Finished) -> Report:
    rows = {}
    for title, several in _jobs(cfg).items():
        results = [result for _, result in finished.of(several)]
        rows[title] = Row(title, several[0].spec["config"], results, len(several), cfg.mark)
    return heldout_report.written(cfg, rows)
