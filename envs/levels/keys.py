"""Canonical keys of many levels at once, equal to `canonical_key` and three times as fast.

A key is the smallest of eight texts of a map. Here each cell is a number, in the order of the texts, and the eight maps
are compared as tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import torch
from torch import Tensor

from drest_torch.envs.levels.maps import CLOCK, WALL, Maps
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, canonical_key, moved_actions
from drest_torch.envs.objects import WorldObject

ENDS = WITHIN, OF_ROW, OF_MAP = (" ", "/", "")
"""The separators after the text of a cell: within a row, at the end of a row, and at the end of the map."""


def canonical_keys(maps: Maps) -> list[str]:
    """Return the canonical key of each level."""
    cells, objects = maps.cells()
    texts = _texts(objects)
    distinct = {text + end for text in chain(*texts) for end in ENDS}
    pieces = sorted(distinct)
    if _is_ambiguous(pieces):
        names = [""] * len(maps)
        return list(map(canonical_key, maps.levels(names)))
    ranks = _ranks(texts, pieces)
    shutdown = maps.shutdown.tolist()
    free_bumps = maps.free_bumps.tolist()
    keys = [""] * len(maps)
    for index, cropped in _by_size(cells):
        smallest = _smallest(cropped, ranks, len(pieces))
        numbered = zip(index.tolist(), smallest.tolist(), strict=True)
        for level, row in numbered:
            text = "".join([pieces[rank] for rank in row])
            clock = CLOCK[free_bumps[level]]
            keys[level] = f"{shutdown[level]} {clock} {text}"
    return keys


def _texts(objects: Sequence[WorldObject]) -> list[list[str]]:
    """Return the texts of the cell numbers of `Maps.cells` under each symmetry."""
    texts = []
    for actions in moved_actions():
        row = ["#", ".", "A"]
        for thing in objects:
            moved = thing.moved(0, 0, actions)
            row.append(moved.key)
        texts.append(row)
    return texts


def _is_ambiguous(pieces: Sequence[str]) -> bool:
    """Return whether some piece is a prefix of another, so that their order differs from the order of whole maps."""
    begins = [piece for piece, later in pairwise(pieces) if later.startswith(piece)]
    return any(piece.endswith((WITHIN, OF_ROW)) for piece in begins)


def _ranks(texts: Sequence[Sequence[str]], pieces: Sequence[str]) -> Tensor:
    """Return the rank among the pieces of each text with each separator [8, ends, texts]."""
    place = {piece: index for index, piece in enumerate(pieces)}
    ranks = []
    for row in texts:
        for end in ENDS:
            ranks.append([place[text + end] for text in row])
    shape = (len(texts), len(ENDS), -1)
    return torch.tensor(ranks).reshape(shape)


def _by_size(cells: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the cropped maps of each size, without outer walls: their indices [m] and cells [m, h, w]."""
    free = cells != WALL
    top, height = _extent(free.any(2))
    left, width = _extent(free.any(1))
    sizes = torch.stack((height, width), -1)
    for size in sizes.unique(dim=0):
        is_size = (sizes == size).all(-1)
        index = is_size.nonzero().squeeze(-1)
        level = index.reshape(-1, 1, 1)
        rows, columns = map(torch.arange, size.tolist())
        row = top[level] + rows.unsqueeze(-1)
        column = left[level] + columns
        yield index, cells[level, row, column]


def _extent(lines: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first line [n] with a free cell, and the number of lines [n] up to the last, from lines [n, L]."""
    lines = lines.int()
    first = lines.argmax(-1)
    after = lines.flip(-1).argmax(-1)
    count = lines.shape[-1] - after - first
    return first, count


def _smallest(cells: Tensor, ranks: Tensor, size: int) -> Tensor:
    """Return the ranks of the cells [n, h · w] of each map [n, h, w] under the symmetry with the smallest text.

    ``ranks`` [8, ends, numbers] are below ``size``.
    """
    maps = []
    for index in range(NUM_SYMMETRIES):
        if index == 4:
            cells = cells.flip(-1)
        turned = torch.rot90(cells, -index, (1, 2))
        end = torch.full(turned.shape[1:], ENDS.index(WITHIN))
        end[:, -1] = ENDS.index(OF_ROW)
        end[-1, -1] = ENDS.index(OF_MAP)
        rank = ranks[index][end, turned]
        maps.append(rank.flatten(1))
    texts = torch.stack(maps, 1)  # [n, 8, h · w]
    # Pack as many cells as fit into numbers of 62 bits, and compare these numbers one after another.
    bits = size.bit_length()
    at_once = 62 // bits
    places = torch.arange(at_once).flip(0)
    shifts = bits * places
    is_smallest = torch.ones(texts.shape[:2], dtype=torch.bool)
    for part in texts.split(at_once, -1):
        shift = shifts[: part.shape[-1]]
        number = (part << shift).sum(-1)
        number.masked_fill_(~is_smallest, 1 << 62)
        is_smallest &= number == number.amin(-1, keepdim=True)
    chosen = is_smallest.int().argmax(-1)
    return texts[torch.arange(len(texts)), chosen]
