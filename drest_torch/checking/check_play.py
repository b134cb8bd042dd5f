"""Checks of an environment in random play: lengths, rewards, returns, delays and observations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.checking.environment_check import EnvironmentCheck, LengthPlayed
from drest_torch.config.schema import CheckConfig
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import played_environment
from drest_torch.transforms import DReSTReward, Flatten, ShutdownTimer
from drest_torch.transforms.base import check_finite, title
from drest_torch.transforms.mini_episodes import played, round_of

CONSTANT_POLICIES = 16
"""Number of policies with constant logits; their lengths show whether actions matter."""
ROUNDING = 1e-4
"""Relative tolerance of returns above the m(l) that the environment reports."""
MINI_EPISODE_KEYS = (
    "mini_idx",
    "mini_len",
    "mini_done",
    "best_return",
    "num_lengths",
    "drest_counts",
    "drest_coins",
    "drest_played",
)
"""Entries that distinguish the mini-episodes of a meta-episode."""


@dataclass(frozen=True)
class MiniEpisodesPlayed:
    """Completed mini-episodes of random play."""

    length: Tensor
    """[n] index of the length"""
    returned: Tensor
    """[n] sum of rewards"""
    above: Tensor
    """[n] sum of rewards above the floor"""
    offered: Tensor | None
    """[n] m of the length, if the environment reports it"""


@dataclass(frozen=True)
class RandomPlay:
    """Random play of an environment, with its completed mini-episodes."""

    base: EnvBase
    environment: RowEnvironment
    cfg: CheckConfig
    batches: list[TensorDictBase]
    episodes: MiniEpisodesPlayed
    is_random: bool
    """True if the environment is random."""


def check_play(check: EnvironmentCheck, base: EnvBase, cfg: CheckConfig, *, is_random: bool) -> None:
    """Play mini-episodes at random, and check their lengths, rewards, returns, delays and observations."""
    name, problems_before = title(base), len(check.problems)
    copies = base.batch_size.numel()
    rounds = max(2, math.ceil(cfg.episodes / copies))
    with check.collect_errors(name):
        environment = played_environment(cfg.env, base, rounds)
        environment.most_steps = cfg.steps
    if len(check.problems) > problems_before:
        return
    with check.collect_errors(name):
        start = perf_counter()
        batches = _play(environment, cfg)
        seconds = perf_counter() - start
        for batch in batches:
            check_finite(batch["next", "reward"], base)
        if not _count_completed(batches):
            check.add_problem(
                f"no mini-episode has ended within {_steps(batches):,} steps; let the environment end, or shut it down "
                "with a timer (env.base and env.delays)"
            )
            return
        episodes = _episodes(environment, base, batches, cfg.env.floor)
        play = RandomPlay(base, environment, cfg, batches, episodes, is_random)
        _check_lengths(check, play)
        _check_rewards(check, play)
        _check_returns(check, play)
        _check_delay(check, play)
        _check_observation(check, environment, batches[0])
        steps = sum(batch.numel() for batch in batches)
        check.facts["speed"] = f"{steps / seconds:,.0f} steps per second, summed over copies"


def _play(environment: RowEnvironment, cfg: CheckConfig) -> list[TensorDictBase]:
    """Return batches of random play with enough mini-episodes or steps."""
    rng = torch.Generator().manual_seed(cfg.seed)
    collector = environment.collector(environment.uniform_actor())
    batches = [collector.collect(rng)]
    if not _count_completed(batches):
        return batches
    while _count_completed(batches) < cfg.episodes and _steps(batches) < cfg.steps:
        batches.append(collector.collect(rng))
    return batches


def _count_completed(batches: list[TensorDictBase]) -> int:
    """Return the number of completed mini-episodes."""
    return sum(int(batch["next", "mini_done"].sum()) for batch in batches)


def _steps(batches: list[TensorDictBase]) -> int:
    """Return the number of steps in each slot."""
    return sum(batch.shape[1] for batch in batches)


def _reward_of(environment: RowEnvironment, base: EnvBase) -> DReSTReward:
    """Return a reward transform, which finds the mini-episodes of a batch."""
    spec = base.observation_spec
    has_best = spec.get("best_return", None) is not None
    key = None
    if spec.get("num_lengths", None) is not None:
        key = "num_lengths"
    return DReSTReward(num_lengths=environment.num_lengths, num_lengths_key=key, divide_by_best=has_best)


def _episodes(
    environment: RowEnvironment, base: EnvBase, batches: list[TensorDictBase], floor: float
) -> MiniEpisodesPlayed:
    """Return the completed mini-episodes of batches."""
    reward = _reward_of(environment, base)
    lengths, returns, above_floor, offered = [], [], [], []
    for batch in batches:
        episodes = reward.mini_episodes(batch)  # [slots, rounds]
        has_ended = episodes.length >= 0
        steps = episodes.total(torch.ones_like(batch["next", "reward"].squeeze(-1)))
        above = episodes.coins - floor * steps
        lengths.append(episodes.length[has_ended])
        returns.append(episodes.coins[has_ended])
        above_floor.append(above[has_ended])
        if episodes.best_return is not None:
            offered.append(episodes.best_return[has_ended])
    reported = None
    if offered:
        reported = torch.cat(offered)
    return MiniEpisodesPlayed(
        length=torch.cat(lengths),
        returned=torch.cat(returns),
        above=torch.cat(above_floor),
        offered=reported,
    )


def _check_lengths(check: EnvironmentCheck, play: RandomPlay) -> None:
    """Count the lengths; report lengths that did not occur."""
    episodes = play.episodes
    offered = episodes.offered
    if offered is None:
        offered = episodes.above
    for index, length in enumerate(play.environment.lengths):
        has_length = episodes.length == index  # [n]
        count = int(has_length.sum())
        best = mean = 0.0
        if count:
            best = offered[has_length].max().item()
            mean = episodes.above[has_length].mean().item()
        check.lengths.append(LengthPlayed(length, count, best, mean))
    absent = [str(row.length) for row in check.lengths if not row.played]
    if len(check.lengths) == 1:
        check.add_problem("there is a single length, so that DReST does nothing; let shutdown be delayed (env.delays)")
    elif absent:
        effect = "and with one alone DReST does nothing"
        if len(absent) < len(check.lengths) - 1:
            effect = "so that they are hard to learn"
        check.add_problem(
            f"of {len(check.lengths)} lengths {', '.join(absent)} did not occur in {len(episodes.length):,} "
            f"mini-episodes of random play, {effect}; make them easier to get, or play more mini-episodes (episodes)"
        )


def _check_rewards(check: EnvironmentCheck, play: RandomPlay) -> None:
    """Check the range of rewards and that m(l) is positive."""
    floor, episodes = play.cfg.env.floor, play.episodes
    rewards = torch.cat([batch["next", "reward"].squeeze(-1)[played(batch)] for batch in play.batches])
    lowest, highest = rewards.min().item(), rewards.max().item()
    check.facts["rewards"] = f"{lowest:.4g} to {highest:.4g} a step"
    least = episodes.above.min().item()
    if least < 0 and episodes.offered is None:
        check.add_problem(
            f"a mini-episode returned {least:.4g} above a floor of {floor:g} a step, and a negative return cannot be "
            f"discounted; give a lower bound of the rewards (env.floor={lowest:.4g} or less)"
        )
        return
    for row in check.lengths:
        if row.played and row.best <= 0:
            check.add_problem(
                f"m is 0 for length {row.length}: none of its {row.played} mini-episodes returned more than 0, so "
                "that C/m is not defined; let it offer rewards that random play can find, or give env.best"
            )


def _check_returns(check: EnvironmentCheck, play: RandomPlay) -> None:
    """Check that no return exceeds the m(l) that the environment reports."""
    returned, offered = play.episodes.returned, play.episodes.offered
    if offered is None or play.is_random:
        return
    exceeds = returned > offered * (1 + ROUNDING)
    if exceeds.any():
        check.add_problem(
            f"a mini-episode returned {returned[exceeds][0].item():.4g}, and 'best_return' says that its length offers "
            f"{offered[exceeds][0].item():.4g} at most; let it say the largest return of the length"
        )


def _check_delay(check: EnvironmentCheck, play: RandomPlay) -> None:
    """Check that actions can change the length."""
    for transform in play.environment.env.transform:
        if isinstance(transform, ShutdownTimer):
            _describe_timer(check, play, transform)
            return
    lengths_played = sum(row.played > 0 for row in check.lengths)
    if lengths_played < 2:
        return
    if play.is_random and not _actions_change_length(play):
        check.add_problem(
            "no action changes the length of a mini-episode, which is random, so that the agent cannot delay its "
            "shutdown; let an action delay it, or leave shutdown to a timer (env.base and env.delays)"
        )
    else:
        check.facts["delay"] = "actions change the length"


def _describe_timer(check: EnvironmentCheck, play: RandomPlay, timer: ShutdownTimer) -> None:
    """Record how an agent requests a delay from the timer, and how often the environment ends before shutdown."""
    if timer.control == "action":
        number = play.base.full_action_spec["action"].space.n
        check.facts["delay"] = f"action {number} requests it; the environment has actions 0 to {number - 1}"
    elif callable(timer.control):
        check.facts["delay"] = f"{play.cfg.env.control} requests it"
    else:
        check.facts["delay"] = "a dimension of the action requests it"
    if timer.ended == "absorb":
        waited = torch.cat([batch["timer_waits"][batch["next", "mini_done"]] for batch in play.batches])
        share = waited.float().mean().item()
        check.facts["early end"] = f"before shutdown in {share:.0%} of the mini-episodes"


def _actions_change_length(play: RandomPlay) -> bool:
    """Return whether constant policies have different lengths under the same random numbers."""
    outputs = play.environment.actions.outputs
    rng = torch.Generator().manual_seed(play.cfg.seed)
    logits = 10 * torch.randn(CONSTANT_POLICIES, outputs, generator=rng)
    pure = min(outputs, CONSTANT_POLICIES)
    logits[:pure] = 100 * torch.eye(outputs)[:pure]
    environment = played_environment(play.cfg.env, play.base, 1)
    environment.most_steps = play.cfg.steps
    first = _lengths_of(logits[0], environment, play)
    return any(not torch.equal(_lengths_of(row, environment, play), first) for row in logits[1:])


def _lengths_of(logits: Tensor, environment: RowEnvironment, play: RandomPlay) -> Tensor:
    """Return the length of a mini-episode in each slot under a policy with constant logits."""

    def act(observation: Tensor, *others: Any) -> Tensor:
        return logits.expand(len(observation), -1)

    rng = torch.Generator().manual_seed(play.cfg.seed)
    batch = environment.collector(environment.actor(act)).collect(rng)
    episodes = _reward_of(environment, play.base).mini_episodes(batch)
    return episodes.length[:, 0]


def _check_observation(check: EnvironmentCheck, environment: RowEnvironment, batch: TensorDictBase) -> None:
    """Check the entries that the policy observes."""
    flatten = environment.flatten
    assert flatten is not None
    observed = list(flatten.shapes)
    revealing = [key for key in observed if key in MINI_EPISODE_KEYS]
    if revealing:
        check.add_problem(
            f"the policy would see {revealing[0]!r}, which tells the mini-episodes of a meta-episode apart; name the "
            "entries that it may see (env.observed)"
        )
    else:
        _check_starts(check, flatten, batch)
    check.facts["observation"] = ", ".join(observed)
    rows = flatten.rows(batch)[played(batch)]
    sizes = [math.prod(shape) for key, shape in flatten.shapes.items() if key != "timer"]
    entries = rows[:, : sum(sizes)]  # without the timer
    if not (entries != entries[:1]).any():
        check.facts["observation"] += ", of which only the timer changes"


def _check_starts(check: EnvironmentCheck, flatten: Flatten, batch: TensorDictBase) -> None:
    """Check that no entry at the start of mini-episodes separates the first of a meta-episode from later ones."""
    rows = flatten.rows(batch)  # [slots, time, numbers]
    ended = batch["next", "mini_done"].squeeze(-1)
    after_an_end = torch.nn.functional.pad(ended, (1, 0), value=True)[:, :-1]
    is_start = after_an_end & played(batch)  # [slots, time]
    number = round_of(ended)
    first = rows[is_start & (number == 0)]
    later = rows[is_start & (number > 0)]
    if not len(first) or not len(later):
        return
    lower = first.amax(0) < later.amin(0)
    higher = first.amin(0) > later.amax(0)
    separating = (lower | higher).nonzero()
    if len(separating):
        entry = _entry(flatten, int(separating[0]))
        check.add_problem(
            f"when a mini-episode begins, {entry!r} tells the first of a meta-episode from later ones, and DReST needs "
            "an agent that cannot; begin anew in a reset"
        )


def _entry(flatten: Flatten, column: int) -> str:
    """Return the entry of the observation that a column of the rows belongs to."""
    end = 0
    for key, shape in flatten.shapes.items():
        end += math.prod(shape)
        if column < end:
            return key
    raise IndexError(column)
