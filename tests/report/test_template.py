"""Pages in Markdown: prose and blocks are placed as written, and text from data is shown literally."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drest_torch.errors import StudyError
from drest_torch.report.blocks import Page, Section, Table
from drest_torch.report.html import render
from drest_torch.report.markdown import literal, plain
from drest_torch.report.template import FILTERS, Template
from tests.helpers.studies import page_text

TABLES = {"ends": Table("Ends", ["", "N"], [["a", "0.5"]], "old")}


class PageOfTables(Template):
    def functions(self):
        return {"table": lambda name: self.mark(self.named(TABLES, name, "table"))}


@pytest.fixture
def rendered(tmp_path):
    def render(source, **values):
        path = tmp_path / "page.md"
        path.write_text(source, encoding="utf-8")
        return PageOfTables(path).render(values)

    return render


EVERYTHING = """intro

## One *two* `three`
before
{{ table("ends") }}
after {{ table("ends") }}{{ table("ends") }}
```
code
  more
```
### Part
- of {{ n }}
  agents
- {{ name }}, {{ 1234|thousands }}, {{ lost }}
### Another part
more
## Last
text
"""


def test_a_template_with_all_elements_equals_its_snapshot(rendered, snapshot):
    """`pytest tests/report/test_template.py --snapshot-update` renews the snapshot."""
    page = render(Page("T", "", [Section("S", rendered(EVERYTHING, n=3, name="a*b*", lost=None))]))
    assert page.partition("<body>")[2] == snapshot


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('\n{{ table("end") }}', r"shows the table 'end', which the study does not have; it has ends"),
        ('```\n{{ table("ends") }}\n```', "a table is placed where no block is allowed"),
        ("# Title", "'Title' is not a heading with two or three #"),
        ("a\nb\n{{ findings.lost }}", ":3: .*no attribute 'lost'"),
        ("a\n{{ x", ":2: unexpected end of template"),
    ],
)
def test_an_error_names_the_line_of_the_page(rendered, source, complaint):
    with pytest.raises(StudyError, match=rf"page\.md.*{complaint}"):
        rendered(source, findings={})


MARKUP = st.text(st.sampled_from("ab12 .)-+#*_`~<>&;[]()!|\\\n'\"=:/{}%\ue000\ue001"), min_size=1).filter(str.strip)


@given(MARKUP)
@example("<b>&amp;</b> & [a](https://b.org) ![c](d) `e` **f** _g_ __h__ \\* 2**3 ~~~")
@example("12) item")
@example("- item")
@example("two\n\n# lines")
@example("{{ x }} {% if %}")
def test_text_from_data_is_shown_literally(rendered, text):
    expected = " ".join(text.replace("\ue000", "�").replace("\ue001", "�").split())
    *prose, section = rendered("{{ text }}\n\nbefore\n{{ text }}\nafter\n\n## {{ text }}\n", text=text)
    assert page_text(prose) == f"{expected} before {expected} after"
    assert " ".join(plain(literal(text)).split()) == expected
    assert " ".join(section.title.split()) == expected


@pytest.mark.parametrize(
    ("name", "value", "options", "text"),
    [
        ("num", 0.95149, (), "0.951"),
        ("num", -0.0001, (2,), "0.00"),
        ("num", float("nan"), (), "–"),
        ("percent", 0.954, (1,), "95.4 %"),
        ("short", 1249.6, (), "1,250"),
        ("short", 5.4e9, (), "5e9"),
        ("plural", 0, ("policy", "policies"), "0 policies"),
    ],
)
def test_a_filter_formats_a_value(name, value, options, text):
    assert FILTERS[name](value, *options) == text
