"""Test levels are held out: on tiny maps, where the generator repeats itself all the time."""

import json
from dataclasses import replace
from itertools import combinations, islice

import pytest

from drest_torch.envs.generation import splits
from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.splits import (
    assert_disjoint,
    check_split,
    distinct,
    make_split,
    read_split,
    write_split,
)
from drest_torch.envs.generation.stream import GeneratorConfig, generate, stream
from drest_torch.envs.levels import LevelError, world
from drest_torch.envs.levels.symmetry import canonical_key, transform

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
    test = [world("hidden_treasure"), transform(world("example"), 3)]
    with pytest.raises(LevelError) as refused:
        assert_disjoint(train, test)
    assert str(refused.value) == (
        "example.txt (example~3): the same level, up to symmetry and translation, as example.txt (example); "
        "expected two sets that share none"
    )
    assert_disjoint(train, test[:1])
    assert_disjoint(train, [])
    assert_disjoint([], test)


SIZES = {"train": 40, "selection": 10, "test": 20}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("split") / "split.json"
    config = replace(TINY, walls=(3, 4), distance=(1, 2), ratio=(0.5, 3.0), weights={"walls": (1, 2)})
    split = make_split(config, **SIZES, seed=5)
    write_split(path, split, preset="tiny")
    return path, split


def test_a_split_is_made_again_from_its_file(written):
    path, split = written
    assert read_split(path) == split
    check_split(path, split)
    assert [each.name for each in path.parent.iterdir()] == ["split.json"]


def tampered(written, tmp_path, change):
    record = json.loads(written[0].read_text())
    change(record)
    path = tmp_path / "split.json"
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize(
    ("change", "which"),
    [
        (lambda record: record.update(seed=6), "train levels"),
        (lambda record: record["generator"].update(delay=[1, 2]), "train levels"),
        (lambda record: record["levels"].update(train=41), "train levels"),
        (lambda record: record["levels"].update(selection=11), "train levels"),  # all that come after move up
        (lambda record: record["sha256"].update(test="0" * 64), "test levels"),
        (lambda record: record["sha256"].update(selection="0" * 64), "selection levels"),
        (lambda record: record["sha256"].update(all="0" * 64), "levels"),
    ],
)
def test_a_file_that_was_changed_is_refused_in_one_sentence(written, tmp_path, change, which):
    path = tampered(written, tmp_path, change)
    with pytest.raises(LevelError) as refused:
        read_split(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: the {which} of its generator and seed have SHA-256 ")
    assert message.endswith("…; expected a file as it was written, by this version of the generator")
    assert "\n" not in message


def test_a_generator_that_draws_otherwise_is_noticed(written, monkeypatch):
    path, split = written
    monkeypatch.setattr(
        splits.generator, "stream", lambda config, seed, **kwargs: stream(config, seed, first=1000, **kwargs)
    )
    with pytest.raises(LevelError, match="the train levels of its generator and seed have SHA-256"):
        read_split(path)
    other = make_split(split.config, **SIZES, seed=5)
    with pytest.raises(LevelError, match="by this version of the generator"):
        check_split(path, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.pop("seed"), "no 'seed', or of the wrong kind"),
        (lambda record: record.update(sha256=[]), "no 'sha256', or of the wrong kind"),
        (lambda record: record.update(format=2), "format 2; expected 1"),
        (lambda record: record["levels"].pop("test"), "expected how many there are for train, selection, test"),
        (lambda record: record["levels"].update(test=-1), "expected how many there are"),
        (lambda record: record["sha256"].pop("all"), "expected texts for train, selection, test, all"),
        (lambda record: record["generator"].update(colour="red"), "the generator has no 'colour'; expected some of"),
        (lambda record: record["generator"].update(coins=[3, 2]), "coins from 3 to 2; expected whole numbers"),
    ],
)
def test_what_is_no_file_of_a_split_is_refused(written, tmp_path, change, message):
    with pytest.raises(LevelError, match=message):
        read_split(tampered(written, tmp_path, change))


def test_files_that_cannot_be_read_or_written_are_refused(written, tmp_path):
    with pytest.raises(LevelError, match=r"cannot be read \(No such file"):
        read_split(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(LevelError, match=r"broken.json: no JSON"):
        read_split(tmp_path / "broken.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(LevelError, match="no 'format'"):
        read_split(tmp_path / "list.json")
    with pytest.raises(LevelError, match=r"cannot be written \(File exists"):
        write_split(tmp_path / "broken.json" / "split.json", written[1])
