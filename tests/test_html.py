"""Pages: everything is escaped and named, nothing comes from elsewhere, and a real browser finds room for it."""

from __future__ import annotations

import base64
import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from io import BytesIO

import matplotlib
import numpy as np
import pytest
from PIL import Image

from drest_torch.errors import FileError
from drest_torch.report.blocks import (
    Commands,
    Details,
    Gallery,
    Items,
    Lead,
    Page,
    Plot,
    Prose,
    Section,
    Table,
    Text,
)
from drest_torch.report.html import write_page
from drest_torch.report.markdown import code, literal
from drest_torch.report.style import DARK, LIGHT
from tests.helpers.chromium import check_page, needs_chromium, screenshot

# ---------------------------------------------------------------------------------- reading a page

VOID = {"meta", "link", "img", "source", "br", "hr", "input", "base"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, *tags):
        """The elements below of these kinds, in their order; of every kind if none is named."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def one(self, tag):
        (found,) = self.all(tag)
        return found

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Reader(HTMLParser):
    """The tree of a page in which every element that needs an end has it, at its place."""

    def __init__(self):
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    (root,) = reader.open
    return root.one("html")


def written(tmp_path, *blocks, **parts):
    """The tree of a page with these blocks in its one section."""
    page = Page(**{"title": "T", "subtitle": "", "sections": [Section("S", blocks)], **parts})
    write_page(page, tmp_path / "page.html")
    return read(tmp_path / "page.html")


def picture(address):
    kind, _, data = address.partition(",")
    assert kind == "data:image/png;base64"
    return Image.open(BytesIO(base64.b64decode(data))).convert("RGB")


def nothing(figure, style):
    """No drawing: fast."""


# ------------------------------------------------------------------------------------------ a sample


def curves(figure, style):
    rng = np.random.default_rng(0)
    steps = np.linspace(0, 300, 150)
    axes = figure.subplots()
    for colour, label, end in ((style.default_reward, "default reward", 0.12), (style.drest, "DReST", 0.95)):
        mean = end * (1 - np.exp(-steps / 60))
        for _ in range(10):
            axes.plot(steps, mean + 0.002 * rng.standard_normal(150).cumsum(), color=colour, linewidth=0.7, alpha=0.3)
        axes.plot(steps, mean, color=colour, label=label)
    axes.set(xlabel="thousand steps", ylabel="neutrality (bits)", title="Neutrality")
    axes.legend()


def heat(figure, style):
    axes = figure.subplots()
    axes.grid(False)
    figure.colorbar(axes.imshow(np.arange(400).reshape(20, 20) % 37), label="P(L = l)")


def bars(figure, style):
    figure.subplots().bar(["tabular", "reinforce", "a2c", "ppo"], [0.9, 0.8, 0.7, 0.95], color=style.series[:4])


LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"


def sample():
    """A bit of everything, and words that are too long for a phone in every place."""
    plots = [
        Plot("DReST rises to one bit.", "Neutrality; see [the paper](https://arxiv.org/abs/2407.00805).", curves),
        Plot("A heat map.", f"The chance of each length: {LONG}.", heat),
        Plot("Four bars.", "", bars),
    ]
    compared = Table(
        "Side by side",
        ["measure", "paper", "ours", "agrees"],
        [
            ["Usefulness", "0.93", "0.934 ± 0.004", "✓ within the interval"],
            ["Neutrality (bits)", "0.99", "0.941 ± 0.010", "✗"],
            [LONG, "–", "", f"◐ {LONG}"],
        ],
        note=f"± is half the interval, from `drest_torch.statistics.bootstrap.{LONG}`.",
    )
    wide = Table(
        f"Every seed, {LONG}",
        ["level", *(f"seed {seed}" for seed in range(30))],
        [[f"level {level}", *(f"{level + seed / 100:.3f}" for seed in range(30))] for level in range(3)],
    )
    remarks = Table("Remarks", ["level", "remark"], [["one", "a remark that is longer than a phone is wide " * 3]])
    return Page(
        f"Are the agents neutral, or {LONG}?",
        f"What we measure, {LONG}, and what the paper reports",
        [
            Section("What was asked", [Text(f"`{LONG}` and https://example.org/{LONG}"), Items([LONG, "b"])], LONG),
            Section(f"Results {LONG}", [compared, Gallery(plots), wide, Plot("Wide.", "Wide.", curves, (10, 3))]),
            Section(
                "How",
                [
                    Commands(["make install", f"python -m drest_torch.study name={LONG} out=runs/{LONG}"]),
                    Details(
                        f"More {LONG}", [Text(LONG), wide, remarks, Commands([LONG * 2]), plots[2], Gallery(plots)]
                    ),
                ],
            ),
        ],
        footer=f"In `{LONG}.json`.",
    )


@pytest.fixture(scope="module")
def sample_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "sample.html"
    write_page(sample(), path)
    return path


# ---------------------------------------------------------------------------------------------- text

NASTY = (
    """<script>alert("1")</script><img src=x onerror='2'> & &amp; "q" 'r' </title></style></code> <!-- $title ${css}"""
)


FIELDS = (
    "text prose large code bold link item command caption head row cell note figure wide summary inside section lead "
    "sub foot banner"
)


def test_every_text_is_escaped(tmp_path):
    text = {name: literal(f"{name}{NASTY}") for name in FIELDS.split()}
    plot = Plot(f"alt{NASTY}", text["figure"], nothing, size=(1, 1))
    wide = Plot("alt", text["wide"], nothing, size=(7, 1))
    table = Table(text["caption"], ["", text["head"]], [[text["row"], f"✓ {text['cell']}"]], text["note"])
    blocks = [
        Text(text["text"]),
        Prose(text["prose"]),
        Lead(text["large"]),
        Text(code(f"code{NASTY}")),
        Text(f"**{text['bold']}**"),
        Text(f"[{text['link']}](https://a.org/?a=1&b='>)"),
        Items([text["item"]]),
        Commands([f"command{NASTY}"]),
        table,
        plot,
        wide,
        Gallery([plot, plot]),
        Details(text["summary"], [Text(text["inside"])]),
    ]
    sections = [Section(f"section{NASTY}", blocks, text["lead"]), Section("b", []), Section("c", [])]
    parts = {"title": f"title{NASTY}", "subtitle": text["sub"], "footer": text["foot"], "banner": text["banner"]}
    root = written(tmp_path, sections=sections, **parts)
    assert not list(root.all("script"))
    assert {"onerror"}.isdisjoint(name for element in root.all() for name in element.attributes)
    assert root.one("title").text == f"title{NASTY}" == root.one("h1").text
    body = root.one("body").text
    for name in FIELDS.split():
        assert f"{name}{NASTY}" in body, name
    assert {image.attributes["alt"] for image in root.all("img")} == {"alt", f"alt{NASTY}"}
    labels = [element.attributes["aria-label"] for element in root.all() if "aria-label" in element.attributes]
    assert labels == ["Contents", "Commands", f"caption{NASTY}", f"wide{NASTY}"]


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("a `b` c", "a <code>b</code> c"),
        ("`**b**`", "<code>**b**</code>"),
        ("**a** and **b `c`**", "<strong>a</strong> and <strong>b <code>c</code></strong>"),
        ("*a*", "<em>a</em>"),
        ("a_b_c", "a_b_c"),
        ("![a](https://b.org)", '!<a href="https://b.org">a</a>'),
        ("<b>a</b>", "&lt;b&gt;a&lt;/b&gt;"),
        ("** a ** `", "** a ** `"),
        ("[a `b`](https://c.org/d_(e)?f=1&g).", '<a href="https://c.org/d_(e)?f=1&amp;g">a <code>b</code></a>.'),
        ("**[a](https://b.org)**", '<strong><a href="https://b.org">a</a></strong>'),
        ("[a](javascript:b)", "[a](javascript:b)"),
        ("[a](http://b.org)", "[a](http://b.org)"),
        ("[0.1, 0.2] (c)", "[0.1, 0.2] (c)"),
        ('[a](https://b.org/"c)', '<a href="https://b.org/%22c">a</a>'),
    ],
)
def test_markdown_is_read_without_html_pictures_and_other_links(tmp_path, text, markup):
    written(tmp_path, Text(text))
    assert f"<p>{markup}</p>" in (tmp_path / "page.html").read_text("utf-8")


def test_what_is_no_character_does_not_stop_the_page(tmp_path):
    assert "a?b" in written(tmp_path, Text("a\udc80b")).text


# ------------------------------------------------------------------------------------------- structure


def test_the_page_is_well_formed_and_has_its_parts(sample_path):
    root = read(sample_path)
    assert sample_path.read_text("utf-8").startswith("<!DOCTYPE html>\n")
    assert root.attributes["lang"] == "en"
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in [
        meta.attributes for meta in root.all("meta")
    ]
    ids = [element.attributes["id"] for element in root.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    skip, *links = (link for link in root.all("a") if link.attributes["href"].startswith("#"))
    assert skip.attributes["href"] == f"#{root.one('main').attributes['id']}"
    assert {link.attributes["href"][1:] for link in links} <= set(ids)


def test_headings_are_in_order_and_linked(sample_path):
    root = read(sample_path)
    headings = list(root.all("h1", "h2", "h3", "h4", "h5", "h6"))
    assert [heading.tag for heading in headings] == ["h1", "h2", "h2", "h2"]
    for heading in headings[1:]:
        assert heading.one("a").attributes["href"] == f"#{heading.attributes['id']}"
    named = [section.attributes["aria-labelledby"] for section in root.all("section")]
    assert named == [heading.attributes["id"] for heading in headings[1:]]
    entries = list(root.one("nav").all("a"))
    assert [entry.text for entry in entries] == [heading.text for heading in headings[1:]]


def test_sections_of_one_title_have_their_own_addresses_and_two_need_no_contents(tmp_path):
    root = written(tmp_path, sections=[Section("λ = 1!", []), Section("λ = 1?", [])])
    assert [heading.attributes["id"] for heading in root.all("h2")] == ["1", "1-2"]
    assert not list(root.all("nav"))
    root = written(tmp_path, sections=[Section("Content", []), Section("λ", [])])
    assert [heading.attributes["id"] for heading in root.all("h2")] == ["content-2", "section"]


def test_what_scrolls_is_reached_by_the_keyboard_and_has_a_name_of_its_own(sample_path):
    root = read(sample_path)
    regions = [e for e in root.all() if e.tag == "pre" or "scroll" in e.attributes.get("class", "").split()]
    assert {(region.attributes["tabindex"], region.attributes["role"]) for region in regions} == {("0", "region")}
    labels = [region.attributes["aria-label"] for region in regions]
    assert len(labels) == 7
    assert len(set(labels)) == 7
    assert labels[0] == "Side by side"
    assert "Commands (2)" in labels


def test_nothing_comes_from_elsewhere(sample_path):
    root, source = read(sample_path), sample_path.read_text("utf-8")
    sources = [e.attributes[name] for e in root.all() for name in ("src", "srcset") if name in e.attributes]
    assert len(sources) == 16
    assert all(address.startswith("data:image/png;base64,") for address in sources)
    assert not list(root.all("script", "link", "iframe", "object", "embed", "base"))
    assert not re.search(r"url\(|@import|@font-face", source)
    assert not any(name.startswith("on") for element in root.all() for name in element.attributes)
    addresses = {link.attributes["href"] for link in root.all("a") if not link.attributes["href"].startswith("#")}
    assert addresses == {"https://arxiv.org/abs/2407.00805"}
    (policy,) = (m.attributes["content"] for m in root.all("meta") if "http-equiv" in m.attributes)
    assert policy.startswith("default-src 'none'; img-src data:;")


# ---------------------------------------------------------------------------------------------- tables


def test_tables_name_their_rows_and_columns(sample_path):
    for table in read(sample_path).all("table"):
        caption, head, body = (child for child in table.children if isinstance(child, Element))
        assert (caption.tag, head.tag, body.tag) == ("caption", "thead", "tbody")
        assert caption.text.strip()
        assert {cell.attributes.get("scope") for cell in head.all("th", "td")} == {"col"}
        for row in body.all("tr"):
            first, *others = row.all("th", "td")
            assert (first.tag, first.attributes["scope"]) == ("th", "row")
            assert {cell.tag for cell in others} == {"td"}


def test_an_empty_corner_names_nothing(tmp_path):
    root = written(tmp_path, Table("c", ["", "a"], [["b", "1"]]))
    assert [cell.tag for cell in root.one("thead").all("th", "td")] == ["td", "th"]


def test_marks_are_more_than_their_colour(tmp_path):
    root = written(tmp_path, Table("c", ["a"] * 6, [["✓ r", "✓", "✗ 0.5", "◐ so", "✓x", "✗"]]))
    cells = list(root.one("tbody").all("th", "td"))
    spoken = []
    for cell in cells:
        for mark in [e for e in cell.all("span") if "mark" in e.attributes["class"].split()]:
            assert mark.attributes["aria-hidden"] == "true"
            mark.children.clear()
        spoken.append(" ".join(cell.text.split()))
    assert spoken == ["yes: r", "yes", "no: 0.5", "partly: so", "✓x", "no"]


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["1", "−2.5", "+3e-4", "1e5"], True),
        (["0.93 ± 0.01", "0.9 [0.8, 1.0]", "0.91–0.95"], True),
        (["✓ 0.93", "✗ 1", "✓", "–", ""], True),
        (["12 min 4 s", "3 h", "640 kB", "95 %", "3×10⁵"], True),
        (["**0.5**", "`0.25`"], True),
        (["1,000,000", "≈ 2", "< 0.001", "3 of 4"], True),
        (["0.5", "not reported", "0.7"], True),
        (["0.5", "torch 2.9", "a"], False),
        (["yes", "no"], False),
        (["✓", "✗"], False),
        (["", "–"], False),
        (["x", "d", "s"], False),
        (["level 1", "level 2"], False),
        ([], False),
    ],
)
def test_columns_of_numbers_stand_at_their_right_edge(tmp_path, cells, numeric):
    root = written(tmp_path, Table("c", ["7", "head"], [["7", cell] for cell in cells]))
    rows = [list(row.all("th", "td")) for row in root.all("tr")]
    assert {row[1].attributes.get("class") for row in rows} == {"number" if numeric else None}
    assert all("class" not in row[0].attributes for row in rows)  # the first column holds names


def test_a_table_stands_beyond_the_text_only_if_it_has_to(tmp_path):
    narrow = Table("narrow", ["a", "b"], [["c", "a cell of many words is wrapped " * 9]])
    wide = Table("wide", [*"abcdefghijklm"], [["row", *["0.123"] * 12]])
    root = written(tmp_path, narrow, wide)
    classes = [e.attributes["class"] for e in root.all("div") if "table" in e.attributes["class"].split()]
    assert classes == ["table", "wide table"]


def test_a_wrong_table_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"'c': a row has 1 cells, the header has 2: \['x'\]"):
        Table("c", ["a", "b"], [["1", "2"], ["x"]])
    with pytest.raises(ValueError, match="needs a caption"):
        Table(" ", ["a"], [])


# ----------------------------------------------------------------------------------------------- plots


def test_every_plot_is_drawn_once_for_each_theme_in_its_colours(tmp_path):
    seen = []

    def draw(figure, style):
        axes = figure.subplots()
        (line,) = axes.plot([0, 1])
        seen.append((style, line.get_color(), axes.xaxis.label.get_color(), axes.title.get_color()))

    before = dict(matplotlib.rcParams)
    root = written(tmp_path, Plot("A line.", "caption", draw, size=(2, 1.5)))
    assert dict(matplotlib.rcParams) == before
    assert seen == [(style, style.series[0], style.text, style.text) for style in (LIGHT, DARK)]
    image, source = root.one("img").attributes, root.one("source").attributes
    assert (image["width"], image["height"], image["alt"]) == ("192", "144", "A line.")
    assert source["media"] == "screen and (prefers-color-scheme: dark)"
    assert root.one("figcaption").text == "caption"
    for address, style in ((image["src"], LIGHT), (source["srcset"], DARK)):
        drawn = picture(address)
        assert drawn.size == (432, 324)
        assert drawn.getpixel((0, 0)) == tuple(bytes.fromhex(style.background[1:]))
        colours = {f"#{bytes(colour).hex()}" for _, colour in drawn.getcolors(1 << 20)}
        assert style.series[0] in colours


def test_every_image_has_an_alternative_text_and_is_small(sample_path):
    images = list(read(sample_path).all("img"))
    assert [image.attributes["alt"] for image in images[:4]] == [
        "DReST rises to one bit.",
        "A heat map.",
        "Four bars.",
        "Wide.",
    ]
    assert {image.attributes["width"] for image in images} == {"499", "960"}
    for image in images:
        most = 60_000 * int(image.attributes["width"]) / 499
        assert len(base64.b64decode(image.attributes["src"].partition(",")[2])) < most


def test_a_plot_needs_an_alternative_text():
    with pytest.raises(ValueError, match="alternative text"):
        Plot(" ", "caption", nothing)


def test_a_lone_plot_of_a_gallery_is_a_plot(tmp_path):
    plot = Plot("a", "c", nothing, size=(1, 1))
    written(tmp_path, plot)
    alone = (tmp_path / "page.html").read_bytes()
    written(tmp_path, Gallery([plot]))
    assert (tmp_path / "page.html").read_bytes() == alone


def test_the_users_settings_make_no_difference(tmp_path):
    plot = Plot("A line.", "", curves, size=(2, 1.5))
    written(tmp_path, plot)
    first = (tmp_path / "page.html").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.spines.right": True, "savefig.bbox": "tight"}):
        written(tmp_path, plot)
    assert (tmp_path / "page.html").read_bytes() == first


def test_no_figure_is_kept_by_pyplot(tmp_path):
    program = (
        "import sys, pathlib, drest_torch.report.html as p, drest_torch.report.blocks as b\n"
        "plot = b.Plot('a', 'c', lambda figure, style: figure.subplots().plot([1, 2]))\n"
        "p.write_page(b.Page('t', '', [b.Section('s', [plot])]), pathlib.Path(sys.argv[1]))\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "page.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


# ---------------------------------------------------------------------------------------------- writing


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match=r"page.html: cannot be written \(No space"):
        written(tmp_path, Text("after"))
    monkeypatch.undo()

    def broken(figure, style):
        raise RuntimeError("no such data")

    with pytest.raises(RuntimeError, match="no such data"):
        written(tmp_path, Plot("a", "c", broken))
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_a_block_of_no_kind_is_refused(tmp_path):
    with pytest.raises(TypeError, match="no block of this kind: 'text'"):
        written(tmp_path, "text")


# ---------------------------------------------------------------------------------------------- colours


def linear(colour):
    """[3] the light of each primary, from ``#rrggbb``."""
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG's ratio, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


# What is left of red, green and blue for colour-blind readers; Machado, Oliveira & Fernandes 2009, severity 1.
VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, vision):
    """[3] CIELAB, in which a distance of 2 is just seen."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(VISION[vision]) @ linear(colour), 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # the lightest grey that passes AA


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_can_be_read(style):
    for name in ("text", "muted", "link", "good", "fair", "bad"):
        assert contrast(getattr(style, name), style.background) >= 4.5, name
        assert contrast(getattr(style, name), style.surface) >= 4.5, name
    for colour in style.series:
        assert contrast(colour, style.background) >= 3, colour


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_series_are_told_apart(style, vision):
    for one, other in itertools.combinations(style.series, 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) > 19, (one, other)


def test_the_papers_colours_have_names():
    for style in (LIGHT, DARK):
        red, _, blue = linear(style.default_reward)
        assert blue > 2 * red
        red, _, blue = linear(style.drest)
        assert red > 4 * blue


# --------------------------------------------------------------------------------------------- chromium

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


def test_a_section_within_a_section_has_a_heading_below_its_own(tmp_path):
    inner = Section("Inner", [Text("inside")], lead="what it is")
    root = written(tmp_path, sections=[Section("Outer", [Text("before"), inner]), Section("Inner", [])])
    assert [each.tag for each in root.all("h1", "h2", "h3")] == ["h1", "h2", "h3", "h2"]
    ids = [each.attributes["id"] for each in root.all("h2", "h3")]
    assert len(set(ids)) == len(ids) == 3
