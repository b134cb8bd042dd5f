"""The default command trains agents as the published ones: five seeds are in the rows of the study generalization."""

import pytest

from drest_torch import Agent
from drest_torch.studies.study_rows import read_rows
from tests.helpers.documents import ROOT

AGENT = "PPO"
"""The name of the default command in the study."""


@pytest.mark.slow
def test_the_default_command_is_as_good_as_published(tmp_path):
    """Other processors give other agents, so scores may be lower than the lowest of five by the range of the five."""
    rows, _ = read_rows(ROOT / "docs" / "results" / "generalization.csv")
    published = rows[(rows.part == "long") & (rows.agent == AGENT)]
    agent = Agent.train("algo=ppo", logger="none", pictures=0, run_dir=str(tmp_path / "run"))
    for name, levels in {"unseen": None, "paper": "paper"}.items():
        ends = published[published.set == name]
        assert ends.seed.nunique() == 5
        results = agent.evaluate(levels)
        for measure in ("usefulness", "neutrality"):  # in bits, which are normalised for two lengths
            lowest, highest = ends[measure].min(), ends[measure].max()
            assert getattr(results, measure) > lowest - (highest - lowest), (name, measure)
