"""Fixtures of the tests of runs."""

import pytest

from drest_torch.jobs.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "studies")


@pytest.fixture
def later(tmp_path):
    """Return the path of a file that runs wait for."""
    return tmp_path / "now"
