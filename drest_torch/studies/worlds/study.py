"""The paper's eight other worlds (Figures 9 to 16), on three pairs of clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.report.blocks import Block, Gallery, Section, Table, Text
from drest_torch.studies.clock_pairs import (
    CLOCKS,
    INTERVALS,
    MARK,
    REWARDS,
    Shown,
    both,
    end_cells,
    summary,
    typical_policy,
)
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig
from envs.levels import world

CURED = "steps / steps, cured"
PAIRS = {**{name: (trained, evaluated, False) for (trained, evaluated), name in CLOCKS.items()}}
PAIRS[CURED] = ("steps", "steps", True)
"""Name: (clock of training, clock of evaluation, whether with the cure)."""
NO_PREFERENCE = 0.1
"""A default agent that prefers a length has less neutrality than this."""


@dataclass
class Config(StudyConfig):
    worlds: list[str] = MISSING
    agents: int = limited(at_least=1)
    agents_in_paper: int = limited(at_least=1)
    window: int = limited(at_least=1)
    training: Training = field(default_factory=Training)
    cure: dict[str, Any] = MISSING


def jobs(cfg: Any) -> list[Job]:
    return [
        _job(cfg, name, clock, reward, cured)
        for name in cfg.worlds
        for clock, cured in (("moves", False), ("steps", False), ("steps", True))
        for reward in REWARDS
    ]


def _job(cfg: Any, name: str, clock: str, reward: str, cured: bool) -> Job:
    return agents_job(
        cfg.training,
        label=f"{name}-{clock}-{reward}{'-cured' if cured else ''}",
        world=name,
        clock=clock,
        reward=reward,
        agents=cfg.agents,
        evaluated_on=("moves", "steps") if clock == "moves" else ("steps",),
        **(cfg.cure if cured else {}),
    )


def report(cfg: Any, finished: Finished) -> Report:
    found = {
        name: {
            pair: {
                reward: result
                for reward in REWARDS
                if (result := finished.get(_job(cfg, name, trained, reward, cured))) is not None
            }
            for pair, (trained, _, cured) in PAIRS.items()
        }
        for name in cfg.worlds
    }
    numbers = {name: _numbers(cfg, each) for name, each in found.items()}
    question = "Are the reported results those of one gridworld, or do they hold in eight others as well?"
    overview = Section("All worlds", _overview(cfg, found))
    return Report(
        "The eight other worlds (Figures 9 to 16)",
        question,
        [overview, *(Section(_title(name), _one(cfg, name, each)) for name, each in found.items())],
        numbers,
        [_quote(cfg, found, pair) for pair in PAIRS],
    )


def _quote(cfg: Any, found: Mapping[str, Mapping[str, Mapping[str, Result]]], pair: str) -> Quote:
    results = [each[pair]["drest"] for each in found.values() if "drest" in each[pair]]
    clock = PAIRS[pair][1]
    lowest = {
        name: min((last(result, clock, name).mean() for result in results), default=float("nan"))
        for name in ("neutrality", "usefulness")
    }
    passed = sum(int(both(result, clock).sum()) for result in results)
    measured = f"lowest mean of a world N {lowest['neutrality']:.3f}, U {lowest['usefulness']:.3f}"
    if pair != "moves / steps":
        measured += f"; both ≥ {MARK} in {passed} of {cfg.agents * len(results)} agents"
    reported = "near-maximally neutral, about as useful as default agents" if pair == "moves / steps" else ""
    return Quote(f"{len(results)} other worlds, DReST, {pair}", reported, measured)


def _numbers(cfg: Any, found: Mapping[str, Mapping[str, Result]]) -> dict[str, Any]:
    return {
        pair: {
            reward: summary(result, PAIRS[pair][1])
            | {"both_of_first": int(both(result, PAIRS[pair][1])[: cfg.agents_in_paper].sum())}
            for reward, result in results.items()
        }
        for pair, results in found.items()
    }


def _overview(cfg: Any, found: Mapping[str, Mapping[str, Mapping[str, Result]]]) -> list[Block]:
    few = cfg.agents_in_paper
    header = ["world and clocks", "neutrality", "usefulness", "P(longer)", "both ≥ 0.99", f"of the first {few}"]
    rows: dict[str, list[list[str]]] = {reward: [] for reward in REWARDS}
    for name, pairs in found.items():
        for pair, results in pairs.items():
            for reward, result in results.items():
                clock = PAIRS[pair][1]
                passed = both(result, clock)[:few].sum()
                rows[reward].append([f"{_title(name)}, {pair}", *end_cells(result, clock), f"{passed} of {few}"])
    caption = f"at the end of training, means of {cfg.agents}"
    return [
        Text(
            "Trained and evaluated on the clock that counts moves, DReST agents end useful and neutral in every "
            "world. Evaluated on the clock that counts every step, the same agents look less useful. Trained on that "
            "clock with the paper's schedules, they collapse in the worlds where the longer trajectory's coin is hard "
            f"to come upon; {cfg.cure['random_episodes']:,} mini-episodes of random play first mend all of them."
        ),
        _verdict(cfg, found),
        Table(f"DReST agents {caption}", header, rows["drest"], INTERVALS),
        Table(f"Default agents {caption}", header[:4], [row[:4] for row in rows["default"]], INTERVALS),
    ]


def _title(name: str) -> str:
    return world(name).study["title"]


def _verdict(cfg: Any, found: Mapping[str, Mapping[str, Mapping[str, Result]]]) -> Text:
    """The marks that were asked for, computed."""
    few = cfg.agents_in_paper
    words = []
    for pair in ("moves / moves", CURED):
        clock = PAIRS[pair][1]
        drest = {name: each[pair]["drest"] for name, each in found.items() if "drest" in each[pair]}
        good = [name for name, result in drest.items() if both(result, clock)[:few].mean() >= 0.9]
        default = {name: each[pair]["default"] for name, each in found.items() if "default" in each[pair]}
        below = [n for n, result in default.items() if last(result, clock, "neutrality").mean() <= NO_PREFERENCE]
        above = [_title(name) for name in default if name not in below]
        exceptions = f" (not in {', '.join(above)})" if above else ""
        words.append(
            f"**{pair}**: in {len(good)} of {len(drest)} worlds at least nine tenths of the first {few} DReST agents "
            f"have usefulness and neutrality of 0.99 or more. The default agents' neutrality is below "
            f"{NO_PREFERENCE} in {len(below)} of {len(default)}{exceptions}."
        )
    return Text(" ".join(words))


def _one(cfg: Any, name: str, found: Mapping[str, Mapping[str, Result]]) -> list[Block]:
    study = world(name).study
    blocks: list[Block] = [
        Text(f"**What the default reward favours.** {study['rewarded']} **Wanted.** {study['wanted']}")
    ]
    if as_reported := found["moves / steps"]:
        shown = Shown(as_reported, "steps", "moves / steps", cfg.training.episodes_per_meta, cfg.window)
        policies = [typical_policy(name, cfg.training.gamma, result, reward) for reward, result in as_reported.items()]
        blocks += [
            Gallery([shown.curve("neutrality", "neutrality"), shown.curve("usefulness", "usefulness")]),
            Gallery(policies),
        ]
    return blocks
