"""The command `drest study`, which runs studies and writes their reports: ``drest study study=NAME``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from drest_torch.commands.cli import command

if TYPE_CHECKING:
    from drest_torch.studies.catalogue import StudyCommand


def _add_schemas() -> None:
    """Register this project's studies in Hydra, and a third-party study on the command line."""
    from drest_torch.config.compose import options, register
    from drest_torch.errors import StudyError
    from drest_torch.studies.catalogue import COLLECTIONS, study_schemas

    if not any(word.startswith(("study=", "-", "hydra")) for word in sys.argv[1:]):
        names = ", ".join(name for name in options("study") if name not in COLLECTIONS)
        raise StudyError(
            f"which study? study=paper, study=all, or study=NAME with one of {names}; --help describes them"
        )
    register(study_schemas(sys.argv[1:]), of_training=False)


@command("study", prepare=_add_schemas)
def main(cfg: StudyCommand) -> None:
    """Run one study, the paper's studies, or all; exit with 1 if runs have failed."""
    from drest_torch.studies.catalogue import COLLECTIONS
    from drest_torch.studies.runner import run_studies

    chosen = [cfg.study]
    if cfg.study.name in COLLECTIONS:
        chosen = [_composed(name) for name in cfg.study.studies]
    failures = run_studies(chosen, cfg)
    sys.exit(1 if failures else 0)


def _composed(name: str) -> Any:
    """Return the configuration of a study, with the overrides of the command line."""
    from hydra.core.hydra_config import HydraConfig

    from drest_torch.studies.catalogue import compose_study

    arguments = [argument for argument in HydraConfig.get().overrides.task if not argument.startswith("study=")]
    return compose_study(name, *arguments).study


if __name__ == "__main__":
    main()
