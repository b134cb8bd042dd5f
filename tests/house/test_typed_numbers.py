"""Limits on typed results in the README and docs/: a decimal in prose is not updated when results change.

Generated blocks (``<!-- NAME: written by … -->`` to ``<!-- end -->``), code, formulas, links, numbers of sections and
values of parameters (λ = 0.9) do not count. ``python -m tests.house.test_typed_numbers`` lists the others.
"""

import re

import pytest

from tests.helpers.documents import PAGES, ROOT

LAB_NOTES = "docs/lab-notes"
"""Dated notebooks, which keep their numbers."""
_IGNORED = [
    re.compile(pattern, re.DOTALL | re.MULTILINE)
    for pattern in (
        r"<!-- [^>]*written by [^>]*-->.*?(?:<!-- end -->|\Z)",
        r"^( *)(`{3,}|~{3,}|:{3,}\{math\}).*?^\1(?:`{3,}|~{3,}|:{3,}) *$",
        r"`[^`]*`",
        r"\$\$.*?\$\$|\$[^$\n]*\$",
        r"\{\{.*?\}\}",
        r"\]\([^)]*\)|https?://\S+|arXiv:? ?\d{4}\.\d+|\d{4}\.\d+(?=\])",
        r"\b(?:[Ss]ections?|[Tt]heorem|[Aa]ppendix|[Ff]igures?|Python|torch|numpy|version)"
        r" (?:[A-Z]\.)?\d+(?:\.\d+)*(?:(?:,| and| to) (?:[A-Z]\.)?\d+\.\d+)*",
        r"(?<!\w)[λγεβτwhxp] (?:=|is|≥|≤|to) \d*\.\d+",
    )
]
_DECIMAL = re.compile(r"(?<![\w.])[−-]?\d*\.\d+(?![\w.]*\.\d)")

# page: its limit of decimals, and the reason for them
LIMITS = {
    "README.md": (3, "speeds that tests/documentation/test_results.py compares with docs/benchmarks.md"),
    "docs/environments/queue.md": (6, "the table that defines the environment"),
    "docs/explanation/alternatives.md": (
        14,
        "closed forms that tests/studies/test_alternatives_closed_forms.py checks",
    ),
    "docs/explanation/metrics.md": (6, "the paper's γ, and an example in closed form"),
    "docs/explanation/theorem.md": (9, "a proof by numbers; tests/test_theory.py checks its closed forms"),
    "docs/explanation/language.md": (11, "closed forms, and a figure whose commands stand beside it"),
    "docs/howto/erosion.md": (24, "closed forms that tests/choices/test_erosion_theory.py checks"),
    "docs/howto/environments.md": (1, "a default value"),
    "docs/explanation/shutdownability.md": (4, "thresholds by definition, and the curve b at q = 1/2 in closed form"),
    "docs/howto/few-levels.md": (6, "ranges of values to try"),
    "docs/reference/agent.md": (111, "tests/test_agent.py compares it with the agents"),
    "docs/reference/generated-levels.md": (245, "tests/config/test_presets.py compares it with the levels"),
    "docs/tutorials/language.md": (17, "a default value, and measured times whose commands stand beside them"),
    "docs/tutorials/method.md": (25, "the output of the page's code, and a probability by definition"),
    "docs/tutorials/levels.md": (1, "a probability in the notation of levels"),
}


def typed(text):
    """Return the decimals in the prose and tables of a page."""
    for ignored in _IGNORED:
        text = ignored.sub(" ", text)
    return _DECIMAL.findall(text)


def decimals_of_pages():
    """Return the decimals of each page that has any, except lab notes."""
    decimals = {}
    for page in [ROOT / "README.md", *PAGES]:
        name = str(page.relative_to(ROOT))
        if not name.startswith(LAB_NOTES):
            decimals[name] = typed(page.read_text("utf-8"))
    return {name: numbers for name, numbers in decimals.items() if numbers}


def test_no_page_has_more_decimals_than_its_limit():
    pages = decimals_of_pages()
    more = {name: numbers for name, numbers in pages.items() if len(numbers) > LIMITS.get(name, (0, ""))[0]}
    assert more == {}, "generate them from the rows of a study, or link to the study's page"


def test_limits_name_pages_that_exist():
    assert [name for name in LIMITS if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        ("U is 0.93 and −.5.", ["0.93", "−.5"]),
        ("| 0.93 (0.9 to 1.0) |", ["0.93", "0.9", "1.0"]),
        ("With λ = 0.9 it is 0.5, see section 8.1 and [arXiv 2604.17502](a/0.5.md), `0.25` or $0.75$.", ["0.5"]),
        ("<!-- a: written by python docs/tables.py -->\n| 0.9 |\n<!-- end -->\n| 0.8 |", ["0.8"]),
        ("```python\nx = 0.9\n```\n0.8\n```text\n0.7\n```", ["0.8"]),
        ("{{ 0.5 }} of 12,017 on torch 2.13.0, 3 of 4.", []),
    ],
)
def test_decimals_are_counted_only_in_prose(text, decimals):
    assert typed(text) == decimals


if __name__ == "__main__":
    for page_name, page_decimals in decimals_of_pages().items():
        print(f"{len(page_decimals):4} of {LIMITS.get(page_name, (0,))[0]:3} {page_name:40}", *page_decimals[:12])
