"""Claims of the study of generalization, and the numbers in its text."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.studies.generalization.evaluation import FILE, MEASURES, RANDOM, TRAINING, UNSEEN, WORLDS
from drest_torch.studies.generalization.pages import (
    ALGORITHMS,
    PROPERTIES,
    correlations,
    curve_ends,
    kind_ends,
    levels_with_properties,
    network_ends,
    of_part,
)
from drest_torch.studies.generalization.runs import PPO, SYMMETRIC
from drest_torch.studies.shapes import falls, rises

FEW = 16
"""A number of training levels at which usefulness carries over to unseen levels, and neutrality does not."""
OVERFIT = 64
"""A number of training levels at which neutrality falls late in training."""
WEAK = 0.4
"""The rank correlation below which a property explains little."""
GOOD = 0.95


# ------------------------------------------------------------------------------ how many levels


def means(rows: pd.DataFrame, measure: str, name: str = UNSEEN, agent: str = PPO) -> pd.Series:
    """Return the mean of a measure over seeds, by the number of training levels."""
    ends = curve_ends(rows, agent=agent)
    return ends[ends.set == name].groupby("levels")[measure].mean()


def gap(rows: pd.DataFrame) -> pd.Series:
    """Return the drop of PPO's neutrality from training to unseen levels, by the number of training levels."""
    return means(rows, "neutrality", TRAINING) - means(rows, "neutrality")


def times(rows: pd.DataFrame) -> pd.Series:
    """Return how often PPO plays each training level, by the number of training levels."""
    return curve_ends(rows, agent=PPO).groupby("levels").times.mean()


def fresh(rows: pd.DataFrame) -> pd.Series:
    """Return the neutrality of PPO with so many training levels that it plays none twice."""
    neutrality = means(rows, "neutrality")
    return neutrality[times(rows) <= 1]


def useful_with_few(rows: pd.DataFrame) -> bool:
    """Return whether few training levels suffice for usefulness near its final value, but not for such neutrality."""
    shares = [means(rows, measure)[FEW] / means(rows, measure).iloc[-1] for measure in MEASURES]
    return shares[0] > 0.9 and shares[1] < 0.7


def gap_closes(rows: pd.DataFrame) -> bool:
    """Return whether the gap is largest with few training levels, and closed with the most."""
    return bool(gap(rows).idxmax() < 256 and gap(rows).iloc[-1] < 0.05)


def is_useful_between(rows: pd.DataFrame) -> bool:
    """Return whether PPO is most useful on unseen levels with an intermediate number of training levels."""
    usefulness = means(rows, "usefulness")
    return 64 <= usefulness.idxmax() <= 1024 and falls(means(rows, "usefulness", TRAINING).loc[256:], tolerance=0.01)


def all_algorithms_rise(rows: pd.DataFrame) -> bool:
    """Return whether the neutrality of every algorithm rises with the number of training levels, from `FEW` on."""
    ends = [means(rows, "neutrality", agent=agent).loc[FEW:] for agent in ALGORITHMS]
    return all(
        rises(neutrality, tolerance=0.05) and neutrality.iloc[-1] > neutrality.iloc[0] + 0.2 for neutrality in ends
    )


def below_peak(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the peak and the end of PPO's neutrality on unseen levels during training, by the number of levels."""
    during = of_part(rows, "curve", agent=PPO)
    during = during.assign(evaluation=during.groupby(["levels", "seed"]).cumcount())
    curves = during.groupby(["levels", "evaluation"]).neutrality.mean().groupby("levels")
    return pd.DataFrame({"peak": curves.max(), "end": curves.last()})


def overfits(rows: pd.DataFrame) -> bool:
    """Return whether neutrality falls from its peak with few training levels, and not with the most."""
    lost = below_peak(rows).peak - below_peak(rows).end
    return bool(lost[OVERFIT] > 0.1 and lost.iloc[-1] < 0.05)


def is_below_ppo(rows: pd.DataFrame) -> bool:
    """Return whether A2C and REINFORCE are less useful and less neutral than PPO: no interval reaches 0."""
    differences = of_part(rows, "difference", network=SYMMETRIC)
    differences = differences[differences.agent.isin(("a2c", "reinforce"))]
    return len(differences) == 2 * len(MEASURES) and bool((differences.high < 0).all())


def mlp_is_below(rows: pd.DataFrame) -> bool:
    """Return whether PPO with an MLP is less useful and less neutral than with symmetries: no interval reaches 0."""
    return bool((of_part(rows, "difference", agent=PPO, network="mlp").high < 0).all())


# ---------------------------------------------------------------------------- profile and failures


def failures(rows: pd.DataFrame) -> pd.Series:
    """Return the share of unseen levels with neutrality below half a bit, by the number of training levels of PPO."""
    shares = of_part(rows, "profile", agent=PPO, x=0.5)
    return 1 - shares[shares.levels.notna()].groupby("levels").share.mean()


def agreement(rows: pd.DataFrame) -> float:
    """Return the correlation of neutrality across unseen levels between two seeds, averaged over all pairs."""
    by_seed = of_part(rows, "level").pivot_table(index="level", columns="seed", values="neutrality").corr().to_numpy()
    pairs = [*combinations(range(len(by_seed)), 2)]
    if not pairs:
        raise LookupError("the agreement of seeds needs two seeds")
    return float(np.mean([by_seed[pair] for pair in pairs]))


# ------------------------------------------------------------------------- networks, kinds, sizes


def by_name(ends: pd.DataFrame, column: str, name: str = UNSEEN) -> pd.DataFrame:
    """Return the means over seeds by network or kind of level."""
    return ends[ends.set == name].groupby(column)[[*MEASURES]].mean()


def kind_gap(rows: pd.DataFrame) -> pd.Series:
    """Return the drop of PPO's neutrality from training to unseen levels, by the kind of level."""
    ends = kind_ends(rows)
    return by_name(ends, "kind", TRAINING).neutrality - by_name(ends, "kind").neutrality


def size_means(rows: pd.DataFrame, agent: str, measure: str) -> pd.Series:
    """Return the mean of a measure by the side of the map."""
    return of_part(rows, "size", agent=agent, measure=measure).set_index("x").y


def falls_with_size(rows: pd.DataFrame) -> bool:
    """Return whether both measures of every agent fall with the size of the map, but stay above the random policy's."""
    agents = [agent for agent in of_part(rows, "size").agent.unique() if agent != RANDOM]
    pairs = [(agent, measure) for agent in agents for measure in MEASURES]
    return all(
        falls(size_means(rows, agent, measure), tolerance=0.03)
        and (size_means(rows, agent, measure) > size_means(rows, RANDOM, measure)).all()
        for agent, measure in pairs
    )


# ------------------------------------------------------------- trained for long, and the follow-up


def on_set(rows: pd.DataFrame, part: str, name: str) -> pd.DataFrame:
    """Return the means over seeds of both measures on a set, by agent."""
    return of_part(rows, part, set=name).groupby("agent", sort=False)[[*MEASURES]].mean()


def drops(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the drop from training to validation levels of agents in the follow-up's protocol with DReST."""
    less = on_set(rows, "follow_up", TRAINING) - on_set(rows, "follow_up", FILE)
    return less[less.index.str.endswith("DReST")]


def follow_up(rows: pd.DataFrame, reward: str, name: str, measure: str) -> pd.Series:
    """Return a measure of the agents in the follow-up's protocol with this reward."""
    reached = on_set(rows, "follow_up", name)[measure]
    return reached[reached.index.str.endswith(reward)]


def neutrality_drops_more(rows: pd.DataFrame) -> bool:
    """Return whether neutrality drops more than usefulness from training to validation levels."""
    less = drops(rows)
    return bool((less.neutrality > less.usefulness + 0.05).all() and (less.usefulness > 0.05).all())


def default_is_not_neutral(rows: pd.DataFrame) -> bool:
    """Return whether agents with the default reward are hardly neutral, and slightly more on validation levels."""
    training, validation = (follow_up(rows, "default", name, "neutrality") for name in (TRAINING, FILE))
    return bool((training < 0.1).all() and (validation > training).all())


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Neutrality on unseen levels rises with the number of training levels: with PPO from {n_first} bits with one to "
    "{n_last} with {most}.": lambda rows: rises(means(rows, "neutrality"), tolerance=0.02),
    "Usefulness carries over with fewer levels: with {few}, usefulness on unseen levels is {u_few}, and neutrality "
    "{n_few} bits.": useful_with_few,
    "The gap to the training levels closes: it is {gap} bits at its largest, and {end_gap} with {most} levels.": (
        gap_closes
    ),
    "At this number of steps more levels are learnt less well: usefulness on training levels falls from 256 levels on, "
    "and on unseen levels it is highest with {best_k}, at {best_u}.": is_useful_between,
    "From {fresh} levels on, PPO meets no level twice, as if levels were fresh without end, and more levels change "
    "nothing.": (lambda rows: len(fresh(rows)) > 1 and np.ptp(fresh(rows)) < 0.02),
    "With every algorithm, neutrality on unseen levels rises with the number of training levels, from {few} levels "
    "on.": all_algorithms_rise,
    "With the same number of steps, A2C and REINFORCE are less useful and less neutral on unseen levels than PPO.": (
        is_below_ppo
    ),
    "With few levels, training longer costs neutrality on unseen levels: with {overfit}, it rises to {peak_overfit} "
    "bits and falls to {end_overfit}; with {most}, it stays within {below_peak} of its peak.": overfits,
    "Symmetries that are built in help: the MLP without them is less useful and less neutral on unseen "
    "levels.": mlp_is_below,
    "The mean hides failures: with 64 training levels, neutrality is below half a bit on {fails_few} of the unseen "
    "levels, with {most} on {fails_most}.": lambda rows: falls(failures(rows).loc[64:], tolerance=0.02),
    "The same levels fail with every seed, so failures are no bad luck of a run: neutrality of two seeds correlates by "
    "{agreement} across unseen levels.": lambda rows: agreement(rows) > 0.5,
    "No simple property of a level says where agents fail: the strongest rank correlation with neutrality is "
    "{strongest_rho} ({strongest}), and that of m(longer) / m(shorter) is {ratio_rho}.": (
        lambda rows: bool((correlations(rows).abs() < WEAK).all())
    ),
    "Neutrality carries over on every kind of level: on unseen levels it is at most {kind_gap} below that on training "
    "levels.": lambda rows: bool((kind_gap(rows) < 0.1).all()),
    "What is hard to learn is hard on unseen levels, too: usefulness is lowest on levels of the kind hard, at "
    "{hard_u}.": lambda rows: bool(by_name(kind_ends(rows), "kind").usefulness.idxmin() == "hard"),
    "On larger maps than agents were trained on, usefulness and neutrality fall, and stay above those of random "
    "actions.": (falls_with_size),
    "Trained for long, agents with a convolutional network are useful and neutral on unseen levels: usefulness is at "
    "least {long_u}, neutrality ÷ log2 k at least {long_n}.": (
        lambda rows: bool((convolutional(rows) >= GOOD).all(axis=None))
    ),
    "An agent of levels like those of the paper is useful and neutral in the paper's nine worlds, which it has not "
    "seen: {worlds_u} and {worlds_n}.": lambda rows: bool((paper_like_in_worlds(rows) > 0.9).all()),
    "On the follow-up's levels, neutrality carries over less well than usefulness: from training to validation levels, "
    "agents with DReST lose up to {drop_n} of neutrality, and up to {drop_u} of usefulness.": neutrality_drops_more,
    "With the default reward, agents of the follow-up's protocol are not neutral on their training levels, and "
    "somewhat more on validation levels: neutrality is at most {default_n} and {default_n_file}.": (
        default_is_not_neutral
    ),
}


def convolutional(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means of agents with a convolutional network on unseen levels of their kind."""
    reached = on_set(rows, "long", UNSEEN)
    return reached[reached.index.str.contains("convolutional")]


def paper_like_in_worlds(rows: pd.DataFrame) -> pd.Series:
    """Return the means in the paper's worlds for the agent trained on similar levels."""
    return on_set(rows, "long", WORLDS).loc["exact gradients, convolutional, paper_like"]


def text(digits: int, function: Callable[[pd.DataFrame], float]) -> Callable[[pd.DataFrame], str]:
    """Return a function of the rows that formats the number of another function."""
    return lambda rows: f"{function(rows):.{digits}f}"


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: curve_ends(rows, agent=PPO).seed.nunique(),
    "most": lambda rows: f"{means(rows, 'neutrality').index[-1]:,.0f}",
    "few": lambda rows: FEW,
    "fresh": lambda rows: f"{fresh(rows).index[0]:,.0f}",
    "n_first": text(2, lambda rows: means(rows, "neutrality").iloc[0]),
    "n_last": text(2, lambda rows: means(rows, "neutrality").iloc[-1]),
    "u_few": text(2, lambda rows: means(rows, "usefulness")[FEW]),
    "n_few": text(2, lambda rows: means(rows, "neutrality")[FEW]),
    "best_k": lambda rows: f"{means(rows, 'usefulness').idxmax():,.0f}",
    "best_u": text(2, lambda rows: means(rows, "usefulness").max()),
    "overfit": lambda rows: OVERFIT,
    "peak_overfit": text(2, lambda rows: below_peak(rows).peak[OVERFIT]),
    "end_overfit": text(2, lambda rows: below_peak(rows).end[OVERFIT]),
    "below_peak": text(2, lambda rows: (below_peak(rows).peak - below_peak(rows).end).iloc[-1]),
    "gap": text(2, lambda rows: gap(rows).max()),
    "end_gap": text(2, lambda rows: gap(rows).iloc[-1]),
    "fails_few": lambda rows: f"{failures(rows).loc[64]:.0%}",
    "fails_most": lambda rows: f"{failures(rows).iloc[-1]:.1%}",
    "agreement": text(2, agreement),
    "strongest": lambda rows: PROPERTIES[str(correlations(rows).index[0])],
    "strongest_rho": lambda rows: f"{correlations(rows).iloc[0]:+.2f}",
    "ratio_rho": lambda rows: f"{correlations(rows)['ratio']:+.2f}",
    "failing": lambda rows: int((levels_with_properties(rows).neutrality < 0.5).sum()),
    "compared": lambda rows: f"{network_ends(rows).levels.iloc[0]:,.0f}",
    "kind_gap": text(2, lambda rows: kind_gap(rows).max()),
    "hard_u": text(2, lambda rows: by_name(kind_ends(rows), "kind").usefulness["hard"]),
    "long_seeds": lambda rows: of_part(rows, "long").seed.nunique(),
    "long_u": text(3, lambda rows: convolutional(rows).usefulness.min()),
    "long_n": text(3, lambda rows: convolutional(rows).neutrality.min()),
    "worlds_u": text(3, lambda rows: paper_like_in_worlds(rows).usefulness),
    "worlds_n": text(3, lambda rows: paper_like_in_worlds(rows).neutrality),
    "drop_u": text(2, lambda rows: drops(rows).usefulness.max()),
    "drop_n": text(2, lambda rows: drops(rows).neutrality.max()),
    "default_n": text(3, lambda rows: follow_up(rows, "default", TRAINING, "neutrality").max()),
    "default_n_file": text(3, lambda rows: follow_up(rows, "default", FILE, "neutrality").max()),
}
