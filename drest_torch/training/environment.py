"""Train in any TorchRL or Gymnasium environment: its learner, its updates and its evaluation."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.algos import ALGORITHMS
from drest_torch.building.agents import AgentSpec
from drest_torch.building.environments import REFERENCE, training_environment
from drest_torch.building.policies import build_networks, spec_in_environment
from drest_torch.building.trained import animate, evaluator_of
from drest_torch.config.schema import Config, copies_of
from drest_torch.errors import CheckpointError, ConfigError, UserError, blaming
from drest_torch.evaluation.environment import EnvironmentEvaluator
from drest_torch.evaluation.memory_guard import MemoryGuard
from drest_torch.files import read_whole
from drest_torch.reward import Reward
from drest_torch.tracking.stages import stage
from drest_torch.training.task import Task, TrainPart, count, origin_of
from drest_torch.training.updates import sampled_learner
from drest_torch.transforms.base import innermost, observation_keys, played, title

REFERENCES = "references"
"""The name of the folder of reference agents, inside the folder of a run."""
WATCHED_SHARE = 4
"""During training, one of so many of the mini-episodes of the last evaluation is played."""


class EnvironmentTask(Task):
    """An environment that is no gridworld. Policies are evaluated by sampling, with m(l) as training knows it."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator) -> None:
        self.cfg = cfg
        has_critic = ALGORITHMS[cfg.algo.name].Algorithm.needs_critic
        self.environment = training_environment(cfg, reward.at(0.0), learner_has_critic=has_critic)
        if keeps_state(self.environment.env, cfg.seed):
            print(
                f"drest_torch: {cfg.env.title} begins in another state when it is reset with the same seed again, so "
                "it is not promised that a run which is resumed or repeated is the same",
                file=sys.stderr,
            )
        flatten = self.environment.flatten
        assert flatten is not None
        if cfg.env.standardise:  # by what random actions show in one meta-episode of each slot
            batch = self.environment.collector(self.environment.uniform_actor()).collect(rng)
            flatten.measure(flatten.rows(batch)[played(batch)])
        origin = origin_of(cfg, str(cfg.env.title), self.environment.lengths)
        self.spec = AgentSpec(spec_in_environment(cfg, self.environment), reward, origin)
        context = self.environment.critic_context if has_critic else None
        with MemoryGuard():
            policy, critic = build_networks(
                self.spec.policy, cfg.seed, critic_width=getattr(cfg.algo, "critic_width", None), context=context
            )
        self.learner, self.updater = sampled_learner(cfg, self.environment, policy, critic, rng)
        most = cfg.sampled or 1024
        self.last = evaluator_of(cfg, reward, self.environment, most)
        few, beside = max(1, most // WATCHED_SHARE), self.last.environment
        self.watched = {"test": evaluator_of(cfg, reward, self.environment, few, seed=cfg.seed + 1, beside=beside)}

    def judges(self) -> Iterator[tuple[str, EnvironmentEvaluator]]:
        yield "test", self.last

    def pictures(self, split: str, evaluator: Any, evaluation: Any, folder: Path) -> list[Path]:
        gif = folder / "lengths.gif"
        try:
            animate(self.cfg, self.environment, self.learner.policy, gif)
        except UserError as error:  # the run has ended well without it
            print(f"drest_torch: no animation: {error}", file=sys.stderr)
            return []
        return [gif]

    def prepare(self, folder: Path, train: TrainPart, *, has_trained: bool) -> bool:
        if self.cfg.env.best != REFERENCE:
            return True
        known = self.environment.best_returns
        best = reference_best(self.cfg, self.environment.lengths, folder, train, levels=len(known))
        if best is None or self.environment.best is None:
            return best is not None
        if has_trained and not torch.equal(known, best.to(known)):
            raise CheckpointError(
                f"{folder / REFERENCES}: the reference agents have other returns than those that the run has trained "
                "with; put their files back, or train anew in another run_dir"
            )
        self.environment.best.best.copy_(best)
        return True

    def lines(self) -> list[str]:
        cfg, env, best = self.cfg, self.cfg.env, self.environment.best
        workers = f" in {count(env.workers, 'process')}" if env.workers else ""
        copies = f"{copies_of(cfg)} copies{workers}; lengths {', '.join(map(str, self.environment.lengths))}"
        lines = [f"trained in: {env.title} ({env.name}), {copies}"]
        if env.best == REFERENCE and best is not None:
            lines.append(f"m(l): {', '.join(f'{m:.4g}' for m in best.best.mean(0))}, by reference agents")
        return [*lines, f"evaluated by: {count(cfg.sampled or 1024, 'mini-episode')}"]

    def close(self) -> None:
        for environment in (self.last.environment, self.watched["test"].environment, self.environment):
            environment.env.close(raise_if_closed=False)


@torch.no_grad()
def keeps_state(env: EnvBase, seed: int) -> bool:
    """Return whether what an environment shows first, after a reset from a seed, depends on what was played before."""
    env, shown = innermost(env), []
    with torch.random.fork_rng(), blaming(title(env), wholly=False):
        torch.manual_seed(seed)
        for _ in range(2):
            env.set_seed(seed)
            state = env.reset()
            shown.append([state[key].clone() for key in observation_keys(env)])
            env.rand_step(state)
    return not all(torch.equal(*pair) for pair in zip(*shown, strict=True))


def reference_best(
    cfg: Config, lengths: Sequence[int], folder: Path, train: TrainPart, *, levels: int
) -> Tensor | None:
    """Return m(l) [levels, k], the mean returns of reference agents: one for each length, with that length alone.

    Those that are not there yet are trained, or go on where they stopped. Their runs are in ``references/LENGTH`` of
    the run's folder. None: it was interrupted, and has saved.
    """
    found = []
    for index, length in enumerate(lengths):
        own = folder / REFERENCES / str(length)
        if not (own / "summary.json").exists():
            which = f"{index + 1} of {len(lengths)}"
            stage(f"training a reference agent for {length} steps ({which}) …", shown=cfg.progress)
            alone = copy.deepcopy(cfg)  # with a single length, nothing is discounted
            alone.env.base, alone.env.delays, alone.env.best = length, [], None
            alone.env_steps, alone.env.reference_steps = cfg.env.reference_steps or cfg.env_steps, None
            alone.logger.sinks, alone.pictures = {}, 0
            if train(alone, own) is None:
                return None
        returns = _returns_of_reference(own, length, levels)
        if min(returns) <= 0:
            raise ConfigError(
                f"{own}: the reference agent for {length} steps has a mean return of {min(returns):g}, and m(l) must "
                "be above 0; train it for longer (env.reference_steps), or give env.floor, a lower bound of the rewards"
            )
        found.append(returns)
    return torch.tensor(found).T


def _returns_of_reference(folder: Path, length: int, levels: int) -> list[float]:
    """Return the mean returns of a reference agent, by level, from the folder of its run, which may be damaged."""
    path = folder / "levels_test.json"
    again = f"put it back, or delete {folder}, and the agent is trained again"
    try:
        content, summary = read_whole(path), json.loads(read_whole(folder / "summary.json"))
        returns = [float(record["return_given_length"][str(length)]) for record in json.loads(content)]
        are_numbers = len(returns) == levels and all(map(math.isfinite, returns))
        written = summary.get("sha256", {}).get(path.name)  # earlier versions have not written it
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {again}") from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        are_numbers = False
    if not are_numbers:
        raise CheckpointError(f"{path}: has no finite mean return for {length} steps on each level; {again}")
    if written is not None and written != hashlib.sha256(content).hexdigest():
        raise CheckpointError(f"{path}: was changed after the reference agent was trained; {again}")
    return returns
