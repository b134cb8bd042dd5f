"""The order of imports: each floor of the project imports only itself and the floors below it, without circles.

All import statements are checked, also inside functions and under ``if TYPE_CHECKING``. Imports by name at run time
(`importlib`) are not.
"""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest

from drest_torch import _MODULES as WHERE
from tests.helpers.commands import python
from tests.helpers.documents import ROOT

LOWEST = "_version counting errors files limits metrics outputs registry reward theory timer transforms"
MATHEMATICS = {f"drest_torch.{name}" for name in LOWEST.split()}
"""The modules of the lowest floor besides `drest_torch` itself; a package includes all its modules."""
COMMANDS = "train evaluate check study compare commands __main__"
ENTRY_POINTS = {f"drest_torch.{name}" for name in COMMANDS.split()}
"""The commands, and the package of their shared code."""
WITH_HYDRA = {*ENTRY_POINTS, "drest_torch.config.compose", "drest_torch.config.mistakes"}
"""The only modules that may import Hydra, so that an agent can be loaded and evaluated without it."""

# floor: the floors it may import
BELOW = {
    "mathematics": {"mathematics"},
    "envs": {"mathematics", "envs"},
    "algos": {"mathematics", "algos"},  # specs and batches, but never a level
    "application": {"mathematics", "envs", "algos", "application"},
    "entry point": {"mathematics", "envs", "algos", "application", "entry point"},
}
MATHEMATICS_LIBRARIES = {"torch", "torchrl", "tensordict", "numpy"}
"""The libraries that the lowest floor may import besides the standard library."""


def lies_in(module, package):
    """Return whether a module is a package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def among(candidates, packages):
    """Return the modules that are one of these packages or lie in one."""
    return sorted(module for module in candidates if any(lies_in(module, package) for package in packages))


def floor_of(module):
    """Return the floor of a module of this project, or None for a library."""
    if module == "drest_torch" or among([module], MATHEMATICS):
        return "mathematics"
    if among([module], ENTRY_POINTS):
        return "entry point"
    top, _, rest = module.partition(".")
    if top in ("tests", "benchmarks", "configs"):
        return top  # no floor may import it
    if top != "drest_torch":
        return None
    inner = rest.partition(".")[0]
    return inner if inner in ("envs", "algos") else "application"


@cache
def modules():
    """Return the file of every module by its dotted name; `drest_torch/envs` and `drest_torch/algos` are links."""
    paths = {}
    for folder, package in (("drest_torch", ""), ("envs", "drest_torch."), ("algos", "drest_torch.")):
        for path in (ROOT / folder).rglob("*.py"):  # does not follow links
            inner = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            paths[f"{package}{inner}".removesuffix(".__init__")] = path
    return paths


@cache
def imported(module):
    """Return the modules that a module imports; a name is resolved to its module."""
    path = modules()[module]
    targets = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                # A name of `drest_torch` itself is imported lazily from its module.
                lazy = WHERE.get(alias.name, "") if node.module == "drest_torch" else ""
                if inner in modules():
                    targets.add(inner)
                else:
                    targets.add(f"drest_torch.{lazy}" if lazy else str(node.module))
    return targets


def allows(floor, module, target):
    """Return whether a module of a floor may import a target."""
    top, target_floor = target.partition(".")[0], floor_of(target)
    if target_floor is not None:
        return target_floor in BELOW[floor]
    if top in ("hydra", "hydra_plugins"):
        return bool(among([module], WITH_HYDRA))
    return floor != "mathematics" or top in MATHEMATICS_LIBRARIES or top in sys.stdlib_module_names


def test_imports_run_downwards():
    """The package itself may import lazily from every floor."""
    assert modules().keys() >= MATHEMATICS | WITH_HYDRA
    floors = {module: floor_of(module) for module in modules()} | {"drest_torch": "entry point"}
    wrong = [
        f"{module} ({floor}) imports {target} ({floor_of(target)})"
        for module, floor in floors.items()
        for target in imported(module)
        if not allows(floor, module, target)
    ]
    assert wrong == []


@cache
def graph():
    """Return the imports of each module.

    An import of ``a.b.c`` is also one of ``a`` and ``a.b``, except for packages that contain the importing module.
    """
    arrows = {}
    for module in modules():
        splits = [target.split(".") for target in imported(module)]
        packages = {".".join(parts[:count]) for parts in splits for count in range(1, len(parts))}
        above = {package for package in packages if not lies_in(module, package)}
        arrows[module] = (imported(module) | above) & modules().keys() - {module}
    return arrows


def reached(arrows, starts):
    """Return the nodes of a graph that can be reached from some nodes by at least one arrow."""
    visited, waiting = set(), set(starts)
    while waiting:
        waiting = set().union(*(arrows[node] for node in waiting)) - visited
        visited |= waiting
    return visited


def room_of(module):
    """Return the room of a module: a package or module of the second level; `algos` has a room besides its networks."""
    parts = module.split(".")
    if parts[1:2] == ["algos"]:
        return ".".join(parts[:3]) if parts[2:3] == ["networks"] else "drest_torch.algos"
    return ".".join(parts[:3] if parts[1:2] == ["envs"] else parts[:2])


@pytest.mark.parametrize(("room", "least"), [(str, 200), (room_of, 20)], ids=["modules", "packages"])
def test_imports_have_no_circles(room, least):
    """Two packages may not import each other, even where their modules form no circle."""
    arrows = {}
    for module, targets in graph().items():
        arrows.setdefault(room(module), set()).update({*map(room, targets)} - {room(module)})
    assert len(arrows) > least
    assert sum(map(len, graph().values())) > 1000
    TopologicalSorter(arrows).prepare()  # raises an error with the circle


TRAINER = "drest_torch.training"
"""The package of the training loop."""
JUDGES = {"drest_torch.agent", "drest_torch.evaluation"}
"""The modules that evaluate policies, however they were trained."""


def test_evaluation_does_not_import_training():
    """Imports inside functions count; the only exception is `Agent.train`."""
    arrows = dict(graph())
    arrows["drest_torch.agent"] = arrows["drest_torch.agent"] - {f"{TRAINER}.from_python", TRAINER}
    judges = among(arrows, JUDGES)
    assert len(judges) > 5
    assert arrows.keys() >= {TRAINER, *JUDGES}
    assert among(reached(arrows, judges), [TRAINER]) == []
    assert among(reached(arrows, ["drest_torch.train"]), [TRAINER]) != []


COMMAND = "import sys\nfrom drest_torch import evaluate\nsys.argv = ['evaluate', 'levels=example']\nevaluate.main()"
HELP = "import sys\nfrom drest_torch import train\nsys.argv = ['train', '--help']\ntrain.main()"
FIRST_UPDATE = """
import sys
from drest_torch import train
from drest_torch.training.run import Run

def update(run):
    raise StopIteration

Run.update = update
few = ["levels.train=4", "levels.selection=2", "levels.test=2", "algo.episodes=128"]
sys.argv = ["train", "algo=ppo", "logger=none", "run_dir=run", *few]
try:
    train.main()
except StopIteration:
    pass
"""
AGENT = "from drest_torch import Agent\nAgent.load('generalist').evaluate('example')"


@pytest.mark.parametrize(
    ("statements", "absent"),
    [
        # A command starts without slow imports, and an exact evaluation needs few libraries.
        ("from drest_torch import train, evaluate, study", "torch hydra"),
        (COMMAND, "torchrl tensordict numba matplotlib"),
        (HELP, "torchrl tensordict numba matplotlib wandb"),
        pytest.param(FIRST_UPDATE, "numba matplotlib wandb gymnasium pandas jinja2", marks=pytest.mark.slow),
        pytest.param(AGENT, "drest_torch.training hydra wandb torchrl", marks=pytest.mark.slow),
        pytest.param("import drest_torch.report.html", "matplotlib.pyplot", marks=pytest.mark.slow),
        pytest.param("import drest_torch.compare", "torch matplotlib", marks=pytest.mark.slow),
    ],
)
def test_no_unneeded_library_is_imported(statements, absent, tmp_path):
    printed = python("-c", f"{statements}\nimport sys\nprint()\nprint(*sys.modules)\n", cwd=tmp_path)
    imported = printed.splitlines()[-1].split()
    assert among(imported, absent.split()) == []
