"""A contract for every kind of world object: rotations and reflections of a level leave the task unchanged."""

import pytest
import torch

from drest_torch.envs.objects import KINDS, Door
from tests.helpers.kinds import check_symmetries


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_symmetries_leave_the_optima_unchanged(kind):
    check_symmetries(kind)


def test_an_effect_that_depends_on_reading_order_fails(monkeypatch):
    """An agent that enters a door leaves by the next one in reading order."""

    def redirect(goto, layers, shape):
        spots = layers["door"].nonzero().squeeze(-1)
        ends = torch.arange(len(goto)).scatter(0, spots, spots.roll(-1))
        return ends[goto]

    monkeypatch.setattr(Door, "redirect", redirect)
    with pytest.raises(AssertionError, match="and"):
        check_symmetries(Door)
