"""The kinds of world objects: what a cell of a map can hold besides walls and the agent.

To add a kind, write a class in a new module and add it at the end of ``KINDS``. The order of ``KINDS`` determines the
order of the bits of a state, of the planes of observations, and of random numbers.
"""

from __future__ import annotations

from torch import Tensor

from drest_torch.envs.objects.base import Draws, Layer, Layers, Plane, WorldObject, format_number
from drest_torch.envs.objects.button import Button
from drest_torch.envs.objects.coin import Coin
from drest_torch.envs.objects.door import Door

__all__ = [
    "FEATURES",
    "KINDS",
    "KIND_OF",
    "LAYERS",
    "TAKEN",
    "Button",
    "Coin",
    "Door",
    "Draws",
    "Layer",
    "Layers",
    "Plane",
    "WorldObject",
    "format_number",
    "redirected",
]

KINDS: tuple[type[WorldObject], ...] = (Coin, Button, Door)
TAKEN = tuple(kind for kind in KINDS if kind.is_taken)
"""The kinds whose objects take one bit of a state each."""
KIND_OF = {letter: kind for kind in KINDS for letter in kind.letters}
LAYERS = {name: layer for kind in KINDS for name, layer in kind.layers.items()}
FEATURES = {name: words for kind in KINDS for name, words in kind.features.items()}
"""The features that observations show only if a level set has them, with their description for messages."""


def redirected(goto: Tensor, layers: Layers) -> Tensor:
    """Return the spots that actions lead to [S, 4] with the effect of the objects on the maps."""
    for kind in KINDS:
        goto = kind.redirect(goto, layers)
    return goto
