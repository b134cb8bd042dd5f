"""Code that the entry points share: schemas and help in Hydra's store, and errors of a user as one sentence."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from drest_torch.config.schema import config_folder, schemas
from drest_torch.errors import UserError

MISTAKES = (UserError, OSError, OmegaConfBaseException)

HELP = {
    "train": (
        "Train an agent and evaluate it at the end, exactly unless you choose sampling.",
        "python -m drest_torch.train algo=ppo levels=paper algo.lr=0.0005 seed=1",
        ("algo", "reward", "levels", "policy", "logger"),
    ),
    "evaluate": (
        "Evaluate a saved run, exactly or by sampling, on levels of your choice.",
        "python -m drest_torch.evaluate run=runs/NAME levels.path=FILE.jsonl out=FILE.json",
        ("levels",),
    ),
    "study": (
        "Run or resume a study and write its report.",
        "python -m drest_torch.study study=example",
        ("study",),
    ),
}
"""The purpose of each command, an example, and its groups of values."""


def register(further: Mapping[tuple[str | None, str], type] = MappingProxyType({})) -> None:
    """Register the schemas and the help in Hydra's store; ``further`` are schemas of a single command."""
    store = ConfigStore.instance()
    for (group, name), schema in {**schemas(), **further}.items():
        store.store(group=group, name=name, node=schema)
    for command in HELP:
        store.store(group="hydra/help", name=command, node={"template": help_text(command)})


def help_text(command: str) -> str:
    """Return the text of ``--help``, in which Hydra replaces $CONFIG by the configuration."""
    purpose, example, groups = HELP[command]
    options = [f"\n{group}=\n" + "\n".join(_options(group)) for group in groups]
    return "\n".join(
        [
            purpose,
            f"\n  {example}\n",
            "Groups of values, chosen as GROUP=OPTION:",
            *options,
            "\nValues, set as KEY=VALUE (docs/running.md and the comments in configs/ say what each means):\n",
            "$CONFIG",
            "--cfg job prints the configuration and stops, -m runs every combination of KEY=A,B one after the other,",
            "--hydra-help prints all other options.",
        ]
    )


def _options(group: str) -> list[str]:
    """Return the options of a group, each with the first line of its yaml file."""
    files = sorted((config_folder() / group).glob("*.yaml"))
    width = max(len(path.stem) for path in files)
    return [
        f"  {path.stem:{width}}  {path.read_text(encoding='utf-8').partition(chr(10))[0].removeprefix('# ')}"
        for path in files
    ]


def stop_on_mistakes(main: Callable[[Any], None]) -> Callable[[Any], None]:
    """Print an error that the user can correct as one sentence, and exit with status 2 instead of a traceback."""

    @functools.wraps(main)
    def wrapped(cfg: Any) -> None:
        try:
            main(cfg)
        except MISTAKES as error:
            print(f"drest_torch: {_sentence(error)}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("drest_torch: stopped", file=sys.stderr)
            sys.exit(130)

    return wrapped


def _sentence(error: Exception) -> str:
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give it one: {error.full_key}=VALUE"
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
