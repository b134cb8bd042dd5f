"""A run: collect, update, evaluate, log, save, until its steps are done. One loop for all algorithms."""

from __future__ import annotations

import io
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, cast

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor
from yaml import YAMLError

from algos.draws import Draws
from algos.networks import Critic, Policy, Size
from algos.symmetric import Symmetries
from algos.updates import Learner
from drest_torch import data, figures
from drest_torch.checkpoints import (
    CheckpointError,
    load_checkpoint,
    load_module,
    load_optimizer,
    module_tensors,
    optimizer_tensors,
    prune,
    save_checkpoint,
    step_checkpoints,
    step_path,
    write_whole,
)
from drest_torch.config import Config, ConfigError, algorithms, device_of, learns_from
from drest_torch.evaluation import Evaluation, Evaluator, Prepared, check_size
from drest_torch.loggers import Loggers
from drest_torch.progress import Progress
from drest_torch.report import Row, Score
from drest_torch.sampling import Sampled, Sampler
from drest_torch.together import Together, joined, mean
from drest_torch.turns import Turn, compiled, reward_of, turn_of
from envs.mdp import NUM_ACTIONS, compile_levels
from envs.observations import Observation, make_observation
from envs.size import estimate_size
from envs.symmetry import turned_actions, turned_cells

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
        self.levels = data.load(cfg)
        data.check(cfg, self.levels)
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
            by_chance=any(map(data.by_chance, train)),
        )
        observe = make_observation(cfg.policy.observation, mdp)
        algorithm = algorithms()[cfg.algo.name].Algorithm
        turn = turn_of(cfg, self.levels, mdp, observe, self.draws)
        made = [
            networks(
                cfg,
                observe,
                turn.context_size,
                with_critic=algorithm.needs_critic,
                seed=seed,
                fixed_shapes=data.in_lockstep(cfg),
            )
            for seed in self.seeds
        ]
        policy, critic = (joined(each, self.device) for each in zip(*made, strict=True))
        learner = algorithm(policy, critic, cfg.algo, self.draws)
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
        figures.learning_curves(self.folder / "metrics.jsonl", curves)
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


def networks(
    cfg: Config, observe: Observation, context: int, *, with_critic: bool, seed: int, fixed_shapes: bool = False
) -> tuple[Policy, Critic | None]:
    """A policy and, where the algorithm has one, a critic; their weights follow from the seed alone.

    With ``fixed_shapes`` they do nothing that takes more or less memory as their inputs are one way or another.
    """
    reads_maps = cfg.policy.network == "convolutional"
    size = Size(cfg.policy.width, cfg.policy.depth, cfg.policy.activation, reads_maps, once=not fixed_shapes)
    noise = cfg.policy.noise
    symmetries, critic = _symmetries(cfg, observe), None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = algorithms()[cfg.algo.name].Algorithm.new_policy(observe, NUM_ACTIONS, size, noise, symmetries)
        if with_critic:
            scale = observe.scale.cpu()
            critic = Critic(observe.shape, size, scale=scale, noise=noise, context=context, symmetries=symmetries)
    return policy, critic


def _symmetries(cfg: Config, observe: Observation) -> Symmetries | None:
    """What turning a level does to what a network sees and says, if that is to be built into it."""
    if cfg.policy.network == "mlp":
        return None
    if cfg.policy.network == "convolutional":
        return Symmetries(turned_cells(3), turned_actions())
    assert observe.turned is not None  # `data.load` has seen to it
    return Symmetries(observe.turned.cpu(), turned_actions())


def evaluator(
    cfg: Config,
    levels: list[Any],
    size: tuple[int, int],
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> Prepared:
    """A level set to evaluate on exactly or, with so many mini-episodes on each level, by sampling."""
    kind = Evaluator if sampled is None else partial(Sampler, mini_episodes=sampled, seed=cfg.seed)
    return kind(
        levels,
        cfg.policy.observation,
        gamma=cfg.reward.gamma,
        lam=cfg.reward.lam,
        episodes_per_meta=cfg.reward.episodes_per_meta,
        divide_by_best=cfg.reward.divide_by_best,
        at_least=size,
        noise_kind=cfg.policy.noise_kind,
        noise_draws=cfg.policy.noise_draws,
        memory_gib=memory_gib,
        device=device,
    )


def map_size(cfg: Config, levels: data.Levels) -> tuple[int, int]:
    """Rows and columns of the largest map of all: smaller ones are padded to it with wall."""
    if cfg.policy.observation == "vector":
        return levels.train[0].height, levels.train[0].width
    sizes = [(level.height, level.width) for level in levels.every()]
    if levels.split is not None:  # however many levels of it are made
        sizes.append((levels.split.config.height[1], levels.split.config.width[1]))
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    if cfg.policy.network == "symmetric" or cfg.levels.symmetries:  # a quarter turn puts rows for columns
        return max(height, width), max(height, width)
    return height, width


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Metrics as numbers, of several agents their means: all are got from the device at once."""
    tensors = {name: value for name, value in metrics.items() if isinstance(value, Tensor)}
    found = torch.stack([value.double().mean() for value in tensors.values()]).tolist() if tensors else []
    return metrics | dict(zip(tensors, found, strict=True))


def split_summary(found: Evaluation, uniform: Evaluation, levels: int) -> dict[str, Any]:
    """The numbers of one split: the agent's, a uniform policy's, and what is best possible."""
    best = found.num_lengths.double().log2().mean().item()
    means, chance = found.means(), uniform.means()
    sampled: dict[str, Any] = {}
    if isinstance(found, Sampled):
        ranges = {name: {"low": low, "high": high} for name, (low, high) in found.mean_ranges().items()}
        sampled = {"sampled": found.mini_episodes, "ranges": ranges}
    return {
        "usefulness": means["usefulness"],
        "neutrality": means["neutrality"],
        "neutrality_normalised": means["neutrality_normalised"],
        "levels": levels,
        "uniform": {"usefulness": chance["usefulness"], "neutrality": chance["neutrality"]},
        "optimum": {"usefulness": 1.0, "neutrality": best},
        **sampled,
    }


def table_rows(summary: dict[str, Any]) -> list[Row]:
    return [
        Row(
            split,
            numbers["levels"],
            agent=Score(numbers["usefulness"], numbers["neutrality"]),
            ranges={name: (ends["low"], ends["high"]) for name, ends in numbers.get("ranges", {}).items()},
            sampled=numbers.get("sampled"),
            uniform=Score(**numbers["uniform"]),
            optimum=Score(**numbers["optimum"]),
        )
        for split, numbers in summary["splits"].items()
    ]


def draw_policies(
    each: Prepared, policy: Policy, found: Evaluation, folder: Path, *, most: int, greedy: bool = False
) -> list[Path]:
    """Draw the policy on the first levels of a set, with what it was found to do there."""
    drawn = each.room_for(most)
    if not drawn:
        return []
    reachable = each.unrolled(drawn)
    numbers = [
        figures.LevelNumbers(
            found.usefulness[i].item(),
            found.neutrality[i].item(),
            found.length_probabilities(i),
            sampled=isinstance(found, Sampled),
        )
        for i in drawn
    ]
    policies = each.to_show(policy, reachable, greedy=greedy)
    return figures.policy_pictures(reachable, policies, drawn, folder, numbers=numbers)


def _stream(cfg: Config) -> TextIO:
    return sys.stderr if cfg.progress else io.StringIO()


def resume_command(folder: Path) -> str:
    return f"python -m drest_torch.train resume={folder}"


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


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
    data.write_config(cfg, folder)
    data.write_split(run.levels, cfg, folder)
    return run


def load_config(folder: Path) -> Config:
    """The configuration that a run was started with."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise CheckpointError(f"{folder}: no run in it (no config.yaml); expected the folder of a run")
    try:
        loaded: Any = OmegaConf.load(path)
        schema = OmegaConf.structured(Config)
        schema.algo = OmegaConf.structured(algorithms()[loaded.algo.name].Config)
        return cast(Config, OmegaConf.merge(schema, loaded))
    except (YAMLError, OmegaConfBaseException, KeyError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path}: not the configuration of a run of this version ({reason})") from None


def resume(folder: Path) -> Run:
    run = Run(load_config(folder), folder)
    data.check_split(run.levels, folder)
    run.restore()
    return run
