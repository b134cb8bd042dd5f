"""The paper's nine worlds: the comparison with the paper, and when agents give a length up."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import example
from drest_torch.studies.engine import Done
from drest_torch.studies.example import collapse, split, standard_errors
from drest_torch.studies.shared import at_the_end
from tests.helpers.studies import composed_study


def test_means_are_compared_with_the_paper_s_in_standard_errors():
    sd = 0.1 / math.sqrt(2)
    apart = standard_errors(np.array([0.9, 1.0]), (0.9945, 0.0052))
    assert apart == pytest.approx((0.9945 - 0.95) / math.hypot(sd / math.sqrt(2), 0.0052 / 10**0.5))
    assert math.isnan(standard_errors(np.array([0.9]), (0.9945, 0.0052)))


@pytest.mark.parametrize(
    ("p_longer", "mini_episodes", "share"),
    [
        ([0.5, 0.005, 0.2, 0.001, 0.0], 300, 0.4),
        ([0.004, 0.003, 0.0003, 0.0, 0.0], 200, 0.3),
        ([0.5, 0.0, 0.0, 0.0, 0.06], math.nan, math.nan),
        ([0.004, 0.003, 0.003, 0.002, 0.002], math.nan, math.nan),
    ],
)
def test_when_the_longer_trajectory_is_given_up_for_good(p_longer, mini_episodes, share):
    p, longer = (np.array(each)[:, None].repeat(3, 1) for each in (p_longer, [0.1, 0.2, 0.3, 0.4, 0.5]))
    arrays = {
        "episodes": np.arange(5) * 100,
        "steps/p_length": np.stack((1 - p, p), -1),
        "steps/share_of_best": np.stack((np.full(p.shape, 0.75), longer), -1),
    }
    numbers = collapse(Result({}, arrays))
    assert numbers["mini_episodes"] == pytest.approx(mini_episodes, nan_ok=True)
    assert numbers["longer"] == pytest.approx(share, nan_ok=True)
    assert (numbers["first"], numbers["final"]) == (p_longer[0], p_longer[-1])


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
