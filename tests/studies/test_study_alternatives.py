"""The study of the alternatives: who is better, and what cannot be compared."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import alternatives as study
from tests.helpers.studies import composed_study


@pytest.mark.parametrize(
    ("by", "side"),
    [
        ([0.02, 0.021, 0.022], "better"),
        ([-0.02, -0.021, -0.022], "worse"),
        ([0.002, 0.0021, 0.0022], "alike"),
        ([0.1, -0.1, 0.1], "alike"),
    ],
)
def test_a_rival_is_better_where_it_is_clearly_so_in_every_seed(by, side):
    scores = {("DReST", 64.0): [0.9, 0.91, 0.92], ("U × N", None): [0.9 + by[0], 0.91 + by[1], 0.92 + by[2]]}
    rows = [
        {"title": title, "strength": strength, "seed": seed, "usefulness": score, "neutrality": score}
        for (title, strength), several in scores.items()
        for seed, score in enumerate(several)
    ]
    found = study.compared(composed_study("alternatives"), pd.DataFrame(rows))
    assert found.side["U × N"] == side
    assert found.apart["U × N"].estimate == pytest.approx(sum(by) / 3)


@pytest.mark.parametrize(
    ("problem", "at_least", "by"),
    [
        ("coins_entropy", 0.9, 0.02),
        ("usefulness_entropy", 0.8, 0),
        ("entropy_usefulness", 0.9, 0.2),
        ("coins_shares", 0.9, 0.3),
    ],
)
def test_a_constraint_says_by_how_much_it_misses_its_bound(problem, at_least, by):
    objective = {"name": "constrained", "problem": problem, "at_least": at_least}
    assert study.misses(objective, useful=0.7, neutral=0.88, longest=0.7) == pytest.approx(by)
    assert np.isnan(study.misses({"name": "drest"}, 0.7, 0.88, 0.7))
