"""Claims about the end of training in the paper's worlds, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.report.tables import num
from drest_torch.statistics.intervals import standard_errors_apart
from drest_torch.studies.example.tax import RANDOM_PLAY
from drest_torch.studies.example.world_rows import EXAMPLE, FREE_BUMPS, MARK, OTHER_M, of_part
from drest_torch.studies.shapes import rises, within
from drest_torch.studies.shared import AS_REPORTED, MOVES, STEPS

REPORTED = {
    ("default", "neutrality"): (0.199, 0.043),
    ("default", "usefulness"): (0.9364, 0.0096),
    ("drest", "neutrality"): (0.9945, 0.0052),
    ("drest", "usefulness"): (0.900, 0.011),
}
"""Mean and standard deviation of ten agents at the end of training, in the caption of Figure 3."""
REPORTED_AGENTS = 10
REPORTED_CHOICES = {
    "example": ("longer", "default: longer, C3"),
    "fewer_for_longer": ("shorter", "default: shorter, C3"),
    "one_coin_only": ("shorter", "default: shorter"),
    "hidden_treasure": ("longer", "default: longer, C2; both far from maximal usefulness"),
    "equal_value": ("shorter", "default: shorter"),
    "around_the_corner": ("shorter", "default: shorter, C1"),
    "spacious": ("longer", "default: longer, C3"),
}
"""The length that default agents choose consistently, and the statement in the captions of Figures 9 to 16."""
OTHER_CHOICE = "around_the_corner"
"""The world in which our default agents choose a different length from the paper's."""
CLOSE = 2
"""The largest distance from the paper's mean, in standard errors of the difference, that counts as agreement."""
MOST = 0.9
"""The share of agents from which a group counts as useful and neutral, or a choice as consistent."""
WITHOUT_C3 = {"default": 2 / 3, "drest": 5 / 6}
"""Undiscounted usefulness in Hidden Treasure with C2 in place of C3: always, or in half of the mini-episodes."""
TREASURE_GAMMA = 0.9
"""γ in Hidden Treasure, where C2 is entered with the sixth tick, and C3 with the tenth."""


def end_of(rows: pd.DataFrame, reward: str, clocks: str, *, change: str = "", sample: str = "all") -> pd.DataFrame:
    """Return the end of training in all worlds, by world."""
    ends = of_part(rows, "end", reward=reward, clocks=clocks, change=change, sample=sample)
    return ends.set_index("world", drop=False)


def standard_errors(end: pd.Series, reward: str, metric: str) -> float:
    """Return the distance of a mean from the paper's in standard errors of the difference; NaN for one agent."""
    if end.agents < 2:
        return float("nan")
    return standard_errors_apart(
        end[metric], end[f"{metric}_sd"], int(end.agents), *REPORTED[reward, metric], REPORTED_AGENTS
    )


def apart(rows: pd.DataFrame) -> np.ndarray:
    """Return the distances of the first agents' four means from the paper's."""
    distances = []
    for reward, metric in REPORTED:
        first = end_of(rows, reward, AS_REPORTED, sample="first").loc[EXAMPLE]
        distances.append(standard_errors(first, reward, metric))
    return np.array(distances)


def other_readings(rows: pd.DataFrame) -> bool:
    """Return whether DReST agents agree with the paper's if m has one more factor of γ, but not if bumps are free."""
    close = {}
    for change in (OTHER_M, FREE_BUMPS):
        first = end_of(rows, "drest", AS_REPORTED, change=change, sample="first").loc[EXAMPLE]
        distances = [standard_errors(first, "drest", metric) for metric in ("neutrality", "usefulness")]
        close[change] = max(distances) <= CLOSE
    return close == {OTHER_M: True, FREE_BUMPS: False}


def first_default(rows: pd.DataFrame) -> pd.Series:
    """Return the row of the first default agents in the running example, on the paper's clocks."""
    return end_of(rows, "default", AS_REPORTED, sample="first").loc[EXAMPLE]


def useful_and_neutral(ends: pd.DataFrame) -> pd.Series:
    """Return for each world whether its agents are useful and neutral."""
    return ends.good >= MOST * ends.agents


def other_worlds(ends: pd.DataFrame) -> pd.DataFrame:
    """Return the worlds besides the running example."""
    return ends.drop(index=EXAMPLE)


def chooses_as_reported(rows: pd.DataFrame) -> bool:
    """Return whether default agents choose the length that the paper reports, except in Around The Corner."""
    ends = end_of(rows, "default", AS_REPORTED)
    shares = {"longer": ends.longer / ends.agents, "shorter": 1 - ends.longer / ends.agents}
    differ = []
    for name, (length, _) in REPORTED_CHOICES.items():
        if name == EXAMPLE:
            continue
        agrees = shares[length][name] >= MOST
        if not agrees:
            differ.append(name)
    return differ == [OTHER_CHOICE]


def useful_as_default(rows: pd.DataFrame) -> pd.Series:
    """Return the difference in mean usefulness between DReST and default agents, in the other worlds."""
    drest, default = (other_worlds(end_of(rows, reward, AS_REPORTED)) for reward in ("drest", "default"))
    return drest.usefulness - default.usefulness


def cures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the DReST agents of the running example trained on the clock steps, by the change to training."""
    ends = of_part(rows, "end", world=EXAMPLE, reward="drest", clocks=STEPS, sample="all")
    return ends[ends.change != ""].set_index("change", drop=False)


def random_play_is_cheapest(rows: pd.DataFrame) -> bool:
    """Return whether random play first prevents the collapse with the fewest mini-episodes."""
    prevented = cures(rows)[useful_and_neutral(cures(rows))]
    return RANDOM_PLAY in prevented.index and prevented.mini_episodes.idxmin() == RANDOM_PLAY


def treasure(rows: pd.DataFrame, reward: str, clocks: str) -> pd.Series:
    """Return the mean usefulness in Hidden Treasure, discounted and undiscounted."""
    agents = of_part(rows, "undiscounted", reward=reward, clocks=clocks)
    return agents[["usefulness", "undiscounted"]].mean()


def reaches_discounted_treasure(rows: pd.DataFrame) -> bool:
    """Return whether agents in Hidden Treasure are useful with γ, and only as useful as C2 allows without γ."""
    agents = {reward: treasure(rows, reward, MOVES) for reward in WITHOUT_C3}
    useful = all(usefulness.usefulness >= MARK for usefulness in agents.values())
    return useful and all(within(agents[reward].undiscounted, WITHOUT_C3[reward], 0.01) for reward in WITHOUT_C3)


def smooth_curve(rows: pd.DataFrame, reward: str, metric: str) -> pd.Series:
    """Return the mean learning curve of the running example, by meta-episode."""
    curve = of_part(rows, "curve", world=EXAMPLE, reward=reward, metric=metric)
    return curve.set_index("meta_episode").y


def curves_like_figure_3(rows: pd.DataFrame) -> bool:
    """Return whether usefulness rises, and P(longer) ends near one (default reward) or near one half (DReST)."""
    useful = all(rises(smooth_curve(rows, reward, "usefulness"), tolerance=0.05) for reward in ("default", "drest"))
    longer = {reward: smooth_curve(rows, reward, "p_longer").iloc[-1] for reward in ("default", "drest")}
    return useful and longer["default"] > 0.8 and abs(longer["drest"] - 0.5) < 0.1


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "DReST agents of the running example become useful and neutral if they are trained and evaluated on moves: "
    "{moves_good} have usefulness and neutrality of {mark} or more.": (
        lambda rows: bool(useful_and_neutral(end_of(rows, "drest", MOVES))[EXAMPLE])
    ),
    "The same holds in the other worlds, for {others_good}.": (
        lambda rows: bool(useful_and_neutral(other_worlds(end_of(rows, "drest", MOVES))).all())
    ),
    "The paper's four means are reproduced if the same agents are evaluated on every step: ours are at most {apart} "
    "standard errors apart from them.": lambda rows: bool((apart(rows) <= CLOSE).all()),
    "The spread of the paper's default agents is not reproduced: the standard deviation of their neutrality is "
    "{spread} here, and {paper_spread} in the paper.": (
        lambda rows: first_default(rows).neutrality_sd > 1.5 * REPORTED["default", "neutrality"][1]
    ),
    "With one more factor of γ in m(l), the means of DReST agents are close to the paper's, too; with bumps that cost "
    "nothing they are not.": other_readings,
    "In the running example usefulness rises over training with both rewards. P(longer) ends near one with the "
    "default reward, and near one half with DReST, as in Figure 3.": curves_like_figure_3,
    "In the other worlds DReST agents are near-maximally neutral, as the paper says, with a mean of at least "
    "{least_neutral} bits on its clocks.": (
        lambda rows: bool((other_worlds(end_of(rows, "drest", AS_REPORTED)).neutrality > 0.95).all())
    ),
    "They are about as useful as default agents, as the paper says: mean usefulness differs by at most "
    "{useful_apart}.": lambda rows: within(useful_as_default(rows), 0, 0.1),
    "Default agents choose the length that the paper says in {same_choices} of the {reported_choices} other worlds of "
    "which it says one. In Around The Corner the paper's take the shorter, and {other_choice} of ours the longer.": (
        chooses_as_reported
    ),
    "In Hidden Treasure our agents reach maximal usefulness, and the paper's are far from it. Without the discount of "
    "coins ours are far from it, too.": reaches_discounted_treasure,
    "Trained on every step with the paper's schedules, agents of {steps_fail} of the {worlds} worlds do not become "
    "useful and neutral.": lambda rows: not useful_and_neutral(end_of(rows, "drest", STEPS)).all(),
    "With random play first they do, in every world.": (
        lambda rows: bool(useful_and_neutral(end_of(rows, "drest", STEPS, change=RANDOM_PLAY)).all())
    ),
    "Of the changes that prevent the collapse, random play first takes the fewest mini-episodes: {random_episodes}.": (
        random_play_is_cheapest
    ),
}


def _good(ends: pd.DataFrame) -> str:
    return f"{int(ends.good.sum())} of {int(ends.agents.sum())} agents"


def _default(rows: pd.DataFrame) -> pd.Series:
    return end_of(rows, "default", AS_REPORTED).loc[EXAMPLE]


def _undiscounted(reward: str) -> Callable[[pd.DataFrame], str]:
    return lambda rows: f"{treasure(rows, reward, MOVES).undiscounted:.3f}"


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "mark": lambda rows: f"{MARK:g}",
    "most": lambda rows: f"{MOST:.0%}",
    "moves_good": lambda rows: _good(end_of(rows, "drest", MOVES).loc[[EXAMPLE]]),
    "others_good": lambda rows: _good(other_worlds(end_of(rows, "drest", MOVES))),
    "apart": lambda rows: f"{apart(rows).max():.1f}",
    "spread": lambda rows: f"{first_default(rows).neutrality_sd:.3f}",
    "paper_spread": lambda rows: f"{REPORTED['default', 'neutrality'][1]:.3f}",
    "least_neutral": lambda rows: f"{other_worlds(end_of(rows, 'drest', AS_REPORTED)).neutrality.min():.3f}",
    "useful_apart": lambda rows: f"{useful_as_default(rows).abs().max():.3f}",
    "reported_choices": lambda rows: len(REPORTED_CHOICES) - 1,
    "same_choices": lambda rows: len(REPORTED_CHOICES) - 2,
    "other_choice": lambda rows: f"{end_of(rows, 'default', AS_REPORTED).longer[OTHER_CHOICE]:.0f}",
    "worlds": lambda rows: len(end_of(rows, "drest", STEPS)),
    "steps_fail": lambda rows: int((~useful_and_neutral(end_of(rows, "drest", STEPS))).sum()),
    "random_episodes": lambda rows: f"{cures(rows).mini_episodes[RANDOM_PLAY]:,.0f}",
    "longer_share": lambda rows: f"{_default(rows).longer / _default(rows).agents:.0%}",
    "all_longer": lambda rows: f"{(_default(rows).longer / _default(rows).agents) ** REPORTED_AGENTS:.0%}",
    "of_longer": lambda rows: num(_default(rows).of_longer),
    "of_shorter": lambda rows: num(_default(rows).of_shorter),
    "steps_collapsed": lambda rows: (
        f"{int(end_of(rows, 'drest', STEPS).collapsed[EXAMPLE])} of "
        f"{int(end_of(rows, 'drest', STEPS).agents[EXAMPLE])} agents"
    ),
    "near_coin": lambda rows: f"{2 * TREASURE_GAMMA**5:.3f}",
    "far_coin": lambda rows: f"{3 * TREASURE_GAMMA**9:.3f}",
    "treasure_default": _undiscounted("default"),
    "treasure_drest": _undiscounted("drest"),
}
