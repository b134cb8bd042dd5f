"""The teachers of `drest_torch.algos.distil`: trained agents, whose mean policy a student learns.

Their weights are read from safetensors files, and their specifications from the metadata of these files. No code of
theirs is executed, and no configuration is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from drest_torch.agents.checkpoints import agent_folder, checkpoint_path, checksum, load_checkpoint
from drest_torch.agents.misfits import misfit
from drest_torch.agents.specification import AgentSpec, load_policy, map_view, spec_in
from drest_torch.algos.networks.policy import private_settings, weights_unchanged
from drest_torch.envs.levels import Level
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.mean_policy import MeanPolicy
from drest_torch.tasks.exact_batch import ExactBatch

KEY = "algo.teachers"
SET_OF_TEACHERS = "set of teachers"
"""The name of the digest of teachers in checkpoints."""


class Teachers:
    """The mean policy of trained agents on exact batches."""

    def __init__(self, names: Sequence[str], checkpoint: str, levels: Sequence[Level], device: torch.device) -> None:
        self.policies = []
        """The policies with their observations."""
        digests = []
        for name in names:
            spec, tensors, policy = _loaded(name, checkpoint)
            view = map_view(spec, f"{KEY} has {name}")
            sentence = misfit(spec.policy, levels)
            if sentence is not None:
                raise ConfigError(f"{KEY} has {name}, which cannot teach on these levels: {sentence}")
            policy = policy.to(device)
            self.policies.append((policy, view))
            record = json.dumps(spec.policy.record())
            digests.append(checksum(tensors, record))
        self.private_bits = sum(policy.private_bits for policy, _ in self.policies)
        """The private bits of all teachers together."""
        text = " ".join(digests)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        """A digest of the teachers' weights and specifications."""
        self._latest: tuple[ExactBatch | None, Tensor] = (None, torch.zeros(()))

    @torch.no_grad()
    def probabilities(self, batch: ExactBatch) -> Tensor:
        """Return the action probabilities of the mean policy in all states [Z, N, A], for Z settings of private bits.

        Those of the last batch are kept, because a batch of all training levels is the same in every update.
        """
        latest, tables = self._latest
        if latest is batch:
            return tables
        mean = MeanPolicy(self.policies, batch.mdp)
        settings = private_settings(mean.private_bits).to(batch.mdp.device)
        logs = []
        with weights_unchanged(mean):
            for setting in settings:
                act = partial(_under, mean, setting)
                logs.append(batch.everywhere(act, mean.observe))
        tables = torch.stack(logs).exp()
        self._latest = batch, tables
        return tables


def _under(policy: MeanPolicy, setting: Tensor, states: Tensor) -> Tensor:
    """Return the outputs of a policy under one setting of the private bits."""
    return policy(states, setting.expand(len(states), -1))


def _loaded(name: str, checkpoint: str) -> tuple[AgentSpec, dict[str, Tensor], Any]:
    """Return the specification, the tensors and the policy of an agent."""
    try:
        path = checkpoint_path(agent_folder(name), checkpoint)
        tensors, values = load_checkpoint(path)
        spec = spec_in(values, path)
        weights = {key: tensor for key, tensor in tensors.items() if key.startswith("policy.")}
        return spec, weights, load_policy(spec.policy, tensors, path)
    except CheckpointError as error:
        raise CheckpointError(f"{KEY}: {error}") from None
