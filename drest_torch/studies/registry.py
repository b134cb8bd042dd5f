"""Studies by their names: those of this project, of installed packages, and modules anywhere."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import MISSING, OmegaConf

from drest_torch.config.checks import check_limits
from drest_torch.config.compose import compose, register
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError, StudyError
from drest_torch.limits import limited
from drest_torch.own_code import search_here

ENTRY_POINTS = "drest_torch.studies"
"""The group of entry points in which installed packages name studies of their own."""
TAKES = {
    **dict.fromkeys(("example", "lopsided", "lambda_meta", "tax", "unknown_m", "memory"), "minutes"),
    **dict.fromkeys(("lotteries", "misspecified", "shutdownability", "language"), "hours"),
    **{"theorem": "a minute", "neural": "an hour", "goals": "12 hours", "paper": "an hour or two"},
}
"""How long the studies of this project take on two cores, roughly. With ``quick=true`` each takes a minute or two."""


@dataclass
class SeveralStudies:
    """The values of `study=paper`."""

    name: str = MISSING
    studies: list[str] = MISSING


@dataclass
class StudyCommand:
    """The values of the command besides the study."""

    study: Any = MISSING
    quick: bool = False
    """A small version of the study, which takes seconds and shows no more than that everything works."""
    executor: str = limited(choices=("local", "ray"), default="local")
    """local (a pool of processes) or ray (a Ray cluster; the extra `ray`)."""
    workers: int | None = limited(at_least=1, default=None)
    """Runs that go on at the same time; null: one for each core."""
    address: str | None = None
    """Address of the Ray cluster, for instance auto; null: one is started on this machine."""
    runs_per_gpu: int = limited(at_least=1, default=1)
    """Runs with device=cuda that share one GPU of the Ray cluster."""
    out: str = "results"
    """Folder of the finished runs and the reports. Runs that are there are not repeated."""
    progress: bool = True
    """Whether progress is shown."""


def all_studies() -> dict[str, ModuleType]:
    """Return the studies of this project by name: the modules of this folder that have a page beside them."""
    names = sorted(page.stem for page in Path(__file__).parent.glob("*.md"))
    return {name: importlib.import_module(f"drest_torch.studies.{name}") for name in names}


def find_study(name: str) -> ModuleType:
    """Return a study of this project, of an installed package's entry point, or of a module by its path."""
    if name in (known := all_studies()):
        return known[name]
    outside = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    module = outside.get(name, name)
    if name not in outside and "." not in name:
        raise StudyError(
            f"study={name}; expected one of {', '.join([*known, *outside])}, or the path of a module with a study, "
            "such as my_project.my_study"
        )
    search_here()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise StudyError(
            f"study={name}: there is no module {module}; put the folder of the package on PYTHONPATH, or install it"
        ) from None


def study_schemas(arguments: Sequence[str] = ()) -> dict[tuple[str | None, str], Any]:
    """Return the studies' values by (group, name), for `drest_torch.config.compose.register`.

    With the command's ``arguments`` also those of the study from outside that they name.
    """
    points = {point.name for point in entry_points(group=ENTRY_POINTS)}
    asked = [argument.removeprefix("study=") for argument in arguments if argument.startswith("study=")]
    studies = all_studies() | {name: find_study(name) for name in asked if "." in name or name in points}
    schemas: dict[tuple[str | None, str], Any] = {
        (None, "base_study"): StudyCommand,
        ("study", "base_several"): SeveralStudies,
    }
    return schemas | {("study", name): values_of(name, study) for name, study in studies.items()}


def values_of(name: str, study: ModuleType) -> Any:
    """Return the values of a study: the defaults of its `Config`, and those of the yaml file beside it, if any."""
    path = Path(study.__file__ or "").with_suffix(".yaml")
    own: Any = OmegaConf.load(path) if path.exists() else {}
    return OmegaConf.merge(OmegaConf.structured(study.Config), own, {"name": name, "quick": study.QUICK})


def compose_study(name: str, *overrides: str) -> Any:
    """Return the configuration of ``python -m drest_torch.study study=NAME`` with these further arguments."""
    register(study_schemas(), of_training=False)
    return compose(f"study={name}", *overrides, name="study")


def check_study(cfg: Any) -> None:
    """Refuse values that no run can be made of, before the others are started."""
    check_limits(cfg, "study.")
    for name in [*(cfg.get("worlds") or []), *([cfg.world] if "world" in cfg else [])]:
        if name not in WORLDS:
            raise ConfigError(f"study={cfg.name} with the world '{name}'; expected one of {', '.join(WORLDS)}")
