"""Shared code of the commands: Hydra, the help, and errors in one sentence.

Torch and Hydra are imported when a command is called, after its first line is printed.
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
from pathlib import Path
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
"""Errors that are printed as one sentence; `RuntimeError` only if it is about memory."""
FULL_ERROR = "HYDRA_FULL_ERROR"
"""Environment variable with which Hydra raises errors instead of printing them."""

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Options of glibc's ``mallopt``."""
MALLOC_SETTINGS = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}
"""Environment variables with which a user sets these options."""


def command(
    name: str, *, prepare: Callable[[], None] | None = None
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Return a decorator that makes a function of a configuration a command.

    The command composes the configuration from its arguments, after it has called ``prepare``.
    """

    def decorate(main: Callable[[Any], None]) -> Callable[[], None]:
        @functools.wraps(main)
        def run() -> None:
            let_threads_sleep()
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


def let_threads_sleep() -> None:
    """Configure waiting threads to sleep soon, which leaves cores to other processes; torch reads this when loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def keep_freed_memory() -> None:
    """Configure the C library to keep up to 1 GiB of freed memory, because each update allocates it again."""
    if not sys.platform.startswith("linux") or MALLOC_SETTINGS & os.environ.keys():
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library has no such function
        set_option = ctypes.CDLL(None).mallopt
        for option, size in ((M_TRIM_THRESHOLD, 1 << 30), (M_TOP_PAD, 1 << 26), (M_MMAP_THRESHOLD, 1 << 25)):
            set_option(option, size)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection during imports, which otherwise takes a quarter of their time.

    Imported objects stay until the program ends, so they are frozen and later collections skip them.
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
    """Open the standard streams and flush the output at the end; Ctrl-C exits with 130."""
    open_streams()
    try:
        yield
    except BrokenPipeError:  # the reader of the output has gone
        sys.exit(0)
    except KeyboardInterrupt:
        print("drest_torch: stopped", file=sys.stderr)
        sys.exit(130)
    finally:
        if status := flush_output():
            sys.exit(status)


def _run(name: str, main: Callable[[Any], None]) -> None:
    """Run a command within Hydra."""
    with importing():
        import hydra
        from hydra.errors import HydraException

        from drest_torch.config.compose import VERSION_BASE, expanded, register
        from drest_torch.config.mistakes import explain
        from drest_torch.config.schema import config_folder

        typed = sys.argv[1:]
        _check_options(typed, COMMANDS[name].config)
        import_named()
        stack = contextlib.ExitStack()
        if name == "train":
            from drest_torch.commands import sweep_folder
            from drest_torch.commands.launcher import launching

            sweep_folder.typed[:] = typed
            announce_repetition_of(typed)
            sys.argv[1:] = expanded(stack.enter_context(launching(sys.argv[1:])))
        register(of_training=name == "train")
    is_composed = False

    def begin(cfg: Any) -> None:
        nonlocal is_composed
        is_composed = True
        with one_sentence():  # within Hydra, which prints another line for errors in a sweep
            main(cfg)

    composed = hydra.main(
        version_base=VERSION_BASE, config_path=str(config_folder()), config_name=COMMANDS[name].config
    )(begin)
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        with stack, warnings.catch_warnings():
            warnings.filterwarnings("error", "provider=.* is not available", UserWarning)  # a missing folder
            composed()
    except Exception as error:
        if is_composed and not isinstance(error, HydraException):
            raise
        if isinstance(error, OSError) and not isinstance(error, HydraException):
            raise
        # Hydra and OmegaConf raise many kinds of errors for invalid arguments.
        stop(explain(error, [word for word in sys.argv[1:] if "=" in word]))
    finally:
        os.environ.pop(FULL_ERROR, None)
        if before is not None:
            os.environ[FULL_ERROR] = before


def announce_repetition_of(arguments: list[str]) -> None:
    """Print what differs from the run in ``from=RUN``, if there is one."""
    if any(word.startswith("from=") for word in arguments):
        from drest_torch.training.repetition_note import announce_repetition

        announce_repetition(arguments)


def import_named() -> None:
    """Import the modules of ``imports=MODULE,…``, and remove the argument from the command line."""
    words = [word for word in sys.argv[1:] if word.startswith("imports=")]
    sys.argv[1:] = [word for word in sys.argv[1:] if word not in words]
    for word in words:
        modules = re.split("[, ]+", word.removeprefix("imports=").strip("[]\"' "))
        if not any(modules):
            raise UserError(
                f"{word}: does not name a module; expected imports=MODULE, or several with commas between them"
            )
        import_trusted(*filter(None, modules))


COMPLETING = "drest"
"""Name of the program during shell completion; otherwise the name of a command follows."""
NOT_OFFERED = {
    "--experimental-rerun": "it would run code from a file; call the command with the same arguments again",
    "--shell-completion": 'eval "$(drest -sc install=bash)" completes what you type',
}
"""Options of Hydra that these commands do not support, each with the remedy."""


def _check_options(arguments: list[str], config: str) -> None:
    """Raise for ``--key value``, ``-key=value`` and options that Hydra rejects, with the remedy.

    Hydra itself would print its usage.
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
            if not equals:
                following = arguments[index + 1 : index + 2]
                value = next((other for other in following if not re.search("^-|=", other)), "VALUE")
            name = flag.strip("-") or "KEY"
            raise UserError(f"{word}: values are written {name}={value}, without dashes; --help lists the keys")
        remedy = NOT_OFFERED.get(whole[0].replace("-sc", "--shell-completion"))
        if remedy and sys.argv[0] != COMPLETING:
            raise UserError(f"{word}: not supported here; {remedy}")

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message.removeprefix('argument ')}; --help lists the keys")

    parser.error = refuse  # type: ignore[method-assign]
    if "--version" not in arguments:  # which prints, and ends the program
        _check_folders(parser.parse_args(arguments), config)


def _check_folders(options: Any, config: str) -> None:
    """Raise for options of Hydra that would replace the configuration of a command, or seem to and do not."""
    from drest_torch.config.schema import config_folder

    if options.config_path is not None:
        raise UserError(
            f"--config-path={options.config_path}: not an option here; --config-dir=FOLDER adds options of your own, "
            "and from=RUN repeats a run"
        )
    name = options.config_name or config
    ours = config_folder() / f"{name}.yaml"
    file = Path(options.config_dir or os.devnull, f"{name}.yaml")
    if file.is_file() and ours.is_file():
        raise UserError(
            f"{file}: is not read, because {name} is a file of drest_torch; drest train from={options.config_dir} "
            "repeats a run, and files in --config-dir need other names"
        )
    if options.config_name is not None and ours.is_file() and name != config:
        raise UserError(f"--config-name={name}: belongs to another command; leave it out")


def key_values(words: list[str], schema: Any) -> Any:
    """Return an instance of a dataclass with the values of KEY=VALUE arguments.

    ``schema`` is the dataclass, or an instance of it that has the other values.
    """
    names = [entry.name for entry in fields(schema)]
    groups = [entry.name for entry in fields(schema) if "dict" in str(entry.type)]
    for word in words:
        key, equals, _ = word.partition("=")
        group, dot, _ = key.partition(".")
        if not equals or (group if dot and group in groups else key) not in names:
            raise UserError(f"{word}; expected KEY=VALUE with one of {', '.join(names)}")
        try:
            OmegaConf.from_dotlist([word])
        except YAMLError:
            raise UserError(unreadable(word)) from None
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.from_dotlist(words)))


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Print an error of the user as one sentence and exit with status 2."""
    try:
        yield
    except BrokenPipeError:
        raise
    except MISTAKES as error:
        stop(sentence_of(error))


def stop(sentence: str) -> None:
    """Print a sentence to standard error and exit with status 2."""
    print(f"drest_torch: {printable(' '.join(sentence.splitlines())):.2000}", file=sys.stderr)
    sys.exit(2)


def sentence_of(error: Exception) -> str:
    """Return the sentence for a user's error; raise any other error again."""
    if isinstance(error, MemoryError | RuntimeError):
        return _sentence_of_memory(error)
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give it one: {error.full_key}=VALUE"
    if isinstance(error, OSError) and error.strerror is not None:
        if error.filename is None:
            return error.strerror
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _sentence_of_memory(error: Exception) -> str:
    """Return the sentence for an error about memory, for which torch raises a `RuntimeError`."""
    if not isinstance(error, MemoryError) and not re.search("allocate memory|out of memory", str(error)):
        raise error
    size = ""
    if match := re.search(r"allocate (\d+) bytes", str(error)):
        size = f": {int(match[1]) / 2**30:,.1f} GiB at once"
    return (
        f"more memory was needed than there is{size}; use a smaller policy.width, algo.episodes or memory_gib, or "
        "fewer and smaller levels"
    )
