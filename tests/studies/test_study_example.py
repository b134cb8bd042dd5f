"""The paper's nine worlds: the comparison with the paper."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import example
from drest_torch.studies.engine import Done
from drest_torch.studies.example import split, standard_errors
from drest_torch.studies.shared import at_the_end
from tests.helpers.studies import composed_study


def test_means_are_compared_with_the_paper_s_in_standard_errors():
    sd = 0.1 / math.sqrt(2)
    apart = standard_errors(np.array([0.9, 1.0]), (0.9945, 0.0052))
    assert apart == pytest.approx((0.9945 - 0.95) / math.hypot(sd / math.sqrt(2), 0.0052 / 10**0.5))
    assert math.isnan(standard_errors(np.array([0.9]), (0.9945, 0.0052)))


def test_worlds_are_split_by_what_holds_in_them():
    assert split(pd.Series({"a": True, "b": False, "c": True})) == {"yes": ["a", "c"], "no": ["b"]}


def test_the_end_of_training_is_read_on_each_clock():
    key, job = next(iter(example.jobs(composed_study("example")).items()))
    numbers = {"steps": (0.1, 0.2, 0.3), "moves": (0.4, 0.5, 0.6)}
    arrays = {}
    for clock, (neutral, useful, longer) in numbers.items():
        both = {"neutrality": neutral, "usefulness": useful}
        arrays |= {f"{clock}/{name}": np.array([[0.0, 0.0], [value, value]]) for name, value in both.items()}
        arrays[f"{clock}/p_length"] = np.array([[[0.0, 0.0]] * 2, [[1 - longer, longer]] * 2])
    ends = at_the_end(Done({key: job}, SimpleNamespace(get=lambda job: Result({}, arrays))))
    assert ends.clocks.tolist() == ["moves / moves", "moves / steps"]
    for (_, found), expected in zip(ends.iterrows(), (numbers["moves"], numbers["steps"]), strict=True):
        assert found[["neutrality", "usefulness", "p_longer"]].map(list).tolist() == [[each] * 2 for each in expected]
