"""Figure 7 of the paper: neutrality and usefulness for λ × E, with rewards clipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.report.html import Block, Gallery, Items, Plot, Section, Style, Table, Text
from drest_torch.report.plots import COLOURS
from drest_torch.reward import expected_discount
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig, mean_sd, spread

CLOCKS = {"steps": "moves / steps", "moves": "moves / moves"}
"""By clock of evaluation."""
MEASURES = ("neutrality", "usefulness")
SWEET_SPOT = (0.9, 64)
"""λ and E of the paper's other experiments."""
GOOD = {"steps": {"neutrality": 0.99, "usefulness": 0.85}, "moves": {"neutrality": 0.99, "usefulness": 0.99}}
"""High, by clock of evaluation; the highest usefulness that is reported for the example is 0.94."""
COLLAPSED = {"neutrality": 0.1, "usefulness": 0.5}
CORNER = 2
"""Values of λ and of E that make a corner of the table."""
SELDOM = 0.01
LINES = ("pink", "green", "drest", "violet", "default")

Cell = tuple[float, int]
"""λ and E."""


@dataclass
class Config(StudyConfig):
    world: str = MISSING
    agents: int = limited(at_least=1)
    lams: list[float] = MISSING
    sizes: list[int] = MISSING
    mini_episodes: int = MISSING
    unclipped: list[Any] = MISSING
    training: Training = field(default_factory=Training)


def jobs(cfg: Any) -> list[Job]:
    for _, size in [*_cells(cfg), *_unclipped(cfg)]:
        if size < 1 or cfg.mini_episodes % size:
            raise ConfigError(f"study.sizes with {size}; expected divisors of mini_episodes={cfg.mini_episodes}")
    return [_job(cfg, cell, cfg.training.clip) for cell in _cells(cfg)] + [
        _job(cfg, cell, None) for cell in _unclipped(cfg)
    ]


def _cells(cfg: Any) -> list[Cell]:
    return [(float(lam), int(size)) for lam in cfg.lams for size in cfg.sizes]


def _unclipped(cfg: Any) -> list[Cell]:
    return [(float(lam), int(size)) for lam, size in cfg.unclipped]


def _job(cfg: Any, cell: Cell, clip: float | None) -> Job:
    lam, size = cell
    metas = cfg.mini_episodes // size
    return agents_job(
        cfg.training,
        label=f"lambda={lam:g}-E={size}{'-unclipped' if clip is None else ''}",
        world=cfg.world,
        clock="moves",
        reward="drest",
        agents=cfg.agents,
        evaluated_on=tuple(CLOCKS),
        lam=lam,
        episodes_per_meta=size,
        meta_episodes=metas,
        evaluate_every=metas,
        clip=clip,
    )


# ------------------------------------------------------------------------------------------ findings

Found = Mapping[Cell, Result]


def _mean(result: Result, clock: str, measure: str) -> float:
    return float(last(result, clock, measure).mean())


def grid(found: Found, lams: Sequence[float], sizes: Sequence[int], clock: str, measure: str) -> np.ndarray:
    """[λ, E] means over agents; NaN where there is no result."""
    return np.array(
        [
            [_mean(found[lam, size], clock, measure) if (lam, size) in found else np.nan for size in sizes]
            for lam in lams
        ]
    )


@dataclass(frozen=True)
class Corner:
    """A corner of a table λ × E, beside all of its other cells: means."""

    inside: float
    outside: float

    @property
    def lower(self) -> bool:
        return self.inside < self.outside


def corner(values: np.ndarray, large_lam: bool, large_size: bool, width: int = CORNER) -> Corner | None:
    """Of values [λ, E], both ascending; None where a side of the comparison has no value."""
    inside = np.zeros(values.shape, bool)
    rows = slice(-width, None) if large_lam else slice(None, width)
    columns = slice(-width, None) if large_size else slice(None, width)
    inside[rows, columns] = True
    there = ~np.isnan(values)
    if not (inside & there).any() or not (~inside & there).any():
        return None
    return Corner(float(values[inside & there].mean()), float(values[~inside & there].mean()))


def incentive(lam: float, size: int, seldom: float = SELDOM) -> float:
    """How many times as much a length pays that is chosen so seldom as the other one, over a meta-episode."""
    p = torch.tensor([seldom, 1 - seldom], dtype=torch.float64)
    rare, common = expected_discount(p, 2, size, lam)
    return (rare / common).item()


def largest_discount(lam: float, size: int) -> float:
    """That of a length chosen in the last mini-episode only, of two."""
    return lam ** (-(size - 1) / 2)


# ------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    found = {c: result for c in _cells(cfg) if (result := finished.get(_job(cfg, c, cfg.training.clip))) is not None}
    free = {c: result for c in _unclipped(cfg) if (result := finished.get(_job(cfg, c, None))) is not None}
    numbers: dict[str, Any] = {
        "agents": cfg.agents,
        "clipped": [_numbers(cell, result) for cell, result in found.items()],
        "unclipped": [_numbers(cell, result) for cell, result in free.items()],
    }
    statements = {clock: _statements(cfg, found, clock) for clock in CLOCKS}
    numbers["statements"] = statements
    sections = [
        Section("Neutrality and usefulness against E", _figure_7(cfg, found)),
        Section("What the paper says of it", _checked(statements)),
        Section("All means", _tables(cfg, found)),
        Section("Why there are two corners", _why(cfg, found)),
        Section("Without the clip", _without(cfg, found, free)),
    ]
    question = "How do λ and E, which set how strong the incentive to be neutral is, change what agents learn?"
    return Report("λ and the size of a meta-episode (Figure 7)", question, sections, numbers, _quotes(statements, free))


def _numbers(cell: Cell, result: Result) -> dict[str, Any]:
    return {
        "lam": cell[0],
        "episodes_per_meta": cell[1],
        **{
            name: {
                measure: [values.mean(), spread(values)]
                for measure in MEASURES
                for values in [last(result, clock, measure)]
            }
            for clock, name in CLOCKS.items()
        },
        "collapsed": {measure: int(_collapsed(result, measure).sum()) for measure in MEASURES},
    }


def _collapsed(result: Result, measure: str) -> np.ndarray:
    """[A] whether an agent is far below what it could be, on the clock of training."""
    return last(result, "moves", measure) < COLLAPSED[measure]


def _statements(cfg: Any, found: Found, clock: str) -> dict[str, Any]:
    """The paper's three statements, as comparisons of means."""
    lams, sizes = sorted(cfg.lams), sorted(cfg.sizes)
    n, u = (grid(found, lams, sizes, clock, measure) for measure in MEASURES)
    said: dict[str, Any] = {}
    small = corner(n, large_lam=True, large_size=False)
    large = corner(u, large_lam=False, large_size=True)
    if small is not None:
        said["small_E_large_lambda_neutrality"] = [small.inside, small.outside]
    if large is not None:
        said["large_E_small_lambda_usefulness"] = [large.inside, large.outside]
    if SWEET_SPOT in found:
        means = {measure: _mean(found[SWEET_SPOT], clock, measure) for measure in MEASURES}
        said["sweet_spot"] = [means[measure] for measure in MEASURES]
        said["highest"] = [np.nanmax(n), np.nanmax(u)]
    good = (n >= GOOD[clock]["neutrality"]) & (u >= GOOD[clock]["usefulness"])
    said["good_cells"] = [[lams[i], sizes[j]] for i, j in zip(*np.nonzero(good), strict=True)]
    said["cells"] = int((~np.isnan(n)).sum())
    return said


def _quotes(statements: Mapping[str, Mapping[str, Any]], free: Found) -> list[Quote]:
    quotes = []
    said = statements["steps"]
    for key, what, measure in (
        ("small_E_large_lambda_neutrality", "small E and large λ, corner of the table", "N"),
        ("large_E_small_lambda_usefulness", "large E and small λ, corner of the table", "U"),
    ):
        if key in said:
            inside, outside = said[key]
            other = statements["moves"][key]
            measured = (
                f"{measure} {inside:.3f}, elsewhere {outside:.3f}; evaluated on moves {other[0]:.3f} and {other[1]:.3f}"
            )
            quotes.append(Quote(what, f"low {measure}", measured))
    if "sweet_spot" in said:
        n, u = said["sweet_spot"]
        high_n, high_u = said["highest"]
        measured = f"N {n:.3f}, U {u:.3f}; highest of all {high_n:.3f} and {high_u:.3f}"
        quotes.append(Quote("λ = 0.9 and E = 64", "both high", measured))
    if free:
        agents = sum(len(last(result, "moves", "neutrality")) for result in free.values())
        collapsed = sum(int((_collapsed(r, "neutrality") | _collapsed(r, "usefulness")).sum()) for r in free.values())
        cells = len(free)
        measured = f"{collapsed} of {agents} agents collapse in {cells} pairs of λ and E"
        quotes.append(Quote("the same without the clip", "especially unstable", measured))
    return quotes


# ----------------------------------------------------------------------------------------- sections


def _figure_7(cfg: Any, found: Found) -> list[Block]:
    blocks: list[Block] = [
        Text(
            f"{cfg.agents} agents for each pair, trained for {cfg.mini_episodes:,} mini-episodes on the clock that "
            f"counts moves; a coin's reward is at most {cfg.training.clip:g}. Means, and one standard deviation to "
            "both sides. As in the running example, what is missing to a usefulness of 1 on the clock that counts "
            "every step is what bumps cost there."
        )
    ]
    if found:
        blocks += [
            Gallery([_plot(cfg, found, clock, name, measure) for measure in MEASURES]) for clock, name in CLOCKS.items()
        ]
    return blocks


def _plot(cfg: Any, found: Found, clock: str, name: str, measure: str) -> Plot:
    lines = {
        lam: [(size, last(found[lam, size], clock, measure)) for size in cfg.sizes if (lam, size) in found]
        for lam in map(float, cfg.lams)
    }
    lines = {lam: points for lam, points in lines.items() if points}

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for place, (lam, points) in enumerate(lines.items()):
            colour = COLOURS[LINES[place % len(LINES)]](style)
            sizes = [size for size, _ in points]
            mean = np.array([values.mean() for _, values in points])
            sd = np.array([spread(values) for _, values in points])
            ax.fill_between(sizes, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
            ax.plot(sizes, mean, color=colour, marker="o", markersize=3.5, label=f"λ = {lam:g}")
        ax.set_xscale("log", base=2)
        ax.set_xticks(list(cfg.sizes), [str(size) for size in cfg.sizes])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(f"{measure}, {name}")
        ax.set_xlabel("E, mini-episodes of a meta-episode")
        ax.legend(loc="best", fontsize=9)

    seen = "; ".join(
        f"λ = {lam:g}: {points[0][1].mean():.2f} at E = {points[0][0]}, {points[-1][1].mean():.2f} at E = "
        f"{points[-1][0]}"
        for lam, points in lines.items()
    )
    return Plot(alt=f"Mean {measure} against E, {name}. {seen}.", caption="", draw=drawn)


def _checked(statements: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """The three statements, on both clocks."""
    corners = {
        "small_E_large_lambda_neutrality": ("Small E and large λ score low on neutrality", "N"),
        "large_E_small_lambda_usefulness": ("Large E and small λ cost usefulness", "U"),
    }
    items = []
    for key, (claim, letter) in corners.items():
        found = {name: statements[clock][key] for clock, name in CLOCKS.items() if key in statements[clock]}
        if found:
            numbers = "; ".join(
                f"{inside:.3f} and {outside:.3f} on {name}" for name, (inside, outside) in found.items()
            )
            verdict = "so it is" if all(inside < outside for inside, outside in found.values()) else "not so"
            items.append(
                f"{claim}: **{verdict}**. Mean {letter} of the {CORNER} × {CORNER} pairs in that corner, and of all "
                f"others, is {numbers}."
            )
    spots = {clock: statements[clock] for clock in CLOCKS if "sweet_spot" in statements[clock]}
    if spots:
        high = all(
            value >= GOOD[clock][measure]
            for clock, said in spots.items()
            for measure, value in zip(MEASURES, said["sweet_spot"], strict=True)
        )
        numbers = "; ".join(
            f"N {said['sweet_spot'][0]:.3f} and U {said['sweet_spot'][1]:.3f} on {CLOCKS[clock]}, where "
            f"{len(said['good_cells'])} of {said['cells']} pairs have N ≥ {GOOD[clock]['neutrality']:g} and "
            f"U ≥ {GOOD[clock]['usefulness']:g}"
            for clock, said in spots.items()
        )
        lam, size = SWEET_SPOT
        items.append(f"λ = {lam:g} and E = {size} is a sweet spot: **{'so it is' if high else 'not so'}**. {numbers}.")
    return [Items(items)]


def _tables(cfg: Any, found: Found) -> list[Block]:
    return [_table(cfg, found, clock, name, measure) for clock, name in CLOCKS.items() for measure in MEASURES]


def _table(cfg: Any, found: Found, clock: str, name: str, measure: str) -> Table:
    values = grid(found, list(map(float, cfg.lams)), list(cfg.sizes), clock, measure)
    good = GOOD[clock][measure]
    rows = [[f"{lam:g}", *(_marked(value, good) for value in row)] for lam, row in zip(cfg.lams, values, strict=True)]
    note = f"✓ {good:g} or more, ◐ {good - 0.1:.2f} or more."
    return Table(f"Mean {measure}, {name}", _header(cfg), rows, note)


def _header(cfg: Any) -> list[str]:
    return ["λ ↓ E →", *map(str, cfg.sizes)]


def _marked(value: float, good: float) -> str:
    if np.isnan(value):
        return "–"
    mark = "✓" if value >= good else "◐" if value >= good - 0.1 else "✗"
    return f"{mark} {value:.3f}"


def _why(cfg: Any, found: Found) -> list[Block]:
    pull = [[f"{lam:g}", *(_short(incentive(lam, size)) for size in cfg.sizes)] for lam in cfg.lams]
    most = [[f"{lam:g}", *(_short(largest_discount(lam, size)) for size in cfg.sizes)] for lam in cfg.lams]
    return [
        Text(
            "With this rule of training the balance between two lengths that offer the same is at ½ for every λ < 1 "
            "and every E > 1; what differs is how fast agents are drawn to it, and how much noise there is. Where λ "
            "is large and E small, a length that is hardly ever chosen pays hardly more than the other, and agents "
            "that have given up the longer trajectory early, while they did not know the way to its coin, do not come "
            "back to it in time. Where λ is small and E large, single rewards are so large that the clip alone keeps "
            "training together."
        ),
        *_two_sorts(found),
        Text("The strength of the incentive and the size of the discounts, both exact and without the clip:"),
        Table(
            f"How many times as much a length pays that is chosen in {SELDOM:.0%} of mini-episodes as the other",
            _header(cfg),
            pull,
        ),
        Table("The largest discount that can occur", _header(cfg), most),
    ]


def _two_sorts(found: Found) -> list[Block]:
    """What low means are made of, and where means are high."""
    words = []
    n = np.concatenate([last(result, "moves", "neutrality") for result in found.values()] or [np.zeros(0)])
    gone = n < COLLAPSED["neutrality"]
    if gone.any() and not gone.all():
        largest = max(size for (_, size), result in found.items() if _collapsed(result, "neutrality").any())
        words.append(
            f"Low mean neutrality is that of two sorts of agents: {gone.sum()} of {len(n)} have less than "
            f"{COLLAPSED['neutrality']:g}, none of them with E above {largest}, the others {n[~gone].mean():.3f} on "
            "average."
        )
    good = [
        incentive(*cell)
        for cell, result in found.items()
        if all(_mean(result, "moves", measure) >= GOOD["moves"][measure] for measure in MEASURES)
    ]
    if good:
        words.append(
            f"The {len(good)} pairs with N and U of {GOOD['moves']['neutrality']:g} or more, trained and evaluated on "
            f"moves, lie along a diagonal: the seldom chosen length pays from {_short(min(good))} to "
            f"{_short(max(good))} times as much there."
        )
    return [Text(" ".join(words))] if words else []


def _short(value: float) -> str:
    if value < 9.95:
        return f"{value:.2f}"
    if value < 9999.5:
        return f"{value:,.0f}"
    digits, _, power = f"{value:.0e}".partition("e+")
    return f"{digits}e{int(power)}"


def _without(cfg: Any, found: Found, free: Found) -> list[Block]:
    rows = []
    for cell, result in free.items():
        agents = len(last(result, "moves", "neutrality"))
        beside = found.get(cell)
        row = [f"λ = {cell[0]:g}, E = {cell[1]}"]
        for measure in MEASURES:
            row.append("–" if beside is None else mean_sd(last(beside, "moves", measure), 2))
            row.append(mean_sd(last(result, "moves", measure), 2))
        row += [f"{int(_collapsed(result, measure).sum())} of {agents}" for measure in MEASURES]
        rows.append(row)
    header = [
        "",
        "N, clipped",
        "N, any reward",
        "U, clipped",
        "U, any reward",
        f"N < {COLLAPSED['neutrality']:g}",
        f"U < {COLLAPSED['usefulness']:g}",
    ]
    note = "Mean ± standard deviation. The last two columns count agents without the clip."
    stable = [cell for cell, r in free.items() if not (_collapsed(r, "neutrality") | _collapsed(r, "usefulness")).any()]
    words = (
        f"Some pairs again, without the clip at {cfg.training.clip:g}, trained and evaluated on moves. The paper calls "
        "training without it especially unstable for large E and small λ."
    )
    if free:
        worst = min(free, key=lambda cell: _mean(free[cell], "moves", "usefulness"))
        words += (
            f" Here {len(free) - len(stable)} of {len(free)} pairs have agents that collapse; the lowest mean "
            f"usefulness is {_mean(free[worst], 'moves', 'usefulness'):.2f}, for λ = {worst[0]:g} and E = {worst[1]}."
        )
    if stable:
        words += f" None does for {'; '.join(f'λ = {lam:g} and E = {size}' for lam, size in stable)}."
    blocks: list[Block] = [Text(words)]
    if rows:
        blocks.append(Table("With and without the clip", header, rows, note))
    return blocks
