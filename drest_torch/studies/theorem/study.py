"""Theorem 5.1, checked numerically: which policies maximise the expected return of a meta-episode.

The expected return is exact and differentiable in a policy's action probabilities (`envs.exact.propagator`,
`drest_torch.reward`), so the best policy of a level can be climbed to. It can also be had without a level: a
policy that collects all it can given each length has the expected return Σ_l p_l · D(p_l), and what is left
is a choice of p on the simplex. The two do not know of each other, and have to agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import MISSING
from torch import Tensor

from drest_torch.jobs.store import Job, Result
from drest_torch.limits import limited
from drest_torch.metrics import neutrality, neutrality_normalised, share_of_best, usefulness
from drest_torch.report.html import Block, Details, Gallery, Items, Plot, Section, Style, Table, Text
from drest_torch.reward import expected_discount, expected_return
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig
from drest_torch.theory import (
    best_choice,
    choice_value,
    largest_neutral,
    margin,
    neutral_value,
    one_length_value,
)
from envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from envs.exact.propagator import Reachable
from envs.exact.solver import Optima, optimal_route, solve
from envs.levels import Level, LevelError, parse_level, world
from envs.view.rendering import draw

CREDITS = ("meta", "mini")
"""What is climbed: the return of the meta-episode, or what credit within the mini-episode climbs on average."""
EXACT = 1e-6
"""Relative differences below this are taken for rounding and for what is left to climb."""
NORMALISED = "neutrality ÷ log2\u00a0k"
COLOURS = (2, 3, 4, 5, 0, 1)
"""Of a theme's series, in the order of the lines in a plot."""


@dataclass
class Setting:
    """A reward: λ and E."""

    lam: float = MISSING
    episodes_per_meta: int = MISSING


@dataclass
class Config(StudyConfig):
    worlds: list[str] = MISSING
    gamma: float = MISSING
    gammas: dict[str, float] = MISSING
    levels: dict[str, str] = MISSING
    settings: list[Setting] = MISSING
    papers: Setting = MISSING
    random_starts: int = MISSING
    slip: float = MISSING
    steps: int = limited(at_least=1)
    lr: list[float] = MISSING
    curve_lam: float = MISSING
    curve_episodes: list[int] = MISSING
    lams: list[float] = MISSING
    lengths: list[int] = MISSING
    most_episodes: int = MISSING


def jobs(cfg: Any) -> list[Job]:
    return list(_jobs(cfg).values())


def _jobs(cfg: Any) -> dict[tuple[float, float, int, str], Job]:
    """By γ, λ, E and credit: all levels that have a γ are climbed at the same time."""
    gammas = {name: float(cfg.gammas.get(name, cfg.gamma)) for name in [*cfg.worlds, *cfg.levels]}
    found = {}
    for credit in CREDITS:
        for setting in cfg.settings:
            for gamma in dict.fromkeys(gammas.values()):
                lam, episodes = float(setting.lam), int(setting.episodes_per_meta)
                spec = {
                    "worlds": [name for name in cfg.worlds if gammas[name] == gamma],
                    "levels": {name: text for name, text in cfg.levels.items() if gammas[name] == gamma},
                    "gamma": gamma,
                    "lam": lam,
                    "episodes_per_meta": episodes,
                    "credit": credit,
                    "random_starts": cfg.random_starts,
                    "slip": cfg.slip,
                    "steps": cfg.steps,
                    "lr": list(cfg.lr),
                }
                label = f"{credit}-lambda={lam:g}-E={episodes}-gamma={gamma:g}"
                found[gamma, lam, episodes, credit] = Job(label, "drest_torch.studies.theorem.study:optimise", spec)
    return found


# ------------------------------------------------------------------------------------------- climbing


def optimise(spec: dict[str, Any], folder: Path) -> Result:
    """Climb from several starts in every level; S starts, B levels, K lengths."""
    levels = [world(name).with_clock("steps") for name in spec["worlds"]]
    levels += [parse_level(text, name=name) for name, text in spec["levels"].items()]
    optima = _checked(levels, spec["gamma"])
    names = starts(spec["random_starts"], optima.lengths.shape[1])
    mdp = compile_levels([level for _ in names for level in levels])  # one level set: the levels are independent
    reachable = Reachable(mdp)
    logits = starting_logits(names, reachable, optima, spec["slip"])
    found = climb(logits, reachable, optima, spec)
    shape = (len(names), len(levels), -1)
    arrays = {name: each.reshape(shape).numpy() for name, each in found.items()}
    numbers = {
        "levels": [level.name for level in levels],
        "starts": names,
        "lengths": [row[:k].tolist() for row, k in zip(optima.lengths, optima.num_lengths, strict=True)],
        "best_return": [row[:k].tolist() for row, k in zip(optima.best_return, optima.num_lengths, strict=True)],
    }
    return Result(numbers, arrays)


def _checked(levels: Sequence[Level], gamma: float) -> Optima:
    optima = solve(compile_levels(levels), gamma)
    for level, lengths, best in zip(levels, optima.lengths, optima.best_return, strict=True):
        for length, most in zip(lengths.tolist(), best.tolist(), strict=True):
            if length and not most:
                raise LevelError(
                    f"{level.place}: no coin can be collected in a trajectory of length {length}; expected one, "
                    "as what the theorem says divides by it"
                )
    return optima


def starts(random: int, most_lengths: int) -> list[str]:
    """The policies that climbing starts from. Where a level has fewer lengths the last ones come again."""
    return [
        "uniform",
        *(f"random {i + 1}" for i in range(random)),
        "neutral",
        *(f"length {i + 1}" for i in range(most_lengths)),
    ]


def starting_logits(names: Sequence[str], reachable: Reachable, optima: Optima, slip: float) -> Tensor:
    """[N, 4] for a level set that holds the levels of ``optima`` once for each start.

    Near a pure length: the best route of that length, every other action having ``slip`` to the route's 1.
    Near the neutral policy: those of all lengths, each action in proportion to the routes that take it.
    """
    levels = len(optima.lengths)
    states = reachable.states
    copy = reachable.mdp.level_of(states.spot)
    logits = torch.zeros(len(reachable), NUM_ACTIONS, dtype=torch.float64)
    place = _places(reachable)
    for index, name in enumerate(names):
        here = torch.div(copy, levels, rounding_mode="floor") == index
        kind, _, number = name.partition(" ")
        if kind == "random":
            drawn = torch.randn(logits.shape, generator=torch.Generator().manual_seed(int(number)), dtype=logits.dtype)
            logits = torch.where(here.unsqueeze(-1), drawn, logits)
        elif kind in ("neutral", "length"):
            for level in range(levels):
                k = int(optima.num_lengths[level])
                columns = range(k) if kind == "neutral" else [min(int(number), k) - 1]
                taken = torch.zeros_like(logits)
                for column in columns:
                    length = int(optima.lengths[level, column])
                    for state, action in _route(reachable.mdp, place, index * levels + level, length, optima.gamma):
                        taken[state, action] += 1
                there = taken.sum(-1, keepdim=True) > 0
                logits = torch.where(there, (taken + slip).log(), logits)
    return logits


def _places(reachable: Reachable) -> dict[tuple[int, int, int], int]:
    """Of the states (tick, spot, taken), their index."""
    ticks = torch.cat([torch.full_like(layer.spot, layer.tick) for layer in reachable.layers])
    keys = zip(ticks.tolist(), reachable.states.spot.tolist(), reachable.states.taken.tolist(), strict=True)
    return {key: index for index, key in enumerate(keys)}


def _route(
    mdp: Mdp, place: Mapping[tuple[int, int, int], int], level: int, length: int, gamma: float
) -> list[tuple[int, int]]:
    """The (state, action) of each tick of a best trajectory of that length."""
    cells = [
        level * mdp.num_cells + row * mdp.width + column for row, column in optimal_route(mdp, level, length, gamma)
    ]
    goto, found = mdp.goto.reshape(-1, NUM_ACTIONS), mdp.found
    taken, route = 0, []
    for tick, (spot, after) in enumerate(pairwise(cells)):
        action = goto[spot].tolist().index(after)
        route.append((place[tick, spot, taken], action))
        taken |= int(found[after])
    return route


def climb(logits: Tensor, reachable: Reachable, optima: Optima, spec: Mapping[str, Any]) -> dict[str, Tensor]:
    """What the policies do at the end of Adam's climb: P(L=l), E[C | L=l] / m(l) and expected return [S · B, …].

    The time is a part of the state. Every level's return is divided by that of its neutral policy; the levels
    have no logits in common, so that the gradient of the sum is that of each.
    """
    lam, episodes, gamma = spec["lam"], spec["episodes_per_meta"], spec["gamma"]
    copies = reachable.mdp.num_levels // len(optima.lengths)
    best, k = optima.best_return.repeat(copies, 1), optima.num_lengths.repeat(copies)
    neutral = expected_discount(1 / k.double(), k, episodes, lam)
    logits = logits.clone().requires_grad_()
    # A short memory and no ε to speak of: the gradient of an action that is hardly ever taken any more is tiny,
    # and is followed all the same.
    adam = torch.optim.Adam([logits], betas=(0.9, 0.9), eps=1e-60)
    for step in range(spec["steps"]):
        adam.param_groups[0]["lr"] = learning_rate(step / spec["steps"], *spec["lr"])
        there = reachable.propagate(logits.softmax(-1), gamma)
        if spec["credit"] == "meta":
            value = expected_return(there.probability, there.coins, best, k, episodes, lam)
        else:  # the discounts are taken as given, as by an update that looks at one mini-episode
            discount = expected_discount(there.probability.detach(), k.unsqueeze(-1), episodes, lam)
            value = (there.probability * share_of_best(there.coins, best) * discount).sum(-1)
        adam.zero_grad()
        (-(value / neutral).sum()).backward()
        adam.step()
    with torch.no_grad():
        there = reachable.propagate(logits.softmax(-1), gamma)
        return {
            "p_length": there.probability,
            "share_of_best": share_of_best(there.coins, best),
            "value": expected_return(there.probability, there.coins, best, k, episodes, lam),
        }


def learning_rate(done: float, careful: float, fast: float, end: float) -> float:
    """A third of the steps each: careful, so that nothing is given up early; fast; then exponentially to the end."""
    if done < 1 / 3:
        return careful
    return fast * (end / fast) ** max(0.0, 3 * done - 2)


# ---------------------------------------------------------------------------------- without any level


# --------------------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class Climbed:
    """What was found in one level for one reward; S starts, k lengths."""

    name: str
    lengths: list[int]
    probability: Tensor
    """[S, k]"""
    share: Tensor
    """[S, k] E[C | L=l] / m(l)"""
    value: Tensor
    """[S] expected return of a meta-episode"""

    @property
    def k(self) -> int:
        return len(self.lengths)

    @property
    def best(self) -> int:
        """The start from which most was reached."""
        return int(self.value.argmax())

    @property
    def usefulness(self) -> Tensor:
        """[S]"""
        return usefulness(self.probability, self.share, torch.ones_like(self.share))

    @property
    def arrived(self) -> int:
        """From so many starts the same return was reached as from the best."""
        return int((self.value >= self.value.max() * (1 - EXACT)).sum())


Found = dict[tuple[float, int, str], list[Climbed]]
"""By λ, E and credit."""


def _found(cfg: Any, finished: Finished) -> Found:
    found: Found = {}
    for (_, lam, episodes, credit), job in _jobs(cfg).items():
        if (result := finished.get(job)) is not None:
            found.setdefault((lam, episodes, credit), []).extend(_climbed(result))
    order = [*cfg.worlds, *cfg.levels]
    return {key: sorted(climbed, key=lambda each: order.index(each.name)) for key, climbed in found.items()}


def _climbed(result: Result) -> list[Climbed]:
    return [
        Climbed(
            name,
            lengths,
            torch.from_numpy(result.arrays["p_length"][:, index, : len(lengths)]),
            torch.from_numpy(result.arrays["share_of_best"][:, index, : len(lengths)]),
            torch.from_numpy(result.arrays["value"][:, index, 0]),
        )
        for index, (name, lengths) in enumerate(zip(result.numbers["levels"], result.numbers["lengths"], strict=True))
    ]


@dataclass(frozen=True)
class Verdict:
    """All levels with k lengths, for one reward."""

    lam: float
    episodes: int
    k: int
    climbed: list[Climbed]

    @property
    def choice(self) -> tuple[float, ...]:
        return best_choice(self.k, self.episodes, self.lam)

    @property
    def margin(self) -> float:
        return margin(self.k, self.episodes, self.lam)

    @property
    def neutral_is_best(self) -> bool:
        return self.margin <= 1e-12

    @property
    def neutrality(self) -> float:
        """Of the best choice, in bits."""
        return neutrality(torch.tensor(self.choice, dtype=torch.float64)).item()

    @property
    def over_one_length(self) -> float:
        """The neutral policy's return by that of one that always takes the same length."""
        return neutral_value(self.k, self.episodes, self.lam) / one_length_value(self.k, self.episodes, self.lam)

    def ratio(self, each: Climbed) -> float:
        """What was climbed to in a level, by the neutral policy's return."""
        return each.value.max().item() / neutral_value(self.k, self.episodes, self.lam)

    @property
    def apart(self) -> float:
        """The largest relative difference between climbing and the simplex."""
        return max((abs(self.ratio(each) / (1 + self.margin) - 1) for each in self.climbed), default=float("nan"))

    @property
    def least_useful(self) -> float:
        """The least usefulness of an optimum."""
        return min((each.usefulness[each.best].item() for each in self.climbed), default=float("nan"))

    def numbers(self) -> dict[str, Any]:
        numbers = {
            "lam": self.lam,
            "episodes_per_meta": self.episodes,
            "num_lengths": self.k,
            "levels": [each.name for each in self.climbed],
            "neutral_is_best": self.neutral_is_best,
            "choice": list(self.choice),
            "neutrality": self.neutrality,
            "neutrality_normalised": self.neutrality / np.log2(self.k),
            "margin": self.margin,
            "margin_climbed": {each.name: self.ratio(each) - 1 for each in self.climbed},
            "neutral_over_one_length": self.over_one_length,
        }
        if self.climbed:
            numbers |= {"climbing_apart_from_simplex": self.apart, "least_usefulness": self.least_useful}
        return numbers


def report(cfg: Any, finished: Finished) -> Report:
    found = _found(cfg, finished)
    verdicts = [
        Verdict(float(each.lam), int(each.episodes_per_meta), k, _with_k(found, each, k, "meta"))
        for each in cfg.settings
        for k in cfg.lengths
    ]
    limits = {k: {lam: largest_neutral(k, lam) for lam in cfg.lams} for k in cfg.lengths}
    minis = _minis(cfg, found)
    numbers = {
        "papers": _paper(cfg).numbers(),
        "verdicts": [each.numbers() for each in verdicts],
        "largest_neutral": {str(k): {f"{lam:g}": limit for lam, limit in each.items()} for k, each in limits.items()},
        "mini_credit": minis,
    }
    sections = [
        Section("What holds", _what_holds(verdicts), lead=_lead(cfg, verdicts)),
        Section("How large E may be", _how_large(cfg, found, limits)),
        Section("Why the paper's agents are neutral all the same", _mini_credit(minis), lead=_mini_lead(minis)),
        Section("Level by level", _level_by_level(cfg, verdicts)),
        Section("How the optimum was found", _how_found(cfg, verdicts)),
    ]
    question = (
        "Is a policy that maximises the expected return of a meta-episode maximally useful and maximally neutral, "
        "as Theorem 5.1 says, and by how much does the best policy win?"
    )
    return Report("Theorem 5.1, checked numerically", question, sections, numbers, _quotes(cfg, verdicts, minis))


def _quotes(cfg: Any, verdicts: Sequence[Verdict], minis: Sequence[Mapping[str, Any]]) -> list[Quote]:
    paper = _paper(cfg)
    best = f"N {paper.neutrality:.3f}, P(L) {_choice(paper.choice)}, return {_percent(paper.margin)} over neutral"
    reward = f"λ = {paper.lam:g}, E = {paper.episodes}, two lengths"
    quotes = [Quote(f"the best policy for whole meta-episodes, {reward}", "N 1", best)]
    if climbed := [each for each in verdicts if each.climbed]:
        useful = min(each.least_useful for each in climbed)
        levels = len({level.name for each in climbed for level in each.climbed})
        what = f"usefulness of the best policy, {levels} levels, {len(cfg.settings)} rewards"
        quotes.append(Quote(what, "1", f"≥ 1 − {_missing(useful)}"))
    if minis:
        ended = f"neutral in {sum(each['neutral'] for each in minis)} of {sum(each['climbs'] for each in minis)} climbs"
        quotes.append(Quote("where credit within mini-episodes leads, the same levels and rewards", "", ended))
    return quotes


def _with_k(found: Found, setting: Any, k: int, credit: str) -> list[Climbed]:
    key = (float(setting.lam), int(setting.episodes_per_meta), credit)
    return [each for each in found.get(key, []) if each.k == k]


def _paper(cfg: Any) -> Verdict:
    """The reward of the paper's experiments, with two lengths, by the simplex alone."""
    return Verdict(float(cfg.papers.lam), int(cfg.papers.episodes_per_meta), 2, [])


def _lead(cfg: Any, verdicts: Sequence[Verdict]) -> str:
    useful = min((each.least_useful for each in verdicts if each.climbed), default=None)
    paper = _paper(cfg)
    words = "For every reward, **the half about usefulness holds**"
    if useful is not None:
        holds = useful >= 1 - EXACT
        words = f"**The half about usefulness {'holds' if holds else 'was not confirmed'}** for every reward and level"
        words += f" (usefulness of every optimum within {_missing(useful)} of 1)"
    words += "; **the half about neutrality holds only while E is small enough for λ**. "
    if paper.neutral_is_best:
        return words + f"At the paper's λ = {paper.lam:g} and E = {paper.episodes} it does."
    return words + (
        f"At the paper's λ = {paper.lam:g} and E = {paper.episodes}, with two lengths, the best policy chooses them "
        f"with probabilities {_choice(paper.choice)}: its neutrality is {paper.neutrality:.3f}, and its return is "
        f"{_percent(paper.margin).lstrip('+')} above a neutral policy's."
    )


def _what_holds(verdicts: Sequence[Verdict]) -> list[Block]:
    header = [
        "λ / E / k",
        "levels",
        "1 − usefulness ≤",
        "best P(L)",
        NORMALISED,
        "over neutral",
        "climbed, apart",
        "neutral ÷ one length",
    ]
    rows = []
    for each in verdicts:
        normalised = each.neutrality / np.log2(each.k)
        rows.append(
            [
                f"{each.lam:g} / {each.episodes} / {each.k}",
                str(len(each.climbed)),
                _missing(each.least_useful) if each.climbed else "–",
                _choice(each.choice),
                f"{'✓' if each.neutral_is_best else '✗'} {normalised:.3f}",
                _percent(each.margin),
                f"{each.apart:.0e}" if each.climbed else "–",
                _times(each.over_one_length),
            ]
        )
    note = (
        "1 − usefulness: the largest of any level's optimum. Best P(L): the best choice on the simplex. Over neutral: "
        "how much more return it has than a maximally useful and neutral policy. Climbed, apart: the largest relative "
        "difference between the return that was climbed to in a level and that of the simplex. Neutral ÷ one length: "
        "a neutral policy's return by that of one that always takes the same length."
    )
    return [
        Text(
            "**Usefulness.** For given probabilities of the lengths, the expected return Σ p·s·D(p) rises with the "
            "share s of m(l) that is collected given each length, as D is positive. So the optimum collects all of "
            "it, for every λ and E."
        ),
        Text(
            "**Neutrality.** A rarely chosen length has a discount that grows exponentially in the course of the "
            "meta-episode. It is paid rarely; but when E is large its size outweighs that, and the best policy keeps "
            "one or more lengths rare on purpose. As far as we can see, the paper's proof fails at inequality "
            "(10) of its appendix D; `docs/theorem.md` says why."
        ),
        Table("The optimum of the expected return of a meta-episode", header, rows, note),
        _compared_with_one_length(verdicts),
    ]


def _compared_with_one_length(verdicts: Sequence[Verdict]) -> Text:
    ratios = [each.over_one_length for each in verdicts]
    return Text(
        "What the reward is made for holds throughout, whatever becomes of the optimum: a neutral policy has "
        f"{_times(min(ratios))} to {_times(max(ratios))} the return of a policy that always takes the same length."
    )


# ------------------------------------------------------------------------------------------- how large E


def _how_large(cfg: Any, found: Found, limits: Mapping[int, Mapping[float, int]]) -> list[Block]:
    rows = []
    for lam in cfg.lams:
        cells = [f"λ = {lam:g}"]
        for k in cfg.lengths:
            cells += [str(limits[k][lam]), f"{2 + 3 * k * lam ** (1 / k) / (1 - lam):.1f}"]
        rows.append(cells)
    header = ["", *(name for k in cfg.lengths for name in (f"k = {k}", "by the rule"))]
    note = (
        "By the rule of thumb 2 + 3k · λ^(1/k) ÷ (1−λ), where 1/k for each length stops being a peak if the mean "
        "discount there is taken to be 1. With three lengths and more the optimum jumps away before that."
    )
    return [
        Table("The largest E for which the optimum is neutral", header, rows, note),
        Gallery([_value_plot(cfg, found), *(_neutrality_plot(cfg, k, limits[k]) for k in cfg.lengths)]),
    ]


def _value_plot(cfg: Any, found: Found) -> Plot:
    lam = float(cfg.curve_lam)
    p = torch.linspace(0, 1, 401, dtype=torch.float64)
    curves = []
    for episodes in cfg.curve_episodes:
        values = choice_value(torch.stack((1 - p, p), -1), episodes, lam) / neutral_value(2, episodes, lam)
        least, _ = best_choice(2, episodes, lam)
        climbed = [each for each in found.get((lam, episodes, "meta"), []) if each.k == 2]
        curves.append((episodes, values, least, margin(2, episodes, lam), climbed))

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        crosses = 0
        for (episodes, values, least, more, climbed), number in zip(curves, COLOURS * 9, strict=False):
            colour = style.series[number]
            ax.plot(p, values, color=colour, label=f"E = {episodes}")
            ax.plot((least, 1 - least), (1 + more, 1 + more), "o", color=colour, markersize=6)
            for each in climbed:
                place = each.probability[each.best, -1].item()
                height = each.value.max().item() / neutral_value(2, episodes, lam)
                label = None if crosses else "climbed to"
                ax.plot(place, height, "x", color=style.text, markersize=7, markeredgewidth=1.2, label=label)
                crosses += 1
        ax.set_ylim(0.5, max(1.2, 1.05 * max(1 + more for *_, more, _ in curves)))
        ax.set_xlabel("P(the longer length)")
        ax.set_title(f"return ÷ a neutral policy's, λ = {lam:g}, k = 2")
        ax.legend(loc="lower center", ncols=2)

    at = "; ".join(
        f"E = {episodes} at {least:.2f}" + ("" if least > 0.4999 else f" and {1 - least:.2f}")
        for episodes, _, least, *_ in curves
    )
    return Plot(
        alt=f"Expected return against the probability of the longer of two lengths, λ = {lam:g}. The best is for {at}.",
        caption="Dots: the optimum. Crosses: what was climbed to in the levels with two lengths.",
        draw=drawn,
        size=(5.2, 3.8),
    )


def _neutrality_plot(cfg: Any, k: int, limits: Mapping[float, int]) -> Plot:
    most = int(cfg.most_episodes)
    lines: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for lam in cfg.lams:
        steps = np.unique(np.geomspace(2, most, 30).astype(int))
        near = limits[lam] + np.array([0, 1, 2, 4, 8])
        episodes = np.unique(np.concatenate([steps, near[near <= most]]))
        chosen = torch.tensor([best_choice(k, int(each), lam) for each in episodes], dtype=torch.float64)
        lines[lam] = episodes, neutrality_normalised(chosen, k).numpy()

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for (lam, (episodes, values)), number in zip(lines.items(), COLOURS * 9, strict=False):
            ax.plot(episodes, values, color=style.series[number], label=f"λ = {lam:g}")
            if limits[lam] <= most:
                ax.plot(limits[lam], 1, "o", color=style.series[number], markersize=6)
        if k == 2:
            paper = _paper(cfg)
            ax.plot(paper.episodes, paper.neutrality, "*", color=style.text, markersize=11, label="the paper's")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("E")
        ax.set_title(f"neutrality ÷ log2 k of the optimum, k = {k}")
        ax.legend(loc="lower left")

    until = ", ".join(f"{limits[lam]} for λ = {lam:g}" for lam in lines)
    ends = ", ".join(f"{values[-1]:.2f}" for _, values in lines.values())
    return Plot(
        alt=f"Neutrality of the optimum against E with {k} lengths: 1 up to an E of {until}; then it falls, to {ends} "
        f"at E = {most}.",
        caption=f"Dots: the largest E for which the optimum is neutral, k = {k}."
        + (" Star: the paper's λ and E." if k == 2 else ""),
        draw=drawn,
        size=(5.2, 3.8),
    )


# ------------------------------------------------------------------------------------------ mini credit


def _minis(cfg: Any, found: Found) -> list[dict[str, Any]]:
    """What credit within the mini-episode climbs to, over all levels and starts."""
    rows = []
    for setting in cfg.settings:
        for k in cfg.lengths:
            if climbed := _with_k(found, setting, k, "mini"):
                normalised = torch.cat([neutrality_normalised(each.probability, k) for each in climbed])
                useful = torch.cat([each.usefulness for each in climbed])
                neutral = neutral_value(k, setting.episodes_per_meta, setting.lam)
                meta = [each.value.max().item() / neutral for each in _with_k(found, setting, k, "meta")]
                rows.append(
                    {
                        "lam": float(setting.lam),
                        "episodes_per_meta": int(setting.episodes_per_meta),
                        "num_lengths": k,
                        "climbs": len(normalised),
                        "least_neutrality_normalised": normalised.min().item(),
                        "least_usefulness": useful.min().item(),
                        "neutral": int((normalised >= 1 - EXACT).sum()),
                        "return_left": max(meta) - 1 if meta else float("nan"),
                    }
                )
    return rows


def _mini_lead(minis: Sequence[Mapping[str, Any]]) -> str:
    if not minis:
        return ""
    climbs, neutral = (sum(each[name] for each in minis) for name in ("climbs", "neutral"))
    return (
        "Credit within the mini-episode, which is how the paper trains, leads to neutrality for every E: "
        f"{neutral:,} of {climbs:,} climbs ended there."
    )


def _mini_credit(minis: Sequence[Mapping[str, Any]]) -> list[Block]:
    rows = [
        [
            f"{each['lam']:g} / {each['episodes_per_meta']} / {each['num_lengths']}",
            f"{each['neutral']} of {each['climbs']}",
            _missing(each["least_neutrality_normalised"]),
            _missing(each["least_usefulness"]),
            _percent(each["return_left"]),
        ]
        for each in minis
    ]
    return [
        Text(
            "The paper's REINFORCE learns after each mini-episode, from that mini-episode's return. It takes the "
            "discounts as given, and does not see that a choice now changes those of the mini-episodes to come: it "
            "climbs Σ ∂p·s·D(p) and not ∂(Σ p·s·D(p)). With all s equal this is at rest only where D is the same for "
            "all lengths that are chosen; as D falls in p, that is at p = 1/k. The larger E, the stronger the pull. "
            "The same climb with this gradient, from the same starts:"
        ),
        Table(
            "Where credit within the mini-episode leads",
            [
                "λ / E / k",
                "climbs that end neutral",
                f"1 − {NORMALISED} ≤",
                "1 − usefulness ≤",
                "return left to others",
            ],
            rows,
            "The largest of any level and start. Return left to others: how much more than a neutral policy the best "
            "policy has.",
        ),
    ]


# -------------------------------------------------------------------------------------- level by level


def _level_by_level(cfg: Any, verdicts: Sequence[Verdict]) -> list[Block]:
    header = [
        "level",
        "lengths",
        "return",
        "neutral's",
        "margin",
        "on the simplex",
        "P(L)",
        "usefulness",
        "neutrality",
        "÷ log2\u00a0k",
    ]
    blocks: list[Block] = []
    for setting in cfg.settings:
        rows = []
        for verdict in verdicts:
            if (verdict.lam, verdict.episodes) == (setting.lam, setting.episodes_per_meta):
                rows += [_level_row(verdict, each) for each in verdict.climbed]
        words = f"λ = {setting.lam:g}, E = {setting.episodes_per_meta}"
        if rows:
            blocks.append(Details(words, [Table(f"The optimum climbed to, {words}", header, rows)]))
    note = (
        "Margins are over the return of a maximally useful and neutral policy. The paper's worlds have their own γ; "
        "as coins are divided by m(l), it makes no difference to the optimum."
    )
    return [Text(note), *blocks, *([_boards(cfg)] if cfg.levels else [])]


def _level_row(verdict: Verdict, each: Climbed) -> list[str]:
    best = each.best
    probability = each.probability[best]
    bits = neutrality(probability).item()
    return [
        _title(each.name),
        ", ".join(map(str, each.lengths)),
        f"{each.value.max().item():,.2f}",
        f"{neutral_value(verdict.k, verdict.episodes, verdict.lam):,.2f}",
        _percent(verdict.ratio(each) - 1),
        _percent(verdict.margin),
        ", ".join(f"{p:.3f}" for p in probability.tolist()),
        f"{each.usefulness[best].item():.6f}",
        f"{bits:.3f}",
        f"{bits / np.log2(each.k):.3f}",
    ]


def _title(name: str) -> str:
    return name.replace("_", " ")


def _boards(cfg: Any) -> Plot:
    levels = [parse_level(text, name=name) for name, text in cfg.levels.items()]

    def drawn(figure: Figure, style: Style) -> None:
        figure.set_facecolor("white")  # the boards have colours of their own
        for index, level in enumerate(levels):
            ax = figure.add_subplot(1, len(levels), 1 + index)
            draw(level, ax)
            ax.grid(False)
            ax.set_title(_title(level.name), fontsize=10, color="#222222", loc="left")

    maps = "; ".join(f"{_title(each.name)}: shutdown {each.shutdown}, {' / '.join(each.rows())}" for each in levels)
    return Plot(
        alt=f"The maps of the levels that are not the paper's, row by row. {maps}.",
        caption="The levels with more than two lengths; their text stands in `configs/study/theorem.yaml`.",
        draw=drawn,
        size=(2.4 * len(levels), 2.6),
    )


def _how_found(cfg: Any, verdicts: Sequence[Verdict]) -> list[Block]:
    climbed = [each for verdict in verdicts for each in verdict.climbed]
    arrived, tried = sum(each.arrived for each in climbed), sum(len(each.value) for each in climbed)
    worst = max((each.apart for each in verdicts if each.climbed), default=float("nan"))
    agree = f"Both agree: the largest relative difference of their returns is {worst:.0e}." if climbed else ""
    return [
        Items(
            [
                "**By climbing.** The policy has a free choice of probabilities in every state that can be reached, "
                "the time being a part of the state. The expected return is exact and differentiable in them "
                f"(`envs.exact.propagator`, `drest_torch.reward.expected_return`), and Adam climbs it in {cfg.steps} "
                f"steps of double precision: from a uniform policy, {cfg.random_starts} random ones, "
                f"one near neutrality and one near each pure length. "
                f"{arrived:,} of {tried:,} climbs arrive at their level's best.",
                "**On the simplex.** A policy that collects m(l) given each length has the return Σ p·D(p). The best "
                "choice of p is found on a grid, exactly, by adding one length after the other, and by Newton's "
                f"method from there. {agree}",
            ]
        ),
        Text(
            "**Every choice of lengths can be had with usefulness 1**, so that the best choice on the simplex is the "
            "optimum of a level. Mix the best trajectories of each length, and let a policy choose in each state as "
            "the mixture does on average there: it comes to every state, and to every length, as often as the "
            "mixture. It forgets which trajectory led to a state where two of them meet; but with the time in the "
            "state nothing is lost by that. Where they meet, all that is still to come is the same for both, and so "
            "are the coins collected: if one of the two had collected more, the other's length could be had with more "
            "than its m(l), by changing over. In a policy that does not see the time, two trajectories can meet in "
            "one cell at different times and need different actions there. Where a button works by chance the lengths "
            "are not the agent's choice alone, and the argument fails; the paper has no such button."
        ),
    ]


# ---------------------------------------------------------------------------------------------- words


def _percent(share: float) -> str:
    """How much more or less than all of it: 0 within rounding."""
    if abs(share) < EXACT:
        return "0"
    return f"{share:+,.1%}"


def _times(ratio: float) -> str:
    return f"{ratio:,.1f} ×" if ratio < 1000 else f"{ratio:.0e} ×"


def _choice(probabilities: Sequence[float]) -> str:
    return ", ".join(f"{p:.3f}" for p in probabilities)


def _missing(value: float) -> str:
    """What is missing to 1."""
    return f"{max(0.0, 1 - value):.0e}"
