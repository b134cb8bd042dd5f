"""A real browser finds room for a page."""

from __future__ import annotations

import pytest

from drest_torch.report.html import write_page
from tests.helpers.chromium import check_page, needs_chromium
from tests.helpers.pages import sample


@pytest.fixture(scope="module")
def sample_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "sample.html"
    write_page(sample(), path)
    return path


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_browser_finds_room_for_everything(sample_path, width, dark):
    assert check_page(sample_path, width, dark) == []
