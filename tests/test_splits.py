"""Held-out levels are held out: on tiny maps, where the generator repeats itself all the time."""

from itertools import combinations, islice

import pytest

from envs import generator, splits
from envs.generator import GeneratorConfig, generate
from envs.levels import LevelError, world
from envs.splits import assert_disjoint, distinct, make_split
from envs.symmetry import canonical_key, transform

TINY = GeneratorConfig(height=3, width=3, walls=(3, 5), coins=(1, 1), coin_values=(1, 2), shutdown=(3, 4), delay=(1, 1))
STRIP = GeneratorConfig(
    height=1, width=4, walls=(0, 1), coins=(1, 1), coin_values=(1, 1), shutdown=(4, 4), delay=(1, 1)
)
"""Of which there are only a few."""


def keys(levels):
    return {canonical_key(level) for level in levels}


def test_without_care_thousands_of_tiny_levels_collide():
    levels = generate(TINY, 3000, seed=0)
    assert len(keys(levels)) < 2000
    assert keys(levels[:1000]) & keys(levels[1000:])


def test_no_level_comes_twice_within_or_across_the_sets():
    split = make_split(TINY, train=600, selection=100, test=300, seed=0)
    sets = (split.train, split.selection, split.test)
    assert [len(levels) for levels in sets] == [600, 100, 300]
    assert [len(keys(levels)) for levels in sets] == [600, 100, 300]
    assert len({level.name for levels in sets for level in levels}) == 1000
    for one, other in combinations(sets, 2):
        assert not keys(one) & keys(other)
        assert_disjoint(one, other)


def test_held_out_levels_do_not_change_with_the_number_of_training_levels():
    few = make_split(TINY, train=10, selection=50, test=100, seed=1)
    many = make_split(TINY, train=400, selection=50, test=100, seed=1)
    assert (few.test, few.selection) == (many.test, many.selection)
    assert few.train == many.train[:10]
    other_selection = make_split(TINY, train=10, selection=5, test=100, seed=1)
    assert other_selection.test == few.test
    assert other_selection.selection == few.selection[:5]


def test_a_split_is_the_same_for_the_same_seed_and_another_for_another():
    sizes = {"train": 30, "selection": 5, "test": 30}
    split = make_split(GeneratorConfig(), **sizes, seed=2)
    assert make_split(GeneratorConfig(), **sizes, seed=2) == split
    assert not keys(make_split(GeneratorConfig(), **sizes, seed=3).test) & keys(split.test)


def test_the_first_of_equal_levels_is_kept():
    levels = [world("example"), transform(world("example"), 5), world("hidden_treasure"), world("example")]
    assert list(distinct(levels)) == [levels[0], levels[2]]


def test_more_levels_than_there_are_is_an_error_that_says_how_many_there_are(monkeypatch):
    monkeypatch.setattr(splits, "MAX_KNOWN", 500)
    monkeypatch.setattr(generator, "DRAFTS_AT_ONCE", 64)
    there_are = len(keys(generate(STRIP, 500, seed=0)))
    assert there_are < 20
    assert len(list(islice(distinct(generator.stream(STRIP, 0)), there_are))) == there_are
    with pytest.raises(LevelError, match=f"^{there_are} different levels were found, and the 500 after them"):
        make_split(STRIP, train=20, selection=0, test=0, seed=0)


def test_sets_that_share_a_level_are_refused_with_both_names():
    train = [world("royal_road"), world("example")]
    heldout = [world("hidden_treasure"), transform(world("example"), 3)]
    with pytest.raises(LevelError) as refused:
        assert_disjoint(train, heldout)
    assert str(refused.value) == (
        "example.txt (example~3): the same level, up to symmetry and translation, as example.txt (example); "
        "expected two sets that share none"
    )
    assert_disjoint(train, heldout[:1])
    assert_disjoint(train, [])
    assert_disjoint([], heldout)
