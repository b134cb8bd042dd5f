"""The order of imports: each floor of the project sees the floors below it, and no module sees itself through others.

The import statements of every module are read, also those inside functions and under ``if TYPE_CHECKING``.
What `importlib` imports by name at run time is not seen.
"""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest

from drest_torch import _WHERE as WHERE
from tests.helpers.commands import python
from tests.helpers.documents import ROOT

LOWEST = "_version counting errors files limits metrics outputs registry reward theory timer transforms"
MATHEMATICS = {f"drest_torch.{name}" for name in LOWEST.split()}
"""The modules of the lowest floor, besides `drest_torch` itself; a package stands for all modules in it."""
COMMANDS = "train evaluate check study compare commands __main__"
ENTRY_POINTS = {f"drest_torch.{name}" for name in COMMANDS.split()}
"""The commands, and the package of what they share."""
WITH_HYDRA = {*ENTRY_POINTS, "drest_torch.config.compose", "drest_torch.config.mistakes"}
"""Nothing else imports Hydra, so that an agent is loaded and evaluated without it."""

# floor: the floors it may import
BELOW = {
    "mathematics": {"mathematics"},
    "envs": {"mathematics", "envs"},
    "algos": {"mathematics", "algos"},  # specs and batches, never a level: envs is out of sight
    "application": {"mathematics", "envs", "algos", "application"},
    "entry point": {"mathematics", "envs", "algos", "application", "entry point"},
}
MATHEMATICS_LIBRARIES = {"torch", "torchrl", "tensordict", "numpy"}
"""All that the lowest floor may import, besides the standard library."""


def lies_in(module, package):
    """Return whether a module is a package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def among(found, packages):
    """Return which modules lie in some packages, or are named themselves."""
    return sorted(module for module in found if any(lies_in(module, package) for package in packages))


def floor_of(module):
    """Return the floor of a module of this project, or None for a library."""
    if module == "drest_torch" or among([module], MATHEMATICS):
        return "mathematics"
    if among([module], ENTRY_POINTS):
        return "entry point"
    top, _, rest = module.partition(".")
    if top in ("tests", "benchmarks", "configs"):
        return top  # which no floor may import
    if top != "drest_torch":
        return None
    inner = rest.partition(".")[0]
    return inner if inner in ("envs", "algos") else "application"


@cache
def modules():
    """Return the file of every module by its dotted name; `drest_torch/envs` and `drest_torch/algos` are links."""
    found = {}
    for folder, package in (("drest_torch", ""), ("envs", "drest_torch."), ("algos", "drest_torch.")):
        for path in (ROOT / folder).rglob("*.py"):  # which follows no links
            inner = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[f"{package}{inner}".removesuffix(".__init__")] = path
    return found


@cache
def imported(module):
    """Return what a module imports; a name from a package is the module that it is, or that it comes from."""
    path, found = modules()[module], set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                # A name of `drest_torch` itself is imported from its module when it is asked for.
                asked = WHERE.get(alias.name, "") if node.module == "drest_torch" else ""
                found.add(inner if inner in modules() else f"drest_torch.{asked}" if asked else str(node.module))
    return found


def allows(floor, module, target):
    """Return whether a module of a floor may import something."""
    top, target_floor = target.partition(".")[0], floor_of(target)
    if target_floor is not None:
        return target_floor in BELOW[floor]
    if top in ("hydra", "hydra_plugins"):
        return bool(among([module], WITH_HYDRA))
    return floor != "mathematics" or top in MATHEMATICS_LIBRARIES or top in sys.stdlib_module_names


def test_imports_run_downwards():
    """The package itself names what is imported when it is asked for, from whichever floor."""
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
    """Return which modules each module imports.

    Who imports ``a.b.c`` also imports ``a`` and ``a.b``, except the packages that it lies in itself.
    """
    arrows = {}
    for module in modules():
        splits = [target.split(".") for target in imported(module)]
        packages = {".".join(parts[:count]) for parts in splits for count in range(1, len(parts))}
        above = {package for package in packages if not lies_in(module, package)}
        arrows[module] = (imported(module) | above) & modules().keys() - {module}
    return arrows


def reached(arrows, starts):
    """Return what can be reached from some nodes of a graph by at least one arrow."""
    known, waiting = set(), set(starts)
    while waiting:
        waiting = set().union(*(arrows[node] for node in waiting)) - known
        known |= waiting
    return known


def room_of(module):
    """Return the package or module of a package that a module is in; of `algos` only the networks are apart."""
    parts = module.split(".")
    if parts[1:2] == ["algos"]:
        return ".".join(parts[:3]) if parts[2:3] == ["networks"] else "drest_torch.algos"
    return ".".join(parts[:3] if parts[1:2] == ["envs"] else parts[:2])


@pytest.mark.parametrize(("room", "least"), [(str, 200), (room_of, 20)], ids=["modules", "packages"])
def test_none_imports_itself_by_way_of_others(room, least):
    """Hold packages to more than their modules: two may not need each other, even where no modules do."""
    arrows = {}
    for module, targets in graph().items():
        arrows.setdefault(room(module), set()).update({*map(room, targets)} - {room(module)})
    assert len(arrows) > least
    assert sum(map(len, graph().values())) > 1000
    TopologicalSorter(arrows).prepare()  # it names the circle


TRAINER = "drest_torch.training"
"""The training loop with its modules, and what it plays with."""
JUDGES = {"drest_torch.agent", "drest_torch.evaluation"}
"""What evaluates policies, however they were trained."""


def test_judges_reach_no_trainer():
    """Follow the imports inside functions, too: nothing that evaluates needs anything that trains.

    `Agent.train` alone does, which imports it when it is called.
    """
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
        # Nothing slow is imported before the first line of a command; and an exact evaluation needs little.
        ("from drest_torch import train, evaluate, study", "torch hydra"),
        (COMMAND, "torchrl tensordict numba matplotlib"),
        (HELP, "torchrl tensordict numba matplotlib wandb"),
        pytest.param(FIRST_UPDATE, "numba matplotlib wandb gymnasium pandas jinja2", marks=pytest.mark.slow),
        pytest.param(AGENT, "drest_torch.training hydra wandb torchrl", marks=pytest.mark.slow),
        pytest.param("import drest_torch.report.html", "matplotlib.pyplot", marks=pytest.mark.slow),
        pytest.param("import drest_torch.compare", "torch matplotlib", marks=pytest.mark.slow),
    ],
)
def test_what_is_imported_comes_without_what_it_does_not_need(statements, absent, tmp_path):
    printed = python("-c", f"{statements}\nimport sys\nprint()\nprint(*sys.modules)\n", cwd=tmp_path)
    imported = printed.splitlines()[-1].split()
    assert among(imported, absent.split()) == []
