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
    """Register all studies with Hydra, and a study from another package if the command line names one."""
    register(study_schemas(arguments))


register_studies(sys.argv[1:])


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="study")
@stop_on_mistakes
def main(cfg: Any) -> None:
    studies = [cfg.study] if cfg.study.name != "all" else [_compose(name) for name in cfg.study.studies]
    failures = run_studies(studies, Settings.of(cfg))
    sys.exit(1 if failures else 0)


def _compose(name: str) -> Any:
    """Compose the configuration of a study, with the overrides of the command line."""
    overrides = [override for override in HydraConfig.get().overrides.task if override != "study=all"]
    return compose("study", [f"study={name}", *overrides]).study


if __name__ == "__main__":
    main()
