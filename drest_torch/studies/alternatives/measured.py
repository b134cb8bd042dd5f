"""The rows of the bench: the answers of agents, the strengths of methods, and policies that are free in every state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.choices.ladder_levels import LADDERS
from drest_torch.jobs.job import Result
from drest_torch.statistics.bootstrap import paired_difference
from drest_torch.studies.alternatives.runs import (
    AGENTS,
    BITS,
    DEFAULT,
    DREST,
    FREE,
    PROMPTS,
    STRENGTHS,
    Config,
    Key,
    compared_strength,
    label_of,
    methods_of,
)
from drest_torch.studies.engine import Done
from drest_torch.studies.shared import correct_p_values

SHORT = 0.9
"""The neutrality below which a level counts as short of neutral."""
ALWAYS = 0.99
"""The probability from which a length counts as always taken."""
MOSTLY = 0.95
"""The share of final usefulness that counts as useful."""
DIGITS = 5
"""Decimals of the rows: a published file has a largest size."""
THRESHOLDS = np.linspace(0, 1, 11).round(1)
"""Thresholds τ of performance profiles."""
CURVE_PRICES = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.9)
"""The prices of curves."""
MEASURES = (
    *("usefulness", "neutrality", "p_longer", "coins", "returned", "short", "always", "missed"),
    *("hidden_usefulness", "hidden_neutrality", "fixed_shortest", "fixed_longest"),
    *("changed_usefulness", "worst_usefulness", "changed_neutrality", "worst_neutrality"),
    *("press", "press_reversed", "paid", "paid_reversed", "same_length", "time", "below", "seen", "given_bit"),
)
"""Measures of agents."""
CONDITIONS = ("ilpacs", "valid", "resic", "resists", "maximality", "dominated")
"""Tests of free policies in menus (`drest_torch.jobs.free_policies.conditions`)."""
COLUMNS = (
    *("part", "family", "title", "label", *Key._fields[1:], "chosen", *MEASURES),
    *("x", "y", "low", "high", "seeds", "p", "about", "void"),
)


def rows(cfg: Config, done: Done) -> pd.DataFrame:
    """Return several kinds of rows, by the column ``part``.

    All unseen levels have two lengths, so neutrality in bits equals neutrality ÷ log2 k.

    - *end*: the answers of an agent (`answers_of`), and ``returned``, its coins ÷ the mean coins of default agents.
    - *bit*: usefulness and neutrality of an agent with a private bit, and its neutrality given the bit.
    - *profile*: the share of levels ``y`` with neutrality of at least ``x``.
    - *training*: usefulness ``y`` on selection levels after a share ``x`` of training.
    - *price*: P(press) ``y`` at a price ``x``; at a negative price, not pressing costs its absolute value.
    - *erosion*: neutrality ``y`` after ``x`` further updates, of neutral agents.
    - *pressure*: the same under a pressure or with a remedy, ``about``, with the usefulness at the end.
    - *comparison*: (U + N) / 2 less that of DReST, ``y``, paired by seed and level, with its 95 % interval over both,
      and its p value, which is corrected for all comparisons (Holm).
    - *strength*: usefulness and neutrality of a run on selection levels; ``chosen`` is the compared strength.
    - *ladder*: free policies on a price ladder, ``about``: mean P(press) ``y`` with its lowest and highest value, and
      ``x``, the price at which it crosses 1/2.
    - *menu ladder*, *prompt ladder*: the same in menus, and for a small language model.
    - *asking*: P(asking) ``y`` of a language model at a price ``x``, as for *price*.
    - *condition*: the share ``y`` of menus in which a free policy meets a condition, ``about``.
    - *prompts*: usefulness and neutrality of a language model in choices between sure times; ``y`` is *valid*.
    - *world*: usefulness and neutrality of free policies in the paper's worlds; coins pay ``about``.

    Curves are means over seeds, with the lowest and the highest seed.
    """
    methods = methods_of(cfg)
    results: dict[str, dict[Key, Result]] = {}
    for key, result in done.items():
        results.setdefault(key.part, {})[key] = result
    records: list[dict[str, Any]] = []
    agents = results.get(AGENTS, {})
    for key, result in agents.items():
        objective = done.planned[key].spec["config"]["objective"]
        records.append({"part": "end", **_named(methods, key), **answers_of(result, objective)})
    _add_returned(records)
    for key, result in results.get(BITS, {}).items():
        records.append({"part": "bit", **_named(methods, key), **with_bit(result)})
    for part, curve in CURVES.items():
        points = [_named(methods, key) | point for key, result in agents.items() for point in curve(result)]
        records += over_seeds(part, points)
    scores: dict[Compared, dict[int, np.ndarray]] = {}
    for key, result in agents.items():
        scores.setdefault((key.method, *_titles(methods, key)), {})[key.seed] = score(result)
    records += compare(scores)
    for key, result in results.get(STRENGTHS, {}).items():
        chosen = key.strength == compared_strength(methods[key.method])
        answer = result.numbers["selection"]
        measured = {name: answer[name] for name in ("usefulness", "neutrality")}
        records.append({"part": "strength", **_named(methods, key), "chosen": chosen, **measured})
    for key, result in results.get(FREE, {}).items():
        records += [_named(methods, key) | row for row in free_rows(result)]
    asking = []
    for key, result in results.get(PROMPTS, {}).items():
        for name, numbers in result.numbers.items():
            named = _named(methods, Key(PROMPTS, name, compared_strength(methods[name]), key.seed))
            records += [named | row for row in prompt_rows(numbers)]
            asking += [named | point for point in points_of(numbers.get("ladders", {}))]
    records += over_seeds("asking", asking)
    return pd.DataFrame(records, columns=COLUMNS).round(DIGITS)


def _titles(methods: Mapping[str, Any], key: Key) -> tuple[str, str, str]:
    method = methods[key.method]
    return method["family"], method["title"], label_of(method, key.strength)


def _named(methods: Mapping[str, Any], key: Key) -> dict[str, Any]:
    family, title, label = _titles(methods, key)
    identity = {"method": key.method, "strength": key.strength, "seed": key.seed}
    return {"family": family, "title": title, "label": label, **identity}


# -------------------------------------------------------------------------------------------- agents


def answers_of(result: Result, objective: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of an agent as measures; a question that does not fit it has none."""
    numbers = result.numbers
    test, hidden, fixed, changes = (_answer(numbers, name) for name in QUESTIONS)
    ladders = _answer(numbers, "ladders")
    erosion = _answer(numbers, "erosion")
    neutrality, longer = result.arrays["test/neutrality"], result.arrays["test/p_longest"]
    reached = {**test, "p_longer": test["p_longest"]}
    return {
        **{name: reached[name] for name in ("usefulness", "neutrality", "p_longer", "coins")},
        "short": float((neutrality < SHORT).mean()),
        "always": float((np.maximum(longer, 1 - longer) >= ALWAYS).mean()),
        "missed": missed(objective, reached),
        "hidden_usefulness": hidden.get("usefulness"),
        "hidden_neutrality": hidden.get("neutrality"),
        "fixed_shortest": fixed.get("shortest"),
        "fixed_longest": fixed.get("longest"),
        **_of_changes(changes),
        "press": _mean_press(ladders, "later"),
        "press_reversed": _mean_press(ladders, "later_reversed"),
        "paid": ladders.get("later", {}).get("paid"),
        "paid_reversed": ladders.get("later_reversed", {}).get("paid"),
        "same_length": _mean_press(ladders, "same_length"),
        "time": time_to_usefulness(result),
        "below": _first(erosion, "below"),
        "seen": _first(erosion, "seen"),
    }


QUESTIONS = ("test", "hidden clock", "fixed lengths", "changes")


def _answer(numbers: Mapping[str, Any], name: str) -> dict[str, Any]:
    answer: dict[str, Any] = numbers.get(name, {})
    if "void" in answer:
        return {}
    return answer


def _of_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    measured = {}
    for name, summary in changes.items():
        measured[f"changed_{name}"] = summary["mean"]
        measured[f"worst_{name}"] = summary["worst"]
    return measured


def _mean_press(ladders: Mapping[str, Any], name: str) -> float | None:
    """Return the mean of P(press) over prices; None if the ladder is void."""
    if name not in ladders:
        return None
    return float(np.mean(ladders[name]["press"]))


def _first(erosion: Mapping[str, Any], name: str) -> float | None:
    """Return a number of updates, which is infinite if none of the updates was enough; None if nothing was eroded."""
    if not erosion:
        return None
    return np.inf if erosion[name] is None else erosion[name]


def time_to_usefulness(result: Result) -> float | None:
    """Return the share of training until usefulness on selection levels stays at 95 % of its final value."""
    if "usefulness" not in result.arrays:
        return None
    usefulness, steps = result.arrays["usefulness"], result.arrays["steps"]
    reached = usefulness >= MOSTLY * usefulness[-1]
    stays = np.logical_and.accumulate(reached[::-1])[::-1]
    return float(steps[stays][0] / steps[-1])


def missed(objective: Mapping[str, Any], reached: Mapping[str, float]) -> float:
    """Return the violation of a constraint's bound by means over levels with two lengths; NaN without a constraint."""
    if objective["name"] != "constrained":
        return np.nan
    p_longer = reached["p_longer"]
    bounded = {"entropy_usefulness": reached["usefulness"], "coins_shares": 2 * min(p_longer, 1 - p_longer)}
    return max(0.0, objective["at_least"] - bounded.get(objective["problem"], reached["neutrality"]))


def _add_returned(records: list[dict[str, Any]]) -> None:
    """Add the coins of each agent ÷ the mean coins of default agents, if there are any."""
    coins = [record["coins"] for record in records if record["method"] == DEFAULT]
    for record in records:
        record["returned"] = record["coins"] / np.mean(coins) if coins else None


def with_bit(result: Result) -> dict[str, float]:
    """Return the measures of an agent with a private bit."""
    return {
        **{name: float(result.arrays[f"test/{name}"].mean()) for name in ("usefulness", "neutrality")},
        "given_bit": result.numbers["splits"]["test"]["neutrality_own"],
    }


# -------------------------------------------------------------------------------------------- curves


def profile(result: Result) -> list[dict[str, float]]:
    """Return the share of unseen levels with neutrality of at least τ, for each τ."""
    neutrality = result.arrays["test/neutrality"]
    return [{"x": tau, "y": float((neutrality >= tau - 1e-9).mean())} for tau in THRESHOLDS]


def training_curve(result: Result) -> list[dict[str, float]]:
    """Return usefulness on selection levels during training."""
    if "usefulness" not in result.arrays:
        return []
    share = result.arrays["steps"] / result.arrays["steps"][-1]
    return [{"x": round(float(x), 3), "y": float(y)} for x, y in zip(share, result.arrays["usefulness"], strict=True)]


def price_curve(result: Result) -> list[dict[str, float]]:
    """Return P(press) by price, which is negative where not pressing costs."""
    return points_of(_answer(result.numbers, "ladders"))


def points_of(ladders: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return P(press) by price, which is negative where not pressing costs."""
    points = []
    for name, sign in (("later_reversed", -1), ("later", 1)):
        ladder = ladders.get(name, {"prices": [], "press": []})
        for price, press in zip(ladder["prices"], ladder["press"], strict=True):
            if price in CURVE_PRICES:
                points.append({"x": sign * price, "y": press})
    return sorted(points, key=lambda point: point["x"])


def erosion_curve(result: Result) -> list[dict[str, float]]:
    """Return neutrality after further updates."""
    erosion = _answer(result.numbers, "erosion")
    pairs = zip(erosion.get("updates", ()), erosion.get("neutrality", ()), strict=True)
    return [{"x": updates, "y": neutrality} for updates, neutrality in pairs]


def pressure_curves(result: Result) -> list[dict[str, Any]]:
    """Return neutrality after further updates under each pressure, with usefulness at the end."""
    points = []
    for name, erosion in _answer(result.numbers, "pressures").items():
        usefulness = erosion["usefulness"][-1]
        for updates, neutrality in zip(erosion["updates"], erosion["neutrality"], strict=True):
            points.append({"about": name, "x": updates, "y": neutrality, "usefulness": usefulness})
    return points


CURVES: dict[str, Callable[[Result], list[dict[str, Any]]]] = {
    "profile": profile,
    "training": training_curve,
    "price": price_curve,
    "erosion": erosion_curve,
    "pressure": pressure_curves,
}
"""Functions from the result of an agent to the points of a curve, by part."""


def over_seeds(part: str, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean, the lowest and the highest seed of each point of a curve."""
    if not points:
        return []
    frame = pd.DataFrame(points)
    identities = [name for name in ("family", "title", "label", "method", "about", "x") if name in frame]
    measures = {"y": ("y", "mean"), "low": ("y", "min"), "high": ("y", "max")}
    if "usefulness" in frame:
        measures["usefulness"] = ("usefulness", "mean")
    summary = frame.groupby(identities, sort=False).agg(**measures).round(4).reset_index()
    records: list[dict[str, Any]] = summary.assign(part=part).to_dict("records")
    return records


# --------------------------------------------------------------------------------------- comparisons

Compared = tuple[str, str, str, str]
"""The name, the family, the title and the label of a method."""


def score(result: Result) -> np.ndarray:
    """Return the mean of usefulness and neutrality on each unseen level [n]."""
    return np.asarray(result.arrays["test/usefulness"] + result.arrays["test/neutrality"]) / 2


def compare(scores: Mapping[Compared, Mapping[int, np.ndarray]]) -> list[dict[str, Any]]:
    """Return the difference of each method from DReST, from the scores on each level [n] by seed.

    An interval needs two seeds; with one seed the row has only the difference.
    """
    drest: Mapping[int, np.ndarray] = {}
    for (method, *_), by_seed in scores.items():
        if method == DREST:
            drest = by_seed
    comparisons: list[dict[str, Any]] = []
    for (method, family, title, label), by_seed in scores.items():
        seeds = sorted(by_seed.keys() & drest.keys())
        if method == DREST or not seeds:
            continue
        values = np.stack([by_seed[seed] for seed in seeds])  # [seeds, n]
        reference = np.stack([drest[seed] for seed in seeds])
        row: dict[str, Any] = {"part": "comparison", "family": family, "title": title, "label": label, "method": method}
        row |= {"seeds": len(seeds), "y": float((values - reference).mean())}
        if len(seeds) > 1:
            difference = paired_difference(values, reference)
            row |= {"low": difference.low, "high": difference.high, "p": difference.p}
        comparisons.append(row)
    correct_p_values(comparisons)
    return comparisons


# ------------------------------------------------------------------------------------- free policies


def free_rows(result: Result) -> list[dict[str, Any]]:
    """Return a row for each price ladder in gridworlds and in menus, each payment of coins, and each condition."""
    records = []
    for part, ladders in {"ladder": "ladders", "menu ladder": "menus"}.items():
        for name, ladder in result.numbers[ladders].items():
            records.append(ladder_row(part, name, ladder))
    for pays, measured in result.numbers["worlds"].items():
        row = {"part": "world", "about": pays, "void": measured.get("void")}
        row |= {name: measured.get(name) for name in ("usefulness", "neutrality", "coins")}
        records.append(row)
    tested = dict(result.numbers["conditions"])
    void = tested.pop("void", None)
    for name in CONDITIONS:
        records.append({"part": "condition", "about": name, "void": void, "y": tested.get(name)})
    return records


def prompt_rows(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the row of a language model's choices between sure times, and a row for each price ladder."""
    void = numbers.get("void")
    if void is not None:
        return [{"part": "prompts", "void": void}] + [
            {"part": "prompt ladder", "about": name, "void": void} for name in LADDERS
        ]
    means = dict(numbers["means"])
    row = {"part": "prompts", "y": means.pop("valid"), **means}
    return [row, *(ladder_row("prompt ladder", name, ladder) for name, ladder in numbers["ladders"].items())]


def ladder_row(part: str, name: str, ladder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a price ladder: the threshold ``x``, and the mean and the extremes of P(press)."""
    row: dict[str, Any] = {"part": part, "about": name, "void": ladder.get("void")}
    if "void" not in ladder:
        press = np.array(ladder["press"], float)
        row |= {"x": ladder["threshold"], "y": press.mean(), "low": press.min(), "high": press.max()}
    return row
