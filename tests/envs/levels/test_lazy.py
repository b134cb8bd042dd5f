"""Levels as tensors: they are those of a list, have the same keys, and become objects only when they are read."""

import pickle
import random

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.generation import stream
from drest_torch.envs.generation.splits import make_split, write_split
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import LazyLevels, features_of, largest_map
from drest_torch.envs.levels.keys import canonical_keys
from drest_torch.envs.levels.lazy import BLOCK, keys_of, maps_of
from drest_torch.envs.levels.maps import Maps, maps_of_objects
from drest_torch.envs.levels.symmetry import canonical_key, transform
from drest_torch.envs.objects import KINDS, Coin
from tests.helpers.kinds import random_levels

VARIED = GeneratorConfig(
    height=(2, 6),
    width=(4, 6),
    walls=(0, 1),
    coins=(1, 2),
    buttons=(0, 2),
    chance=(0.5, 1.0),
    doors=(0, 1),
    lengths=(1, 4),
    coin_in_every_length=False,
    clock="moves",
)


@pytest.fixture(scope="module")
def split():
    return make_split(VARIED, train=600, selection=20, test=30, seed=3)


def turned(levels, seed=0):
    """Return each level under a random symmetry."""
    rng = random.Random(seed)
    return [transform(level, rng.randrange(8)) for level in levels]


# ------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_keys_of_many_are_those_of_each(kind):
    levels = turned(random_levels(kind, 80, seed=1))
    keys = [canonical_key(level) for level in levels]
    assert canonical_keys(maps_of_objects(levels)) == keys
    assert canonical_keys(maps_of_objects(levels).sized(7, 9)) == keys
    assert len(set(keys)) > 70


def test_keys_of_generated_levels_are_those_of_each(split):
    assert split.train.keys == [canonical_key(level) for level in split.train]
    assert len({(level.height, level.width) for level in split.train}) == 15
    assert keys_of(turned(split.train[:50])) == split.train.keys[:50]
    assert keys_of([]) == []


@pytest.mark.parametrize("texts", [("C", "C D"), ("C", "C/D"), ("C", "CD")])
def test_texts_that_begin_others_do_not_change_keys(monkeypatch, texts):
    monkeypatch.setattr(Coin, "key", property(lambda coin: texts[int(coin.value) - 1]))
    config = GeneratorConfig(height=2, width=3, walls=(0, 0), coins=(2, 3), coin_values=(1, 2))
    levels = turned(generate(config, 40, seed=0))
    assert keys_of(levels) == [canonical_key(level) for level in levels]


# ------------------------------------------------------------------------------------------- a sequence


def test_lazy_levels_equal_the_list_of_them(split):
    levels = split.train
    as_list = list(levels)
    assert isinstance(levels, LazyLevels)
    assert levels == as_list
    assert as_list == levels
    assert levels[:-1] != as_list
    assert levels != [*as_list[:-1], as_list[0]]
    assert levels != "levels"


def test_lazy_levels_are_indexed_as_a_list(split):
    levels, as_list = split.train, list(split.train)
    assert len(levels) == 600
    assert (levels[0], levels[-1], levels[BLOCK]) == (as_list[0], as_list[-1], as_list[BLOCK])
    assert levels[5] is levels[5]
    for places in (slice(3, 9), slice(None, None, -7), slice(590, 900), slice(5, 5)):
        assert levels[places] == as_list[places]
        assert levels[places].keys == levels.keys[places]
    with pytest.raises(IndexError):
        levels[600]


def test_lazy_levels_survive_pickling(split):
    assert pickle.loads(pickle.dumps(split.test)) == split.test


def test_only_levels_that_are_read_become_objects(split, monkeypatch):
    made = []
    levels_of = Maps.levels

    def counted(maps, names):
        made.append(len(maps))
        return levels_of(maps, names)

    monkeypatch.setattr(Maps, "levels", counted)
    levels = split.train[:]
    assert levels[BLOCK + 1].name == f"gen-3-{int(levels.number[BLOCK + 1]):06}"
    assert levels[BLOCK + 9].name != levels[BLOCK + 8].name
    assert made == [BLOCK]


def test_a_split_is_made_and_written_without_objects(tmp_path, monkeypatch):
    monkeypatch.delattr(Maps, "levels")
    split = make_split(VARIED, train=50, selection=5, test=5, seed=0)
    write_split(tmp_path / "split.json", split)
    mdp = compile_levels(split.train, features=features_of(split.train))
    assert (mdp.num_levels, len(split.held_out())) == (50, 10)


# ------------------------------------------------------------------------------------------- compiled


def same(one, other):
    """Return whether two values of the fields of `Mdp` are equal, to the types of their tensors."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return all(map(same, one, other))
    return one == other


LOTTERIES = GeneratorConfig(lotteries=(0, 2), lottery_outcomes=(2, 3), lottery_delay=(-1, 2), lengths=(1, 8))


@pytest.mark.parametrize("config", [VARIED, LOTTERIES, GeneratorConfig()], ids=["varied", "lotteries", "default"])
def test_lazy_levels_are_compiled_like_a_list(config, monkeypatch):
    monkeypatch.setattr(stream, "DRAFTS_AT_ONCE", 64)
    levels = make_split(config, train=40, selection=0, test=0, seed=1).train
    as_list = list(levels)
    assert features_of(levels) == features_of(as_list)
    assert largest_map(levels) == largest_map(as_list)
    for size in ((1, 1), (8, 7)):
        lazy, eager = compile_levels(levels, at_least=size), compile_levels(as_list, at_least=size)
        for name in ("goto", "object_bit", "layers", "outcomes", "wall", "start", "shutdown", "free_bumps", "features"):
            assert same(getattr(lazy, name), getattr(eager, name)), name
        assert (lazy.height, lazy.width) == (eager.height, eager.width)
        assert lazy.levels == as_list
        assert (lazy.num_objects, lazy.max_time) == (eager.num_objects, eager.max_time)
        assert lazy.num_objects == max(level.num_objects for level in as_list)
        assert lazy.max_time == max(level.max_time for level in as_list)


def test_maps_become_the_levels_that_they_were_made_of(split, monkeypatch):
    monkeypatch.setattr(stream, "DRAFTS_AT_ONCE", 64)
    levels = [*turned(split.test), *generate(LOTTERIES, 20, seed=2)]
    assert maps_of(levels).levels([level.name for level in levels]) == levels
