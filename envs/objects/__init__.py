"""The kinds of world objects: the possible contents of a cell besides walls and the agent.

To add a kind, write a class in a new module and add it at the end of ``KINDS``. The order of ``KINDS`` determines the
order of the bits of a state, of the planes of observations, and of random numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.objects.base import Layers, Plane, WorldObject
from drest_torch.envs.objects.button import Button
from drest_torch.envs.objects.coin import Coin
from drest_torch.envs.objects.door import Door
from drest_torch.envs.objects.lottery import Lottery

__all__ = [
    "FEATURES",
    "KINDS",
    "KIND_OF",
    "Button",
    "Coin",
    "Door",
    "Layers",
    "Lottery",
    "Plane",
    "WorldObject",
    "kinds_in",
    "largest_coin",
]

KINDS: tuple[type[WorldObject], ...] = (Coin, Button, Door, Lottery)
KIND_OF = {letter: kind for kind in KINDS for letter in kind.letters}
FEATURES = {name: words for kind in KINDS for name, words in kind.features.items()}
"""The optional features of level sets, with their descriptions for messages."""


def kinds_in(layers: Layers) -> list[type[WorldObject]]:
    """Return the kinds of objects with layers among these."""
    return [kind for kind in KINDS if kind.layers.keys() <= layers.keys()]


def largest_coin(layers: Layers, num_levels: int) -> Tensor:
    """Return the largest coin of each level, on the map or in a lottery [B, 1]."""
    names = ["coin", *(name for name in layers if name.endswith(" coins"))]
    return torch.stack([layers[name].reshape(num_levels, -1).amax(-1, keepdim=True) for name in names]).amax(0)
