"""What ``--help`` prints: the options of a command, and each key with its value, its type and its meaning.

All are those of the dataclasses of the configuration, and none is written a second time here.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Collection
from dataclasses import Field, dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple, get_args, get_origin

from omegaconf import OmegaConf

from drest_torch.config.reading import GROUPS, settings, typed
from drest_torch.limits import limits_of

COLUMNS = 80
TYPES = {int: "whole number", float: "number", bool: "true or false", str: "text", dict: "mapping", Any: "any value"}


@dataclass(frozen=True)
class Command:
    """What the help says of a command."""

    purpose: str
    example: str
    config: str
    """The yaml file in `configs/`."""
    groups: tuple[str, ...]
    page: str


COMMANDS = {
    "train": Command(
        "Train an agent, and evaluate exactly what it learned.",
        "drest train algo=ppo levels=paper algo.lr=0.0005 seed=1",
        "config",
        GROUPS,
        "docs/howto/running.md",
    ),
    "evaluate": Command(
        "Evaluate a saved run, exactly or by sampling, on levels of your choice.",
        "drest evaluate run=runs/NAME levels=paper out=FILE.json",
        "evaluate",
        ("levels",),
        "docs/howto/evaluating.md",
    ),
    "check": Command(
        "Check an environment of your own before training in it: one sentence for each thing that is wrong, and exit "
        "status 1.",
        "drest check env.factory=my_module:make env.base=50 env.delays=[50]",
        "check",
        ("env",),
        "docs/howto/environments.md",
    ),
    "study": Command(
        "Run a study, or go on with it, and write its report.",
        "drest study study=example",
        "study",
        ("study",),
        "docs/howto/studies.md",
    ),
}


def help_text(name: str, *overrides: str) -> str:
    """Return what ``--help`` prints of a command, with the values that these further arguments choose."""
    this = COMMANDS[name]
    lines = [
        textwrap.fill(this.purpose, COLUMNS),
        f"\n  {this.example}\n\nGroups of values, of which one option is chosen with GROUP=OPTION:",
    ]
    for group, default in _defaults(this).items():
        taken = " [on two cores]" if group == "study" else f" ({default} by default)"
        lines += [f"\n{group}{taken}", *_options(group, name)]
    lines += ["\nKeys, set with KEY=VALUE, and the values that they have with these arguments:"]
    for _, section in groupby(keys_of(name, *overrides), lambda key: key.name.rpartition(".")[0]):
        for key in section:
            lines += ["", _folded("  ", f"{key.name}={key.value}  ({key.type})"), _folded("      ", key.meaning)]
    other = {"study": "study=NAME", "train": "algo=NAME or env=NAME", "check": "env=NAME"}.get(name, "levels=NAME")
    lines += [
        f"\n{other} before --help shows the keys and values of that choice.",
        *(
            ["imports=MODULE,… names modules of your own that a stored run uses."]
            if name in ("train", "evaluate")
            else []
        ),
        f"{this.page} tells more.",
        "-m runs each combination of KEY=A,B: a sweep. --cfg job prints values as YAML.",
    ]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------- keys


class KeyHelp(NamedTuple):
    """A key of a command."""

    name: str
    value: str
    type: str
    meaning: str
    choices: tuple[str, ...]
    """The values that it can have, where they can be listed."""


def keys_of(command: str, *overrides: str) -> list[KeyHelp]:
    """Return the keys of a command, the single ones first."""
    from drest_torch.config.compose import compose

    if command == "study":
        cfg = _study(overrides)
    else:
        cfg = compose(*overrides, name=COMMANDS[command].config)
    found = []
    for key, field, hint, within in settings(cfg):
        if key not in ("study", "study.quick", "study.name"):
            plain: Any = OmegaConf.to_container(within, resolve=False)
            kind: Any = OmegaConf.get_type(within)
            meaning = _docstrings(kind).get(field.name, "")
            found.append(KeyHelp(key, typed(plain[field.name]), _type(field, hint), meaning, _choices(field, hint)))
    return found


def _study(overrides: Collection[str]) -> Any:
    """Return the values of the command `study`, and those of a study if one is named: to import all takes seconds."""
    from drest_torch.config.compose import register
    from drest_torch.studies.catalogue import StudyCommand, compose_study, study_schemas

    names = [word.removeprefix("study=") for word in overrides if word.startswith("study=")]
    if names:
        register(study_schemas([f"study={names[-1]}"]))
        return compose_study(names[-1], *(word for word in overrides if not word.startswith("study=")))
    return OmegaConf.merge(OmegaConf.structured(StudyCommand), {"study": None})


def _type(each: Field[Any], hint: Any) -> str:
    """Return the type of a field in words, with its limits."""
    from drest_torch.config.checks import PATHS

    if kind := each.metadata.get("kind"):
        return str(kind)
    several = get_args(hint) if type(None) in get_args(hint) else (hint,)
    inner = next(one for one in several if one is not type(None))
    word = "path" if each.name in PATHS and inner is str else TYPES.get(get_origin(inner) or inner, "")
    if get_origin(inner) is list:
        word = f"list of {TYPES.get(get_args(inner)[0], 'value')}s".replace("any values", "values")
    if limits := limits_of(each):
        word = str(limits).replace("a number", word, 1) if limits.choices is None else str(limits)
    return f"{word}, or null" if len(several) > 1 else word


def _choices(each: Field[Any], hint: Any) -> tuple[str, ...]:
    limits = limits_of(each)
    if limits is not None and limits.choices is not None:
        return tuple(limits.choices)
    return ("true", "false") if hint is bool else ()


# --------------------------------------------------------------------------------------- meanings


@lru_cache
def _docstrings(kind: type) -> dict[str, str]:
    """Return what a dataclass and its bases say of their fields, in the text below each."""
    said: dict[str, str] = {}
    for base in (*reversed(kind.__mro__), getattr(kind, "documented_by", object)):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):
            continue  # a class without a source of its own
        for entry, below in pairwise(getattr(tree, "body", [])):
            if isinstance(entry, ast.AnnAssign) and isinstance(below, ast.Expr):
                said[ast.unparse(entry.target)] = " ".join(ast.literal_eval(below.value).split())
    return said


# ---------------------------------------------------------------------------------------- options


def _defaults(this: Command) -> dict[str, str]:
    """Return the option of each group that is taken where the user chooses none."""
    from drest_torch.config.schema import config_folder

    entries: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / f"{this.config}.yaml").defaults)
    chosen = dict(pair for entry in entries if isinstance(entry, dict) for pair in entry.items())
    return {group: chosen[group] for group in this.groups}


def _options(group: str, command: str) -> list[str]:
    """Return a line for each option of a group, and one for all the worlds."""
    from drest_torch.config.compose import options
    from drest_torch.envs.levels import WORLDS

    files = options(group)
    worlds = [name for name in files if name in WORLDS] if group == "levels" else []
    if command == "train":
        files.pop("own", None)  # which are the test levels of a run that is evaluated
    if command == "check":
        files.pop("gridworld", None)
    width = max(len(name) for name in files if name not in worlds)
    lines = [
        _folded(f"  {name:{width}}  ", first_sentence(path.read_text(encoding="utf-8")) + _duration(group, name))
        for name, path in files.items()
        if name not in worlds
    ]
    return [*lines, _folded("  ", f"One of the paper's gridworlds: {', '.join(worlds)}.")] if worlds else lines


def _duration(group: str, name: str) -> str:
    """Return how long a study of this project takes, in brackets."""
    if group != "study":
        return ""
    from drest_torch.studies.catalogue import TAKES

    return f" [{TAKES[name]}]" if name in TAKES else ""


def _folded(lead: str, text: str) -> str:
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def first_sentence(text: str) -> str:
    """Return the first sentence of the comment that a yaml file begins with, or of the docstring of a module."""
    comment = re.match(r"(# .*\n)+", text)
    if comment is None and text.startswith('"""'):
        words = " ".join(text.split('"""')[1].partition("\n\n")[0].split())
    else:
        words = "" if comment is None else comment[0].replace("\n# ", " ").removeprefix("# ").strip()
    return re.split(r"(?<=\.) ", words)[0]
