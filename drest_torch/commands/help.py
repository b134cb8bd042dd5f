"""The text of ``--help``: options of a command, and its keys with value, type and meaning.

All of it is read from the dataclasses of the configuration.
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
    """Description of a command for its help."""

    purpose: str
    example: str
    config: str
    """Name of the yaml file in `configs/`."""
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
        "Check an environment of your own before training in it: one sentence for each problem, and exit status 1.",
        "drest check env.factory=my_module:make env.base=50 env.delays=[50]",
        "check",
        ("env",),
        "docs/howto/environments.md",
    ),
    "study": Command(
        "Run or resume a study, and write its report.",
        "drest study study=example",
        "study",
        ("study",),
        "docs/howto/studies.md",
    ),
}


def help_text(name: str, *overrides: str) -> str:
    """Return the help of a command, with the values that these further arguments choose."""
    this = COMMANDS[name]
    lines = [
        textwrap.fill(this.purpose, COLUMNS),
        f"\n  {this.example}\n\nGroups of values, each with options for GROUP=OPTION:",
    ]
    for group, default in _defaults(this).items():
        note = f" ({default} by default)"
        if group == "study":
            note = " [on two cores]"
        lines += [f"\n{group}{note}", *_options(group, name)]
    lines += ["\nKeys, set with KEY=VALUE, and their values with these arguments:"]
    for _, section in groupby(keys_of(name, *overrides), lambda key: key.name.rpartition(".")[0]):
        for key in section:
            lines += ["", _folded("  ", f"{key.name}={key.value}  ({key.type})"), _folded("      ", key.meaning)]
    other = {"study": "study=NAME", "train": "algo=NAME or env=NAME", "check": "env=NAME"}.get(name, "levels=NAME")
    lines.append(f"\n{other} before --help shows the keys and values of that choice.")
    if name == "train":
        lines.append("from=RUN repeats a run with its values, in a new folder; other keys change them.")
    if name in ("train", "evaluate"):
        lines.append("imports=MODULE,… names modules of your own that a stored run uses.")
    if name == "train":
        lines.append("-m … workers=N executes N runs of a sweep at once.")
    lines += [
        f"See also {this.page}.",
        "-m runs a sweep over all combinations of KEY=A,B. --cfg job prints values as YAML.",
    ]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------- keys


class KeyHelp(NamedTuple):
    """A key of a command, as its help prints it."""

    name: str
    value: str
    type: str
    meaning: str
    choices: tuple[str, ...]
    """Possible values, if they can be listed."""


def keys_of(command: str, *overrides: str) -> list[KeyHelp]:
    """Return the keys of a command, those without a group first."""
    from drest_torch.config.compose import compose

    if command == "study":
        cfg = _study(overrides)
    else:
        cfg = compose(*overrides, name=COMMANDS[command].config)
    keys = []
    for key, field, hint, within in settings(cfg):
        if key not in ("study", "study.quick", "study.name"):
            plain: Any = OmegaConf.to_container(within, resolve=False)
            kind: Any = OmegaConf.get_type(within)
            meaning = _docstrings(kind).get(field.name, "")
            keys.append(KeyHelp(key, typed(plain[field.name]), _type(field, hint), meaning, _choices(field, hint)))
    return keys


def keys_of_class(kind: type) -> str:
    """Return the lines about the fields of a dataclass, for a command without Hydra."""
    lines = []
    for key, field, hint, within in settings(OmegaConf.structured(kind)):
        lines.append(_folded("  ", f"{key}={typed(within[key])}  ({_type(field, hint)})"))
        lines.append(_folded("      ", _docstrings(kind)[key]))
    return "\n".join(lines)


def _study(overrides: Collection[str]) -> Any:
    """Return the values of the command `study`, including those of a named study; importing all takes seconds."""
    from drest_torch.config.compose import register
    from drest_torch.studies.catalogue import StudyCommand, compose_study, study_schemas

    names = [word.removeprefix("study=") for word in overrides if word.startswith("study=")]
    if names:
        register(study_schemas([f"study={names[-1]}"]))
        return compose_study(names[-1], *(word for word in overrides if not word.startswith("study=")))
    return OmegaConf.merge(OmegaConf.structured(StudyCommand), {"study": None})


def _type(field: Field[Any], hint: Any) -> str:
    """Return the type of a field in words, with its limits."""
    if kind := field.metadata.get("kind"):
        return str(kind)
    allows_null = type(None) in get_args(hint)
    if allows_null:
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    name = _type_name(field, hint)
    limits = limits_of(field)
    if limits is not None and limits.choices is None:
        name = str(limits).replace("a number", name, 1)
    elif limits is not None:
        name = str(limits)
    if allows_null:
        return f"{name}, or null"
    return name


def _type_name(field: Field[Any], hint: Any) -> str:
    """Return the name of a field's type without null and limits."""
    from drest_torch.config.checks import PATHS

    if field.name in PATHS and hint is str:
        return "path"
    if get_origin(hint) is list:
        return f"list of {TYPES.get(get_args(hint)[0], 'value')}s".replace("any values", "values")
    return TYPES.get(get_origin(hint) or hint, "")


def _choices(field: Field[Any], hint: Any) -> tuple[str, ...]:
    """Return the possible values of a field, if they can be listed."""
    limits = limits_of(field)
    if limits is not None and limits.choices is not None:
        return tuple(limits.choices)
    if hint is bool:
        return ("true", "false")
    return ()


# --------------------------------------------------------------------------------------- meanings


@lru_cache
def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass and its bases, by field."""
    docstrings: dict[str, str] = {}
    for base in (*reversed(kind.__mro__), getattr(kind, "documented_by", object)):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):
            continue  # a class without a source
        for entry, below in pairwise(getattr(tree, "body", [])):
            if isinstance(entry, ast.AnnAssign) and isinstance(below, ast.Expr):
                docstrings[ast.unparse(entry.target)] = " ".join(ast.literal_eval(below.value).split())
    return docstrings


# ---------------------------------------------------------------------------------------- options


def _defaults(this: Command) -> dict[str, str]:
    """Return the default option of each group."""
    from drest_torch.config.schema import config_folder

    entries: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / f"{this.config}.yaml").defaults)
    defaults = dict(pair for entry in entries if isinstance(entry, dict) for pair in entry.items())
    return {group: defaults[group] for group in this.groups}


def _options(group: str, command: str) -> list[str]:
    """Return a line for each option of a group, and a line for all worlds."""
    from drest_torch.config.compose import options
    from drest_torch.envs.levels import WORLDS

    files = options(group)
    worlds: list[str] = []
    if group == "levels":
        worlds = [name for name in files if name in WORLDS]
    if command == "train":
        files.pop("own", None)  # only for evaluation: the test levels of a run
    if command == "check":
        files.pop("gridworld", None)
    width = max(len(name) for name in files if name not in worlds)
    lines = [
        _folded(f"  {name:{width}}  ", first_sentence(path.read_text(encoding="utf-8")) + _duration(group, name))
        for name, path in files.items()
        if name not in worlds
    ]
    if worlds:
        lines.append(_folded("  ", f"One of the paper's gridworlds: {', '.join(worlds)}."))
    return lines


def _duration(group: str, name: str) -> str:
    """Return the duration of a study of this project in brackets."""
    if group != "study":
        return ""
    from drest_torch.studies.catalogue import TAKES

    if name not in TAKES:
        return ""
    return f" [{TAKES[name]}]"


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
    """Return the first sentence of a yaml file's first comment, or of a module's docstring."""
    comment = re.match(r"(# .*\n)+", text)
    if comment is None and text.startswith('"""'):
        words = " ".join(text.split('"""')[1].partition("\n\n")[0].split())
    else:
        words = ""
        if comment is not None:
            words = comment[0].replace("\n# ", " ").removeprefix("# ").strip()
    return re.split(r"(?<=\.) ", words)[0]
