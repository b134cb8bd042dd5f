"""What each objective comes to in closed form, and the climbs that it is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drest_torch.choices.closed_forms import paid_shift, pressed
from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job, Result
from drest_torch.theory import balance

RUNS = "drest_torch.studies.alternatives.climbing"
NO_COINS_LATER = "shutdown: 2\n. . A C1 B1 ."
TWO = "shutdown: 2\n. C1 A C1 B1 ."
BUTTON = "shutdown: 2\nC1 . A B4@0.5 . C1"
CHANCE = 0.5
CORRIDOR = "shutdown: 3\nC10 . C10 B2@0.1 . A . B2@0.9 C1.5 . C1.5"
COST = 0.85
"""κ in the corridor, where P(longer) is 0.1 on the left and 0.9 on the right."""
RATIO = 3.0
"""The longer length of `TWO` seems to be worth so many times the shorter one, as its divisor is too small."""
AT_LEAST = 0.9
"""Of the constraints: neutrality, or the share of an equal share of each length."""
LIMIT = 0.02
"""β at which only the numbers of best trajectories count."""
LENGTHS = {  # the number of the best trajectories of the longer and of the shorter length, and the lengths
    "example": (1, 1, 8, 4),
    "fewer_for_longer": (1, 1, 6, 3),
    "one_coin_only": (1, 2, 8, 4),
    "hidden_treasure": (4, 1, 10, 4),
    "equal_value": (1, 1, 6, 3),
    "around_the_corner": (2, 1, 8, 4),
    "spacious": (1, 3, 5, 3),
    "royal_road": (1, 1, 6, 5),
    "last_moment": (1, 1, 8, 5),
}


@dataclass(frozen=True)
class Row:
    """A number as the closed form has it, and as it was found."""

    method: str
    what: str
    predicted: float
    found: float
    within: float

    @property
    def holds(self) -> bool:
        return bool(abs(self.found - self.predicted) <= self.within)


Weighted = Mapping[str, Any]


def weighted(weight: float, **changes: Any) -> dict[str, Any]:
    """Return the weighted sum of usefulness and neutrality."""
    return {"name": "weighted", "weight": weight, **changes}


DREST = {"name": "drest"}


def climb_job(cfg: Any, title: str, levels: list[str], objective: Weighted | None, **changes: Any) -> Job:
    """Return the climb of an objective in these levels."""
    spec: dict[str, Any] = {"levels": levels, "objective": objective, "divisor": None, "apart": False}
    spec |= {"lam": cfg.lam, "episodes": cfg.episodes, "steps": cfg.steps, "lr": 0.1}
    return Job(f"climb-{title}", f"{RUNS}:climb_tables", spec | changes)


def climbs(cfg: Any) -> dict[str, Job]:
    """Return all climbs by name."""
    nine = list(PAPER_WORLDS)
    entropy = {"name": "constrained", "problem": "coins_entropy", "at_least": AT_LEAST}
    shares = {"name": "constrained", "problem": "coins_shares", "at_least": AT_LEAST}
    slow = {"apart": True, "steps": 2 * cfg.steps, "lr": 0.05}
    one = ["fewer_for_longer"]
    specs: dict[str, tuple[list[str], Weighted | None, dict[str, Any]]] = {
        "constrained": (nine, entropy, slow),
        "shares": (nine, shares, slow),
        "shares, sum alone": (one, shares | {"proportional": 0.0}, slow),
        "not to be exceeded, early": (one, entropy | {"at_least": 1.0}, slow | {"steps": cfg.steps // 2}),
        "not to be exceeded": (one, entropy | {"at_least": 1.0}, slow),
        "trust region": (nine, None, {"apart": True, "at_least": AT_LEAST}),
        "drest": (nine, DREST, {}),
        "gini": (nine, weighted(cfg.weights[-1], spread="gini"), {}),
        "product": (nine, weighted(1.0, product=True), {}),
        "uniform": (nine, {"name": "kl", "beta": 0.1, "reference": "uniform"}, {"steps": 2 * cfg.steps}),
        "entropy": (nine, {"name": "kl", "beta": 0.1, "reference": "entropy"}, {"steps": 2 * cfg.steps}),
        "balanced": (nine, {"name": "kl", "beta": 0.1, "reference": "balanced"}, {"steps": 2 * cfg.steps}),
    }
    small = {
        "coins": ([NO_COINS_LATER], {"divisor": [1.0, 1e9]}),
        "ratio": ([TWO], {"divisor": [1.0, 1 / RATIO]}),
        "button": ([BUTTON], {}),
        "corridor": ([CORRIDOR], {}),
    }
    for name, (levels, changes) in small.items():
        specs[f"{name}, DReST"] = (levels, DREST, changes)
        for weight in cfg.weights:
            specs[f"{name}, {weight:.3g}"] = (levels, weighted(weight), changes)
    for weight in cfg.weights:
        specs[f"nine, {weight:.3g}"] = (nine, weighted(weight), {})
    return {name: climb_job(cfg, name, *spec[:2], **spec[2]) for name, spec in specs.items()}


def soft_job(cfg: Any) -> Job:
    """Return the optima of a price on divergences, for each reference and β."""
    spec = {"levels": list(PAPER_WORLDS), "references": list(cfg.references), "betas": sorted({LIMIT, *cfg.betas})}
    return Job("soft", f"{RUNS}:soft_optima", spec)


# --------------------------------------------------------------------------------- closed forms and rows


def better(entropy: float) -> float:
    """Return the p ≥ ½ with this entropy in bits."""
    low, high = 0.5, 1 - 1e-12
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if -p * math.log2(p) - (1 - p) * math.log2(1 - p) > entropy else (low, p)
    return low


def of_weight(name: str, weight: float) -> float:
    """Return P(longer) of the best weighted sum in a small level; in the corridor how often the price is paid."""
    if name == "corridor":
        longer = 1 / (1 + 2 ** (COST / (weight * 0.8)))
        return max(0.0, (longer - 0.1) / 0.8)
    log_odds = {"coins": -1 / weight, "ratio": (RATIO - 1) / weight, "button": -(1 - CHANCE) / (CHANCE * weight)}[name]
    longer = 1 / (1 + 2**-log_odds)
    return min(CHANCE, longer) if name == "button" else longer


def of_drest(name: str, lam: float, episodes: int) -> float:
    """Return the same of DReST."""
    match name:
        case "coins":
            return 0.0
        case "ratio":
            return balance(1.0, RATIO, lam, episodes).item()
        case "button":
            return pressed(CHANCE, lam, episodes)
    return paid_shift(0.1, 0.9, COST, lam, episodes)


WORDS = {
    "coins": "P(longer), where the longer length has no coins yet",
    "ratio": f"P(longer), where m of the longer length is {RATIO:g} times too small",
    "button": f"P(longer), a button that works with a chance of {CHANCE:g}",
    "corridor": f"how often {COST:.0%} of all coins are paid to shift P(longer) from 0.1 to 0.9",
}


def rows(cfg: Any, get: Callable[[Job], Result | None]) -> list[Row]:
    """Return all closed forms beside what was found."""
    found = {name: result.arrays for name, job in climbs(cfg).items() if (result := get(job)) is not None}
    made = [*_nine(found), *_soft(cfg, found, get)]
    for name, words in WORDS.items():
        for title, predicted in (
            ("DReST", of_drest(name, cfg.lam, cfg.episodes)),
            *((f"{weight:.3g}", of_weight(name, weight)) for weight in cfg.weights),
        ):
            if (arrays := found.get(f"{name}, {title}")) is not None:
                longer = arrays["probability"][0, 1]
                value = (longer - 0.1) / 0.8 if name == "corridor" else longer
                method = title if title == "DReST" else f"U + {title} N"
                made.append(Row(method, words, predicted, float(value), 0.02 if predicted == 0 else 0.005))
    for weight in cfg.weights:
        if (arrays := found.get(f"nine, {weight:.3g}")) is not None:
            made += _both(f"U + {weight:.3g} N", arrays)
    return made


def unsettled(cfg: Any, get: Callable[[Job], Result | None]) -> dict[str, float]:
    """Return what does not settle: a multiplier that has no finite value, and one that follows the sum alone."""
    found = {name: result.arrays for name, job in climbs(cfg).items() if (result := get(job)) is not None}
    names = {"early": "not to be exceeded, early", "late": "not to be exceeded", "alone": "shares, sum alone"}
    made = {key: float(found[name]["multiplier"][0]) for key, name in names.items() if name in found}
    if "alone" in made:
        made["alone_least"] = float(found[names["alone"]]["probability"].min())
    return made


def scores(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return usefulness and neutrality in each level."""
    p, given, best = (arrays[name] for name in ("probability", "given", "best_return"))
    entropy = -(p * np.log2(np.maximum(p, 1e-300))).sum(-1)
    return (p * given / np.where(best > 0, best, 1)).sum(-1), entropy


def _both(method: str, arrays: Mapping[str, np.ndarray]) -> list[Row]:
    useful, spread = scores(arrays)
    return [
        Row(method, "usefulness, the worst of nine worlds", 1.0, float(useful.min()), 0.01),
        Row(method, "neutrality, the worst of nine worlds", 1.0, float(spread.min()), 0.01),
    ]


def _nine(found: Mapping[str, Mapping[str, np.ndarray]]) -> list[Row]:
    made: list[Row] = []
    root = better(AT_LEAST)
    for name, method in {"constrained": "coins, N ≥ 0.9", "trust region": "coins, N ≥ 0.9, CPO"}.items():
        if name not in found:
            continue
        arrays = found[name]
        gap = arrays["best_return"][:, 0] - arrays["best_return"][:, 1]
        differ = np.abs(gap) > 1e-6
        largest = arrays["probability"].max(-1)
        farthest = largest[differ][np.abs(largest[differ] - root).argmax()]
        made.append(
            Row(method, "P(better length), the farthest of those worlds where one is better", root, farthest, 0.005)
        )
        made.append(Row(method, "usefulness, the worst of nine worlds", 1.0, float(scores(arrays)[0].min()), 0.01))
        if name == "constrained":
            per_coin = np.median(arrays["multiplier"][differ] / np.abs(gap[differ]))
            made.append(Row(method, "multiplier per coin", 1 / math.log2(root / (1 - root)), float(per_coin), 0.018))
    if "shares" in found:
        arrays = found["shares"]
        gap = np.abs(arrays["best_return"][:, 0] - arrays["best_return"][:, 1])
        differ = gap > 1e-6
        least = arrays["probability"].min(-1)[differ]
        made.append(
            Row("coins, P ≥ 0.45", "P(worse length), the farthest", 0.45, least[np.abs(least - 0.45).argmax()], 0.01)
        )
        per_coin = np.median(arrays["multiplier"][differ] / gap[differ])
        made.append(Row("coins, P ≥ 0.45", "multiplier per coin", 1.0, float(per_coin), 0.05))
    for name, method in {"drest": "DReST", "gini": "U + w (1 − Σ P²)", "product": "U × N"}.items():
        if name in found:
            made += _both(method, found[name])
    return made


def _soft(cfg: Any, found: Mapping[str, Mapping[str, np.ndarray]], get: Callable[[Job], Result | None]) -> list[Row]:
    if (soft := get(soft_job(cfg))) is None:
        return []
    made, betas = [], sorted({LIMIT, *cfg.betas})
    for reference in ("uniform", "entropy"):
        counted = [
            1 / (1 + few / many * (1.0 if reference == "entropy" else 4.0 ** (long - short)))
            for many, few, long, short in (LENGTHS[name] for name in PAPER_WORLDS)
        ]
        p = soft.arrays[f"{reference}/probability"][betas.index(LIMIT), :, 1]
        worst = int(np.abs(p - counted).argmax())
        what = f"P(longer) as best trajectories are counted, β = {LIMIT}, the farthest ({PAPER_WORLDS[worst]})"
        made.append(Row(_priced(reference), what, counted[worst], float(p[worst]), 0.002))
    for reference in ("uniform", "entropy", "balanced"):
        if reference in found and 0.1 in betas:
            p = soft.arrays[f"{reference}/probability"][betas.index(0.1), :, 1]
            q = found[reference]["probability"][:, 1]
            worst = int(np.abs(p - q).argmax())
            what = f"P(longer), a trained table, β = 0.1, the farthest ({PAPER_WORLDS[worst]})"
            made.append(Row(_priced(reference), what, float(p[worst]), float(q[worst]), 0.01))
    return made


def _priced(reference: str) -> str:
    return "entropy of trajectories" if reference == "entropy" else f"divergence from {reference}"
