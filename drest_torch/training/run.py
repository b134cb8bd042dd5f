"""A run: collect, update, evaluate, log, save, until its steps are done. One loop for all algorithms."""

from __future__ import annotations

import io
import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import torch
from omegaconf import OmegaConf
from torch import Tensor

from algos.base import Learner
from algos.generators import Draws
from drest_torch.config.checks import check_levels, check_run, device_of
from drest_torch.config.schema import Config, algorithm, in_lockstep, learns_from
from drest_torch.config.stored import load_config, write_config
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact import Prepared, check_size
from drest_torch.evaluation.summary import draw_policies, split_summary
from drest_torch.files import write_json
from drest_torch.plots.curves import learning_curves
from drest_torch.tracking.progress import Progress
from drest_torch.tracking.sinks import Loggers
from drest_torch.training import levels as data
from drest_torch.training.build import evaluator, map_size, networks
from drest_torch.training.checkpoints import (
    load_checkpoint,
    load_module,
    load_optimizer,
    module_tensors,
    optimizer_tensors,
    prune,
    save_checkpoint,
    step_checkpoints,
    step_path,
)
from drest_torch.training.multi_seed import Together, joined, mean
from drest_torch.training.updates import Turn, compiled, reward_of, turn_of
from envs.dynamics.mdp import compile_levels
from envs.dynamics.observations import make_observation
from envs.exact.state_count import estimate_size

CHECKPOINTS = "checkpoints"
"""In a run's folder, that of its checkpoints."""
TRAINED_LEVELS_REPORTED = 1000
"""Of a larger training set the final evaluation takes so many levels; held-out sets it takes whole."""


@dataclass
class State:
    """Where a run stands; with the tensors of its checkpoint, all that is needed to go on."""

    steps: int = 0
    episodes: int = 0
    updates: int = 0
    evaluated: int = 0
    wall_seconds: float = 0.0
    best_score: float = -math.inf
    wandb_id: str | None = None


class Run:
    """One training run and its folder."""

    def __init__(self, cfg: Config, folder: Path) -> None:
        self.cfg, self.folder = cfg, folder
        self.state = State()
        check_run(cfg)
        self.levels = data.load(cfg)
        check_levels(cfg, self.levels.train, self.levels.evaluated())
        self.device = device_of(cfg.device)
        if cfg.threads is not None:
            torch.set_num_threads(cfg.threads)
        self.seeds = range(cfg.seed, cfg.seed + cfg.agents)
        self.draws = Draws([torch.Generator(self.device).manual_seed(seed) for seed in self.seeds])
        self.map_size = map_size(cfg, self.levels)
        self.reward = reward_of(cfg)
        self.agents = [Together(folder, cfg, index) for index in range(cfg.agents)] if cfg.agents > 1 else []
        """Of one agent, the folder is the run's."""
        self._check_sizes()
        self.learner, self.turn = self._build()
        self.selection = self.evaluator(self.levels.selection) if self.levels.selection else None
        at_most = cfg.evaluated_levels
        self.watched = {name: self.evaluator(levels[:at_most]) for name, levels in self.levels.reported.items()}

    def _build(self) -> tuple[Learner, Turn]:
        """The algorithm with its networks, and where its turns come from."""
        cfg = self.cfg
        train = self.levels.train
        # Of levels that are compiled as they are drawn, one is enough to know what a network is shown.
        drawn_first = learns_from(cfg) == "levels" or (
            self.levels.split and (cfg.levels.fresh or cfg.levels.symmetries)
        )
        mdp = compile_levels(
            train[:1] if drawn_first else train,
            self.device,
            at_least=self.map_size,
            by_chance=any(level.by_chance for level in train),
        )
        observe = make_observation(cfg.policy.observation, mdp)
        kind = algorithm(cfg.algo.name).Algorithm
        turn = turn_of(cfg, self.levels, mdp, observe, self.draws)
        made = [
            networks(
                cfg,
                observe,
                turn.context_size,
                with_critic=kind.needs_critic,
                seed=seed,
                fixed_shapes=in_lockstep(cfg),
            )
            for seed in self.seeds
        ]
        policy, critic = (joined(each, self.device) for each in zip(*made, strict=True))
        learner = kind(policy, critic, cfg.algo, self.draws)
        if cfg.compile:
            learner.loss = compiled(cfg, learner.loss)
        turn.begin(learner)
        return learner, turn

    def evaluator(self, levels: list[Any]) -> Prepared:
        cfg = self.cfg
        return evaluator(cfg, levels, self.map_size, self.device, sampled=cfg.sampled, memory_gib=cfg.memory_gib)

    def _check_sizes(self) -> None:
        """Refuse at once what would be refused when the levels are evaluated, during training or at its end."""
        for levels in filter(None, (*self._reported().values(), self.levels.selection)):
            mdp = compile_levels(levels, self.device, at_least=self.map_size)
            check_size(mdp, estimate_size(mdp), self.cfg.memory_gib if self.cfg.sampled is None else None)

    def _reported(self) -> dict[str, list[Any]]:
        """The levels of each split that the final evaluation takes."""
        return {
            split: levels[:TRAINED_LEVELS_REPORTED] if split == "train" else levels
            for split, levels in self.levels.reported.items()
        }

    # ------------------------------------------------------------------------------------- the loop

    def train(self) -> dict[str, Any] | None:
        """Run to the end and return the summary; None if it was interrupted (and saved)."""
        cfg, state = self.cfg, self.state
        run_config: Any = OmegaConf.to_container(OmegaConf.structured(cfg), resolve=True)
        began = time.monotonic() - state.wall_seconds
        with (
            Loggers(cfg.logger, self.folder, run_config, state.wandb_id, continue_from=state.steps) as loggers,
            Progress(cfg.env_steps, done=state.steps, title=self.folder.name, stream=_stream(cfg)) as progress,
            _interruptible() as interrupted,
        ):
            state.wandb_id = loggers.run_id
            for agent in self.agents:
                agent.begin(self.levels, state.steps)
            if state.steps == 0:
                loggers.log(0, self._watch())
            while state.steps < cfg.env_steps:
                metrics = self._update()
                state.wall_seconds = time.monotonic() - began
                metrics["time/wall_seconds"] = state.wall_seconds
                due = min(state.steps, cfg.env_steps) * cfg.evaluations // cfg.env_steps
                evaluates = due > state.evaluated
                if evaluates:
                    state.evaluated = due
                    metrics |= self._watch()
                # Logged before it is saved: a resumed run then finds every line up to its checkpoint.
                loggers.log(state.steps, metrics)
                progress.update(state.steps, metrics)
                if evaluates:
                    self._save_best(metrics)
                    self.save()
                if interrupted() and state.steps < cfg.env_steps:
                    self.save()
                    progress.note(
                        f"Stopped at {state.steps:,} steps and saved. Go on with: {resume_command(self.folder)}"
                    )
                    return None
            summary = self._report(loggers)
        return summary

    def _update(self) -> dict[str, float]:
        state = self.state
        progress = state.steps / self.cfg.env_steps
        self.learner.set_progress(progress)
        self.learner.reward = self.reward.at(progress)
        scheduled = {"reward/episodes_per_meta": self.learner.reward.episodes_per_meta, **self.learner.scheduled()}
        taken = self.turn.take(self.learner)
        state.steps += taken.steps
        state.episodes += taken.episodes
        state.updates += 1
        return scheduled | _numbers(taken.metrics)

    def _policies(self) -> list[Any]:
        """The policy of each agent as it is."""
        policy = self.learner.policy
        return [policy] if self.cfg.agents == 1 else [policy.agent(index) for index in range(self.cfg.agents)]

    def _watch(self) -> dict[str, float]:
        """The metrics of the policy as it is, on the levels that are looked at during training.

        Of several agents they are the means; each agent's own stand in its folder.
        """
        watched = self.watched if self.selection is None else {**self.watched, "selection": self.selection}
        found = [
            {
                f"eval/{split}/{name}": value
                for split, each in watched.items()
                for name, value in each.evaluate(policy).means().items()
            }
            for policy in self._policies()
        ]
        for agent, metrics in zip(self.agents, found, strict=False):
            agent.log(self.state.steps, metrics)
        return mean(found)

    def _report(self, loggers: Loggers) -> dict[str, Any]:
        """Evaluate on all levels; write the summary, the values of every level and the pictures."""
        cfg = self.cfg
        splits = self._splits(loggers)
        summary = self._summary(cfg.seed) | {"splits": mean(splits)}
        if self.agents:
            summary["agents"] = {}
            for agent, found in zip(self.agents, splits, strict=True):
                write_json(agent.folder / "summary.json", self._summary(agent.seed) | {"splits": found})
                summary["agents"][str(agent.seed)] = found
        write_json(self.folder / "summary.json", summary)
        curves = self.folder / "pictures" / "learning.png"
        learning_curves(self.folder / "metrics.jsonl", curves)
        loggers.picture("learning", curves)
        loggers.summary(
            {
                f"{split}/{name}": value
                for split, numbers in summary["splits"].items()
                for name, value in numbers.items()
                if isinstance(value, float)
            }
        )
        return summary

    def _summary(self, seed: int) -> dict[str, Any]:
        return {
            "algo": self.cfg.algo.name,
            "reward": self.cfg.reward.name,
            "seed": seed,
            "env_steps": self.state.steps,
            "mini_episodes": self.state.episodes,
            "wall_seconds": round(self.state.wall_seconds, 3),
        }

    def _splits(self, loggers: Loggers) -> list[dict[str, Any]]:
        """For each agent the numbers of each split; every level's, and pictures, go to its folder."""
        policies, folders = self._policies(), [agent.folder for agent in self.agents] or [self.folder]
        splits: list[dict[str, Any]] = [{} for _ in policies]
        for split, levels in self._reported().items():
            each = self.evaluator(levels)
            uniform, file = each.evaluate_uniform(), f"levels_{split}.json"
            for policy, folder, numbers in zip(policies, folders, splits, strict=True):
                found = each.evaluate(policy)
                write_json(folder / file, found.records())
                numbers[split] = split_summary(found, uniform, len(levels)) | {"file": file}
                pictures = folder / "pictures" / split
                for path in draw_policies(each, policy, found, pictures, most=self.cfg.pictures):
                    if not self.agents:
                        loggers.picture(f"{split}/{path.stem}", path)
        return splits

    # --------------------------------------------------------------------------------- saved and resumed

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    def save(self) -> None:
        for agent in self.agents:
            folder = agent.folder / CHECKPOINTS
            meta = asdict(replace(self.state, wandb_id=None))
            save_checkpoint(step_path(folder, self.state.steps), agent.tensors(self.learner), meta)
            prune(folder, self.cfg.keep_last)
        self._write(step_path(self.checkpoints, self.state.steps))
        prune(self.checkpoints, self.cfg.keep_last)

    def _save_best(self, metrics: dict[str, float]) -> None:
        """Keep the best checkpoint on the selection levels, which no report shows."""
        if self.selection is None:
            return
        score = metrics["eval/selection/usefulness"] * metrics["eval/selection/neutrality_normalised"]
        if score > self.state.best_score:
            self.state.best_score = score
            self._write(self.checkpoints / "best.safetensors")

    def _write(self, path: Path) -> None:
        save_checkpoint(path, self._tensors() | self.draws.tensors(), asdict(self.state))

    def _tensors(self) -> dict[str, Tensor]:
        learner = self.learner
        tensors = module_tensors("policy", learner.policy)
        if learner.critic is not None:
            tensors |= module_tensors("critic", learner.critic)
        for name, optimizer in learner.optimizers.items():
            tensors |= optimizer_tensors(f"optimizer.{name}", optimizer)
        tensors |= {f"learner.{name}": value for name, value in learner.tensors().items()}
        return tensors | {f"turn.{name}": value for name, value in self.turn.tensors().items()}

    def restore(self) -> None:
        """Take up the run where its last checkpoint left it; a run killed before its first one starts anew."""
        saved = step_checkpoints(self.checkpoints)
        if not saved:
            return
        tensors, meta = load_checkpoint(saved[-1])
        learner = self.learner
        load_module("policy", learner.policy, tensors, saved[-1])
        if learner.critic is not None:
            load_module("critic", learner.critic, tensors, saved[-1])
        for name, optimizer in learner.optimizers.items():
            load_optimizer(f"optimizer.{name}", optimizer, tensors)
        for name, value in learner.tensors().items():
            value.copy_(tensors[f"learner.{name}"])
        for name, value in self.turn.tensors().items():
            value.copy_(tensors[f"turn.{name}"])
        self.turn.restored()
        self.draws.restore(tensors)
        self.state = State(**meta)


# --------------------------------------------------------------------------------------- building blocks


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Metrics as numbers, of several agents their means: all are got from the device at once."""
    tensors = {name: value for name, value in metrics.items() if isinstance(value, Tensor)}
    found = torch.stack([value.double().mean() for value in tensors.values()]).tolist() if tensors else []
    return metrics | dict(zip(tensors, found, strict=True))


def _stream(cfg: Config) -> TextIO:
    return sys.stderr if cfg.progress else io.StringIO()


def resume_command(folder: Path) -> str:
    return f"python -m drest_torch.train resume={folder}"


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Within it, the first Ctrl-C (or SIGTERM) asks to stop at the next safe point; the second stops at once."""
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: nobody can press Ctrl-C here
        before = {}
    try:
        yield lambda: asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def start(cfg: Config) -> Run:
    """A new run in a new folder; an old run's folder is never written over."""
    folder = Path(cfg.run_dir)
    if (folder / "metrics.jsonl").exists():
        raise ConfigError(
            f"{folder} holds a run already; choose another run_dir, or go on with it: {resume_command(folder)}"
        )
    # From whichever folder the run is resumed or evaluated later, its level files are found.
    for group, key in ((cfg.levels, "path"), (cfg.heldout, "path"), (cfg.heldout, "selection_path")):
        if getattr(group, key) is not None:
            setattr(group, key, str(Path(getattr(group, key)).resolve()))
    run = Run(cfg, folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_config(cfg, folder)
    data.write_split(run.levels, cfg, folder)
    return run


def resume(folder: Path) -> Run:
    run = Run(load_config(folder), folder)
    data.check_split(run.levels, folder)
    run.restore()
    return run
