"""Test levels are held out, even on tiny maps, where the generator often repeats levels."""

import json
from dataclasses import replace
from itertools import combinations, islice

import pytest

from drest_torch.envs.generation import splits
from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.splits import assert_disjoint, check_split, distinct, make_split, write_split
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import LevelError, world
from drest_torch.envs.levels.symmetry import canonical_key, transform

TINY = GeneratorConfig(height=3, width=3, walls=(3, 5), coins=(1, 1), coin_values=(1, 2), shutdown=(3, 4), delay=(1, 1))


def keys(levels):
    return {canonical_key(level) for level in levels}


def test_no_level_comes_twice_within_or_across_the_sets():
    levels = generate(TINY, 3000, seed=0)
    assert keys(levels[:1000]) & keys(levels[1000:])  # without care thousands of tiny levels collide
    split = make_split(TINY, train=600, selection=100, test=300, seed=0)
    sets = (split.train, split.selection, split.test)
    assert [len(keys(levels)) for levels in sets] == [len(levels) for levels in sets] == [600, 100, 300]
    assert len({level.name for levels in sets for level in levels}) == 1000
    for first, second in combinations(sets, 2):
        assert not keys(first) & keys(second)
        assert_disjoint(first, second)


def test_held_out_levels_do_not_depend_on_the_training_levels():
    few = make_split(TINY, train=10, selection=50, test=100, seed=1)
    many = make_split(TINY, train=400, selection=50, test=100, seed=1)
    assert few.test == many.test
    assert few.selection == many.selection
    assert few.train == many.train[:10]
    other_selection = make_split(TINY, train=10, selection=5, test=100, seed=1)
    assert other_selection.test == few.test
    assert other_selection.selection == few.selection[:5]


def test_too_few_different_levels_are_an_error_with_their_number(monkeypatch):
    monkeypatch.setattr(splits, "MAX_REPEATED", 500)
    monkeypatch.setattr(generator, "DRAFTS_AT_ONCE", 64)
    strip = replace(TINY, height=1, width=4, walls=(0, 1), coin_values=(1, 1), shutdown=(4, 4))
    different = len(keys(generate(strip, 500, seed=0)))
    assert different < 20
    levels = generate(strip, 60, seed=0)
    first = [level for index, level in enumerate(levels) if canonical_key(level) not in keys(levels[:index])]
    assert list(distinct(levels)) == first
    assert len(list(islice(distinct(generator.stream(strip, 0)), different))) == different
    with pytest.raises(LevelError, match=f"^{different} different levels were found, and the next 500"):
        make_split(strip, train=20, selection=0, test=0, seed=0)


def test_sets_that_share_a_level_are_refused_with_both_names():
    train = [world("royal_road"), world("example")]
    test = [world("hidden_treasure"), transform(world("example"), 3)]
    message = r"^example.txt \(example~3\): .* as example.txt \(example\); expected two sets"
    with pytest.raises(LevelError, match=message):
        assert_disjoint(train, test)
    assert_disjoint(train, test[:1])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("split") / "split.json"
    config = replace(TINY, walls=(3, 4), distance=(1, 2), ratio=(0.5, 3.0), weights={"walls": (1, 2)})
    split = make_split(config, train=40, selection=10, test=20, seed=5)
    write_split(path, split, preset="tiny")
    return path, split


def test_a_split_is_regenerated_from_its_file(written):
    path, split = written
    record = json.loads(path.read_text())
    again = make_split(GeneratorConfig(**record["generator"]), **record["levels"], seed=record["seed"])
    assert again == split
    check_split(path, again)
    assert [file.name for file in path.parent.iterdir()] == ["split.json"]


@pytest.mark.parametrize("part", ["train", "selection", "test", "all"])
def test_levels_that_differ_from_the_file_are_refused(written, tmp_path, part):
    record, path = json.loads(written[0].read_text()), tmp_path / "split.json"
    path.write_text(json.dumps(record | {"sha256": record["sha256"] | {part: "0" * 64}}))
    with pytest.raises(LevelError, match=f"the {part} levels" if part != "all" else "the levels of its generator"):
        check_split(path, written[1])
    if part != "all":  # one level less
        with pytest.raises(LevelError, match=f"the {part} levels of its generator and seed have SHA-256"):
            check_split(written[0], replace(written[1], **{part: getattr(written[1], part)[:-1]}))


@pytest.mark.parametrize("text", [None, "{", "[]", '{"sha256": [1]}', "[" * 100_000])
def test_an_invalid_file_of_a_split_is_refused(written, tmp_path, text):
    path = tmp_path / "split.json"
    if text is not None:
        path.write_text(text)
        with pytest.raises(LevelError, match=r"cannot be written \(File exists"):
            write_split(path / "split.json", written[1])
    with pytest.raises(LevelError, match="expected the file of a split"):
        check_split(path, written[1])
