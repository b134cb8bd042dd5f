"""The order of lengths that are written as text."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from drest_torch.errors import ConfigError
from drest_torch.language import prompt_files
from drest_torch.language.lengths import in_order
from drest_torch.language.prompts import digest, generate

ORDERS = [
    ["9:00", "13:00", "21:30"],
    ["9:00 am", "12:30 pm", "1 pm"],
    ["9", "10", "100"],
    ["90,000", "110,000", "1,000,000"],
    ["90,000 timesteps", "110,000 timesteps"],
    ["1e3", "2e3", "1e4"],
    ["-1", "0.5", "2"],
    ["90 minutes", "2 hours", "1 day"],
    ["short", "medium", "long"],
    ["Earlier", "later"],
    ["first", "second", "third"],
    ["today", "tomorrow"],
]
UNKNOWN = [
    ["alpha", "beta"],
    ["9:00", "noon"],
    ["3 days", "2 steps"],
    ["9:00", "09:00"],
    ["short", "brief"],
    ["9 am", "13:00"],
]


@pytest.mark.parametrize("expected", ORDERS, ids=" ".join)
def test_lengths_are_ordered_by_value(expected: list[str]) -> None:
    for lengths in permutations(expected):
        assert in_order(lengths) == (expected, True)


@pytest.mark.parametrize("lengths", UNKNOWN, ids=" ".join)
def test_unknown_order_is_alphabetical(lengths: list[str]) -> None:
    assert in_order(lengths) == (sorted(lengths), False)


def test_single_length_is_in_order() -> None:
    assert in_order(["alpha", "alpha"]) == (["alpha"], True)


def _file(folder: Path, **values: object) -> Path:
    options = [{"length": "beta", "score": 1}, {"length": "alpha", "score": 2}]
    path = folder / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "Which?", "options": options, **values}))
    return path


def test_file_states_the_order_of_lengths(tmp_path: Path) -> None:
    (prompt,) = prompt_files.read(_file(tmp_path, lengths=["beta", "alpha"]))
    assert prompt.lengths == ["beta", "alpha"]
    assert prompt.orders_lengths
    prompt_files.write([prompt], tmp_path / "again.jsonl")
    assert prompt_files.read(tmp_path / "again.jsonl") == [prompt]


@pytest.mark.parametrize("lengths", [["beta"], ["beta", "alpha", "alpha"], ["beta", "gamma"], 3, "beta", [[]]])
def test_wrong_order_of_lengths_is_refused(tmp_path: Path, lengths: object) -> None:
    with pytest.raises(ConfigError, match=r"line 1: expected as `lengths` each length .* alpha, beta"):
        prompt_files.read(_file(tmp_path, lengths=lengths))


def test_hash_of_prompts_is_that_of_earlier_versions() -> None:
    assert digest(generate("post", 3, 0)) == "a68ad62f50be8804"
