"""The list of faults of `make mutants`: each applies to one line and names existing tests."""

import yaml

from tests.helpers.documents import ROOT

FAULTS = yaml.safe_load((ROOT / "tests" / "mutants" / "faults.yaml").read_text("utf-8"))


def faults():
    """Yield each fault with its file."""
    for path, in_file in FAULTS.items():
        for fault in in_file:
            yield path, fault


def test_each_fault_replaces_a_text_that_occurs_once():
    counts = {}
    for path, fault in faults():
        counts[path, fault["was"]] = (ROOT / path).read_text("utf-8").count(fault["was"])
    assert len(counts) > 100
    assert {place: count for place, count in counts.items() if count != 1} == {}


def test_each_fault_names_files_of_tests():
    names = {name for _, fault in faults() for name in fault["tests"].split()}
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    assert names - files == set()
