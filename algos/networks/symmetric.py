"""An MLP with the eight symmetries of the map built in."""

from __future__ import annotations

from torch import nn

from drest_torch.algos.networks.base import Flat, NetworkSize, Requirements, Signature, SymmetricMLP

REQUIRES = Requirements(
    observations=(
        *(f"{kind}{more}" for kind in ("centred", "grid") for more in ("", "_start", "_faint", "_alike")),
        *("centred_elapsed", "centred_start_elapsed"),
    ),
    symmetries="observation",
    width_multiple=8,
    min_depth=1,
)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: ``size.depth`` hidden layers of ``size.width`` units."""
    assert signature.symmetries is not None
    body = SymmetricMLP(signature.symmetries, signature.further, size, last_gain=signature.last_gain)
    return Flat(signature, body)
