"""Run a study and write its report: ``python -m drest_torch.study study=example``, or ``study=all``."""

from __future__ import annotations

import sys
from typing import Any

import hydra
from hydra import compose
from hydra.core.hydra_config import HydraConfig

from drest_torch.cli import register, stop_on_mistakes
from drest_torch.config.schema import config_folder
from drest_torch.studies.runner import Settings, run_studies
from drest_torch.studies.study import study_schemas


@stop_on_mistakes
def register_studies(arguments: list[str]) -> None:
    """Make all studies known to Hydra, and the one from outside that the command line names."""
    register(study_schemas(arguments))


register_studies(sys.argv[1:])


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="study")
@stop_on_mistakes
def main(cfg: Any) -> None:
    chosen = [cfg.study] if cfg.study.name != "all" else [_composed(name) for name in cfg.study.studies]
    failures = run_studies(chosen, Settings.of(cfg))
    sys.exit(1 if failures else 0)


def _composed(name: str) -> Any:
    """A study's configuration, with what the command line says to all of them."""
    said = [each for each in HydraConfig.get().overrides.task if each != "study=all"]
    return compose("study", [f"study={name}", *said]).study


if __name__ == "__main__":
    main()
