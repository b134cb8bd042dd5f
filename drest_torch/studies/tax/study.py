"""The shutdownability tax (section 7.2): how much longer DReST agents take to become useful than default ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.report.blocks import Block, Details, Gallery, Items, Plot, Section, Table, Text
from drest_torch.report.plots import THREE_ABREAST, Curves, training_plot
from drest_torch.report.style import Style
from drest_torch.statistics.bootstrap import Interval, bootstrap, median, ratio
from drest_torch.statistics.hitting_times import hitting_times, moving_average
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig
from envs.levels import world

PAPERS, MOVES = "moves / steps", "moves / moves"
"""The clocks that the paper's figures were made on, as the study `example` found; and those that agents learn on."""


@dataclass
class Config(StudyConfig):
    world: str = MISSING
    worlds: list[str] = MISSING
    agents: int = MISSING
    shares: list[float] = MISSING
    headline: float = MISSING
    final_evaluations: int = MISSING
    window: int = MISSING
    small: float = MISSING
    early: dict[str, int] = MISSING
    level: float = MISSING
    resamples: int = MISSING
    training: Training = field(default_factory=Training)
    cure: dict[str, Any] = MISSING
    in_worlds: dict[str, Any] = MISSING


@dataclass(frozen=True)
class Case:
    """Agents of both rewards on a world, trained on one clock and evaluated on one."""

    world: str
    trained: str
    evaluated: str
    jobs: dict[str, Job]
    """By reward."""
    early: dict[str, Job]
    """By reward: the same agents' first mini-episodes, evaluated more often; may be empty."""
    random_episodes: int = 0
    """Of random play at the beginning, from whose end the time is counted."""

    @property
    def clocks(self) -> str:
        return f"{self.trained} / {self.evaluated}{', cured' if self.random_episodes else ''}"

    @property
    def title(self) -> str:
        return str(world(self.world).study["title"]).replace("The running example", "Running example")

    @property
    def name(self) -> str:
        return f"{self.title}, {self.clocks}"


def jobs(cfg: Any) -> list[Job]:
    if cfg.headline not in cfg.shares:
        shares = ", ".join(f"{share:g}" for share in cfg.shares)
        raise ConfigError(f"study.headline={cfg.headline:g}; expected one of study.shares, {shares}")
    found = [job for case in _cases(cfg) for job in (*case.jobs.values(), *case.early.values())]
    return list({job.digest(): job for job in found}.values())


def _cases(cfg: Any) -> list[Case]:
    cases = []
    for name in (cfg.world, *cfg.worlds):
        changes = {} if name == cfg.world else cfg.in_worlds
        runs = {reward: _job(cfg, name, "moves", reward, **changes) for reward in REWARDS}
        early = {reward: _job(cfg, name, "moves", reward, "-early", **{**changes, **cfg.early}) for reward in REWARDS}
        cases += [Case(name, "moves", clock, runs, early) for clock in ("moves", "steps")]
        if name == cfg.world:
            runs = {reward: _job(cfg, name, "steps", reward, "-cured", **cfg.cure) for reward in REWARDS}
            cases.append(Case(name, "steps", "steps", runs, {}, cfg.cure["random_episodes"]))
    return cases


def _job(cfg: Any, name: str, clock: str, reward: str, suffix: str = "", **changes: Any) -> Job:
    return agents_job(
        cfg.training,
        label=f"{name}-{clock}-{reward}{suffix}",
        world=name,
        clock=clock,
        reward=reward,
        agents=cfg.agents,
        evaluated_on=("moves", "steps") if clock == "moves" else ("steps",),
        **changes,
    )


# ---------------------------------------------------------------------------------------------- times


@dataclass(frozen=True)
class Agents:
    """The agents of a case that have one reward."""

    episodes: np.ndarray
    """[T] mini-episodes played, since random play has ended."""
    usefulness: np.ndarray
    """[T, A]"""
    final: np.ndarray
    """[A] their final usefulness"""
    longer: float
    """The share of them that prefers the longest trajectory at the end."""


def _agents(cfg: Any, case: Case, result: Result, early: Result | None) -> Agents:
    name = f"{case.evaluated}/usefulness"
    episodes, usefulness = result.arrays["episodes"], result.arrays[name].astype(float)
    final = usefulness[-cfg.final_evaluations :].mean(0)
    if early is not None:
        later = episodes > early.arrays["episodes"][-1]
        episodes = np.concatenate([early.arrays["episodes"], episodes[later]])
        usefulness = np.concatenate([early.arrays[name].astype(float), usefulness[later]])
    longer = (last(result, case.evaluated, "p_length")[:, -1] > 0.5).mean()
    return Agents(np.maximum(episodes - case.random_episodes, 0), usefulness, final, float(longer))


@dataclass(frozen=True)
class Tax:
    """What a case comes to."""

    case: Case
    default: Agents
    drest: Agents
    cfg: Any

    def agents(self, reward: str) -> Agents:
        return self.drest if reward == "drest" else self.default

    def times(self, reward: str, share: float, *, for_good: bool = True, common: bool = False) -> np.ndarray:
        """[A] until so much of its own final usefulness, or, in ``common``, of the default agents' median one."""
        agents = self.agents(reward)
        final = np.median(self.default.final) if common else agents.final
        return hitting_times(
            agents.episodes, agents.usefulness, share * final, window=self.cfg.window, for_good=for_good
        )

    def time(self, reward: str, share: float) -> Interval:
        """The median agent's, in thousands."""
        return bootstrap(self.times(reward, share) / 1000, median, level=self.cfg.level, resamples=self.cfg.resamples)

    def ratio(self, share: float, *, for_good: bool = True, common: bool = False) -> Interval:
        """DReST ÷ default."""
        drest, default = (self.times(each, share, for_good=for_good, common=common) for each in ("drest", "default"))
        return ratio(drest, default, level=self.cfg.level, resamples=self.cfg.resamples)

    @cached_property
    def ratios(self) -> dict[float, Interval]:
        return {share: self.ratio(share) for share in self.cfg.shares}

    @cached_property
    def common(self) -> Interval:
        """The ratio at the headline's share of the default agents' median final usefulness."""
        return self.ratio(self.cfg.headline, common=True)

    @property
    def later(self) -> float:
        """By so many thousand mini-episodes the median DReST agent gets to the headline's share."""
        drest, default = (np.median(self.times(each, self.cfg.headline)) for each in ("drest", "default"))
        return float(drest - default) / 1000

    @property
    def worst(self) -> float:
        """The share with the largest ratio, of those that have one."""
        known = {share: each.estimate for share, each in self.ratios.items() if not np.isnan(each.estimate)}
        return max(known, key=lambda share: known[share])

    @property
    def prefers_longer(self) -> bool:
        """Whether most default agents do."""
        return self.default.longer > 0.5

    def numbers(self) -> dict[str, Any]:
        return {
            "clocks": self.case.clocks,
            "final": {reward: float(np.median(self.agents(reward).final)) for reward in REWARDS},
            "default_longer": self.default.longer,
            "thousands": {
                reward: {f"{share:g}": _three(self.time(reward, share)) for share in self.cfg.shares}
                for reward in REWARDS
            },
            "ratio": {f"{share:g}": _three(each) for share, each in self.ratios.items()},
            "ratio_of_default_final": _three(self.common),
            "thousands_later": self.later,
            "never": {
                reward: {f"{s:g}": int(np.isinf(self.times(reward, s)).sum()) for s in self.cfg.shares}
                for reward in REWARDS
            },
        }


def _three(interval: Interval) -> list[float]:
    return [interval.estimate, interval.low, interval.high]


# --------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    taxes = [tax for case in _cases(cfg) if (tax := _tax(cfg, case, finished)) is not None]
    numbers: dict[str, Any] = {"agents": cfg.agents, "headline": cfg.headline}
    for tax in taxes:
        numbers.setdefault("worlds", {}).setdefault(tax.case.world, {})[tax.case.clocks] = tax.numbers()
    sections = [
        Section("Is the tax small?", _small(cfg, taxes), lead=_lead(cfg, taxes)),
        Section("World by world", _by_world(cfg, taxes)),
        Section("The running example", _curves(cfg, taxes)),
        Section("By other definitions", _other_definitions(cfg, taxes)),
        Section("What is measured", _measured(cfg)),
    ]
    question = (
        "The paper finds, by eye, that DReST agents become useful about as quickly as default agents, and not many "
        "times more slowly: the shutdownability tax is small. Is it?"
    )
    return Report("The shutdownability tax (section 7.2)", question, sections, numbers, _quotes(cfg, taxes))


def _tax(cfg: Any, case: Case, finished: Finished) -> Tax | None:
    agents = {}
    for reward, job in case.jobs.items():
        if (result := finished.get(job)) is None:
            return None
        early = case.early.get(reward)
        agents[reward] = _agents(cfg, case, result, None if early is None else finished.get(early))
    return Tax(case, agents["default"], agents["drest"], cfg)


def _on(taxes: Sequence[Tax], clocks: str) -> list[Tax]:
    return [tax for tax in taxes if tax.case.clocks == clocks]


def _known(taxes: Sequence[Tax], share: float) -> list[Tax]:
    """Those that have a ratio: default agents were not there at once, and not both groups never."""
    return [t for t in taxes if np.median(t.times("default", share)) > 0 and not np.isnan(t.ratios[share].estimate)]


def _range(ratios: Sequence[Interval]) -> str:
    estimates = [each.estimate for each in ratios]
    return f"{min(estimates):.2f} to {max(estimates):.2f}".replace("inf", "∞")


def _most(taxes: Sequence[Tax], ratios: Sequence[Interval]) -> str:
    """Where the ratio is the largest."""
    return max(zip(taxes, ratios, strict=True), key=lambda each: each[1].estimate)[0].case.title


def _lead(cfg: Any, taxes: Sequence[Tax]) -> str:
    share = cfg.headline
    words = []
    if known := _known(_on(taxes, PAPERS), share):
        own = [tax.ratios[share] for tax in known]
        small = sum(each.estimate <= cfg.small for each in own)
        verdict = "small in every world" if small == len(own) else f"small in {small} of {len(own)} worlds"
        words.append(
            f"**On the paper's clocks the tax is {verdict}**: until {share:.0%} of its own final usefulness the median "
            f"DReST agent takes {_range(own)} times the median default agent's mini-episodes (most in "
            f"{_most(known, own)})."
        )
        if there := [tax for tax in known if not np.isnan(tax.common.estimate)]:
            common = [tax.common for tax in there]
            small = sum(each.estimate <= cfg.small for each in common)
            words.append(
                f"With the same mark for both, {share:.0%} of the **default** agents' final usefulness, it takes "
                f"{_range(common)} times (most in {_most(there, common)}), and the tax is small in {small} of "
                f"{len(known)}."
            )
    if known := _known(_on(taxes, MOVES), share):
        own = [tax.ratios[share] for tax in known]
        words.append(
            f"Evaluated on moves, where agents are useful sooner, it takes {_range(own)} times (most in "
            f"{_most(known, own)}); in mini-episodes that is at most {max(tax.later for tax in known):.1f} thousand "
            "more."
        )
    return " ".join(words)


def _small(cfg: Any, taxes: Sequence[Tax]) -> list[Block]:
    items = []
    for clocks in dict.fromkeys(tax.case.clocks for tax in taxes):
        if known := _known(_on(taxes, clocks), cfg.headline):
            ratios = {tax.case.title: tax.ratios[cfg.headline] for tax in known}
            slower = {name: each for name, each in ratios.items() if each.low > 1}
            faster = {name: each for name, each in ratios.items() if each.high < 1}
            large = [
                f"{tax.case.title} ({tax.ratios[tax.worst].estimate:.2f} at {tax.worst:.0%})"
                for tax in known
                if tax.ratios[tax.worst].estimate > cfg.small
            ]
            items.append(
                f"**{clocks}**: until {cfg.headline:.0%} DReST is slower in {_listed(slower)}, and faster in "
                f"{_listed(faster)}. Whatever the share, it takes at most {cfg.small:g} times as long"
                f"{' except in ' if large else ''}{', '.join(large)}."
            )
    blocks: list[Block] = [Items(items)] if items else []
    if (words := _two_trajectories(cfg, taxes)) is not None:
        blocks.append(words)
    plots = [_forest(cfg, clocks, _on(taxes, clocks)) for clocks in (PAPERS, MOVES) if _on(taxes, clocks)]
    return [*blocks, Gallery(plots)] if plots else blocks


def _listed(ratios: dict[str, Interval]) -> str:
    ordered = sorted(ratios.items(), key=lambda each: -each[1].estimate)
    return ", ".join(f"{name} ({each.estimate:.2f})" for name, each in ordered) or "no world"


def _two_trajectories(cfg: Any, taxes: Sequence[Tax]) -> Text | None:
    known = _known(_on(taxes, PAPERS), cfg.headline)
    groups = [
        [t.ratios[cfg.headline].estimate for t in known if t.prefers_longer is longer] for longer in (False, True)
    ]
    if not all(groups):
        return None
    shorter, longer = (f"{min(each):.2f} to {max(each):.2f}" for each in groups)
    return Text(
        "A DReST agent has two trajectories to learn, a default agent one, and which one that is makes a difference. "
        f"Where most default agents settle on the shorter trajectory the ratio is {shorter} ({len(groups[0])} worlds, "
        f"{PAPERS}); where they settle on the longer, which DReST agents have to learn as well, it is {longer} "
        f"({len(groups[1])} worlds)."
    )


def _forest(cfg: Any, clocks: str, taxes: Sequence[Tax]) -> Plot:
    shares = list(cfg.shares)
    shown = [each for tax in taxes for each in tax.ratios.values() if np.isfinite(each.estimate) and each.estimate > 0]
    most = 1.15 * min(max([2.5, *(max(each.high, 1 / max(each.low, 1e-9)) for each in shown)]), 16)

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        ax.axvline(1, color=style.text, linewidth=1)
        ax.axvline(cfg.small, color=style.muted, linewidth=1, linestyle=(0, (4, 4)))
        for index, share in enumerate(shares):
            colour = style.series[(2, 3, 4, 1, 0, 5)[index % 6]]
            apart = 0.17 * (index - (len(shares) - 1) / 2)
            for place, tax in enumerate(taxes):
                each = tax.ratios[share]
                if each in shown:
                    ax.plot(np.clip((each.low, each.high), 1 / most, most), (place + apart,) * 2, color=colour)
                    ax.plot(each.estimate, place + apart, "o", color=colour, markersize=4)
            ax.plot([], [], "o-", color=colour, markersize=4, label=f"{share:.0%}")
        ax.set_xscale("log")
        ticks = [tick for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8) if 1 / most < tick < most]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(1 / most, most)
        ax.set_yticks(range(len(taxes)), [tax.case.title for tax in taxes])
        ax.set_ylim(len(taxes) - 0.5, -0.5)
        ax.set_title(f"mini-episodes, DReST ÷ default, {clocks}", loc="right")
        figure.legend(loc="outside lower right", ncols=len(shares))

    told = "; ".join(f"{tax.case.title} {_interval(tax.ratios[cfg.headline])}" for tax in taxes)
    return Plot(
        alt=f"Ratio of the mini-episodes that DReST and default agents take, {clocks}, on a logarithmic axis, a row "
        f"for each world. At {cfg.headline:.0%} of the final usefulness: {told}.",
        caption=f"The medians' ratio and its {cfg.level:.0%} interval, by share of the final usefulness. Right of 1 "
        f"DReST is slower; the dashed line is at {cfg.small:g}.",
        draw=drawn,
        size=(5.2, 0.46 * len(taxes) + 1.3),
    )


# ---------------------------------------------------------------------------------------------- tables


def _by_world(cfg: Any, taxes: Sequence[Tax]) -> list[Block]:
    header = ["world", *(f"{share:.0%}" for share in cfg.shares), "final U default", "DReST"]
    blocks: list[Block] = []
    for clocks in dict.fromkeys(tax.case.clocks for tax in taxes):
        rows = [
            [
                tax.case.title,
                *(_interval(each) for each in tax.ratios.values()),
                *(f"{np.median(tax.agents(reward).final):.3f}" for reward in REWARDS),
            ]
            for tax in _on(taxes, clocks)
        ]
        blocks.append(Table(f"Mini-episodes, DReST ÷ default, {clocks}", header, rows))
    note = (
        f"Medians of {cfg.agents} agents of each kind and their ratio, with {cfg.level:.0%} bootstrap intervals over "
        "agents. A dash: there is no ratio, because both were there at the first evaluation, or never."
    )
    header = ["world", "reward", *(f"{share:.0%}" for share in cfg.shares)]
    times: list[Block] = []
    for clocks in dict.fromkeys(tax.case.clocks for tax in taxes):
        rows = [
            [tax.case.title, words, *(_interval(tax.time(reward, share), 1) for share in cfg.shares)]
            for tax in _on(taxes, clocks)
            for reward, words in REWARDS.items()
        ]
        times.append(Table(f"Thousands of mini-episodes of the median agent, {clocks}", header, rows))
    return [Text(note), *blocks, Details("The mini-episodes themselves", times)]


def _other_definitions(cfg: Any, taxes: Sequence[Tax]) -> list[Block]:
    share = cfg.headline
    header = ["world", "as above", "for the first time", "of the default's", "never, DReST"]
    rows = []
    for tax in _on(taxes, PAPERS):
        never = np.isinf(tax.times("drest", share, common=True)).sum()
        rows.append(
            [
                tax.case.title,
                _interval(tax.ratios[share]),
                _interval(tax.ratio(share, for_good=False)),
                _interval(tax.common),
                f"{never} of {cfg.agents}",
            ]
        )
    return [
        Text(
            "A share of an agent's **own** final usefulness says how quickly it learns what it will learn. Evaluated "
            "on the clock that counts every step, DReST agents end a little less useful than default agents. With the "
            "same mark for both, the share of the **default** agents' median final usefulness, that counts too:"
        ),
        Table(f"DReST ÷ default at {share:.0%}, {PAPERS}, by three definitions", header, rows),
    ]


def _curves(cfg: Any, taxes: Sequence[Tax]) -> list[Block]:
    plots = [_curve(cfg, tax) for tax in taxes if tax.case.world == cfg.world]
    text = (
        "Usefulness of all agents: each group's mean, and its first ten agents as faint lines. On the cured clock time "
        "is counted from the end of random play."
    )
    return [Text(text), Gallery(plots)] if plots else []


def _curve(cfg: Any, tax: Tax) -> Plot:
    groups, told = [], []
    shown = tax.default.episodes > 0 if tax.case.random_episodes else tax.default.episodes >= 0
    for reward, words in REWARDS.items():
        agents = tax.agents(reward)
        groups.append(Curves(words, reward, moving_average(agents.usefulness, cfg.window)[shown]))
        time = _interval(tax.time(reward, cfg.headline), 1)
        told.append(f"the median {words} agent reaches {cfg.headline:.0%} after {time} thousand")
    return training_plot(
        tax.default.episodes[shown] / 1000,
        groups,
        title=f"usefulness, {tax.case.clocks}",
        xlabel="thousands of mini-episodes",
        alt=f"Usefulness over training on the running example, {tax.case.clocks}: {', '.join(told)} mini-episodes.",
        reference=1.0,
        size=THREE_ABREAST,
    )


def _measured(cfg: Any) -> list[Block]:
    every = cfg.training.evaluate_every * cfg.training.episodes_per_meta
    early = cfg.early["evaluate_every"] * cfg.training.episodes_per_meta
    until = cfg.early["meta_episodes"] * cfg.training.episodes_per_meta
    return [
        Items(
            [
                f"**Final usefulness** of an agent: the mean of its last {cfg.final_evaluations} evaluations.",
                f"**The time until a share of it**: the mini-episodes until the moving average of usefulness over "
                f"{cfg.window} evaluations, as many before as after, is at least that share and stays so. It is for "
                "good because a default agent that changes from the shorter to the longer trajectory becomes less "
                "useful on the way; an agent that never gets there counts as infinite, and medians can take that.",
                f"Agents are evaluated every {every} mini-episodes; on the moves clock, where some learn in less, "
                f"every {early} until mini-episode {until:,}.",
                "**With random play first**, time is counted from its end, which is the same for both rewards.",
                "Both rewards have the paper's schedules of the learning rate and of ε, which set much of the pace: a "
                "ratio says how they compare on these, and not what each could do on schedules of its own.",
            ]
        )
    ]


def _quotes(cfg: Any, taxes: Sequence[Tax]) -> list[Quote]:
    quotes = []
    for clocks in dict.fromkeys(tax.case.clocks for tax in taxes):
        if known := _known(_on(taxes, clocks), cfg.headline):
            own = [tax.ratios[cfg.headline] for tax in known]
            where = f"{len(own)} worlds" if len(own) > 1 else known[0].case.title.lower()
            what = f"time to {cfg.headline:.0%} of final usefulness, DReST ÷ default, {clocks}, {where}"
            measured = f"{_range(own)}, most in {_most(known, own)}" if len(own) > 1 else _interval(own[0])
            quotes.append(Quote(what, "about 1, by eye" if clocks == PAPERS else "", measured))
    return quotes


def _interval(interval: Interval, digits: int = 2) -> str:
    """The text of an interval; a dash where there is no ratio, because there was no time to compare."""
    return "–" if np.isnan(interval.estimate) else interval.text(digits).replace("inf", "∞")
