"""Made-up results of tabular agents, with all that the studies of pairs of clocks show of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job, Result
from tests.helpers.studies import Pretended


@lru_cache
def rows(name: str) -> int:
    """Return how many rows the table of an agent has."""
    mdp = compile_levels([world(name)])
    return mdp.num_cells << mdp.num_objects


class PretendedTables(Pretended):
    """Results with tables of uniform policies too; see `Pretended`."""

    def get(self, job: Job) -> Result | None:
        """Return the made-up result of a run."""
        if (result := super().get(job)) is None:
            return None
        training = job.spec["training"]
        played = training["random_episodes"] + training["meta_episodes"] * training["episodes_per_meta"]
        result.arrays["episodes"] = np.array([0, played])
        result.arrays["logits"] = np.zeros((self.agents, rows(job.spec["world"]), NUM_ACTIONS))
        for clock in job.spec["evaluated_on"]:
            result.arrays[f"{clock}/share_of_best"] = np.full((2, self.agents, 2), 0.5)
        for name, value in self.ends(job).items():
            if name.endswith("/share_of_best"):
                result.arrays[name][-1] = value
        return Result(result.numbers | {"episodes": played * self.agents}, result.arrays)
