"""Section 7.3 of the paper: what becomes of agents if m(l), by which coins are divided, is not known.

It is replaced by the largest return that the agent has seen so far given the length, by a wrong m, and by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import MISSING

from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.metrics import neutrality
from drest_torch.report.html import Block, Details, Gallery, Plot, Section, Style, Table, Text
from drest_torch.report.plots import COLOURS
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig, mean_sd, spread
from drest_torch.theory import balance
from envs.dynamics.mdp import compile_levels
from envs.exact.solver import solve
from envs.levels import world

CLOCKS = {"moves": "moves / moves", "steps": "moves / steps"}
"""By clock of evaluation."""
MARK = 0.99
FAIRLY = 0.9
"""Neutrality that is still fairly high."""
TITLES = {"neutrality": "neutrality (bits)", "usefulness": "usefulness"}


@dataclass
class Config(StudyConfig):
    worlds: list[str] = MISSING
    agents: int = limited(at_least=1)
    factors: list[float] = MISSING
    patience: int = MISSING
    training: Training = field(default_factory=Training)
    changes: dict[str, dict[str, Any]] = MISSING


@dataclass(frozen=True)
class Variant:
    """What coins are divided by."""

    label: str
    divisor: str = "best"
    shorter: float = 1.0
    longer: float = 1.0
    """Factors of m, for the shorter and the longer length."""
    patience: int = 1
    """How many times as long the training is."""

    def offers(self, best_return: Sequence[float]) -> tuple[float, float]:
        """What the best of each length is paid, but for the discount."""
        if self.divisor == "none":
            shorter, longer = best_return
            return shorter, longer
        return 1 / self.shorter, 1 / self.longer


KNOWN, SEEN, NONE = Variant("m"), Variant("seen", "seen"), Variant("none", "none")
WORDS = {KNOWN: "m", SEEN: "largest seen", NONE: "none"}


def jobs(cfg: Any) -> list[Job]:
    return [_job(cfg, name, variant) for name in cfg.worlds for variant in _variants(cfg)]


def _variants(cfg: Any) -> list[Variant]:
    return [*WORDS, *_wrong(cfg, both=False).values(), _patient(cfg), *_wrong(cfg, both=True).values()]


def _wrong(cfg: Any, both: bool) -> dict[float, Variant]:
    """By factor: a wrong m of the longer length, or of both."""
    kind = "both" if both else "longer"
    return {f: Variant(f"{kind}-x{f:g}", "best", f if both else 1.0, f) for f in map(float, cfg.factors)}


def _patient(cfg: Any) -> Variant:
    """The largest wrong m of the longer length, with longer training."""
    factor = max(map(float, cfg.factors))
    return Variant(f"longer-x{factor:g}-patient", "best", 1.0, factor, cfg.patience)


def _job(cfg: Any, name: str, variant: Variant) -> Job:
    changes = {**cfg.training, **cfg.changes.get(name, {})}
    for length in ("meta_episodes", "decay_episodes", "evaluate_every"):
        changes[length] *= variant.patience
    factors = (variant.shorter, variant.longer)
    return agents_job(
        cfg.training,
        label=f"{name}-{variant.label}",
        world=name,
        clock="moves",
        reward="drest",
        agents=cfg.agents,
        evaluated_on=tuple(CLOCKS),
        divisor=variant.divisor,
        factors=None if factors == (1.0, 1.0) else factors,
        **changes,
    )


# ------------------------------------------------------------------------------------------ findings

Found = Mapping[str, Mapping[Variant, Result]]
"""By world."""


def predicted(cfg: Any, variant: Variant, best_return: Sequence[float] = (1.0, 1.0)) -> tuple[float, float]:
    """P(longer) and neutrality where both lengths pay the same, collecting all that they offer."""
    shorter, longer = variant.offers(best_return)
    p = balance(shorter, longer, cfg.training.lam, cfg.training.episodes_per_meta)
    return p.item(), neutrality(torch.stack((1 - p, p), -1)).item()


def best_return(cfg: Any, name: str) -> list[float]:
    """m of the shorter and of the longer length."""
    gamma = cfg.changes.get(name, {}).get("gamma", cfg.training.gamma)
    found: list[float] = solve(compile_levels([world(name)]), gamma).best_return[0].tolist()
    return found


def _mean(result: Result, measure: str, clock: str = "moves") -> float:
    return float(last(result, clock, measure).mean())


def means(found: Found, variants: Sequence[Variant], measure: str) -> np.ndarray:
    """[W, V] means over agents; NaN where there is no result."""
    return np.array([[_mean(each[v], measure) if v in each else np.nan for v in variants] for each in found.values()])


# ------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    found: dict[str, dict[Variant, Result]] = {}
    for name in cfg.worlds:
        results = {v: r for v in _variants(cfg) if (r := finished.get(_job(cfg, name, v))) is not None}
        if results:
            found[name] = results
    numbers: dict[str, Any] = {"agents": cfg.agents, "worlds": {n: _numbers(each) for n, each in found.items()}}
    numbers["predicted"] = {v.label: predicted(cfg, v) for v in _wrong(cfg, both=False).values()}
    numbers["none_predicted"] = {name: predicted(cfg, NONE, best_return(cfg, name)) for name in found}
    sections = [
        Section("Without knowing m", _unknown(cfg, found), _lead(found)),
        Section("A wrong m for the longer length", _wrong_longer(cfg, found)),
        Section("Both wrong alike", _wrong_both(cfg, found)),
        Section("On the clock that counts every step", _steps(cfg, found)),
    ]
    question = (
        "The DReST reward divides coins by m(l), the most that can be collected given the length. What if nobody "
        "knows it?"
    )
    return Report("If m is not known (section 7.3)", question, sections, numbers, _quotes(cfg, found))


def _numbers(results: Mapping[Variant, Result]) -> dict[str, Any]:
    return {
        variant.label: {
            words: {
                "neutrality": [n.mean(), spread(n)],
                "usefulness": [u.mean(), spread(u)],
                "p_longer": last(result, clock, "p_length")[:, -1].mean(),
            }
            for clock, words in CLOCKS.items()
            for n, u in [(last(result, clock, "neutrality"), last(result, clock, "usefulness"))]
        }
        for variant, result in results.items()
    }


def _lowest(found: Found, variant: Variant, measure: str) -> float | None:
    """The lowest mean of all worlds."""
    return min((_mean(result, measure) for result in _with(found, variant).values()), default=None)


def _quotes(cfg: Any, found: Found) -> list[Quote]:
    quotes = []
    n, u = (_lowest(found, SEEN, measure) for measure in TITLES)
    if n is not None and u is not None:
        measured = f"N ≥ {n:.3f}, U ≥ {u:.3f} in {len(_with(found, SEEN))} worlds"
        quotes.append(Quote("m replaced by the largest return seen so far", "suggested", measured))
    wrong = {factor: _lowest(found, variant, "neutrality") for factor, variant in _wrong(cfg, both=False).items()}
    lowest = {f"× {factor:g}": low for factor, low in wrong.items()}
    lowest[f"× {_patient(cfg).longer:g}, trained {cfg.patience} times as long"] = _lowest(
        found, _patient(cfg), "neutrality"
    )
    if measured := "; ".join(f"{factor}: N ≥ {low:.3f}" for factor, low in lowest.items() if low is not None):
        quotes.append(Quote("m of the longer length wrong by a factor", "an approximate m suffices", measured))
    if none := [_mean(result, "neutrality") for result in _with(found, NONE).values()]:
        quotes.append(Quote("coins not divided at all", "", f"N from {min(none):.3f} to {max(none):.3f}"))
    return quotes


def _lead(found: Found) -> str:
    """What the study comes to, in words that the numbers choose."""
    seen = _with(found, SEEN)
    if not seen:
        return ""
    good = sum(min(_mean(result, measure) for measure in TITLES) >= MARK for result in seen.values())
    n, u = (_lowest(found, SEEN, measure) for measure in TITLES)
    if good == len(seen):
        return (
            f"m need not be known: divided by the largest return that the agent itself has seen so far, agents are as "
            f"useful and neutral as with m, in all of {good} worlds (N {n:.3f} and U {u:.3f} or more)."
        )
    return (
        f"Divided by the largest return seen so far instead of m, agents have N and U of {MARK:g} or more in {good} of "
        f"{len(seen)} worlds."
    )


def _with(found: Found, variant: Variant) -> dict[str, Result]:
    return {name: results[variant] for name, results in found.items() if variant in results}


def _factors(factors: Sequence[float]) -> str:
    return ", ".join(f"× {f:g}" for f in factors) if factors else "none of the factors"


def _title(name: str) -> str:
    return world(name).study["title"]


def _cell(results: Mapping[Variant, Result], variant: Variant, measure: str, clock: str = "moves") -> str:
    if variant not in results:
        return "–"
    values = last(results[variant], clock, measure)
    mark = "✓" if values.mean() >= MARK else "◐" if values.mean() >= FAIRLY else "✗"
    return f"{mark} {mean_sd(values)}"


def _unknown(cfg: Any, found: Found) -> list[Block]:
    header = ["world", "m short, long", "N, m", "N, largest seen", "N, none", "predicted"]
    rows = []
    for name, results in found.items():
        m = best_return(cfg, name)
        cells = [_cell(results, variant, "neutrality") for variant in WORDS]
        rows.append([_title(name), f"{m[0]:.2f}, {m[1]:.2f}", *cells, f"{predicted(cfg, NONE, m)[1]:.3f}"])
    useful = [
        [_title(name), *(_cell(results, variant, "usefulness") for variant in WORDS)] for name, results in found.items()
    ]
    note = (
        f"Mean ± standard deviation of {cfg.agents} agents, trained and evaluated on moves; ✓ {MARK:g} or more, "
        f"◐ {FAIRLY:g} or more."
    )
    blocks: list[Block] = []
    if none := _with(found, NONE):
        values = [_mean(result, "neutrality") for result in none.values()]
        apart = [
            abs(value - predicted(cfg, NONE, best_return(cfg, name))[1])
            for name, value in zip(none, values, strict=True)
        ]
        blocks.append(
            Text(
                f"Without any divisor neutrality is from {min(values):.3f} to {max(values):.3f}, the less the further "
                "apart the best returns of the two lengths are: these worlds are not very lopsided. The prediction "
                f"from the true m is {np.mean(apart):.3f} off on average."
            )
        )
    return [
        *blocks,
        Table(
            "Neutrality if coins are divided by m, by the largest return seen so far, or by nothing",
            header,
            rows,
            f"{note} Predicted: none.",
        ),
        Table("Usefulness of the same agents", ["world", *WORDS.values()], useful, note),
    ]


def _wrong_longer(cfg: Any, found: Found) -> list[Block]:
    variants = _with_known(_wrong(cfg, both=False))
    blocks: list[Block] = [
        Text(
            "If m of the longer length is wrong by a factor f, the longer length is paid as if its coins were worth "
            "1/f of what they are. Training comes to rest where D(P(longer)) / f = D(P(shorter)), D being the mean "
            "discount over a meta-episode: the same curve for all worlds, with nothing fitted."
        )
    ]
    if found:
        blocks.append(Gallery([_plot(cfg, found, variants, measure, both=False) for measure in TITLES]))
    patient = _patient(cfg)
    n, more = _lowest(found, variants[patient.longer], "neutrality"), _lowest(found, patient, "neutrality")
    if n is not None and more is not None:
        p, bits = predicted(cfg, patient)
        blocks.append(
            Text(
                f"Where m is too large, the longer length pays little, and is learned slowly: with f = "
                f"{patient.longer:g} the lowest mean is {n:.3f} after the paper's schedules, **{more:.3f}** after "
                f"schedules {patient.patience} times as long; predicted are {bits:.3f}, with P(longer) = {p:.3f}."
            )
        )
    columns = {f"×{factor:g}": variant for factor, variant in variants.items()}
    columns[f"×{patient.longer:g}, longer"] = patient
    note = f"Longer: training and schedules {patient.patience} times as long."
    n_table, u_table = (_table(cfg, found, columns, measure, "the longer length", note) for measure in TITLES)
    return [*blocks, n_table, Details(u_table.caption, [u_table])]


def _wrong_both(cfg: Any, found: Found) -> list[Block]:
    variants = _with_known(_wrong(cfg, both=True))
    blocks: list[Block] = [
        Text(
            "Wrong for both lengths alike, m changes nothing but the size of each reward, and so of each update: the "
            "balance stays at ½. A small factor makes large steps, and noise; a large one makes small steps, and "
            "training that is not quite done at its end."
        )
    ]
    if found:
        blocks.append(Gallery([_plot(cfg, found, variants, measure, both=True) for measure in TITLES]))
    columns = {f"×{factor:g}": variant for factor, variant in variants.items()}
    tables = [_table(cfg, found, columns, measure, "both lengths") for measure in TITLES]
    return [*blocks, *(Details(table.caption, [table]) for table in tables)]


def _with_known(wrong: Mapping[float, Variant]) -> dict[float, Variant]:
    return dict(sorted({1.0: KNOWN, **wrong}.items()))


def _table(cfg: Any, found: Found, columns: Mapping[str, Variant], measure: str, which: str, note: str = "") -> Table:
    values = means(found, list(columns.values()), measure)
    rows = [[_title(name), *(_number(x) for x in row)] for name, row in zip(found, values, strict=True)]
    if measure == "neutrality":
        rows.append(["predicted", *(f"{predicted(cfg, variant)[1]:.3f}" for variant in columns.values())])
    return Table(f"Mean {TITLES[measure]}, by the factor of m of {which}", ["world", *columns], rows, note)


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _plot(cfg: Any, found: Found, variants: Mapping[float, Variant], measure: str, both: bool) -> Plot:
    factors = np.array(list(variants))
    values = means(found, list(variants.values()), measure)
    there = ~np.isnan(values).all(0)
    mean = np.array([np.nanmean(column) if any_ else np.nan for column, any_ in zip(values.T, there, strict=True)])
    fine = np.geomspace(factors.min(), factors.max(), 101)
    p = balance(
        1.0, torch.from_numpy(fine ** (0.0 if both else -1.0)), cfg.training.lam, cfg.training.episodes_per_meta
    )
    curve = neutrality(torch.stack((1 - p, p), -1)).numpy()

    patient = [] if both else [_mean(result, measure) for result in _with(found, _patient(cfg)).values()]

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        colour = COLOURS["drest"](style)
        for row in values:
            ax.plot(factors, row, color=colour, linewidth=0.8, alpha=0.45)
        ax.plot(factors, mean, color=colour, marker="o", markersize=4, linewidth=2, label="mean of the worlds")
        if measure == "neutrality":
            ax.plot(fine, curve, color=style.text, linewidth=1.1, linestyle="--", label="predicted")
            if patient:
                label = f"mean, trained {cfg.patience} times as long"
                ax.plot(max(factors), np.mean(patient), "o", color=colour, markerfacecolor="none", label=label)
        ax.set_xscale("log")
        ax.set_xticks(factors, [f"{f:g}" for f in factors])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(TITLES[measure])
        ax.set_xlabel(f"f, by which m of {'both lengths' if both else 'the longer length'} is wrong")
        ax.legend(loc="lower right" if both or measure == "usefulness" else "lower center", fontsize=9)

    seen = ", ".join(f"{value:.2f} at {f:g}" for f, value in zip(factors, mean, strict=True) if not np.isnan(value))
    alt = f"{TITLES[measure]} against the factor by which m is wrong, mean of the worlds: {seen}."
    if measure == "neutrality":
        alt += f" Predicted: {', '.join(f'{predicted(cfg, v)[1]:.2f} at {f:g}' for f, v in variants.items())}."
    caption = "Faint lines are the worlds." if measure == "neutrality" else ""
    return Plot(alt=alt, caption=caption, draw=drawn)


def _steps(cfg: Any, found: Found) -> list[Block]:
    rows = [
        [_title(name), *(_cell(results, v, measure, "steps")[2:] for v in WORDS for measure in TITLES)]
        for name, results in found.items()
    ]
    header = ["world", *(f"{letter}, {words}" for words in WORDS.values() for letter in ("N", "U"))]
    return [
        Text("The same agents, trained on moves, evaluated on the clock on which a bump takes time."),
        Details("In numbers", [Table("Evaluated on the clock that counts every step", header, rows)]),
    ]
