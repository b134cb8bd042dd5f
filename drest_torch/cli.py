"""What the commands share: Hydra, the help, and one sentence for a user's mistake.

Torch and Hydra are imported when a command is called, after its first line is on the screen.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from drest_torch.errors import UserError, shown
from drest_torch.files import flush_output, open_streams
from drest_torch.help import COMMANDS, help_text
from drest_torch.registry import leave_here, use
from drest_torch.tracking.stages import announce

MISTAKES = (UserError, OSError, OmegaConfBaseException, MemoryError, RuntimeError)
"""Errors that are printed as a sentence; of `RuntimeError` only those of memory."""
FULL_ERROR = "HYDRA_FULL_ERROR"
"""Where this is set, Hydra leaves it to us to print an error."""


def command(
    name: str, *, prepare: Callable[[], None] | None = None
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Make a function of its configuration a command that composes it from the arguments.

    ``prepare`` is called before that.
    """

    def decorate(main: Callable[[Any], None]) -> Callable[[], None]:
        @functools.wraps(main)
        def run() -> None:
            # Read when torch is loaded: threads that wait for each other soon sleep, and leave a core to other work.
            if "OMP_WAIT_POLICY" not in os.environ:
                os.environ.setdefault("GOMP_SPINCOUNT", "2000")
            with streams(), one_sentence():
                leave_here()
                announce(sys.argv[1:])
                if {"-h", "--help"} & {*sys.argv[1:]}:
                    print(help_text(name, *(word for word in sys.argv[1:] if "=" in word and word[0] != "-")))
                    return
                if prepare is not None:
                    prepare()
                _run(name, main)

        return run

    return decorate


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Open the program's input and outputs, and write what is left of its output; Ctrl-C ends it with 130."""
    open_streams()
    try:
        yield
    except BrokenPipeError:  # nobody reads the output any more
        sys.exit(0)
    except KeyboardInterrupt:
        print("drest_torch: stopped", file=sys.stderr)
        sys.exit(130)
    finally:
        if status := flush_output():
            sys.exit(status)


def _run(name: str, main: Callable[[Any], None]) -> None:
    import hydra
    from hydra.errors import HydraException

    from drest_torch.config.compose import VERSION_BASE, explain, implied, register
    from drest_torch.config.schema import config_folder

    _refuse_another_style(sys.argv[1:])
    _import_named()
    if name == "train":
        sys.argv[1:] = implied(sys.argv[1:])
    register(of_training=name == "train")
    is_composed = False

    def begin(cfg: Any) -> None:
        nonlocal is_composed
        is_composed = True
        with one_sentence():  # here already, as Hydra adds a line of its own in a sweep
            main(cfg)

    composed = hydra.main(
        version_base=VERSION_BASE, config_path=str(config_folder()), config_name=COMMANDS[name].config
    )(begin)
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        composed()
    except Exception as error:
        if is_composed and not isinstance(error, HydraException):
            raise
        stop(explain(error))  # Hydra and OmegaConf raise errors of all kinds for what a user types
    finally:
        os.environ.pop(FULL_ERROR) if before is None else os.environ.update({FULL_ERROR: before})


def _import_named() -> None:
    """Import what ``imports=MODULE,…`` names, and take it off the command's line."""
    named = [word.removeprefix("imports=") for word in sys.argv[1:] if word.startswith("imports=")]
    sys.argv[1:] = [word for word in sys.argv[1:] if not word.startswith("imports=")]
    use(*(module for several in named for module in re.split("[, ]+", several.strip("[]\"' ")) if module))


def _refuse_another_style(arguments: list[str]) -> None:
    """Refuse ``--key value``, and say what to write in its place."""
    from hydra._internal.utils import get_args_parser

    known = [flag for action in get_args_parser()._actions for flag in action.option_strings]
    for index, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if word.startswith("--") and not any(option.startswith(flag) for option in known):
            value = value if equals else next(iter(arguments[index + 1 : index + 2]), "VALUE")
            name = flag.lstrip("-")
            raise UserError(f"{word}: values are written {name}={value}, without dashes; --help prints what there is")


def key_values(words: list[str], schema: type) -> Any:
    """Return the values of KEY=VALUE arguments: an instance of a dataclass."""
    known = [entry.name for entry in fields(schema)]
    for word in words:
        key, equals, _ = word.partition("=")
        if not equals or key not in known:
            raise UserError(f"{word}; expected KEY=VALUE with one of {', '.join(known)}")
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.from_dotlist(words)))


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Print an error that the user can correct as one sentence, and exit with status 2 instead of a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except MISTAKES as error:
        stop(sentence_of(error))


def stop(sentence: str) -> None:
    """Print a sentence and exit with 2."""
    print(f"drest_torch: {shown(sentence)}", file=sys.stderr)
    sys.exit(2)


def sentence_of(error: Exception) -> str:
    """Return what a user reads of a mistake; another error is raised again."""
    if isinstance(error, MemoryError | RuntimeError):
        return _sentence_of_memory(error)
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give it one: {error.full_key}=VALUE"
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _sentence_of_memory(error: Exception) -> str:
    """Return what a user reads where memory is short: torch raises a `RuntimeError` then."""
    if not isinstance(error, MemoryError) and not re.search("allocate memory|out of memory", str(error)):
        raise error
    wanted = re.search(r"allocate (\d+) bytes", str(error))
    much = f": {int(wanted[1]) / 2**30:,.1f} GiB at once" if wanted else ""
    return (
        f"more memory was needed than there is{much}; use a smaller policy.width, algo.episodes or memory_gib, or "
        "fewer and smaller levels"
    )
