"""Unique names: no public class or module of the product shares its name with another."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.helpers.documents import ROOT
from tests.house.density import FOLDERS

MOST_AT_THE_TOP = 20
"""Modules at the top of `drest_torch`, besides its `__init__.py`."""
STUDIES = tuple(str(path.relative_to(ROOT)) for path in (ROOT / "drest_torch" / "studies").iterdir() if path.is_dir())
# class: the folders whose modules all define it, because configurations find it by this name
IN_EVERY_MODULE = {
    "Config": ("algos", "algos/objectives", "drest_torch/studies", *STUDIES),
    "Objective": ("algos/objectives",),
    "Key": ("drest_torch/studies", *STUDIES),
}
# module: why its name is repeated
REPEATED = {
    "__init__": "a package has one",
    "base": "a room has one for the code that its modules share",
    "config": "the dataclasses of a room",
    "claims": "those of a study",
    "figures": "those of a study, and their building blocks in `report`",
    "pages": "the figures and tables of a study's page",
    "runs": "those of a study",
    "measured": "the rows of a study",
    "evaluation": "that of agents, and runs of the study `generalization` that end with one",
    "environments": "a task, and a study of such tasks",
    "scores": "of agents: on unseen levels in `studies`, in forks and menus in `choices`",
    "memory": "agents that remember in the study `randomness`, and its mathematics in `choices`",
}


def paths():
    """Return the paths of the modules of the product, relative to the root."""
    return [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def classes(path):
    """Return the names of the public classes of a module."""
    nodes = ast.parse((ROOT / path).read_bytes()).body
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def repeated(places):
    """Return the names that occur in more than one place."""
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_no_two_public_classes_have_the_same_name():
    places = defaultdict(list)
    for path in paths():
        for name in classes(path):
            folder = str(path.parent if path.stem != "__init__" else path.parent.parent)
            if folder not in IN_EVERY_MODULE.get(name, ()):
                places[name].append(str(path))
    assert len(places) > 100
    assert repeated(places) == {}


def test_no_two_modules_have_the_same_name():
    places = defaultdict(list)
    for path in paths():
        places[path.stem].append(str(path))
    assert len(places) > 100
    assert repeated(places).keys() <= REPEATED.keys(), repeated(places)


def test_the_top_of_the_package_holds_few_modules():
    modules = {path.stem for path in Path(ROOT / "drest_torch").glob("*.py")} - {"__init__"}
    assert 10 < len(modules) <= MOST_AT_THE_TOP, sorted(modules)
