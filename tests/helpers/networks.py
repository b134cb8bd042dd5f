"""Networks of tests."""

from algos.networks.base import Symmetries
from envs.levels.symmetry import turned_actions, turned_cells


def group():
    return Symmetries(turned_cells(3), turned_actions())
