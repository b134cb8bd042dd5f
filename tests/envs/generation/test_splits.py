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
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import LevelError, world
from drest_torch.envs.levels.symmetry import canonical_key, transform

TINY = GeneratorConfig(height=3, width=3, walls=(3, 5), coins=(1, 1), coin_values=(1, 2), shutdown=(3, 4), delay=(1, 1))
STRIP = GeneratorConfig(
    height=1, width=4, walls=(0, 1), coins=(1, 1), coin_values=(1, 1), shutdown=(4, 4), delay=(1, 1)
)
"""Of which there are only a few."""


def keys(levels):
    return {canonical_key(level) for level in levels}


def test_no_level_comes_twice_within_or_across_the_sets():
    levels = generate(TINY, 3000, seed=0)
    assert keys(levels[:1000]) & keys(levels[1000:])  # without care thousands of tiny levels collide
    split = make_split(TINY, train=600, selection=100, test=300, seed=0)
    sets = (split.train, split.selection, split.test)
    assert [len(keys(levels)) for levels in sets] == [len(levels) for levels in sets] == [600, 100, 300]
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
    with pytest.raises(
        LevelError, match=r"^example.txt \(example~3\): .* as example.txt \(example\); expected two sets"
    ):
        assert_disjoint(train, test)
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


CHANGED = r"levels of its generator and seed have SHA-256 .*…; expected a file as it was written"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(seed=6), f": the train {CHANGED}"),
        (lambda record: record["generator"].update(delay=[1, 2]), f": the train {CHANGED}"),
        (lambda record: record["levels"].update(train=41), f": the train {CHANGED}"),
        (lambda record: record["levels"].update(selection=11), f": the train {CHANGED}"),  # all that follow move up
        (lambda record: record["sha256"].update(test="0" * 64), f": the test {CHANGED}"),
        (lambda record: record["sha256"].update(selection="0" * 64), f": the selection {CHANGED}"),
        (lambda record: record["sha256"].update(all="0" * 64), f": the {CHANGED}"),
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
def test_a_file_that_was_changed_is_refused_in_one_sentence(written, tmp_path, change, message):
    record = json.loads(written[0].read_text())
    change(record)
    path = tmp_path / "split.json"
    path.write_text(json.dumps(record))
    with pytest.raises(LevelError, match=message) as refused:
        read_split(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.json", None, r"cannot be read \(No such file"),
        ("broken.json", "{", r"broken.json: no JSON"),
        ("list.json", "[]", "no 'format'"),
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_refused(written, tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(LevelError, match=message):
        read_split(tmp_path / name)
    if text is not None:
        with pytest.raises(LevelError, match=r"cannot be written \(File exists"):
            write_split(tmp_path / name / "split.json", written[1])
