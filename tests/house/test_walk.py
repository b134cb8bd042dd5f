"""A reader who follows the data passes no more files than today: python -m tests.house.test_walk train|evaluate.

train: from `algo=ppo` to the first gradient step. evaluate: from a level file to usefulness and neutrality. A file
counts if a function of it is called; what runs while modules are imported does not.
"""

import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.helpers.documents import ROOT

FUNCTION = 1
"""The flag of code that is a function's, and no body of a class or module."""
LEVEL = "shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5\n"


def passed(walk, folder):
    """Return the files, by their paths in the repository."""
    from drest_torch import Agent

    found = set()

    def entered(frame, event, arg):
        code = frame.f_code
        if event == "call" and code.co_flags & FUNCTION and code.co_filename.startswith(f"{ROOT}/drest_torch/"):
            while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
                frame = frame.f_back
            if frame is None:
                found.add(str(Path(code.co_filename).relative_to(ROOT)))

    (folder / "level.txt").write_text(LEVEL, "utf-8")
    sys.setprofile(entered)
    try:
        if walk == "evaluate":
            Agent.load("generalist").evaluate(str(folder / "level.txt"))
        else:
            train(folder)
    finally:
        sys.setprofile(None)
    return sorted(found)


def train(folder):
    """Train until the first gradient step."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def arrived(*args):
        raise SystemExit

    register_optimizer_step_pre_hook(arrived)
    sys.argv = ["train", "algo=ppo", "env_steps=40000", "logger=none", "progress=false", f"run_dir={folder / 'run'}"]
    with pytest.raises(SystemExit):
        runpy.run_module("drest_torch.train", run_name="__main__")


@pytest.mark.slow
@pytest.mark.parametrize(("walk", "most"), [("train", 68), ("evaluate", 38)])
def test_the_way_of_the_data_does_not_get_longer(walk, most):
    command = [sys.executable, "-m", "tests.house.test_walk", walk]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = done.stdout.splitlines()
    assert 30 < len(files) <= most, files


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(*passed(sys.argv[1], Path(name)), sep="\n")
