"""The specification of an agent, as its checkpoint stores it, and the policy and evaluator built from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch import hints
from drest_torch.agents.checkpoints import load_module
from drest_torch.agents.untrained import build_networks
from drest_torch.algos.distributions import kind_of
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import requirements
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec, RowView, checked_values
from drest_torch.config.reading import typed
from drest_torch.config.schema import Config
from drest_torch.config.stored import load_config
from drest_torch.envs.dynamics.observations import OBSERVATIONS
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import Level
from drest_torch.envs.objects import FEATURES
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import MemoryGuard
from drest_torch.limits import limited
from drest_torch.play.level_sets import level_files
from drest_torch.registry import refuse_foreign, without_working_directory
from drest_torch.reward import Reward

KEY = "agent"
"""Key of the specification in the metadata of a checkpoint."""
FORMER_REWARD_KEYS = ("committed",)
"""Keys of a reward that earlier versions wrote; they affect neither usefulness nor neutrality."""
SAME_KEYS = (
    *("network", "observation", "time_steps", "width", "depth", "activation", "norm"),
    *("head_width", "head_depth", "private_bits"),
)
"""Keys of a policy that must agree for its weights to be reused."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Facts about an agent's training, for evaluation and messages."""

    algorithm: str
    reward: str
    """Name of the reward."""
    place: str
    """Name or file of the levels, or title of the environment."""
    lengths: tuple[int, ...]
    """The lengths in a third-party environment."""
    seed: int = limited(at_least=0)
    sampled: int | None
    """Mini-episodes in each evaluation of the run; None: exact evaluation, or the default number."""


def origin_of(cfg: Config, place: str, lengths: Sequence[int] = ()) -> Origin:
    """Return the origin of a run's agent; ``place`` names its levels or its environment."""
    return Origin(
        algorithm=cfg.algo.name,
        reward=cfg.reward.name,
        place=place,
        lengths=tuple(lengths),
        seed=cfg.seed,
        sampled=cfg.sampled,
    )


@dataclass(frozen=True)
class AgentSpec:
    """Everything that defines an agent except its weights."""

    policy: PolicySpec
    reward: Reward
    origin: Origin

    def record(self) -> dict[str, Any]:
        """Return the specification as a JSON value that `of` reads."""
        return {"policy": self.policy.record(), "reward": asdict(self.reward), "origin": asdict(self.origin)}

    @classmethod
    def of(cls, record: Any, path: Path) -> AgentSpec:
        """Return the specification that the untrusted checkpoint at this path stores.

        Raise if it names code that the user has not named.
        """
        try:
            policy = PolicySpec.of(record["policy"])
            reward = Reward(**checked_values(Reward, asdict(Reward()) | record["reward"], former=FORMER_REWARD_KEYS))
            origin = Origin(**checked_values(Origin, record["origin"]))
            _CHECKS[type(policy.sees)](policy, policy.sees)
        except (ValueError, LookupError, TypeError, ConfigError) as error:
            raise CheckpointError(f"{path}: the specification of its agent cannot be used: {error}") from None
        if policy.network != TABLE and not NETWORKS.is_registered(policy.network):
            refuse_foreign(path, "policy.network", policy.network)
        for key, function in (("reward.rule", reward.rule), ("reward.count", reward.count)):
            if function is not None:
                module, _, _ = function.partition(":")
                refuse_foreign(path, key, module)
        return cls(policy, reward, origin)


def _check_map(policy: PolicySpec, view: MapView) -> None:
    """Raise for an unknown kind of observation."""
    if view.observation not in OBSERVATIONS:
        raise ValueError(f"observation is {view.observation!r:.40}")


def _check_row(policy: PolicySpec, view: RowView) -> None:
    """Raise if entries, actions or offset do not fit the inputs and outputs of the policy."""
    numbers = sum(math.prod(shape) for shape in view.entries.values())
    if (numbers,) != policy.shape:
        raise ValueError(f"entries have {numbers} numbers")
    if {kind_of(view.actions).outputs, len(view.offset)} != {policy.outputs}:
        raise ValueError(f"actions is {view.actions!r:.60}")


_CHECKS: dict[type, Callable[[PolicySpec, Any], None]] = {MapView: _check_map, RowView: _check_row}


@without_working_directory()
def spec_in(values: Mapping[str, Any], path: Path) -> AgentSpec:
    """Return the specification in the metadata of the checkpoint at this path."""
    if KEY not in values:
        raise CheckpointError(
            f"{path}: was saved by an earlier version, without the specification of its policy; resume the run once "
            f"to add it: {hints.resume(path.parent.parent)}"
        )
    if isinstance(values[KEY], str):
        command = hints.evaluate_language_model(path.parent.parent)
        raise CheckpointError(f"{path}: belongs to a {values[KEY]:.40}; evaluate it: {command}")
    return AgentSpec.of(values[KEY], path)


def agent_config(folder: Path) -> Config:
    """Return the configuration of an agent's run, to build only its levels or its environment from.

    Names of level files are relative to the folder of the agent if the file is there.
    """
    cfg = load_config(folder, whole=False)
    for group, key, path in level_files(cfg):
        if (folder / path).is_file():
            setattr(getattr(cfg, group), key, str(folder / path))
    return cfg


def load_policy(spec: PolicySpec, tensors: Mapping[str, Tensor], path: Path) -> Any:
    """Return the policy of a specification with its weights from ``tensors``; ``path`` is for messages."""
    with MemoryGuard():
        policy, _ = build_networks(spec, seed=0)
    load_module("policy", policy, tensors, path)
    return policy


def map_view(spec: AgentSpec, name: str) -> MapView:
    """Return the observation of an agent of gridworlds; raise an error that begins with ``name`` for other agents."""
    if not isinstance(spec.policy.sees, MapView):
        raise ConfigError(f"{name}, of {spec.origin.place}; expected an agent of gridworlds")
    return spec.policy.sees


def check_alike(start_from: str, source: AgentSpec, spec: PolicySpec) -> None:
    """Raise if the agent to start from has a policy of another kind."""
    source_view, view = map_view(source, f"start_from={start_from}"), spec.sees
    assert isinstance(view, MapView)
    source_values = {**vars(source.policy), **vars(source_view)}
    values = {**vars(spec), **vars(view)}
    differences = [
        f"policy.{key}={typed(source_values[key])}" for key in SAME_KEYS if source_values[key] != values[key]
    ]
    if differences:
        raise ConfigError(f"start_from={start_from} has a policy of another kind; add {' '.join(differences)}")
    _check_planes(start_from, source_view, view)
    size, source_size = (view.rows, view.columns), (source_view.rows, source_view.columns)
    if size != source_size and not requirements(spec.network).reads_maps:
        raise ConfigError(
            f"start_from={start_from} was trained on maps of at most {_size(source_size)}, and the maps of this run "
            f"have up to {_size(size)}; choose levels of that size, or an agent with policy=convolutional"
        )


def _check_planes(start_from: str, source: MapView, view: MapView) -> None:
    """Raise if an agent observes objects that a run does not show, or the other way round."""
    differing = set(source.features) ^ set(view.features)
    if not differing:
        return
    feature = min(differing)
    if feature in view.features:
        raise ConfigError(
            f"start_from={start_from} does not observe {FEATURES[feature]}, which levels of this run have; choose "
            "levels without them, or another agent"
        )
    raise ConfigError(
        f"start_from={start_from} observes {FEATURES[feature]}, which no level of this run has; choose levels with "
        "them, or another agent"
    )


def _size(size: tuple[int, int]) -> str:
    rows, columns = size
    return f"{rows} × {columns}"


def evaluator(
    spec: AgentSpec,
    levels: Sequence[Level] | LevelSet,
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> ExactEvaluator:
    """Return an evaluator of a level set: exact, or by ``sampled`` mini-episodes on each level.

    Recurrent policies are always evaluated by sampling; the default is the number of their run.
    """
    policy, reward, view = spec.policy, spec.reward, spec.policy.sees
    assert isinstance(view, MapView)
    rounds = 1
    if policy.network != TABLE and requirements(policy.network).remembers:
        sampled = sampled or spec.origin.sampled
        if reward.counting == "sequential":
            rounds = reward.episodes_per_meta
    kind: Callable[..., ExactEvaluator] = ExactEvaluator
    if sampled is not None:
        from drest_torch.evaluation.sampled import SamplingEvaluator  # TorchRL takes seconds to import

        kind = partial(SamplingEvaluator, mini_episodes=sampled, rounds=rounds, seed=spec.origin.seed)
    return kind(
        levels,
        view.observation,
        reward=reward,
        at_least=(view.rows, view.columns),
        features=view.features,
        planes=view.planes,
        time_steps=view.time_steps,
        memory_gib=memory_gib,
        device=device,
    )
