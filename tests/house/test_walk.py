"""A reader who follows the data passes no more files than today.

train: from `algo=ppo` to the first gradient step. evaluate: from a level file to usefulness and neutrality. A file
counts if a function of it is called; what runs while modules are imported does not.
"""

import sys
from inspect import CO_OPTIMIZED
from pathlib import Path
from unittest.mock import Mock

import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from drest_torch import Agent, train
from tests.helpers.documents import ROOT

LEVEL = "shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5\n"


def evaluated(call):
    Path("level.txt").write_text(LEVEL, "utf-8")
    Agent.load("generalist").evaluate("level.txt")


def trained(call):
    hook = register_optimizer_step_pre_hook(Mock(side_effect=SystemExit))
    call(train.main, "algo=ppo", "env_steps=40000", "logger=none", "progress=false", "run_dir=run")
    hook.remove()


@pytest.mark.slow
@pytest.mark.parametrize(("walk", "most"), [(trained, 68), (evaluated, 33)])
def test_the_way_of_the_data_does_not_get_longer(walk, most, call):
    found = set()

    def entered(frame, event, arg):
        file, flags = frame.f_code.co_filename, frame.f_code.co_flags
        if event != "call" or not flags & CO_OPTIMIZED:  # the body of a class or module
            return
        if file.startswith(f"{ROOT}/drest_torch/") and file not in found:
            while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
                frame = frame.f_back
            if frame is None:
                found.add(file)

    sys.setprofile(entered)
    try:
        walk(call)
    finally:
        sys.setprofile(None)
    assert 20 < len(found) <= most, sorted(found)
