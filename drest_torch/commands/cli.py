"""What the commands share: Hydra, the help, and one sentence for a user's mistake.

Torch and Hydra are imported when a command is called, after its first line is on the screen.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NoReturn

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from drest_torch.commands.help import COMMANDS, help_text
from drest_torch.config.reading import unreadable
from drest_torch.errors import UserError, printable
from drest_torch.files import flush_output, open_streams
from drest_torch.registry import drop_working_directory, import_trusted
from drest_torch.tracking.stages import announce

MISTAKES = (UserError, OSError, OmegaConfBaseException, MemoryError, RuntimeError)
"""Errors that are printed as a sentence; of `RuntimeError` only those of memory."""
FULL_ERROR = "HYDRA_FULL_ERROR"
"""Where this is set, Hydra leaves it to us to print an error."""

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""The options of glibc's ``mallopt``."""
MALLOC_SETTINGS = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}
"""The variables by which a user sets them."""


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
            keep_freed_memory()
            with streams(), one_sentence():
                drop_working_directory()
                announce(sys.argv[1:])
                if {"-h", "--help"} & {*sys.argv[1:]}:
                    with importing():
                        print(help_text(name, *(word for word in sys.argv[1:] if "=" in word and word[0] != "-")))
                    return
                if prepare is not None:
                    prepare()
                _run(name, main)

        return run

    return decorate


def keep_freed_memory() -> None:
    """Let the C library keep up to 1 GiB that is freed: each update asks for as much again, and pages take time."""
    if not sys.platform.startswith("linux") or MALLOC_SETTINGS & os.environ.keys():
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library has no such function
        set_option = ctypes.CDLL(None).mallopt
        for option, size in ((M_TRIM_THRESHOLD, 1 << 30), (M_TOP_PAD, 1 << 26), (M_MMAP_THRESHOLD, 1 << 25)):
            set_option(option, size)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import modules without a search for garbage among what they define, which takes a quarter of the time.

    What is imported stays until the program ends, so that later searches leave it out, too.
    """
    before, was_enabled = len(sys.modules), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:  # in a sweep only the first run imports anything
            gc.freeze()
        if was_enabled:
            gc.enable()


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
    with importing():
        import hydra
        from hydra.errors import HydraException

        from drest_torch.config.compose import VERSION_BASE, implied, register
        from drest_torch.config.mistakes import explain
        from drest_torch.config.schema import config_folder

        _check_options(sys.argv[1:])
        import_named()
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
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "provider=.* is not available", UserWarning)  # a folder that is not there
            composed()
    except Exception as error:
        if is_composed and not isinstance(error, HydraException):
            raise
        if isinstance(error, OSError) and not isinstance(error, HydraException):
            raise
        # Hydra and OmegaConf raise errors of all kinds for what a user types.
        stop(explain(error, [word for word in sys.argv[1:] if "=" in word]))
    finally:
        os.environ.pop(FULL_ERROR) if before is None else os.environ.update({FULL_ERROR: before})


def import_named() -> None:
    """Import what ``imports=MODULE,…`` names, and take it off the command's line."""
    words = [word for word in sys.argv[1:] if word.startswith("imports=")]
    sys.argv[1:] = [word for word in sys.argv[1:] if word not in words]
    for word in words:
        named = re.split("[, ]+", word.removeprefix("imports=").strip("[]\"' "))
        if not any(named):
            raise UserError(f"{word}: names no module; expected imports=MODULE, or several with commas between them")
        import_trusted(*filter(None, named))


COMPLETING = "drest"
"""The name of the program where it completes: in any other case the name of a command follows."""
NOT_OFFERED = {
    "--experimental-rerun": "it would run code from a file; call the command with the same arguments again",
    "--shell-completion": 'eval "$(drest -sc install=bash)" completes what you type',
}
"""Hydra's options that these commands do not have, with what to do in their place."""


def _check_options(arguments: list[str]) -> None:
    """Refuse ``--key value`` and ``-key=value``, and say what to write in their place; refuse what Hydra would refuse.

    Hydra itself would print a usage.
    """
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    options = [flag for action in parser._actions for flag in action.option_strings]
    for index, word in enumerate(arguments):
        if word == "--" or not word.startswith("-"):
            continue
        flag, equals, value = word.partition("=")
        whole = [option for option in options if option.startswith(flag) and flag.startswith("--")]
        if flag in options:
            whole = [flag]
        elif not whole:
            following = next(
                (other for other in arguments[index + 1 : index + 2] if not re.search("^-|=", other)), "VALUE"
            )
            value = value if equals else following
            name = flag.strip("-") or "KEY"
            raise UserError(f"{word}: values are written {name}={value}, without dashes; --help prints what there is")
        remedy = NOT_OFFERED.get(whole[0].replace("-sc", "--shell-completion"))
        if remedy and sys.argv[0] != COMPLETING:
            raise UserError(f"{word}: no option here; {remedy}")

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message.removeprefix('argument ')}; --help prints what there is")

    parser.error = refuse  # type: ignore[method-assign]
    if "--version" not in arguments:  # which prints, and ends the program
        parser.parse_args(arguments)


def key_values(words: list[str], schema: type) -> Any:
    """Return the values of KEY=VALUE arguments: an instance of a dataclass."""
    known = [entry.name for entry in fields(schema)]
    for word in words:
        key, equals, _ = word.partition("=")
        if not equals or key not in known:
            raise UserError(f"{word}; expected KEY=VALUE with one of {', '.join(known)}")
        try:
            OmegaConf.from_dotlist([word])
        except YAMLError:
            raise UserError(unreadable(word)) from None
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
    print(f"drest_torch: {printable(' '.join(sentence.splitlines())):.2000}", file=sys.stderr)
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
