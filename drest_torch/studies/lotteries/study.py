"""Lotteries over trajectory-lengths: what DReST pays for there, and which training gives agents that pay nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from omegaconf import MISSING

from drest_torch.choices.archetypes import ARCHETYPES, Chooser
from drest_torch.choices.arms import ARMS
from drest_torch.choices.closed_forms import button_usefulness, paid_shift, pressed
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.limits import limited
from drest_torch.studies.choosers import Kinds, jobs_of
from drest_torch.studies.lotteries import tables
from drest_torch.studies.lotteries.runs import measure
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "Lotteries over trajectory-lengths"
QUESTION = "Do agents pay to shift probability between lengths, and which training gives agents that do not?"
LEFT, RIGHT = 0.1, 0.9
"""P(longer) on the two sides of a corridor."""
SHARE = 0.05
"""Of choices; what is paid for less often does not count."""
WANTED: dict[str, tuple[bool, float]] = {
    "main": (True, 0.02),
    "joint_noshift": (True, 0.02),
    "shift_earlier": (True, 0.02),
    "dominance": (False, 0.98),
    "usefulness": (False, 0.95),
    "neutrality": (False, 0.95),
    "usefulness/three": (False, 0.95),
    "neutrality/three": (False, 0.95),
    "neutrality/prospects": (False, 2),
    "posl": (False, 8),
    "cycles": (True, 0),
    "later/0.01/0.05": (True, 0.05),
    "earlier/0.01/0.05": (True, 0.05),
}
"""Of every agent: at most (True) or at least so much."""
RUNS = "drest_torch.studies.lotteries.runs"


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/lotteries.yaml`."""

    lam: float = limited(above=0, at_most=1)
    episodes: list[int] = limited(at_least=2)
    tenths: list[int] = limited(at_least=1, at_most=9)
    chances: list[float] = limited(above=0, at_most=1)
    steps: int = limited(at_least=1)
    arms: list[str] = MISSING
    agents: int = limited(at_least=1)
    agents_of: dict[str, int] = limited(at_least=1)
    updates: int = limited(at_least=1)
    batch: int = limited(at_least=3)
    width: int = limited(at_least=1)
    lr: float = limited(above=0)
    menu_episodes: int = limited(at_least=2)
    suite_items: int = limited(at_least=3)
    gridworlds: Kinds = field(default_factory=Kinds)


def jobs(cfg: Config) -> list[Job]:
    """Return the climbs in gridworlds, and the training of each arm in menus."""
    return [world_job(cfg, episodes) for episodes in cfg.episodes] + [
        *(arm_job(cfg, arm) for arm in cfg.arms),
        *(job for several in trained(cfg).values() for job in several),
    ]


def trained(cfg: Config) -> dict[str, list[Job]]:
    """Return the training runs of agents of gridworlds."""
    return jobs_of(cfg.gridworlds, "study.gridworlds.agents")


def of_gridworlds(cfg: Config, finished: Finished) -> dict[str, dict[str, np.ndarray]]:
    """Return the numbers of agents of gridworlds: in menus, and usefulness and neutrality on test levels."""
    found = {}
    for title, several in trained(cfg).items():
        if done := [result.arrays for _, result in finished.of(several)]:
            names = [name for name in done[0] if name.startswith("menus/")]
            arrays = {name[6:]: np.concatenate([each[name] for each in done]) for name in names}
            for name in ("usefulness", "neutrality"):
                arrays[name] = np.array([each[f"test/{name}"].mean() for each in done])
            for name in ("usefulness/three", "neutrality/three"):  # random menus are too wide for a gridworld
                arrays[name] = np.full(len(done), np.nan)
            found[title] = arrays
    return found


def world_job(cfg: Config, episodes: int) -> Job:
    """Return the climb in all corridors and buttons with this E."""
    lists: dict[str, Any] = {"tenths": list(cfg.tenths), "chances": list(cfg.chances)}
    spec = lists | {"lam": cfg.lam, "episodes_per_meta": episodes, "steps": cfg.steps}
    return Job(f"corridors-E={episodes}", f"{RUNS}:climb_worlds", spec)


def arm_job(cfg: Any, arm: str) -> Job:
    """Return the training of all agents of an arm."""
    if arm not in ARMS:
        raise ConfigError(f"study.arms with the arm '{arm}'; expected some of {', '.join(ARMS)}")
    values = {name: cfg[name] for name in ("updates", "batch", "width", "lr", "lam")}
    agents = int(cfg.agents_of.get(arm, cfg.agents))
    spec = {"arm": arm, "agents": agents, "episodes": cfg.menu_episodes, "seed": 0, **values}
    spec["items"] = cfg.suite_items
    return Job(f"arm-{arm}", f"{RUNS}:train_arm", spec)


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the climbs beside the closed forms, and the arms beside the archetypes."""
    results = Results("lotteries", "episodes_per_meta", "cost", "chance")
    corridors, buttons = climbs(cfg, finished, results)
    arms = {arm: result for arm in cfg.arms if (result := finished.get(arm_job(cfg, arm))) is not None}
    for arm, result in arms.items():
        for name, values in result.arrays.items():
            results.add(values, name, variant=arm, split="test")
    numbers = {arm: result.arrays for arm, result in arms.items()}
    archetypes = {name: measured(chooser, cfg.suite_items) for name, chooser in ARCHETYPES.items()}
    reached = {arm: reaches(arrays) for arm, arrays in numbers.items()}
    findings = {
        "corridors": corridors,
        "buttons": buttons,
        "farthest_corridor": max((abs(row["alpha"] - row["predicted"]) for row in corridors), default=None),
        "farthest_button": max((abs(row["longer"] - row["predicted"]) for row in buttons), default=None),
        "arms": {arm: {name: _median(values) for name, values in each.items()} for arm, each in numbers.items()},
        "reached": {arm: [int(each.sum()), len(each)] for arm, each in reached.items()},
    }
    grid = of_gridworlds(cfg, finished)
    findings["gridworlds"] = {
        title: {name: _median(values) for name, values in each.items()} | {"agents": len(each["main"])}
        for title, each in grid.items()
    }
    everyone = numbers | grid | archetypes
    made = {
        "critical": tables.critical(float(cfg.lam)),
        "corridors": tables.corridors(corridors),
        "buttons": tables.buttons(buttons),
        "suites": tables.rows("How often the shift is taken, in percent", everyone, tables.SUITES, 100, 1),
        "log_odds": tables.rows("Mean log-odds of the shift", everyone, tables.LOG_ODDS, 1, 1),
        "others": tables.rows("The other tests", everyone, tables.OTHERS, 1, 2),
        "prospects": tables.rows("The prospects of appendix C", everyone, tables.PROSPECTS, 1, 2),
        "wanted": tables.wanted({arm: arrays for arm, arrays in numbers.items() if arm.startswith("D")} | grid, WANTED),
    }
    apart = tables.apart(numbers["D"]["main"], numbers["B"]["main"]) if {"D", "B"} <= set(numbers) else None
    findings["main_apart"] = apart
    lists = [arm for arm in numbers if f"{arm}, lists" in numbers]
    names = {
        "lists": {arm: [_median(100 * numbers[name]["main"]) for name in (arm, f"{arm}, lists")] for arm in lists},
        "extreme": {
            arm: 100 * max(each["extreme_later"].max(), each["extreme_earlier"].max()) for arm, each in numbers.items()
        },
        "titles": {arm: ARMS[arm].title for arm in numbers},
        "medians": findings["arms"],
        "paid": {arm: np.percentile(100 * each["main"], [0, 50, 100]).tolist() for arm, each in numbers.items()},
        "missed": {arm: missed(arrays) for arm, arrays in numbers.items()},
        "highest": max((row for row in corridors if row["alpha"] > SHARE), key=lambda row: row["cost"], default=None),
    }
    return Analysis(results.table(), findings, made, _quotes(findings), names, extra=(numbers, archetypes), exact=True)


def _quotes(findings: Mapping[str, Any]) -> list[Quote]:
    """Return what DReST pays where luck decides the length, and how many agents of the mended training do not."""
    paying = [row for row in findings["corridors"] if row["alpha"] > SHARE]
    quotes = []
    if paying:
        most = max(paying, key=lambda row: row["cost"])
        text = f"E = {most['episodes']}: {most['cost']:.0%} of all coins in {most['alpha']:.0%} of the choices"
        quotes.append(Quote("DReST where luck decides the length (C.1)", "POSL, trained in the same way", text))
    if "D" in findings["reached"]:
        text = "{} of {} agents pay nothing, are useful and neutral, and satisfy POSL".format(*findings["reached"]["D"])
        quotes.append(Quote("DReST on sets of lengths, Neutrality+ within one (menus)", "", text))
    for title, one in findings["gridworlds"].items():
        text = "pays in {main:.1%}, takes improvements in {dominance:.1%}; U {usefulness:.3f}, N {neutrality:.3f}"
        if one["main"] is not None:
            quotes.append(Quote(f"{title}, on unseen levels, agents: {one['agents']}", "", text.format(**one)))
    return quotes


def climbs(cfg: Config, finished: Finished, results: Results) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what was climbed to in the corridors and with the buttons, beside the closed forms."""
    corridors, buttons = [], []
    for episodes in cfg.episodes:
        if (found := finished.get(job := world_job(cfg, episodes))) is None:
            continue
        longer, useful = (found.arrays[name].tolist() for name in ("longer", "usefulness"))
        for index, tenths in enumerate(cfg.tenths):
            alpha, cost = (longer[index] - LEFT) / (RIGHT - LEFT), tenths / 10
            predicted = paid_shift(LEFT, RIGHT, cost, cfg.lam, episodes)
            corridors.append({"episodes": episodes, "cost": cost, "alpha": alpha, "predicted": predicted})
            where: dict[str, Any] = {
                "variant": job.name,
                "level": "corridor",
                "episodes_per_meta": episodes,
                "cost": cost,
            }
            results.add(np.array([alpha]), "alpha", **where)
            results.add(np.array([predicted]), "alpha_predicted", **where)
        for index, chance in enumerate(cfg.chances, len(cfg.tenths)):
            row = {"episodes": episodes, "chance": chance, "longer": longer[index], "usefulness": useful[index]}
            row["predicted"] = pressed(chance, cfg.lam, episodes)
            buttons.append(row | {"usefulness_predicted": button_usefulness(chance, row["predicted"])})
            where = {"variant": job.name, "level": "button", "episodes_per_meta": episodes, "chance": chance}
            for name in ("longer", "usefulness"):
                results.add(np.array([row[name]]), name, **where)
    return corridors, buttons


def measured(chooser: Chooser, items: int) -> dict[str, np.ndarray]:
    """Return the numbers of an archetype, as those of one agent."""
    return {name: np.array([value]) for name, value in measure(chooser, items).items()}


def reaches(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return whether each agent of an arm reaches all that is wanted."""
    each = [arrays[name] <= bound if most else arrays[name] >= bound for name, (most, bound) in WANTED.items()]
    return np.all(each, 0)


def missed(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Return which of the numbers that are wanted some agent of an arm misses."""
    return [
        name
        for name, (most, bound) in WANTED.items()
        if not (arrays[name] <= bound if most else arrays[name] >= bound).all()
    ]


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None
