"""The tidy table of a study's results: one measured value in each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = ("study", "variant", "seed", "split", "level", "metric", "step", "value")
"""Of every study. ``step`` is missing where a metric is not a curve over training. Factors of a study, such as the λ of
a variant, are further columns after ``variant``."""


class Results:
    """The measurements of a study, collected into one tidy table."""

    def __init__(self, study: str, *factors: str) -> None:
        self.study, self.factors = study, factors
        self._parts: list[dict[str, Any]] = []

    def add(
        self,
        values: np.ndarray,
        metric: str,
        *,
        variant: str,
        level: str | Sequence[str] = "",
        split: str = "train",
        seeds: Sequence[int] | None = None,
        steps: Sequence[float] | np.ndarray | None = None,
        **factors: Any,
    ) -> None:
        """Add the values of a metric; ``factors`` are columns that this table was made with.

        Values are [seeds]; with names of several levels [seeds, levels]; with ``steps`` a curve [steps, seeds].
        """
        if unknown := set(factors) - set(self.factors):
            raise ValueError(f"{sorted(unknown)} are not among the factors of this table: {list(self.factors)}")
        values = np.asarray(values, float)
        part: dict[str, Any] = {"study": self.study, "variant": variant, **factors, "split": split, "metric": metric}
        agents = values.shape[0 if steps is None else 1]
        seed = np.arange(agents) if seeds is None else np.asarray(seeds)
        if steps is not None:
            part |= {"level": level, "step": np.repeat(np.asarray(steps), agents), "seed": np.tile(seed, len(values))}
        elif values.ndim == 2:
            part |= {"level": np.tile(np.asarray(level), agents), "seed": np.repeat(seed, values.shape[1])}
        else:
            part |= {"level": level, "seed": seed}
        self._parts.append(part | {"value": values.ravel()})

    def table(self) -> pd.DataFrame:
        """Return all rows, in the order in which they were added."""
        columns = [*COLUMNS[:2], *self.factors, *COLUMNS[2:]]
        parts = [pd.DataFrame(part) for part in self._parts]
        return pd.concat(parts, ignore_index=True).reindex(columns=columns) if parts else pd.DataFrame(columns=columns)
