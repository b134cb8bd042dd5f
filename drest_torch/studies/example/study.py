"""The running example (Figures 3 and 4 of the paper), on three pairs of clocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import MISSING

from drest_torch.jobs.store import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last, p_longest
from drest_torch.limits import limited
from drest_torch.report.blocks import Block, Gallery, Plot, Section, Table, Text
from drest_torch.report.plots import Curves, training_plot
from drest_torch.report.style import Style
from drest_torch.report.tables import spread
from drest_torch.statistics.bootstrap import standard_errors_apart
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
from drest_torch.studies.study import Finished, Quote, Report, StudyConfig, mean_sd

REPORTED = {
    "default": {"neutrality": (0.199, 0.043), "usefulness": (0.9364, 0.0096)},
    "drest": {"neutrality": (0.9945, 0.0052), "usefulness": (0.900, 0.011)},
}
"""Mean and standard deviation of ten agents at the end of training, in the caption of Figure 3."""


@dataclass
class Config(StudyConfig):
    world: str = MISSING
    agents: int = limited(at_least=1)
    agents_in_paper: int = limited(at_least=1)
    window: int = limited(at_least=1)
    training: Training = field(default_factory=Training)
    cures: dict[str, dict[str, Any]] = MISSING
    cure_agents: int = limited(at_least=1)


def jobs(cfg: Any) -> list[Job]:
    return [
        *_main_jobs(cfg).values(),
        _other_m(cfg),
        *_free_bumps(cfg).values(),
        *_cure_jobs(cfg).values(),
        _cured_default(cfg),
    ]


def _main_jobs(cfg: Any) -> dict[tuple[str, str], Job]:
    """By (clock of training, reward)."""
    return {(clock, reward): _job(cfg, clock, reward, cfg.agents) for clock in ("moves", "steps") for reward in REWARDS}


def _job(cfg: Any, clock: str, reward: str, agents: int, label: str = "", **changes: Any) -> Job:
    evaluated_on = ("moves", "steps") if clock == "moves" else ("steps",)
    label = f"{label or 'as-in-paper'}-{clock}-{reward}"
    return agents_job(
        cfg.training,
        label=label,
        world=cfg.world,
        clock=clock,
        reward=reward,
        agents=agents,
        evaluated_on=evaluated_on,
        **changes,
    )


def _other_m(cfg: Any) -> Job:
    """m(l) with one more factor of γ, as it is if the coin of tick t is worth γ^t and not γ^(t−1)."""
    gamma = cfg.training.gamma
    return _job(cfg, "moves", "drest", cfg.agents, "m-discounted-once-more", factors=(gamma, gamma))


def _free_bumps(cfg: Any) -> dict[str, Job]:
    """By reward: bumps cost nothing at all."""
    return {
        reward: _job(cfg, "moves", reward, cfg.agents, "bumps-not-discounted", discount_bumps=False)
        for reward in REWARDS
    }


def _cure_jobs(cfg: Any) -> dict[str, Job]:
    names = list(cfg.cures)
    return {
        name: _job(
            cfg, "steps", "drest", cfg.agents if name == names[-1] else cfg.cure_agents, f"cure-{i}", **cfg.cures[name]
        )
        for i, name in enumerate(names)
    }


def _cured_default(cfg: Any) -> Job:
    return _job(cfg, "steps", "default", cfg.agents, "cured", **list(cfg.cures.values())[-1])


# ------------------------------------------------------------------------------------------- report


def report(cfg: Any, finished: Finished) -> Report:
    main = {key: result for key, job in _main_jobs(cfg).items() if (result := finished.get(job)) is not None}
    numbers: dict[str, Any] = {"agents": cfg.agents, "clocks": _clock_numbers(main)}
    sections = [
        Section("The reported table", _reported(cfg, main, finished, numbers)),
        Section("Three pairs of clocks", _three_clocks(cfg, main)),
        Section("On the clock that counts every step", _collapse(cfg, main, finished, numbers)),
        Section("Typical policies", _policies(cfg, main, finished)),
    ]
    question = (
        "Do agents trained with the DReST reward on the paper's running example become useful and neutral, "
        "and where do the reported numbers come from?"
    )
    return Report("The running example (Figures 3 and 4)", question, sections, numbers, _quotes(cfg, main, finished))


def _quotes(cfg: Any, main: dict[tuple[str, str], Result], finished: Finished) -> list[Quote]:
    few = cfg.agents_in_paper
    quotes = []
    for reward, words in REWARDS.items():
        if (result := main.get(("moves", reward))) is not None:
            reported = ", ".join(
                f"{measure[0].upper()} {_as_reported(value)}" for measure, value in REPORTED[reward].items()
            )
            what = f"example, {words}, trained on moves, evaluated on timesteps, {few} agents"
            quotes.append(Quote(what, reported, _brief(result, "steps", few)))
    cured = finished.get(list(_cure_jobs(cfg).values())[-1])
    for what, result in (
        ("example, DReST, trained and evaluated on moves", main.get(("moves", "drest"))),
        ("example, DReST, trained and evaluated on timesteps", main.get(("steps", "drest"))),
        ("the same with random play first", cured),
    ):
        if result is not None:
            clock = "moves" if "on moves" in what else "steps"
            quotes.append(Quote(f"{what}, {cfg.agents} agents", "", _brief(result, clock, cfg.agents)))
    return quotes


def _brief(result: Result, clock: str, agents: int) -> str:
    values = {measure: last(result, clock, measure)[:agents] for measure in ("neutrality", "usefulness")}
    passed = both(result, clock)[:agents].sum()
    marks = "" if clock == "steps" and passed == 0 else f"; both ≥ {MARK} in {passed}"
    return ", ".join(f"{measure[0].upper()} {mean_sd(each)}" for measure, each in values.items()) + marks


def _gallery(cfg: Any, results: dict[str, Result], clock: str, name: str) -> Gallery:
    return Shown(results, clock, name, cfg.training.episodes_per_meta, cfg.window).gallery()


def _clock_numbers(main: dict[tuple[str, str], Result]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for (trained, evaluated), name in CLOCKS.items():
        for reward in REWARDS:
            if (trained, reward) in main:
                numbers.setdefault(name, {})[reward] = summary(main[trained, reward], evaluated)
    return numbers


def _reported(
    cfg: Any, main: dict[tuple[str, str], Result], finished: Finished, numbers: dict[str, Any]
) -> list[Block]:
    few = cfg.agents_in_paper
    header = ["agents", "measure", "paper", f"{few} agents", "apart", f"{cfg.agents} agents", "apart"]
    rows: list[list[str]] = []
    compared: list[dict[str, Any]] = []
    results = {reward: main.get(("moves", reward)) for reward in REWARDS}
    for reward, words in REWARDS.items():
        if (result := results[reward]) is not None:
            rows += [_compared(words, reward, each, result, few, compared) for each in ("neutrality", "usefulness")]
    if (other := finished.get(_other_m(cfg))) is not None:
        words = "DReST, m discounted once more"
        rows += [_compared(words, "drest", each, other, few, []) for each in ("neutrality", "usefulness")]
    for reward, job in _free_bumps(cfg).items():
        if (free := finished.get(job)) is not None:
            words = f"{REWARDS[reward]}, bumps not discounted"
            rows += [_compared(words, reward, each, free, few, []) for each in ("neutrality", "usefulness")]
    numbers["apart"] = compared
    note = (
        "Mean ± standard deviation over agents. Apart: the difference from the paper in standard errors of the "
        "difference (✓ up to 2)."
    )
    blocks: list[Block] = [
        Text(
            "The paper does not say whether a bump into a wall takes time. Its figures appear when agents are trained "
            "on a clock that counts **moves**, where a bump is free but still costs its factor of γ in the return, "
            "and are evaluated on a clock that counts **every timestep**."
        ),
        Table("End of training, trained on moves, evaluated on timesteps", header, rows, note),
    ]
    if results["default"] is not None:
        blocks.append(_spread(results["default"], numbers))
    if all(results.values()):
        blocks += [_gallery(cfg, results, "steps", "moves / steps")]  # type: ignore[arg-type]
    return blocks


def _compared(
    words: str, reward: str, measure: str, result: Result, few: int, compared: list[dict[str, Any]]
) -> list[str]:
    reported = REPORTED[reward][measure]
    row = [words, measure, _as_reported(reported)]
    for values in (last(result, "steps", measure)[:few], last(result, "steps", measure)):
        apart = _apart(values, reported)
        row += [mean_sd(values, 4), f"{'✓' if apart <= 2 else '✗'} {apart:.1f}"]
        compared.append(
            {
                "reward": reward,
                "measure": measure,
                "agents": len(values),
                "mean": values.mean(),
                "sd": spread(values),
                "standard_errors": apart,
            }
        )
    return row


def _as_reported(value: tuple[float, float]) -> str:
    digits = 3 if round(value[0], 3) == value[0] else 4
    return f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _apart(values: np.ndarray, reported: tuple[float, float]) -> float:
    if len(values) < 2:
        return float("nan")
    return standard_errors_apart(values.mean(), spread(values), len(values), *reported, 10)


def _spread(result: Result, numbers: dict[str, Any]) -> Text:
    """Why the default agents' neutrality varies more than in the paper."""
    neutrality = last(result, "steps", "neutrality")
    longer = last(result, "steps", "p_length")[:, -1] > 0.5
    if not longer.any():
        return Text("No default agent took the longer trajectory.")
    share, among = longer.mean(), neutrality[longer]
    numbers["default_longer"] = {"share": share, "neutrality": [among.mean(), spread(among)]}
    return Text(
        f"**The spread of the default agents** has two sources: {share:.0%} of them settle on the longer trajectory "
        f"and the others on the shorter, where neutrality is near 0. Among those that take the longer, neutrality is "
        f"{mean_sd(among)}, beside the paper's 0.199 ± 0.043. The paper's P(longer) of 0.97 says that all ten of its "
        f"agents took the longer; at {share:.0%} that happens in {share**10:.0%} of draws of ten."
    )


# ------------------------------------------------------------------------------------------ clocks


def _three_clocks(cfg: Any, main: dict[tuple[str, str], Result]) -> list[Block]:
    header = ["trained / evaluated on", "agents", "neutrality", "usefulness", "P(longer)", "both ≥ 0.99"]
    rows = []
    galleries: list[Block] = []
    for (trained, evaluated), name in CLOCKS.items():
        results = {reward: main[trained, reward] for reward in REWARDS if (trained, reward) in main}
        rows += [[name, REWARDS[reward], *end_cells(result, evaluated)] for reward, result in results.items()]
        if results and evaluated == trained:
            galleries.append(_gallery(cfg, results, evaluated, name))
    return [
        Text(
            "The same agents of the moves clock are shown twice: measured on the clock they were trained on they are "
            "as useful and neutral as can be; the usefulness that is missing in the reported figures is the "
            "evaluator's clock, not the agents'. Trained **and** evaluated on every timestep, with the paper's "
            "schedules, they collapse onto the shorter trajectory."
        ),
        Table("The end of training on three pairs of clocks", header, rows, INTERVALS),
        *galleries,
    ]


# ----------------------------------------------------------------------------------------- collapse


def _collapse(
    cfg: Any, main: dict[tuple[str, str], Result], finished: Finished, numbers: dict[str, Any]
) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "Where a bump costs a timestep the longer trajectory's coin takes eight flawless moves. The exact "
            "probabilities over training show what goes first: **pressing the button**. While the way from the button "
            "to the coin is still unknown, what follows the button pays nothing, the table learns the shorter "
            "trajectory, and the softmax gives the button up. By the time ε has fallen, hardly any mini-episode gets "
            "to the button, so that the way behind it is never learned."
        )
    ]
    if (result := main.get(("steps", "drest"))) is not None:
        blocks.append(Gallery([_log_p_longer(cfg, result), _shares(cfg, result)]))
    found = {name: result for name, job in _cure_jobs(cfg).items() if (result := finished.get(job)) is not None}
    rows = [_cure_row(name, each) for name, each in found.items()]
    if (default := finished.get(_cured_default(cfg))) is not None:
        rows.append(_cure_row("random play first, default reward", default))
    numbers["cures"] = {name: summary(each, "steps") for name, each in found.items()}
    blocks += [
        Table(
            "DReST agents trained and evaluated on every timestep, with a change to the training",
            ["change", "mini-episodes", "neutrality", "usefulness", "P(longer)", "both ≥ 0.99"],
            rows,
            INTERVALS,
        ),
        Text(
            "**The cure** changes neither the reward nor the paper's schedules: before them, the agent plays "
            f"{list(cfg.cures.values())[-1]['random_episodes']:,} mini-episodes at random (ε = 1) and learns from "
            "them. The plain softmax gradient learns from random play as well as from its own, so what lies behind "
            "the button is known before the choice at the button is made. The corrected gradient, which is that of "
            "the policy that plays, is 0 where play is random, and cannot be cured in this way. Longer schedules "
            "help too, and cost more."
        ),
    ]
    return blocks


def _cure_row(name: str, result: Result) -> list[str]:
    each = result.numbers["episodes"] / summary(result, "steps")["agents"]
    return [name, f"{each:,.0f}", *end_cells(result, "steps")]


def _log_p_longer(cfg: Any, result: Result) -> Plot:
    values = np.maximum(p_longest(result, "steps"), 1e-12)
    return training_plot(
        result.arrays["episodes"] / cfg.training.episodes_per_meta,
        [Curves("DReST", "drest", values)],
        title="P(longer), steps / steps",
        xlabel="meta-episodes",
        alt=f"P(longer) on a logarithmic scale; the median agent ends at {np.median(values[-1]):.1g}.",
        limits=None,
        log=True,
    )


def _shares(cfg: Any, result: Result) -> Plot:
    shares = result.arrays["steps/share_of_best"].astype(float)
    lengths = result.numbers["lengths"]

    def drawn(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for column, colour in ((0, style.series[2]), (-1, style.series[4])):
            values = shares[:, :, column]
            label = f"length {lengths[column]}"
            ax.plot(
                result.arrays["episodes"] / cfg.training.episodes_per_meta, values.mean(1), color=colour, label=label
            )
        ax.set_title("share of m(l) collected, given the length")
        ax.set_xlabel("meta-episodes")
        ax.set_ylim(-0.03, 1.03)
        ax.legend(loc="best")

    ends = ", ".join(f"length {l}: {shares[-1, :, i].mean():.2f}" for i, l in enumerate(lengths))
    return Plot(alt=f"Share of the best return collected given each length; at the end {ends}.", caption="", draw=drawn)


# ----------------------------------------------------------------------------------------- policies


def _policies(cfg: Any, main: dict[tuple[str, str], Result], finished: Finished) -> list[Block]:
    plots = [
        typical_policy(cfg.world, cfg.training.gamma, result, reward)
        for (clock, reward), result in main.items()
        if clock == "moves"
    ]
    return [Text("Opacity is probability. The agent whose P(longer) is the median of the first ten."), Gallery(plots)]
