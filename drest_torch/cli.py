"""What the commands share: Hydra, the help, and one sentence for a user's mistake.

Torch and Hydra are imported when a command is called, after its first line is on the screen.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from drest_torch.errors import UserError, shown
from drest_torch.files import flush_output, open_streams
from drest_torch.tracking.stages import announce

MISTAKES = (UserError, OSError, OmegaConfBaseException, MemoryError, RuntimeError)
"""Errors that are printed as a sentence; of `RuntimeError` only those of memory."""
COLUMNS = 80
FULL_ERROR = "HYDRA_FULL_ERROR"
"""Where this is set, Hydra leaves it to us to print an error."""


@dataclass(frozen=True)
class Command:
    """What the help says of a command."""

    purpose: str
    example: str
    config: str
    """The yaml file in `configs/`."""
    groups: tuple[str, ...]
    page: str
    lists_values: bool = False
    """Whether the help lists the values that belong to no group."""


COMMANDS = {
    "train": Command(
        "Train an agent, and evaluate exactly what it learned.",
        "python -m drest_torch.train algo=ppo levels=paper algo.lr=0.0005 seed=1",
        "config",
        ("algo", "reward", "levels", "env", "policy", "logger"),
        "docs/howto/running.md",
    ),
    "evaluate": Command(
        "Evaluate a saved run, exactly or by sampling, on levels of your choice.",
        "python -m drest_torch.evaluate run=runs/NAME levels=paper out=FILE.json",
        "evaluate",
        ("levels",),
        "docs/howto/running.md",
        lists_values=True,
    ),
    "study": Command(
        "Run a study, or go on with it, and write its report.",
        "python -m drest_torch.study study=example",
        "study",
        ("study",),
        "docs/howto/studies.md",
    ),
}


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
            with streams():
                announce(sys.argv[1:])
                if prepare is not None:
                    stop_on_mistakes(lambda _: prepare())(None)
                _run(name, main)

        return run

    return decorate


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Open the program's input and outputs, and write what is left of its output; Ctrl-C ends it with 130."""
    open_streams()
    try:
        yield
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

    if {"-h", "--help"} & set(sys.argv[1:]):
        print(help_text(name))
        return
    if sentence := _of_another_style(sys.argv[1:]):
        stop(sentence)
    if name == "train":
        sys.argv[1:] = implied(sys.argv[1:])
    register()
    is_composed = False

    def begin(cfg: Any) -> None:
        nonlocal is_composed
        is_composed = True
        stop_on_mistakes(main)(cfg)

    composed = hydra.main(
        version_base=VERSION_BASE, config_path=str(config_folder()), config_name=COMMANDS[name].config
    )(begin)
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        composed()
    except HydraException as error:
        stop(explain(error))
    except Exception as error:
        if is_composed:
            raise
        stop(explain(error))  # Hydra and OmegaConf raise errors of all kinds for what a user types
    finally:
        os.environ.pop(FULL_ERROR) if before is None else os.environ.update({FULL_ERROR: before})


def _of_another_style(arguments: list[str]) -> str:
    """Return what to write in place of ``--key value``, or nothing where no argument is of this kind."""
    from hydra._internal.utils import get_args_parser

    known = [flag for action in get_args_parser()._actions for flag in action.option_strings]
    for index, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if word.startswith("--") and not any(option.startswith(flag) for option in known):
            value = value if equals else next(iter(arguments[index + 1 : index + 2]), "VALUE")
            return f"{word}: values are written {flag.lstrip('-')}={value}, without dashes; --help prints what there is"
    return ""


def stop_on_mistakes(main: Callable[[Any], None]) -> Callable[[Any], None]:
    """Print an error that the user can correct as one sentence, and exit with status 2 instead of a traceback."""

    @functools.wraps(main)
    def wrapped(cfg: Any) -> None:
        try:
            main(cfg)
        except BrokenPipeError:  # nobody reads the output any more
            sys.exit(0)
        except MISTAKES as error:
            stop(sentence_of(error))

    return wrapped


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


# ------------------------------------------------------------------------------------------- help


def help_text(name: str) -> str:
    """Return what ``--help`` prints."""
    this = COMMANDS[name]
    lines = [
        textwrap.fill(this.purpose, COLUMNS),
        f"\n  {this.example}\n\nGroups of values, of which one option is chosen with GROUP=OPTION:",
    ]
    for group, default in _defaults(this).items():
        taken = "" if group == "study" else f" ({default} by default)"
        lines += [f"\n{group}{taken}", *_described(group, name)]
    if this.lists_values:
        lines += ["\nSingle values:", *_values(this)]
    lines += [
        "\nSingle values are set with KEY=VALUE. --cfg job prints every key with its value;",
        f"{this.page} and the comments in configs/ say what they mean.",
        "-m runs every combination of KEY=A,B. --hydra-help tells the rest.",
    ]
    return "\n".join(lines)


def _defaults(this: Command) -> dict[str, str]:
    """Return the option of each group that is taken where the user chooses none."""
    from drest_torch.config.schema import config_folder

    entries: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / f"{this.config}.yaml").defaults)
    chosen = dict(pair for entry in entries if isinstance(entry, dict) for pair in entry.items())
    return {group: chosen[group] for group in this.groups}


def _described(group: str, command: str) -> list[str]:
    """Return a line for each option of a group, and one for all the worlds."""
    from drest_torch.config.compose import options
    from drest_torch.envs.levels import WORLDS

    files = options(group)
    worlds = [name for name in files if name in WORLDS] if group == "levels" else []
    if command == "train":
        files.pop("own", None)  # which are the test levels of a run that is evaluated
    width = max(len(name) for name in files if name not in worlds)
    lines = [
        _folded(f"  {name:{width}}  ", first_sentence(path.read_text(encoding="utf-8")))
        for name, path in files.items()
        if name not in worlds
    ]
    return [*lines, _folded("  ", f"One of the paper's gridworlds: {', '.join(worlds)}.")] if worlds else lines


def _values(this: Command) -> list[str]:
    """Return a line for each value of a command's own file, with its comment there."""
    from drest_torch.config.schema import config_folder

    text = (config_folder() / f"{this.config}.yaml").read_text(encoding="utf-8")
    found = re.findall(r"^((?:# .*\n)+)(\w+): (.+)$", text, re.MULTILINE)
    width = max(len(f"{key}={value}") for _, key, value in found)
    return [
        _folded(f"  {f'{key}={value}':{width}}  ", " ".join(re.findall("# (.*)", note))) for note, key, value in found
    ]


def _folded(lead: str, text: str) -> str:
    return textwrap.fill(text, COLUMNS, initial_indent=lead, subsequent_indent=" " * len(lead))


def first_sentence(text: str) -> str:
    """Return the first sentence of the comment that a yaml file begins with, or of the docstring of a module."""
    comment = re.match(r"(# .*\n)+", text)
    if comment is None and text.startswith('"""'):
        words = " ".join(text.split('"""')[1].partition("\n\n")[0].split())
    else:
        words = "" if comment is None else comment[0].replace("\n# ", " ").removeprefix("# ").strip()
    return re.split(r"(?<=\.) ", words)[0]
