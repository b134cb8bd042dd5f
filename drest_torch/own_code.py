"""Code of a user's own that a configuration names, and whether it may be run.

Who writes ``env.factory=my_cartpole:make`` on a command line wants that function called. The same words in the folder
of a run may be a stranger's, who could as well write ``os:abort``. So a configuration that was stored may name what
belongs to this project, what an installed package announces by an entry point, and modules that the user's program has
imported or that ``imports=`` on the command's line names.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from drest_torch.errors import ConfigError

_NAMED = set[str]()
"""The modules that the user has named in this process."""


def use(*modules: str) -> None:
    """Import modules, also from the working directory; configurations that were stored may name them from here on."""
    before = list(sys.path)
    for module in modules:
        search_here()
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(f"imports={module} cannot be imported: {error}; check the name, and PYTHONPATH") from None
        finally:
            sys.path[:] = before
    trust(*modules)


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


def is_trusted(module: str) -> bool:
    """Return whether the user has named a module, or has imported one that is neither Python's nor installed."""
    if module in _NAMED:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module.partition(".")[0] == "drest_torch":
        return False
    libraries = {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(Path(file).resolve().is_relative_to(Path(library).resolve()) for library in libraries)
