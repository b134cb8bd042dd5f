"""What rotations, networks, pictures and runs make of one-way doors and lotteries."""

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions, transform
from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.tabular import tabulate
from tests.helpers.networks import group

HALL = parse_level("shutdown: 6\nC2 . A > .\n# v # . B3\nC1 . < . ^\n. C5 . ^ .", name="hall")
"""A door for each direction, on a map that looks like no other symmetry of it."""
SQUARE = parse_level(
    "lottery a: 2/3 C2 +0 | 1/3 C-5 -1\nshutdown: 3\n. C1 # La\nA > C2 v\n. B2 < .\n. ^ La C3", name="square"
)


def seen(name, levels, **options):
    mdp = compile_levels(levels, **options)
    observe = make_observation(name, mdp)
    return observe, observe(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


@pytest.mark.parametrize("name", ["grid", "centred"])
@pytest.mark.parametrize("index", range(NUM_SYMMETRIES))
def test_a_rotated_level_looks_rotated(name, index):
    observe, shown = seen(name, [SQUARE])
    _, expected = seen(name, [transform(SQUARE, index)])
    assert torch.equal(shown.flatten(1)[:, observe.rotated[index]], expected.flatten(1))


@pytest.mark.parametrize("index", range(NUM_SYMMETRIES))
def test_a_network_that_reads_maps_does_the_same_on_a_rotated_level(index):
    torch.manual_seed(0)
    level = parse_level("shutdown: 3\n. C1 # .\nA > C2 v\n. B2 < .\n. ^ . C3", name="doors")
    observe, shown = seen("grid", [level])
    _, rotated = seen("grid", [transform(level, index)])
    shared = {"scale": observe.scale, "symmetries": group(observe.planes)}
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(16, 2, "silu", "convolutional"), **shared)
    for parameter in policy.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    logits = policy(shown)
    torch.testing.assert_close(policy(rotated)[:, rotated_actions()[index]], logits, atol=1e-4, rtol=0)
    # Doors are not overlooked.
    closed = shown.clone()
    closed[:, 5:] = 0
    assert (policy(closed) - logits).abs().max() > 0.1


def test_a_table_of_rows_bumps_at_doors():
    mdp = compile_levels([parse_level("shutdown: 3\nA > C1")])
    tables = tabulate(mdp, solve(mdp))
    bits = mdp.num_objects
    assert tables.target[1 << bits].tolist() == [1 << bits, 1 << bits, 1 << bits, (2 << bits) | 1]


def test_a_door_is_rendered_as_an_arrowhead_in_its_direction():
    ax = Figure().add_subplot()
    render(HALL, ax)
    doors = [patch for patch in ax.patches if isinstance(patch, Polygon)]
    for door, patch in zip(HALL.fixtures, doors, strict=True):
        x, y = patch.get_xy().T
        assert door.column < x.min() < x.max() < door.column + 1
        assert door.row < y.min() < y.max() < door.row + 1
        right, down = x.max() + x.min() - 2 * door.column - 1, y.max() + y.min() - 2 * door.row - 1
        leads = [down * step_down + right * step_right for step_down, step_right in STEPS]
        assert leads.index(max(leads)) == door.direction
