"""Find modules by name: in this project, in an installed package that announces them, or in the user's own code.

A network, an algorithm or a logger is a module with certain attributes. A name in a configuration is looked up as

1. a module of the package where this project keeps its own, such as ``mlp`` for `drest_torch.algos.networks.mlp`,
2. an entry point of an installed package, whose value is the path of a module,
3. the path of any module that Python can import, such as ``my_package.my_network``.

Who writes ``env.factory=my_cartpole:make`` on a command line wants that function called. The same words in the folder
of a run may be a stranger's, who could as well write ``os:abort``. So a configuration that was stored may name what
belongs to this project, what an installed package announces by an entry point, and modules that the user's program has
imported or that ``imports=`` on the command's line names.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from drest_torch.errors import CheckpointError, ConfigError, blaming

_NAMED = set[str]()
"""The modules that the user has named in this process."""


@dataclass(frozen=True)
class Registry:
    """The modules of one kind by name; iteration yields the names that need no module path."""

    key: str
    """The key of the configuration, for messages."""
    modules: str
    """The path of this project's modules, with ``{}`` for the name, such as ``drest_torch.algos.networks.{}``."""
    attributes: tuple[str, ...]
    """The attributes that a module of this kind must have."""
    group: str
    """The group of the entry points."""

    def __getitem__(self, name: str) -> ModuleType:
        """Return the module with this name; the error for an unknown name lists the known ones."""
        if name.isidentifier() and self._is_own(name):
            return importlib.import_module(self.modules.format(name))
        paths = [entry.module for entry in entry_points(group=self.group, name=name)]
        module = importlib.import_module(paths[0]) if paths else _imported(name)
        if module is None:
            raise ConfigError(
                f"{self.key}={name}; expected one of {', '.join(self)}, or the path of a module that can be imported"
            )
        if absent := self._absent(module):
            raise ConfigError(
                f"{self.key}={name}, but the module {module.__name__} has no {' and no '.join(absent)}; "
                f"add it, or choose one of {', '.join(self)}"
            )
        return module

    def check(self, name: str) -> None:
        """Refuse a name without such a module."""
        self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self.own(), *sorted(entry_points(group=self.group).names)))

    def is_known(self, name: str) -> bool:
        """Return whether a name needs no module path; nothing is imported to find out."""
        own = name.isidentifier() and find_spec(self.modules.format(name)) is not None
        return own or name in entry_points(group=self.group).names

    def own(self) -> Iterator[str]:
        """Yield the names of this project's modules of this kind."""
        package, _, rest = self.modules.partition(".{}")
        suffix = rest.partition(".")[0]
        for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if name.endswith(suffix) and self._is_own(name.removesuffix(suffix)):
                yield name.removesuffix(suffix)

    def file(self, name: str) -> Path:
        """Return the file of one of this project's modules; nothing is imported to find it."""
        spec = find_spec(self.modules.format(name))
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin)

    def _is_own(self, name: str) -> bool:
        path = self.modules.format(name)
        if path in sys.modules:
            return not self._absent(sys.modules[path])
        spec = find_spec(path)
        if spec is None or spec.origin is None:
            return False
        return {*self.attributes} <= _names_in(Path(spec.origin))

    def _absent(self, module: ModuleType) -> list[str]:
        return [attribute for attribute in self.attributes if not hasattr(module, attribute)]


def _names_in(file: Path) -> set[str]:
    """Return the names that a module defines or imports, from its source: to import all modules takes seconds."""
    names = set[str]()
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _imported(path: str) -> ModuleType | None:
    """Import a module, or return None if there is none at this path. An error in the module itself is raised."""
    if not all(part.isidentifier() for part in path.split(".")):
        return None
    if path.partition(".")[0] != "drest_torch":
        search_here()
    try:
        if find_spec(path) is None:
            return None
    except ModuleNotFoundError as error:  # a parent package is missing, or is not a package
        if f"{path}.".startswith(f"{error.name}."):
            return None
        raise
    except ValueError:  # a module without a spec, such as __main__
        return None
    return importlib.import_module(path)


# ------------------------------------------------------------------------------- a user's own code


def use(*modules: str) -> None:
    """Import modules, also from the working directory; configurations that were stored may name them from here on."""
    before = list(sys.path)
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ConfigError(f"imports={module}: is not the name of a module; expected one such as package.module")
        search_here()
        try:
            with blaming(f"imports={module}"):
                _import(module)
        finally:
            sys.path[:] = before
    trust(*modules)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"imports={module} cannot be imported: {error}; check the name, and PYTHONPATH") from None


def search_here() -> None:
    """Let Python find modules in the working directory too, as a user expects who names one."""
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.append(here)  # after all else: no library is hidden


def leave_here() -> None:
    """Take out of Python's search what ``python -m`` puts first: the working directory, for one behaviour of both."""
    if sys.path and sys.path[0] in ("", os.getcwd()) and not _holds_this(sys.path[0]):
        del sys.path[0]


@contextlib.contextmanager
def not_here() -> Iterator[None]:
    """Keep the working directory, where a stranger's files may lie, out of where Python finds modules and plugins."""
    here, before = os.getcwd(), list(sys.path)
    sys.path[:] = [place for place in before if _holds_this(place) or os.path.abspath(place) != here]
    try:
        yield
    finally:
        sys.path[:] = before


def _holds_this(place: str) -> bool:
    return Path(__file__).resolve().parents[1] == Path(place).resolve()


def function(path: str, key: str) -> Callable[..., Any]:
    """Return the function at ``package.module:function``."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ConfigError(f"{key}={path}; expected package.module:function")
    search_here()
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}={path} cannot be imported: {error}; check the path, and PYTHONPATH") from None
    return cast(Callable[..., Any], found)


def trust(*modules: str) -> None:
    """Remember modules that the user has named, without importing them."""
    _NAMED.update(modules)


def refuse_foreign(path: Path, key: str, module: str) -> None:
    """Refuse a module that the stored file at this path names, if the user has not named it as well."""
    if not is_trusted(module):
        raise CheckpointError(
            f"{path}: {key} names {module}, a module outside drest_torch, and this file may be a stranger's; if "
            f"you trust it, add imports={module} to the command, or import it before you load the agent"
        )


def is_trusted(module: str) -> bool:
    """Return whether the user has named a module, or has imported one that is neither Python's nor installed."""
    if module in _NAMED:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module.partition(".")[0] == "drest_torch":
        return False
    libraries = {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(Path(file).resolve().is_relative_to(Path(library).resolve()) for library in libraries)
