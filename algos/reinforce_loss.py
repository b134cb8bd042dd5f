"""The loss of REINFORCE: TorchRL's, with an entropy bonus."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor
from torchrl.objectives import ReinforceLoss


class EntropyReinforceLoss(ReinforceLoss):
    """TorchRL's loss with an entropy bonus and without a critic."""

    def __init__(self, actor: Any, entropy: float) -> None:
        nothing = TensorDictModule(torch.nn.Identity(), ["advantage"], ["state_value"])
        super().__init__(actor, nothing, functional=False)
        self.register_buffer("entropy_coeff", torch.tensor(entropy))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        losses = super().forward(tensordict)
        entropy = self.actor_network.dist.entropy().mean()
        return losses.set("entropy", entropy.detach()).set("loss_entropy", -self.entropy_coeff * entropy)

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Tensor, None]:
        return tensordict["advantage"].new_zeros(()), None
