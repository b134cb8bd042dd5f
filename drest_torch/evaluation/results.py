"""Results of evaluating an agent on levels: numbers, a JSON record and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.algos.networks.policy import Policy, weights_unchanged
from drest_torch.envs.levels import files_of
from drest_torch.evaluation.exact_evaluator import Evaluation
from drest_torch.evaluation.sampled import SampledEvaluation
from drest_torch.evaluation.tidy import LEVEL_COLUMNS, data_frame, level_rows, wide_rows
from drest_torch.files import write_json
from drest_torch.outputs import check_outputs

if TYPE_CHECKING:
    import pandas as pd

    from drest_torch.envs.dynamics.moments import Episode


@dataclass(frozen=True)
class Results:
    """The evaluation of an agent on a level set, as `Agent.evaluate` returns it."""

    evaluator: Any
    """The evaluator: an `ExactEvaluator`."""
    policy: Policy
    evaluation: Evaluation
    """The metrics of each level, as tensors [levels]."""
    greedy: bool
    agent: str
    """The name of the agent in pictures."""

    @property
    def usefulness(self) -> float:
        """Mean usefulness over levels: 1 if the agent collects everything that the chosen length offers."""
        return self.evaluation.means()["usefulness"]

    @property
    def neutrality(self) -> float:
        """Mean neutrality over levels, in bits: 1 if two lengths are equally likely."""
        return self.evaluation.means()["neutrality"]

    @property
    def neutrality_own(self) -> float:
        """Mean neutrality given the private bits, in bits: randomness of the policy itself."""
        return self.evaluation.neutrality_own.mean().item()

    def __repr__(self) -> str:
        count = len(self.evaluator.levels)
        noun = "level" if count == 1 else "levels"
        return f"Results({count} {noun}: usefulness {self.usefulness:.3f}, neutrality {self.neutrality:.3f})"

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that ``drest evaluate`` prints: a summary, and usefulness at further discounts γ."""
        uniform = self.evaluator.evaluate_uniform()
        usefulness_at = self.evaluator.usefulness_at(self.policy, greedy=self.greedy)
        return {
            **self.evaluation.summary(uniform),
            "usefulness_at": {gamma: values.mean().item() for gamma, values in usefulness_at.items()},
        }

    def record(self) -> dict[str, Any]:
        """Return all metrics as a JSON value: averages in ``mean``, and an entry for each level in ``levels``.

        Example:
            >>> agent.evaluate("example").record()["levels"][0]["name"]
            'example'
        """
        return {"mean": self.evaluation.means(), "levels": self.evaluation.records()}

    def write(self, path: Path) -> None:
        """Write `record` to a JSON file."""
        self._check(Path(path))
        write_json(Path(path), self.record())

    def _check(self, path: Path) -> None:
        """Raise if an output would replace a level file or a file of a run."""
        check_outputs(path, reads=files_of(getattr(self.evaluator, "levels", ())))

    def by_level(self) -> pd.DataFrame:
        """Return a frame of pandas with a row for each level, and a column for each measure with its unit.

        Example:
            >>> list(agent.evaluate("paper").by_level().columns[:3])
            ['level', 'usefulness', 'neutrality_bits']
        """
        return data_frame(wide_rows(self.evaluation.records()))

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame of pandas, with a row for each value of each level.

        The columns are ``agent``, ``level``, ``measure`` (with its unit), ``length_ticks`` (for measures with a value
        for each length), ``value``, and ``low`` and ``high``, the 95 % interval of sampled values.

        Example:
            >>> table = agent.evaluate("example").frame()
            >>> table[table.measure == "length_probability"].length_ticks.tolist()
            [4, 8]
        """
        rows = [{"agent": self.agent, **row} for row in level_rows(self.evaluation.records())]
        return data_frame(rows, ["agent", *LEVEL_COLUMNS])

    def plot(self, path: str | Path, most: int = 9) -> list[Path]:
        """Plot the policy on the first levels, one file per level.

        Args:
            path: a folder for PNG files, which is created if necessary, or the name of a file that ends in .png, .svg
                or .pdf. Pictures of several levels are files of one page each, whose names end in the name of the
                level: ``figure.pdf`` becomes ``figure-example.pdf``.
            most: the maximum number of pictures.

        Returns:
            the files. The list is empty if the first level needs more memory than ``memory_gib``, or if the policy is
            recurrent and thus has no action probabilities by state.

        Example:
            >>> agent.evaluate("example").plot("pictures")  # doctest: +SKIP
            [PosixPath('pictures/example.png')]
            >>> agent.evaluate("example").plot("figure.pdf")  # doctest: +SKIP
            [PosixPath('figure.pdf')]
        """
        self._check(Path(path))
        return self.plotted(Path(path), most)

    def plotted(self, path: Path, most: int) -> list[Path]:
        """Plot like `plot`, but do not check whether the folder belongs to a run."""
        from drest_torch.plots.policy_maps import caption, policy_pictures  # evaluation alone needs no matplotlib

        level_set, evaluation = self.evaluator, self.evaluation
        indices = level_set.fitting_levels(most, self.policy)
        if not indices:
            return []
        reachable = level_set.unrolled(indices)
        captions = [
            caption(
                evaluation.usefulness[index].item(),
                evaluation.neutrality[index].item(),
                evaluation.length_probabilities(index),
                sampled=isinstance(evaluation, SampledEvaluation),
            )
            for index in indices
        ]
        policies = level_set.policies_by_private_bits(self.policy, reachable, greedy=self.greedy)
        return policy_pictures(reachable, policies, indices, path, captions, self.agent)

    def episodes(self, *, seed: int = 0) -> list[Episode]:
        """Sample a mini-episode on the first level for each length with a probability above 1 %, shortest first."""
        return self._episodes(1, seed)[0]

    def episodes_by_level(self, *, seed: int = 0) -> list[list[Episode]]:
        """Sample such mini-episodes on each level."""
        return self._episodes(len(self.evaluator.levels), seed)

    def _episodes(self, count: int, seed: int) -> list[list[Episode]]:
        from drest_torch.evaluation.episodes import sample_episodes  # TorchRL takes seconds to import

        probabilities = [self.evaluation.length_probabilities(level) for level in range(count)]
        with weights_unchanged(self.policy):
            return sample_episodes(self.evaluator, self.policy, probabilities, greedy=self.greedy, seed=seed)

    def animate(self, path: str | Path, *, seed: int = 0) -> None:
        """Write a GIF of the mini-episodes of `episodes`, side by side.

        Example:
            >>> agent.evaluate("example").animate("episodes.gif")  # doctest: +SKIP
        """
        from drest_torch.plots.animation import animate_level, check_ending  # loading an agent needs no matplotlib

        check_ending(Path(path))
        self._check(Path(path))
        animate_level(self.evaluator.levels[0], self.episodes(seed=seed), Path(path))
