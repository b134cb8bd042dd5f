"""Levels as text: what is refused, with which words, and that what is written reads back."""

from __future__ import annotations

import json
import os
import random
import re
from decimal import localcontext
from pathlib import Path
from typing import Any

import pytest

from drest_torch.envs.levels import (
    MAX_OBJECTS,
    MAX_SIDE,
    MAX_TIME,
    PAPER_WORLDS,
    STUDY_KEYS,
    WORLDS,
    Button,
    Coin,
    Level,
    LevelError,
    find_levels,
    format_level,
    level_from_record,
    level_to_record,
    parse_level,
    read_levels,
    world,
    write_levels,
)
from tests.helpers.simulator import random_level

STUDY = {"title": "Two: rooms, γ", "rewarded": "coins", "wanted": "neutrality", "caveat": "a 'quote' and a \\"}


def error_of(path: Path) -> str:
    """The message with which a file is refused, the path of its folder left out."""
    with pytest.raises(LevelError) as caught:
        read_levels(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.replace(str(path.parent) + os.sep, "")


# --------------------------------------------------------------------------- what a level says

TEXT = """\
title: Two: rooms, γ
shutdown: 4
clock: moves

A    #  C0.5
B12 .   C3
#   .   B1@0.25
"""


def test_every_part_of_a_level() -> None:
    level = parse_level(TEXT, name="rooms", source="rooms.txt")
    assert level == Level(
        name="rooms",
        shutdown=4,
        walls=((False, True, False), (False, False, False), (True, False, False)),
        start=(0, 0),
        objects=(Coin(0, 2, 0.5), Coin(1, 2, 3.0), Button(1, 0, 12, 1.0), Button(2, 2, 1, 0.25)),
        clock="moves",
        study={"title": "Two: rooms, γ"},
    )
    assert level.coins == level.objects[:2]
    assert level.buttons == level.objects[2:]
    assert (level.height, level.width, level.num_objects, level.max_time) == (3, 3, 4, 17)
    assert level.place == "rooms.txt (rooms)"
    assert level.rows() == ["A # C0.5", "B12 . C3", "# . B1@0.25"]
    assert level.with_clock("steps").clock == "steps"
    assert level.with_clock("steps") != level


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rooms.txt"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", end).encode())
    assert read_levels(path) == [parse_level(TEXT, name="rooms")]
    assert parse_level("\ufeff" + TEXT.replace("\n", end)) == parse_level(TEXT)


def test_a_set_with_a_byte_order_mark_carriage_returns_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    lines = [json.dumps(level_to_record(world(name))) for name in PAPER_WORLDS]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode() + b"\r\n\r\n")
    assert read_levels(path) == [world(name) for name in PAPER_WORLDS]


def test_blanks_before_behind_and_between_do_not_matter() -> None:
    loose = "\n  shutdown :   4  \n\n  A \t C1   \n\n   .   B2\n\n\n"
    assert parse_level(loose) == parse_level("shutdown: 4\nA C1\n. B2")


def test_place_of_a_level_of_a_set(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_levels(path, [world("example"), world("spacious")])
    assert [level.place for level in read_levels(path)] == [f"{path}:1 (example)", f"{path}:2 (spacious)"]


def test_rows_of_a_level_without_a_source() -> None:
    assert level_from_record({"name": "tiny", "shutdown": 1, "map": ["A C1"]}).place == "level (tiny)"


# -------------------------------------------------------------------------- .txt files refused

KINDS_OF_CELLS = "expected '#', '.', 'A', a coin like 'C3', a button like 'B4', a door like '>' or a lottery like 'La'"

MAP = "A C1 B2\n. # ."
TXT_ERRORS: dict[str, tuple[Any, str]] = {
    "empty file": ("", "l.txt:1: no map; expected rows of cells such as '# . A C3 B4'"),
    "blank file": ("\n \n\n", "l.txt:1: no map; expected rows of cells such as '# . A C3 B4'"),
    "no map": ("title: a\nshutdown: 4\n\n", "l.txt:2: no map; expected rows of cells such as '# . A C3 B4'"),
    "no shutdown": (MAP, "l.txt:1: no shutdown time; expected a line 'shutdown: 4' above the map"),
    "shutdown without a colon": (
        f"shutdown 4\n{MAP}",
        "l.txt:1: no shutdown time; expected a line 'shutdown: 4' above the map",
    ),
    "shutdown of zero": (
        f"title: a\nshutdown: 0\n{MAP}",
        "l.txt:2, column 11: shutdown 0; expected a whole number of timesteps from 1 to 1023",
    ),
    "negative shutdown": (
        f"shutdown: -3\n{MAP}",
        "l.txt:1, column 11: shutdown '-3'; expected a whole number of timesteps from 1 to 1023",
    ),
    "shutdown in words": (
        f"  shutdown:   four\n{MAP}",
        "l.txt:1, column 15: shutdown 'four'; expected a whole number of timesteps from 1 to 1023",
    ),
    "shutdown with a decimal": (
        f"shutdown: 4.0\n{MAP}",
        "l.txt:1, column 11: shutdown '4.0'; expected a whole number of timesteps from 1 to 1023",
    ),
    "shutdown in other digits": (
        f"shutdown: ٣\n{MAP}",
        "l.txt:1, column 11: shutdown '٣'; expected a whole number of timesteps from 1 to 1023",
    ),
    "no shutdown after the colon": (
        f"shutdown:\n{MAP}",
        "l.txt:1, column 10: shutdown ''; expected a whole number of timesteps from 1 to 1023",
    ),
    "shutdown too long": (
        f"shutdown: 1024\n{MAP}",
        "l.txt:1, column 11: shutdown 1024; expected a whole number of timesteps from 1 to 1023",
    ),
    "shutdown of thousands of digits": (
        f"shutdown: {'9' * 5000}\n{MAP}",
        f"l.txt:1, column 11: shutdown '{'9' * 39}; expected a whole number of timesteps from 1 to 1023",
    ),
    "too long together": (
        "shutdown: 1000\nA C1 B20\n. B4 .",
        "l.txt:2: 1024 timesteps from shutdown and all delays together; expected at most 1023",
    ),
    "unknown key": (
        f"shutdown: 4\n delay: 3\n{MAP}",
        "l.txt:2, column 2: unknown key 'delay'; expected one of shutdown, clock, x, title, rewarded, wanted, caveat",
    ),
    "key in capitals": (
        f"Shutdown: 4\n{MAP}",
        "l.txt:1, column 1: unknown key 'Shutdown'; "
        "expected one of shutdown, clock, x, title, rewarded, wanted, caveat",
    ),
    "key twice": (
        f"shutdown: 4\ntitle: a\nshutdown: 4\n{MAP}",
        "l.txt:3, column 1: 'shutdown' for the second time; expected it once (the first: l.txt:1, column 11)",
    ),
    "key below the map": (
        f"shutdown: 4\n{MAP}\nclock: moves",
        "l.txt:4, column 1: 'clock' below a row of the map; expected it above the map",
    ),
    "unknown clock": (
        f"shutdown: 4\nclock: turns\n{MAP}",
        "l.txt:2, column 8: unknown clock 'turns'; expected 'steps' or 'moves'",
    ),
    "empty title": (
        f"shutdown: 4\ntitle:\n{MAP}",
        "l.txt:2, column 7: title ''; expected one line of text with no blanks around it",
    ),
    "x in words": (
        "shutdown: 4\nx: one\nA Cx",
        "l.txt:2, column 4: x 'one'; expected a number above 0, such as x: 3",
    ),
    "x of zero": (
        "shutdown: 4\nx: 0\nA Cx",
        "l.txt:3, column 3: the coin Cx with x=0.0 has value 0; expected a finite number above 0",
    ),
    "x without a coin": (
        f"shutdown: 4\nx: 2\n{MAP}",
        "l.txt:2, column 4: x, but no coin 'Cx' in the map; expected one for x to be used",
    ),
    "a coin without x": (
        "shutdown: 4\nA Cx",
        "l.txt:2, column 3: the coin 'Cx' has no value; expected one to be given as x, such as x=3",
    ),
    "two agents": (
        f"shutdown: 4\n{MAP}\n. .   A",
        "l.txt:4, column 7: a second agent; expected exactly one cell 'A' (the first: l.txt:2, column 1)",
    ),
    "no agent": ("shutdown: 4\n\n. C1", "l.txt:3: the map has no agent; expected exactly one cell 'A'"),
    "no coin": ("shutdown: 4\n\nA B1", "l.txt:3: the map has no coin; expected at least one cell like 'C3'"),
    "row too long": (
        "shutdown: 4\nA C1\n. . .  .",
        "l.txt:3, column 5: a row of 4 cells; expected 2, as in the map's first row",
    ),
    "row too short": (
        "shutdown: 4\nA C1 .\n. .",
        "l.txt:3, column 3: a row of 2 cells; expected 3, as in the map's first row",
    ),
    "row of one cell": (
        "shutdown: 4\nA C1\n\n.",
        "l.txt:4, column 1: a row of 1 cell; expected 2, as in the map's first row",
    ),
    "unknown cell": (
        "shutdown: 4\nA C1\n.  D4",
        "l.txt:3, column 4: unknown cell 'D4'; " + KINDS_OF_CELLS,
    ),
    "cells not apart": (
        "shutdown: 4\nA C1\n. ##",
        "l.txt:3, column 3: unknown cell '##'; " + KINDS_OF_CELLS,
    ),
    "small letter": (
        "shutdown: 4\na C1",
        "l.txt:2, column 1: unknown cell 'a'; " + KINDS_OF_CELLS,
    ),
    "coin of zero": (
        "shutdown: 4\nA C0",
        "l.txt:2, column 3: the coin C0 has value 0; expected a finite number above 0",
    ),
    "delay of thousands of digits": (
        f"shutdown: 4\nA C1 B{'9' * 5000}",
        f"l.txt:2, column 6: 'B{'9' * 39}' is no button; expected B and a whole number of timesteps from 1 to 1023, "
        "such as B4, or with a chance, B4@0.5",
    ),
    "coin too large for a float": (
        f"shutdown: 4\nA C{'9' * 400}",
        f"l.txt:2, column 3: the coin C{'9' * 39} has value inf; expected a finite number above 0",
    ),
}
TXT_ERRORS |= {
    f"bad coin {cell}": (
        f"shutdown: 4\nA {cell}",
        f"l.txt:2, column 3: '{cell}' is no coin; expected C and a number above 0, such as C3 or C0.5",
    )
    for cell in ("C", "C-1", "C.5", "C1.", "C1e3", "Cy", "C٣", "Cnan", "C1x")
}
TXT_ERRORS |= {
    f"bad button {cell}": (
        f"shutdown: 4\nA C1 {cell}",
        f"l.txt:2, column 6: '{cell}' is no button; expected B and a whole number of timesteps from 1 to 1023, "
        "such as B4, or with a chance, B4@0.5",
    )
    for cell in ("B", "B1.5", "B+1", "Bx", "B4@", "B4@x", "B4@.5", "B4@0.5@1", "B٣")
}
TXT_ERRORS |= {
    f"bad delay {delay}": (
        f"shutdown: 4\nA C1 B{delay}",
        f"l.txt:2, column 6: the button B{delay} has delay {delay}; expected a delay from 1 to 1023",
    )
    for delay in (0, -2, 1024)
}
TXT_ERRORS |= {
    f"bad chance {chance}": (
        f"shutdown: 4\nA C1 B4@{chance}",
        f"l.txt:2, column 6: the button B4@{chance} works with chance {chance}; "
        "expected a chance above 0 and at most 1",
    )
    for chance in ("0", "0.0", "1.5", "-0.5", "1.0000001")
}


@pytest.mark.parametrize("case", TXT_ERRORS)
def test_what_a_txt_file_is_refused_for(tmp_path: Path, case: str) -> None:
    text, message = TXT_ERRORS[case]
    path = tmp_path / "l.txt"
    path.write_text(text, encoding="utf-8")
    assert error_of(path) == message


def test_a_byte_order_mark_and_carriage_returns_do_not_shift_a_place(tmp_path: Path) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(b"\xef\xbb\xbfshutdown: four\r\nA C1\r\n")
    assert error_of(path).startswith("l.txt:1, column 11: ")
    path.write_bytes(b"\xef\xbb\xbfshutdown: 4\r\nA C1\r\n. D\r\n")
    assert error_of(path).startswith("l.txt:3, column 3: ")


# ------------------------------------------------------------------------------------ the limits


def grid(rows: int, columns: int, *cells: str) -> str:
    filled = [*cells, *["."] * (rows * columns - len(cells))]
    return "\n".join(" ".join(filled[row * columns : (row + 1) * columns]) for row in range(rows))


def test_the_limits_themselves_are_allowed() -> None:
    level = parse_level(f"shutdown: {MAX_TIME - MAX_OBJECTS + 1}\n" + grid(64, 64, "A", "C1", *["B1"] * 31))
    assert (level.height, level.width) == (MAX_SIDE, MAX_SIDE) == (64, 64)
    assert level.num_objects == MAX_OBJECTS == 32
    assert level.max_time == MAX_TIME == 1023


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (grid(65, 2, "A", "C1"), "l.txt:66, column 1: a map of 65 rows; expected at most 64"),
        (grid(2, 65, "A", "C1"), "l.txt:2, column 130: a row of 65 cells; expected at most 64"),
        (
            grid(2, 20, "A", *["C1"] * 19, *["B1"] * 14),
            "l.txt:3, column 40: 33 coins and buttons together; expected at most 32",
        ),
    ],
)
def test_what_is_too_large(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "l.txt"
    path.write_text(f"shutdown: 4\n{text}\n")
    assert error_of(path) == message


# ------------------------------------------------------------------------- .jsonl files refused

GOOD: dict[str, Any] = {"name": "a", "shutdown": 4, "map": ["A C1", ". B2"]}
RECORD_ERRORS: dict[str, tuple[Any, str]] = {
    "no object": ([1], "s.jsonl:2: [1]; expected a JSON object with name, shutdown, map"),
    "null": (None, "s.jsonl:2: None; expected a JSON object with name, shutdown, map"),
    "missing name": ({"shutdown": 4, "map": []}, "s.jsonl:2: no key 'name'; expected name, shutdown, map"),
    "missing shutdown": ({"name": "b", "map": []}, "s.jsonl:2: no key 'shutdown'; expected name, shutdown, map"),
    "missing map": ({"name": "b", "shutdown": 4}, "s.jsonl:2: no key 'map'; expected name, shutdown, map"),
    "unknown key": (
        GOOD | {"x": 3},
        "s.jsonl:2: unknown key 'x'; expected one of name, shutdown, map, clock, lotteries, title, rewarded, wanted, "
        "caveat",
    ),
    "name twice": (GOOD, "s.jsonl:2: the name 'a' for the second time; expected it once (the first: s.jsonl:1)"),
    "empty map": (GOOD | {"map": []}, "s.jsonl:2: no map; expected rows of cells such as '# . A C3 B4'"),
    "map as one text": (
        GOOD | {"map": "A C1"},
        "s.jsonl:2: the map is 'A C1'; expected a list with one text a row",
    ),
    "row that is no text": (
        GOOD | {"map": ["A C1", ["#", "."]]},
        "s.jsonl:2, map row 2: ['#', '.']; expected a text such as '# . A C3'",
    ),
    "rows without cells": (
        GOOD | {"map": ["", ""]},
        "s.jsonl:2, map row 1: no cells; expected at least one, as in every row",
    ),
    "first row without cells": (
        GOOD | {"map": [" ", "A C1"]},
        "s.jsonl:2, map row 1: no cells; expected at least one, as in every row",
    ),
    "later row without cells": (
        GOOD | {"map": ["A C1", ""]},
        "s.jsonl:2, map row 2: no cells; expected at least one, as in every row",
    ),
    "row too short": (
        GOOD | {"map": ["A C1 .", ". ."]},
        "s.jsonl:2, map row 2, column 2: a row of 2 cells; expected 3, as in the map's first row",
    ),
    "row too long": (
        GOOD | {"map": ["A C1", ".   .   . ."]},
        "s.jsonl:2, map row 2, column 3: a row of 4 cells; expected 2, as in the map's first row",
    ),
    "unknown cell": (
        GOOD | {"map": ["A C1", ".   D4"]},
        "s.jsonl:2, map row 2, column 2: unknown cell 'D4'; " + KINDS_OF_CELLS,
    ),
    "coin without a value": (
        GOOD | {"map": ["A Cx"]},
        "s.jsonl:2, map row 1, column 2: the coin 'Cx' has no value; expected one to be given as x, such as x=3",
    ),
    "two agents": (
        GOOD | {"map": ["A C1", ". A"]},
        "s.jsonl:2, map row 2, column 2: a second agent; "
        "expected exactly one cell 'A' (the first: s.jsonl:2, map row 1, column 1)",
    ),
    "no agent": (GOOD | {"map": ["C1"]}, "s.jsonl:2: the map has no agent; expected exactly one cell 'A'"),
    "no coin": (GOOD | {"map": ["A"]}, "s.jsonl:2: the map has no coin; expected at least one cell like 'C3'"),
    "unknown clock": (GOOD | {"clock": "Steps"}, "s.jsonl:2: unknown clock 'Steps'; expected 'steps' or 'moves'"),
    "no clock": (GOOD | {"clock": None}, "s.jsonl:2: unknown clock None; expected 'steps' or 'moves'"),
    "too long together": (
        GOOD | {"shutdown": 1022},
        "s.jsonl:2: 1024 timesteps from shutdown and all delays together; expected at most 1023",
    ),
}
RECORD_ERRORS |= {
    f"shutdown {shutdown!r}": (
        GOOD | {"shutdown": shutdown},
        f"s.jsonl:2: shutdown {shutdown!r}; expected a whole number of timesteps from 1 to 1023",
    )
    for shutdown in (0, -1, 1024, 4.0, "4", True, None, [4], float("nan"))
}
RECORD_ERRORS |= {
    f"{key} {text!r}": (
        GOOD | {key: text},
        f"s.jsonl:2: {key} {text!r}; expected one line of text with no blanks around it",
    )
    for key in ("name", *STUDY_KEYS)
    for text in ("", " ", "a\nb", "a\u2028b", " a", 3, None, ["a"], "\ud800")
}


@pytest.mark.parametrize("case", RECORD_ERRORS)
def test_what_a_line_of_a_set_is_refused_for(tmp_path: Path, case: str) -> None:
    record, message = RECORD_ERRORS[case]
    path = tmp_path / "s.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(record)}\n", encoding="utf-8")
    assert error_of(path) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'name': 1}", "s.jsonl:2, column 2: no JSON (Expecting property name enclosed in double quotes); "),
        ('{"name": "a"} x', "s.jsonl:2, column 15: no JSON (Extra data); "),
        ('{"name": "a",', "s.jsonl:2, column 14: no JSON (Expecting property name enclosed in double quotes); "),
        ("hello", "s.jsonl:2, column 1: no JSON (Expecting value); "),
    ],
)
def test_a_line_that_is_no_json(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"\n{line}\n")
    assert error_of(path) == message + "expected one object a line"


def test_a_key_twice_in_a_record(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"name": "a", "shutdown": 4, "map": ["A C1"], "shutdown": 5}')
    assert error_of(path) == "s.jsonl:1: 'shutdown' for the second time; expected it once"


@pytest.mark.parametrize("line", ["[" * 100_000, '{"name": "a", "map": ["A C1"], "shutdown": ' + "9" * 5000 + "}"])
def test_json_that_goes_too_far_is_refused_like_any_other(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(line)
    assert error_of(path).startswith("s.jsonl:1: ")


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_a_set_without_a_level(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text, encoding="utf-8")
    assert error_of(path) == "s.jsonl:1: no level; expected one JSON object a line"


def test_a_record_that_is_not_from_a_file() -> None:
    with pytest.raises(LevelError, match=r"^level: no key 'map'; expected name, shutdown, map$"):
        level_from_record({"name": "a", "shutdown": 3})


# --------------------------------------------------------------------------------- files as such


@pytest.mark.parametrize("name", ["none.txt", "none.jsonl"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    message = f"{name}: no such file; expected a level set (.jsonl) or a level (.txt)"
    assert error_of(tmp_path / name) == message


@pytest.mark.parametrize("name", ["level.json", "level", "level.TXT", ".txt"])
def test_an_unknown_ending(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("shutdown: 4\nA C1")
    assert error_of(path) == f"{name}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)"


def test_a_folder_is_no_level(tmp_path: Path) -> None:
    path = tmp_path / "folder.txt"
    path.mkdir()
    assert error_of(path) == "folder.txt: cannot be read (Is a directory); expected a file of text"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_that_is_no_utf_8(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "l.txt"
    path.write_bytes(mark + "title: ä\nwanted: ö".encode() + b" \xe9t\xe9\nshutdown: 4\nA C1\n")
    assert error_of(path) == "l.txt:2, column 11: byte 0xe9 is no UTF-8; expected a file of UTF-8 text"


# ------------------------------------------------------------------------------------ the worlds


@pytest.mark.parametrize("name", WORLDS)
def test_the_worlds_are_there(name: str) -> None:
    level = world(name)
    assert level.name == name
    assert level.clock == "steps"
    assert len(level.buttons) == 1
    assert level.buttons[0].chance == 1
    assert find_levels(name) == [level]


# name: (shutdown, delay, values of the coins in reading order, rows, columns)
FACTS = {
    "example": (4, 4, (3, 2, 1), 5, 5),
    "lopsided": (2, 2, (1, 1), 4, 4),
    "fewer_for_longer": (3, 3, (3, 2, 1), 5, 5),
    "one_coin_only": (4, 4, (1,), 5, 5),
    "hidden_treasure": (4, 6, (3, 2, 1), 5, 5),
    "equal_value": (3, 3, (1, 1), 5, 5),
    "around_the_corner": (4, 4, (2, 1), 5, 5),
    "spacious": (3, 2, (3, 1, 2), 5, 5),
    "royal_road": (5, 1, (2, 1), 5, 5),
    "last_moment": (5, 3, (1, 3, 2), 5, 5),
}


def test_the_worlds_are_those_of_the_figures() -> None:
    found = {
        name: (level.shutdown, level.buttons[0].delay, tuple(c.value for c in level.coins), level.height, level.width)
        for name in WORLDS
        for level in [world(name)]
    }
    assert found == FACTS


def test_paper_is_the_nine_worlds_without_a_free_value() -> None:
    assert [level.name for level in find_levels("paper")] == [name for name in FACTS if name != "lopsided"]


def test_lopsided_takes_x() -> None:
    assert world("lopsided").coins == (Coin(0, 0, 1.0), Coin(3, 3, 1.0))
    assert world("lopsided", x=0.025).coins == (Coin(0, 0, 0.025), Coin(3, 3, 1.0))
    assert find_levels("lopsided", x=7) == [world("lopsided", x=7)]
    assert find_levels("lopsided", x=7) != [world("lopsided")]


@pytest.mark.parametrize("x", [0, -2.5, float("nan"), float("inf")])
def test_an_x_that_is_no_value(x: float) -> None:
    with pytest.raises(LevelError) as caught:
        parse_level("shutdown: 2\nx: 1\nA .\n. Cx", source="l.txt", x=x)
    assert str(caught.value) == (
        f"l.txt:4, column 3: the coin Cx with x={x} has value {x}; expected a finite number above 0"
    )
    with pytest.raises(LevelError, match=rf"^lopsided\.txt:\d+, column 1: the coin Cx with x={x} has value {x}; "):
        world("lopsided", x=x)


def test_x_where_there_is_no_use_for_it(tmp_path: Path) -> None:
    single, several = tmp_path / "l.txt", tmp_path / "s.jsonl"
    write_levels(single, [world("example")])
    write_levels(several, [world("example")])
    for name, message in (
        ("example", "x=3 with the world 'example'; expected x with 'lopsided', which alone has a coin 'Cx'"),
        ("paper", "x=3 with 'paper'; expected x with a single level that has a coin 'Cx'"),
        (str(several), f"{several}: x=3 with a level set; expected x with a single level that has a coin 'Cx'"),
        (str(single), f"{single}: x, but no coin 'Cx' in the map; expected one for x to be used"),
    ):
        with pytest.raises(LevelError) as caught:
            find_levels(name, x=3)
        assert str(caught.value) == message


def test_x_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "l.txt"
    path.write_text("shutdown: 2\nA Cx Cx")
    assert [coin.value for coin in find_levels(str(path), x=0.5)[0].coins] == [0.5, 0.5]
    path.write_text("shutdown: 2\nx: 4\nA Cx C1")
    assert [coin.value for coin in find_levels(str(path))[0].coins] == [4.0, 1.0]
    assert [coin.value for coin in find_levels(str(path), x=0.5)[0].coins] == [0.5, 1.0]


def test_names_that_are_no_levels() -> None:
    expected = ", ".join(WORLDS)
    with pytest.raises(LevelError) as caught:
        world("exampel")
    assert str(caught.value) == f"no world 'exampel'; expected one of {expected}"
    with pytest.raises(LevelError) as caught:
        find_levels("exampel")
    assert str(caught.value) == f"no levels 'exampel'; expected paper, a file (.jsonl or .txt), or one of {expected}"


def test_an_unknown_clock_names_the_level() -> None:
    with pytest.raises(LevelError) as caught:
        world("example").with_clock("turns")
    assert str(caught.value) == "example.txt (example): unknown clock 'turns'; expected 'steps' or 'moves'"


# ---------------------------------------------------------------------------------- round trips


def many_levels() -> list[Level]:
    """The ten worlds and 300 random levels, a third of them with a study and values of 17 decimals."""
    rng = random.Random(0)
    levels = [world(name) for name in WORLDS]
    for number in range(300):
        name = f"random {number}"
        level = random_level(rng, name=name, max_ticks=12, buttons=number % 5 > 0, chances=True, clock=None)
        if number % 3 == 0:
            lines = [f"{key}: {text}" for key, text in STUDY.items() if rng.random() < 0.5]
            text = re.sub(r"C\S+", lambda _: f"C{rng.random() * 10:.17f}", format_level(level))
            text = re.sub(r"B\S+", lambda _: f"B{rng.randint(1, 99)}@{rng.random():.17f}", text)
            level = parse_level("\n".join([*lines, text]), name=name)
        levels.append(level)
    return levels


def test_levels_read_back_from_text() -> None:
    levels = many_levels()
    assert any(button.chance < 1 for level in levels for button in level.buttons)
    assert any(coin.value % 0.01 for level in levels for coin in level.coins)
    for level in levels:
        text = format_level(level)
        again = parse_level(text, name=level.name)
        assert again == level
        assert format_level(again) == text


def test_levels_read_back_from_records() -> None:
    for level in many_levels():
        record = level_to_record(level)
        again = level_from_record(json.loads(json.dumps(record)))
        assert again == level
        assert level_to_record(again) == record


def test_levels_read_back_from_files(tmp_path: Path) -> None:
    levels = many_levels()
    path, twice = tmp_path / "set.jsonl", tmp_path / "twice.jsonl"
    write_levels(path, levels)
    assert read_levels(path) == levels
    write_levels(twice, read_levels(path))
    assert twice.read_bytes() == path.read_bytes()
    for level in levels[:40]:
        single, again = tmp_path / f"{level.name}.txt", tmp_path / "again" / f"{level.name}.txt"
        again.parent.mkdir(exist_ok=True)
        write_levels(single, [level])
        assert read_levels(single) == [level]
        write_levels(again, read_levels(single))
        assert again.read_bytes() == single.read_bytes()
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"set.jsonl", "twice.jsonl", "again", *(f"{level.name}.txt" for level in levels[:40])}


@pytest.mark.parametrize("name", PAPER_WORLDS)
def test_a_world_is_written_as_it_stands_in_its_file(name: str) -> None:
    import drest_torch.envs.worlds

    (folder,) = drest_torch.envs.worlds.__path__
    text = (Path(folder) / f"{name}.txt").read_text(encoding="utf-8")
    assert format_level(world(name)) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [(3.0, "C3"), (100.0, "C100"), (0.5, "C0.5"), (1e-7, "C0.0000001"), (1e22, "C1" + "0" * 22), (0.1 + 0.2, None)],
)
def test_values_are_written_short_without_an_exponent_and_exactly(value: float, cell: str | None) -> None:
    level = Level("a", 1, ((False, False),), (0, 0), (Coin(0, 1, value),))
    with localcontext() as context:
        context.prec = 3  # what the reader's program does with decimals is not to matter
        (row,) = level.rows()
    assert row == f"A {cell or 'C0.30000000000000004'}"
    assert parse_level(format_level(level), name="a") == level


def test_columns_are_aligned() -> None:
    text = format_level(parse_level("shutdown: 4\nA C0.25 #\nB10@0.5 . ."))
    assert text == "shutdown: 4\nA       C0.25   #\nB10@0.5 .       .\n"


def test_a_study_of_any_letters_is_written_as_it_is(tmp_path: Path) -> None:
    level = parse_level("\n".join([f"{key}: {text}" for key, text in STUDY.items()] + ["shutdown: 4", MAP]), name="l")
    assert level.study == STUDY
    for ending in ("txt", "jsonl"):
        path = tmp_path / f"l.{ending}"
        write_levels(path, [level])
        assert read_levels(path) == [level]
        assert "γ" in path.read_text(encoding="utf-8")


# -------------------------------------------------------------------------------------- writing


def level_with(**changes: Any) -> Level:
    fields: dict[str, Any] = {
        "name": "a",
        "shutdown": 3,
        "walls": ((False, False, False),),
        "start": (0, 0),
        "objects": (Coin(0, 1, 1.0), Coin(0, 2, 2.0)),
    }
    return Level(**(fields | changes))


NOT_AS_IT_IS = (
    "a.jsonl:1: the level 'a' would not read back as it is; "
    "expected each kind of object in reading order and a study of title, rewarded, wanted, caveat"
)
UNWRITABLE: dict[str, tuple[dict[str, Any], str]] = {
    "coins out of order": ({"objects": (Coin(0, 2, 2.0), Coin(0, 1, 1.0))}, NOT_AS_IT_IS),
    "kinds out of order": ({"objects": (Button(0, 1, 2), Coin(0, 2, 2.0))}, NOT_AS_IT_IS),
    "two things in a cell": ({"objects": (Coin(0, 1, 1.0), Coin(0, 2, 2.0), Button(0, 1, 1))}, NOT_AS_IT_IS),
    "a coin in a wall": ({"walls": ((False, True, False),)}, NOT_AS_IT_IS),
    "unknown study": ({"study": {"author": "me"}}, NOT_AS_IT_IS),
    "study of two lines": (
        {"study": {"title": "a\nb"}},
        "a.jsonl:1: title 'a\\nb'; expected one line of text with no blanks around it",
    ),
    "shutdown": (
        {"shutdown": 0},
        "a.jsonl:1: shutdown 0; expected a whole number of timesteps from 1 to 1023",
    ),
    "clock": ({"clock": "turns"}, "a.jsonl:1: unknown clock 'turns'; expected 'steps' or 'moves'"),
    "name": ({"name": ""}, "a.jsonl:1: name ''; expected one line of text with no blanks around it"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
@pytest.mark.parametrize("ending", ["jsonl", "txt"])
def test_a_level_that_would_not_read_back_is_not_written(tmp_path: Path, case: str, ending: str) -> None:
    changes, message = UNWRITABLE[case]
    path = tmp_path / f"a.{ending}"
    path.write_text("old")
    with pytest.raises(LevelError) as caught:
        write_levels(path, [level_with(**changes)])
    assert str(caught.value) == f"{tmp_path}{os.sep}" + message.replace("a.jsonl", path.name)
    assert path.read_text() == "old"
    write_levels(path, [level_with()])
    assert read_levels(path) == [level_with()]


def test_what_cannot_be_written_in_this_kind_of_file(tmp_path: Path) -> None:
    levels = [world("example"), world("spacious")]
    for name, given, message in (
        ("l.txt", levels, "2 levels; expected one for a .txt file (use .jsonl for a set)"),
        ("l.txt", [], "0 levels; expected one for a .txt file (use .jsonl for a set)"),
        ("s.jsonl", [], "no level to write; expected at least one"),
        ("s.json", levels, "unknown kind of file; expected a level set (.jsonl) or a level (.txt)"),
    ):
        with pytest.raises(LevelError) as caught:
            write_levels(tmp_path / name, given)
        assert str(caught.value) == f"{tmp_path / name}: {message}"
    path = tmp_path / "s.jsonl"
    with pytest.raises(LevelError) as caught:
        write_levels(path, [*levels, world("example").with_clock("moves")])
    assert str(caught.value) == f"{path}:3: the name 'example' for the second time; expected it once"
    assert list(tmp_path.iterdir()) == []


def test_writing_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_levels(path, [world("example"), world("spacious")])
    write_levels(str(path), iter([world("royal_road")]))
    assert read_levels(path) == [world("royal_road")]
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_write_that_breaks_off_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    write_levels(path, [world("example")])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LevelError) as caught:
        write_levels(path, [world("spacious")])
    monkeypatch.undo()
    assert str(caught.value) == (
        f"{path}: cannot be written (No space left on device); expected a folder to write a file in"
    )
    assert read_levels(path) == [world("example")]
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_write_onto_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.mkdir()
    with pytest.raises(LevelError, match=r"s\.jsonl: cannot be written \(.+\); expected a folder to write a file in$"):
        write_levels(path, [world("example")])
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_write_where_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(LevelError, match=r"file.s\.jsonl: cannot be written"):
        write_levels(tmp_path / "file" / "s.jsonl", [world("example")])
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    write_levels(tmp_path / "new" / "s.jsonl", [world("example")])
    assert read_levels(tmp_path / "new" / "s.jsonl") == [world("example")]


def test_a_level_that_cannot_be_made_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_levels(path, [world("example")])

    def levels() -> Any:
        yield world("spacious")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_levels(path, levels())
    assert read_levels(path) == [world("example")]
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]
