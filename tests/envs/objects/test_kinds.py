"""A contract for every kind of world object: a level that is rotated or reflected is the same task."""

import pytest
import torch

from drest_torch.envs.objects import KINDS, Door
from tests.helpers.kinds import check_symmetries


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_symmetries_have_the_same_lengths_and_m(kind):
    check_symmetries(kind)


def test_an_effect_that_follows_reading_order_is_noticed(monkeypatch):
    """Who enters a door comes out of the next one in reading order."""

    def redirect(goto, layers, shape):
        spots = layers["door"].nonzero().squeeze(-1)
        ends = torch.arange(len(goto)).scatter(0, spots, spots.roll(-1))
        return ends[goto]

    monkeypatch.setattr(Door, "redirect", redirect)
    with pytest.raises(AssertionError, match="and"):
        check_symmetries(Door)
