"""λ × E: the runs, and the corners of the table."""

import numpy as np
import pandas as pd

from drest_torch.studies import lambda_meta
from drest_torch.studies.lambda_meta import LARGE, SMALL, collapsed, corner
from tests.helpers.studies import composed_study


def test_every_agent_plays_as_many_mini_episodes():
    cfg = composed_study("lambda_meta")
    for key, job in lambda_meta.jobs(cfg).items():
        training = job.spec["training"]
        assert training["meta_episodes"] * key.size == cfg.mini_episodes
        assert training["evaluate_every"] >= training["meta_episodes"]
        assert (training["lam"], training["clip"] is not None) == (key.lam, key.clipped)


def test_a_corner_and_the_rest():
    means = pd.DataFrame(np.arange(12.0).reshape(3, 4))
    assert corner(means, LARGE, SMALL) == ((4 + 5 + 8 + 9) / 4, (66 - 26) / 8)
    assert corner(means, SMALL, LARGE) == ((2 + 3 + 6 + 7) / 4, (66 - 18) / 8)


def test_an_agent_collapses_by_either_measure():
    agents = pd.DataFrame({"neutrality": [0.05, 0.2, 0.2], "usefulness": [0.9, 0.9, 0.4]})
    assert collapsed(agents).tolist() == [True, False, True]
