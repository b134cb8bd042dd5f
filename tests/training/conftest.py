"""A finished run, which a test may damage."""

import shutil

import pytest

from drest_torch.training.run import start
from tests.helpers.runs import small


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    start(small(folder, "env_steps=500", "evaluations=1", "keep_last=1")).train()
    return folder


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(finished_run, tmp_path / "run")
