"""The study of networks: what is measured of agents over training, and of a policy that moves at random."""

import math

import numpy as np
import pytest

from drest_torch.envs.levels import world
from drest_torch.jobs.job import Result
from drest_torch.studies import neural
from drest_torch.studies.registry import all_studies
from tests.helpers.simulator import enumerate_policy, uniform_policy
from tests.helpers.studies import composed, composed_study


@pytest.mark.parametrize(
    ("useful", "neutral", "both"),
    [([0, 1, 1, 1], [0, 0, 1, 1], 20), ([0, 1, 0.5, 1], [1, 1, 1, 1], 30), ([1, 1, 1, 1], [1, 1, 1, 0.9], math.inf)],
)
def test_what_counts_is_when_both_are_good_for_good(useful, neutral, both):
    arrays = {"steps": np.arange(4) * 10, "train/lengths": np.array([4, 8])}
    arrays |= {"train/p_length": np.array([0.8, 0.2]), "train/share_of_best": np.array([0.5, 0.7])}
    curves = {"usefulness": useful, "neutrality": neutral, "p_length/8": [0, 0.2, 0, 0.2]}
    arrays |= {f"eval/train/{name}": np.array(curve, float) for name, curve in curves.items()}
    key = neural.Key("example", "ppo", "drest", seed=2)
    agent = neural.measure(composed("neural"), {key: Result({"wall_seconds": 2.5}, arrays)}).iloc[0]
    assert agent.steps_until_both == both
    assert (agent.seed, agent.seconds, agent.both) == (2, 2.5, math.isfinite(both))
    assert (agent.p_longer, agent.share_shorter, agent.share_longer) == (0.2, 0.5, 0.7)


def test_the_steps_of_a_table_are_those_it_took():
    episodes = np.array([0, 500, 1000, 2000])
    result = Result({"steps": 3 * 12_000}, {"episodes": episodes, "steps/usefulness": np.zeros((4, 3))})
    assert neural.table_steps(result, 3.5, 1000) == pytest.approx([0, 1750, 3500, 12_000])


def test_the_length_at_random_is_that_of_all_trajectories():
    found = enumerate_policy(world("spacious").with_clock("steps"), uniform_policy, 1.0)
    mean = sum(length * float(probability) for length, (probability, _) in found.items())
    assert neural.length_at_random("spacious") == pytest.approx(mean)


@pytest.mark.slow
def test_the_tables_are_those_of_the_study_of_the_table():
    """So that they are trained once when all studies are run."""
    digests = {job.digest() for job in all_studies()["example"].jobs(composed_study("example")).values()}
    planned = neural.jobs(composed_study("neural")).items()
    tables = {job.digest() for key, job in planned if key.algorithm == neural.TABLE}
    assert (len(tables), tables <= digests) == (18, True)
