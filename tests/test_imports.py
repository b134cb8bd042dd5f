"""The one-way order of imports: each floor of the project sees the floors below it, and no other.

Not held by good will: the import statements of every module are walked, also those inside functions
and under ``if TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"drest_torch": "drest_torch", "drest_torch.envs": "envs", "drest_torch.algos": "algos"}
"""Where each package lies: `drest_torch/envs` and `drest_torch/algos` are links to the folders at the top."""
MATHEMATICS = {
    "drest_torch",
    *(
        f"drest_torch.{name}"
        for name in ("errors", "files", "limits", "metrics", "registry", "reward", "theory", "transform")
    ),
}
ENTRY_POINTS = {
    f"drest_torch.{name}"
    for name in ("train", "evaluate", "study", "compare", "sweep", "cli", "completion", "__main__")
}
"""The commands, `cli`, which holds what they share, and `sweep`, which Hydra calls."""
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
"""Beside the standard library, all that the lowest floor may import."""


def floor_of(module: str) -> str | None:
    """The floor of a module of this project, or None for a library."""
    if module in MATHEMATICS:
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


def modules(root: Path) -> dict[str, Path]:
    """Every module of the packages under ``root``, by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = (*package.split("."), *path.relative_to(root / folder).with_suffix("").parts)
            if (root / folder / parts[1]).is_symlink():
                continue
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, known: set[str]) -> Iterator[tuple[int, str]]:
    """``(line, module)`` for each import in a file; ``known`` tells ``from package import module`` from a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parents = module.split(".")
                if path.name != "__init__.py":
                    parents.pop()
                parents = parents[: len(parents) - node.level + 1]
                source = ".".join([*parents, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield node.lineno, inner if inner in known else source


def violations(root: Path) -> list[str]:
    """One sentence for each import that goes the wrong way."""
    wrong = []
    files = modules(root)
    for module, path in files.items():
        # The package itself names what is imported when it is asked for, from whichever floor.
        floor = "entry point" if module == "drest_torch" else floor_of(module)
        assert floor is not None
        for line, target in imported(module, path, set(files)):
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


def test_imports_run_downwards() -> None:
    assert violations(ROOT) == []


def room_of(module: str) -> str:
    """Return the package or module of a package that a module is in; of `algos` only the networks are apart."""
    parts = module.split(".")
    if parts[1:2] == ["algos"]:
        return ".".join(parts[:3]) if parts[2:3] == ["networks"] else "drest_torch.algos"
    return ".".join(parts[:3] if parts[1:2] == ["envs"] else parts[:2])


def circles(arrows: dict[str, set[str]]) -> set[str]:
    """Return the rooms that can be reached from themselves."""

    def reached(start: str) -> set[str]:
        known: set[str] = set()
        waiting = [start]
        while waiting:
            new = arrows.get(waiting.pop(), set()) - known
            known |= new
            waiting += new
        return known

    return {room for room in arrows if room in reached(room)}


def test_no_room_imports_itself_by_way_of_others() -> None:
    files = modules(ROOT)
    arrows: dict[str, set[str]] = {}
    for module, path in files.items():
        for _, target in imported(module, path, set(files)):
            if target.partition(".")[0] == "drest_torch" and room_of(target) != room_of(module):
                arrows.setdefault(room_of(module), set()).add(room_of(target))
    assert len(arrows) > 20
    assert circles(arrows) == set()
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b", "c"}


def test_every_floor_was_walked() -> None:
    found = modules(ROOT)
    assert {"drest_torch", "drest_torch.envs", "drest_torch.envs.levels", "drest_torch.algos"} <= set(found)


@pytest.mark.parametrize(
    ("file", "statement", "complaint"),
    [
        ("drest_torch/reward.py", "import scipy.stats", "drest_torch.reward (mathematics) imports scipy.stats"),
        ("drest_torch/metrics.py", "from . import training", "imports drest_torch.training (application)"),
        (
            "drest_torch/metrics.py",
            "from drest_torch import training",
            "imports drest_torch.training (application)",
        ),
        (
            "drest_torch/training.py",
            "def run():\n    import hydra",
            "drest_torch.training (application) imports hydra",
        ),
        (
            "drest_torch/training.py",
            "from drest_torch.train import main",
            "imports drest_torch.train (entry point)",
        ),
        ("drest_torch/config/schema.py", "import hydra", "drest_torch.config.schema (application) imports hydra"),
        ("drest_torch/limits.py", "import omegaconf", "drest_torch.limits (mathematics) imports omegaconf"),
        ("drest_torch/studies/one.py", "from hydra.utils import instantiate", "drest_torch.studies.one (application)"),
        ("drest_torch/studies/one.py", "from ..train import main", "imports drest_torch.train (entry point)"),
        (
            "envs/levels.py",
            "from drest_torch.algos import ppo",
            "drest_torch.envs.levels (envs) imports drest_torch.algos.ppo",
        ),
        (
            "envs/levels.py",
            "from drest_torch.training import run",
            "imports drest_torch.training (application)",
        ),
        ("envs/levels.py", "import tests.helpers", "imports tests.helpers (tests)"),
        (
            "algos/ppo.py",
            "from drest_torch.envs.levels import Level",
            "algos.ppo (algos) imports drest_torch.envs.levels (envs)",
        ),
        (
            "algos/ppo.py",
            "if TYPE_CHECKING:\n    import drest_torch.envs",
            "imports drest_torch.envs (envs)",
        ),
        ("algos/nets/one.py", "from drest_torch import training", "imports drest_torch.training (application)"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, statement: str, complaint: str) -> None:
    write_good_tree(tmp_path)
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(f"{statement}\n", encoding="utf-8")
    (complaint_found,) = violations(tmp_path)
    assert complaint_found.startswith(file)
    assert complaint in complaint_found


def test_a_right_import_is_left_alone(tmp_path: Path) -> None:
    write_good_tree(tmp_path)
    assert violations(tmp_path) == []


def write_good_tree(root: Path) -> None:
    files = {
        "drest_torch/__init__.py": "from .metrics import usefulness\nfrom drest_torch.reward import discount",
        "drest_torch/reward.py": "import math, numpy as np, torch.nn.functional as F\ndiscount = 0.9",
        "drest_torch/metrics.py": "from tensordict import TensorDict\nfrom . import reward\nusefulness = 1",
        "drest_torch/training.py": "import wandb, drest_torch.algos, drest_torch.envs.levels",
        "drest_torch/train.py": "import hydra\nfrom .training import run",
        "drest_torch/config/compose.py": "from hydra.core.config_store import ConfigStore",
        "envs/__init__.py": "from drest_torch.envs.levels import Level",
        "envs/levels.py": "import matplotlib\nfrom drest_torch import usefulness\nLevel = int",
        "algos/__init__.py": "",
        "algos/ppo.py": "import torchrl\nfrom drest_torch.metrics import usefulness\nfrom . import ppo",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def comes_with(statement: str) -> set[str]:
    """The modules that a statement imports, whatever else does so for it."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slow
def test_an_agent_is_loaded_and_evaluated_without_the_trainer() -> None:
    program = (
        "import sys\n"
        "from drest_torch import Agent\n"
        "agent = Agent.load('generalist')\n"
        "agent.evaluate('example')\n"
        "trainers = {'hydra', 'wandb', 'torchrl', 'drest_torch.training.run', 'drest_torch.training.updates'}\n"
        "print(sorted(trainers & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_reward_and_the_metrics_come_alone() -> None:
    """In anybody's project: no worlds, no algorithms, and nothing of what only the application needs."""
    tops = {
        name.partition(".")[0] for name in comes_with("from drest_torch import DReSTReward, usefulness, neutrality")
    }
    assert tops & {"hydra", "omegaconf", "wandb", "matplotlib"} == set()


TRAINER = {
    *(f"drest_torch.training.{name}" for name in ("run", "updates", "level_sampler", "multi_seed")),
    *(f"drest_torch.rollout.{name}" for name in ("collector", "lockstep")),
}
"""Modules of the training loop, and what it plays with."""


@pytest.mark.slow
def test_an_agent_comes_without_the_training_loop_and_without_hydra() -> None:
    found = comes_with("import drest_torch.agent")
    assert found & (TRAINER | {"hydra", "numba", "wandb", "huggingface_hub", "drest_torch.tracking.sinks"}) == set()
    assert [name for name in found if name.startswith("drest_torch.training")] == []


@pytest.mark.slow
def test_evaluation_comes_without_training_and_without_hydra() -> None:
    modules_of = [name for name in modules(ROOT) if name.startswith("drest_torch.evaluation")]
    found = comes_with("\n".join(f"import {name}" for name in modules_of))
    assert "drest_torch.evaluation.exact" in found
    assert [name for name in found if name.startswith(("drest_torch.training", "hydra"))] == []


@pytest.mark.slow
def test_names_and_types_of_values_come_without_what_has_them() -> None:
    """To know an agent's configuration no other algorithm is needed, and nothing is compiled."""
    found = comes_with("import drest_torch.config.stored")
    tops = ("hydra", "numba", "wandb", "drest_torch.training", "drest_torch.evaluation", "drest_torch.tracking")
    assert [name for name in found if name.startswith(tops)] == []
