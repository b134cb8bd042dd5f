"""The command `drest check`, which checks an environment before training: ``drest check env.id=CartPole-v1``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from drest_torch.commands.cli import command
from drest_torch.errors import ConfigError, printable
from drest_torch.tracking.stages import stage

if TYPE_CHECKING:
    from drest_torch.config.schema import CheckConfig


def _imply() -> None:
    """Add ``env=gymnasium`` if an id is given; refuse gridworlds."""
    words = sys.argv[1:]
    if "env=gridworld" in words:
        raise ConfigError("env=gridworld is checked when its levels are read; drest show LEVEL shows what they offer")
    if any(word.startswith("env.id=") for word in words) and not any(word.startswith("env=") for word in words):
        sys.argv.insert(1, "env=gymnasium")


@command("check", prepare=_imply)
def main(cfg: CheckConfig) -> None:
    """Check the environment, print the result, and exit with 1 if there are problems."""
    from drest_torch.checking.checking import check_environment
    from drest_torch.config.checks import check_limits

    check_limits(cfg)
    stage(f"playing {cfg.episodes:,} mini-episodes of {cfg.env.title} …")
    check = check_environment(cfg)
    print(printable(str(check)))
    if not check.ok:
        sys.exit(1)


if __name__ == "__main__":
    main()
