"""Networks in place of the table (section 8.1 of the paper): REINFORCE, A2C and PPO in each of its worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from omegaconf import MISSING, OmegaConf
from torch import Tensor

from drest_torch.errors import ConfigError
from drest_torch.evaluation.tabular import Tables
from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import SHOWN, Training, agents_job, last, p_longest
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.metrics import share_of_best
from drest_torch.report.blocks import Block, Details, Gallery, Items, Plot, Section, Table, Text
from drest_torch.report.plots import COLOURS, THREE_ABREAST, arrows_plot
from drest_torch.report.style import Style
from drest_torch.reward import group_discount
from drest_torch.statistics.bootstrap import Interval, mean, median, stratified_bootstrap
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig
from envs.dynamics.mdp import compile_levels
from envs.exact.propagator import Reachable, uniform_policy
from envs.exact.solver import solve
from envs.levels import Level, world

CLOCK = "steps"
TABLE = "table"
TITLES = {TABLE: "table", "reinforce": "REINFORCE", "a2c": "A2C", "ppo": "PPO"}
LOOKS = {TABLE: ("text", "s"), "reinforce": ("green", "o"), "a2c": ("pink", "^"), "ppo": ("violet", "D")}
"""Colour and marker of each kind of agent, in all plots."""
MEASURES = ("usefulness", "neutrality")


@dataclass
class Config(StudyConfig):
    worlds: list[str] = MISSING
    gamma: float = MISSING
    gammas: dict[str, float] = MISSING
    seeds: int = limited(at_least=1)
    default_seeds: int = MISSING
    run: dict[str, Any] = MISSING
    algorithms: dict[str, dict[str, Any]] = MISSING
    variants: dict[str, dict[str, Any]] = MISSING
    variants_of: list[str] = MISSING
    agents: int = limited(at_least=1)
    table: Training = field(default_factory=Training)
    tables: dict[str, dict[str, Any]] = MISSING
    mark: float = MISSING
    shown: str = MISSING


Kind = tuple[str, str, str]
"""World, algorithm (or table), reward."""


def jobs(cfg: Any) -> list[Job]:
    if cfg.shown not in cfg.worlds:
        raise ConfigError(f"study.shown={cfg.shown}; expected one of study.worlds, which are {', '.join(cfg.worlds)}")
    for algo in cfg.variants_of:
        if algo not in cfg.algorithms:
            raise ConfigError(f"study.variants_of={algo}; expected some of {', '.join(cfg.algorithms)}")
    return [job for several in (*_jobs(cfg).values(), *_variants(cfg).values()) for job in several]


def _jobs(cfg: Any) -> dict[Kind, list[Job]]:
    """The runs of each kind: all tabular agents are one run, networks one for each seed."""
    found: dict[Kind, list[Job]] = {}
    for name in cfg.worlds:
        for reward in REWARDS:
            changes = dict(cfg.tables.get(name, {}))
            found[name, TABLE, reward] = [
                agents_job(
                    cfg.table,
                    label=f"{name}-{TABLE}-{reward}",
                    world=name,
                    clock=CLOCK,
                    reward=reward,
                    agents=cfg.agents,
                    evaluated_on=(CLOCK,),
                    **changes,
                )
            ]
            for algo in cfg.algorithms:
                found[name, algo, reward] = _runs(cfg, name, algo, reward)
    return found


def _variants(cfg: Any) -> dict[tuple[str, str], list[Job]]:
    """By what is different and algorithm: DReST runs in the world that is shown."""
    return {
        (words, algo): _runs(cfg, cfg.shown, algo, "drest", f"-variant-{i}", changes)
        for i, (words, changes) in enumerate(cfg.variants.items())
        for algo in cfg.variants_of
    }


def _runs(cfg: Any, name: str, algo: str, reward: str, label: str = "", changes: Any = None) -> list[Job]:
    parts = [OmegaConf.to_container(each) for each in (cfg.run, cfg.algorithms[algo])]
    values = OmegaConf.merge(*parts, changes or {}, {"reward": {"gamma": _gamma(cfg, name)}})
    seeds = range(cfg.seeds if reward == "drest" else cfg.default_seeds)
    return training_jobs(f"{name}-{algo}-{reward}{label}", seeds, values, algo=algo, levels=name, reward=reward)


def _gamma(cfg: Any, name: str) -> float:
    return float(cfg.gammas.get(name, cfg.gamma))


# ------------------------------------------------------------------------------------------- what was found


@dataclass(frozen=True)
class Curve:
    """What became of one agent over its environment steps [T]."""

    steps: np.ndarray
    usefulness: np.ndarray
    neutrality: np.ndarray
    p_longer: np.ndarray

    def reaches(self, measure: str, level: float) -> float:
        """The environment steps after which a measure is first found at this level or above it; never is inf."""
        there = np.flatnonzero(getattr(self, measure) >= level)
        return float(self.steps[there[0]]) if len(there) else math.inf

    def arrival(self, mark: float) -> float:
        """The environment steps from which on both stay at the mark or above it; never is inf."""
        below = np.flatnonzero((self.usefulness < mark) | (self.neutrality < mark))
        after = below[-1] + 1 if len(below) else 0
        return float(self.steps[after]) if after < len(self.steps) else math.inf


@dataclass(frozen=True)
class Group:
    """The agents of one kind that have finished, A of them, at the end of training."""

    lengths: list[int]
    usefulness: np.ndarray
    neutrality: np.ndarray
    p_length: np.ndarray
    """[A, K]"""
    share_of_best: np.ndarray
    """[A, K] of m, given the length."""
    curves: list[Curve]
    seconds: float
    """Of a run, the median."""
    results: list[Result]

    def good(self, mark: float) -> np.ndarray:
        """[A]"""
        return (self.usefulness >= mark) & (self.neutrality >= mark)

    def typical(self) -> int:
        """The agent whose P(longer) is the median, of tabular ones among those whose tables are kept."""
        chosen = self.p_length[:SHOWN, -1]
        return int(np.argsort(chosen)[len(chosen) // 2])


Found = Mapping[Kind, Group]
"""Kinds none of whose runs has a result are missing."""


def _found(cfg: Any, finished: Finished) -> dict[Kind, Group]:
    found = {}
    for kind, several in _jobs(cfg).items():
        if results := [result for _, result in finished.of(several)]:
            found[kind] = _tabular(cfg, kind[0], *results) if kind[1] == TABLE else _networks(results)
    return found


def _networks(results: list[Result]) -> Group:
    def each(name: str) -> np.ndarray:
        return np.stack([result.arrays[f"train/{name}"] for result in results])

    lengths: list[int] = results[0].arrays["train/lengths"].tolist()
    names = (*MEASURES, f"p_length/{lengths[-1]}")
    curves = [
        Curve(result.arrays["steps"], *(result.arrays[f"eval/train/{name}"] for name in names)) for result in results
    ]
    seconds = float(np.median([result.numbers["wall_seconds"] for result in results]))
    useful, neutral = each("usefulness")[:, 0], each("neutrality")[:, 0]
    return Group(lengths, useful, neutral, each("p_length"), each("share_of_best"), curves, seconds, results)


def _tabular(cfg: Any, name: str, result: Result) -> Group:
    steps = _steps_of_table(cfg, name, result)
    values = [*(result.arrays[f"{CLOCK}/{each}"].astype(float).T for each in MEASURES), p_longest(result, CLOCK).T]
    curves = [Curve(steps, *each) for each in zip(*values, strict=True)]
    useful, neutral, p_length, share = (last(result, CLOCK, each) for each in (*MEASURES, "p_length", "share_of_best"))
    return Group(result.numbers["lengths"], useful, neutral, p_length, share, curves, math.nan, [result])


def _steps_of_table(cfg: Any, name: str, result: Result) -> np.ndarray:
    """[T] environment steps of an agent: known at the end of random play and at the end, and even between them."""
    episodes = result.arrays["episodes"]
    chance = _chance(name, _gamma(cfg, name))
    length = float(chance.lengths @ chance.probability)
    random = int({**cfg.table, **cfg.tables.get(name, {})}["random_episodes"])
    total = result.numbers["steps"] / result.arrays[f"{CLOCK}/usefulness"].shape[1]
    later = np.maximum(episodes - random, 0) / (episodes[-1] - random)
    return np.minimum(episodes, random) * length + later * (total - random * length)


@dataclass(frozen=True)
class Chance:
    """What there is in a world, and what a uniform policy comes upon."""

    lengths: np.ndarray
    best_return: np.ndarray
    probability: np.ndarray
    share_of_best: np.ndarray


@lru_cache
def _chance(name: str, gamma: float) -> Chance:
    mdp = compile_levels([_level(name)])
    optima, found = solve(mdp, gamma), Reachable(mdp).evaluate(uniform_policy, gamma)
    share = share_of_best(found.coins, optima.best_return)
    best = optima.best_return[0].numpy()
    return Chance(optima.lengths[0].numpy(), best, found.probability[0].numpy(), share[0].numpy())


def _level(name: str) -> Level:
    return world(name).with_clock(CLOCK)


def _groups(cfg: Any, found: Found, kind: str, reward: str) -> list[Group]:
    """One for each world in which a run of this kind has a result."""
    return [found[name, kind, reward] for name in cfg.worlds if (name, kind, reward) in found]


def _title(name: str) -> str:
    return str(world(name).study["title"])


def _kinds(cfg: Any) -> list[str]:
    return [TABLE, *cfg.algorithms]


def _name(kind: str) -> str:
    return TITLES.get(kind, kind)


# ------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    found = _found(cfg, finished)
    sections = [
        Section("What was asked", _asked(cfg, found)),
        Section("World by world", _worlds(cfg, found)),
        Section(f"Training in one world: {_title(cfg.shown)}", _training(cfg, found)),
        Section("What is hard", [*_hard(cfg, found), *_varied(cfg, found, finished)]),
        Section("Typical policies", _policies(cfg, found)),
    ]
    question = (
        "The paper trains tables of logits, and expects its reward to work with neural networks, PPO and A2C as well. "
        "Does it?"
    )
    return Report(
        "Networks in place of the table (section 8.1)", question, sections, _numbers(cfg, found), _quotes(cfg, found)
    )


@dataclass(frozen=True)
class Total:
    """The agents of an algorithm in all worlds."""

    agents: int
    good: int
    seeds: int
    """In each world; of one seed an interval says nothing."""
    usefulness: Interval
    neutrality: Interval

    def text(self, measure: str) -> str:
        interval: Interval = getattr(self, measure)
        return str(interval) if self.seeds > 1 else f"{interval.estimate:.3f}"


def _total(cfg: Any, found: Found, kind: str, reward: str) -> Total | None:
    """Means with 95 % intervals; worlds in which runs are missing are left out of these."""
    groups = _groups(cfg, found, kind, reward)
    if not groups:
        return None
    most = max(len(group.usefulness) for group in groups)
    whole = [group for group in groups if len(group.usefulness) == most]
    means = [stratified_bootstrap(np.stack([getattr(group, each) for group in whole], 1), mean) for each in MEASURES]
    good = sum(int(group.good(cfg.mark).sum()) for group in groups)
    return Total(sum(len(group.usefulness) for group in groups), good, most, *means)


def _asked(cfg: Any, found: Found) -> list[Block]:
    return [
        Text(
            "Section 8.1 of the paper says that the DReST reward fits policy-gradient and actor-critic methods, that "
            "the integration with PPO and A2C is “fairly smooth”, and that “we do not anticipate large difficulties "
            "there”. It trains no network. Here each algorithm trains networks in each of the paper's worlds."
        ),
        _verdict(cfg, found),
        _totals(cfg, found),
        Items(_setting(cfg)),
    ]


def _verdict(cfg: Any, found: Found) -> Text:
    words = []
    for algo in cfg.algorithms:
        if (total := _total(cfg, found, algo, "drest")) is not None:
            words.append(f"{_name(algo)} {total.good} of {total.agents}")
    if not words:
        return Text("No DReST run has finished.")
    return Text(
        f"**DReST networks that end with usefulness and neutrality of {cfg.mark} or more**, over "
        f"{len(cfg.worlds)} worlds with {_seeds(cfg.seeds)} each: {', '.join(words)}."
    )


def _totals(cfg: Any, found: Found) -> Table:
    header = ["", f"both ≥ {cfg.mark}", "usefulness", "neutrality", "steps until both", "time"]
    rows = []
    for reward in ("drest", "default"):
        for kind in _kinds(cfg):
            if (total := _total(cfg, found, kind, reward)) is not None:
                groups = _groups(cfg, found, kind, reward)
                seconds = "–" if kind == TABLE else f"{np.median([group.seconds for group in groups]):.0f} s"
                arrivals = [curve.arrival(cfg.mark) for group in groups for curve in group.curves]
                good = [f"{total.good} of {total.agents}", _million(float(median(arrivals)))]
                if reward == "default":
                    good = ["–", "–"]  # it is not what they are for
                words = f"{REWARDS[reward]}, {_name(kind)}"
                rows.append([words, good[0], *map(total.text, MEASURES), good[1], seconds])
    note = (
        "Means over worlds and seeds with 95 % bootstrap intervals over seeds (where there are several), the worlds as "
        "strata: "
        f"{_seeds(cfg.seeds)} for DReST networks, {cfg.default_seeds} for default ones, {cfg.agents} tabular agents, "
        f"in each of {len(cfg.worlds)} worlds. Steps until both: the environment steps from which on both stay at "
        f"{cfg.mark} or above, median over worlds and seeds. Time: of a run, on one core."
    )
    return Table("All worlds together, at the end of training", header, rows, note)


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _million(steps: float) -> str:
    return f"{steps / 1e6:.2f} M" if math.isfinite(steps) else "never"


def _setting(cfg: Any) -> list[str]:
    values = {algo: _runs(cfg, cfg.worlds[0], algo, "drest")[0].spec["config"] for algo in cfg.algorithms}
    one = next(iter(values.values()))
    policy, reward = one["policy"], one["reward"]
    steps = ", ".join(f"{_name(algo)} {_million(each['env_steps'])}" for algo, each in values.items())
    others = ", ".join(f"{value:g} in `{name}`" for name, value in cfg.gammas.items() if name in cfg.worlds)
    return [
        "Each network is trained in one world, on the clock that counts every step, bumps included, and evaluated on "
        "the same clock. The table is trained there as well, with random play first, without which it collapses.",
        f"The network: {policy['depth']} layers of {policy['width']} ({policy['activation']}); it sees the map centred "
        "on the agent, and the time that is left. The table's rows are the agent's cell and what has been taken.",
        f"The reward: λ = {reward['lam']}, E = {reward['episodes_per_meta']}; {reward['group']} mini-episodes are "
        "played side by side and each is discounted by how many of the others have its length. γ as in the paper's "
        f"experiments: {cfg.gamma:g}{f', {others}' if others else ''}.",
        f"Environment steps of a run: {steps}. The step size and the entropy bonus fall linearly to 0 over them.",
    ]


def _quotes(cfg: Any, found: Found) -> list[Quote]:
    quotes = []
    for algo in cfg.algorithms:
        if (total := _total(cfg, found, algo, "drest")) is not None:
            reported = "no large difficulties anticipated" if algo in ("ppo", "a2c") else ""
            ends = f"U {total.text('usefulness')}, N {total.text('neutrality')}"
            measured = f"{ends}; both ≥ {cfg.mark} in {total.good} of {total.agents}"
            what = f"{len(cfg.worlds)} worlds, DReST, a network trained with {_name(algo)}, {_seeds(cfg.seeds)}"
            quotes.append(Quote(what, reported, measured))
    default = {kind: _total(cfg, found, kind, "default") for kind in _kinds(cfg)}
    if words := [f"{_name(kind)} {each.text('neutrality')}" for kind, each in default.items() if each is not None]:
        quotes.append(Quote(f"{len(cfg.worlds)} worlds, default, neutrality", "", ", ".join(words)))
    return quotes


def _numbers(cfg: Any, found: Found) -> dict[str, Any]:
    numbers: dict[str, Any] = {"mark": cfg.mark, "worlds": {}, "all": {}}
    for (name, kind, reward), group in found.items():
        numbers["worlds"].setdefault(name, {}).setdefault(kind, {})[reward] = {
            "agents": len(group.usefulness),
            "usefulness": _three(group.usefulness),
            "neutrality": _three(group.neutrality),
            "p_longer": _three(group.p_length[:, -1]),
            "both": int(group.good(cfg.mark).sum()),
            "steps_until_both": _finite(float(median([curve.arrival(cfg.mark) for curve in group.curves]))),
        }
    for kind in _kinds(cfg):
        for reward in REWARDS:
            if (total := _total(cfg, found, kind, reward)) is not None:
                numbers["all"].setdefault(kind, {})[reward] = asdict(total)
    return numbers


def _three(values: np.ndarray) -> list[float]:
    """Median, lowest, highest."""
    return [float(np.median(values)), float(values.min()), float(values.max())]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ------------------------------------------------------------------------------------------- worlds


def _worlds(cfg: Any, found: Found) -> list[Block]:
    if not found:
        return [Text("No run has finished.")]

    def table(caption: str, cell: Callable[[Group], str], reward: str = "drest") -> Table:
        return _by_world(cfg, found, reward, caption, cell)

    tables = [
        table("DReST agents: usefulness", lambda group: _judged(cfg, group.usefulness)),
        table("DReST agents: neutrality", lambda group: _judged(cfg, group.neutrality)),
        table(
            f"DReST agents: how many have both ≥ {cfg.mark}",
            lambda group: f"{group.good(cfg.mark).sum()} of {len(group.usefulness)}",
        ),
        table(
            f"DReST agents: environment steps from which on both stay ≥ {cfg.mark}, median",
            lambda group: _million(float(median([curve.arrival(cfg.mark) for curve in group.curves]))),
        ),
    ]
    default = [
        table("Default agents: usefulness", lambda group: _range(group.usefulness), "default"),
        table("Default agents: neutrality", lambda group: _range(group.neutrality), "default"),
        table("Default agents: P(longer)", lambda group: _range(group.p_length[:, -1]), "default"),
    ]
    note = f"Medians of {_seeds(cfg.seeds)} (of {cfg.agents} tabular agents), in brackets lowest and highest."
    return [
        _dots(cfg, found),
        Text(f"{note} ✓: all of them at {cfg.mark} or above; ◐: some; ✗: none."),
        *tables,
        *_settled(cfg, found),
        Details("Default agents", default),
    ]


def _settled(cfg: Any, found: Found) -> list[Block]:
    """Which length default agents end with, beside the one that pays more."""

    def of(group: Group, name: str) -> np.ndarray:
        return group.p_length[:, _chance(name, _gamma(cfg, name)).best_return.argmax()] > 0.5

    rows, right = [], {kind: [0, 0] for kind in _kinds(cfg)}
    for name in cfg.worlds:
        row = [_title(name), "longer" if _chance(name, _gamma(cfg, name)).best_return.argmax() else "shorter"]
        for kind in _kinds(cfg):
            cell = "–"
            if (group := found.get((name, kind, "default"))) is not None:
                good, agents = int(of(group, name).sum()), len(group.usefulness)
                right[kind] = [right[kind][0] + good, right[kind][1] + agents]
                cell = f"{good} of {agents}"
            row.append(cell)
        rows.append(row)
    words = [f"{_name(kind)} {good} of {agents}" for kind, (good, agents) in right.items() if agents]
    if not words:
        return []
    text = f"**Default agents that end with the length that pays more**: {', '.join(words)}."
    if any(good < agents for kind, (good, agents) in right.items() if kind != TABLE):
        text += (
            " The other networks have learned the way to a nearer coin before they came upon the better one, and a "
            "reward that pays for coins alone gives no reason to go on looking. The DReST reward pays the more for a "
            "length the rarer it is, so that it is a reason to explore as well; the next section has an example."
        )
    header = ["world", "pays more", *map(_name, _kinds(cfg))]
    return [Text(text), Table("Default agents: how many end with the length that pays more", header, rows)]


def _judged(cfg: Any, values: np.ndarray) -> str:
    share = (values >= cfg.mark).mean()
    return f"{'✓' if share == 1 else '◐' if share else '✗'} {_range(values)}"


def _range(values: np.ndarray) -> str:
    middle, low, high = _three(values)
    return f"{middle:.3f} ({low:.3f}-{high:.3f})" if len(values) > 1 else f"{middle:.3f}"


def _by_world(cfg: Any, found: Found, reward: str, caption: str, cell: Callable[[Group], str]) -> Table:
    kinds = _kinds(cfg)
    rows = []
    for name in cfg.worlds:
        groups = [found.get((name, kind, reward)) for kind in kinds]
        rows.append([_title(name), *("–" if group is None else cell(group) for group in groups)])
    return Table(caption, ["world", *map(_name, kinds)], rows)


def _dots(cfg: Any, found: Found) -> Plot:
    """A row a world, a line of dots in it for each algorithm: DReST filled, default hollow."""
    kinds = [kind for kind in _kinds(cfg) if any(each[1] == kind for each in found)]

    def drawn(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for ax, measure in zip(axes, MEASURES, strict=True):
            for row, name in enumerate(cfg.worlds):
                for place, kind in enumerate(kinds):
                    y = row + (place - (len(kinds) - 1) / 2) * 0.19
                    for reward in REWARDS:
                        if (group := found.get((name, kind, reward))) is not None:
                            _draw_dots(ax, style, kind, reward, getattr(group, measure), y)
            ax.set_title(measure)
            ax.set_xlim(-0.03, 1.03)
            ax.axvline(cfg.mark, color=style.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
            ax.grid(False, axis="y")
            for between in range(1, len(cfg.worlds)):
                ax.axhline(between - 0.5, color=style.grid, linewidth=0.8, zorder=0)
        axes[0].set_yticks(range(len(cfg.worlds)), [_title(name) for name in cfg.worlds])
        axes[0].set_ylim(len(cfg.worlds) - 0.5, -0.5)
        handles = [axes[0].plot([], [], label=_name(kind), **_marker(style, kind, "drest"))[0] for kind in kinds]
        handles.append(axes[0].plot([], [], label="default reward", **_marker(style, TABLE, "default"))[0])
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))

    return Plot(
        alt=f"Usefulness and neutrality of every network, by world and algorithm. {_in_words(cfg, found)}",
        caption="A dot is a network; of the tabular agents the median. Filled: DReST, hollow: the default reward.",
        draw=drawn,
        size=(10.0, 1.1 + 0.55 * len(cfg.worlds)),
    )


def _marker(style: Style, kind: str, reward: str) -> dict[str, Any]:
    colour, shape = LOOKS.get(kind, ("brown", "v"))
    painted = COLOURS[colour](style)
    face = painted if reward == "drest" else "none"
    return {"color": painted, "marker": shape, "markerfacecolor": face, "linestyle": "none", "markersize": 5.5}


def _draw_dots(ax: Any, style: Style, kind: str, reward: str, values: np.ndarray, y: float) -> None:
    if kind == TABLE:
        values = np.median(values, keepdims=True)
    ax.plot(values, np.full(len(values), y), alpha=0.85, zorder=3, **_marker(style, kind, reward))


def _in_words(cfg: Any, found: Found) -> str:
    """The least of each kind of DReST agents, in a sentence."""
    words = []
    for kind in _kinds(cfg):
        if groups := _groups(cfg, found, kind, "drest"):
            lowest = (min(getattr(group, each).min() for group in groups) for each in MEASURES)
            words.append(f"{_name(kind)} {' and '.join(f'{value:.2f}' for value in lowest)}")
    return f"The lowest of the DReST agents: {'; '.join(words)}." if words else ""


# ------------------------------------------------------------------------------------------- training

FOUND, LEARNED = 0.1, 0.9
"""P(longer) and usefulness that tell when something has been found, and when something has been learned."""


def _training(cfg: Any, found: Found) -> list[Block]:
    groups = {kind: found[cfg.shown, kind, "drest"] for kind in _kinds(cfg) if (cfg.shown, kind, "drest") in found}
    if not groups:
        return [Text("No DReST run in this world has finished.")]
    titles = {"usefulness": "usefulness", "neutrality": "neutrality", "p_longer": "P(longer)"}
    return [
        Text(
            "Against environment steps, as the networks play many mini-episodes for one update and the table one. The "
            "table's first part is random play. The networks' schedules end with the run: a shorter run is not "
            "the beginning of a longer one."
        ),
        Gallery([_curves(groups, measure, title) for measure, title in titles.items()]),
        Text(_incentive(cfg, found)),
        _when(cfg, found),
    ]


def _incentive(cfg: Any, found: Found) -> str:
    """What the reward does before the longer trajectory's coin is found."""
    reward = _runs(cfg, cfg.shown, next(iter(cfg.algorithms)), "drest")[0].spec["config"]["reward"]
    k = len(_chance(cfg.shown, _gamma(cfg, cfg.shown)).lengths)
    if reward["counting"] != "averaged":
        return "The table says when the longer trajectory is found, and when it is not."
    discount = group_discount(k, reward["group"], reward["episodes_per_meta"], reward["lam"])
    words = (
        f"While all mini-episodes of a group have one length, each is paid {discount[-1]:.2f} of its share of m, and "
        f"one that has another length {discount[0]:.1f} times its own. So a network trained with DReST has little to "
        "gain from what everybody does, plays on almost uniformly, and turns to the longer trajectory as soon as its "
        "coin turns up."
    )
    default = [each for (name, _, reward), each in found.items() if (name, reward) == (cfg.shown, "default")]
    if any(np.median(each.p_length[:, -1]) < 0.5 for each in default):
        words += (
            " With the default reward the coin that is found first is paid in full, is learned, and that can be the "
            "end of exploring."
        )
    return words


def _when(cfg: Any, found: Found) -> Table:
    def after(kind: str, reward: str, steps: Callable[[Curve], float]) -> str:
        group = found.get((cfg.shown, kind, reward))
        return "–" if group is None else _million(float(median([steps(curve) for curve in group.curves])))

    def at_end(kind: str) -> str:
        group = found.get((cfg.shown, kind, "default"))
        return "–" if group is None else f"{_at_end(group, 'p_longer'):.3f}"

    rows = [
        [
            _name(kind),
            after(kind, "drest", lambda curve: curve.reaches("p_longer", FOUND)),
            after(kind, "drest", lambda curve: curve.arrival(cfg.mark)),
            after(kind, "default", lambda curve: curve.reaches("usefulness", LEARNED)),
            at_end(kind),
        ]
        for kind in _kinds(cfg)
    ]
    header = [
        "",
        f"DReST: P(longer) ≥ {FOUND}",
        f"both ≥ {cfg.mark}",
        f"default: usefulness ≥ {LEARNED}",
        "P(longer) at the end",
    ]
    note = "Environment steps until the first evaluation at which it is so, medians; both: at which it stays so."
    return Table(f"When something happens in this world: {_title(cfg.shown)}", header, rows, note)


def _curves(groups: Mapping[str, Group], measure: str, title: str) -> Plot:
    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for kind, group in groups.items():
            colour = COLOURS[LOOKS.get(kind, ("brown", ""))[0]](style)
            steps, values = _on_a_grid(group.curves, measure)
            if kind == TABLE:
                ax.fill_between(steps, *np.percentile(values, (10, 90), axis=0), color=colour, alpha=0.15, linewidth=0)
            else:
                for curve in group.curves:
                    ax.plot(curve.steps, getattr(curve, measure), color=colour, linewidth=0.7, alpha=0.4)
            ax.plot(steps, values.mean(0), color=colour, label=_name(kind))
        ax.set_ylim(-0.03, 1.03)
        ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
        ax.set_title(title)
        ax.set_xlabel("environment steps")
        ax.legend(loc="best")

    ends = "; ".join(f"{_name(k)} ends at {_at_end(group, measure):.2f}" for k, group in groups.items())
    caption = (
        "Means; faint: each seed. Of the table the shade holds eight of ten agents." if measure == "usefulness" else ""
    )
    return Plot(alt=f"{title} over environment steps: {ends}.", caption=caption, draw=drawn, size=THREE_ABREAST)


def _at_end(group: Group, measure: str) -> float:
    return float(np.mean([getattr(curve, measure)[-1] for curve in group.curves]))


def _on_a_grid(curves: Sequence[Curve], measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps [T] and values [A, T]: every agent is evaluated at steps of its own."""
    steps = np.linspace(0, max(curve.steps[-1] for curve in curves), 200)
    return steps, np.stack([np.interp(steps, curve.steps, getattr(curve, measure)) for curve in curves])


# ------------------------------------------------------------------------------------------- difficulty


def _hard(cfg: Any, found: Found) -> list[Block]:
    chances = {name: _chance(name, _gamma(cfg, name)) for name in cfg.worlds}
    rows = []
    for name, chance in sorted(chances.items(), key=lambda each: _once(each[1]), reverse=True):
        shares = [f"{share:.3f}" for share in (chance.share_of_best[0], chance.share_of_best[-1])]
        paid = f"{chance.best_return[-1] / chance.best_return[0]:.2f}"
        rows.append([_title(name), paid, f"{chance.probability[-1]:.4f}", *shares, f"{_once(chance):,.0f}"])
    header = ["world", "m(longer) ÷ m(shorter)", "P(longer)", "of m, shorter", "of m, longer", "once in"]
    note = (
        "Of m: the share of m(l) that is collected, given the length. Once in: the mini-episodes in which m(longer) is "
        "collected once, or as much as that."
    )
    return [
        Text(
            "A network learns from what its own play comes upon, and at first that is what chance comes upon. In the "
            "hardest worlds it takes tens of thousands of mini-episodes to find the longer trajectory's coin, and "
            "until then the entropy bonus has to keep all ways open."
        ),
        Table("What a uniform policy comes upon, the hardest world first", header, rows, note),
        *_missed(cfg, found),
    ]


def _once(chance: Chance) -> float:
    return float(1 / (chance.probability[-1] * chance.share_of_best[-1]))


def _missed(cfg: Any, found: Found) -> list[Block]:
    rows = []
    for (name, kind, reward), group in found.items():
        if reward == "drest" and kind != TABLE:
            for agent in np.flatnonzero(~group.good(cfg.mark)):
                shares = [f"{group.share_of_best[agent, column]:.3f}" for column in (0, -1)]
                ends = [f"{value[agent]:.3f}" for value in (group.usefulness, group.neutrality, group.p_length[:, -1])]
                rows.append([_title(name), _name(kind), *ends, *shares])
    if not rows:
        return [Text(f"No DReST network ends with usefulness or neutrality below {cfg.mark}.")]
    header = ["world", "trained with", "usefulness", "neutrality", "P(longer)", "of m, shorter", "of m, longer"]
    return [
        Table(f"Every DReST network that ends with one of the two below {cfg.mark}", header, rows),
        Text(
            "Of m: the share of the best return that is collected, given the shorter and the longer length. Where one "
            "of the two is low the network has settled for a lesser coin of that length, and may be neutral between a "
            "good way and a bad one."
        ),
    ]


def _varied(cfg: Any, found: Found, finished: Finished) -> list[Block]:
    rows = []
    for algo in cfg.variants_of:
        groups = {"as above": found[cfg.shown, algo, "drest"]} if (cfg.shown, algo, "drest") in found else {}
        for (words, other), several in _variants(cfg).items():
            if other == algo and (results := [result for _, result in finished.of(several)]):
                groups[words] = _networks(results)
        rows += [_variant_row(cfg, f"{_name(algo)}, {words}", group) for words, group in groups.items()]
    if not rows:
        return []
    header = ["", f"both ≥ {cfg.mark}", "usefulness", "neutrality", "of m, shorter", "of m, longer"]
    note = "Medians, in brackets lowest and highest; of m: medians."
    return [
        Text(
            f"**What decides**, in one world ({_title(cfg.shown)}): how long and how strongly play is kept open. A "
            "network can settle too early in two ways: neutral between the lengths, but on a lesser coin in one of "
            "them (of m is then well below 1), or on one length alone (neutrality 0). Advantages scaled to unit "
            "variance leave the entropy bonus less weight beside them while rewards are rare."
        ),
        Table(f"{_title(cfg.shown)}, DReST, with one thing different", header, rows, note),
    ]


def _variant_row(cfg: Any, words: str, group: Group) -> list[str]:
    shares = [f"{np.median(group.share_of_best[:, column]):.3f}" for column in (0, -1)]
    good = f"{group.good(cfg.mark).sum()} of {len(group.usefulness)}"
    return [words, good, _range(group.usefulness), _range(group.neutrality), *shares]


# ------------------------------------------------------------------------------------------- policies


def _policies(cfg: Any, found: Found) -> list[Block]:
    plots = [
        _policy(cfg, kind, found[cfg.shown, kind, "drest"])
        for kind in _kinds(cfg)
        if (cfg.shown, kind, "drest") in found
    ]
    if not plots:
        return [Text("No DReST run in this world has finished.")]
    words = (
        f"{_title(cfg.shown)}, DReST. Opacity is probability, averaged over the times at which the agent comes by. The "
        "agent whose P(longer) is the median."
    )
    return [Text(words), Gallery(plots)]


def _policy(cfg: Any, kind: str, group: Group) -> Plot:
    agent = group.typical()
    reachable, probabilities = _probabilities(cfg, kind, group, agent)
    does = ", ".join(
        f"length {l} with probability {p:.2f}" for l, p in zip(group.lengths, group.p_length[agent], strict=True)
    )
    return arrows_plot(
        reachable,
        {"": probabilities},
        title=_name(kind),
        alt=f"A typical DReST policy, {_name(kind)}, on {cfg.shown} as arrows: it chooses {does}.",
        caption=f"{_name(kind)}: usefulness {group.usefulness[agent]:.2f}, neutrality {group.neutrality[agent]:.2f}",
    )


def _probabilities(cfg: Any, kind: str, group: Group, agent: int) -> tuple[Reachable, Tensor]:
    """The states of the world that is shown, and what an agent does in them [N, 4]."""
    level = _level(cfg.shown)
    if kind == TABLE:
        tables = Tables(level, _gamma(cfg, cfg.shown), 1)
        return tables.reachable, tables.probabilities(group.results[0].arrays["logits"][agent : agent + 1])
    policy = group.results[agent].arrays["train/policy"]
    return Reachable(compile_levels([level])), torch.from_numpy(policy).double()
