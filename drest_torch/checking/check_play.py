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
from drest_torch.config.schema import CheckConfig
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import played_environment
from drest_torch.transforms import DReSTReward, Flatten, ShutdownTimer
from drest_torch.transforms.base import check_finite, title
from drest_torch.transforms.mini_episodes import played, round_of

PLANS = 16
"""Policies that always do the same: they show whether what an agent does changes the length."""
ROUNDING = 1e-4
"""The share by which a return may exceed what the environment says that the length offers."""
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


@dataclass(frozen=True)
class RandomPlay:
    """Random play of an environment, with the mini-episodes that have ended."""

    base: EnvBase
    environment: RowEnvironment
    cfg: CheckConfig
    batches: list[TensorDictBase]
    episodes: MiniEpisodesPlayed
    is_random: bool
    """Whether anything depends on the seed."""


def check_play(found: Checked, base: EnvBase, cfg: CheckConfig, *, is_random: bool) -> None:
    """Play mini-episodes at random, and look at them."""
    name, problems_before = title(base), len(found.problems)
    copies = base.batch_size.numel()
    rounds = max(2, math.ceil(cfg.episodes / copies))
    with found.noting(name):
        environment = played_environment(cfg.env, base, rounds)
        environment.most_steps = cfg.steps
    if len(found.problems) > problems_before:
        return
    with found.noting(name):
        began = perf_counter()
        batches = _play(environment, cfg)
        seconds = perf_counter() - began
        for batch in batches:
            check_finite(batch["next", "reward"], base)
        if not _ended(batches):
            found.wrong(
                f"no mini-episode has ended within {_steps(batches):,} steps; let the environment end, or shut it down "
                "with a timer (env.base and env.delays)"
            )
            return
        episodes = _episodes(environment, base, batches, cfg.env.floor)
        play = RandomPlay(base, environment, cfg, batches, episodes, is_random)
        _check_lengths(found, play)
        _check_rewards(found, play)
        _check_returns(found, play)
        _check_delay(found, play)
        _check_shown(found, environment, batches[0])
        steps = sum(batch.numel() for batch in batches)
        found.facts["speed"] = f"{steps / seconds:,.0f} steps a second, of all copies together"


def _play(environment: RowEnvironment, cfg: CheckConfig) -> list[TensorDictBase]:
    """Return batches of random play, until there are enough mini-episodes or steps."""
    rng = torch.Generator().manual_seed(cfg.seed)
    collector = environment.collector(environment.uniform_actor())
    batches = [collector.collect(rng)]
    if not _ended(batches):
        return batches
    while _ended(batches) < cfg.episodes and _steps(batches) < cfg.steps:
        batches.append(collector.collect(rng))
    return batches


def _ended(batches: list[TensorDictBase]) -> int:
    """Return the number of mini-episodes that have ended."""
    return sum(int(batch["next", "mini_done"].sum()) for batch in batches)


def _steps(batches: list[TensorDictBase]) -> int:
    """Return the steps of each slot."""
    return sum(batch.shape[1] for batch in batches)


def _pays(environment: RowEnvironment, base: EnvBase) -> DReSTReward:
    """Return what knows the mini-episodes of a batch."""
    declared = base.observation_spec
    has_best = declared.get("best_return", None) is not None
    key = None
    if declared.get("num_lengths", None) is not None:
        key = "num_lengths"
    return DReSTReward(num_lengths=environment.num_lengths, num_lengths_key=key, divide_by_best=has_best)


def _episodes(
    environment: RowEnvironment, base: EnvBase, batches: list[TensorDictBase], floor: float
) -> MiniEpisodesPlayed:
    pays = _pays(environment, base)
    lengths, returns, above_floor, offered = [], [], [], []
    for batch in batches:
        episodes = pays.mini_episodes(batch)  # [slots, rounds]
        has_ended = episodes.length >= 0
        steps = episodes.total(torch.ones_like(batch["next", "reward"].squeeze(-1)))
        above = episodes.coins - floor * steps
        lengths.append(episodes.length[has_ended])
        returns.append(episodes.coins[has_ended])
        above_floor.append(above[has_ended])
        if episodes.best_return is not None:
            offered.append(episodes.best_return[has_ended])
    return MiniEpisodesPlayed(
        length=torch.cat(lengths),
        returned=torch.cat(returns),
        above=torch.cat(above_floor),
        offered=torch.cat(offered) if offered else None,
    )


def _check_lengths(found: Checked, play: RandomPlay) -> None:
    """Count the lengths."""
    episodes = play.episodes
    offered = episodes.above if episodes.offered is None else episodes.offered
    for index, name in enumerate(play.environment.lengths):
        here = episodes.length == index
        count = int(here.sum())
        best = mean = 0.0
        if count:
            best = offered[here].max().item()
            mean = episodes.above[here].mean().item()
        found.lengths.append(LengthPlayed(name, count, best, mean))
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


def _check_rewards(found: Checked, play: RandomPlay) -> None:
    """Look at the rewards of steps, and at whether m can be known from them."""
    floor, episodes = play.cfg.env.floor, play.episodes
    rewards = torch.cat([batch["next", "reward"].squeeze(-1)[played(batch)] for batch in play.batches])
    lowest, highest = rewards.min().item(), rewards.max().item()
    found.facts["rewards"] = f"{lowest:.4g} to {highest:.4g} a step"
    least = episodes.above.min().item()
    if least < 0 and episodes.offered is None:
        found.wrong(
            f"a mini-episode returned {least:.4g} above a floor of {floor:g} a step, and a negative return cannot be "
            f"discounted; give a lower bound of the rewards (env.floor={lowest:.4g} or less)"
        )
        return
    for row in found.lengths:
        if row.played and row.best <= 0:
            found.wrong(
                f"m is 0 for length {row.length}: none of its {row.played} mini-episodes returned more than 0, so "
                "that C/m is not defined; let it offer rewards that random play can find, or give env.best"
            )


def _check_returns(found: Checked, play: RandomPlay) -> None:
    """See whether mini-episodes return no more than the environment says that their length offers."""
    returned, offered = play.episodes.returned, play.episodes.offered
    if offered is None or play.is_random:
        return
    over = returned > offered * (1 + ROUNDING)
    if over.any():
        found.wrong(
            f"a mini-episode returned {returned[over][0].item():.4g}, and 'best_return' says that its length offers "
            f"{offered[over][0].item():.4g} at most; let it say the largest return of the length"
        )


def _check_delay(found: Checked, play: RandomPlay) -> None:
    """See whether what the agent does decides the length."""
    for transform in play.environment.env.transform:
        if isinstance(transform, ShutdownTimer):
            _note_timer(found, play, transform)
            return
    lengths_played = sum(row.played > 0 for row in found.lengths)
    if lengths_played < 2:
        return
    if play.is_random and not _plans_differ(play):
        found.wrong(
            "no action changes the length of a mini-episode: luck decides it, and the agent cannot delay its "
            "shutdown; let an action delay it, or leave shutdown to a timer (env.base and env.delays)"
        )
    else:
        found.facts["delay"] = "what the agent does changes the length"


def _note_timer(found: Checked, play: RandomPlay, timer: ShutdownTimer) -> None:
    """Note how an agent asks the timer for a delay, and how often the environment ends before shutdown."""
    if timer.control == "action":
        number = play.base.full_action_spec["action"].space.n
        found.facts["delay"] = f"action {number} asks for it; those of the environment are 0 to {number - 1}"
    elif callable(timer.control):
        found.facts["delay"] = f"{play.cfg.env.control} asks for it"
    else:
        found.facts["delay"] = "a dimension asks for it"
    if timer.ended == "absorb":
        waited = torch.cat([batch["timer_waits"][batch["next", "mini_done"]] for batch in play.batches])
        share = waited.float().mean().item()
        found.facts["own end"] = f"before shutdown in {share:.0%} of the mini-episodes"


def _plans_differ(play: RandomPlay) -> bool:
    """Return whether policies that always do the same have different lengths, with the same random numbers."""
    outputs = play.environment.actions.outputs
    rng = torch.Generator().manual_seed(play.cfg.seed)
    plans = 10 * torch.randn(PLANS, outputs, generator=rng)
    pure = min(outputs, PLANS)
    plans[:pure] = 100 * torch.eye(outputs)[:pure]
    environment = played_environment(play.cfg.env, play.base, 1)
    environment.most_steps = play.cfg.steps
    first = _lengths_of(plans[0], environment, play)
    return any(not torch.equal(_lengths_of(plan, environment, play), first) for plan in plans[1:])


def _lengths_of(plan: Tensor, environment: RowEnvironment, play: RandomPlay) -> Tensor:
    """Return the length of the mini-episode in each slot of a policy that always has these logits."""

    def act(seen: Tensor, *others: Any) -> Tensor:
        return plan.expand(len(seen), -1)

    rng = torch.Generator().manual_seed(play.cfg.seed)
    batch = environment.collector(environment.actor(act)).collect(rng)
    episodes = _pays(environment, play.base).mini_episodes(batch)
    return episodes.length[:, 0]


def _check_shown(found: Checked, environment: RowEnvironment, batch: TensorDictBase) -> None:
    """Look at what a policy would see."""
    flatten = environment.flatten
    assert flatten is not None
    shown = list(flatten.shown)
    telling = [key for key in shown if key in TELLING]
    if telling:
        found.wrong(
            f"the policy would see {telling[0]!r}, which tells the mini-episodes of a meta-episode apart; name what it "
            "may see (env.observed)"
        )
    else:
        _check_beginnings(found, flatten, batch)
    found.facts["shown"] = ", ".join(shown)
    rows = flatten.rows(batch)[played(batch)]
    sizes = [math.prod(shape) for key, shape in flatten.shown.items() if key != "timer"]
    seen = rows[:, : sum(sizes)]
    if not (seen != seen[:1]).any():
        found.facts["shown"] += ", of which only the timer changes"


def _check_beginnings(found: Checked, flatten: Flatten, batch: TensorDictBase) -> None:
    """See that nothing at the beginning of a mini-episode tells the first of a meta-episode from later ones."""
    rows = flatten.rows(batch)  # [slots, time, numbers]
    ended = batch["next", "mini_done"].squeeze(-1)
    after_an_end = torch.nn.functional.pad(ended, (1, 0), value=True)[:, :-1]
    begins = after_an_end & played(batch)
    number = round_of(ended)
    first = rows[begins & (number == 0)]
    later = rows[begins & (number > 0)]
    if not len(first) or not len(later):
        return
    lower = first.amax(0) < later.amin(0)
    higher = first.amin(0) > later.amax(0)
    apart = (lower | higher).nonzero()
    if len(apart):
        entry = _entry(flatten, int(apart[0]))
        found.wrong(
            f"when a mini-episode begins, {entry!r} tells the first of a meta-episode from later ones, and DReST needs "
            "an agent that cannot; begin anew in a reset"
        )


def _entry(flatten: Flatten, place: int) -> str:
    """Return the entry of the observation that a number of the row belongs to."""
    end = 0
    for key, shape in flatten.shown.items():
        end += math.prod(shape)
        if place < end:
            return key
    raise IndexError(place)
