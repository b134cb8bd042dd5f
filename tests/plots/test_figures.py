"""Tests of pictures: curves of logged metrics, and arrows of a policy's probabilities."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.levels import parse_level, world
from drest_torch.plots.curves import learning_curves
from drest_torch.plots.policy_maps import caption, picture_paths, policy_arrows, policy_pictures
from tests.helpers.simulator import levels

CAPTION = caption(0.9, 0.8, {4: 0.25, 8: 0.75})


@pytest.fixture
def drawn(monkeypatch):
    """Record each figure as (axes by title, figure, path) instead of writing a file."""
    written = []

    def write(figure, path):
        written.append(({ax.get_title("left") or ax.get_title(): ax for ax in figure.axes}, figure, path))

    for module in ("curves", "policy_maps"):
        monkeypatch.setattr(f"drest_torch.plots.{module}.write_figure", write)
    return written


CONFIG = """algo: {name: exact, counted_steps: 1}
reward: {name: drest}
levels: {name: hard, path: null}
env: {name: gridworld}
"""


def plot(folder, records, torn="", **summary):
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records) + torn)
    learning_curves(folder, folder / "curves.png", {"splits": {}, **summary})


def points(ax):
    """Return the curves of an axes by their split."""
    return {line.get_label().split()[0]: line.get_xydata().tolist() for line in ax.lines}


def test_curves_have_the_finite_logged_values(tmp_path, drawn):
    records = [
        {"step": 10, "train/return": 1.0, "policy/entropy": 1.4, "speed/steps_per_second": 5.0},
        {"step": 20, "train/return": 2.0, "eval/train/usefulness": 0.5, "eval/train/p_length/4": 0.1},
        {"step": 30, "eval/train/usefulness": 0.75, "eval/test/usefulness": 0.25, "eval/test/neutrality": 1.5},
    ]
    values = [1.0, math.nan, None, math.inf, "text", 2.0]
    records += [{"step": step, "loss/x": value} for step, value in enumerate(values, 40)]
    plot(tmp_path, records, torn='{"step": 49, "loss/x')
    ((axes, _, path),) = drawn
    assert path == tmp_path / "curves.png"
    below = ["P(length), train", "train/return", "policy/entropy", "loss/x"]
    assert list(axes) == ["usefulness", "neutrality (bits)", *below]
    assert points(axes["P(length), train"]) == {"4": [[20, 0.1]]}
    curves = points(axes["usefulness"])
    assert curves["train"] == [[20, 0.5], [30, 0.75]]
    assert curves["test"] == [[30, 0.25]]
    assert [text.get_text() for text in axes["neutrality (bits)"].get_legend().texts] == ["test  1.50"]
    assert axes["neutrality (bits)"].get_ylim()[1] > 1.5
    assert axes["train/return"].lines[0].get_xydata().tolist() == [[10, 1], [20, 2]]
    assert axes["loss/x"].lines[0].get_xydata().tolist() == [[40, 1], [45, 2]]


def test_a_figure_of_curves_has_titles_with_reference_lines(tmp_path, drawn):
    numbers = {"uniform": {"usefulness": 0.25, "neutrality": 0.5}, "optimum": {"usefulness": 1.0, "neutrality": 1.58}}
    once = {**numbers, "usefulness": 0.75, "neutrality": 0.5}
    records = [{"step": i, "eval/test/usefulness": 0.1 * i, "eval/test/neutrality": 0.1 * i} for i in range(3)]
    plot(tmp_path, records, levels_per_update=64, splits={"test": numbers, "paper": once})
    ((axes, figure, _),) = drawn
    assert figure.get_suptitle() == f"{tmp_path.name}: algo=exact reward=drest levels=hard"
    assert figure.get_supxlabel() == "updates of 64 levels"
    at_the_end = next(line for line in axes["usefulness"].lines if line.get_label() == "paper  0.75")
    assert at_the_end.get_xydata().tolist() == [[2, 0.75]]
    legend = [text.get_text() for text in axes["neutrality (bits)"].get_legend().texts]
    assert legend[:3] == ["optimum  1.58", "test  0.20", "test, uniform policy  0.50"]
    assert axes["usefulness"].lines[2].get_ydata() == [0.25, 0.25]
    assert axes["usefulness"].lines[2].get_linestyle() == "--"


@given(levels(3, max_ticks=6, lotteries=(0, 1), clock=None), st.integers(0, 99))
def test_an_arrow_is_the_mean_over_the_states_of_its_cell(levels, seed):
    """Arrows are separate before and after a button or lottery; cells that are rarely visited stay empty."""
    reachable = Reachable(compile_levels(levels))
    logits = 3 * torch.randn(len(reachable), 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    probabilities = logits.softmax(-1)
    visits, mdp, sums = reachable.visits(probabilities), reachable.mdp, Counter()
    states = zip(reachable.states.spot.tolist(), reachable.states.taken.tolist(), visits.tolist(), strict=True)
    for (spot, taken, visit), chances in zip(states, probabilities.tolist(), strict=True):
        index, cell = divmod(spot, mdp.num_cells)
        place = index, taken >> len(levels[index].coins) > 0, *divmod(cell, mdp.width)
        sums[place] += visit
        for action, chance in enumerate(chances):
            sums[(*place, action)] += visit * chance
    for index, level in enumerate(levels):
        for pressed in (False, True):
            arrows = policy_arrows(reachable, probabilities, visits, index, pressed=pressed)
            assert arrows.shape == (level.height, level.width, 4)
            for (row, column, action), arrow in np.ndenumerate(arrows):
                often = sums[index, pressed, row, column]
                mean = sums[index, pressed, row, column, action] / often if often >= 0.01 else math.nan
                assert arrow == pytest.approx(mean, nan_ok=True)


def test_a_level_with_buttons_has_two_panels(tmp_path, drawn):
    levels = [world("example"), parse_level("shutdown: 2\nA C1 B1\n. . B2"), parse_level("shutdown: 2\nA C1")]
    reachable = Reachable(compile_levels(levels))
    policy_pictures(reachable, {"": uniform_policy(reachable.states)}, range(3), tmp_path, [CAPTION] * 3)
    figures = [figure for _, figure, _ in drawn]
    titles = [[ax.get_title() for ax in figure.axes] for figure in figures]
    assert titles == [["before B4", "after B4"], ["before a button or lottery", "after a button or lottery"], [""]]
    before, after = ({patch.get_gid() for patch in ax.patches} for ax in figures[0].axes)
    assert before - after == {"B4"}
    assert figures[0].get_suptitle() == "example"
    numbers = "usefulness 0.90   neutrality 0.80 bits\nP(4)\u00a0=\u00a00.25   P(8)\u00a0=\u00a00.75"
    assert figures[0].get_supxlabel().startswith(f"{numbers}\n\nA: ")
    assert ["a button" in figure.get_supxlabel() for figure in figures] == [True, True, False]


def test_a_coin_that_is_sometimes_taken_stays_in_the_picture(tmp_path, drawn):
    """A random policy only sometimes takes the coin on the left before it presses the button."""
    reachable = Reachable(compile_levels([parse_level("shutdown: 4\nC1 A B4\n. . .")]))
    policy_pictures(reachable, {"": uniform_policy(reachable.states)}, range(1), tmp_path, [CAPTION])
    ((_, figure, _),) = drawn
    before, after = ({patch.get_gid() for patch in ax.patches} for ax in figure.axes)
    assert {"C1", "B4"} <= before
    assert "C1" in after
    assert "B4" not in after


def test_each_policy_has_a_line_of_panels(tmp_path, drawn):
    reachable = Reachable(compile_levels([world("example"), parse_level("shutdown: 1\nC1 A B1 C1")]))
    left, right = torch.eye(4, dtype=torch.float64)[2:].unsqueeze(1).expand(-1, len(reachable), -1)
    policy_pictures(reachable, {"tails": left, "heads": right}, [1], tmp_path, [CAPTION])
    ((_, figure, _),) = drawn
    titles = [ax.get_title().replace("\u00a0", " ") for ax in figure.axes]
    tails, heads = "tails:   P(1) = 1.00   P(2) = 0.00", "heads:   P(1) = 0.00   P(2) = 1.00"
    assert titles == [f"{tails}\nB1 is not entered", "", f"{heads}\nbefore B1", "after B1"]


def test_pictures_have_unique_safe_file_names(tmp_path, drawn):
    names = ["../../etc/passwd", "maze 1", "maze:1", "MAZE_1", "..", "$\\frac$", "ü" * 99, "x" * 300, "maze_1-2"]
    reachable = Reachable(compile_levels([parse_level("shutdown: 1\nA C1", name=name) for name in names]))
    policy_pictures(reachable, {"": uniform_policy(reachable.states)}, range(9), tmp_path, [CAPTION] * 9)
    files = [path.relative_to(tmp_path).name for *_, path in drawn]
    assert files[:4] == ["etc_passwd.png", "maze_1.png", "maze_1-2.png", "MAZE_1-3.png"]
    assert len({name.lower() for name in files}) == len(names)
    for name in files:
        assert len(name) < 100
        assert name.isascii()
        assert name[0].isalnum()


def named(*names):
    return [parse_level("shutdown: 1\nA C1", name=name) for name in names]


@pytest.mark.parametrize("ending", ["pdf", "svg", "PNG"])
def test_a_picture_of_one_level_is_the_named_file(tmp_path, ending):
    assert picture_paths(tmp_path / f"figure.{ending}", named("example")) == [tmp_path / f"figure.{ending}"]


def test_pictures_of_several_levels_have_their_names(tmp_path):
    files = picture_paths(tmp_path / "figure.pdf", named("maze", "fork"))
    assert files == [tmp_path / "figure-maze.pdf", tmp_path / "figure-fork.pdf"]


def test_a_folder_may_have_the_ending_of_a_picture(tmp_path):
    (tmp_path / "old.pdf").mkdir()
    assert picture_paths(tmp_path / "old.pdf", named("maze")) == [tmp_path / "old.pdf" / "maze.png"]


def test_a_policy_picture_is_a_page_of_vectors(tmp_path):
    reachable = Reachable(compile_levels([world("example")]))
    policies = {"": uniform_policy(reachable.states)}
    (path,) = policy_pictures(reachable, policies, [0], tmp_path / "figure.pdf", [CAPTION])
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") == 1
    assert b"/Subtype /Image" not in content
