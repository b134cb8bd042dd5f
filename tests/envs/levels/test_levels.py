"""Levels as text: what is refused, where it says the fault is, and that what is written reads back."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
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


def refused(act: Callable[[], object], start: str, phrase: str = "") -> None:
    """Assert that something is refused with a message that names the place first."""
    with pytest.raises(LevelError) as caught:
        act()
    message = str(caught.value)
    assert message.startswith(start)
    assert phrase in message
    assert "\n" not in message
    assert len(message) < 400


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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_marks_and_blanks_change_nothing(tmp_path: Path, end: str) -> None:
    path, several = tmp_path / "rooms.txt", tmp_path / "set.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", end).encode())
    assert read_levels(path) == [parse_level(TEXT, name="rooms")]
    assert parse_level("\ufeff" + TEXT.replace("\n", end)) == parse_level(TEXT)
    lines = [json.dumps(level_to_record(world(name))) for name in PAPER_WORLDS]
    several.write_bytes(b"\xef\xbb\xbf" + (end.replace("\r", "\r\n") * 2).join(lines).encode() + b"\n\n")
    assert read_levels(several) == [world(name) for name in PAPER_WORLDS]
    loose = "\n  shutdown :   4  \n\n  A \t C1   \n\n   .   B2\n\n\n"
    assert parse_level(loose) == parse_level("shutdown: 4\nA C1\n. B2")


def grid(rows: int, columns: int, *cells: str) -> str:
    filled = [*cells, *["."] * (rows * columns - len(cells))]
    return "\n".join(" ".join(filled[row * columns : (row + 1) * columns]) for row in range(rows))


def test_the_limits_themselves_are_allowed() -> None:
    level = parse_level(f"shutdown: {MAX_TIME - MAX_OBJECTS + 1}\n" + grid(64, 64, "A", "C1", *["B1"] * 31))
    assert (level.height, level.width) == (MAX_SIDE, MAX_SIDE) == (64, 64)
    assert level.num_objects == MAX_OBJECTS == 32
    assert level.max_time == MAX_TIME == 1023


MAP = "A C1 B2\n. # ."
# The text of a file, the place that the message starts with, and what it names.
TXT_ERRORS = [
    ("", "1: ", "no map"),
    ("title: a\nshutdown: 4\n\n", "2: ", "no map"),
    (MAP, "1: ", "'shutdown: 4'"),
    (f"shutdown 4\n{MAP}", "1: ", "'shutdown: 4'"),
    *[
        (f"title: a\nshutdown: {value}\n{MAP}", "2, column 11: ", f"shutdown {value!r:.40}".replace("'0'", "0"))
        for value in ("0", "-3", "four", "4.0", "٣", "9" * 5000)
    ],
    (f"shutdown: 1024\n{MAP}", "1, column 11: ", "1 to 1023"),
    ("shutdown: 1000\nA C1 B20\n. B4 .", "2: ", "at most 1023"),
    (f"shutdown: 4\n delay: 3\n{MAP}", "2, column 2: ", "'delay'"),
    (f"Shutdown: 4\n{MAP}", "1, column 1: ", "'Shutdown'"),
    (f"shutdown: 4\ntitle: a\nshutdown: 4\n{MAP}", "3, column 1: ", "l.txt:1, column 11"),
    (f"shutdown: 4\n{MAP}\nclock: moves", "4, column 1: ", "above the map"),
    (f"shutdown: 4\nclock: turns\n{MAP}", "2, column 8: ", "'steps' or 'moves'"),
    (f"shutdown: 4\ntitle:\n{MAP}", "2, column 7: ", "title"),
    ("shutdown: 4\nx: one\nA Cx", "2, column 4: ", "x: 3"),
    ("shutdown: 4\nx: 0\nA Cx", "3, column 3: ", "above 0"),
    (f"shutdown: 4\nx: 2\n{MAP}", "2, column 4: ", "'Cx'"),
    ("shutdown: 4\nA Cx", "2, column 3: ", "x=3"),
    (f"shutdown: 4\n{MAP}\n. .   A", "4, column 7: ", "l.txt:2, column 1"),
    ("shutdown: 4\n\n. C1", "3: ", "'A'"),
    ("shutdown: 4\n\nA B1", "3: ", "'C3'"),
    ("shutdown: 4\nA C1\n. . .  .", "3, column 5: ", "expected 2"),
    ("shutdown: 4\nA C1 .\n. .", "3, column 3: ", "expected 3"),
    ("shutdown: 4\nA C1\n\n.", "4, column 1: ", "1 cell;"),
    ("shutdown: 4\nA C1\n.  D4", "3, column 4: ", "'D4'"),
    ("shutdown: 4\nA C1\n. ##", "3, column 3: ", "'##'"),
    *[
        (f"shutdown: 4\nA {cell}", "2, column 3: ", f"{cell:.40}")
        for cell in ("C0", "C" + "9" * 400, "C", "C-1", "C.5", "C1.", "C1e3", "Cy", "C٣", "Cnan", "C1x")
    ],
    *[
        (f"shutdown: 4\nA C1 {cell}", "2, column 6: ", f"{cell:.40}")
        for cell in ("B", "B1.5", "B+1", "Bx", "B4@", "B4@x", "B4@.5", "B4@0.5@1", "B٣", "B" + "9" * 5000)
    ],
    *[(f"shutdown: 4\nA C1 B{delay}", "2, column 6: ", f"delay {delay};") for delay in (0, -2, 1024)],
    *[
        (f"shutdown: 4\nA C1 B4@{chance}", "2, column 6: ", f"chance {chance};")
        for chance in ("0", "0.0", "1.5", "-0.5", "1.0000001")
    ],
    ("shutdown: 4\n" + grid(65, 2, "A", "C1"), "66, column 1: ", "at most 64"),
    ("shutdown: 4\n" + grid(2, 65, "A", "C1"), "2, column 130: ", "at most 64"),
    ("shutdown: 4\n" + grid(2, 20, "A", *["C1"] * 19, *["B1"] * 14), "3, column 40: ", "at most 32"),
]


@pytest.mark.parametrize(("text", "place", "phrase"), TXT_ERRORS, ids=range(len(TXT_ERRORS)))
def test_what_a_txt_file_is_refused_for(tmp_path: Path, text: str, place: str, phrase: str) -> None:
    path = tmp_path / "l.txt"
    # A byte order mark and carriage returns shift no place.
    for data in (text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()):
        path.write_bytes(data)
        refused(lambda: read_levels(path), f"{path}:{place}", phrase)


GOOD: dict[str, Any] = {"name": "a", "shutdown": 4, "map": ["A C1", ". B2"]}
RECORD_ERRORS: list[tuple[Any, str, str]] = [
    ([1], ": ", "JSON object"),
    (None, ": ", "JSON object"),
    *[({key: GOOD[key] for key in GOOD if key != missing}, ": ", f"no key '{missing}'") for missing in GOOD],
    (GOOD | {"x": 3}, ": ", "unknown key 'x'"),
    (GOOD, ": ", "the first: "),
    (GOOD | {"map": []}, ": ", "no map"),
    (GOOD | {"map": "A C1"}, ": ", "a list"),
    (GOOD | {"map": ["A C1", ["#", "."]]}, ", map row 2: ", "a text"),
    (GOOD | {"map": [" ", "A C1"]}, ", map row 1: ", "no cells"),
    (GOOD | {"map": ["A C1", ""]}, ", map row 2: ", "no cells"),
    (GOOD | {"map": ["A C1 .", ". ."]}, ", map row 2, column 2: ", "expected 3"),
    (GOOD | {"map": ["A C1", ".   D4"]}, ", map row 2, column 2: ", "'D4'"),
    (GOOD | {"map": ["A Cx"]}, ", map row 1, column 2: ", "'Cx'"),
    (GOOD | {"map": ["A C1", ". A"]}, ", map row 2, column 2: ", "map row 1, column 1"),
    (GOOD | {"map": ["C1"]}, ": ", "'A'"),
    (GOOD | {"clock": "Steps"}, ": ", "'Steps'"),
    (GOOD | {"clock": None}, ": ", "clock"),
    (GOOD | {"shutdown": 1022}, ": ", "at most 1023"),
    *[
        (GOOD | {"shutdown": shutdown}, ": ", f"shutdown {shutdown!r}")
        for shutdown in (0, -1, 1024, 4.0, "4", True, None, [4], float("nan"))
    ],
    *[(GOOD | {key: ""}, ": ", f"{key} ''") for key in ("name", *STUDY_KEYS)],
    *[(GOOD | {"title": text}, ": ", "title ") for text in (" ", "a\nb", "a\u2028b", " a", 3, None, ["a"], "\ud800")],
]


@pytest.mark.parametrize(("record", "place", "phrase"), RECORD_ERRORS, ids=range(len(RECORD_ERRORS)))
def test_what_a_line_of_a_set_is_refused_for(tmp_path: Path, record: Any, place: str, phrase: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(record)}\n", encoding="utf-8")
    refused(lambda: read_levels(path), f"{path}:2{place}", phrase)


@pytest.mark.parametrize(
    ("name", "data", "place", "phrase"),
    [
        ("s.jsonl", b"\n{'name': 1}", ":2, column 2: ", "no JSON"),
        ("s.jsonl", b'\n{"name": "a"} x', ":2, column 15: ", "no JSON"),
        ("s.jsonl", b'{"name": "a", "shutdown": 4, "map": ["A C1"], "shutdown": 5}', ":1: ", "'shutdown'"),
        ("s.jsonl", b"[" * 100_000, ":1: ", ""),
        ("s.jsonl", b'{"name": "a", "map": ["A C1"], "shutdown": ' + b"9" * 5000 + b"}", ":1: ", ""),
        ("s.jsonl", b"", ":1: ", "no level"),
        ("s.jsonl", b"\xef\xbb\xbf", ":1: ", "no level"),
        ("none.txt", None, ": ", "no such file"),
        ("none.jsonl", None, ": ", "no such file"),
        *[(name, b"shutdown: 4\nA C1", ": ", "unknown kind of file") for name in ("l.json", "l", "l.TXT", ".txt")],
        ("l.txt", "title: ä\nwanted: ö".encode() + b" \xe9t\xe9\nshutdown: 4\nA C1\n", ":2, column 11: ", "UTF-8"),
    ],
)
def test_what_a_file_is_refused_for(tmp_path: Path, name: str, data: bytes | None, place: str, phrase: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    refused(lambda: read_levels(path), f"{path}{place}", phrase)


def test_a_folder_is_no_level(tmp_path: Path) -> None:
    path = tmp_path / "folder.txt"
    path.mkdir()
    refused(lambda: read_levels(path), f"{path}: ", "cannot be read")
    path = tmp_path / "set.jsonl"
    path.mkdir()
    refused(lambda: write_levels(path, [world("example")]), f"{path}: ", "cannot be written")
    assert {each.name for each in tmp_path.iterdir()} == {"folder.txt", "set.jsonl"}


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


def test_names_of_worlds() -> None:
    for name in WORLDS:
        level = world(name)
        assert (level.name, level.clock, [button.chance for button in level.buttons]) == (name, "steps", [1])
        assert find_levels(name) == [level]
    assert [level.name for level in find_levels("paper")] == [name for name in FACTS if name != "lopsided"]
    refused(lambda: world("exampel"), "no world 'exampel'", ", ".join(WORLDS))
    refused(lambda: find_levels("exampel"), "no levels 'exampel'", ", ".join(WORLDS))
    refused(lambda: world("example").with_clock("turns"), "example.txt (example): ", "'turns'")


def test_the_value_of_x(tmp_path: Path) -> None:
    assert world("lopsided").coins == (Coin(0, 0, 1.0), Coin(3, 3, 1.0))
    assert world("lopsided", x=0.025).coins == (Coin(0, 0, 0.025), Coin(3, 3, 1.0))
    assert find_levels("lopsided", x=7) == [world("lopsided", x=7)]
    path = tmp_path / "l.txt"
    for text, x, values in (
        ("shutdown: 2\nA Cx Cx", 0.5, [0.5, 0.5]),
        ("shutdown: 2\nx: 4\nA Cx C1", None, [4.0, 1.0]),
        ("shutdown: 2\nx: 4\nA Cx C1", 0.5, [0.5, 1.0]),
    ):
        path.write_text(text)
        assert [coin.value for coin in find_levels(str(path), x=x)[0].coins] == values


@pytest.mark.parametrize("x", [0, -2.5, float("nan"), float("inf")])
def test_an_x_that_is_no_value(x: float) -> None:
    refused(lambda: parse_level("shutdown: 2\nx: 1\nA .\n. Cx", source="l.txt", x=x), "l.txt:4, column 3: ", f"x={x}")
    refused(lambda: world("lopsided", x=x), "lopsided.txt:", f"x={x}")


def test_x_where_there_is_no_use_for_it(tmp_path: Path) -> None:
    single, several = tmp_path / "l.txt", tmp_path / "s.jsonl"
    for path in (single, several):
        write_levels(path, [world("example")])
    for name, start in (
        ("example", "x=3 "),
        ("paper", "x=3 "),
        (str(several), str(several)),
        (str(single), f"{single}: x"),
    ):
        refused(lambda name=name: find_levels(name, x=3), start, "'Cx'")


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


def test_levels_read_back_from_texts_records_and_files(tmp_path: Path) -> None:
    levels = many_levels()
    assert any(button.chance < 1 for level in levels for button in level.buttons)
    assert any(coin.value % 0.01 for level in levels for coin in level.coins)
    for level in levels:
        text, record = format_level(level), level_to_record(level)
        assert parse_level(text, name=level.name) == level_from_record(json.loads(json.dumps(record))) == level
    path, single = tmp_path / "set.jsonl", tmp_path / f"{levels[20].name}.txt"
    write_levels(path, levels)
    write_levels(single, levels[20:21])
    assert read_levels(path) == levels
    assert read_levels(single) == levels[20:21]
    assert read_levels(path)[1].place == f"{path}:2 ({levels[1].name})"
    assert {each.name for each in tmp_path.iterdir()} == {path.name, single.name}
    for each in (path, single):
        before = each.read_bytes()
        write_levels(each, read_levels(each))
        assert each.read_bytes() == before


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


def test_a_study_of_any_letters_is_written_as_it_is(tmp_path: Path) -> None:
    level = parse_level("\n".join([f"{key}: {text}" for key, text in STUDY.items()] + ["shutdown: 4", MAP]), name="l")
    assert level.study == STUDY
    for ending in ("txt", "jsonl"):
        path = tmp_path / f"l.{ending}"
        write_levels(path, [level])
        assert read_levels(path) == [level]
        assert "γ" in path.read_text(encoding="utf-8")


def level_with(**changes: Any) -> Level:
    fields: dict[str, Any] = {
        "name": "a",
        "shutdown": 3,
        "walls": ((False, False, False),),
        "start": (0, 0),
        "objects": (Coin(0, 1, 1.0), Coin(0, 2, 2.0)),
    }
    return Level(**(fields | changes))


AGAIN = "would not read back"
UNWRITABLE: list[tuple[dict[str, Any], str]] = [
    ({"objects": (Coin(0, 2, 2.0), Coin(0, 1, 1.0))}, AGAIN),
    ({"objects": (Button(0, 1, 2), Coin(0, 2, 2.0))}, AGAIN),
    ({"objects": (Coin(0, 1, 1.0), Coin(0, 2, 2.0), Button(0, 1, 1))}, AGAIN),
    ({"walls": ((False, True, False),)}, AGAIN),
    ({"study": {"author": "me"}}, AGAIN),
    ({"study": {"title": "a\nb"}}, "title 'a\\nb'"),
    ({"shutdown": 0}, "shutdown 0"),
    ({"clock": "turns"}, "'turns'"),
    ({"name": ""}, "name ''"),
]


@pytest.mark.parametrize(("changes", "phrase"), UNWRITABLE)
@pytest.mark.parametrize("ending", ["jsonl", "txt"])
def test_a_level_that_would_not_read_back_is_not_written(
    tmp_path: Path, changes: dict[str, Any], phrase: str, ending: str
) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text("old")
    refused(lambda: write_levels(path, [level_with(**changes)]), f"{path}:1: ", phrase)
    assert path.read_text() == "old"
    write_levels(path, [level_with()])
    assert read_levels(path) == [level_with()]


def test_what_cannot_be_written_in_this_kind_of_file(tmp_path: Path) -> None:
    levels = [world("example"), world("spacious")]
    for name, given, phrase in (
        ("l.txt", levels, ": 2 levels; expected one for a .txt file"),
        ("l.txt", [], ": 0 levels; expected one for a .txt file"),
        ("s.jsonl", [], ": no level"),
        ("s.json", levels, ": unknown kind of file"),
        ("s.jsonl", [*levels, world("example").with_clock("moves")], ":3: the name 'example'"),
    ):
        refused(lambda name=name, given=given: write_levels(tmp_path / name, given), f"{tmp_path / name}{phrase}")
    assert list(tmp_path.iterdir()) == []


def test_a_write_replaces_a_file_or_leaves_it_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "s.jsonl"
    write_levels(path, [world("example"), world("spacious")])
    write_levels(str(path), iter([world("royal_road")]))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def levels() -> Any:
        yield world("spacious")
        raise RuntimeError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        refused(lambda: write_levels(path, [world("spacious")]), f"{path}: ", "No space left on device")
    with pytest.raises(RuntimeError, match="no more"):
        write_levels(path, levels())
    assert read_levels(path) == [world("royal_road")]
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]
    refused(lambda: write_levels(path / "s.jsonl", [world("example")]), f"{path / 's.jsonl'}: ", "cannot be written")
