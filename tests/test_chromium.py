"""A real browser finds room for a page, and the checker that asks it complains about what is wrong."""

from __future__ import annotations

import pytest
from PIL import Image

from drest_torch.report.blocks import Plot
from drest_torch.report.html import write_page
from drest_torch.report.style import DARK, LIGHT
from tests.helpers.chromium import check_page, needs_chromium, screenshot
from tests.helpers.pages import sample, written


@pytest.fixture(scope="module")
def sample_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "sample.html"
    write_page(sample(), path)
    return path


WIDTHS = (390, 1440)


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_browser_finds_room_for_everything(sample_path, width, dark):
    assert check_page(sample_path, width, dark) == []


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_browser_shows_the_theme_and_its_pictures(tmp_path, dark):
    def fill(figure, style):
        figure.set_facecolor(style.drest)

    written(tmp_path, Plot("Orange.", "", fill))
    screenshot(tmp_path / "page.html", tmp_path / "shot.png", 390, 600, dark)
    style, other = (DARK, LIGHT) if dark else (LIGHT, DARK)
    with Image.open(tmp_path / "shot.png") as shot:
        assert shot.size == (390, 600)
        counts = {f"#{bytes(colour[:3]).hex()}": count for count, colour in shot.convert("RGB").getcolors(1 << 20)}
    assert counts[style.background] > 60_000
    assert counts[style.drest] > 60_000
    assert {other.background, other.drest}.isdisjoint(counts)
