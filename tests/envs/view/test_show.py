"""``drest show``: what it prints is right, and what goes wrong is told in one sentence."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.envs.view import show


def run(*arguments):
    """The exit code, however it comes about."""
    try:
        return show.main(arguments)
    except SystemExit as stop:  # from argparse
        return stop.code


def table(text):
    """{length: (m(l), discounted m(l), what the route enters)}"""
    rows = re.findall(r"^ *(\d+) {3,}([\d.]+) {3,}([\d.]+) {3}(\S.*)$", text, flags=re.M)
    return {int(length): (float(plain), float(discounted), entered) for length, plain, discounted, entered in rows}


def test_no_escape_sequence_of_a_name_reaches_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = "\x1b]0;owned\x07<img src=x>"
    path = tmp_path / f"{evil}.txt"
    path.write_text("shutdown: 2\nC1 . A\n. . B2")
    run(str(path))
    run(str(path))
    run(f"{path}.jsonl")
    out = "".join(capsys.readouterr())
    assert not {"\x1b", "\x07"} & {*out}
    assert "\\x1b" in out


def test_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("lopsided", "--x", "3", "--gamma", "1") == 0
    assert {length: row[0] for length, row in table(capsys.readouterr().out).items()} == {2: 1, 4: 3}
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True)
        terminal.delenv("NO_COLOR", raising=False)
        terminal.setenv("TERM", "xterm")
        run("example", "--clock", "moves")
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert "the clock counts moves" in out
    assert not any(tmp_path.iterdir())
    assert run("paper", "--level", PAPER_WORLDS[-1], "--picture", "mine.png") == 0
    out = capsys.readouterr().out
    assert out.startswith("Last Moment (last_moment)\n")
    assert out.endswith("\npicture: mine.png\n")
    assert imread("mine.png").std() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("far.jsonl",), "far.jsonl:1 (far): no coin can be reached"),
        ((), "required: levels"),
        (("nowhere",), "'nowhere'"),
        (("example", "--gamma", "1.5"), "above 0, at most 1"),
        (("example", "--x", "3"), "'Cx'"),
        (("paper", "--level", "exampel"), "such as example"),
        (("paper", "--picture", "all.png"), "9 levels; expected --level"),
        (("example", "--picture", "level.gif"), "unknown kind of picture"),
        (("example", "--picture", "a-file/level.png"), "cannot be written"),
        (("example", "--nonsense"), "--nonsense"),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = {"far.jsonl": '{"name": "far", "shutdown": 1, "map": ["A . C1"]}', "a-file": ""}
    for name, text in files.items():
        Path(name).write_text(text)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("drest show: ")
    assert message in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == set(files)
