"""Figures and tables of the study `ratio`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import AGENTS, Curve, curve_figure, curves_of
from drest_torch.report.tables import MISSING, PAPER, num, table_of
from drest_torch.studies.ratio.parts import (
    HALF,
    LAM,
    REPORTED,
    by_coins,
    by_divisor,
    kinds,
    lower,
    paper_kind,
    reported,
    sources,
)
from drest_torch.studies.ratio.runs import ANY_REWARD, COLLAPSED
from drest_torch.studies.shared import MOVES, STEPS, of_part, title

MEASURES = {"p_longer": "P(longer)", "neutrality": "neutrality, bits"}
X_LABEL = "x, pay of the longer length ÷ pay of the shorter"


def prediction(rows: pd.DataFrame, measure: str, lam: float = LAM, clip: float = ANY_REWARD) -> pd.DataFrame:
    """Return the predicted curve of a measure over x."""
    return of_part(rows, "curve", lam=lam, clip_at=clip)[["x", measure]]


def points_figure(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot the points of all sources of x on the predicted curve."""
    curve = prediction(rows, measure)
    curves = [Curve("predicted, b(x)", curve.x, curve[measure], "muted")]
    looks = zip(("drest", "default", "green", "pink"), ("o", "s", "D", "x"), strict=True)
    for (source, points), (colour, look) in zip(sources(rows).items(), looks, strict=True):
        curves.append(Curve(source, points.x, points[measure], colour, look))
    return curve_figure(
        curves,
        title="One curve for three sources of x, λ = 0.9, E = 64",
        xlabel=X_LABEL,
        ylabel=MEASURES[measure],
        log="x",
        caption="A mark is the mean of the agents in one world, or one agent that was paid wrong values.",
    )


def paper_figure(rows: pd.DataFrame, measure: str) -> Plot:
    """Plot default and DReST agents against x, as Figure 6 of the paper does."""
    names = {1.0: "default", LAM: "DReST"}
    chosen = of_part(rows, "coins", clocks=MOVES, clip_at=ANY_REWARD)
    chosen = chosen[chosen.lam.isin(names)].rename(columns={f"{measure}_{end}": end for end in ("low", "high")})
    colours = {1.0: "default", LAM: "drest"}
    curves = curves_of(chosen, x="x", y=measure, by="lam", spread=AGENTS, colours=colours, labels=names)
    curve = prediction(rows, measure)
    curves.append(Curve("predicted, b(x)", curve.x, curve[measure], "text", "--"))
    if measure == "neutrality":
        curves.append(Curve("the paper: more than this", REPORTED, (HALF, HALF), "muted"))
    figure = f"Figure 6, {title('lopsided')}"
    return curve_figure(curves, title=figure, xlabel="x, the value of the coin Cx", ylabel=MEASURES[measure], log="x")


def lower_figure(rows: pd.DataFrame, *, clipped: bool) -> Plot:
    """Plot the neutrality of agents with several λ against x, and its prediction."""
    clips = of_part(rows, "range").clip_at
    clip = clips.min() if clipped else ANY_REWARD
    curves = []
    colours = ("drest", "green", "pink", "violet", "brown")
    chosen = of_part(rows, "coins", clocks=MOVES, clip_at=clip)
    lams = sorted(chosen[chosen.lam < 1].lam.unique(), reverse=True)
    for lam, colour in zip(lams, colours, strict=False):
        points = by_coins(rows, lam=lam, clip=clip)
        curve = prediction(rows, "neutrality", lam, clip)
        curves.append(Curve(f"λ = {lam:g}, mean of agents", points.x, points.neutrality, colour, "o"))
        curves.append(Curve(f"λ = {lam:g}, predicted", curve.x, curve.neutrality, colour))
    rewards = f"rewards of at most {clip:g}" if clipped else "any reward"
    text = f"{title('lopsided')}, {rewards}"
    return curve_figure(curves, title=text, xlabel=X_LABEL, ylabel=MEASURES["neutrality"], log="x")


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{f"points_{measure}": partial(points_figure, measure=measure) for measure in MEASURES},
    **{f"paper_{measure}": partial(paper_figure, measure=measure) for measure in MEASURES},
    "any_reward": partial(lower_figure, clipped=False),
    "clipped": partial(lower_figure, clipped=True),
}


# ----------------------------------------------------------------------------------------- tables


def paper_table(rows: pd.DataFrame) -> Table:
    """Return the table of the paper's statements next to measurements and predictions."""
    first = paper_kind(rows)
    inside = "x from 0.1 to 10"
    cells = {
        "x with neutrality above ½ bit": (first.measured, "0.1 to 10 at least", first.predicted),
    }
    for clocks in dict.fromkeys(of_part(rows, "coins").clocks):
        lowest = num(reported(rows, clocks).min())
        cells[f"lowest neutrality (bits), {inside}, {clocks}"] = (lowest, "> 0.5", MISSING)
    for clocks in (MOVES, STEPS):
        useful = num(by_coins(rows, clocks).usefulness.mean())
        cells[f"usefulness, mean over x, {clocks}"] = (useful, "approaches 1", MISSING)
    for row in lower(rows, clipped=False).itertuples():
        name = f"x with neutrality above ½ bit, λ = {row.lam:g}"
        cells[name] = (row.measured, "a wider range", row.predicted)
    wrong = by_divisor(rows, "longer")
    name = "lowest neutrality (bits) of a world, m wrong by a factor of up to 10"
    cells[name] = (num(wrong.neutrality.min()), "> 0.5", num(wrong.neutrality_predicted.min()))
    largest_seen = by_divisor(rows, "seen")
    name = "lowest neutrality (bits) of a world, m the largest return seen"
    cells[name] = (num(largest_seen.neutrality.min()), "suggested", "1.000")
    frame = pd.DataFrame.from_dict(cells, orient="index", columns=["measured", PAPER, "predicted"])
    note = "The clocks are those of training / evaluation: moves leave bumps into walls out, steps count them."
    return table_of(frame, "What the paper says of x, and what we find", first="Figure 6, section 7.3", note=note)


def lower_table(rows: pd.DataFrame) -> Table:
    """Return the table of λ, without a clip and with it."""
    agents = kinds(rows)
    cells = pd.DataFrame(
        {
            "x with neutrality > ½ bit": agents.measured,
            "predicted": agents.predicted,
            "lowest neutrality (bits)": agents.lowest.map(num),
            "lowest usefulness": agents.lowest_usefulness.map(num),
            "agents that collapse": agents.collapsed.map("{:.0%}".format),
            "predicted to collapse": agents.expected.map("{:.0%}".format),
        }
    )
    rewards = np.where(agents.clip_at == ANY_REWARD, "any reward", agents.clip_at.map("at most {:g}".format))
    cells.index = pd.Index([f"{lam:g}, {words}" for lam, words in zip(agents.lam, rewards, strict=True)])
    note = f"Means over agents, trained and evaluated on moves. To collapse: neutrality below {COLLAPSED:g} bits."
    return table_of(cells, "What a lower λ does, without a clip and with it", first="λ, rewards", note=note)


def world_table(rows: pd.DataFrame) -> Table:
    """Return the table of neutrality in each world by the divisor of coins."""
    usual = of_part(rows, "divisor", patience=1)
    named = usual[usual.divisor != "longer"]
    named = named.assign(world=named.world.map(title))
    means = named.pivot(index="world", columns="divisor", values="neutrality").reindex(named.world.unique())
    none = named[named.divisor == "none"].set_index("world")
    cells = pd.DataFrame(
        {
            "largest seen": means["seen"].map(num),
            "m": means["m"].map(num),
            "nothing": means["none"].map(num),
            "nothing, predicted": none.neutrality_predicted.map(num),
            "x": none.x.map("{:.2f}".format),
        }
    )
    note = "Means of agents, trained and evaluated on moves. x: m of the longer length ÷ m of the shorter."
    return table_of(cells, "Neutrality (bits) by what coins are divided by", first="world", note=note)


def factor_table(rows: pd.DataFrame) -> Table:
    """Return the table of neutrality for each factor by which m is wrong."""
    wrong = of_part(rows, "divisor", divisor="longer").sort_values(["patience", "factor"])
    groups = wrong.groupby(["patience", "factor"])
    means = groups.agg(
        mean=("neutrality", "mean"),
        lowest=("neutrality", "min"),
        predicted=("neutrality_predicted", "mean"),
        x=("x", "mean"),
    )
    cells = means[["mean", "lowest", "predicted"]].map(num)
    cells.columns = pd.Index(["mean of the worlds", "lowest world", "predicted"])
    cells["x"] = means.x.map("{:g}".format)
    longer = {patience: "" if patience == 1 else f", trained {patience:g} × as long" for patience in wrong.patience}
    cells.index = pd.Index([f"{factor:g}{longer[patience]}" for patience, factor in means.index])
    return table_of(cells, "Neutrality (bits) if m of the longer length is wrong by a factor", first="factor")


def values_table(rows: pd.DataFrame) -> Table:
    """Return the table of wrong values, with the distance of P(longer) from its prediction."""
    groups = of_part(rows, "values").groupby(["by", "pays", "best_of"], sort=False)
    ends = groups.agg(
        apart=("apart", "max"),
        neutrality=("neutrality", "min"),
        usefulness=("usefulness", "min"),
        low=("x", "min"),
        high=("x", "max"),
        runs=("x", "size"),
    )
    cells = pd.DataFrame(
        {
            "P(longer) differs by at most": ends.apart.map("{:.4f}".format),
            "lowest neutrality (bits)": ends.neutrality.map(num),
            "lowest usefulness": ends.usefulness.map(num),
            "x": [
                f"{row.low:.3g}" if row.low == row.high else f"{row.low:.3g} to {row.high:.3g}"
                for row in ends.itertuples()
            ],
            "agents": ends.runs.map(str),
        }
    )
    cells.index = pd.Index([f"{by}: {pays}, m of {best_of} coins" for by, pays, best_of in ends.index])
    note = (
        "ascent: gradient ascent with a policy that is free in every state, an agent for each world. network, table: "
        "commands of `drest train` in one world, a network by exact gradients and the paper's REINFORCE on a table."
    )
    return table_of(cells, "Wrong values: predicted and measured", first="trained by, paid", note=note)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "paper": paper_table,
    "lower": lower_table,
    "worlds": world_table,
    "factors": factor_table,
    "values": values_table,
}
