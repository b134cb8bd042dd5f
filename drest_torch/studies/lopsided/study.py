"""Figure 6 of the paper: one length offers x times as much as the other, and the reward is not divided by m.

What the agents come to is predicted in closed form (`drest_torch.theory`) and laid over what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from omegaconf import MISSING

from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.metrics import neutrality
from drest_torch.report.blocks import Block, Details, Gallery, Plot, Section, Table, Text
from drest_torch.report.plots import COLOURS, band
from drest_torch.report.style import Style
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig
from drest_torch.theory import balance, best_of_two, value_for

MARK = 0.5
"""Neutrality in bits, and the values of x for which the paper reports more than that at its λ."""
REPORTED = (0.1, 10.0)
SMALLER = 0.110028
"""The smaller probability where neutrality is ½ bit."""
COLLAPSED = 0.1
"""Neutrality below this: all but one length."""
MANY = 0.1
"""A share of agents that choose all but one length though that is not predicted: training has collapsed."""
FINE = 161
"""Values of x in a predicted curve."""
LINES = ("drest", "green", "pink", "violet", "brown")
SIZE = (5.2, 3.9)
MEASURES = {"p_longer": "P(longer)", "neutrality": "neutrality (bits)"}


@dataclass
class Config(StudyConfig):
    world: str = MISSING
    agents: int = limited(at_least=1)
    x_first: float = MISSING
    x_last: float = MISSING
    x_count: int = MISSING
    clocks: list[str] = MISSING
    lams: list[float] = MISSING
    every: int = MISSING
    clip: float = MISSING
    training: Training = field(default_factory=Training)


@dataclass(frozen=True)
class Kind:
    """Agents that differ in nothing but x."""

    clock: str
    lam: float
    """1 with the default reward."""
    clip: float | None

    @property
    def default(self) -> bool:
        return self.lam == 1

    @property
    def label(self) -> str:
        clipped = "" if self.clip is None else f"-clip={self.clip:g}"
        return f"{self.clock}-{'default' if self.default else f'lambda={self.lam:g}'}{clipped}"


def jobs(cfg: Any) -> list[Job]:
    return [_job(cfg, kind, x) for kind in _kinds(cfg) for x in _values(cfg, kind)]


def _kinds(cfg: Any) -> list[Kind]:
    return [
        kind
        for clock in cfg.clocks
        for kind in (Kind(clock, 1.0, None), *(Kind(clock, lam, clip) for clip in (None, cfg.clip) for lam in cfg.lams))
    ]


def _values(cfg: Any, kind: Kind) -> list[float]:
    """x, to four digits."""
    every = cfg.every if not kind.default and kind.clip is None and kind.lam != cfg.lams[0] else 1
    return [float(f"{x:.4g}") for x in np.geomspace(cfg.x_first, cfg.x_last, cfg.x_count)[::every]]


def _job(cfg: Any, kind: Kind, x: float) -> Job:
    return agents_job(
        cfg.training,
        label=f"{kind.label}-x={x:g}",
        world=cfg.world,
        clock=kind.clock,
        reward="default" if kind.default else "drest",
        agents=cfg.agents,
        evaluated_on=("moves", "steps") if kind.clock == "moves" else ("steps",),
        x=x,
        divisor="none",
        lam=float(kind.lam),
        clip=kind.clip,
    )


# ------------------------------------------------------------------------------------------ findings


@dataclass(frozen=True)
class Found:
    """What agents of a kind do, on one clock: X values of x, A agents."""

    kind: Kind
    episodes: int
    x: np.ndarray
    p_longer: np.ndarray
    """[X, A]"""
    neutrality: np.ndarray
    """[X, A] bits"""
    usefulness: np.ndarray
    """[X, A]"""

    def of(self, measure: str) -> np.ndarray:
        return {"p_longer": self.p_longer, "neutrality": self.neutrality}[measure]

    def lowest_as_claimed(self) -> float | None:
        """The lowest mean neutrality for those values of x that the paper speaks of."""
        low, high = REPORTED
        spoken_of = (self.x >= low * (1 - 1e-9)) & (self.x <= high * (1 + 1e-9))
        return float(self.neutrality[spoken_of].mean(1).min()) if spoken_of.any() else None

    def predicted(self) -> tuple[np.ndarray, np.ndarray]:
        """P(longer) and neutrality [X]."""
        return predicted(self.x, self.kind.lam, self.episodes, self.kind.clip)

    def collapsed(self) -> tuple[float, float]:
        """The share of agents, over all x, that choose all but one length, and the share that is predicted."""
        return float((self.neutrality < COLLAPSED).mean()), float((self.predicted()[1] < COLLAPSED).mean())

    def unstable(self) -> bool:
        found, expected = self.collapsed()
        return found - expected > MANY

    def summary(self) -> dict[str, Any]:
        mean = self.neutrality.mean(1)
        p, _ = self.predicted()
        return {
            "above_half_bit": range_above(self.x, mean, MARK),
            "above_half_bit_predicted": predicted_range(self.kind.lam, self.episodes, self.kind.clip),
            "lowest_neutrality_as_claimed": self.lowest_as_claimed(),
            "lowest_neutrality": mean.min(),
            "usefulness": self.usefulness.mean(),
            "lowest_usefulness": self.usefulness.mean(1).min(),
            "collapsed_and_predicted": self.collapsed(),
            "p_longer_apart": np.abs(self.p_longer.mean(1) - p).mean(),
        }


def predicted(x: np.ndarray, lam: float, episodes: int, clip: float | None) -> tuple[np.ndarray, np.ndarray]:
    """P(longer) and neutrality of agents that come to rest, for each x."""
    return _predicted(tuple(x.tolist()), lam, episodes, clip)


@lru_cache
def _predicted(x: tuple[float, ...], lam: float, episodes: int, clip: float | None) -> tuple[np.ndarray, np.ndarray]:
    return _with_neutrality(balance(1.0, torch.tensor(x, dtype=torch.float64), lam, episodes, clip))


def best(x: np.ndarray, lam: float, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of policies with the largest expected return of a whole meta-episode."""
    return _with_neutrality(best_of_two(1.0, torch.from_numpy(x), lam, episodes))


def _with_neutrality(p: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    return p.numpy(), neutrality(torch.stack((1 - p, p), -1)).numpy()


def predicted_range(lam: float, episodes: int, clip: float | None) -> tuple[float, float]:
    """The values of x between which neutrality is above ½ bit."""
    low, high = (value_for(p, lam, episodes, clip) for p in (SMALLER, 1 - SMALLER))
    return low, high


def range_above(x: np.ndarray, values: np.ndarray, mark: float) -> list[float] | None:
    """The ends of the longest stretch of x, ascending, in which values are above the mark; None if there is none.

    Between two values of x the curve is a straight line in log x. At the first or last x the stretch ends for
    want of more.
    """
    above = values > mark
    edges = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(int)))
    if not len(edges):
        return None
    begin, end = max(edges.reshape(-1, 2).tolist(), key=lambda stretch: stretch[1] - stretch[0])

    def crossing(outside: int, inside: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[inside])
        share = (values[inside] - mark) / (values[inside] - values[outside])
        return float(x[inside] * (x[outside] / x[inside]) ** share)

    return [crossing(begin - 1, begin), crossing(end, end - 1)]


def _found(cfg: Any, finished: Finished, kind: Kind, clock: str) -> Found | None:
    results = [(x, result) for x in _values(cfg, kind) if (result := finished.get(_job(cfg, kind, x))) is not None]
    if not results:
        return None

    def stacked(name: str) -> np.ndarray:
        return np.stack([_last(result, clock, name) for _, result in results])

    x = np.array([x for x, _ in results])
    values = (stacked(name) for name in ("p_length", "neutrality", "usefulness"))
    return Found(kind, cfg.training.episodes_per_meta, x, *values)


def _last(result: Result, clock: str, name: str) -> np.ndarray:
    values = last(result, clock, name)
    return values[:, -1] if values.ndim > 1 else values


# ------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    pairs = [(clock, on) for clock in cfg.clocks for on in (("moves", "steps") if clock == "moves" else ("steps",))]
    found: dict[tuple[str, str], dict[Kind, Found]] = {}
    for clock, on in pairs:
        kinds = [kind for kind in _kinds(cfg) if kind.clock == clock]
        each = {kind: one for kind in kinds if (one := _found(cfg, finished, kind, on)) is not None}
        if each:
            found[clock, on] = each
    numbers: dict[str, Any] = {"agents": cfg.agents}
    for (clock, on), each in found.items():
        numbers[f"{clock} / {on}"] = {kind.label.partition("-")[2]: one.summary() for kind, one in each.items()}
    main = found.get(pairs[0], {})
    papers = {
        f"{clock} / {on}": each[kind]
        for (clock, on), each in found.items()
        if (kind := Kind(clock, cfg.lams[0], None)) in each
    }
    first = main.get(Kind(cfg.clocks[0], cfg.lams[0], None))
    sections = [
        Section("P(longer) and neutrality against x", _figure_6(cfg, main, first, papers)),
        Section("The prediction", _prediction(cfg, first)),
        Section("Lowering λ", _lower(cfg, main)),
        Section("On the other clocks", _other_clocks(cfg, {pair: found[pair] for pair in pairs[1:] if pair in found})),
    ]
    question = (
        "How far apart may the lengths' returns be for DReST agents to stay neutral, if nothing is divided by m, and "
        "does a lower λ help?"
    )
    return Report("Lopsided rewards (Figure 6)", question, sections, numbers, _quotes(cfg, main, first, papers))


def _quotes(cfg: Any, main: Mapping[Kind, Found], first: Found | None, papers: Mapping[str, Found]) -> list[Quote]:
    quotes = []
    if first is not None:
        reported = f"at least {REPORTED[0]:g} to {REPORTED[1]:g}"
        measured = f"{_measured_range(first)} (predicted {_predicted_range(first)})"
        quotes.append(Quote(f"lopsided, λ = {cfg.lams[0]:g}: x with N > {MARK:g}", reported, measured))
    lowest = {pair: low for pair, each in papers.items() if (low := each.lowest_as_claimed()) is not None}
    if lowest:
        measured = "; ".join(f"{low:.3f} {pair}" for pair, low in lowest.items())
        quotes.append(
            Quote(f"the lowest mean N for x from {REPORTED[0]:g} to {REPORTED[1]:g}", f"> {MARK:g}", measured)
        )
    for clip in (None, cfg.clip):
        lower = [each for each in main.values() if each.kind.clip == clip and each.kind.lam < cfg.lams[0]]
        if lower:
            clipped = "without a clip" if clip is None else f"rewards clipped at {clip:g}"
            what = f"x with N > {MARK:g} at a lower λ, {clipped}"
            measured = "; ".join(f"λ = {each.kind.lam:g}: {_measured_range(each)}" for each in lower)
            quotes.append(Quote(what, "a wider range" if clip is None else "", measured))
    return quotes


def _number(x: float) -> str:
    """To three digits, and those that are very large or small as powers of ten."""
    if 1e-3 <= x < 1e4:
        return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
    digits, _, power = f"{x:.0e}".partition("e")
    return f"{digits}e{int(power)}"


def _measured_range(found: Found) -> str:
    ends = range_above(found.x, found.neutrality.mean(1), MARK)
    if ends is None:
        return "none"
    if ends == [found.x[0], found.x[-1]]:
        return f"all from {found.x[0]:g} to {found.x[-1]:g}"
    low, high = (f"{end:g}" if end in found.x else _number(end) for end in ends)
    return f"{low} to {high}"


def _predicted_range(found: Found) -> str:
    low, high = predicted_range(found.kind.lam, found.episodes, found.kind.clip)
    return f"{_number(low)} to {_number(high)}"


# -------------------------------------------------------------------------------------------- plots


def _axes(cfg: Any, figure: Figure, style: Style, measure: str) -> Axes:
    ax = figure.add_subplot()
    ax.set_xscale("log")
    ax.set_xlim(cfg.x_first * 0.8, cfg.x_last / 0.8)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("x, the longer length's coin (the shorter's is 1)")
    ax.set_title(MEASURES[measure])
    if measure == "neutrality":
        ax.axhline(MARK, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    for x in REPORTED:
        ax.axvline(x, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    return ax


def _fine(cfg: Any) -> np.ndarray:
    return np.geomspace(cfg.x_first, cfg.x_last, FINE)


def _figure_6_plot(cfg: Any, measure: str, shown: Mapping[str, Found], caption: str, whole: bool = True) -> Plot:
    """Default and DReST agents as in the paper, and what is predicted for the latter."""
    x = _fine(cfg)
    index = list(MEASURES).index(measure)
    lam, episodes = cfg.lams[0], cfg.training.episodes_per_meta

    def drawn(figure: Figure, style: Style) -> None:
        ax = _axes(cfg, figure, style, measure)
        if whole:
            optimum = best(x, lam, episodes)[index]
            optimum = np.where(np.abs(np.diff(optimum, append=optimum[-1])) > 0.2, np.nan, optimum)  # it jumps
            ax.plot(x, optimum, color=style.muted, linestyle=":", label="best for the whole meta-episode")
        for reward, found in shown.items():
            colour = COLOURS[reward](style)
            values = found.of(measure)
            for agent in values.T:
                ax.plot(found.x, agent, ".", color=colour, markersize=2.5, alpha=0.5)
            band(ax, found.x, values, colour, "default" if reward == "default" else "DReST")
        curve = predicted(x, lam, episodes, None)[index]
        ax.plot(x, curve, color=style.text, linewidth=1.1, linestyle="--", label="DReST, predicted")
        figure.legend(loc="outside lower center", ncols=4 - 2 * whole)

    seen = []
    for reward, found in shown.items():
        at = {f"{each:g}": found.of(measure)[np.abs(found.x - each).argmin()].mean() for each in (0.1, 1, 10)}
        words = ", ".join(f"{value:.2f} at x = {each}" for each, value in at.items())
        seen.append(f"{'default' if reward == 'default' else 'DReST'} agents {words}")
    alt = f"{MEASURES[measure]} against x on a logarithmic axis: {'; '.join(seen)}."
    if "drest" in shown:
        alt += " The predicted curve lies " + _how_close(shown["drest"], measure) + " that of the DReST agents."
    return Plot(alt=alt, caption=caption, draw=drawn, size=SIZE)


def _how_close(found: Found, measure: str) -> str:
    index = list(MEASURES).index(measure)
    curve = found.predicted()[index]
    apart = np.abs(found.of(measure).mean(1) - curve).mean()
    return "on" if apart < 0.02 else "close to" if apart < 0.06 else f"{apart:.2f} on average from"


def _lams_plot(cfg: Any, measure: str, shown: Sequence[Found], title: str) -> Plot:
    """Several λ: what agents do and, dashed, what is predicted."""
    x = _fine(cfg)
    index = list(MEASURES).index(measure)

    def drawn(figure: Figure, style: Style) -> None:
        ax = _axes(cfg, figure, style, measure)
        ax.set_title(f"{MEASURES[measure]}, {title}")
        for found in shown:
            colour = _colour(cfg, found.kind.lam)(style)
            curve = predicted(x, found.kind.lam, found.episodes, found.kind.clip)[index]
            ax.plot(x, curve, color=colour, linewidth=1.1, linestyle="--")
            label = f"λ = {found.kind.lam:g}"
            if not found.unstable():
                band(ax, found.x, found.of(measure), colour, label)
            else:
                ax.plot(found.x, found.of(measure).mean(1), color=colour, linewidth=1, marker="o", label=label)
        ax.plot([], [], color=style.muted, linewidth=1.1, linestyle="--", label="predicted")
        figure.legend(loc="outside lower center", ncols=len(shown) + 1, columnspacing=1.2, handlelength=1.4)

    seen = "; ".join(
        f"λ = {each.kind.lam:g} from {low:.2f} to {high:.2f}, predicted {bottom:.2f} to {top:.2f}"
        for each in shown
        for low, high in [_ends(each.of(measure).mean(1))]
        for bottom, top in [_ends(each.predicted()[index])]
    )
    return Plot(
        alt=f"{MEASURES[measure]} against x, {title}; means of the agents: {seen}.", caption="", draw=drawn, size=SIZE
    )


def _ends(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _colour(cfg: Any, lam: float) -> Any:
    return COLOURS[LINES[list(cfg.lams).index(lam) % len(LINES)]]


# ----------------------------------------------------------------------------------------- sections


def _shown(cfg: Any, clock: str, found: Mapping[Kind, Found]) -> dict[str, Found]:
    kinds = {"default": Kind(clock, 1.0, None), "drest": Kind(clock, cfg.lams[0], None)}
    return {reward: found[kind] for reward, kind in kinds.items() if kind in found}


def _figure_6(cfg: Any, main: Mapping[Kind, Found], first: Found | None, papers: Mapping[str, Found]) -> list[Block]:
    blocks: list[Block] = []
    if first is not None:
        blocks.append(_verdict(cfg, first))
    if shown := _shown(cfg, cfg.clocks[0], main):
        caption = f"Trained and evaluated on {cfg.clocks[0]}; {cfg.agents} agents for each x."
        blocks.append(Gallery([_figure_6_plot(cfg, measure, shown, caption) for measure in MEASURES]))
    blocks.append(
        Text(
            "Points are agents, lines their means, shades reach from the 10th to the 90th percentile, and the dashed "
            f"straight lines mark x = {REPORTED[0]:g}, x = {REPORTED[1]:g} and ½ bit. The paper drew its values of x "
            "at random; here they stand at equal ratios."
        )
    )
    rows = [
        [
            pair,
            _measured_range(each),
            "–" if (low := each.lowest_as_claimed()) is None else f"{low:.3f}",
            f"{each.usefulness.mean():.3f}",
            f"{each.usefulness.mean(1).min():.3f}",
        ]
        for pair, each in papers.items()
    ]
    within = f"lowest N for x in {REPORTED[0]:g} to {REPORTED[1]:g}"
    header = ["trained / evaluated on", f"x with N > {MARK:g}", within, "U over all x", "lowest U"]
    note = (
        "N and U are means over agents for each x. The paper says that usefulness approaches 1: so it does on the "
        "clock that agents are trained on."
    )
    blocks.append(Table(f"DReST agents with λ = {cfg.lams[0]:g}, for each pair of clocks", header, rows, note))
    return blocks


def _verdict(cfg: Any, first: Found) -> Text:
    words = (
        f"With λ = {cfg.lams[0]:g}, mean neutrality is above {MARK:g} for x from **{_measured_range(first)}**; the "
        f"prediction is {_predicted_range(first)}."
    )
    if (low := first.lowest_as_claimed()) is not None:
        holds = "holds" if low > MARK else "does not hold"
        words += (
            f" The paper's statement, N > {MARK:g} for every x from {REPORTED[0]:g} to {REPORTED[1]:g}, **{holds}**: "
            f"the lowest mean there is {low:.3f}."
        )
    return Text(words)


def _prediction(cfg: Any, first: Found | None) -> list[Block]:
    lam, episodes = cfg.lams[0], cfg.training.episodes_per_meta
    blocks: list[Block] = [
        Text(
            "An update sees the return of one mini-episode, so on average over a meta-episode it moves probability "
            "towards the length that pays more. A length chosen with probability p is discounted by "
            "D(p) = Σ q(p)^i in all, i from 0 to E − 1, with q(p) = λ^(−1/2) · (1 − p(1−λ)), and D falls in p. "
            "Training comes to rest where **x · D(P(longer)) = D(P(shorter))**. Nothing in it was fitted."
        ),
    ]
    if first is None:
        return blocks
    p, n = predicted(first.x, lam, episodes, None)
    q, _ = best(first.x, lam, episodes)
    rows = [
        [
            f"{x:g}",
            f"{first.p_longer[i].mean():.3f} ± {first.p_longer[i].std():.3f}",
            f"{p[i]:.3f}",
            f"{first.neutrality[i].mean():.3f}",
            f"{n[i]:.3f}",
            f"{q[i]:.3f}",
        ]
        for i, x in enumerate(first.x)
    ]
    apart = np.abs(first.p_longer.mean(1) - p)
    header = ["x", "P(longer)", "predicted", "N", "predicted", "whole"]
    note = (
        "Mean ± standard deviation over agents. Whole: P(longer) at which the expected return of the whole "
        "meta-episode is largest; at x = 1 a second choice, the mirror image, is as good."
    )
    blocks += [
        Text(
            f"P(longer) is {apart.mean():.3f} from the prediction on average over all x, and {apart.max():.3f} at most "
            f"(x = {_number(first.x[apart.argmax()])}). Where x is small, so are the longer length's rewards and "
            "with them the steps towards it: there agents have not quite arrived when the schedules end (the study "
            "`unknown_m` shows that it is only a matter of time)."
        ),
        Text(
            "The agents do not go where the expected return of the **whole** meta-episode is largest, the dotted "
            f"curve: at x = {first.x[0]:g} that would be P(longer) = {q[0]:.2f}, at x = {first.x[-1]:g} it would be "
            f"{q[-1]:.2f}. It prefers the length that offers less, as choosing that one makes the other's discount "
            "grow. Credit within the mini-episode does not see what a choice does to later discounts."
        ),
        Details(
            "For each x",
            [Table(f"DReST agents with λ = {lam:g}, trained and evaluated on {cfg.clocks[0]}", header, rows, note)],
        ),
    ]
    return blocks


def _lower(cfg: Any, main: Mapping[Kind, Found]) -> list[Block]:
    episodes = cfg.training.episodes_per_meta
    by_clip = {
        clip: [each for kind, each in main.items() if kind.clip == clip and not kind.default]
        for clip in (None, cfg.clip)
    }
    blocks: list[Block] = []
    if words := _remedy(cfg, by_clip[None], by_clip[cfg.clip]):
        blocks.append(Text(words))
    for clip, shown in by_clip.items():
        if shown:
            title = "any reward" if clip is None else f"rewards of at most {clip:g}"
            blocks.append(Gallery([_lams_plot(cfg, measure, shown, title) for measure in MEASURES]))
    rows = []
    for clip, shown in by_clip.items():
        for each in shown:
            summary = each.summary()
            rows.append(
                [
                    f"{each.kind.lam:g}, {'any reward' if clip is None else f'at most {clip:g}'}",
                    _measured_range(each),
                    _predicted_range(each),
                    f"{summary['lowest_neutrality']:.3f}",
                    f"{summary['lowest_usefulness']:.3f}",
                    *(f"{share:.0%}" for share in each.collapsed()),
                ]
            )
    header = [
        "λ and rewards",
        f"x with N > {MARK:g}",
        "predicted",
        "lowest N",
        "lowest U",
        f"agents with N < {COLLAPSED:g}",
        "predicted",
    ]
    largest = "; ".join(f"λ = {lam:g}: {_number(lam ** (-(episodes - 1) / 2))}" for lam in cfg.lams)
    note = (
        "Means over agents, trained and evaluated on "
        f"{cfg.clocks[0]}. The largest discount that can occur in a meta-episode of {episodes} mini-episodes, "
        f"λ^(−(E−1)/2), is for {largest}."
    )
    blocks.append(Table("What a lower λ does, with and without a clip", header, rows, note))
    return blocks


def _remedy(cfg: Any, free: Sequence[Found], clipped: Sequence[Found]) -> str:
    """What becomes of the paper's suggestion, in words that the numbers choose."""
    words = [
        "The paper suggests a lower λ where returns cannot be brought close enough to each other, and the prediction "
        "agrees."
    ]
    lower = [each for each in free if each.kind.lam < cfg.lams[0]]
    failed = [each for each in lower if each.unstable()]
    if failed:
        shares = ", ".join(f"{each.collapsed()[0]:.0%} with λ = {each.kind.lam:g}" for each in failed)
        words.append(
            "**With the paper's schedules and any reward, training does not get there**: of the agents "
            f"{shares} end with a neutrality below {COLLAPSED:g}, though that is not predicted. A length that was not "
            "chosen for most of a meta-episode is then paid so much that one update settles the matter for good; some "
            "agents even bump into a wall for ever."
        )
    elif lower:
        words.append("Without a clip training gets there as well.")
    if lower := [each for each in clipped if each.kind.lam < cfg.lams[0]]:
        best_of = max(lower, key=lambda each: each.neutrality.mean(1).min())
        lowest = best_of.neutrality.mean(1)
        words.append(
            f"**With rewards clipped at {cfg.clip:g}**, as in the paper's appendix E, they do what is predicted, the "
            f"clip being part of the prediction: with λ = {best_of.kind.lam:g} the lowest mean neutrality over "
            f"all x from {cfg.x_first:g} to {cfg.x_last:g} is {lowest.min():.3f}, and usefulness is "
            f"{best_of.usefulness.mean(1).min():.3f} or more."
        )
    return " ".join(words)


def _other_clocks(cfg: Any, found: Mapping[tuple[str, str], Mapping[Kind, Found]]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "The prediction is one for the clock of training. Evaluated on the clock that counts every step, the "
            "agents of the moves clock lose coins, and P(longer), to bumps that were free in training. Trained on "
            "that clock they come to the same rest, if later where x is small; the ways are short here, and nothing "
            "collapses for want of finding them."
        )
    ]
    for (clock, on), each in found.items():
        inside: list[Block] = []
        if shown := _shown(cfg, clock, each):
            inside.append(Gallery([_figure_6_plot(cfg, measure, shown, "", whole=False) for measure in MEASURES]))
        if clipped := [one for kind, one in each.items() if kind.clip is not None]:
            inside.append(
                Gallery([_lams_plot(cfg, measure, clipped, f"rewards of at most {cfg.clip:g}") for measure in MEASURES])
            )
        blocks.append(Details(f"Trained on {clock}, evaluated on {on}", inside))
    return blocks
