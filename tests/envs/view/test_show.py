"""The output of ``drest show`` against the solver and the simulator, and its errors."""

import re

import pytest
from matplotlib.image import imread

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, WORLDS, world
from drest_torch.envs.view import show
from tests.helpers.simulator import Simulator


def table(text):
    """Return m(l), the discounted m(l), and the objects on the route, by length."""
    rows = re.findall(r"^ *(\d+) {3,}([\d.]+) {3,}([\d.]+) {3}(\S.*)$", text, flags=re.M)
    return {int(length): (float(plain), float(discounted), entered) for length, plain, discounted, entered in rows}


def replay(level, arrows):
    """Return the objects on a route in the simulator as (name, tick); assert that the route ends with shutdown."""
    state, visits = Simulator(level), []
    cells = [row.split() for row in level.rows()]
    for tick, arrow in enumerate(arrows, 1):
        stays, before = [action for action in range(4) if state.is_bump(action)], state.observation[2:]
        action = stays[0] if arrow == "·" else "↑↓←→".index(arrow)
        assert (action in stays) == (arrow == "·")
        state.step(action)
        if state.observation[2:] != before:
            visits.append((cells[state.row][state.column], tick))
    assert state.done
    return visits


@pytest.mark.parametrize("name", WORLDS)
def test_every_route_collects_the_coins_of_the_table(name, call):
    code, text, _ = call(show.main, name, "--gamma", "0.9")
    assert code == 0
    level, rows = world(name), table(text)
    routes = {int(length): arrows for length, arrows in re.findall(r"^length (\d+): (\S+)$", text, flags=re.M)}
    assert "\x1b" not in text  # no terminal, no colour
    assert text.startswith(f"{level.study['title']} ({name})\n")
    assert [key for key in level.study if f"\n  {key} " in text] == ["rewarded", "wanted", "caveat"]
    assert set(rows) == set(routes) == {level.shutdown, level.max_time}
    named = re.findall(r"\(length (\d+)(?: or (\d+))?", level.study["wanted"])
    assert {int(length) for pair in named for length in pair if length} == set(rows)
    best = solve(compile_levels([level])).best_return[0].tolist()
    assert [rows[length][0] for length in sorted(rows)] == best
    for length, arrows in routes.items():
        visits = replay(level, arrows)
        earned = sum(float(cell[1:]) * 0.9 ** (tick - 1) for cell, tick in visits if cell[0] == "C")
        assert len(arrows) == length
        assert rows[length][1] == pytest.approx(earned, rel=1e-3)
        assert rows[length][2] == ", ".join(f"{cell} (tick {tick})" for cell, tick in visits)


def test_options_change_the_output(tmp_path, monkeypatch, call):
    out = call(show.main, "lopsided", "--x", "3", "--gamma", "1").out
    assert {length: row[0] for length, row in table(out).items()} == {2: 1, 4: 3}
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdout.isatty", lambda: True)
        terminal.delenv("NO_COLOR", raising=False)
        terminal.setenv("TERM", "xterm")
        out = call(show.main, "example", "--clock", "moves").out
    assert "\x1b[" in out
    assert "the clock counts moves" in out
    assert not any(tmp_path.iterdir())
    code, out, _ = call(show.main, "paper", "--level", PAPER_WORLDS[-1], "--picture", "mine.png")
    assert code == 0
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
def test_an_error_is_one_sentence_with_exit_code_2(arguments, message, tmp_path, call):
    files = {"far.jsonl": '{"name": "far", "shutdown": 1, "map": ["A . C1"]}', "a-file": ""}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    code, _, error = call(show.main, *arguments)
    assert code == 2
    assert error.startswith("drest show: ")
    assert message in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == set(files)
