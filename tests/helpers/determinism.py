"""Training that is repeated with several threads, and operations whose result depends on which of them is first."""

import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from drest_torch.agents.checkpoints import algorithm_tensors
from drest_torch.config.compose import compose
from drest_torch.files import disown
from drest_torch.training.run import start
from tests.helpers.runs import QUIET

WRITES = ("index_put", "put", "index_copy")
"""The operations that write to the places that indices name: torch promises no order where two name the same one."""


class OneWriter(TorchDispatchMode):
    """Names an operation that writes several numbers to one place, which threads do in whatever order they come.

    An index in brackets is one of these in the backward pass; the gradient of ``index_select`` keeps to one order.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__.strip("_").removeprefix("unsafe_").removesuffix("_impl")
        if name in WRITES:
            values = args[-1] if name == "index_copy" else args[2]
            places = _places(args[0], args[1:-1] if name == "index_copy" else args[1])
            several = len(places) - len(places.unique())
            # One value for all, as in ``used[key] = True``, is the same whoever comes last.
            assert not several or values.numel() == 1, (
                f"{func} writes to {several} places of a tensor {list(args[0].shape)} more than once; use index_select "
                "in the forward pass, or index_add or scatter_reduce here"
            )
        return func(*args, **(kwargs or {}))


def _places(tensor, indices):
    """Return the places in a tensor, seen as a row of numbers, that indices name; None stands for a whole dimension."""
    numbers = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    if isinstance(indices, torch.Tensor):
        return indices.reshape(-1)
    if isinstance(indices[0], int):
        return numbers.index_select(*indices).reshape(-1)
    return numbers[tuple(slice(None) if index is None else index for index in indices)].reshape(-1)


def trained(folder, *words, updates=2):
    """Return everything that training comes to, as bytes: weights, moments of the optimiser, metrics, an evaluation."""
    run = start(compose(*QUIET, f"run_dir={folder}", *words))
    try:
        metrics = [*(run.update() for _ in range(updates)), run.task.watch(run.algorithm.policy)]
        tensors = algorithm_tensors(run.algorithm)
    finally:
        run.task.close()
        disown(folder)
    found = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    return found | {"metrics": json.dumps(metrics).encode()}
