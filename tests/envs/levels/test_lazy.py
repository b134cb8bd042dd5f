"""Level sets as tensors: they equal lists and their keys, and become objects only when they are read."""

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
def test_batched_keys_equal_single_keys(kind):
    levels = turned(random_levels(kind, 80, seed=1))
    keys = [canonical_key(level) for level in levels]
    assert canonical_keys(maps_of_objects(levels)) == keys
    assert canonical_keys(maps_of_objects(levels).sized(7, 9)) == keys
    assert len(set(keys)) > 70


def test_keys_of_generated_levels_equal_single_keys(split):
    assert split.train.keys == [canonical_key(level) for level in split.train]
    assert len({(level.height, level.width) for level in split.train}) == 15
    assert keys_of(turned(split.train[:50])) == split.train.keys[:50]
    assert keys_of([]) == []


@pytest.mark.parametrize("texts", [("C", "C D"), ("C", "C/D"), ("C", "CD")])
def test_texts_that_are_prefixes_do_not_change_keys(monkeypatch, texts):
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
    for index in (0, -1, BLOCK):
        assert levels[index] == as_list[index]
    assert levels[5] is levels[5]
    for places in (slice(3, 9), slice(None, None, -7), slice(590, 900), slice(5, 5)):
        assert levels[places] == as_list[places]
        assert levels[places].keys == levels.keys[places]
    with pytest.raises(IndexError):
        levels[600]


def test_lazy_levels_survive_pickling(split):
    assert pickle.loads(pickle.dumps(split.test)) == split.test


def test_only_blocks_that_are_read_become_objects(split, monkeypatch):
    converted = []
    levels_of = Maps.levels

    def counted(maps, names):
        converted.append(len(maps))
        return levels_of(maps, names)

    monkeypatch.setattr(Maps, "levels", counted)
    levels = split.train[:]
    assert levels[BLOCK + 1].name == f"gen-3-{int(levels.number[BLOCK + 1]):06}"
    assert levels[BLOCK + 9].name != levels[BLOCK + 8].name
    assert converted == [BLOCK]


def test_a_split_needs_no_objects_of_levels(tmp_path, monkeypatch):
    monkeypatch.delattr(Maps, "levels")
    split = make_split(VARIED, train=50, selection=5, test=5, seed=0)
    write_split(tmp_path / "split.json", split)
    mdp = compile_levels(split.train, features=features_of(split.train))
    assert mdp.num_levels == 50
    assert len(split.held_out()) == 10


# ------------------------------------------------------------------------------------------- compiled


def equal(first, second):
    """Return whether two values of fields of `Mdp` are equal, including the types of tensors."""
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[name], second[name]) for name in first)
    if isinstance(first, tuple):
        return all(map(equal, first, second))
    return first == second


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
            assert equal(getattr(lazy, name), getattr(eager, name)), name
        assert lazy.height == eager.height
        assert lazy.width == eager.width
        assert lazy.levels == as_list
        assert lazy.num_objects == eager.num_objects
        assert lazy.max_time == eager.max_time
        assert lazy.num_objects == max(level.num_objects for level in as_list)
        assert lazy.max_time == max(level.max_time for level in as_list)


def test_maps_of_levels_convert_back_to_the_same_levels(split, monkeypatch):
    monkeypatch.setattr(stream, "DRAFTS_AT_ONCE", 64)
    levels = [*turned(split.test), *generate(LOTTERIES, 20, seed=2)]
    assert maps_of(levels).levels([level.name for level in levels]) == levels
