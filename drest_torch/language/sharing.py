"""Log-probabilities of continuations, in a pass that computes equal beginnings of prompts once.

The tokens of prompts and continuations form trees. A row of a pass contains a few trees, and a mask lets each token
attend only to the tokens on its own path. The tokens that begin all prompts of a pass, such as a system message, may be
computed before the rows, as keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.language.token_trees import ROOT, PassPlan, Tokens, TokenTree, pass_plan

FULL, SLIDING = "full_attention", "sliding_attention"
"""The layers that are supported, as transformers names them."""
ATTENTION = ("sdpa", "eager")
"""The implementations of attention that take any mask."""
TOLERANCE = 1e-3
"""The largest relative difference from separate passes, in the trial of a model."""


def log_probabilities(model: Any, plan: PassPlan, *, bfloat16: bool = False) -> list[Tensor]:
    """Return the log-probabilities of the options of each prompt [O]; they are differentiable."""
    place_of: dict[tuple[int, int], int] = {}
    places, tokens, options = [], [], []
    for reading in plan.readings:
        place = place_of.setdefault((reading.row, reading.node), len(place_of))
        places.append(place)
        tokens.append(reading.token)
        options.append(reading.option)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
        logits = _logits(model, plan, list(place_of))  # [N, V]
    log_probability = logits.float().log_softmax(-1)
    of_tokens = log_probability[places, tokens]
    option = torch.tensor(options, device=of_tokens.device)
    sums = of_tokens.new_zeros(sum(plan.options)).index_add(0, option, of_tokens)
    return list(sums.split(plan.options))


def _logits(model: Any, plan: PassPlan, places: Sequence[tuple[int, int]]) -> Tensor:
    """Return the logits [N, V] at N places, which are rows and nodes."""
    device = model.device
    cache = None
    before = len(plan.before)
    shape = (len(plan.rows), plan.longest)
    ids = np.zeros(shape, dtype=np.int64)
    depth = np.zeros(shape, dtype=np.int64)
    attends = np.zeros((*shape, before + plan.longest), dtype=bool)
    for number, row in enumerate(plan.rows):
        length = len(row.tokens)
        ids[number, :length] = row.tokens
        depth_of_row, on_path = _paths(row)
        depth[number, :length] = depth_of_row
        attends[number, :length, before : before + length] = on_path
    attends[:, :, :before] = True
    itself = np.arange(plan.longest)
    attends[:, itself, before + itself] = True  # padding, too
    depth += before
    depth_before = np.tile(np.arange(before), (len(plan.rows), 1))
    masks = _masks(model, attends, depth, np.concatenate((depth_before, depth), 1))
    if before:
        cache = _keys_and_values(model, plan.before)
        cache.batch_repeat_interleave(len(plan.rows))
    with _logits_at(model, places):
        output = model(
            input_ids=torch.from_numpy(ids).to(device),
            position_ids=torch.from_numpy(depth).to(device),
            attention_mask=masks,
            cache=cache,
            use_cache=before > 0,
        )
    logits: Tensor = output.logits
    return logits


def _paths(row: TokenTree) -> tuple[np.ndarray, np.ndarray]:
    """Return the depth of each node [T], and the nodes on its path [T, T]."""
    size = len(row.tokens)
    depth = np.zeros(size, dtype=np.int64)
    on_path = np.eye(size, dtype=bool)
    for node, parent in enumerate(row.parents):
        if parent != ROOT:
            depth[node] = depth[parent] + 1
            on_path[node] |= on_path[parent]
    return depth, on_path


def _keys_and_values(model: Any, tokens: Tokens) -> Any:
    """Return the keys and values of the beginning of all prompts, in the cache of transformers."""
    from transformers import DynamicCache

    cache = DynamicCache()
    depth = np.arange(len(tokens))[np.newaxis]
    causal = np.tri(len(tokens), dtype=bool)[np.newaxis]
    model(
        input_ids=torch.tensor([tokens], device=model.device),
        position_ids=torch.from_numpy(depth).to(model.device),
        attention_mask=_masks(model, causal, depth, depth),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return cache


@contextmanager
def _logits_at(model: Any, places: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Compute logits only at these places, so that their shape is [N, V] instead of [B, T, V]."""
    rows = [row for row, _ in places]
    columns = [column for _, column in places]

    def select(module: Any, inputs: tuple[Tensor]) -> Tensor:
        (hidden,) = inputs
        return hidden[rows, columns]

    handle = model.get_output_embeddings().register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


def _masks(model: Any, attends: np.ndarray, depth: np.ndarray, depth_of_keys: np.ndarray) -> Any:
    """Return the mask of each kind of layer, for what each token attends to [R, T, K] and the depths of both."""
    masks = {}
    for kind in _layers(model):
        visible = attends
        if kind == SLIDING:
            distance = depth[:, :, np.newaxis] - depth_of_keys[:, np.newaxis]  # [R, T, K]
            visible = attends & (distance < model.config.sliding_window)
        masks[kind] = _as_mask(model, torch.from_numpy(visible).unsqueeze(1))
    if len(masks) > 1:
        return masks
    return masks.popitem()[1]


def _as_mask(model: Any, visible: Tensor) -> Tensor:
    """Return a mask [R, 1, T, K] as the model's attention reads it: boolean, or to be added."""
    device = model.device
    visible = visible.to(device)
    if model.config._attn_implementation == "sdpa":
        return visible
    dtype = model.dtype
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    mask = torch.zeros(visible.shape, dtype=dtype, device=device)
    return mask.masked_fill(~visible, torch.finfo(dtype).min)


def _layers(model: Any) -> set[str]:
    """Return the kinds of attention of a model."""
    kinds = getattr(model.config, "layer_types", None)
    if kinds:
        return set(kinds)
    if getattr(model.config, "sliding_window", None):
        return {SLIDING}
    return {FULL}


def is_supported(model: Any) -> bool:
    """Return whether a shared pass gives the same log-probabilities as separate ones, in a trial of a few tokens."""
    if not _layers(model) <= {FULL, SLIDING} or model.config._attn_implementation not in ATTENTION:
        return False
    vocabulary = model.get_input_embeddings().num_embeddings
    tokens = torch.linspace(0, vocabulary - 1, 16).long().tolist()
    heads = [tokens[:8], tokens[:5] + tokens[8:12]]
    tails = [tokens[12:14], tokens[13:16]]
    plan = pass_plan(heads, [tails, tails], [0, 0], hidden=1)
    try:
        with torch.no_grad():
            shared = torch.cat(log_probabilities(model, plan))
            separate = [_alone(model, head, tail) for head, tail in product(heads, tails)]
    except Exception:  # of any kind: texts are passed separately through a model that supports no such masks
        return False
    return torch.allclose(shared, torch.stack(separate), rtol=TOLERANCE, atol=TOLERANCE)


def _alone(model: Any, head: Tokens, tail: Tokens) -> Tensor:
    """Return the log-probability of a continuation, from a pass of its own."""
    ids = torch.tensor([head + tail], device=model.device)
    logits = model(input_ids=ids).logits[0, len(head) - 1 : -1]  # [T, V]
    log_probability = logits.float().log_softmax(-1)
    return log_probability[range(len(tail)), tail].sum()
