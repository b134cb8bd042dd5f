"""What the study `heldout` reports: tables with intervals over seeds and levels, curves, and the worst levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from drest_torch.jobs.store import Result
from drest_torch.report.blocks import Block, Details, Gallery, Items, Plot, Section, Table, Text
from drest_torch.report.plots import COLOURS, THREE_ABREAST, arrows_plot, band
from drest_torch.report.style import Style
from drest_torch.statistics.bootstrap import Interval, bootstrap, median, ratio, stratified_bootstrap
from drest_torch.studies.heldout.sets import FILE, PAPER, TEST, TRAIN
from drest_torch.studies.study import Quote, Report
from drest_torch.studies.tax.study import hitting_times
from envs.dynamics.mdp import compile_levels
from envs.exact.propagator import Reachable
from envs.levels import level_from_record

RESAMPLES = 2000
EVEN = (0.4, 0.6)
"""Between these probabilities of the longest of two lengths a level counts as evenly chosen."""
SIDE_BY_SIDE = (4.6, 3.3)
"""Inches of a plot, so that two stand beside each other."""
PEERS = (
    "nothing; [a later paper](https://arxiv.org/abs/2604.17502) on test levels of its own, after 100 million steps: "
    "PPO 0.742 / 0.747, A2C 0.742 / 0.769"
)
_SELECTION = "eval/selection"


@dataclass(frozen=True, eq=False)
class Row:
    """The runs of one row of the tables, of which S have a result."""

    title: str
    config: dict[str, Any]
    """Of the first run."""
    results: list[Result]
    wanted: int
    mark: float
    _known: dict[tuple[str, str], Interval] = field(default_factory=dict)

    def about(self, name: str) -> dict[str, Any]:
        """What is known of a set: ``levels``, ``left_out``, ``seen``, ``sha256``; the same for all seeds."""
        about: dict[str, Any] = self.results[0].numbers["sets"][name]
        return about

    def sees(self, name: str) -> bool:
        return bool(self.results) and self.about(name)["seen"]

    def array(self, name: str, what: str) -> np.ndarray:
        """[S, n, ...]"""
        return np.stack([result.arrays[f"{name}/{what}"] for result in self.results])

    def values(self, name: str, measure: str) -> np.ndarray:
        """[S, n] one of `MEASURES` in each level of a set."""
        if measure == "coins":
            return self.array(name, "coins") / self.array(name, "most")
        if measure == "neutral":
            return (self.array(name, "neutrality_normalised") > self.mark).astype(float)
        return self.array(name, {"neutrality": "neutrality_normalised"}.get(measure, measure))

    def interval(self, name: str, measure: str) -> Interval:
        if (name, measure) not in self._known:
            found = stratified_bootstrap(self.values(name, measure), over_levels=True, whole_seeds=True)
            self._known[name, measure] = found
        return self._known[name, measure]

    def gap(self, measure: str) -> Interval:
        """Training levels − test levels: the same policies, on other levels."""
        return contrast(self.values(TRAIN, measure), self.values(TEST, measure), same_seeds=True)

    @cached_property
    def curves(self) -> list[Curve]:
        return [Curve.of(result) for result in self.results]


MEASURES = {
    "usefulness": "usefulness",
    "neutrality": "neutrality ÷ log2 k",
    "neutral": "share of levels with neutrality ÷ log2 k > {mark}",
    "coins": "coins ÷ most possible",
}
"""What is said of every set, and in which words."""
BOTH = ("usefulness", "neutrality")


@dataclass(frozen=True)
class Curve:
    """What was found on the selection levels during training [T]; neutrality is ÷ log2 k."""

    steps: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray

    @classmethod
    def of(cls, result: Result) -> Curve:
        found = [result.arrays[f"{_SELECTION}/{name}"] for name in ("usefulness", "neutrality_normalised")]
        return cls(result.arrays["steps"], *found)

    def reaches(self, mark: float) -> float:
        """The steps from which on usefulness stays at the mark or above it; never is inf."""
        (steps,) = hitting_times(self.steps, self.usefulness[:, None], mark, window=1)
        return float(steps)

    def best(self) -> int:
        """The evaluation with the largest usefulness × neutrality."""
        return int((self.usefulness * self.neutrality).argmax())


def contrast(a: np.ndarray, b: np.ndarray, *, same_seeds: bool = False, same_levels: bool = False) -> Interval:
    """mean(a) − mean(b) of [seeds, levels], with the 95 % interval over whole seeds and levels.

    What the two have in common is drawn for both together, so that its luck cancels as it does in the difference.
    """
    rng = np.random.default_rng(0)

    def shares(count: int) -> np.ndarray:
        """[resamples, count] how often each of so many is drawn, divided by their number."""
        return rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count

    seeds_a, levels_a = shares(a.shape[0]), shares(a.shape[1])
    seeds_b = seeds_a if same_seeds else shares(b.shape[0])
    levels_b = levels_a if same_levels else shares(b.shape[1])
    drawn = (seeds_a @ a * levels_a).sum(-1) - (seeds_b @ b * levels_b).sum(-1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(float(a.mean() - b.mean()), float(low), float(high))


def from_headline(row: Row, headline: Row, name: str, measure: str) -> Interval:
    """The row − the headline's row; on the same levels, where they are the same."""
    same_levels = row.about(name)["sha256"] == headline.about(name)["sha256"]
    return contrast(row.values(name, measure), headline.values(name, measure), same_levels=same_levels)


# ------------------------------------------------------------------------------------------ report


def written(cfg: Any, rows: Mapping[str, Row]) -> Report:
    question = (
        "One agent is trained on many generated gridworlds with DReST. Is it useful and neutral in gridworlds that it "
        "has never seen, what does that cost beside the default reward, and what makes it so?"
    )
    missing, named = _missing(rows), _rows(cfg, rows)
    sections = [
        Section("In gridworlds never seen before", [*missing, *_headline(cfg, named)], lead=_lead(cfg, named)),
        Section("What makes it so", _axes(cfg, rows)),
        Section("Over training", _training(cfg, named)),
        Section("How evenly the length is chosen", _calibration(cfg, named)),
        Section("The worst held-out levels", _worst(cfg, rows)),
        Section("Setting", [Items(_setting(cfg, rows))]),
    ]
    return Report("Gridworlds never seen before", question, sections, _numbers(cfg, rows, named), _quotes(cfg, rows))


def _rows(cfg: Any, rows: Mapping[str, Row]) -> list[Row]:
    """The headline's row and that of the default reward, where they have results."""
    return [rows[title] for title in dict.fromkeys((cfg.headline, cfg.default)) if rows[title].results]


def _missing(rows: Mapping[str, Row]) -> list[Block]:
    few = [
        f"{row.title} ({len(row.results)} of {row.wanted})" for row in rows.values() if len(row.results) < row.wanted
    ]
    if not few:
        return []
    return [Text(f"**Rows with fewer results than runs**, whose tables are of these results: {', '.join(few)}.")]


def _lead(cfg: Any, named: Sequence[Row]) -> str:
    if not named or named[0].title != cfg.headline:
        return "No run of the headline's row has finished."
    said = []
    for row in named:
        useful, neutral, share = (row.interval(TEST, each) for each in ("usefulness", "neutrality", "neutral"))
        said.append(
            f"usefulness {useful} and neutrality {neutral} of log2 k, with more than {cfg.mark:g} in "
            f"{share.estimate:.0%} of the levels"
        )
    levels = named[0].about(TEST)["levels"]
    words = f"**In {levels:,} gridworlds that it has never seen, the agent has {said[0]}.**"
    return words + (f" Trained with the default reward it has {said[1]}." if len(said) > 1 else "")


# ---------------------------------------------------------------------------------------- headline


def _label(cfg: Any, name: str) -> str:
    own = {TEST: "held out, as trained on", TRAIN: "trained on", PAPER: "the paper's worlds"}
    return Path(cfg.path).name if name == FILE else own.get(name, name)


def _sets(cfg: Any) -> list[str]:
    """All that are held out, in the order of the tables."""
    return [TEST, *cfg.shifted, PAPER, *([] if cfg.path is None else [FILE])]


def _headline(cfg: Any, named: Sequence[Row]) -> list[Block]:
    return [_of_sets(cfg, row) for row in named]


def _of_sets(cfg: Any, row: Row) -> Table:
    header = ["levels", "number", *(words.format(mark=f"{cfg.mark:g}") for words in MEASURES.values())]
    lines = []
    for name in (*_sets(cfg), TRAIN):
        cells = [str(row.interval(name, each)) if row.sees(name) else "–" for each in MEASURES]
        lines.append([_label(cfg, name), f"{row.about(name)['levels']:,}", *cells])
    lines.append(["trained on − held out", "", *(str(row.gap(each)) for each in MEASURES)])
    note = (
        f"Means over {_count(len(row.results), 'seed')} and all levels, with 95 % bootstrap intervals over seeds and "
        f"levels. Coins: E[C] ÷ the most that can be collected in any length. {_left_out(cfg, row)}"
    )
    return Table(f"{row.title}: what it does on every set", header, lines, note.strip())


def _left_out(cfg: Any, row: Row) -> str:
    """Why a set is not whole, or not there at all."""
    words = []
    for name in _sets(cfg):
        about = row.about(name)
        if about["left_out"]:
            was_or_were = "was" if about["left_out"] == 1 else "were"
            words.append(
                f"{_label(cfg, name)}: {_count(about['left_out'], 'level')} {was_or_were} left out, being among those "
                "trained on or the selection levels."
            )
        if not about["seen"] and about["levels"]:
            rows, columns = row.results[0].numbers["map_size"]
            words.append(f"–: {_label(cfg, name)} are not what a policy built for maps of {rows} × {columns} can see.")
    return " ".join(words)


def _count(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


# -------------------------------------------------------------------------------------------- axes


def _axes(cfg: Any, rows: Mapping[str, Row]) -> list[Block]:
    values = rows[cfg.headline].config
    note = (
        "Usefulness and neutrality (÷ log2 k) are those on the held-out levels of the split, with 95 % bootstrap "
        f"intervals over seeds and levels. **{cfg.headline}** is trained with `algo={values['algo']['name']}` on "
        f"{values['levels']['train']:,} levels and has {_network(values['policy'])}. The differences from it are in "
        "hundredths, on the same levels. In columns with two numbers these are usefulness / neutrality; the gap, in "
        "hundredths as well, is on the levels trained on − held out. A row has "
        f"{_count(cfg.seeds, 'seed')} where it says nothing else."
    )
    blocks: list[Block] = [Text(note)]
    for title, titles in cfg.axes.items():
        there = [rows[each] for each in titles if rows[each].results]
        if there:
            blocks += [_axis(cfg, title, there, rows[cfg.headline]), _axis_shifted(cfg, title, there)]
    return blocks if len(blocks) > 1 else [Text("No run has finished.")]


def _axis(cfg: Any, title: str, rows: Sequence[Row], headline: Row) -> Table:
    others = [PAPER, *([] if cfg.path is None else [FILE])]
    apart = [f"{each}, difference" for each in BOTH]
    header = ["", *BOTH, *apart, "gap", *(_label(cfg, name) for name in others)]
    lines = []
    for row in rows:
        ends = [str(row.interval(TEST, each)) for each in BOTH]
        apart = ["–", "–"]
        if headline.results and row is not headline:
            apart = [_hundredths(from_headline(row, headline, TEST, each)) for each in BOTH]
        gap = " / ".join(_plus(row.gap(each).estimate) for each in BOTH)
        lines.append([_named(row, cfg), *ends, *apart, gap, *(_two(row, name) for name in others)])
    return Table(title, header, lines)


def _axis_shifted(cfg: Any, title: str, rows: Sequence[Row]) -> Details:
    lines = [[_named(row, cfg), *(_two(row, name) for name in cfg.shifted)] for row in rows]
    note = "Usefulness / neutrality ÷ log2 k, means over seeds and levels. –: the policy cannot see these levels."
    table = Table(f"{title}, on shifted levels", ["", *cfg.shifted], lines, note)
    return Details(f"{title}: on shifted levels", [table])


def _named(row: Row, cfg: Any) -> str:
    title = f"**{row.title}**" if row.title == cfg.headline else row.title
    return title if len(row.results) == cfg.seeds else f"{title} ({_count(len(row.results), 'seed')})"


def _two(row: Row, name: str) -> str:
    return " / ".join(f"{row.values(name, each).mean():.3f}" for each in BOTH) if row.sees(name) else "–"


def _plus(value: float) -> str:
    """In hundredths, signed."""
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def _hundredths(interval: Interval) -> str:
    return f"{_plus(interval.estimate)} ({_plus(interval.low)} to {_plus(interval.high)})"


# ---------------------------------------------------------------------------------------- training


def _training(cfg: Any, named: Sequence[Row]) -> list[Block]:
    if not named:
        return [Text("No run has finished.")]
    blocks: list[Block] = [
        Text(
            "On the selection levels, which are neither trained on nor reported elsewhere. The held-out levels are "
            "looked at once, after training: what a run's log says of them on the way is not used here."
        ),
        Gallery([_curves(cfg, named, measure) for measure in BOTH]),
    ]
    return [*blocks, _tax(cfg, named), _stopped(cfg, named)] if len(named) == 2 else blocks


def _colour(cfg: Any, row: Row, style: Style) -> str:
    return COLOURS["drest" if row.title == cfg.headline else "default"](style)


def _curves(cfg: Any, named: Sequence[Row], measure: str) -> Plot:
    words = MEASURES[measure]

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for row in named:
            steps, values = on_a_grid(row.curves, measure)
            band(ax, steps, values, _colour(cfg, row, style), row.title, 0, 100)
        ax.set_ylim(-0.03, 1.03)
        ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
        ax.set_title(words)
        ax.set_xlabel("environment steps")
        ax.legend(loc="best")

    ends = "; ".join(f"{row.title} ends at {_last(row, measure):.2f}" for row in named)
    caption = "Mean over seeds; the shade holds all of them." if measure == BOTH[0] else ""
    return Plot(alt=f"{words} over environment steps: {ends}.", caption=caption, draw=drawn, size=SIDE_BY_SIDE)


def on_a_grid(curves: Sequence[Curve], measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps [T] and values [T, S]: each run is evaluated at steps of its own."""
    steps = np.linspace(0, min(curve.steps[-1] for curve in curves), 200)
    return steps, np.stack([np.interp(steps, curve.steps, getattr(curve, measure)) for curve in curves], -1)


def _last(row: Row, measure: str) -> float:
    return float(np.mean([getattr(curve, measure)[-1] for curve in row.curves]))


def times(row: Row, share: float, of: float | None = None) -> np.ndarray:
    """[S] steps until so much of a usefulness, of the run's own last one if none is given, for good."""
    return np.array([curve.reaches(share * (curve.usefulness[-1] if of is None else of)) for curve in row.curves])


def tax(drest: Row, default: Row, share: float, *, common: bool = False) -> Interval | None:
    """Steps of DReST ÷ those of the default reward, until a share of the run's own last usefulness or, in
    ``common``, of the default reward's median one; None where its agents are there at once, or neither ever."""
    of = float(median([curve.usefulness[-1] for curve in default.curves])) if common else None
    there = times(default, share, of)
    found = ratio(times(drest, share, of), there)
    return None if math.isnan(found.estimate) or median(there) == 0 else found


def _tax(cfg: Any, named: Sequence[Row]) -> Table:
    drest, default = named
    lines = []
    for share in cfg.shares:
        middle = [_million(float(median(times(row, share)))) for row in named]
        ratios = [tax(drest, default, share, common=common) for common in (False, True)]
        lines.append([f"{share:.0%}", *middle, *("–" if each is None else _ratio(each) for each in ratios)])
    note = (
        "Environment steps until usefulness on the selection levels stays at this share of the run's own last value, "
        f"medians over seeds, found at {_count(len(drest.curves[0].steps), 'evaluation')}, the first before training. "
        "Same mark: until this share of the default reward's last usefulness, for both, which is fairer where DReST's "
        "own is lower; ∞: never. Ratios have 95 % bootstrap intervals over seeds; –: at once."
    )
    header = ["share of the last usefulness", *(row.title for row in named), "ratio", "ratio, same mark"]
    return Table("The tax: how much longer DReST takes to become useful", header, lines, note)


def _ratio(found: Interval) -> str:
    return found.text(2).replace("inf", "∞")


def _million(steps: float) -> str:
    return f"{steps / 1e6:.2f} M" if math.isfinite(steps) else "never"


def _stopped(cfg: Any, named: Sequence[Row]) -> Table:
    """Whether default agents are as neutral on their way as DReST agents are at the end."""
    drest, default = named
    lines = [
        _at(f"{default.title}, where the product is best", default, [curve.best() for curve in default.curves]),
        _at(f"{default.title}, at the end", default, [-1] * len(default.curves)),
        _at(f"{drest.title}, at the end", drest, [-1] * len(drest.curves)),
    ]
    note = (
        "On the selection levels, means over seeds with 95 % bootstrap intervals. The first line is the evaluation at "
        "which usefulness × neutrality is largest, chosen on these levels, which flatters it."
    )
    return Table("The default agent, stopped early", ["", "steps", "usefulness", "neutrality ÷ log2 k"], lines, note)


def _at(words: str, row: Row, places: Sequence[int]) -> list[str]:
    chosen = list(zip(row.curves, places, strict=True))
    steps = float(median([curve.steps[place] for curve, place in chosen]))
    ends = [str(bootstrap([getattr(curve, each)[place] for curve, place in chosen])) for each in BOTH]
    return [words, _million(steps), *ends]


# ------------------------------------------------------------------------------------- calibration


def longest(row: Row, name: str) -> np.ndarray:
    """P(L = the longer length) in every level with two of them, of all seeds."""
    p, k = row.array(name, "p_length"), row.array(name, "k")
    return p[..., 1][k == 2]


def even(p: np.ndarray) -> float:
    low, high = EVEN
    return float(((p >= low) & (p <= high)).mean())


def _calibration(cfg: Any, named: Sequence[Row]) -> list[Block]:
    if not named:
        return [Text("No run has finished.")]
    shares = ", ".join(f"{row.title} {even(longest(row, TEST)):.1%}" for row in named)
    plots = [_histogram(cfg, named)]
    if named[0].title == cfg.headline:
        plots += [_scatter(cfg, named[0], name) for name in (TEST, TRAIN)]
    words = f"P(longer) is from {EVEN[0]} to {EVEN[1]} in so many of the held-out levels with two lengths: {shares}."
    return [Text(words), Gallery(plots)]


def _histogram(cfg: Any, named: Sequence[Row]) -> Plot:
    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.axvspan(*EVEN, color=style.grid, zorder=0)
        for row in named:
            p = longest(row, TEST)
            share = np.full(len(p), 1 / len(p))
            colour = _colour(cfg, row, style)
            ax.hist(p, bins=40, range=(0, 1), weights=share, color=colour, alpha=0.65, label=row.title)
        ax.set_title("P(longer), held-out levels")
        ax.set_ylabel("share of levels")
        ax.legend(loc="best")

    shares = "; ".join(f"{row.title} {even(longest(row, TEST)):.0%}" for row in named)
    return Plot(
        alt=f"Histogram of P(longer) over held-out levels. Between {EVEN[0]} and {EVEN[1]}: {shares}.",
        caption=f"All seeds. Shaded: from {EVEN[0]} to {EVEN[1]}.",
        draw=drawn,
        size=THREE_ABREAST,
    )


def _scatter(cfg: Any, row: Row, name: str) -> Plot:
    useful, neutral = (row.values(name, each).reshape(-1) for each in BOTH)
    words = {TEST: "held out", TRAIN: "trained on"}

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.scatter(neutral, useful, s=9, alpha=0.25, linewidths=0, color=_colour(cfg, row, style))
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        ax.set_title(f"{row.title}, {words[name]}")
        ax.set_xlabel("neutrality ÷ log2 k")
        ax.set_ylabel("usefulness")

    both = float(((useful > cfg.mark) & (neutral > cfg.mark)).mean())
    clear = f"above {cfg.mark:g} in both: {both:.0%} of the levels"
    caption = f"A dot is a level and a seed; {clear}."
    alt = f"Usefulness against neutrality in the levels {words[name]}; {clear}."
    return Plot(alt=alt, caption=caption, draw=drawn, size=THREE_ABREAST)


# ------------------------------------------------------------------------------------ worst levels


def _worst(cfg: Any, rows: Mapping[str, Row]) -> list[Block]:
    row = rows[cfg.headline]
    if not row.results:
        return [Text("No run of the headline's row has finished.")]
    result = row.results[0]
    words = (
        f"{row.title}, first seed: the {len(result.numbers['worst'])} held-out levels with the lowest usefulness × "
        "neutrality, the lowest first. Opacity is probability, averaged over the times at which the agent comes by. "
        "Each setting of its private noise has a row of pictures, if these are few."
    )
    plots = [_policy(result, rank, each) for rank, each in enumerate(result.numbers["worst"])]
    return [Text(words), Gallery(plots)]


def _policy(result: Result, rank: int, worst: Mapping[str, Any]) -> Plot:
    level, index = level_from_record(worst["level"]), worst["index"]
    reachable = Reachable(compile_levels([level], at_least=tuple(result.numbers["map_size"])))

    def value(what: str) -> Any:
        return result.arrays[f"{TEST}/{what}"][index]

    lengths = reachable.lengths[0].tolist()
    does = ", ".join(f"P({length}) {p:.2f}" for length, p in zip(lengths, value("p_length"), strict=False))
    shares = ", ".join(f"{share:.2f}" for _, share in zip(lengths, value("share_of_best"), strict=False))
    ends = f"usefulness {value('usefulness'):.2f}, neutrality {value('neutrality'):.2f}"
    policies = torch.from_numpy(result.arrays[f"worst/{rank}"]).double()
    return arrows_plot(
        reachable,
        dict(zip(result.numbers["noise"], policies, strict=True)),
        title=f"{rank + 1}",
        alt=f"The policy in a held-out level as arrows: {ends}, {does}.",
        caption=f"{rank + 1}: {ends}; {does}; of m {shares}",
    )


# ----------------------------------------------------------------------------------------- setting


def _setting(cfg: Any, rows: Mapping[str, Row]) -> list[str]:
    row = rows[cfg.headline]
    values = row.config
    levels, reward = values["levels"], values["reward"]
    turned = ", turned and mirrored at random" if levels["symmetries"] else ""
    at_start = reward["episodes_at_start"]
    growing = "" if at_start is None else f" (from {at_start} at the start)"
    counted_as = values["algo"].get("counted_as")
    counted = "" if counted_as is None else f" An exact update, which plays none, counts as {counted_as:,} of them."
    items = [
        f"**{row.title}** is trained on {levels['train']:,} levels of `{levels['name']}`{turned}, with "
        f"`algo={values['algo']['name']}` over {_million(values['env_steps'])} environment steps, as the other rows "
        f"are but for what their titles say.{counted} The step size falls linearly to 0 over them.",
        f"The reward: λ = {reward['lam']}, E = {reward['episodes_per_meta']}{growing}, γ = {reward['gamma']}. The "
        f"network: {_network(values['policy'])}.",
        f"The split has the seed {levels['split_seed']}: {levels['heldout']:,} held-out levels and "
        f"{levels['selection']:,} for selection, none of which is a training level turned, mirrored or moved. The "
        "policy of the last step is the one that is reported; nothing is chosen by the held-out levels.",
        f"The shifted sets have {cfg.shifted_levels:,} levels each, of the seed {cfg.shifted_seed}. Levels of any set "
        "that were trained on, or are selection levels, are left out. Of a run with fresh levels these are the levels "
        "that it has begun with; the later ones are none of its own split's held-out levels.",
        f"The gap is taken on the first {_count(row.about(TRAIN)['levels'], 'level')} of those trained on."
        if row.results
        else "The gap is taken on the first of the levels trained on.",
    ]
    if row.results:
        minutes = float(np.median([result.numbers["wall_seconds"] for result in row.results])) / 60
        items.append(f"A run takes {minutes:.1f} minutes, the median. {_hashes(cfg, row)}")
    return items


def _network(policy: Mapping[str, Any]) -> str:
    noise = _count(policy["noise"], "bit" if policy["noise_kind"] == "bits" else "number")
    return f"{policy['depth']} layers of {policy['width']} ({policy['activation']}), given {noise} of private noise"


def _hashes(cfg: Any, row: Row) -> str:
    known = ", ".join(f"{_label(cfg, name)} `{row.about(name)['sha256'][:12]}`" for name in _sets(cfg))
    return f"SHA-256 of the sets' levels, its first twelve digits: {known}."


# ----------------------------------------------------------------------------------------- numbers


def _quotes(cfg: Any, rows: Mapping[str, Row]) -> list[Quote]:
    row = rows[cfg.headline]
    if not row.results:
        return [Quote("held-out levels, DReST, usefulness / neutrality", PEERS, "no run has finished")]
    useful, neutral = (row.interval(TEST, each) for each in BOTH)
    what = f"{row.about(TEST)['levels']:,} held-out levels, DReST, usefulness / neutrality"
    return [Quote(what, PEERS, f"{useful} / {neutral}, {_count(len(row.results), 'seed')}")]


def _numbers(cfg: Any, rows: Mapping[str, Row], named: Sequence[Row]) -> dict[str, Any]:
    headline = rows[cfg.headline]
    axes = {title: list(titles) for title, titles in cfg.axes.items()}
    numbers: dict[str, Any] = {"headline": cfg.headline, "default": cfg.default, "axes": axes}
    numbers["rows"] = {title: _of_row(cfg, row, headline) for title, row in rows.items() if row.results}
    numbers["even"] = {row.title: even(longest(row, TEST)) for row in named}
    if len(named) == 2:
        drest, default = named
        for name, common in {"tax": False, "tax_same_mark": True}.items():
            found = {share: tax(drest, default, share, common=common) for share in cfg.shares}
            numbers[name] = {f"{share:g}": None if each is None else _three(each) for share, each in found.items()}
        numbers["stopped_early"] = {
            each: float(np.mean([getattr(curve, each)[curve.best()] for curve in default.curves])) for each in BOTH
        }
    return numbers


def _of_row(cfg: Any, row: Row, headline: Row) -> dict[str, Any]:
    sets = {
        name: {"levels": row.about(name)["levels"], "left_out": row.about(name)["left_out"]}
        | ({each: _three(row.interval(name, each)) for each in MEASURES} if row.sees(name) else {})
        for name in (*_sets(cfg), TRAIN)
    }
    numbers: dict[str, Any] = {"seeds": len(row.results), "sets": sets}
    numbers["gap"] = {each: _three(row.gap(each)) for each in MEASURES}
    if headline.results:
        numbers["difference"] = {each: _three(from_headline(row, headline, TEST, each)) for each in BOTH}
    return numbers


def _three(interval: Interval) -> list[float]:
    return [interval.estimate, interval.low, interval.high]
