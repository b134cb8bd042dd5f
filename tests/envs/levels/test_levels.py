"""Levels as text: invalid texts are refused with the place of the error, and written levels are read unchanged."""

import json
import math
from dataclasses import replace
from decimal import localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drest_torch.envs.worlds
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import (
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
from tests.helpers.simulator import MIXED, levels


def refused(act, start, phrase=""):
    """Assert that an input is refused with a message that begins with the place."""
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


def test_every_part_of_a_level():
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
    assert level.with_clock("steps") == replace(level, clock="steps") != level


def test_the_limits_themselves_are_allowed():
    rows = ["A C1" + " B1" * 31 + " ." * 31, *[". " * 64] * 63]
    level = level_from_record({"name": "large", "shutdown": 992, "map": rows})
    assert (level.height, level.width, level.num_objects, level.max_time) == (64, 64, 32, 1023)


MAP = "A C1 B2\n. # ."
# The text of a file, what follows the name of the file in the message, and what it names.
TEXTS = [
    ("title: a\nshutdown: 4\n\n", ": ", "a map of 0 rows"),
    (MAP, ": ", "'shutdown: 4'"),
    *[(f"shutdown: {value}\n{MAP}", ": ", "shutdown ") for value in ("0", "four", "٣", "9" * 5000)],
    (f"title: a\n delay: 3\n{MAP}", ":2: ", "'delay'"),
    (f"shutdown: 4\ntitle: a\nshutdown: 4\n{MAP}", ":3: ", "'shutdown' for the second time"),
    (f"shutdown: 4\n{MAP}\nclock: moves", ":4: ", "above the map"),
    ("shutdown: 4\nx: one\nA Cx", ": ", "x=one"),
    (f"shutdown: 4\nx: 2\n{MAP}", ": ", "'Cx'"),
    ("shutdown: 4\nA Cx", ", map row 1, column 2: ", "'Cx' is not a coin"),
    *[
        (f"shutdown: 4\nA C1 {cell}", ", map row 1, column 3: ", f"{cell:.40}")
        for cell in f"C0 C{'9' * 400} C C-1 C.5 C1e3 C٣ Cnan D4 ## >> B B1.5 B4@ B4@.5 B٣ B{'9' * 5000}".split()
    ],
    *[(f"shutdown: 4\nA C1 B{delay}", ", map row 1, column 3: ", f"delay {delay};") for delay in (0, -2, 1024)],
    *[(f"shutdown: 4\nA C1 B4@{p}", ", map row 1, column 3: ", f"chance {p};") for p in ("0.0", "-0.5", "1.0000001")],
    *[
        (f"shutdown: 4\nlottery a: {text}\nA La C1", ", lottery a: ", phrase)
        for text, phrase in {
            "1/2 C1 +0 | 1/3 C2 +0": "sum to 5/6",
            "1/2 C1 | 1/2 C2 +0": "'1/2 C1' is not an outcome",
            "": "'' is not an outcome",
            "0 C1 +0 | 1 C2 +0": "the chance 0",
            "1/0 C1 +0": "the chance 1/0",
            "3/2 C1 +0": "the chance 3/2",
            "1/3000001 C1 +0 | 3000000/3000001 C2 +0": "at most 1,000,000",
            "1 C1 +1024": "at most 1023",
            " | ".join(f"1/9 C{i} +0" for i in range(9)): "at most 8",
            f"1 C{'9' * 400} +0": "finite",
        }.items()
    ],
    ("shutdown: 4\nlottery a: 1 C1 +0\nlottery a: 1 C2 +0\nA La", ":3: ", "'a' for the second time"),
]

GOOD = {"name": "a", "shutdown": 4, "map": ["A C1", ". B2"]}
FIVE = {str(i): f"1/3 C1 +0 | 1/3 C2 +{3**i} | 1/3 C3 +{2 * 3**i}" for i in range(5)}
# What is changed in a record, what follows the name and the line in the message, and what it names.
RECORDS = [
    ({"x": 3}, ": ", "unknown key 'x'"),
    ({}, ": ", "the first: "),
    *[({"shutdown": shutdown}, ": ", f"shutdown {shutdown!r}") for shutdown in (-1, 1024, 4.0, "4", True, None)],
    ({"name": ""}, ": ", "name ''"),
    *[({"title": text}, ": ", "title ") for text in ("a\nb", "a\u2028b", " a", 3, "\ud800")],
    ({"clock": "Steps"}, ": ", "'Steps'"),
    ({"map": ["A C1", ["#", "."]]}, ": ", "expected a list of rows"),
    *[({"map": rows}, ": ", "expected 1 to 64 of each") for rows in ([], [""], ["A C1"] * 65, ["A" + " C1" * 64])],
    *[({"map": ["A C1", row]}, ", map row 2: ", "expected 2") for row in ("", ".", ". . .")],
    *[({"map": rows}, ": ", "exactly one cell 'A'") for rows in (["C1"], ["A C1", ". A"])],
    ({"map": ["A B1"]}, ": ", "the map has no coin"),
    ({"map": ["A La"], "lotteries": {"a": "1 C-1 +0"}}, ": ", "the map has no coin"),
    ({"map": ["A" + " C1" * 20, "." + " B1" * 13 + " ." * 7]}, ": ", "33 coins, buttons and lotteries together"),
    ({"map": ["A C1 B20 B4"], "shutdown": 1000}, ": ", "1024 ticks"),
    ({"map": ["A L0 L1 L2 L3 L4"], "lotteries": FIVE}, ": ", "make up to 243 trajectory-lengths"),
    ({"lotteries": ["1 C1 2"]}, ": ", "an object of texts by name"),
    ({"lotteries": {"a": "1 C1 +0"}}, ": ", "no cell 'La'"),
    ({"map": ["A La-b C1"], "lotteries": {"a-b": "1 C1 +0"}}, ": ", "a lottery with the name 'a-b'"),
    ({"map": ["A Lb C1"]}, ", map row 1, column 2: ", "no lottery 'b'"),
    ({"map": ["A > #", "C1 . ."]}, ", map row 1, column 2: ", "the door '>'"),
    ({"map": ["A . .", "< C1 ."]}, ", map row 2, column 1: ", "the door '<'"),
]
FILE_ERRORS = [
    *[("l.txt", text.encode(), place, phrase) for text, place, phrase in TEXTS],
    *[
        ("s.jsonl", f"{json.dumps(GOOD)}\n{json.dumps(GOOD | changes)}\n".encode(), f":2{place}", phrase)
        for changes, place, phrase in RECORDS
    ],
    ("s.jsonl", b'{"name": "a", "map": ["A C1"]}', ":1: ", "no key 'shutdown'"),
    ("s.jsonl", b"[1]", ":1: ", "expected a JSON object"),
    ("s.jsonl", b"\n{'name': 1}", ":2: ", "not JSON"),
    ("s.jsonl", b'{"name": "a", "shutdown": 4, "shutdown": 5}', ":1: ", "'shutdown' for the second time"),
    ("s.jsonl", b"[" * 100_000, ":1: ", ""),
    ("s.jsonl", b'{"name": "a", "map": ["A C1"], "shutdown": ' + b"9" * 5000 + b"}", ":1: ", ""),
    ("s.jsonl", b"", ": ", "no level"),
    ("none.txt", None, ": ", "no such file"),
    ("folder.txt", None, ": ", "is a folder; expected a text file"),
    *[(name, b"shutdown: 4\nA C1", ": ", "unknown kind of file") for name in ("l", "l.TXT")],
    ("l.txt", b"title: \xe9t\xe9\nshutdown: 4\nA C1\n", ": ", "not UTF-8 at byte 7"),
]


@pytest.mark.parametrize(("name", "data", "place", "phrase"), FILE_ERRORS, ids=range(len(FILE_ERRORS)))
def test_an_invalid_file_is_refused_with_the_place(tmp_path, name, data, place, phrase):
    (tmp_path / "folder.txt").mkdir()
    if data is not None:
        (tmp_path / name).write_bytes(data)
    refused(lambda: read_levels(tmp_path / name), f"{tmp_path / name}{place}", phrase)


# From the figures, name: (shutdown, delay, values of the coins in reading order, rows and columns, the best coin of the
# shorter length and its tick, and that of the longer)
FACTS = {
    "example": (4, 4, (3, 2, 1), 5, (2, 4), (3, 8)),
    "lopsided": (2, 2, (1, 1), 4, (1, 2), (1, 4)),
    "fewer_for_longer": (3, 3, (3, 2, 1), 5, (3, 3), (1, 6)),
    "one_coin_only": (4, 4, (1,), 5, (1, 4), (1, 8)),
    "hidden_treasure": (4, 6, (3, 2, 1), 5, (1, 4), (2, 6)),
    "equal_value": (3, 3, (1, 1), 5, (1, 3), (1, 6)),
    "around_the_corner": (4, 4, (2, 1), 5, (1, 4), (2, 8)),
    "spacious": (3, 2, (3, 1, 2), 5, (2, 3), (3, 5)),
    "royal_road": (5, 1, (2, 1), 5, (1, 5), (2, 6)),
    "last_moment": (5, 3, (1, 3, 2), 5, (1, 5), (3, 8)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_worlds_agree_with_the_figures(name):
    level = world(name)
    shutdown, delay, coins, side, *best = FACTS[name]
    assert (level.name, level.clock, level.height, level.width, level.shutdown) == (name, "steps", side, side, shutdown)
    assert tuple(coin.value for coin in level.coins) == coins
    assert [(button.delay, button.chance) for button in level.buttons] == [(delay, 1)]
    for clock in ("steps", "moves"):
        optima = solve(compile_levels([level.with_clock(clock)]), 0.9)
        assert optima.lengths.tolist() == [[shutdown, shutdown + delay]]
        assert optima.best_return[0].tolist() == pytest.approx([0.9 ** (tick - 1) * value for value, tick in best])
    assert find_levels(name) == [level]
    if name in PAPER_WORLDS:  # a file is written as it stands
        assert format_level(level) == (Path(*drest_torch.envs.worlds.__path__) / f"{name}.txt").read_text("utf-8")


def test_paper_names_its_nine_worlds():
    assert [level.name for level in find_levels("paper")] == [name for name in FACTS if name != "lopsided"]


def test_x_sets_the_value_of_a_coin(tmp_path):
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


@pytest.mark.parametrize(
    ("act", "start", "phrase"),
    [
        (lambda: world("exampel"), "no world 'exampel'", ", ".join(WORLDS)),
        (lambda: find_levels("exampel"), "no levels 'exampel'", ", ".join(WORLDS)),
        (lambda: world("example").with_clock("turns"), "example.txt (example): ", "'turns'"),
        *[(lambda name=name: find_levels(name, x=3), name, "x=3") for name in ("example", "s.jsonl", "l.txt")],
        *[
            (lambda x=x: world("lopsided", x=x), "lopsided.txt", "number above 0")
            for x in (0, -2.5, math.nan, math.inf)
        ],
    ],
)
def test_an_invalid_name_or_x_is_refused(tmp_path, monkeypatch, act, start, phrase):
    monkeypatch.chdir(tmp_path)
    for path in ("l.txt", "s.jsonl"):
        write_levels(path, [world("example")])
    refused(act, start, phrase)


WORDS = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=9)


@settings(max_examples=10)
@given(
    levels(4, max_ticks=5, buttons=(False, True), lotteries=(0, 0, 1, 2), **MIXED),
    st.dictionaries(st.sampled_from(STUDY_KEYS), WORDS),
    st.floats(1e-7, 1e22) | st.sampled_from((1e-7, 0.1 + 0.2, 1e22)),
    st.floats(1e-7, 1.0),
)
def test_levels_read_back_from_every_format(tmp_path_factory, chosen, study, value, chance):
    first = chosen[0]
    things = {Coin: {"value": value}, Button: {"chance": chance}}
    objects = tuple(replace(thing, **things.get(type(thing), {})) for thing in first.objects)
    chosen[0] = replace(first, objects=objects, study=study)
    path = tmp_path_factory.mktemp("levels")
    with localcontext() as context:
        context.prec = 3  # the precision of decimals in the calling program must not matter
        assert not any("e" in cell or cell.endswith(".0") for row in chosen[0].rows() for cell in row.split())
        for level in chosen:
            text, record = format_level(level), level_to_record(level)
            assert parse_level(text, name=level.name) == level_from_record(json.loads(json.dumps(record))) == level
            assert format_level(parse_level(text, name=level.name)) == text
        for name, written in (("set.jsonl", chosen), ("0.txt", chosen[:1])):
            write_levels(path / name, written)
            assert read_levels(path / name) == written
            before = (path / name).read_bytes()
            assert all(text.encode() in before or {*text} & {*'"\\'} for text in study.values())
            write_levels(path / name, read_levels(path / name))
            assert (path / name).read_bytes() == before
    assert read_levels(path / "set.jsonl")[-1].place == f"{path / 'set.jsonl'}:{len(chosen)} ({chosen[-1].name})"
    assert {file.name for file in path.iterdir()} == {"set.jsonl", "0.txt"}


SMALL = Level("a", 3, ((False, False, False),), (0, 0), (Coin(0, 1, 1.0), Coin(0, 2, 2.0)))
AGAIN = "would not read back"
UNWRITABLE = [
    ("old.jsonl", [replace(SMALL, objects=SMALL.objects[::-1])], ":1: ", AGAIN),
    ("old.jsonl", [replace(SMALL, objects=(Button(0, 1, 2), *SMALL.objects[1:]))], ":1: ", AGAIN),
    ("old.jsonl", [replace(SMALL, walls=((False, True, False),))], ":1: ", AGAIN),
    ("old.jsonl", [replace(SMALL, study={"author": "me"})], ":1: ", AGAIN),
    ("old.jsonl", [replace(SMALL, study={"title": "a\nb"})], ":1: ", "title 'a\\nb'"),
    ("old.txt", [replace(SMALL, shutdown=0)], ":1: ", "shutdown 0"),
    ("old.txt", [SMALL, world("example")], ": ", "2 levels to write; expected one for a .txt file"),
    ("old.jsonl", [], ": ", "0 levels to write"),
    ("s.json", [SMALL], ": ", "unknown kind of file"),
    ("old.jsonl", [SMALL, world("example"), SMALL.with_clock("moves")], ":3: ", "the name 'a'"),
    ("folder.jsonl", [SMALL], ": ", "cannot be written"),
    ("old.txt/s.jsonl", [SMALL], ": ", "cannot be written"),
]


@pytest.mark.parametrize(("name", "levels", "place", "phrase"), UNWRITABLE, ids=range(len(UNWRITABLE)))
def test_a_refused_write_leaves_existing_files(tmp_path, name, levels, place, phrase):
    (tmp_path / "folder.jsonl").mkdir()
    for ending in ("txt", "jsonl"):
        (tmp_path / f"old.{ending}").write_text("old")
    refused(lambda: write_levels(tmp_path / name, iter(levels)), f"{tmp_path / name}{place}", phrase)
    assert [(tmp_path / f"old.{ending}").read_text() for ending in ("txt", "jsonl")] == ["old", "old"]
    assert {file.name for file in tmp_path.iterdir()} == {"folder.jsonl", "old.jsonl", "old.txt"}
