"""What the tests of runs begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from drest_torch.jobs.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "studies")


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A file that runs wait for."""
    return tmp_path / "now"
