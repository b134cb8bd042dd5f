"""The shutdownability tax (section 7.2): how much longer DReST agents take to become useful than default agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.jobs.job import Result
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import Dots, Spread, dot_figure
from drest_torch.report.tables import MISSING as DASH
from drest_torch.report.tables import PAPER, table_of
from drest_torch.statistics.intervals import Interval, ratio, t_interval
from drest_torch.statistics.times import hitting_times
from drest_torch.studies.example.world_rows import EARLY, EXAMPLE, Key, of_part
from drest_torch.studies.shared import AS_REPORTED, MOVES, RANDOM_FIRST, REWARDS, title

RANDOM_PLAY = "random play first"
"""The change with which agents learn on the clock steps, under both rewards: the last change of the study."""
TRAINED = {MOVES: ("moves", "moves"), AS_REPORTED: ("moves", "steps"), RANDOM_FIRST: ("steps", "steps")}
"""The clock of training and the clock of evaluation, by their name on the page."""
WORDS = {MOVES: "trained and evaluated on moves", AS_REPORTED: "trained on moves, evaluated on every step"}
DEFINITIONS = ("own", "common")
"""Reference for the time to a share of usefulness: the agent's final usefulness, or the default agents' median."""
SHARES = (0.5, 0.8, 0.9, 0.95)
HEADLINE = 0.9
FINAL_EVALUATIONS = 20
"""The number of last evaluations whose mean is the final usefulness."""
WINDOW = 5
"""Evaluations in the centred moving average that has to reach a share."""
SMALL = 1.5
"""The largest ratio to the default's mini-episodes at which the tax counts as small."""
RATIO = Spread("95 % bootstrap interval over agents", t_interval, "o", end="|")


def tax_rows(
    done: Mapping[Key, Result], worlds: Sequence[str], random_episodes: int, resamples: int
) -> Iterator[dict[str, Any]]:
    """Yield the ratio of median times with its interval for each pair of clocks, world, share and definition.

    ``later`` is the difference of the medians, and ``default_time`` the median of default agents, in mini-episodes.
    """
    for clocks, name in product(TRAINED, worlds):
        if clocks == RANDOM_FIRST and name != EXAMPLE:
            continue
        if any(trained_key(name, clocks, reward) not in done for reward in REWARDS):
            continue
        curves = {reward: curve(done, name, clocks, reward, random_episodes) for reward in REWARDS}
        finals = {reward: usefulness[-FINAL_EVALUATIONS:].mean(0) for reward, (_, usefulness) in curves.items()}
        for share, definition in product(SHARES, DEFINITIONS):
            marks = {
                "own": {reward: share * final for reward, final in finals.items()},
                "common": dict.fromkeys(REWARDS, share * np.median(finals["default"])),
            }[definition]
            times = {reward: hitting_times(*curves[reward], marks[reward], window=WINDOW) for reward in REWARDS}
            tax = ratio(times["drest"], times["default"], resamples=resamples)
            default, drest = (float(np.median(times[reward])) for reward in REWARDS)
            yield {
                "part": "tax",
                "clocks": clocks,
                "world": name,
                "share": share,
                "definition": definition,
                "estimate": tax.estimate,
                "low": tax.low,
                "high": tax.high,
                "default_time": default,
                "later": drest - default,
            }


def trained_key(name: str, clocks: str, reward: str) -> Key:
    """Return the key of the run whose agents are evaluated on this pair of clocks."""
    change = RANDOM_PLAY if clocks == RANDOM_FIRST else ""
    return Key(name, TRAINED[clocks][0], reward, change)


def curve(
    done: Mapping[Key, Result], name: str, clocks: str, reward: str, random_episodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mini-episodes [T] since random play, and the usefulness of agents [T, A], over training.

    The first mini-episodes are evaluated more often.
    """
    clock = TRAINED[clocks][1]
    arrays = done[trained_key(name, clocks, reward)].arrays
    episodes, usefulness = arrays["episodes"], arrays[f"{clock}/usefulness"].astype(float)
    if clocks == RANDOM_FIRST:
        return np.maximum(episodes - random_episodes, 0), usefulness
    early = done.get(Key(name, "moves", reward, EARLY))
    if early is not None:
        later = episodes > early.arrays["episodes"][-1]
        episodes = np.concatenate([early.arrays["episodes"], episodes[later]])
        usefulness = np.concatenate([early.arrays[f"{clock}/usefulness"].astype(float), usefulness[later]])
    return episodes, usefulness


# ------------------------------------------------------------------------------------------ claims


def taxes_of(rows: pd.DataFrame, clocks: str, share: float = HEADLINE, definition: str = "own") -> pd.DataFrame:
    """Return the taxes of the worlds in which the tax is defined.

    It is undefined if default agents reach the share before training, or if neither reward ever reaches it.
    """
    taxes = of_part(rows, "tax", clocks=clocks, share=share, definition=definition)
    return taxes[taxes.estimate.notna() & (taxes.default_time > 0)]


def small_as_reported(rows: pd.DataFrame) -> bool:
    """Return whether the tax is small in every world on the paper's clocks."""
    return bool((taxes_of(rows, AS_REPORTED).estimate <= SMALL).all())


def large_at_other_share(rows: pd.DataFrame) -> bool:
    """Return whether the tax in some world is not small at a smaller share."""
    return bool(len(large(rows)))


def large(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the taxes on the paper's clocks that are not small at a smaller share."""
    taxes = pd.concat([taxes_of(rows, AS_REPORTED, share) for share in SHARES if share < HEADLINE])
    return taxes[taxes.estimate > SMALL]


def _large(rows: pd.DataFrame) -> str:
    taxes = large(rows).itertuples()
    return "; ".join(f"{tax.estimate:.2f} in {title(tax.world)} at {tax.share:.0%}" for tax in taxes)


def large_with_common_mark(rows: pd.DataFrame) -> bool:
    """Return whether the tax in some world is not small if both rewards have to reach the same usefulness."""
    return bool((taxes_of(rows, AS_REPORTED, definition="common").estimate > SMALL).any())


def large_on_moves(rows: pd.DataFrame) -> bool:
    """Return whether the tax on moves is clearly not small in some world, and clearly below 1 in another."""
    taxes = taxes_of(rows, MOVES)
    return bool((taxes.low > SMALL).any() and (taxes.high < 1).any())


def faster_after_random_play(rows: pd.DataFrame) -> bool:
    """Return whether DReST agents learn faster in the running example if both rewards begin with random play."""
    return bool((of_part(rows, "tax", clocks=RANDOM_FIRST, share=HEADLINE, definition="own").high < 1).all())


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "On the paper's clocks the shutdownability tax is small, as the paper says: the median DReST agent takes {tax} "
    "times the mini-episodes of the median default agent to reach {share} of its final usefulness.": small_as_reported,
    "At a smaller share of final usefulness the tax is not small everywhere: {tax_large}.": large_at_other_share,
    "The tax is not small everywhere if both rewards have to reach {share} of the default agents' final usefulness: "
    "{tax_common} times, most in {tax_common_most}.": large_with_common_mark,
    "Evaluated on moves, the tax depends on the world: from {tax_moves} times, most in {tax_most}.": large_on_moves,
    "After random play, DReST agents of the running example are faster than default agents: {tax_random} times.": (
        faster_after_random_play
    ),
}


def span(taxes: pd.DataFrame) -> str:
    """Return the smallest and the largest ratio over worlds."""
    return f"{_number(taxes.estimate.min())} to {_number(taxes.estimate.max())}"


def _number(value: float) -> str:
    return "∞" if np.isinf(value) else f"{value:.2f}"


def _random_tax(rows: pd.DataFrame) -> str:
    taxes = of_part(rows, "tax", clocks=RANDOM_FIRST, share=HEADLINE, definition="own")
    return _number(taxes.estimate.iloc[0])


def _most(taxes: pd.DataFrame) -> str:
    return title(taxes.world[taxes.estimate.idxmax()])


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "share": lambda rows: f"{HEADLINE:.0%}",
    "small": lambda rows: f"{SMALL:g}",
    "tax": lambda rows: span(taxes_of(rows, AS_REPORTED)),
    "tax_large": _large,
    "tax_common": lambda rows: span(taxes_of(rows, AS_REPORTED, definition="common")),
    "tax_moves": lambda rows: span(taxes_of(rows, MOVES)),
    "tax_most": lambda rows: _most(taxes_of(rows, MOVES)),
    "tax_common_most": lambda rows: _most(taxes_of(rows, AS_REPORTED, definition="common")),
    "tax_later": lambda rows: f"{taxes_of(rows, MOVES).later.max():,.0f}",
    "tax_random": _random_tax,
}


# ------------------------------------------------------------------------------ figures and tables


def tax_figure(rows: pd.DataFrame) -> Plot:
    """Plot the ratio of each world and share with its interval, on the paper's clocks."""
    taxes = of_part(rows, "tax", clocks=AS_REPORTED, definition="own")
    series = []
    for share, group in taxes.groupby("share"):
        intervals = zip(group.world, group.estimate, group.low, group.high, strict=True)
        values = {title(name): Interval(estimate, low, high) for name, estimate, low, high in intervals}
        series.append(Dots(f"{share:.0%} of final usefulness", values, RATIO))
    return dot_figure(
        series,
        title="The shutdownability tax in the paper's worlds",
        xlabel="mini-episodes, DReST ÷ default",
        ylabel="world",
        lines={1: "as fast as default agents"},
        limits=(0.5, 4.0),
        caption="Ratio of the median times, trained on moves and evaluated on every step as in the paper. Right of 1, "
        f"DReST agents are slower; up to {SMALL:g} the tax is called small.",
    )


def tax_table(rows: pd.DataFrame, clocks: str) -> Table:
    """Return the table of each world's ratio with its interval, by share."""
    taxes = of_part(rows, "tax", clocks=clocks, definition="own")
    texts = [_with_interval(row) for row in taxes.itertuples()]
    cells = taxes.assign(text=texts, share=taxes.share.map("{:.0%}".format), world=taxes.world.map(title))
    cells = cells.pivot(index="world", columns="share", values="text").loc[cells.world.unique()]
    if clocks == AS_REPORTED:
        cells.insert(
            len(cells.columns), PAPER, ["about 1, by eye" if name == title(EXAMPLE) else DASH for name in cells.index]
        )
    caption = f"The shutdownability tax, {WORDS[clocks]}: mini-episodes, DReST ÷ default, by share of final usefulness"
    note = "Ratio of medians, with its 95 % bootstrap interval over agents. A dash: both rewards were there before "
    note += "training, or neither ever was."
    return table_of(cells, caption, first="world", note=note)


def _with_interval(row: Any) -> str:
    if np.isnan(row.estimate):
        return DASH
    return Interval(row.estimate, row.low, row.high).text(2).replace("inf", "∞")


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {"tax": tax_figure}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "tax": partial(tax_table, clocks=AS_REPORTED),
    "tax_moves": partial(tax_table, clocks=MOVES),
}
