"""The runs and the rows of the study `ratio`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf

from drest_torch.envs.exact.solver import PaidCoins
from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import TabularTraining, last
from drest_torch.limits import limited
from drest_torch.studies.engine import Done, value
from drest_torch.studies.ratio.wrong_values import TRAIN, best_return, ratio
from drest_torch.studies.shared import EXAMPLE, TablesConfig, command_jobs, gamma_of, of_two, tables_job
from drest_torch.theory import balance, value_for

ANY_REWARD = math.inf
"""The clip of rewards that are not clipped."""
COLLAPSED = 0.1
"""The neutrality in bits below which an agent nearly always takes the same length."""
SMALLER = 0.110028
"""The smaller probability at which neutrality is half a bit."""
CURVE_POINTS = 81
DIVISORS = ("m", "seen", "none")
"""Divisors of coins: m, the largest return seen so far, nothing. A fourth, ``longer``, is an m that is wrong for the
longer length."""
BEST_OF = ("paid", "actual")
"""The coins whose largest return is m (`reward.best_of`)."""
ASCENT = "ascent"
"""The runs of gradient ascent with a policy that is free in every state; the other runs are commands."""


@dataclass
class Config(TablesConfig):
    world: str = "lopsided"
    """The world of Figure 6: its coin Cx is the best of the longer length; the best of the shorter has value 1."""
    worlds: list[str] = value([*PAPER_WORLDS])
    """The worlds in which m or the values are wrong."""
    agents: int = limited(at_least=1, default=10)
    """Agents of each kind, for each x and in each world: the paper's number."""
    training: TabularTraining = value(replace(EXAMPLE, evaluate_every=8192))
    in_lopsided: dict[str, Any] = value(
        {"gamma": 1.0, "meta_episodes": 512, "lr_end": 0.003, "epsilon_end": 0.0001, "decay_episodes": 16384}
    )
    """Changes to the training in the world of Figure 6."""
    x_first: float = 0.01
    """The smallest x."""
    x_last: float = 100.0
    """The largest x."""
    x_count: int = 25
    """The number of values of x, at equal ratios. The paper samples them at random."""
    lams: list[float] = value([0.9, 0.8, 0.5])
    """The paper's λ, and lower ones, which it suggests where returns are lopsided."""
    clip: float = 5.0
    """The largest reward of a coin where rewards are clipped, as in the paper's appendix E."""
    every: int = 6
    """A lower λ without a clip is tried at one in so many values of x, as agents that collapse are slow to train."""
    factors: list[float] = value([0.1, 0.2, 0.5, 2.0, 5.0, 10.0])
    """Factors by which m of the longer length is wrong."""
    patience: int = 4
    """The largest factor is also tried with training and schedules longer by this factor."""
    pays: list[str] = value(["inverse", "count", "capped"])
    """Wrong values that are paid (`reward.pays`), with m of the paid and of the actual coins."""
    ascent: dict[str, Any] = value(
        {"updates": 600, "lr": 0.1, "reward": {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": 64}}
    )
    """Gradient ascent on the exact objective with a policy that is free in every state."""
    commands: dict[str, str] = value(
        {
            "network": "algo=exact policy.width=32 policy.depth=2 algo.lr=0.005 env_steps=1600000 evaluations=1",
            "table": "algo=tabular evaluations=1",
        }
    )
    """Arguments of `drest train`, which also pays the wrong values."""
    command_world: str = "fewer_for_longer"
    """The world of these commands."""
    seeds: int = limited(at_least=1, default=5)
    """Agents of each command."""


QUICK = {
    "worlds": ["example", "spacious"],
    "agents": 2,
    "x_count": 5,
    "every": 2,
    "lams": [0.9, 0.5],
    "in_lopsided": {"meta_episodes": 32, "decay_episodes": 1024},
    "training": {"meta_episodes": 256, "decay_episodes": 8192},
    "in_worlds": {"meta_episodes": 256, "decay_episodes": 8192},
    "factors": [0.5, 2.0],
    "pays": ["inverse"],
    "ascent": {"updates": 150},
    "commands": {"network": "algo=exact policy.width=8 policy.depth=1 env_steps=40960 evaluations=1"},
    "seeds": 1,
}


class Coins(NamedTuple):
    """The key of a run in which x is the value of a coin."""

    clock: str
    lam: float
    clip: float
    x: float


class Divisor(NamedTuple):
    """The key of a run in which m is unknown or wrong."""

    world: str
    divisor: str
    factor: float = 1.0
    patience: int = 1
    """The factor by which the training is longer."""


class Values(NamedTuple):
    """The key of a run that pays wrong values."""

    by: str
    """`ASCENT` or the name of a command."""
    pays: str
    best_of: str
    seed: int = 0


Key: TypeAlias = Coins | Divisor | Values


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs in which the ratio x comes from coins, from the divisor, and from wrong values."""
    return {**coin_jobs(cfg), **divisor_jobs(cfg), **value_jobs(cfg)}


def coin_jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each x: with the default reward and DReST on both clocks, and with lower λ on moves."""
    xs = [float(f"{x:.4g}") for x in np.geomspace(cfg.x_first, cfg.x_last, cfg.x_count)]
    paper = cfg.lams[0]
    keys = [Coins(clock, lam, ANY_REWARD, x) for clock, lam, x in product(("moves", "steps"), (1.0, paper), xs)]
    keys += [Coins("moves", lam, ANY_REWARD, x) for lam, x in product(cfg.lams[1:], xs[:: cfg.every])]
    keys += [Coins("moves", lam, cfg.clip, x) for lam, x in product(cfg.lams, xs)]
    runs: dict[Key, Job] = {}
    for key in keys:
        clip = None if key.clip == ANY_REWARD else key.clip
        changes: dict[str, Any] = {**cfg.in_lopsided, "lam": key.lam, "clip": clip, "x": key.x}
        changes["reward"] = "default" if key.lam == 1 else "drest"
        label = f"coins-{key.clock}-lambda={key.lam:g}-clip={key.clip:g}-x={key.x:g}"
        runs[key] = tables_job(cfg, label, world=cfg.world, clock=key.clock, divisor="none", **changes)
    return runs


def divisor_jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each world and divisor."""
    wrong = [("longer", factor, 1) for factor in cfg.factors]
    wrong.append(("longer", max(cfg.factors), cfg.patience))
    divisors = [*((name, 1.0, 1) for name in DIVISORS), *wrong]
    names = {"m": "best", "longer": "best"}
    runs: dict[Key, Job] = {}
    for world, (name, factor, patience) in product(cfg.worlds, divisors):
        key = Divisor(world, name, float(factor), patience)
        usual: Any = cfg.training
        changes: dict[str, Any] = {} if world == "example" else dict(cfg.in_worlds)
        for length in ("meta_episodes", "decay_episodes"):
            changes[length] = patience * changes.get(length, usual[length])
        factors = (1.0, key.factor) if name == "longer" else None
        changes |= {"divisor": names.get(name, name), "factors": factors, "evaluated_on": ("moves",)}
        label = f"divisor-{world}-{name}-factor={factor:g}-patience={patience}"
        runs[key] = tables_job(cfg, label, world=world, clock="moves", reward="drest", **changes)
    return runs


def value_jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs that pay wrong values: gradient ascent in all worlds side by side, and commands."""
    ascent: Any = OmegaConf.to_container(OmegaConf.create(cfg.ascent))
    runs: dict[Key, Job] = {}
    for pays, best_of in product(cfg.pays, BEST_OF):
        wrong = {"pays": pays, "best_of": best_of}
        spec = {**ascent, **wrong, "worlds": list(cfg.worlds)}
        runs[Values(ASCENT, pays, best_of)] = Job(f"values-{pays}-{best_of}", TRAIN, spec)
        reward = {"reward": {**ascent["reward"], **wrong}}
        for name, arguments in cfg.commands.items():
            words = f"{arguments} levels={cfg.command_world}"
            label = f"values-{name}-{pays}-{best_of}"
            for seed, job in enumerate(command_jobs(label, cfg.seeds, words, values=reward)):
                runs[Values(name, pays, best_of, seed)] = job
    return runs


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Done) -> pd.DataFrame:
    """Return five kinds of rows, by the column ``part``.

    - coins: agents in the world of Figure 6, for each pair of clocks, λ, clip and x,
    - divisor: agents in the paper's worlds, for each divisor,
    - values: agents paid with wrong values, for each world and seed,
    - curve: the prediction b(x) for each λ and clip,
    - range: the values of x between which the predicted neutrality is above half a bit.

    Rows of several agents hold their mean, and the 10th and 90th percentile as ``…_low`` and ``…_high``.
    """
    measured: list[dict[str, Any]] = []
    for key, result in done.items():
        if isinstance(key, Coins):
            measured += coin_rows(cfg, key, result)
        elif isinstance(key, Divisor):
            measured.append(divisor_row(cfg, key, result))
        else:
            measured += value_rows(cfg, key, result)
    return pd.DataFrame([*measured, *predicted_rows(cfg)])


def coin_rows(cfg: Config, key: Coins, result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row for each clock of evaluation."""
    predicted = predict(cfg, [key.x], key.lam, key.clip).iloc[0].add_suffix("_predicted").to_dict()
    for clock in ("moves", "steps") if key.clock == "moves" else ("steps",):
        kind = {"part": "coins", "clocks": f"{key.clock} / {clock}", "lam": key.lam, "clip_at": key.clip, "x": key.x}
        yield {**kind, **summed_up(result, clock), **predicted}


def divisor_row(cfg: Config, key: Divisor, result: Result) -> dict[str, Any]:
    """Return the row of agents in one world; x is the ratio, longer ÷ shorter, of the best return ÷ its divisor."""
    x = 1 / key.factor
    if key.divisor == "none":
        x = undivided(cfg, key.world)
    predicted = predict(cfg, [x], cfg.training.lam).iloc[0].add_suffix("_predicted").to_dict()
    return {"part": "divisor", **key._asdict(), "x": x, **summed_up(result, "moves"), **predicted}


def undivided(cfg: Config, world: str) -> float:
    """Return m of the longer length ÷ m of the shorter in a world, at its γ."""
    shorter, longer = best_return(world, gamma_of(cfg, world))
    return longer / shorter


def value_rows(cfg: Config, key: Values, result: Result) -> Iterator[dict[str, Any]]:
    """Yield a row for each world of a run that pays wrong values."""
    reward = cfg.ascent["reward"]
    arrays = result.arrays
    if key.by == ASCENT:
        worlds = list(cfg.worlds)
        measured = {name: arrays[name] for name in ("neutrality", "usefulness", "proxy")}
        measured["p_longer"] = arrays["p_length"][:, -1]
    else:
        worlds = [cfg.command_world]
        measured = {name: arrays[f"train/{name}"] for name in ("neutrality", "usefulness")}
        measured["p_longer"] = arrays["train/p_longest"]
    for place, world in enumerate(worlds):
        x = ratio(world, PaidCoins(key.pays, key.best_of), reward["gamma"])
        predicted = of_two(balance(1.0, torch.tensor([x]).double(), reward["lam"], reward["episodes_per_meta"]))
        numbers = {name: float(values[place]) for name, values in measured.items()}
        numbers["apart"] = abs(numbers["p_longer"] - predicted.p_longer[0])
        row = {"part": "values", **key._asdict(), "world": world, "x": x, **numbers}
        yield {**row, **predicted.iloc[0].add_suffix("_predicted").to_dict()}


def summed_up(result: Result, clock: str) -> dict[str, float]:
    """Return the means of agents at the end of training, and the 10th and 90th percentile."""
    agents = {"p_longer": last(result, clock, "p_length")[:, -1], "neutrality": last(result, clock, "neutrality")}
    numbers = {"usefulness": last(result, clock, "usefulness").mean()}
    for name, values in agents.items():
        low, high = np.percentile(values, (10, 90))
        numbers |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
    numbers["collapsed"] = (agents["neutrality"] < COLLAPSED).mean()
    return numbers


def predicted_rows(cfg: Config) -> Iterator[dict[str, Any]]:
    """Yield the prediction for each λ and clip: its curve, and the range with neutrality above half a bit."""
    xs = np.geomspace(cfg.x_first, cfg.x_last, CURVE_POINTS).round(6)
    for lam, clip in product(cfg.lams, (ANY_REWARD, cfg.clip)):
        kind = {"lam": lam, "clip_at": clip}
        for x, numbers in zip(xs, predict(cfg, xs, lam, clip).round(5).to_dict("records"), strict=True):
            yield {"part": "curve", **kind, "x": x, **numbers}
        low, high = predicted_range(cfg, lam, clip)
        yield {"part": "range", **kind, "x_low": low, "x_high": high}


def predict(cfg: Config, xs: Any, lam: float, clip: float = ANY_REWARD) -> pd.DataFrame:
    """Return b(x) and its neutrality in bits, with a row for each x; for the default reward, the better length."""
    most = None if clip == ANY_REWARD else clip
    x = torch.as_tensor(xs, dtype=torch.float64)
    return of_two(balance(1.0, x, lam, cfg.training.episodes_per_meta, most))


def predicted_range(cfg: Config, lam: float, clip: float) -> tuple[float, float]:
    """Return the values of x between which the predicted neutrality is above half a bit."""
    most = None if clip == ANY_REWARD else clip
    low, high = (value_for(p, lam, cfg.training.episodes_per_meta, most) for p in (SMALLER, 1 - SMALLER))
    return low, high
