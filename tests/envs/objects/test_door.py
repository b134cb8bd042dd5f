"""One-way doors: entered from every side, and left in their own direction alone."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from drest_torch import agent as saved
from drest_torch.algos.networks.base import NetworkSize, Symmetries
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.envs.dynamics.mdp import ACTIONS, NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation import candidates
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import LevelError, parse_level, read_levels, world, write_levels
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions, transform
from drest_torch.envs.objects import Door
from drest_torch.envs.view.rendering import render
from drest_torch.errors import ConfigError
from drest_torch.evaluation.tabular import tabulate
from tests.helpers.networks import group
from tests.helpers.runs import FEW, QUIET, SMALLEST, train

UP, DOWN, LEFT, RIGHT = range(NUM_ACTIONS)
HALL = parse_level("shutdown: 6\nC2 . A > .\n# v # . B3\nC1 . < . ^\n. C5 . ^ .", name="hall")
"""A door for each direction, on a map that looks like no other symmetry of it."""


def test_a_door_is_read_and_written(tmp_path):
    assert HALL.fixtures == (Door(0, 3, RIGHT), Door(1, 1, DOWN), Door(2, 2, LEFT), Door(2, 4, UP), Door(3, 3, UP))
    assert HALL.num_objects == 4
    assert HALL.features == {"door"}
    assert HALL.rows()[2] == "C1 . < . ^"
    for name in ("hall.txt", "hall.jsonl"):
        write_levels(tmp_path / name, [HALL])
        assert read_levels(tmp_path / name) == [HALL]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("A > #\nC1 . .", "column 3: the door '>'"),
        ("A ^ .\nC1 . .", r"column 3: the door '\^'"),
        ("A . v\nC1 . #", "column 5: the door 'v'"),
        ("A . .\n< C1 .", "column 1: the door '<'"),
        ("A >> .\nC1 . .", "column 3: '>>' is no door"),
    ],
)
def test_a_door_that_leads_nowhere_is_refused(rows, message):
    with pytest.raises(LevelError, match=message):
        parse_level(f"shutdown: 3\n{rows}")


def test_a_table_of_rows_bumps_at_doors():
    mdp = compile_levels([parse_level("shutdown: 3\nA > C1")])
    worlds = tabulate(mdp, solve(mdp))
    bits = mdp.num_objects
    assert worlds.target[0, 1 << bits].tolist() == [1 << bits, 1 << bits, 1 << bits, (2 << bits) | 1]


def seen(name, levels, **options):
    mdp = compile_levels(levels, **options)
    observe = make_observation(name, mdp)
    return observe, observe(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


def test_the_grid_shows_a_plane_for_each_direction():
    observe, shown = seen("grid", [HALL])
    assert observe.planes[5:] == tuple(f"door {action}" for action in ACTIONS)
    places = [sorted(map(tuple, plane.nonzero().tolist())) for plane in shown[0, 5:]]
    assert places == [[(2, 4), (3, 3)], [(1, 1)], [(2, 2)], [(0, 3)]]
    assert set(shown[0, 5:].unique().tolist()) == {0.0, 1.0}
    # What is taken takes no door away.
    mdp = compile_levels([HALL])
    assert torch.equal(observe(mdp.start, torch.full((1,), 15), mdp.shutdown)[0, 5:], shown[0, 5:])


def test_the_window_shows_the_doors_from_where_the_agent_stands():
    _, shown = seen("centred", [HALL])
    window = shown[0, : 7 * 7 * 9].reshape(7, 7, 9)  # walls, coins, delays, doors
    for plane, places in zip(window[3:], [[(2, 4), (3, 3)], [(1, 1)], [(2, 2)], [(0, 3)]], strict=True):
        there = [(row - 3 + HALL.start[0], column - 4 + HALL.start[1]) for row, column in plane.nonzero().tolist()]
        assert sorted(there) == places


@pytest.mark.parametrize("name", ["grid", "centred", "vector"])
def test_without_doors_nothing_is_shown_of_them(name):
    level = world("example")
    _, before = seen(name, [level])
    announced, after = seen(name, [level], features=["door"])
    if name == "grid":
        assert torch.equal(after[:, :5], before)
        assert not after[:, 5:].any()
    elif name == "centred":
        assert after.shape[1] == before.shape[1] + 4 * 81
        assert torch.equal(torch.cat((after[:, : 3 * 81], after[:, 7 * 81 :]), 1), before)
    else:
        assert torch.equal(after, before)
    assert make_observation(name, compile_levels([level])).shape == before.shape[1:]
    assert announced.shape == after.shape[1:]


SQUARE = parse_level("shutdown: 3\n. C1 # .\nA > C2 v\n. B2 < .\n. ^ . C3", name="square")


@pytest.mark.parametrize("name", ["grid", "centred"])
@pytest.mark.parametrize("index", range(NUM_SYMMETRIES))
def test_a_rotated_level_looks_rotated(name, index):
    observe, shown = seen(name, [SQUARE])
    _, expected = seen(name, [transform(SQUARE, index)])
    assert torch.equal(shown.flatten(1)[:, observe.rotated[index]], expected.flatten(1))


@pytest.mark.parametrize("network", ["symmetric", "convolutional"])
@pytest.mark.parametrize("index", range(NUM_SYMMETRIES))
def test_networks_with_symmetries_do_the_same_on_a_rotated_level(network, index):
    torch.manual_seed(0)
    observe, shown = seen("grid", [SQUARE])
    _, rotated = seen("grid", [transform(SQUARE, index)])
    of_maps = network == "convolutional"
    of_network = group(observe.planes) if of_maps else Symmetries(observe.rotated, rotated_actions())
    shared = {"scale": observe.scale, "symmetries": of_network}
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(16, 2, "silu", network), **shared)
    critic = Critic(observe.shape, NetworkSize(16, 2, "silu", network), context=1, **shared)
    for parameter in [*policy.parameters(), *critic.parameters()]:
        parameter.data += 0.3 * torch.randn_like(parameter)
    context = torch.ones(1, 1)
    logits = policy(shown)
    torch.testing.assert_close(policy(rotated)[:, rotated_actions()[index]], logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(critic(rotated, None, context), critic(shown, None, context), atol=1e-4, rtol=0)
    # Doors are not overlooked.
    closed = shown.clone()
    closed[:, 5:] = 0
    assert (policy(closed) - logits).abs().max() > 0.1


DOORS = GeneratorConfig(height=(3, 5), width=(4, 5), walls=(0, 4), wall_shape="mixed", coins=(1, 2), doors=(1, 3))


def test_doors_are_on_free_cells_in_the_number_asked_for_and_in_every_direction():
    drafts = candidates.draw(DOORS, 0, torch.arange(6000))
    door = drafts.layers["door"]
    here = door > 0
    assert not (here & (drafts.walls | (drafts.layers["coin"] > 0) | (drafts.layers["delay"] > 0))).any()
    assert not here.gather(1, drafts.start.unsqueeze(-1)).any()
    counts = torch.bincount(here.sum(-1), minlength=4).tolist()
    assert counts[0] == 0
    assert min(counts[1:]) > 1800
    assert torch.bincount(door[here])[1:].min() > 2700


def test_a_door_is_rendered_as_an_arrowhead_in_its_direction():
    ax = Figure().add_subplot()
    render(HALL, ax)
    doors = [patch for patch in ax.patches if isinstance(patch, Polygon)]
    assert len(doors) == len(HALL.fixtures)
    for door, patch in zip(HALL.fixtures, doors, strict=True):
        x, y = patch.get_xy().T
        assert door.column < x.min() < x.max() < door.column + 1
        assert door.row < y.min() < y.max() < door.row + 1
        points_right, points_down = x.max() + x.min() - 2 * door.column - 1, y.max() + y.min() - 2 * door.row - 1
        leading = {UP: -points_down, DOWN: points_down, LEFT: -points_right, RIGHT: points_right}
        assert max(leading, key=leading.get) == door.direction
    assert ">" not in [patch.get_gid() for patch in ax.patches]


ALL = ("levels.generator.doors=[1,2]", "policy.observation=grid", *FEW, *SMALLEST, *QUIET)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("network", ["mlp", "convolutional"])
def test_a_run_on_levels_with_doors_can_be_evaluated(tmp_path, network):
    folder = train(
        tmp_path / "run", *ALL, f"policy={network}", "policy.width=8", "reward.group=16", "policy.observation=grid"
    )
    agent = saved.Agent(folder)
    assert agent.shape[0] == 9
    levels = agent.levels.reported["test"]
    assert all(level.fixtures for level in levels)
    assert len(agent.evaluate(levels).record()["levels"]) == len(levels)
    with pytest.raises(ConfigError, match="it was trained on levels with other"):
        agent.evaluate([world("example")])
