"""The final table: every number in its column, and plain text outside a terminal."""

import io
import re

from drest_torch.evaluation.results import Score, SplitScores
from drest_torch.tracking.console import final_table, print_table
from tests.helpers.commands import Terminal

ROWS = [
    SplitScores("train", 2048, Score(0.951, 0.912), Score(0.123, 0.234), Score(1.0, 1.0)),
    SplitScores("test", 200, Score(0.873, 0.854), Score(0.115, 0.226), Score(1.0, 1.0)),
    SplitScores("paper", 9, Score(0.5, 0.75), Score(0.1, 0.2), Score(1.0, 4 / 3)),
]


def printed(rows, stream):
    print_table(rows, stream)
    return stream.getvalue()


def test_a_line_a_split_with_every_number():
    lines = [line.split() for line in printed(ROWS, io.StringIO()).splitlines()]
    assert ["usefulness", "neutrality"] in lines
    assert ["levels", "number", *["agent", "uniform", "optimum"] * 2] in lines
    assert ["training", "2,048", "0.951", "0.123", "1.000", "0.912", "0.234", "1.000"] in lines
    assert ["test", "200", "0.873", "0.115", "1.000", "0.854", "0.226", "1.000"] in lines
    assert ["paper", "9", "0.500", "0.100", "1.000", "0.750", "0.200", "1.333"] in lines
    assert final_table(ROWS).row_count == 3


def test_plain_text_outside_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    rows = [SplitScores("a file of levels with a long name/" * 5, 10**6, *[Score(0.5, 0.5)] * 3)]
    text = printed(rows, io.StringIO())
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert "1,000,000" in text


def test_nothing_is_cut_in_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    text = printed(ROWS, terminal := Terminal())
    assert "\x1b[1m" in text
    assert "…" not in text
    rows = [
        line.split() for line in terminal.plain().splitlines() if re.match(r" *(training|test|paper) +[\d,]+ ", line)
    ]
    assert [(len(row), row[-1]) for row in rows] == [(8, "1.000"), (8, "1.000"), (8, "1.333")]


def test_neutrality_given_the_bits_is_printed_where_it_differs():
    def printed(own):
        stream = io.StringIO()
        score = Score(1.0, 1.0)
        print_table([SplitScores("paper", 9, Score(1.0, 0.999, own), score, score)], stream)
        return stream.getvalue()

    assert "own" not in printed(0.999)
    assert "own" not in printed(None)
    assert "0.123" in printed(0.123)
    assert "private bits" in printed(0.123)
