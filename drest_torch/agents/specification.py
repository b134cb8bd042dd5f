"""An agent as its checkpoint has it: the specification and the weights of its policy, and its evaluator on levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch.agents.checkpoints import load_module
from drest_torch.agents.untrained import build_networks
from drest_torch.algos.distributions import kind_of
from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import requirements
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec, RowView, checked_values
from drest_torch.config.schema import Config
from drest_torch.config.stored import load_config
from drest_torch.envs.dynamics.observations import OBSERVATIONS
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import Level
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import MemoryGuard
from drest_torch.limits import limited
from drest_torch.play.level_sets import level_files
from drest_torch.registry import not_here, refuse_foreign
from drest_torch.reward import Reward

KEY = "agent"
"""The key of the specification in the values of a checkpoint."""
FORMER_REWARD_KEYS = ("committed",)
"""The keys of a reward that earlier versions wrote, and that change no usefulness or neutrality."""
ALIKE = ("network", "observation", "time_steps", "width", "depth", "activation", "private_bits")
"""The values of a policy without which its weights mean something else."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The training of an agent, as far as its evaluation needs it or messages name it."""

    algorithm: str
    reward: str
    """The name of the reward."""
    place: str
    """The name or file of the levels, or the title of the environment."""
    lengths: tuple[int, ...]
    """The lengths of an environment that is no gridworld."""
    seed: int = limited(at_least=0)
    sampled: int | None
    """The mini-episodes that the run is evaluated by; None: it is evaluated exactly, or by as many as is usual."""


def origin_of(cfg: Config, place: str, lengths: Sequence[int] = ()) -> Origin:
    """Return where the agent of a run comes from; ``place`` is that of its training."""
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
    """All that an agent is besides its weights."""

    policy: PolicySpec
    reward: Reward
    origin: Origin

    def record(self) -> dict[str, Any]:
        """Return the specification as a JSON value, which `of` reads."""
        return {"policy": self.policy.record(), "reward": asdict(self.reward), "origin": asdict(self.origin)}

    @classmethod
    def of(cls, record: Any, path: Path) -> AgentSpec:
        """Return the specification that a checkpoint at this path has, which may be a stranger's.

        Code that it names is refused, unless the user names it too.
        """
        try:
            policy = PolicySpec.of(record["policy"])
            reward = Reward(**checked_values(Reward, asdict(Reward()) | record["reward"], former=FORMER_REWARD_KEYS))
            origin = Origin(**checked_values(Origin, record["origin"]))
            _CHECKS[type(policy.sees)](policy, policy.sees)
        except (ValueError, LookupError, TypeError, ConfigError) as error:
            raise CheckpointError(f"{path}: the specification of its agent cannot be used: {error}") from None
        if policy.network != TABLE and not NETWORKS.is_known(policy.network):
            refuse_foreign(path, "policy.network", policy.network)
        for key, named in (("reward.rule", reward.rule), ("reward.count", reward.count)):
            if named is not None:
                refuse_foreign(path, key, named.partition(":")[0])
        return cls(policy, reward, origin)


def _check_map(policy: PolicySpec, view: MapView) -> None:
    """Refuse an observation that there is not."""
    if view.observation not in OBSERVATIONS:
        raise ValueError(f"observation is {view.observation!r:.40}")


def _check_row(policy: PolicySpec, view: RowView) -> None:
    """Refuse entries, actions and an offset that do not fit the numbers which a policy reads and returns."""
    numbers = sum(math.prod(shape) for shape in view.entries.values())
    if (numbers,) != policy.shape:
        raise ValueError(f"entries have {numbers} numbers")
    if {kind_of(view.actions).outputs, len(view.offset)} != {policy.outputs}:
        raise ValueError(f"actions is {view.actions!r:.60}")


_CHECKS: dict[type, Callable[[PolicySpec, Any], None]] = {MapView: _check_map, RowView: _check_row}


@not_here()
def spec_in(values: Mapping[str, Any], path: Path) -> AgentSpec:
    """Return the specification that a checkpoint at this path has among its values."""
    if KEY not in values:
        raise CheckpointError(
            f"{path}: was saved by an earlier version, and does not say what its policy sees; go on with the run "
            f"once to add that: drest train resume={path.parent.parent}"
        )
    if isinstance(values[KEY], str):
        raise CheckpointError(f"{path}: is of a {values[KEY]}, which `drest language evaluate` measures")
    return AgentSpec.of(values[KEY], path)


def agent_config(folder: Path) -> Config:
    """Return the configuration of an agent's run: its levels, or its environment, are made from it, and nothing else.

    A level file that was saved beside the agent is meant by its name.
    """
    cfg = load_config(folder, whole=False)
    for group, key, path in level_files(cfg):
        if (folder / path).is_file():
            setattr(getattr(cfg, group), key, str(folder / path))
    return cfg


def load_policy(spec: PolicySpec, tensors: Mapping[str, Tensor], path: Path) -> Any:
    """Return the policy of a specification with the weights of the checkpoint at this path."""
    with MemoryGuard():
        policy, _ = build_networks(spec, seed=0)
    load_module("policy", policy, tensors, path)
    return policy


def check_alike(start_from: str, source: AgentSpec, spec: PolicySpec) -> None:
    """Refuse weights to begin with that are of a policy of another kind."""
    view, own = source.policy.sees, spec.sees
    if not isinstance(view, MapView) or not isinstance(own, MapView):
        raise ConfigError(f"start_from={start_from}, of {source.origin.place}; expected an agent of gridworlds")
    theirs, ours = {**vars(source.policy), **vars(view)}, {**vars(spec), **vars(own)}
    if other := [f"policy.{key}={theirs[key]}" for key in ALIKE if theirs[key] != ours[key]]:
        raise ConfigError(f"start_from={start_from} has a policy of another kind; add {' '.join(other)}")


def evaluator(
    spec: AgentSpec,
    levels: Sequence[Level] | LevelSet,
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> ExactEvaluator:
    """Return the evaluator of a level set: exact, or by sampling this many mini-episodes on each level.

    A policy that remembers is sampled in any case, as its run is.
    """
    policy, reward, view = spec.policy, spec.reward, spec.policy.sees
    assert isinstance(view, MapView)
    rounds = 1
    if policy.network != TABLE and requirements(policy.network).remembers:
        sampled = sampled or spec.origin.sampled
        rounds = reward.episodes_per_meta if reward.counting == "sequential" else 1
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
