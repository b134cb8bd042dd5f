"""Limits on the files and classes that a reader of the data flow passes."""

import re

import pytest

from tests.helpers.commands import python

_COUNTS = re.compile(r"(\d+) files, (\d+) functions, (\d+) classes")


@pytest.mark.slow
@pytest.mark.parametrize(("walk", "most_files", "most_classes"), [("train", 81, 74), ("evaluate", 37, 34)])
def test_the_path_of_the_data_does_not_get_longer(walk, most_files, most_classes):
    printed = python("-m", "tests.house.walk", walk)
    files, functions, classes = map(int, _COUNTS.search(printed).groups())
    assert 20 < files <= most_files, printed
    assert files < functions
    assert 20 < classes <= most_classes, printed
