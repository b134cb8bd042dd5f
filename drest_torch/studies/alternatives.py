"""DReST beside its alternatives: constrained optimisation, a price on divergence, weighted sums (section 8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.style import Style
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, as_table, value
from drest_torch.studies.shared import check_known, command_jobs

TITLE = "The alternatives, side by side"
QUESTION = (
    "The paper names constrained optimisation, a price on the divergence from a reference, and a weighted sum of "
    "usefulness and neutrality as alternatives to DReST. Which of them are useful and neutral on unseen levels?"
)
BIT = "{}, a private bit"
RIVAL_KEYS = ("arguments", "strength", "values", "at", "about")
TESTED, STOPPED = "DReST", "default, stopped"
WANTED = 0.9
"""Of usefulness and neutrality, for the range of strengths that reaches both."""
CLEARLY = 0.005
"""Differences in the mean of usefulness and neutrality below this count as none."""
CORNER = 0.8
"""From where on both measures are shown enlarged."""
MARKS = "osD^v<>PX*hdp"


@dataclass
class Config(StudyConfig):
    seeds: int = limited(at_least=1, default=5)
    """Agents of each rival at its own strength; their seeds are 0, 1, 2, …"""
    seeds_elsewhere: int = limited(at_least=0, default=1)
    """Agents of each rival at every other strength."""
    arguments: str = (
        "algo=generalist policy=convolutional levels=followup_like levels.test=200 levels.selection=50 "
        "env_steps=800000 evaluations=1"
    )
    """Of `drest train` for every agent: the same network, levels, and number of updates."""
    rivals: dict[str, dict[str, Any]] = value({})
    """By title: see `alternatives.yaml`."""
    stopped: str = "reward=default evaluations=40"
    """The default agent, stopped where usefulness × neutrality is largest on selection levels: a control."""
    with_bit: list[str] = value(["DReST", "U + w N", "coins, N ≥ h"])
    """Rivals that are trained with a private bit as well."""
    overrides: list[str] = value([])
    """Arguments of all agents over these."""


QUICK = {
    "seeds": 1,
    "seeds_elsewhere": 0,
    "overrides": [
        *("levels.train=60", "levels.test=10", "levels.selection=5"),
        *("env_steps=40000", "policy.width=8", "policy.depth=2"),
    ],
}


class Key(NamedTuple):
    title: str
    strength: float | None
    seed: int


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return all rivals at their own strength seed by seed, and then at the others."""
    _check(cfg)
    runs: dict[Key, Job] = {}

    def add(title: str, strength: float | None, arguments: str, seeds: int, label: str) -> None:
        several = command_jobs(label, seeds, f"{cfg.arguments} {arguments}", cfg.overrides)
        runs.update({Key(title, strength, seed): job for seed, job in enumerate(several)})

    own = {title: _arguments(rival, rival.get("at")) for title, rival in cfg.rivals.items()}
    for title, arguments in own.items():
        add(title, cfg.rivals[title].get("at"), arguments, cfg.seeds, title)
    controls = {BIT.format(title): f"{own[title]} policy.private_bits=1" for title in cfg.with_bit}
    for title, arguments in (controls | {STOPPED: cfg.stopped}).items():
        add(title, None, arguments, cfg.seeds, title)
    for title, rival in cfg.rivals.items():
        for strength in rival.get("values", ()):
            if strength != rival["at"]:
                add(title, strength, _arguments(rival, strength), cfg.seeds_elsewhere, f"{title}, {strength:g}")
    return dict(sorted(runs.items(), key=lambda run: run[0].seed))


def _arguments(rival: Mapping[str, Any], strength: float | None) -> str:
    return str(rival["arguments"] if strength is None else f"{rival['arguments']} {rival['strength']}={strength}")


def _check(cfg: Config) -> None:
    for title, rival in cfg.rivals.items():
        check_known(f"study.rivals: '{title}' has the key", rival, RIVAL_KEYS)
        if "strength" in rival and rival.get("at") not in rival.get("values", ()):
            raise ConfigError(f"study.rivals: '{title}' with at={rival.get('at')}; expected one of its values")
    check_known("study.with_bit with", cfg.with_bit, cfg.rivals)


# --------------------------------------------------------------------------------------- measurement


def measure(done: Done) -> Iterator[dict[str, Any]]:
    """Yield means over test levels; of those that were stopped, over selection levels where they were best."""
    for key, result in done.items():
        arrays, numbers = result.arrays, result.numbers
        if key.title == STOPPED:
            curve = np.stack([arrays[f"eval/selection/{name}"] for name in ("usefulness", "neutrality")])
            useful, neutral = curve[:, curve.prod(0).argmax()]
            short, own, missed = np.nan, neutral, np.nan
        else:
            useful, neutral = arrays["test/usefulness"].mean(), arrays["test/neutrality"].mean()
            short, own = (arrays["test/neutrality"] < WANTED).mean(), numbers["splits"]["test"]["neutrality_own"]
            longest = arrays["test/p_longest"].mean() if "test/p_longest" in arrays else np.nan
            missed = misses(done.planned[key].spec["config"]["objective"], useful, neutral, longest)
        split = "selection" if key.title == STOPPED else "test"
        measures = {"usefulness": useful, "neutrality": neutral, "neutrality_own": own, "short": short}
        measures |= {"missed": missed}
        yield key._asdict() | {"split": split, "seconds": numbers["wall_seconds"]} | measures


def misses(objective: Mapping[str, Any], useful: float, neutral: float, longest: float) -> float:
    """Return by how much the means of levels with two lengths miss the bound of a constraint; NaN without one."""
    if objective["name"] != "constrained":
        return np.nan
    others = {"entropy_usefulness": useful, "coins_shares": 2 * min(longest, 1 - longest)}
    return max(0.0, float(objective["at_least"] - others.get(objective["problem"], neutral)))


def compared(cfg: Config, found: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each agent at its own strength, with the difference to DReST seed by seed, and its interval."""
    score = found.assign(score=(found.usefulness + found.neutrality) / 2)
    at = {title: rival.get("at") for title, rival in cfg.rivals.items()}
    own = score[[row.strength == at.get(row.title) or pd.isna(row.strength) for row in score.itertuples()]]
    tested = own[own.title == TESTED].set_index("seed").score
    rows = []
    for title, each in own.groupby("title", sort=False):
        apart = t_interval(each.set_index("seed").score.sub(tested).dropna().to_numpy())
        clear = abs(apart.estimate) >= CLEARLY and not apart.low <= 0 <= apart.high
        side = "alike" if not clear else "better" if apart.estimate > 0 else "worse"
        rows.append({"title": title, "apart": apart, "side": side, "each": each, "strength": each.strength.iloc[0]})
    return pd.DataFrame(rows).set_index("title", drop=False)


# ------------------------------------------------------------------------------------------ the report


def report(cfg: Config, done: Done) -> Report:
    found = pd.DataFrame(measure(done))
    rows = found.melt(["title", "strength", "seed", "split"], ["usefulness", "neutrality", "neutrality_own"], "metric")
    own = compared(cfg, found)
    by_strength = found.groupby(["title", "strength"], sort=False, dropna=False)
    curves = by_strength[["usefulness", "neutrality"]].mean().reset_index()
    curves = curves[curves.title.isin(list(cfg.rivals))].sort_values("strength").groupby("title", sort=False)
    order = [(title, curves.get_group(title)) for title in cfg.rivals if title in curves.groups]
    return Report(
        rows,
        partial(quotes, cfg, own),
        {"unseen": unseen_table(cfg, own)},
        {"frontier": frontier(cfg, order, own)},
        partial(sentences, cfg, own, order),
        exact=True,
    )


def sides(cfg: Config, own: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rivals that are better than DReST, alike and worse."""
    plain = own[own.title.isin(list(cfg.rivals)) & (own.title != TESTED)]
    return {side: plain[plain.side == side] for side in ("better", "alike", "worse")}


def quotes(cfg: Config, own: pd.DataFrame) -> list[Quote]:
    words = []
    for side, rows in sides(cfg, own).items():
        most = rows.apart.map(lambda it: abs(it.estimate)).max()
        words.append(f"{len(rows)} {side}" + (f" (by at most {most:.3f})" if len(rows) else ""))
    return [Quote("alternatives to DReST on unseen levels, U and N", "", ", ".join(words))]


def sentences(cfg: Config, own: pd.DataFrame, curves: list[tuple[str, pd.DataFrame]]) -> dict[str, Any]:
    """Return what the page says."""
    reach = []
    for title, curve in (each for each in curves if len(each[1]) > 1):
        good = curve[(curve.usefulness >= WANTED) & (curve.neutrality >= WANTED)].strength
        reach.append((title, len(good), len(curve), good.max() / good.min() if len(good) else 0.0))
    return {"sides": sides(cfg, own), "reach": reach}


def unseen_table(cfg: Config, own: pd.DataFrame) -> Table:
    def mean(values: pd.Series) -> str:
        if len(values) == 1:
            return f"{values.iloc[0]:.3f}"
        return t_interval(values).within(0, max(1, values.max())).text()

    cells = pd.DataFrame(
        {
            "strength": [
                "" if pd.isna(row.strength) else f"{cfg.rivals[row.title]['strength'].split('.')[-1]}={row.strength:g}"
                for row in own.itertuples()
            ],
            "usefulness": [mean(each.usefulness) for each in own.each],
            "neutrality (bits)": [mean(each.neutrality) for each in own.each],
            "given the bit (bits)": [mean(each.neutrality_own) for each in own.each],
            "levels with N < 0.9": [
                "–" if each.short.isna().any() else f"{each.short.mean():.0%}" for each in own.each
            ],
            "misses its bound by": [mean(each.missed) if each.missed.notna().all() else "" for each in own.each],
            "(U + N) / 2, less DReST's": [
                "" if title == TESTED else f"{it.estimate:+.3f} ({it.low:+.3f} to {it.high:+.3f})"
                for title, it in zip(own.title, own.apart, strict=True)
            ],
            "seconds": [f"{each.seconds.median():.0f}" for each in own.each],
        }
    ).set_axis(own.title)
    return as_table(cells, "On unseen levels", ["objective", *cells.columns])


def frontier(cfg: Config, curves: list[tuple[str, pd.DataFrame]], own: pd.DataFrame) -> Plot:
    """Plot usefulness against neutrality on unseen levels, a curve over strengths for each objective."""

    def draw(figure: Figure, style: Style) -> None:
        whole, corner = figure.subplots(1, 2)
        for ax in (whole, corner):
            for index, (title, curve) in enumerate(curves):
                colour = style.text if title == TESTED else style.series[index % len(style.series)]
                dashes, front = "-" if index <= len(style.series) else "--", 3 if title == TESTED else 2
                ax.plot(curve.neutrality, curve.usefulness, dashes, color=colour, linewidth=1.2, zorder=front)
                sizes = np.where(curve.strength == cfg.rivals[title].get("at"), 45, 12)
                mark = MARKS[index % len(MARKS)]
                ax.scatter(curve.neutrality, curve.usefulness, sizes, color=colour, marker=mark, label=title, zorder=4)
            ax.set_xlabel("neutrality")
        whole.set_ylabel("usefulness")
        whole.set_xlim(-0.03, 1.03)
        whole.set_ylim(-0.03, 1.03)
        corner.set_xlim(CORNER, 1.005)
        corner.set_ylim(CORNER, 1.005)
        corner.set_xticks(np.linspace(CORNER, 1, 5))
        corner.set_title("enlarged", fontsize=10)
        figure.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    said = "; ".join(
        f"{title} {each.usefulness.mean():.3f}, {each.neutrality.mean():.3f}"
        for title, each in zip(own.title, own.each, strict=True)
    )
    alt = f"Usefulness against neutrality on unseen levels. At each one's own strength: {said}."
    return Plot(alt=alt, caption="", draw=draw, size=(9.0, 5.2))
