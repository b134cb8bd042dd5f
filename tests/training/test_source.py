"""Where the levels of a batch come from: sets, turned or not, and streams."""

from collections import Counter

import torch

from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import PAPER_WORLDS, world
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from drest_torch.training.updates import FreshLevels, LevelSampler

SMALL = GeneratorConfig(height=3, width=3, walls=(0, 1), coins=(1, 1), coin_values=(1, 1), shutdown=(2, 3))
"""So few levels that held-out ones come again and again."""


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_set_is_drawn_from_evenly():
    source = LevelSampler([world(name) for name in PAPER_WORLDS], rng())
    assert sorted(level.name for level in source.draw(9)) == sorted(PAPER_WORLDS)
    counts = Counter(level.name for level in source.draw(30))
    assert set(counts.values()) == {3, 4}
    orders = {tuple(level.name for level in source.draw(9)) for _ in range(5)}
    assert len(orders) > 1


def test_levels_are_turned_each_way_equally_often():
    level = world("example")
    ways = [each.rows() for each in symmetries(level)]
    source = LevelSampler([level], rng(), symmetries=True)
    assert source.changes
    counts = Counter(ways.index(drawn.rows()) for drawn in source.draw(4000))
    assert len(counts) == 8
    assert all(abs(count - 500) < 5 * (4000 * 7 / 64) ** 0.5 for count in counts.values())


def test_a_stream_begins_with_the_training_levels_and_goes_on():
    split = make_split(GeneratorConfig(), train=10, selection=3, test=5, seed=7)
    stream = FreshLevels(split, rng())
    drawn = [level for _ in range(6) for level in stream.draw(7)]
    assert drawn[:10] == split.train
    assert len({canonical_key(level) for level in drawn}) == 42
    more = make_split(GeneratorConfig(), train=42, selection=3, test=5, seed=7)
    assert drawn == more.train  # over so few levels none comes twice


def test_a_stream_leaves_out_what_is_held_out():
    split = make_split(SMALL, train=5, selection=20, test=20, seed=1)
    held_out = {canonical_key(level) for level in (*split.selection, *split.test)}
    drawn = FreshLevels(split, rng(), symmetries=True).draw(3000)
    assert not held_out & {canonical_key(level) for level in drawn}
    unfiltered = make_split(SMALL, train=200, selection=0, test=0, seed=1)
    assert held_out & {canonical_key(level) for level in unfiltered.train}  # they would have come


def test_a_stream_goes_on_where_it_stood():
    split = make_split(GeneratorConfig(), train=3, selection=2, test=2, seed=0)
    whole, again = FreshLevels(split, rng()), FreshLevels(split, rng())
    whole.draw(11)
    for name, value in again.tensors().items():
        value.copy_(whole.tensors()[name])
    assert [again.draw(5) for _ in range(3)] == [whole.draw(5) for _ in range(3)]
