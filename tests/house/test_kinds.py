"""A limit on the number of branches on the kind of a task, an algorithm or a policy."""

import ast

from tests.house.kinds import branches, branches_on_a_kind, conditions

MOST = 13
"""Lower the limit with each branch that is removed; never raise it."""


def test_branches_on_kinds_do_not_spread():
    places = branches()
    assert len(places) <= MOST, places
    files = {place.partition(":")[0] for place in places}
    assert "drest_torch/agent.py" in files  # branches on the view of an agent


def test_conditions_on_kinds_are_counted():
    source = (
        "if memory_of(x): pass\na = b if c.remembers else d\n[e for e in f if isinstance(e, MapView)]\nif g: pass\n"
    )
    assert [branches_on_a_kind(condition) for condition in conditions(ast.parse(source))].count(True) == 3
