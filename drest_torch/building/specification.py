"""The specification of an agent, as its checkpoints hold it: its policy, its reward, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec, checked_values
from drest_torch.envs.dynamics.observations import OBSERVATIONS
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.limits import limited
from drest_torch.registry import refuse_foreign
from drest_torch.reward import Reward


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
            reward = Reward(**checked_values(Reward, asdict(Reward()) | record["reward"]))
            origin = Origin(**checked_values(Origin, record["origin"]))
            if isinstance(policy.sees, MapView) and policy.sees.observation not in OBSERVATIONS:
                raise ValueError(f"observation is {policy.sees.observation!r:.40}")
        except (ValueError, LookupError, TypeError, ConfigError) as error:
            raise CheckpointError(f"{path}: the specification of its agent cannot be used: {error}") from None
        if policy.network != TABLE and not NETWORKS.is_known(policy.network):
            refuse_foreign(path, "policy.network", policy.network)
        if reward.rule is not None:
            refuse_foreign(path, "reward.rule", reward.rule.partition(":")[0])
        return cls(policy, reward, origin)
