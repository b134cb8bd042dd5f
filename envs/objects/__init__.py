"""World objects: what can stand on a cell of a map beside walls and the agent.

A new kind is a class in a module of its own and its name in ``KINDS``, at the end: the order decides the order of the
bits of a state, of the planes of observations, and of random numbers.
"""

from __future__ import annotations

from torch import Tensor

from envs.objects.base import Draws, Layer, Layers, Plane, WorldObject, format_number
from envs.objects.button import Button
from envs.objects.coin import Coin
from envs.objects.door import Door

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
"""Those of which each object takes one bit of a state."""
KIND_OF = {letter: kind for kind in KINDS for letter in kind.letters}
LAYERS = {name: layer for kind in KINDS for name, layer in kind.layers.items()}
FEATURES = {name: words for kind in KINDS for name, words in kind.features.items()}
"""What policies are shown only if a level set has it: by its name, what it is for messages."""


def redirected(goto: Tensor, layers: Layers) -> Tensor:
    """Return where each action leads [S, 4] once the objects are on the maps."""
    for kind in KINDS:
        goto = kind.redirect(goto, layers)
    return goto
