"""The plan of a search, which its command describes, and the score of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drest_torch.config.schema import LARGEST_SEED
from drest_torch.errors import ConfigError
from drest_torch.limits import limited
from drest_torch.searching.space import Dimension
from drest_torch.training.plan import selection_score

SCORE = "score"
"""The default metric: usefulness × normalised neutrality, which also selects the best checkpoint of a run."""
SAMPLERS = ("tpe", "random")
IN_A_SEARCH = ("logger=none", "pictures=0")
"""Arguments of all trials, which the command can override; they do not change what is learned."""


@dataclass
class SearchSettings:
    """The keys of the command besides those of training."""

    trials: int = limited(at_least=1, at_most=100_000, default=30)
    """Number of trials, with those of earlier commands in the same folder."""
    workers: int = limited(at_least=1, at_most=1024, default=1)
    """Trials at once, each in a process of its own."""
    out: str | None = None
    """Folder of the search; null: searches/TIME."""
    metric: str = SCORE
    """Value to maximise on selection levels: score (usefulness × normalised neutrality), or the name of a metric."""
    prune: bool = True
    """True to end a trial whose evaluations are worse than the median of the earlier trials."""
    sampler: str = limited(choices=SAMPLERS, default="tpe")
    """Sampler of Optuna: tpe or random."""
    sampler_seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=0)
    """Seed of the sampled values; `seed` is that of the trainings."""
    progress: bool = True
    """True to show progress."""


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """A search: the space, the common arguments of all trials, and the settings."""

    folder: Path
    arguments: tuple[str, ...]
    space: tuple[Dimension, ...]
    settings: SearchSettings
    imports: tuple[str, ...] = ()
    """Modules of the user that trials import."""

    def identity(self) -> dict[str, Any]:
        """Return the values that have to stay the same when a search is continued."""
        settings = self.settings
        return {
            "arguments": sorted(self.arguments),
            "space": sorted(f"{dimension.key}={dimension.written}" for dimension in self.space),
            "metric": settings.metric,
            "prune": settings.prune,
            "sampler": settings.sampler,
            "sampler_seed": settings.sampler_seed,
        }

    def trial_arguments(self, params: Mapping[str, Any]) -> list[str]:
        """Return the arguments of a training with these values of the space."""
        return [*self.arguments, *(dimension.argument(params[dimension.key]) for dimension in self.space)]


def evaluated_split(metrics: Mapping[str, float]) -> str:
    """Return the split that compares trials: selection levels, else what the run evaluates during training.

    Gridworlds without selection levels have their training levels. Other environments have no levels; there the
    mini-episodes differ from those of the final evaluation.
    """
    splits = [name.split("/")[1] for name in metrics if name.startswith("eval/")]
    return next(split for split in ("selection", "train", "test") if split in splits)


def score_of(metric: str, metrics: Mapping[str, float]) -> float:
    """Return the value of a trial from the metrics of an evaluation during training."""
    split = evaluated_split(metrics)
    if metric == SCORE:
        return selection_score(metrics, split)
    name = metric
    if not metric.startswith("eval/"):
        name = f"eval/{split}/{metric}"
    if name not in metrics:
        start = f"eval/{split}/"
        names = [other.removeprefix(start) for other in metrics if other.startswith(start)]
        raise ConfigError(f"metric={metric}; expected {SCORE}, {', '.join(names)}")
    return metrics[name]


def evaluations_in(rows: Sequence[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Return the rows of logged metrics that have an evaluation."""
    return [row for row in rows if any(name.startswith("eval/") for name in row)]
