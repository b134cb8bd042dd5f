"""Figures and tables of the paper's worlds, from the rows of the study."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from drest_torch.envs.levels import world
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import AGENTS, Curve, Dots, curve_figure, curves_of, dot_figure
from drest_torch.report.panels import panel_figure
from drest_torch.report.plots import policy_plot
from drest_torch.report.tables import MISSING as DASH
from drest_torch.report.tables import PAPER, num, table_of
from drest_torch.statistics.intervals import Interval
from drest_torch.studies.example.claims import (
    CLOSE,
    REPORTED,
    REPORTED_CHOICES,
    WITHOUT_C3,
    cures,
    end_of,
    standard_errors,
    treasure,
)
from drest_torch.studies.example.tax import RANDOM_PLAY
from drest_torch.studies.example.world_rows import ACTIONS, EXAMPLE, FREE_BUMPS, MARK, OTHER_M, TREASURE, of_part
from drest_torch.studies.shared import AS_REPORTED, MOVES, REWARDS, STEPS, title

YLABELS = {"neutrality": "neutrality, bits", "usefulness": "usefulness", "p_longer": "P(the longer length)"}
PAIRS = {
    "train moves, evaluate every step": (AS_REPORTED, ""),
    "moves for both": (MOVES, ""),
    "every step for both": (STEPS, ""),
    "every step, random play first": (STEPS, RANDOM_PLAY),
}
"""The pair of clocks and the change to training, by their name on the page."""


# ------------------------------------------------------------------------------------------ figures


def curves_in(rows: pd.DataFrame, name: str, metric: str) -> list[Curve]:
    """Return the learning curves of both rewards in a world."""
    curves = of_part(rows, "curve", world=name, metric=metric)
    colours = {reward: reward for reward in REWARDS}
    return curves_of(
        curves, x="meta_episode", y="y", by="reward", spread=AGENTS, colours=colours, labels=REWARDS, look="-"
    )


def learning_figure(rows: pd.DataFrame, metric: str) -> Plot:
    """Plot a metric over training in the running example, as in Figure 3."""
    return curve_figure(
        curves_in(rows, EXAMPLE, metric),
        title=f"{title(EXAMPLE)}, over training",
        xlabel="meta-episodes",
        ylabel=YLABELS[metric],
        caption="Trained on moves and evaluated on every step.",
        width=4.0,
    )


def worlds_figure(rows: pd.DataFrame, metric: str) -> Plot:
    """Plot a metric over training in each of the other worlds, as in Figures 9 to 16."""
    names = [name for name in of_part(rows, "curve").world.unique() if name != EXAMPLE]
    return panel_figure(
        {title(name): curves_in(rows, name, metric) for name in names},
        title=f"The other worlds: {metric} over training",
        xlabel="meta-episodes",
        ylabel=YLABELS[metric],
        caption="Trained on moves and evaluated on every step.",
    )


def policy_figure(rows: pd.DataFrame, reward: str) -> Plot:
    """Plot the policy of a typical agent in the running example, as in Figure 4."""
    level = world(EXAMPLE).with_clock("moves")
    tables = Tables(level, 1.0, 1)
    states = of_part(rows, "policy", reward=reward)
    logits = np.zeros((1, int(tables.mdp.num_cells) << int(tables.mdp.num_objects), len(ACTIONS)))
    logits[0, states.state.astype(int)] = states[ACTIONS]
    words = f"{title(EXAMPLE)}, {REWARDS[reward]}"
    caption = (
        f"A typical agent trained with the {REWARDS[reward]} reward in the running example, before and after the "
        "button: its P(longer) is the median of ten. The darker an arrow, the likelier the move."
    )
    plot = policy_plot(tables, logits, words)
    return Plot(plot.alt, caption, plot.draw, plot.size)


def clocks_figure(rows: pd.DataFrame) -> Plot:
    """Plot the neutrality of DReST agents in each world on each pair of clocks."""
    series = []
    for words, (clocks, change) in PAIRS.items():
        ends = end_of(rows, "drest", clocks, change=change)
        values = {
            title(name): Interval(end.neutrality, end.neutrality_low, end.neutrality_high)
            for name, end in ends.iterrows()
        }
        series.append(Dots(words, values, AGENTS))
    return dot_figure(
        series,
        title="DReST agents in the paper's worlds, by clock",
        xlabel="neutrality at the end of training, bits",
        ylabel="world",
        caption="The clock of training and the clock of evaluation count moves, or every step.",
    )


# ------------------------------------------------------------------------------------------- tables


def reported_table(rows: pd.DataFrame, changes: tuple[str, ...] = ("",)) -> Table:
    """Return the table of means in the running example on the paper's clocks, next to the paper's numbers."""
    cells = {}
    for change in changes:
        for reward, metric in REPORTED:
            samples = [end_of(rows, reward, AS_REPORTED, change=change, sample=name) for name in ("first", "all")]
            if samples[0].empty:
                continue
            first, every = (sample.loc[EXAMPLE] for sample in samples)
            name = f"{metric}, {REWARDS[reward]}" + (f", {change}" if change else "")
            cells[name] = {
                f"first {first.agents:g} agents": _mean_sd(first[metric], first[f"{metric}_sd"]),
                PAPER: _paper_cell(_mean_sd(*REPORTED[reward, metric]), standard_errors(first, reward, metric)),
                f"all {every.agents:g}": _mean_sd(every[metric], every[f"{metric}_sd"]),
            }
    caption = "The running example at the end of training"
    if changes != ("",):
        caption += ", with one change each"
    note = (
        "Mean ± standard deviation of agents. In brackets: how many standard errors of the difference the first agents"
    )
    note += f" are from the paper, ✓ up to {CLOSE}."
    return table_of(pd.DataFrame(cells).T, caption, first="measure, reward", note=note)


def _mean_sd(mean: float, deviation: float) -> str:
    return f"{mean:.4f} ± {deviation:.4f}"


def _paper_cell(reported: str, errors: float) -> str:
    mark = "✓" if errors <= CLOSE else "✗"
    return f"{mark} {reported} ({errors:.1f})"


def worlds_table(rows: pd.DataFrame) -> Table:
    """Return the table of all worlds on the paper's clocks with both rewards, next to the paper's statements."""
    drest, default = (end_of(rows, reward, AS_REPORTED) for reward in ("drest", "default"))
    cells = pd.DataFrame(
        {
            "DReST: neutrality": drest.neutrality.map("{:.3f}".format),
            "DReST: usefulness": drest.usefulness.map("{:.3f}".format),
            "default: neutrality": default.neutrality.map("{:.3f}".format),
            "default: usefulness": default.usefulness.map("{:.3f}".format),
            "default: P(longer)": default.p_longer.map("{:.2f}".format),
        }
    )
    cells[PAPER] = [_paper_statement(name) for name in cells.index]
    note = "Means of agents that are trained on moves and evaluated on every step. Of all other worlds the paper says "
    note += "that DReST agents are near-maximally neutral and about as useful as default agents."
    cells.index = cells.index.map(title)
    return table_of(cells, "World by world, at the end of training", first="world", note=note)


def _paper_statement(name: str) -> str:
    text = REPORTED_CHOICES.get(name, ("", DASH))[1]
    if name != EXAMPLE:
        return text
    means = {key: f"{mean:.3f}" for key, (mean, _) in REPORTED.items()}
    numbers = "; ".join(
        f"{words}: {means[reward, 'neutrality']} and {means[reward, 'usefulness']}" for reward, words in REWARDS.items()
    )
    return f"{numbers}; {text}"


def clocks_table(rows: pd.DataFrame, reward: str) -> Table:
    """Return the table of neutrality and usefulness in each world on each pair of clocks."""
    columns = {}
    for words, (clocks, change) in PAIRS.items():
        ends = end_of(rows, reward, clocks, change=change)
        columns[words] = {
            title(name): f"{end.neutrality:.3f}, {end.usefulness:.3f}" + _count(end, reward)
            for name, end in ends.iterrows()
        }
    note = "Mean neutrality and usefulness of agents."
    if reward == "drest":
        note += f" After the semicolon: how many agents have {MARK:g} or more of both."
    caption = f"{REWARDS[reward]} agents at the end of training, by clock".capitalize().replace("Drest", "DReST")
    return table_of(pd.DataFrame(columns), caption, first="world", note=note)


def _count(end: pd.Series, reward: str) -> str:
    return f"; {end.good:g} of {end.agents:g}" if reward == "drest" else ""


def cures_table(rows: pd.DataFrame) -> Table:
    """Return the table of DReST agents trained on steps in the running example, by change to the training."""
    ends = pd.concat([end_of(rows, "drest", STEPS).loc[[EXAMPLE]], cures(rows)])
    cells = pd.DataFrame(
        {
            "useful and neutral": [f"{end.good:g} of {end.agents:g}" for end in ends.itertuples()],
            "mini-episodes": ends.mini_episodes.map("{:,.0f}".format).to_list(),
            "neutrality, mean": ends.neutrality.map("{:.3f}".format).to_list(),
            "10th to 90th percentile": [
                f"{e.neutrality_low:.3f} to {e.neutrality_high:.3f}" for e in ends.itertuples()
            ],
            "usefulness, mean": ends.usefulness.map("{:.3f}".format).to_list(),
        },
        index=["the paper's schedules", *ends.change[1:]],
    )
    caption = "The running example, DReST, trained and evaluated on every step"
    return table_of(cells, caption, first="change to the training")


def treasure_table(rows: pd.DataFrame) -> Table:
    """Return the table of usefulness in Hidden Treasure, discounted as in training and undiscounted."""
    cells = {}
    for reward, words in REWARDS.items():
        moves, steps = (treasure(rows, reward, clocks) for clocks in (MOVES, AS_REPORTED))
        cells[words] = {
            "discounted, on moves": num(moves.usefulness),
            "discounted, on every step": num(steps.usefulness),
            "undiscounted, on moves": num(moves.undiscounted),
            "undiscounted, on every step": num(steps.undiscounted),
            PAPER: "not near the maximum",
            "undiscounted, with C2 for C3": num(WITHOUT_C3[reward]),
        }
    note = "Means of the ten agents whose tables are kept, which are trained on moves. The last column is the "
    note += "undiscounted usefulness of a policy without a bump that collects C2 whenever it presses the button: "
    note += "always, as default agents, or in half of the mini-episodes."
    return table_of(pd.DataFrame(cells).T, f"Usefulness in {title(TREASURE)}", first="reward", note=note)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "learning_p_longer": partial(learning_figure, metric="p_longer"),
    "learning_neutrality": partial(learning_figure, metric="neutrality"),
    "learning_usefulness": partial(learning_figure, metric="usefulness"),
    "policy_default": partial(policy_figure, reward="default"),
    "policy_drest": partial(policy_figure, reward="drest"),
    "worlds_neutrality": partial(worlds_figure, metric="neutrality"),
    "worlds_usefulness": partial(worlds_figure, metric="usefulness"),
    "clocks": clocks_figure,
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "reported": reported_table,
    "worlds": worlds_table,
    "treasure": treasure_table,
    "clocks_drest": partial(clocks_table, reward="drest"),
    "clocks_default": partial(clocks_table, reward="default"),
    "cures": cures_table,
    "changes": partial(reported_table, changes=(FREE_BUMPS, OTHER_M)),
}
