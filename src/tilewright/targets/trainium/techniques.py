"""Counts that show which optimisations a traced kernel already contains, or has no use for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from tilewright.targets.trainium.trace import Access, Instruction, Pattern

NAMES = (
    "scaled_before_activation",
    "rescaling_exponentials",
    "products_with_a_column_of_ones",
    "shifted_windows",
    "windows",
    "repeated_reductions",
)
"""Activations whose operand an instruction with a number or a column computed (`f(x * a)`);
exponentials of one element of each partition, such as exp(old maximum - new maximum); products with
a tile that is filled with ones in part; operands that begin a few elements after an operand of the
same shape in the same tile; operands that may be windows, which overlap an operand of the same
shape, contain elements several times, or have three or more axes in a reduction; reductions of two
parts of a tile, or of a whole tile, that the same
operation computed."""
_AXES_OF_WINDOWS = 3
_SCALING = {"add", "subtract", "multiply", ""}


class Techniques:
    """The counts, taken from the instructions of the engines in program order."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._writers: dict[int, Instruction] = {}
        self._ones: set[int] = set()
        self._others: set[int] = set()
        self._offsets: dict[tuple[int, Pattern], int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of `NAMES`."""
        return {name: self._found[name] for name in NAMES}

    def add(self, one: Instruction) -> None:
        """Take account of one instruction or transfer."""
        if one.engine != "dma":
            self._read(one)
        self._found["windows"] += any(map(_overlaps_itself, one.reads))
        is_of_ones = one.opcode == "memset" and one.attributes.get("value") == 1
        for access in one.writes:
            self._writers[access.tensor.id] = one
            (self._ones if is_of_ones else self._others).add(access.tensor.id)

    def _read(self, one: Instruction) -> None:
        found, operation = self._found, one.attributes.get("op")
        if one.opcode == "activation":
            found["scaled_before_activation"] += self._is_scaled(one.reads[0])
            found["rescaling_exponentials"] += operation == "exp" and one.reads[0].elements == 1
        elif one.opcode == "nc_matmul":
            found["products_with_a_column_of_ones"] += any(map(self._has_ones, one.reads))
        elif one.opcode in ("tensor_tensor", "tensor_reduce"):
            found["repeated_reductions"] += self._is_repeated(one)
        axes = len(one.reads[0].pattern.dims) if one.reads else 0
        found["windows"] += one.opcode == "tensor_reduce" and axes >= _AXES_OF_WINDOWS
        for access in one.reads:
            moved = self._steps_from_last(access)
            found["shifted_windows"] += any(4 * steps <= count for steps, count in moved)
            found["windows"] += any(steps < count for steps, count in moved)

    def _is_scaled(self, access: Access) -> bool:
        writer = self._writers.get(access.tensor.id)
        if writer is None or writer.opcode != "tensor_scalar":
            return False
        return {writer.attributes["op0"], writer.attributes["op1"]} <= _SCALING

    def _has_ones(self, access: Access) -> bool:
        return access.tensor.id in self._ones and access.tensor.id in self._others

    def _is_repeated(self, one: Instruction) -> bool:
        """Whether all operands are parts of one tile that the same operation computed."""
        tensors = {access.tensor.id for access in one.reads}
        writer = self._writers.get(one.reads[0].tensor.id)
        operation = one.attributes.get("op")
        return len(tensors) == 1 and writer is not None and writer.attributes.get("op") == operation

    def _steps_from_last(self, access: Access) -> list[tuple[int, int]]:
        """By how many elements of each axis, of how many, an operand begins before or after the
        last one like it in the same tile; empty for the first one and for the same place.
        """
        key = access.tensor.id, access.pattern
        before = self._offsets.setdefault(key, access.offset)
        shift = abs(access.offset - before)
        self._offsets[key] = access.offset
        dims = access.pattern.dims if shift else ()
        return [(shift // step, count) for step, count in dims if step and shift % step == 0]


def _overlaps_itself(access: Access) -> bool:
    """Whether an operand contains some elements several times, such as overlapping windows of a
    row; repetitions by a step of 0 do not count.
    """
    steps = [*access.pattern.dims]
    if access.tensor.memory == "hbm":
        steps.append((access.partition_step, access.partitions))
    moved = [(abs(step), count) for step, count in steps if step]
    reached = 1 + sum(step * (count - 1) for step, count in moved)
    return math.prod(count for _, count in moved) > reached
