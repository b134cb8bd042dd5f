"""Studies by name: studies of this project, of installed packages, and any importable module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from omegaconf import MISSING, OmegaConf

from drest_torch.config.checks import check_limits
from drest_torch.config.compose import compose, register
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError
from drest_torch.limits import limited
from drest_torch.registry import Registry
from drest_torch.studies.engine import file_of

STUDIES = Registry(
    "study",
    "drest_torch.studies.{}",
    ("Config", "QUICK", "jobs"),
    "drest_torch.studies",
)
PARTS = ("rows", "FIGURES", "TABLES", "CLAIMS")
"""Other required parts of a study: functions of its results or of its rows."""
TAKES = {
    **dict.fromkeys(("example", "ratio", "lambda_meta"), "minutes"),
    "smollm2": "hours",
    **{
        **dict.fromkeys(("theorem", "robustness"), "a minute"),
        "generalization": "3 hours",
        "gap": "ten minutes",
        **dict.fromkeys(("alternatives", "randomness"), "an hour"),
        "neural": "a quarter of an hour",
        "misgeneralization": "ten minutes",
        "lotteries": "ten minutes",
        **dict.fromkeys(("environments", "few_levels"), "two hours"),
        "language": "half an hour",
        "paper": "an hour or two",
        "all": "half a day",
    },
}
"""The approximate duration of each study on two cores. With ``quick=true`` a study takes seconds."""
COLLECTIONS = ("paper", "all")
"""Choices that run several studies."""


@dataclass
class SeveralStudies:
    """The values of `study=paper` and `study=all`."""

    name: str = MISSING
    studies: list[str] = MISSING


@dataclass
class StudyCommand:
    """The options of the command besides the study."""

    study: Any = MISSING
    quick: bool = False
    """A small version of the study that takes seconds: a smoke test. Your own values, such as `study.seeds=2`, stay."""
    executor: str = limited(choices=("local", "ray"), default="local")
    """local (a pool of processes) or ray (a Ray cluster; the extra `ray`)."""
    workers: int | None = limited(at_least=1, default=None)
    """The number of simultaneous runs; null: one for each core."""
    address: str | None = None
    """Address of the Ray cluster, for instance auto; null: one is started on this machine."""
    runs_per_gpu: int = limited(at_least=1, default=1)
    """Runs with device=cuda that share one GPU of the Ray cluster."""
    out: str = "results"
    """Folder of the finished runs and the reports. Finished runs are not repeated."""
    progress: bool = True
    """True to show progress."""


def all_studies() -> dict[str, ModuleType]:
    """Return the studies of this project by name."""
    return {name: STUDIES[name] for name in STUDIES.builtin_names()}


def check_parts(name: str, study: ModuleType) -> None:
    """Refuse a study that lacks a part."""
    absent = [part for part in PARTS if not hasattr(study, part)]
    if absent:
        raise ConfigError(f"study={name} has no {' and no '.join(absent)}; docs/howto/studies.md describes them")


def study_schemas(arguments: Sequence[str] = ()) -> dict[tuple[str | None, str], Any]:
    """Return the values of studies by (group, name), for `drest_torch.config.compose.register`.

    Include the external studies that the command's ``arguments`` name.
    """
    names = [argument.removeprefix("study=") for argument in arguments if argument.startswith("study=")]
    studies = all_studies() | {name: STUDIES[name] for name in names if "." in name or STUDIES.is_registered(name)}
    schemas: dict[tuple[str | None, str], Any] = {
        (None, "base_study"): StudyCommand,
        ("study", "base_several"): SeveralStudies,
    }
    return schemas | {("study", name): values_of(name, study) for name, study in studies.items()}


def values_of(name: str, study: ModuleType) -> Any:
    """Return the values of a study: the defaults of its `Config`, overridden by its yaml file if it has one."""
    path = file_of(study, ".yaml")
    values: Any = {}
    if path.exists():
        values = OmegaConf.load(path)
    return OmegaConf.merge(OmegaConf.structured(study.Config), values, {"name": name, "quick": study.QUICK})


def compose_study(name: str, *overrides: str) -> Any:
    """Return the configuration of ``python -m drest_torch.study study=NAME`` with further arguments."""
    register(study_schemas(), of_training=False)
    return compose(f"study={name}", *overrides, name="study")


def check_study(cfg: Any) -> None:
    """Refuse invalid values of a study before a run starts."""
    check_limits(cfg, "study.")
    worlds = list(cfg.get("worlds") or [])
    if "world" in cfg:
        worlds.append(cfg.world)
    for name in worlds:
        if name not in WORLDS:
            raise ConfigError(f"study={cfg.name} with the world '{name}'; expected one of {', '.join(WORLDS)}")
