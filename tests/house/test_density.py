"""Limits on the density of code by room, and tests of the counts."""

import pytest

from tests.house.density import Density, module_density, rooms, table

GOAL = (7.0, 1.5)
"""The limits of nodes a line and conditional expressions per 100 lines in a room that `LIMITS` does not name."""
# room: its present limits; lower them with each improvement, and never raise them
LIMITS = {
    "drest_torch": (7.2, 1.7),
    "drest_torch/choices": (9.3, 0.9),
    "drest_torch/comparison": (7.7, 3.7),
    "drest_torch/play": (7.0, 1.9),
    "drest_torch/plots": (9.4, 3.0),
    "drest_torch/report": (7.7, 3.4),
    "drest_torch/statistics": (10.7, 2.7),
    "drest_torch/studies": (7.5, 1.4),
    "drest_torch/studies/alternatives": (7.8, 0.8),
    "drest_torch/studies/example": (7.4, 1.3),
    "drest_torch/studies/generalization": (8.3, 1.1),
    "drest_torch/studies/lotteries": (7.5, 0.2),
    "drest_torch/studies/misgeneralization": (7.4, 0.9),
    "drest_torch/studies/randomness": (7.7, 1.1),
    "drest_torch/studies/ratio": (7.9, 2.1),
    "drest_torch/studies/robustness": (7.5, 0.3),
    "drest_torch/studies/theorem": (8.4, 0.8),
    "envs": (10.2, 1.5),
    "envs/dynamics": (7.8, 2.1),
    "envs/exact": (9.3, 1.6),
    "envs/generation": (8.0, 2.6),
    "envs/interfaces": (7.7, 3.1),
    "envs/levels": (7.7, 1.5),
    "envs/objects": (7.0, 2.3),
    "envs/tasks": (8.6, 3.5),
    "envs/view": (8.1, 2.2),
    "algos": (7.4, 2.8),
    "algos/networks": (8.1, 3.2),
    "algos/objectives": (7.7, 1.5),
}
WIDE = 8
"""The maximum number of functions with more than five positional parameters, in all rooms together."""


def test_no_room_gets_denser():
    dense = {}
    for room, density in rooms().items():
        nodes, conditionals = LIMITS.get(room, GOAL)
        if density.nodes_per_line > nodes or density.per_hundred(density.conditionals) > conditionals:
            dense[room] = density
    assert not dense, f"denser than LIMITS allows:\n{table(dense)}"


def test_limits_name_rooms_that_exist():
    assert LIMITS.keys() <= rooms().keys()


def test_no_more_functions_have_many_parameters():
    assert sum(rooms().values(), Density()).wide <= WIDE


MODULE = '''"""A docstring
of two lines."""

LIMIT = 3  # a comment
"""A docstring of a constant."""


def chosen(self, a, b, c, d, e, f, *, key):
    """A docstring."""
    text = """no
    docstring"""
    return [[x for x in range(a)] if a else text for b in range(3)]
'''


@pytest.fixture
def density(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(MODULE, "utf-8")
    return module_density(path)


def test_docstrings_or_comments_are_not_code(density):
    assert density.lines == 5


def test_dense_constructs_are_counted(density):
    assert density.conditionals == 1
    assert density.nested == 1
    assert density.wide == 1


def test_contexts_of_names_are_not_nodes(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("a = b\n", "utf-8")
    assert module_density(path).nodes == 4  # the module, the assignment, two names
