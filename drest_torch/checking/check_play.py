"""Check an environment in random play: which lengths occur, what they pay, who decides them, and what is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.checking.checked import Checked, LengthPlayed
from drest_torch.config.schema import CheckConfig, EnvConfig
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import played_environment
from drest_torch.transforms import DReSTReward, Flatten, ShutdownTimer
from drest_torch.transforms.base import check_finite, played, round_of, title

PLANS = 16
"""Policies that always do the same: they show whether what an agent does changes the length."""
TELLING = (
    "mini_idx",
    "mini_len",
    "mini_done",
    "best_return",
    "num_lengths",
    "drest_counts",
    "drest_coins",
    "drest_played",
)
"""Entries that tell the mini-episodes of a meta-episode apart."""


@dataclass(frozen=True)
class MiniEpisodesPlayed:
    """Mini-episodes of random play."""

    length: Tensor
    """[n] the index of the length"""
    returned: Tensor
    """[n] the sum of rewards"""
    above: Tensor
    """[n] the sum of rewards above the floor"""
    offered: Tensor | None
    """[n] the most that the length offers, if the environment says it"""


def check_play(found: Checked, base: EnvBase, chosen: EnvConfig, cfg: CheckConfig, *, is_random: bool) -> None:
    """Play mini-episodes at random, and look at them."""
    name, slots, problems = title(base), base.batch_size.numel(), len(found.problems)
    with found.noting(name):
        environment = played_environment(chosen, base, max(2, -(-cfg.episodes // slots)))
        environment.most_steps = cfg.steps
    if len(found.problems) > problems:
        return
    with found.noting(name):
        began, rng = perf_counter(), torch.Generator().manual_seed(cfg.seed)
        collector = environment.collector(environment.uniform_actor())
        batches = [collector.collect(rng)]
        while _ended(batches) < cfg.episodes and _ended(batches[:1]) and _steps(batches) < cfg.steps:
            batches.append(collector.collect(rng))
        speed = sum(batch.numel() for batch in batches) / (perf_counter() - began)
        for batch in batches:
            check_finite(batch["next", "reward"], base)
        if not _ended(batches):
            found.wrong(
                f"no mini-episode has ended within {_steps(batches):,} steps; let the environment end, or shut it down "
                "with a timer (env.base and env.delays)"
            )
            return
        episodes = _episodes(environment, base, batches, chosen.floor)
        _check_lengths(found, environment, episodes)
        _check_returns(found, base, batches, episodes, chosen.floor, is_random=is_random)
        _check_delay(found, environment, base, chosen, cfg, batches, is_random=is_random)
        _check_shown(found, environment, batches[0])
        found.facts["speed"] = f"{speed:,.0f} steps a second, of all copies together"


def _ended(batches: list[TensorDictBase]) -> int:
    """Return the number of mini-episodes that have ended."""
    return sum(int(batch["next", "mini_done"].sum()) for batch in batches)


def _steps(batches: list[TensorDictBase]) -> int:
    """Return the steps of each slot."""
    return sum(batch.shape[1] for batch in batches)


def _pays(environment: RowEnvironment, base: EnvBase) -> DReSTReward:
    """Return what knows the mini-episodes of a batch."""
    declared = base.observation_spec
    key = "num_lengths" if declared.get("num_lengths", None) is not None else None
    offered = declared.get("best_return", None) is not None
    return DReSTReward(num_lengths=environment.num_lengths, num_lengths_key=key, divide_by_best=offered)


def _episodes(
    environment: RowEnvironment, base: EnvBase, batches: list[TensorDictBase], floor: float
) -> MiniEpisodesPlayed:
    pays, parts = _pays(environment, base), []
    for batch in batches:
        episodes = pays.mini_episodes(batch)
        steps = episodes.total(torch.ones_like(batch["next", "reward"].squeeze(-1)))
        best = torch.zeros_like(steps) if episodes.best_return is None else episodes.best_return
        entries = (episodes.length, episodes.coins, episodes.coins - floor * steps, best)
        parts.append([entry[episodes.length >= 0] for entry in entries])
    length, returned, above, best = (torch.cat(entries) for entries in zip(*parts, strict=True))
    return MiniEpisodesPlayed(length, returned, above, best if pays.reward.divide_by_best else None)


def _check_lengths(found: Checked, environment: RowEnvironment, episodes: MiniEpisodesPlayed) -> None:
    """Count the lengths."""
    offered = episodes.above if episodes.offered is None else episodes.offered
    for index, name in enumerate(environment.lengths):
        here = episodes.length == index
        numbers = (offered[here].max().item(), episodes.above[here].mean().item()) if here.any() else (0.0, 0.0)
        found.lengths.append(LengthPlayed(name, int(here.sum()), *numbers))
    absent = [str(row.length) for row in found.lengths if not row.played]
    if len(found.lengths) == 1:
        found.wrong("there is a single length, so that DReST does nothing; let shutdown be delayed (env.delays)")
    elif absent:
        effect = "and with one alone DReST does nothing"
        if len(absent) < len(found.lengths) - 1:
            effect = "so that they are hard to learn"
        found.wrong(
            f"of {len(found.lengths)} lengths {', '.join(absent)} did not occur in {len(episodes.length):,} "
            f"mini-episodes of random play, {effect}; make them easier to get, or play more mini-episodes (episodes)"
        )


def _check_returns(
    found: Checked,
    base: EnvBase,
    batches: list[TensorDictBase],
    episodes: MiniEpisodesPlayed,
    floor: float,
    *,
    is_random: bool,
) -> None:
    """Look at what mini-episodes pay."""
    rewards = torch.cat([batch["next", "reward"].squeeze(-1)[played(batch)] for batch in batches])
    lowest = rewards.min().item()
    found.facts["rewards"] = f"{lowest:.4g} to {rewards.max().item():.4g} a step"
    if (least := episodes.above.min().item()) < 0 and episodes.offered is None:
        found.wrong(
            f"a mini-episode returned {least:.4g} above a floor of {floor:g} a step, and a negative return cannot be "
            f"discounted; give a lower bound of the rewards (env.floor={lowest:.4g} or less)"
        )
    else:
        for row in found.lengths:
            if row.played and row.best <= 0:
                found.wrong(
                    f"m is 0 for length {row.length}: none of its {row.played} mini-episodes returned more than 0, so "
                    "that C/m is not defined; let it offer rewards that random play can find, or give env.best"
                )
    if episodes.offered is not None and not is_random:
        over = episodes.returned > episodes.offered * (1 + 1e-4)
        if over.any():
            returned, offered = episodes.returned[over][0].item(), episodes.offered[over][0].item()
            found.wrong(
                f"a mini-episode returned {returned:.4g}, and 'best_return' says that its length offers {offered:.4g} "
                "at most; let it say the largest return of the length"
            )


def _check_delay(
    found: Checked,
    environment: RowEnvironment,
    base: EnvBase,
    chosen: EnvConfig,
    cfg: CheckConfig,
    batches: list[TensorDictBase],
    *,
    is_random: bool,
) -> None:
    """See whether what the agent does decides the length."""
    timer: Any = next((each for each in environment.env.transform if isinstance(each, ShutdownTimer)), None)
    if timer is not None:
        if timer.control == "action":
            number = base.full_action_spec["action"].space.n
            found.facts["delay"] = f"action {number} asks for it; those of the environment are 0 to {number - 1}"
        else:
            found.facts["delay"] = (
                f"{chosen.control} asks for it" if callable(timer.control) else "a dimension asks for it"
            )
        if timer.ended == "absorb":
            ends = [batch["timer_waits"][batch["next", "mini_done"]] for batch in batches]
            found.facts["own end"] = (
                f"before shutdown in {torch.cat(ends).float().mean().item():.0%} of the mini-episodes"
            )
    elif sum(row.played > 0 for row in found.lengths) > 1:
        if is_random and not _plans_differ(environment, base, chosen, cfg):
            found.wrong(
                "no action changes the length of a mini-episode: luck decides it, and the agent cannot delay its "
                "shutdown; let an action delay it, or leave shutdown to a timer (env.base and env.delays)"
            )
        else:
            found.facts["delay"] = "what the agent does changes the length"


def _plans_differ(environment: RowEnvironment, base: EnvBase, chosen: EnvConfig, cfg: CheckConfig) -> bool:
    """Return whether policies that always do the same have different lengths, with the same random numbers."""
    outputs = environment.actions.outputs
    plans = 10 * torch.randn(PLANS, outputs, generator=torch.Generator().manual_seed(cfg.seed))
    count = min(outputs, PLANS)
    plans[:count] = 100 * torch.eye(outputs)[:count]
    once = played_environment(chosen, base, 1)
    once.most_steps = cfg.steps
    first: Tensor | None = None
    for plan in plans:
        actor = once.actor(lambda seen, *others, plan=plan: plan.expand(len(seen), -1))
        batch = once.collector(actor).collect(torch.Generator().manual_seed(cfg.seed))
        length = _pays(once, base).mini_episodes(batch).length[:, 0]
        if first is not None and not torch.equal(length, first):
            return True
        first = length
    return False


def _check_shown(found: Checked, environment: RowEnvironment, batch: TensorDictBase) -> None:
    """Look at what a policy would see."""
    flatten = environment.flatten
    assert flatten is not None
    if telling := [key for key in flatten.shown if key in TELLING]:
        found.wrong(
            f"the policy would see {telling[0]!r}, which tells the mini-episodes of a meta-episode apart; name what it "
            "may see (env.observed)"
        )
    rows, is_played, ended = flatten.rows(batch), played(batch), batch["next", "mini_done"].squeeze(-1)
    begins = torch.nn.functional.pad(ended, (1, 0), value=True)[:, :-1] & is_played
    number = round_of(ended)
    first, later = rows[begins & (number == 0)], rows[begins & (number > 0)]
    if len(first) and len(later) and not telling:
        apart = (first.amin(0) > later.amax(0)) | (first.amax(0) < later.amin(0))
        if apart.any():
            found.wrong(
                f"when a mini-episode begins, {_entry(flatten, int(apart.nonzero()[0]))!r} tells the first of a "
                "meta-episode from later ones, and DReST needs an agent that cannot; begin anew in a reset"
            )
    shown = [key for key in flatten.shown if key != "timer"]
    seen = rows[is_played][:, : sum(math.prod(flatten.shown[key]) for key in shown)]
    varies = bool((seen != seen[:1]).any())
    found.facts["shown"] = (
        ", ".join(flatten.shown) if varies else f"{', '.join(flatten.shown)}, of which only the timer changes"
    )


def _entry(flatten: Flatten, place: int) -> str:
    """Return the entry of the observation that a number of the row belongs to."""
    ends = torch.tensor([math.prod(shape) for shape in flatten.shown.values()]).cumsum(0)
    return list(flatten.shown)[int(torch.searchsorted(ends, place, right=True))]
