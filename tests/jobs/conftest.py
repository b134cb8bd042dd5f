"""What the tests of runs begin with."""

import pytest

from drest_torch.jobs.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "studies")


@pytest.fixture
def later(tmp_path):
    """A file that runs wait for."""
    return tmp_path / "now"
