"""Registries of modules by name: of this project, of entry points in installed packages, and of the user's code.

A network, an algorithm or a logger is a module with certain attributes. A name in a configuration is looked up as

1. a module of this project, such as ``mlp`` for `drest_torch.algos.networks.mlp`,
2. an entry point of an installed package, whose value is the path of a module,
3. the path of any module that Python can import, such as ``my_package.my_network``.

A user who writes ``env.factory=my_cartpole:make`` on the command line wants this function called. In the folder of a
run the same text is untrusted: it could be ``os:abort``. Stored configurations may therefore only name modules of this
project, entry points of installed packages, modules that the user's program has imported, and modules in ``imports=``
on the command line.
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
    """The modules of one kind by name; iteration yields the registered names."""

    key: str
    """The key of the configuration, for messages."""
    modules: str
    """The path of this project's modules with ``{}`` for the name, such as ``drest_torch.algos.networks.{}``."""
    attributes: tuple[str, ...]
    """The required attributes of a module of this kind."""
    group: str
    """The group of the entry points."""

    def __getitem__(self, name: str) -> ModuleType:
        """Return the module with this name; the error for an unknown name lists the registered names."""
        if name.isidentifier() and self._is_builtin(name):
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
        """Refuse a name without a module of this kind."""
        self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self.builtin_names(), *sorted(entry_points(group=self.group).names)))

    def is_registered(self, name: str) -> bool:
        """Return whether a name is registered, without importing its module."""
        is_builtin = name.isidentifier() and find_spec(self.modules.format(name)) is not None
        return is_builtin or name in entry_points(group=self.group).names

    def builtin_names(self) -> Iterator[str]:
        """Yield the names of this project's modules of this kind."""
        package, _, after_name = self.modules.partition(".{}")
        suffix = after_name.partition(".")[0]
        for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if name.endswith(suffix) and self._is_builtin(name.removesuffix(suffix)):
                yield name.removesuffix(suffix)

    def file(self, name: str) -> Path:
        """Return the file of one of this project's modules, without importing it."""
        spec = find_spec(self.modules.format(name))
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin)

    def _is_builtin(self, name: str) -> bool:
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
    """Return the names that a module defines or imports, read from its source, because importing all modules takes
    seconds."""
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
    """Import a module, or return None if there is none at this path; errors in the module itself are raised."""
    if not all(part.isidentifier() for part in path.split(".")):
        return None
    if path.partition(".")[0] != "drest_torch":
        search_working_directory()
    try:
        if find_spec(path) is None:
            return None
    except ModuleNotFoundError as error:  # the parent is missing, or is not a package
        if f"{path}.".startswith(f"{error.name}."):
            return None
        raise
    except ValueError:  # a module without a spec, such as __main__
        return None
    return importlib.import_module(path)


# ------------------------------------------------------------------------------- code of the user


def import_trusted(*modules: str) -> None:
    """Import and trust modules, also from the working directory; stored configurations may then name them."""
    before = list(sys.path)
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ConfigError(f"imports={module}: is not the name of a module; expected one such as package.module")
        search_working_directory()
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


def search_working_directory() -> None:
    """Add the working directory to the search path, for modules that the user names."""
    if (directory := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.append(directory)  # last, so that no library is hidden


def drop_working_directory() -> None:
    """Remove the working directory from the start of the search path, where ``python -m`` puts it."""
    if sys.path and sys.path[0] in ("", os.getcwd()) and not _contains_project(sys.path[0]):
        del sys.path[0]


@contextlib.contextmanager
def without_working_directory() -> Iterator[None]:
    """Remove the working directory, with possibly untrusted files, from the search path of modules and plugins."""
    directory, before = os.getcwd(), list(sys.path)
    sys.path[:] = [path for path in before if _contains_project(path) or os.path.abspath(path) != directory]
    try:
        yield
    finally:
        sys.path[:] = before


def _contains_project(path: str) -> bool:
    return Path(__file__).resolve().parents[1] == Path(path).resolve()


def function(path: str, key: str) -> Callable[..., Any]:
    """Return the function at ``package.module:function``."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ConfigError(f"{key}={path}; expected package.module:function")
    search_working_directory()
    try:
        attribute = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}={path} cannot be imported: {error}; check the path, and PYTHONPATH") from None
    return cast(Callable[..., Any], attribute)


def trust(*modules: str) -> None:
    """Add modules to those that the user trusts, without importing them."""
    _NAMED.update(modules)


def trusted_modules() -> list[str]:
    """Return the modules that the user has named in this process, for the processes that it starts."""
    return sorted(_NAMED)


def refuse_foreign(path: Path, key: str, module: str) -> None:
    """Refuse a module in the stored file at this path that the user has not named."""
    if not is_trusted(module):
        raise CheckpointError(
            f"{path}: {key} names {module}, a module outside drest_torch, and this file may be a stranger's; if "
            f"you trust it, add imports={module} to the command, or import it before you load the agent"
        )


def is_trusted(module: str) -> bool:
    """Return whether the user has named a module, or has imported it from outside Python's libraries."""
    if module in _NAMED:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module.partition(".")[0] == "drest_torch":
        return False
    libraries = {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(Path(file).resolve().is_relative_to(Path(library).resolve()) for library in libraries)
