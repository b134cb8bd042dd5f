"""A finished run, which a test may damage."""

import shutil

import pytest

from tests.helpers.runs import train


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    values = ("levels=example", "env_steps=500", "evaluations=1", "keep_last=1")
    return train(tmp_path_factory.mktemp("runs") / "run", *values)


@pytest.fixture
def run(finished_run, tmp_path):
    """Return a copy of the folder of a finished run."""
    return shutil.copytree(finished_run, tmp_path / "run")
