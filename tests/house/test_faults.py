"""The list of faults that `make mutants` tries: each has its line and its tests."""

import yaml

from tests.helpers.documents import ROOT

FAULTS = yaml.safe_load((ROOT / "tests" / "mutants" / "faults.yaml").read_text("utf-8"))


def faults():
    """Yield the file, and the fault, of each entry."""
    for path, several in FAULTS.items():
        for fault in several:
            yield path, fault


def test_each_fault_has_one_line_to_be_put_into():
    counts = {}
    for path, fault in faults():
        counts[path, fault["was"]] = (ROOT / path).read_text("utf-8").count(fault["was"])
    assert len(counts) > 100
    assert {place: count for place, count in counts.items() if count != 1} == {}


def test_each_fault_names_files_of_tests():
    names = {name for _, fault in faults() for name in fault["tests"].split()}
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    assert names - files == set()
