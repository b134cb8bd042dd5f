"""What the entry points share: the schemas in Hydra's store, and one sentence for a user's mistake."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf.errors import OmegaConfBaseException

from drest_torch.checkpoints import CheckpointError
from drest_torch.config import ConfigError, schemas
from drest_torch.loggers import LoggerError
from envs.levels import LevelError

MISTAKES = (ConfigError, LevelError, CheckpointError, LoggerError, OSError, OmegaConfBaseException)


def register() -> None:
    store = ConfigStore.instance()
    for (group, name), schema in schemas().items():
        store.store(group=group, name=name, node=schema)


def stop_on_mistakes(main: Callable[[Any], None]) -> Callable[[Any], None]:
    """Print what a user can mend as one sentence, and exit with 2 instead of a traceback."""

    @functools.wraps(main)
    def wrapped(cfg: Any) -> None:
        try:
            main(cfg)
        except MISTAKES as error:
            print(f"drest_torch: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("drest_torch: stopped", file=sys.stderr)
            sys.exit(130)

    return wrapped
