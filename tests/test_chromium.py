"""A real browser finds room for a page, and the checker that asks it complains about what is wrong."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from drest_torch.report.blocks import Plot
from drest_torch.report.html import write_page
from drest_torch.report.style import DARK, LIGHT
from tests.helpers.chromium import check_page, needs_chromium, screenshot
from tests.helpers.pages import LONG, sample, written


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


@needs_chromium
@pytest.mark.slow
def test_a_screenshot_begins_where_it_is_asked_to(tmp_path):
    halves = '<div style="height: 1000px; background: #f00"></div><div style="height: 1000px; background: #00f"></div>'
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><style>body {{ margin: 0 }}</style>{halves}")
    screenshot(tmp_path / "page.html", tmp_path / "shot.png", 320, 200, False, top=900, scale=2)
    with Image.open(tmp_path / "shot.png") as shot:
        assert shot.convert("RGB").getcolors() == [(640 * 200, (255, 0, 0)), (640 * 200, (0, 0, 255))]


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        ("<p>fits</p>", []),
        (
            '<div id="a" style="width: 600px">wide</div>',
            ["the page is 600 pixels wide in a window of 390", "<div> wide: right edge at 600 of 390 pixels"],
        ),
        (
            f'<p style="width: 100px">{LONG}</p>',  # the paragraph itself does not stick out
            [r"the page is \d+ pixels wide in a window of 390", r"<p> Donau.*: right edge at \d+ of 390 pixels"],
        ),
        (
            '<div style="overflow: hidden"><b class="c" style="display: block; width: 600px">cut</b></div>',
            ['<b class="c"> cut: right edge at 600 of 390 pixels'],
        ),
        (
            '<b style="position: absolute; left: -50px">left</b>',
            ["<b> left: left edge at -50 of 390 pixels"],
        ),
        ('<div style="overflow-x: auto"><div style="width: 600px">scrolls</div></div>', []),
        (
            '<div style="overflow-x: auto; width: 500px">a</div>',
            ["the page is 500 pixels .*", "<div> a: right edge at 500 .*"],
        ),
        (
            '<details><summary>s</summary><div style="width: 600px">folded</div></details>',
            ["the page is 600 pixels .*", "<div> folded: right edge at 600 .*"],
        ),
        ('<img src="missing.png" alt="Curves">', ["image missing: Curves"]),
        ('<img src="https://example.org/picture.png">', ["image missing: https://example.org/picture.png"]),
        ('<img src="data:image/png;base64,AAAA" alt="Broken">', ["image missing: Broken"]),
        ('<img src="there.png" alt="There">', []),
    ],
)
def test_the_checker_complains_about_what_is_wrong(tmp_path, body, complaints):
    Image.new("RGB", (3, 3)).save(tmp_path / "there.png")
    path = tmp_path / "page.html"
    path.write_text(f"<!DOCTYPE html><title>t</title><style>body {{ margin: 0 }}</style>{body}", encoding="utf-8")
    found = check_page(path, 390, False)
    assert len(found) == len(complaints), found
    for sentence, pattern in zip(found, complaints, strict=True):
        assert re.fullmatch(pattern, sentence)
