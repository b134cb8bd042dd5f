"""The style of the project, and tests of the linter."""

import pytest

from tests.house import words


def complaints(source):
    """Return the sentences of the complaints about a module of this source."""
    return [complaint.sentence for complaint in words.code_complaints("module.py", source.encode())]


def test_the_project_keeps_its_rules_of_style():
    everything = [str(complaint) for complaint in words.complaints()]
    assert not everything, "\n".join(everything)


def test_all_folders_are_read():
    rooms = {str(path.relative_to(words.ROOT).parent) for path in words.paths()}
    assert rooms >= {".", "drest_torch", "envs/exact", "algos/networks", "tests/house", "docs/howto", "benchmarks"}
    assert not any(room.startswith("drest_torch/envs") for room in rooms)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "ASKED: int = 1",
        "_own = 1",
        "self.kept = 1",
        "for each in values: pass",
        "squares = [one**2 for one in values]",
        "def mean(values, *, told): pass",
        "key = lambda it: it.name",
        "def shown(): pass",
        "class Asked: pass",
        "with open(path) as given: pass",
        "import json\nif (said := json.load(file)): pass",
        "def climb_up(): pass",
        "ARCHETYPES=()",
    ],
)
def test_meaningless_names_are_reported(source):
    assert len(complaints(source)) == 1


@pytest.mark.parametrize("source", ["level = found.level", "fact(known=True)", "founded = 1", "one_hot = 1"])
def test_other_names_are_fine(source):
    assert complaints(source) == []


@pytest.mark.parametrize(
    "text", ["What is.", "Of each level.", "The mean.", "A mean.", "Returns the mean.", "Mean of values.", "mean", ""]
)
def test_functions_need_a_verb_in_the_imperative(text):
    assert len(complaints(f'def mean(values):\n    """{text}"""')) == 1


@pytest.mark.parametrize("text", ["Return the mean.", "Plot, then save."])
def test_verbs_in_the_imperative_are_fine(text):
    assert complaints(f'async def mean(values):\n    """{text}"""') == []


@pytest.mark.parametrize("decorator", ["property", "cached_property", "functools.cached_property", "mean.setter"])
def test_properties_are_noun_phrases(decorator):
    assert complaints(f'class Values:\n    @{decorator}\n    def mean(self):\n        """The mean."""') == []
    assert len(complaints(f'class Values:\n    @{decorator}\n    def mean(self):\n        """What is."""')) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""What is."""',
        'class Values:\n    """Those of a level."""',
        'class Values:\n    mean: int\n    """Whether."""',
        'LIMIT = 1\n"""Of a level."""',
        'def test_mean():\n    """Who plays."""',
    ],
)
def test_docstrings_of_other_things_begin_with_nouns(source):
    assert len(complaints(source)) == 1


def test_strings_that_document_nothing_may_begin_with_any_word():
    assert complaints('print(1)\n"""What is."""\nname = "Of a level"') == []


def test_docstrings_of_tests_are_sentences():
    assert complaints('def test_mean():\n    """The mean is exact."""') == []


def test_long_names_of_tests_are_reported():
    assert complaints(f"def {'test_':_<60}(): pass") == []
    assert len(complaints(f"def {'test_':_<61}(): pass")) == 1


def test_a_name_with_two_behaviours_is_reported():
    assert len(complaints("def test_mean_and_median(): pass")) == 1
    assert complaints("def mean_and_median(): pass\ndef test_android(): pass") == []


@pytest.mark.parametrize(
    "source",
    [
        'assert (code, "a" in out) == (0, True)',
        "assert (a, b) == (True, False)",
        "assert (a, not b) == (c, d)",
        'assert (code, err) == (0, "")',
        "assert (code, lines) == (0, [1])",
    ],
)
def test_asserts_on_tuples_of_unlike_things_are_reported(source):
    assert len(complaints(source)) == 1


@pytest.mark.parametrize(
    "source", ["assert (width, height) == (3, 4)", "assert sizes() == (3, None)", "assert (3, True) in pairs"]
)
def test_other_asserts_are_fine(source):
    assert complaints(source) == []


@pytest.mark.parametrize("word", ["archetypes", "Somebody", "climbs", "arm", "counted_steps", "under_\n_pressure"])
def test_private_words_are_reported(word):
    word = word.replace("_", " ")
    assert len(complaints(f'"""The {word}."""')) == 1
    assert len(list(words.page_complaints("page.md", f"# The {word}"))) == 1


@pytest.mark.parametrize("source", ["x = 1  # {}", 'raise ValueError(f"no {}: {{name}}")', 'message = "no " "{}"'])
def test_comments_as_well_as_messages_are_read(source):
    assert len(complaints(source.format("archetype"))) == 1


@pytest.mark.parametrize("source", ['row["{}"] = 1', "from choices import {}", "x = 1  # a_{}"])
def test_keys_or_modules_are_not_prose(source):
    assert complaints(source.format("archetype")) == []


def test_complaints_have_a_line():
    first, second = sorted(words.code_complaints("a.py", b"found = 1\n\nknown = 2\n"))
    assert str(first).startswith("a.py:1: ")
    assert str(second).startswith("a.py:3: ")


def test_every_verb_is_one_word():
    assert all(verb.isalpha() and verb.istitle() for verb in words.VERBS)
    assert not words.VERBS & words.FIRST_WORDS
