"""A parameter of a recorded training run: which of its elements this rank has, and which of them are recorded."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RecordedParameter", "blocks_of_shard", "sampled_blocks"]

#: elements of one block of a sample
_BLOCK = 2048

Blocks = list[list[int]]


def blocks_of_shard(shape: Sequence[int], local: Sequence[int], offset: Sequence[int]) -> Blocks:
    """A rectangle of a tensor as [start, length] in the flattened tensor, in the order of its own elements."""
    if 0 in local:
        return []
    full = len(shape)  # dimensions from here on are complete
    while full and local[full - 1] == shape[full - 1]:
        full -= 1
    first = max(full - 1, 0)
    strides = [math.prod(shape[one + 1:]) for one in range(len(shape))]
    base = sum(begin * stride for begin, stride in zip(offset, strides))
    length = math.prod(local[first:])
    return [[base + sum(index * stride for index, stride in zip(outer, strides)), length]
            for outer in itertools.product(*(range(local[one]) for one in range(first)))]


def sampled_blocks(name: str, numel: int, limit: int, seed: int) -> Blocks:
    """The recorded elements of a parameter: all up to the limit, else one block of each of as many equal parts. The same on
    every rank, because nothing but the arguments is used."""
    if numel <= limit:
        return [[0, numel]] if numel else []
    length = min(_BLOCK, limit)
    parts = limit // length
    draw = random.Random(f"{seed} {name} {numel}")
    cuts = [numel * part // parts for part in range(parts + 1)]
    blocks = [[begin + draw.randint(0, end - begin - length), length] for begin, end in itertools.pairwise(cuts)]
    blocks[-1][0] = numel - length  # loops over vectors treat the last elements in another way
    return blocks


def _common(owned: Blocks, sample: Blocks) -> Iterator[tuple[int, int, int]]:
    """Elements in both: start, length, and position in the concatenated blocks of `owned`."""
    position = 0
    for begin, length in owned:
        for start, count in sample:
            first, end = max(begin, start), min(begin + length, start + count)
            if first < end:
                yield first, end - first, position + first - begin
        position += length


@dataclass
class RecordedParameter:
    """Attributes:
        name, shape: of the undistributed parameter.
        group: index of its param group.
        tensor: as the optimizer has it.
        owned: [start, length] of the elements that this rank updates, in the order of its local tensor.
        sample: [start, length] of the elements that are recorded on any rank.
        replicated: every rank updates all elements.
        optimizer: the one with its state.
        updates: applied updates that were seen, for optimizers that count none.
    """
    name: str
    shape: tuple[int, ...]
    group: int
    tensor: Any
    owned: Blocks
    sample: Blocks
    replicated: bool
    optimizer: Any
    updates: int = 0
    recorded: Blocks = field(init=False)
    _parts: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        common = list(_common(self.owned, self.sample))
        self.recorded = [[start, length] for start, length, _ in common]
        self._parts = [(position, length) for _, length, position in common]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def sampled(self) -> bool:
        return sum(length for _, length in self.sample) < self.numel

    def of_shard(self, local: Any) -> Any:
        """Recorded elements of a tensor of this rank's elements, as a copy in host memory."""
        return _copied(local, self._parts)

    def of_whole(self, tensor: Any) -> Any:
        """Recorded elements of a tensor of all elements."""
        return _copied(tensor, self.sample)


def _copied(tensor: Any, parts: Sequence[Sequence[int]]) -> Any:
    import torch

    flat = tensor.detach().reshape(-1)
    if len(parts) == 1 and parts[0][1] == flat.numel():
        return flat.to("cpu", copy=True)
    pieces = [flat[start:start + length] for start, length in parts]
    return (torch.cat(pieces) if pieces else flat[:0]).to("cpu", copy=True)
