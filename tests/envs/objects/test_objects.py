"""What rotations, networks, pictures and runs make of one-way doors and lotteries."""

from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.tabular import tabulate

HALL = parse_level("shutdown: 6\nC2 . A > .\n# v # . B3\nC1 . < . ^\n. C5 . ^ .", name="hall")
"""A door for each direction, on a map that looks like no other symmetry of it."""


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
