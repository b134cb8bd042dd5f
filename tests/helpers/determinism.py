"""Repeated training with threads, and the detection of operations whose result depends on the order of threads."""

import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from drest_torch.agents.checkpoints import algorithm_tensors
from drest_torch.config.compose import compose
from drest_torch.files import unlock_folder
from drest_torch.training.run import start
from tests.helpers.runs import QUIET

WRITES = ("index_put", "put", "index_copy")
"""Operations that write to indexed places: torch promises no order where two indices are equal."""


class OneWriter(TorchDispatchMode):
    """A check that no operation writes two numbers to the same place, where the order of threads would decide.

    The backward pass of an index in brackets is such an operation; ``index_select`` has a deterministic one.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__.strip("_").removeprefix("unsafe_").removesuffix("_impl")
        if name in WRITES:
            values = args[-1] if name == "index_copy" else args[2]
            places = _places(args[0], args[1:-1] if name == "index_copy" else args[1])
            shared = len(places) - len(places.unique())
            # A single value for all places, as in ``used[key] = True``, does not depend on the order.
            assert not shared or values.numel() == 1, (
                f"{func} writes to {shared} places of a tensor {list(args[0].shape)} more than once; use index_select "
                "in the forward pass, or index_add or scatter_reduce here"
            )
        return func(*args, **(kwargs or {}))


def _places(tensor, indices):
    """Return the places of a flattened tensor that indices select; None is a whole dimension."""
    numbers = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    if isinstance(indices, torch.Tensor):
        return indices.reshape(-1)
    if isinstance(indices[0], int):
        return numbers.index_select(*indices).reshape(-1)
    return numbers[tuple(slice(None) if index is None else index for index in indices)].reshape(-1)


def trained(folder, *words, updates=2):
    """Train, and return as bytes the weights, moments of the optimiser, metrics and an evaluation."""
    run = start(compose(*QUIET, f"run_dir={folder}", *words))
    try:
        metrics = [*(run.update() for _ in range(updates)), run.task.watch(run.algorithm.policy)]
        tensors = algorithm_tensors(run.algorithm)
    finally:
        run.task.close()
        unlock_folder(folder)
    results = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    return results | {"metrics": json.dumps(metrics).encode()}
