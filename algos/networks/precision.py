"""The precision of a network's products: float32, or bfloat16, in which recent processors and GPUs multiply faster.

Weights, advantages, losses and evaluation are float32 in any case. What a network does in between is under
`torch.autocast`, which rounds the factors of matrix products and convolutions to bfloat16 and adds up in float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from drest_torch.errors import ConfigError

AUTO, FLOAT32, BFLOAT16 = PRECISIONS = ("auto", "float32", "bfloat16")
WIDE = 128
"""With layers of at least so many units bfloat16 is faster; narrower ones spend more time on rounding than they gain."""


def chosen_precision(name: str, device: torch.device, width: int) -> str:
    """Return the precision for layers of this width; ``auto`` is bfloat16 where the device is faster with it."""
    is_supported = supports_bfloat16(device)
    if name == AUTO:
        return BFLOAT16 if is_supported and width >= WIDE else FLOAT32
    if name == BFLOAT16 and not is_supported:
        raise ConfigError(f"precision={BFLOAT16}, and {device} has no instructions for it; use precision={FLOAT32}")
    return name


def supports_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions that multiply matrices in bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.9 has none
    has_instructions = capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False)
    return bool(has_instructions) and torch.backends.mkldnn.is_available()


def computing(precision: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Compute in this precision within the context."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, precision)


def precision_in_use(device: torch.device) -> torch.dtype:
    """Return the precision of products within the context of the caller."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32


def filled_up(number: Tensor, precision: torch.dtype, *, by: int = 128) -> Tensor:
    """Return the numbers [n] of rows; in bfloat16 the last one follows until their count is a round one.

    A processor's library makes a kernel for each new count of rows, which takes longer than most products. Round are
    the multiples of ``by``, and of a sixteenth of the next power of two.
    """
    count = len(number)
    if precision != torch.bfloat16 or count == 0:
        return number
    missing = -count % max(by, 1 << count.bit_length() >> 4)
    return torch.cat((number, number[-1:].expand(missing))) if missing else number
