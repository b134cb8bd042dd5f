"""Figures and tables of the study of generalization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import CONFIDENCE, RANGE, Curve, curve_figure, curves_of, dot_figure, dots_of
from drest_torch.report.tables import MISSING, PAPER, difference_text, mean_range, num, p_text, table_of
from drest_torch.studies import shared
from drest_torch.studies.generalization.evaluation import FILE, MEASURES, RANDOM, TRAINING, UNSEEN, WORLDS
from drest_torch.studies.generalization.runs import FOLLOWUP_LIKE, PPO, SYMMETRIC

BITS = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
"""Measures on levels with two lengths."""
SHARES = {"usefulness": "usefulness", "neutrality": "neutrality ÷ log2 k"}
"""Measures on levels with two or more lengths."""
ALGORITHMS = {PPO: "PPO", "a2c": "A2C", "reinforce": "REINFORCE", "generalist": "exact gradients"}
SPLITS = {TRAINING: "training levels", UNSEEN: "unseen levels"}
COLOURS = {TRAINING: "muted", UNSEEN: "drest"}
SETS = {UNSEEN: "unseen", WORLDS: "the paper's worlds", FILE: "the follow-up's validation levels"}
AGENTS = {
    "generalist": "generalist (5 × 5)",
    "generalist-buttons": "generalist-buttons (5 to 10)",
    RANDOM: "random actions",
}
PROPERTIES = {
    "shutdown": "ticks until shutdown",
    "walls": "walls",
    "delay": "delay of the button",
    "distance": "moves to the button",
    "coins": "coins",
    "ratio": "m(longer) / m(shorter)",
    "slack": "slack (ticks)",
}
FOLLOW_UP = {
    "PPO, DReST": {TRAINING: (0.886, 0.845), FILE: (0.742, 0.747)},
    "A2C, DReST": {TRAINING: (0.921, 0.839), FILE: (0.742, 0.769)},
    "PPO, default": {TRAINING: (0.947, 0.0), FILE: (0.667, 0.0)},
    "A2C, default": {TRAINING: (0.911, 0.0), FILE: (0.635, 0.0)},
}
"""Usefulness and neutrality on training and test levels in the follow-up (arXiv 2604.17502)."""
K = "number of training levels, k"
SEEDS = "The mean, the lowest and the highest seed."


def of_part(rows: pd.DataFrame, part: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a part with these values in their columns; raise LookupError if there are none."""
    chosen = shared.of_part(rows, part, **where)
    if chosen.empty:
        raise LookupError(f"no rows of the part {part} with {where}")
    return chosen


def curve_ends(rows: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Return the ends of the runs of the curve, by the number of training levels."""
    return of_part(rows, "end", network=SYMMETRIC, kind=FOLLOWUP_LIKE, **where)


def compared_number(rows: pd.DataFrame) -> int:
    """Return the number of training levels at which networks and kinds of level are compared."""
    ends = of_part(rows, "end")
    compared = ends[(ends.kind != FOLLOWUP_LIKE) | (ends.network != SYMMETRIC)]
    return int(compared.levels.iloc[0])


def network_ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ends of the runs of PPO with each network."""
    return of_part(rows, "end", agent=PPO, kind=FOLLOWUP_LIKE, levels=compared_number(rows))


def kind_ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ends of the runs of PPO on each kind of level."""
    return of_part(rows, "end", agent=PPO, network=SYMMETRIC, levels=compared_number(rows))


def every_second(rows: pd.DataFrame) -> pd.DataFrame:
    """Return labelled rows for every second number of training levels, because a figure has few colours."""
    chosen = rows[rows.levels.isin(sorted(rows.levels.dropna().unique())[::2])]
    return chosen.assign(k=chosen.levels.map("k = {:,.0f}".format))


# ------------------------------------------------------------------------------------------- figures


def by_number(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of PPO on training and unseen levels against the number of training levels."""
    ends = curve_ends(rows, agent=PPO)
    curves = curves_of(ends, x="levels", y=measure, by="set", spread=RANGE, colours=COLOURS, labels=SPLITS)
    return curve_figure(curves, title="PPO, training and unseen levels", xlabel=K, ylabel=BITS[measure], log="x")


def by_algorithm(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of each algorithm on unseen levels against the number of training levels."""
    ends = curve_ends(rows, set=UNSEEN)
    curves = curves_of(ends, x="levels", y=measure, by="agent", spread=RANGE, labels=ALGORITHMS)
    return curve_figure(curves, title="Unseen levels, by algorithm", xlabel=K, ylabel=BITS[measure], log="x")


def profile(rows: pd.DataFrame) -> Plot:
    """Plot the share of unseen levels with neutrality of at least τ, for several numbers of training levels."""
    shares = every_second(of_part(rows, "profile", agent=PPO))
    curves = curves_of(shares, x="x", y="share", by="k", spread=RANGE, look="-")
    return curve_figure(
        curves, title="Performance profile, unseen levels", xlabel="neutrality τ (bits)", ylabel="share of levels ≥ τ"
    )


def long_profile(rows: pd.DataFrame) -> Plot:
    """Plot the share of unseen levels with neutrality of at least τ, for agents trained for long."""
    shares = of_part(rows, "profile")
    shares = shares[shares.levels.isna()] if "levels" in shares else shares
    curves = curves_of(shares, x="x", y="share", by="agent", spread=RANGE, look="-")
    return curve_figure(
        curves, title="Trained for long, unseen levels", xlabel="neutrality τ (bits)", ylabel="share of levels ≥ τ"
    )


def learning(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of PPO on unseen levels during training, for several numbers of training levels."""
    during = every_second(of_part(rows, "curve", agent=PPO))
    during = during.assign(x=(during.x / 1e6).round(1))
    curves = curves_of(during, x="x", y=measure, by="k", spread=RANGE, look="-")
    return curve_figure(
        curves, title="PPO, unseen levels during training", xlabel="million environment steps", ylabel=BITS[measure]
    )


def by_level(rows: pd.DataFrame) -> Plot:
    """Plot the neutrality of each unseen level over seeds, with the least neutral level first."""
    levels = of_part(rows, "level")
    order = levels.groupby("level").neutrality.mean().rank(method="first")
    placed = levels.assign(place=levels.level.map(order), kind="an unseen level")
    curves = curves_of(
        placed, x="place", y="neutrality", by="kind", spread=RANGE, look="o", colours={"an unseen level": "drest"}
    )
    return curve_figure(
        curves,
        title="Unseen levels, the least neutral first",
        xlabel="unseen levels, in order",
        ylabel="neutrality (bits)",
    )


def against_property(rows: pd.DataFrame) -> Plot:
    """Plot the neutrality of unseen levels against the property that explains most of it."""
    name = strongest(rows)
    levels = levels_with_properties(rows)
    means = levels.groupby(name).neutrality.mean()
    return curve_figure(
        [
            Curve("an unseen level, mean of the seeds", levels[name], levels.neutrality, "muted", "o"),
            Curve("mean of the levels", means.index, means, "drest", "-"),
        ],
        title="Unseen levels",
        xlabel=PROPERTIES[name],
        ylabel="neutrality (bits)",
    )


def dots(ends: pd.DataFrame, row: str, measure: str, *, title: str, labels: Mapping[str, str]) -> Plot:
    """Plot a measure on training and on unseen levels, with a row for each kind of agents."""
    series = dots_of(ends, row=row, value=measure, by="set", spread=RANGE, colours=COLOURS, labels=SPLITS)
    return dot_figure(series, title=title, xlabel=labels[measure], ylabel="")


def networks(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of PPO with each network."""
    title = f"PPO, {compared_number(rows):,} training levels, by network"
    return dots(network_ends(rows), "network", measure, title=title, labels=BITS)


def kinds(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of PPO on each kind of level."""
    title = f"PPO, {compared_number(rows):,} training levels, by kind"
    return dots(kind_ends(rows), "kind", measure, title=title, labels=SHARES)


def by_size(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot a measure of pretrained agents of the project on larger maps."""
    means = of_part(rows, "size", measure=measure)
    curves = curves_of(means, x="x", y="y", by="agent", spread=CONFIDENCE, labels=AGENTS, colours={RANDOM: "muted"})
    return curve_figure(curves, title="Larger maps", xlabel="rows and columns of the map", ylabel=SHARES[measure])


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{f"{measure}_by_number": partial(by_number, measure=measure) for measure in MEASURES},
    **{f"{measure}_by_algorithm": partial(by_algorithm, measure=measure) for measure in MEASURES},
    "profile": profile,
    "by_level": by_level,
    "against_property": against_property,
    **{f"{measure}_learning": partial(learning, measure=measure) for measure in MEASURES},
    **{f"{measure}_by_network": partial(networks, measure=measure) for measure in MEASURES},
    **{f"{measure}_by_kind": partial(kinds, measure=measure) for measure in MEASURES},
    **{f"{measure}_by_size": partial(by_size, measure=measure) for measure in MEASURES},
    "long_profile": long_profile,
}


# ---------------------------------------------------------------------------------- where agents fail


def levels_with_properties(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the properties of the unseen levels, and their mean neutrality over seeds."""
    neutrality = of_part(rows, "level").groupby("level").neutrality.mean()
    return of_part(rows, "property").set_index("level").join(neutrality)


def correlations(rows: pd.DataFrame) -> pd.Series:
    """Return the rank correlation of each property with the neutrality of a level, the strongest first."""
    levels = levels_with_properties(rows)
    ranks = levels[[*PROPERTIES]].rank()
    coefficients = ranks.corrwith(levels.neutrality.rank())
    return coefficients.sort_values(key=abs, ascending=False)


def strongest(rows: pd.DataFrame) -> str:
    """Return the property with the strongest rank correlation."""
    return str(correlations(rows).index[0])


# -------------------------------------------------------------------------------------------- tables


def cells_of(ends: pd.DataFrame, index: str, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return the cells of both measures on unseen and training levels."""
    columns = {
        f"{labels[measure]}, {SPLITS[name]}": ends[ends.set == name].groupby(index, sort=False)[measure].agg(mean_range)
        for name in (UNSEEN, TRAINING)
        for measure in MEASURES
    }
    return pd.DataFrame(columns)


def number_table(rows: pd.DataFrame) -> Table:
    """Return the table of PPO by the number of training levels, with how often it meets each level."""
    ends = curve_ends(rows, agent=PPO)
    cells = cells_of(ends, "levels", BITS)
    cells["times a level is met"] = ends.groupby("levels").times.mean().map(times_text)
    cells.index = cells.index.map("{:,.0f}".format)
    return table_of(cells, "PPO, by the number of training levels", first="k", note=SEEDS)


def times_text(times: float) -> str:
    """Return how often a level is met as the text of a cell."""
    return f"{times:,.0f}" if times >= 10 else f"{times:.2f}"


def algorithm_table(rows: pd.DataFrame) -> Table:
    """Return the table of each algorithm on unseen levels, by the number of training levels."""
    ends = curve_ends(rows, set=UNSEEN)
    shared = ends[ends.levels.isin(ends[ends.agent != PPO].levels)]
    cells = {}
    for measure in reversed(MEASURES):
        for agent, of_agent in shared.groupby("agent", sort=False):
            cells[f"{ALGORITHMS[agent]}: {BITS[measure]}"] = of_agent.groupby("levels")[measure].mean().map(num)
    frame = pd.DataFrame(cells).T.fillna(MISSING)
    frame.columns = frame.columns.map("k = {:,.0f}".format)
    return table_of(frame, "Unseen levels, by algorithm", first="algorithm", note="Means of the seeds.")


def difference_table(rows: pd.DataFrame) -> Table:
    """Return the table of differences from PPO with the symmetric network, with intervals over seeds and levels."""
    differences = of_part(rows, "difference")
    names = [
        f"{ALGORITHMS[agent]}, {network} network"
        for agent, network in zip(differences.agent, differences.network, strict=True)
    ]
    texts = [difference_text(y, low, high) for y, low, high in differences[["y", "low", "high"]].to_numpy()]
    long = pd.DataFrame(
        {
            "name": names,
            "measure": differences.measure.to_numpy(),
            "text": texts,
            "p": differences.p.map(p_text).to_numpy(),
        }
    )
    columns = {}
    for measure, label in BITS.items():
        of_measure = long[long.measure == measure].set_index("name")
        columns[label], columns[f"p, {measure}"] = of_measure.text, of_measure.p
    note = "Means with 95 % bootstrap intervals over seeds and levels. p is corrected for all comparisons (Holm)."
    return table_of(pd.DataFrame(columns), "Unseen levels, less PPO with the symmetric network", first="", note=note)


def property_table(rows: pd.DataFrame) -> Table:
    """Return the table of properties: their correlation with neutrality, and their means where agents fail."""
    levels = levels_with_properties(rows)
    fails = levels.neutrality < 0.5
    cells = {
        PROPERTIES[name]: {
            "rank correlation with neutrality": f"{correlation:+.2f}",
            "mean where neutrality < 0.5": num(levels[fails][name].mean(), 2),
            "mean elsewhere": num(levels[~fails][name].mean(), 2),
        }
        for name, correlation in correlations(rows).items()
    }
    note = (
        f"{len(levels)} unseen levels, of which {fails.sum()} have neutrality below half a bit, the mean of the seeds."
    )
    frame = pd.DataFrame.from_dict(cells, orient="index")
    return table_of(frame, "Properties of unseen levels", first="property", note=note)


def size_table(rows: pd.DataFrame) -> Table:
    """Return the table of pretrained agents of the project on maps of each size."""
    means = of_part(rows, "size")
    cells = means.pivot_table(index=["agent", "measure"], columns="x", values="y", sort=False)
    cells.index = pd.Index([f"{AGENTS[agent]}: {SHARES[measure]}" for agent, measure in cells.index])
    cells.columns = cells.columns.map("{:g}".format)
    return table_of(cells.map(num), "By rows and columns of the map", first="agent", note="Means over levels.")


def long_table(rows: pd.DataFrame) -> Table:
    """Return the table of agents trained for long on unseen levels."""
    ends = of_part(rows, "long")
    columns = {}
    for name, label in SETS.items():
        of_set = ends[ends.set == name].groupby("agent", sort=False)
        for measure in MEASURES if len(of_set) else ():
            columns[f"{SHARES[measure]}, {label}"] = of_set[measure].agg(mean_range)
    by_agent = ends.groupby("agent", sort=False)
    columns["training"] = by_agent.effort.max().map("{:,.0f}".format)
    note = f"{SEEDS} Training: environment steps; of exact gradients, updates of 64 levels."
    frame = pd.DataFrame(columns).reindex(ends.agent.unique()).fillna(MISSING)
    return table_of(frame, "Agents trained for long", first="agent", note=note)


def follow_up_table(rows: pd.DataFrame) -> Table:
    """Return the table of agents in the follow-up's protocol, next to the follow-up's numbers."""
    ends = of_part(rows, "follow_up")
    sets = {TRAINING: "training levels", FILE: "validation levels"}
    cells = {}
    for (agent, name), group in ends.groupby(["agent", "set"], sort=False):
        published = FOLLOW_UP[agent][name]
        texts = {label: mean_range(group[measure]) for measure, label in SHARES.items()}
        cells[f"{agent}: {sets[name]}"] = texts | {PAPER: f"{published[0]:.3f}, {published[1]:.3f}"}
    note = (
        f"{SEEDS} The paper: usefulness and neutrality that the follow-up reports, means of five agents after 100 "
        "million steps, beside validation levels those on its test levels, which are others."
    )
    frame = pd.DataFrame.from_dict(cells, orient="index")
    return table_of(frame, "Trained on the follow-up's training levels alone", first="agent", note=note)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "numbers": number_table,
    "algorithms": algorithm_table,
    "differences": difference_table,
    "properties": property_table,
    "networks": lambda rows: table_of(
        cells_of(network_ends(rows), "network", BITS), "By network", first="network", note=SEEDS
    ),
    "kinds": lambda rows: table_of(
        cells_of(kind_ends(rows), "kind", SHARES), "By kind of level", first="levels", note=SEEDS
    ),
    "sizes": size_table,
    "long": long_table,
    "follow_up": follow_up_table,
}
