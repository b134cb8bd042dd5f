"""Pages: every text is escaped, every element has a name, nothing is loaded, and pages equal their snapshots.

`pytest tests/report/test_html.py --snapshot-update` renews the snapshots.
"""

import re
from itertools import zip_longest

import pytest

from drest_torch.report.blocks import Commands, Gallery, Page, Plot, Prose, Section, Table
from drest_torch.report.html import render, write_page
from drest_torch.report.markdown import code, literal
from tests.helpers.chromium import check_page, needs_chromium
from tests.helpers.pages import nothing, read, sample, written


@pytest.fixture(scope="module")
def sample_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "sample.html"
    write_page(sample(), path)
    return path


NASTY = (
    """<script>alert("1")</script><img src=x onerror='2'> & &amp; "q" 'r' </title></style></code> <!-- $title ${css}"""
)


FIELDS = (
    "prose large small code bold link item command caption head row cell note figure wide inside section sub "
    "foot banner"
)


def test_every_text_is_escaped(tmp_path):
    text = {name: literal(f"{name}{NASTY}") for name in FIELDS.split()}
    plot = Plot(f"alt{NASTY}", text["figure"], nothing, size=(1, 1))
    table = Table(text["caption"], ["", text["head"]], [[text["row"], f"✓ {text['cell']}"]], text["note"])
    blocks = [
        Prose(text["prose"]),
        Prose(text["large"], "lead"),
        Prose(text["small"], "note"),
        Prose(code(f"code{NASTY}")),
        Prose(f"**{text['bold']}**"),
        Prose(f"[{text['link']}](https://a.org/?a=1&b='>)"),
        Prose(f"- {text['item']}"),
        Commands([f"command{NASTY}"]),
        table,
        plot,
        Plot("alt", text["wide"], nothing, size=(7, 1)),
        Gallery([plot, plot]),
        Section("more", [Prose(text["inside"])]),
    ]
    sections = [Section(f"section{NASTY}", blocks), Section("b", []), Section("c", [])]
    parts = {"title": f"title{NASTY}", "subtitle": text["sub"], "footer": text["foot"], "banner": text["banner"]}
    root = written(tmp_path, blocks=sections, **parts)
    assert not any(element.tag == "script" or "onerror" in element.attributes for element in root.all())
    assert root.only("title").text == f"title{NASTY}" == root.only("h1").text
    body = root.only("body").text
    for name in FIELDS.split():
        assert f"{name}{NASTY}" in body, name
    assert {image.attributes["aria-label"] for image in root.all("svg")} == {"alt", f"alt{NASTY}"}
    labels = [e.attributes["aria-label"] for e in root.all() if "aria-label" in e.attributes and e.tag != "svg"]
    assert labels == ["Contents", "Commands", f"caption{NASTY}", f"wide{NASTY}"]


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("`**b**`", "<code>**b**</code>"),
        ("**a** and **b `c`**", "<strong>a</strong> and <strong>b <code>c</code></strong>"),
        ("a_b_c ** a ** ` [0.1, 0.2] (c)", "a_b_c ** a ** ` [0.1, 0.2] (c)"),
        ("![a](https://b.org)", '!<a href="https://b.org">a</a>'),
        ("<b>a</b> *a*", "&lt;b&gt;a&lt;/b&gt; <em>a</em>"),
        ("<div>", "&lt;div&gt;"),
        ("[a `b`](https://c.org/d_(e)?f=1&g).", '<a href="https://c.org/d_(e)?f=1&amp;g">a <code>b</code></a>.'),
        ("[a](javascript:b) [a](http://b.org)", "[a](javascript:b) [a](http://b.org)"),
        ('[a](https://b.org/"c)', '<a href="https://b.org/%22c">a</a>'),
        ("a\udc80b", "a?b"),  # no character
    ],
)
def test_markdown_excludes_html_as_well_as_pictures(tmp_path, text, markup):
    """Links to addresses other than https are text, too."""
    written(tmp_path, Prose(text))
    assert f"<p>{markup}</p>" in (tmp_path / "page.html").read_text("utf-8")


COLUMNS = [
    # Columns of numbers, which are aligned right
    ["1", "−2.5", "+3e-4", "1,000,000", "≈ 2", "< 0.001", "3 of 4"],
    ["0.93 ± 0.01", "0.9 [0.8, 1.0]", "0.91–0.95", "**0.5**", "`0.25`"],
    ["✓ 0.93", "✗ 1", "✓", "–", ""],
    ["12 min 4 s", "3 h", "640 kB", "95 %", "3×10⁵"],
    ["0.5", "not reported", "0.7"],
    # Columns of words
    ["0.5", "torch 2.9", "a"],
    ["✓ r", "✗ 0.5", "◐ so", "✓x", "✓", "✗"],
    ["", "–"],
    ["x", "d", "s"],
    ["level 1", "level 2"],
]
ROWS = list(zip_longest("1234567", *COLUMNS, fillvalue=""))
CASES = [
    Section("λ = 1!", [Table("Columns", ["7", *"abcdefghij"], ROWS)]),
    Section("λ = 1?", [Prose("before"), Section("Inner", [Prose("what it is", "lead"), Prose("inside")])]),
    Section("Inner", [Prose("small", "note"), Table("Numbers", ["a"], [])]),
    Section("Content", []),
    Section("λ", []),
]


def test_pages_equal_their_snapshots(sample_path, snapshot):
    """Style sheets and the insides of pictures are left out."""
    for page in (sample_path.read_text("utf-8"), render(Page("Cases", "", CASES))):
        body = page.partition("<body>")[2]
        assert re.sub(r"(?s)(<svg[^>]*>).*?</svg>", r"\1…</svg>", body) == snapshot


def test_the_page_is_well_formed(sample_path):
    root, source = read(sample_path), sample_path.read_text("utf-8")
    assert source.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert any("width=device-width" in meta.attributes.get("content", "") for meta in root.all("meta"))
    assert "<style" not in source.partition("<body>")[2]
    assert max(map(len, re.findall(r"(?s)<svg.*?</svg>", source))) < 90_000


def test_identifiers_of_a_page_are_unique(sample_path):
    """Every link within the page leads to an identifier."""
    source = sample_path.read_text("utf-8")
    ids = re.findall(r' id="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', source)) <= set(ids)


def test_a_page_loads_nothing(sample_path):
    root, source = read(sample_path), sample_path.read_text("utf-8")
    for element in root.all():
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "xlink:href") or value.startswith(("#", "data:image/png;base64,"))
    assert not list(root.all("script", "link", "iframe", "object", "embed", "base"))
    assert not re.search(r"url\((?!#)|@import|@font-face", source)
    addresses = {link.attributes["href"] for link in root.all("a") if not link.attributes["href"].startswith("#")}
    assert addresses == {"https://arxiv.org/abs/2407.00805"}
    (policy,) = (m.attributes["content"] for m in root.all("meta") if "http-equiv" in m.attributes)
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_long_cells_are_text_even_if_they_begin_with_a_number(tmp_path):
    table = Table("Agents", ["agent", "training"], [["a", "2 agents that were trained for a very long time"]])
    classes = {cell.attributes.get("class") for cell in written(tmp_path, table).all("td")}
    assert "long" in classes
    assert "number" not in classes


def test_a_wrong_block_is_refused(tmp_path):
    for make, phrase in (
        (lambda: written(tmp_path, Table("c", ["a", "b"], [["1", "2"], ["x"]])), "is shorter"),
        (lambda: Table(" ", ["a"], []), "caption"),
        (lambda: Plot(" ", "caption", nothing), "alternative text"),
        (lambda: written(tmp_path, "text"), "no block of this kind: 'text'"),
    ):
        with pytest.raises((ValueError, TypeError), match=phrase):
            make()


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_browser_finds_room_for_everything(sample_path, width, dark):
    assert check_page(sample_path, width, dark) == []


@needs_chromium
@pytest.mark.slow
def test_the_browser_finds_a_column_of_numbers_out_of_view(tmp_path):
    rows = "<tr><th>agent</th><th>usefulness</th></tr><tr><td style='min-width: 600px'>PPO</td><td>0.9</td></tr>"
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><div style='overflow-x: auto'><table>{rows}</table></div>", "utf-8")
    (complaint,) = check_page(page, 390, False)
    assert complaint.startswith("the column 'usefulness' ends at")
