"""Find modules by name: in this project, in an installed package that announces them, or in the user's own code.

A network, an algorithm or a logger is a module with certain attributes. A name in a configuration is looked up as

1. a module of the package where this project keeps its own, such as ``mlp`` for `drest_torch.algos.networks.mlp`,
2. an entry point of an installed package, whose value is the path of a module,
3. the path of any module that Python can import, such as ``my_package.my_network``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType

from drest_torch.errors import ConfigError
from drest_torch.own_code import search_here


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

    def _is_own(self, name: str) -> bool:
        module = _imported(self.modules.format(name))
        return module is not None and not self._absent(module)

    def _absent(self, module: ModuleType) -> list[str]:
        return [attribute for attribute in self.attributes if not hasattr(module, attribute)]


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
