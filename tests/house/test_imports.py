"""The order of imports: each floor of the project sees the floors below it, and no module sees itself through others.

The import statements of every module are read, also those inside functions and under ``if TYPE_CHECKING``.
What `importlib` imports by name at run time is not seen.
"""

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests.helpers.documents import ROOT

PACKAGES = {"drest_torch": "drest_torch", "drest_torch.envs": "envs", "drest_torch.algos": "algos"}
"""The folder of each package: `drest_torch/envs` and `drest_torch/algos` are links to the folders at the top."""
MATHEMATICS = {
    "drest_torch",
    *(
        f"drest_torch.{name}"
        for name in (
            *("_version", "errors", "files", "limits", "metrics", "own_code", "registry", "reward", "theory", "timer"),
            "transforms",
        )
    ),
}
"""The modules of the lowest floor; a package stands for all modules in it, except that `drest_torch` is only itself."""
ENTRY_POINTS = {
    f"drest_torch.{name}"
    for name in (
        *("train", "evaluate", "study", "compare", "sweep", "cli", "help", "completion", "language_command"),
        "__main__",
    )
}
"""The commands, `cli` and `help`, which hold what they share, and `sweep`, which Hydra calls."""
WITH_HYDRA = {*ENTRY_POINTS, "drest_torch.config.compose"}
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


def floor_of(module):
    """Return the floor of a module of this project, or None for a library."""
    if module == "drest_torch" or any(lies_in(module, name) for name in MATHEMATICS - {"drest_torch"}):
        return "mathematics"
    if module in ENTRY_POINTS:
        return "entry point"
    top, _, rest = module.partition(".")
    if top in ("tests", "benchmarks", "configs"):
        return top  # which no floor may import
    if top != "drest_torch":
        return None
    inner = rest.partition(".")[0]
    return inner if inner in ("envs", "algos") else "application"


def modules(root):
    """Return the file of every module of the packages under ``root``, by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = (*package.split("."), *path.relative_to(root / folder).with_suffix("").parts)
            if (root / folder / parts[1]).is_symlink():
                continue
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def statements_of(path):
    """Return the import statements of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def public_names(files):
    """Return the module of each name that `drest_torch` imports when it is asked for; its `_WHERE` lists them."""
    for statement in ast.parse(files["drest_torch"].read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "_WHERE":
            return {
                f"drest_torch.{name}": f"drest_torch.{where}"
                for name, where in ast.literal_eval(statement.value).items()
            }
    return {}


def imported(module, files, public):
    """Yield what a module imports, with its line; ``files`` tells ``from package import module`` from a name in it."""
    for node in statements_of(files[module]):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
            continue
        assert node.level == 0, f"{files[module]}:{node.lineno}: imports are absolute here"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield node.lineno, inner if inner in files else public.get(inner, str(node.module))


def violations(root):
    """Return one sentence for each import that goes the wrong way."""
    wrong = []
    files = modules(root)
    public = public_names(files)
    for module, path in files.items():
        # The package itself names what is imported when it is asked for, from whichever floor.
        floor = "entry point" if module == "drest_torch" else floor_of(module)
        for line, target in imported(module, files, public):
            top, target_floor = target.partition(".")[0], floor_of(target)
            if target_floor is not None:
                allowed = target_floor in BELOW[floor]
            elif top in ("hydra", "hydra_plugins"):
                allowed = module in WITH_HYDRA
            elif floor == "mathematics":
                allowed = top in MATHEMATICS_LIBRARIES or top in sys.stdlib_module_names
            else:
                allowed = True
            if not allowed:
                what = f"{target} ({target_floor})" if target_floor else target
                wrong.append(f"{path.relative_to(root)}:{line}: {module} ({floor}) imports {what}")
    return wrong


def test_imports_run_downwards():
    assert violations(ROOT) == []


@cache
def graph(root):
    """Return which modules each module imports.

    Who imports ``a.b.c`` also imports ``a`` and ``a.b``, except the packages that it lies in itself.
    """
    files = modules(root)
    public = public_names(files)
    arrows = {module: set() for module in files}
    for module in files:
        for _, target in imported(module, files, public):
            parts = target.split(".")
            packages = {".".join(parts[:count]) for count in range(1, len(parts))}
            arrows[module] |= {target} | {package for package in packages if not lies_in(module, package)}
        arrows[module] &= files.keys() - {module}
    return arrows


def reached(arrows, starts):
    """Return what can be reached from some nodes of a graph by at least one arrow."""
    known = set()
    waiting = list(starts)
    while waiting:
        new = arrows.get(waiting.pop(), set()) - known
        known |= new
        waiting += new
    return known


def circles(arrows):
    """Return the strongly connected components of a graph that have more than one node."""
    after = {node: reached(arrows, [node]) for node in arrows}
    components = {
        frozenset({node, *(other for other in after[node] if node in after.get(other, ()))}) for node in after
    }
    return {component for component in components if len(component) > 1}


def test_no_module_imports_itself_by_way_of_others():
    arrows = graph(ROOT)
    assert sum(map(len, arrows.values())) > 1000
    assert circles(arrows) == set()


def room_of(module):
    """Return the package or module of a package that a module is in; of `algos` only the networks are apart."""
    parts = module.split(".")
    if parts[1:2] == ["algos"]:
        return ".".join(parts[:3]) if parts[2:3] == ["networks"] else "drest_torch.algos"
    return ".".join(parts[:3] if parts[1:2] == ["envs"] else parts[:2])


def test_no_package_imports_itself_by_way_of_others():
    """Hold packages to more than their modules: two may not need each other, even where no modules do."""
    arrows = {}
    for module, targets in graph(ROOT).items():
        arrows.setdefault(room_of(module), set()).update(room_of(target) for target in targets)
    for package, others in arrows.items():
        others.discard(package)
    assert len(arrows) > 20
    assert circles(arrows) == set()


def test_every_module_that_is_named_here_exists():
    assert modules(ROOT).keys() >= MATHEMATICS | WITH_HYDRA | TRAINERS | JUDGES


def comes_with(statements):
    """Return the modules that are imported once some statements are carried out."""
    program = f"{statements}\nimport sys\nprint()\nprint(*sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def among(found, packages):
    """Return which modules lie in some packages, or are named themselves."""
    return sorted(module for module in found if any(lies_in(module, package) for package in packages))


TRAINERS = {"drest_torch.training"}
"""The training loop with its modules, and what it plays with."""
JUDGES = {"drest_torch.agent", "drest_torch.evaluation"}
"""What evaluates policies, however they were trained."""


def test_judges_reach_no_trainer():
    """Follow the imports inside functions, too: nothing that evaluates needs anything that trains.

    `Agent.train` alone does, which imports it when it is called.
    """
    arrows = dict(graph(ROOT))
    arrows["drest_torch.agent"] = arrows["drest_torch.agent"] - {
        "drest_torch.training.from_python",
        "drest_torch.training",
    }
    judges = among(arrows, JUDGES)
    assert len(judges) > 5
    assert among(reached(arrows, judges), TRAINERS) == []
    assert among(reached(arrows, ["drest_torch.train"]), TRAINERS) != []


EVALUATION = "\n".join(f"import {name}" for name in among(modules(ROOT), {"drest_torch.evaluation"}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statements", "absent"),
    [
        ("from drest_torch import Agent\nAgent.load('generalist').evaluate('example')", "wandb torchrl"),
        ("from drest_torch import DReSTReward, usefulness, neutrality", "omegaconf wandb matplotlib"),
        ("import drest_torch.agent", "numba wandb huggingface_hub drest_torch.tracking.sinks"),
        (EVALUATION, ""),
        ("import drest_torch.report.html", "matplotlib.pyplot"),
        ("import drest_torch.compare", "torch matplotlib"),
        ("import drest_torch.envs.interfaces.torchrl_env, drest_torch.envs.exact.propagator", "gymnasium"),
        ("import drest_torch.config.stored", "numba wandb drest_torch.evaluation drest_torch.tracking"),
    ],
)
def test_what_is_imported_comes_without_what_it_does_not_need(statements, absent):
    found = comes_with(statements)
    assert among(found, TRAINERS | {"hydra"} | set(absent.split())) == []
    if "DReSTReward" in statements:
        assert {floor_of(module) for module in found} == {"mathematics", None}
