"""The page on architecture names existing functions, in the order of their calls."""

import importlib
import json
import re
from functools import reduce

import pytest

from tests.helpers.commands import python
from tests.helpers.documents import ROOT

PAGE = ROOT / "docs/explanation/architecture.md"
WALKS = {"train": "One update of PPO", "evaluate": "One evaluation"}
NAMES = (
    "import json\nfrom tests.house.walk import WALKS, followed\nprint()\nprint(json.dumps(followed(WALKS['{}']).names))"
)


def rows(title):
    """Return the module and function of each row of a section."""
    section = PAGE.read_text("utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize("title", WALKS.values())
def test_functions_of_the_page_exist(title):
    assert len(rows(title)) > 10
    for module, function in rows(title):
        reduce(getattr, function.split("."), importlib.import_module(f"drest_torch.{module}"))


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_functions_of_the_page_are_called_in_its_order(walk):
    printed = python("-c", NAMES.format(walk)).splitlines()[-1]
    entered = [tuple(name) for name in json.loads(printed)]
    places = [entered.index(row) for row in rows(WALKS[walk])]
    assert places == sorted(places)


def test_rooms_of_the_picture_are_folders():
    readme = (ROOT / "README.md").read_text("utf-8")
    rooms = set(re.findall(r"drest_torch/\w+/|^(?:algos|envs)/", readme + PAGE.read_text("utf-8"), re.MULTILINE))
    assert len(rooms) > 6
    assert [room for room in rooms if not (ROOT / room).is_dir()] == []
