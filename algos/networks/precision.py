"""The precision of a network's products: float32, or bfloat16, in which recent processors and GPUs multiply faster.

Weights, advantages, losses and evaluation are always float32. Networks run under `torch.autocast`, which rounds the
factors of matrix products and convolutions to bfloat16 and accumulates in float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from drest_torch.errors import ConfigError

AUTO, FLOAT32, BFLOAT16 = PRECISIONS = ("auto", "float32", "bfloat16")
WIDE = 128
"""The width of layers from which bfloat16 is faster; in narrower layers rounding costs more time than it saves."""


def chosen_precision(name: str, device: torch.device, width: int) -> str:
    """Return the precision for layers of this width; resolve ``auto`` to bfloat16 if the device is faster with it."""
    if name != AUTO:
        return name
    if width >= WIDE and supports_bfloat16(device):
        return BFLOAT16
    return FLOAT32


def refuse_slow(name: str, device: torch.device) -> None:
    """Refuse bfloat16 on a device without instructions for it."""
    if name == BFLOAT16 and not supports_bfloat16(device):
        raise ConfigError(
            f"precision={name}, but the {device.type} of this machine multiplies more slowly in it than in float32; "
            f"use precision={FLOAT32}, or {AUTO}"
        )


def supports_bfloat16(device: torch.device) -> bool:
    """Return True if a device has instructions that multiply matrices in bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: Any = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.9 has none
    has_instructions = capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False)
    return bool(has_instructions) and torch.backends.mkldnn.is_available()


def computing(precision: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Compute in this precision within the context."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


def dtype_of(name: str) -> torch.dtype:
    """Return the type of the factors of products in this precision."""
    if name == BFLOAT16:
        return torch.bfloat16
    return torch.float32


def widened(values: Tensor) -> Tensor:
    """Return the outputs of a network, converted from bfloat16 to float32."""
    if values.dtype == torch.bfloat16:
        return values.float()
    return values


def precision_in_use(device: torch.device) -> torch.dtype:
    """Return the precision of products within the context of the caller."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return torch.float32


def padded_rows(number: Tensor, precision: torch.dtype, *, by: int = 128) -> Tensor:
    """Return the row numbers [n]; in bfloat16, repeat the last one until their count is round.

    The processor's library compiles a kernel for each new count of rows, which takes longer than most products. Round
    counts are multiples of ``by`` and of a sixteenth of the next power of two.
    """
    count = len(number)
    if precision != torch.bfloat16 or count == 0:
        return number
    missing = -count % max(by, 1 << count.bit_length() >> 4)
    if missing == 0:
        return number
    return torch.cat((number, number[-1:].expand(missing)))
