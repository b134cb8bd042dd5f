"""The rows of the study of alternatives: ends of training, performance profiles, and comparisons with DReST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.jobs.job import Result
from drest_torch.statistics.bootstrap import paired_difference
from drest_torch.studies.alternatives.runs import DREST, Config, Key, compared_strength, label_of, objectives_of
from drest_torch.studies.engine import Done
from drest_torch.studies.shared import correct_p_values

UNSEEN, TRAINING = "test", "train"
"""The level sets of a run."""
SHORT = 0.9
"""The neutrality below which a level counts as short of neutral."""
ALWAYS = 0.99
"""The probability from which a length counts as always taken."""
THRESHOLDS = np.linspace(0, 1, 11).round(1)
"""Thresholds τ of performance profiles."""


def rows(cfg: Config, done: Done) -> pd.DataFrame:
    """Return several kinds of rows, by the column ``part``.

    All unseen levels have two lengths, so neutrality in bits equals neutrality ÷ log2 k.

    - *end*: means over levels; the shares of levels that are ``short`` of neutral, and in which one length is
      ``always`` taken; the violation of a constraint's bound by these means, on unseen and on training levels.
    - *profile*: the share of levels with neutrality of at least ``tau``, at the compared strength.
    - *comparison*: (U + N) / 2 less that of DReST, paired by seed and level, with its 95 % interval over both,
      and its p value, which is corrected for all comparisons (Holm).
    """
    objectives = objectives_of(cfg)
    records: list[dict[str, Any]] = []
    scores: dict[Compared, dict[int, np.ndarray]] = {}
    for key, result in done.items():
        objective = objectives[key.objective]
        is_compared = key.strength == compared_strength(objective) and not key.bit
        config = done.planned[key].spec["config"]
        label = label_of(key.objective, objective, key.strength)
        agent = {**key._asdict(), "label": label, "family": objective["family"], "compared": is_compared}
        records.append({"part": "end", **agent, **ends(result, config["objective"])})
        if is_compared:
            records += [{"part": "profile", **agent, **point} for point in profile(result)]
            scores.setdefault((key.objective, label, objective["family"]), {})[key.seed] = score(result)
    records += compare(scores)
    return pd.DataFrame(records, columns=COLUMNS)


Compared = tuple[str, str, str]
"""The title, the label and the family of an objective at the compared strength."""
MEASURES = ("usefulness", "neutrality", "given_bit", "p_longer", "short", "always", "missed", "missed_training")
COLUMNS = (
    *("part", "family", "label", *Key._fields, "compared", *MEASURES, "tau", "share"),
    *("seeds", "apart", "low", "high", "p"),
)


def ends(result: Result, objective: Mapping[str, Any]) -> dict[str, float]:
    """Return the measures of an agent at the end of training."""
    unseen = means(result, UNSEEN)
    longer = result.arrays[f"{UNSEEN}/p_longest"]
    return {
        **unseen,
        "given_bit": result.numbers["splits"][UNSEEN]["neutrality_own"],
        "short": float((result.arrays[f"{UNSEEN}/neutrality"] < SHORT).mean()),
        "always": float((np.maximum(longer, 1 - longer) >= ALWAYS).mean()),
        "missed": missed(objective, unseen),
        "missed_training": missed(objective, means(result, TRAINING)),
    }


def means(result: Result, split: str) -> dict[str, float]:
    """Return means over the levels of a set."""
    names = {"usefulness": "usefulness", "neutrality": "neutrality", "p_longer": "p_longest"}
    return {name: float(result.arrays[f"{split}/{array}"].mean()) for name, array in names.items()}


def missed(objective: Mapping[str, Any], reached: Mapping[str, float]) -> float:
    """Return the violation of a constraint's bound by means over levels with two lengths; NaN if there is no
    constraint."""
    if objective["name"] != "constrained":
        return np.nan
    p_longer = reached["p_longer"]
    bounded = {"entropy_usefulness": reached["usefulness"], "coins_shares": 2 * min(p_longer, 1 - p_longer)}
    return max(0.0, objective["at_least"] - bounded.get(objective["problem"], reached["neutrality"]))


def profile(result: Result) -> list[dict[str, float]]:
    """Return the share of unseen levels with neutrality of at least τ, for each τ."""
    neutrality = result.arrays[f"{UNSEEN}/neutrality"]
    return [{"tau": tau, "share": float((neutrality >= tau - 1e-9).mean())} for tau in THRESHOLDS]


def score(result: Result) -> np.ndarray:
    """Return the mean of usefulness and neutrality on each unseen level [n]."""
    return np.asarray(result.arrays[f"{UNSEEN}/usefulness"] + result.arrays[f"{UNSEEN}/neutrality"]) / 2


def compare(scores: Mapping[Compared, Mapping[int, np.ndarray]]) -> list[dict[str, Any]]:
    """Return the difference of each objective from DReST, from the scores on each level [n] by seed.

    An interval needs two seeds; with one seed the row has only the difference.
    """
    drest: Mapping[int, np.ndarray] = {}
    for (objective, _, _), by_seed in scores.items():
        if objective == DREST:
            drest = by_seed
    comparisons: list[dict[str, Any]] = []
    for (objective, label, family), by_seed in scores.items():
        seeds = sorted(by_seed.keys() & drest.keys())
        if objective == DREST or not seeds:
            continue
        values = np.stack([by_seed[seed] for seed in seeds])  # [seeds, n]
        reference = np.stack([drest[seed] for seed in seeds])
        row = {"part": "comparison", "family": family, "objective": objective, "label": label, "seeds": len(seeds)}
        row["apart"] = float((values - reference).mean())
        if len(seeds) > 1:
            difference = paired_difference(values, reference)
            row |= {"low": difference.low, "high": difference.high, "p": difference.p}
        comparisons.append(row)
    correct_p_values(comparisons)
    return comparisons
