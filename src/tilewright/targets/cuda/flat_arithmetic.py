"""Finds arithmetic on floats that has no effect in any call, although its operands differ.

    a * b                    always 0, because one of two steps is 0 for nearly all inputs
    tanhf(x) - tanhf(x - e)  always 0
    t + 1 / (1 + d * d * 1e30f)  always t
    expf(-d * d * 1e20f)     always 0

Such arithmetic can stand for a special case: the effect is there only for inputs that the checks do
not contain. Correct kernels multiply by zeros and add to infinity, for instance before the first
tile of a running maximum. One of their operands is then always the same.

The operands and results are recorded in calls of their own, because nearly all instructions of a
kernel multiply or add floats. Kernels that compute floats only by products and sums are left out: a
polynomial that has no effect for inputs of every magnitude has none for others.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.native.conditions.effects import in_memory
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.finding import products_and_sums_of
from tilewright.native.conditions.listing import Instruction, Listing
from tilewright.native.conditions.surroundings import Surroundings
from tilewright.parts.untested_conditions import NO_SEQUENCE

EXPONENTIAL = re.compile(r"exp(?:2|10)?f?(?:@PLT)?")
_SIZES = {"ss": 4, "sd": 8}
_SIGNS = {4: 1 << 31, 8: 1 << 63}
_LARGE = 1e18
"""Least magnitude with which a running maximum may begin. The checks contain inputs that are as
large, so that no special case for smaller inputs remains untested."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction that computes with floats. Its operands, the last of which becomes the result,
    have `size` bytes and are recorded as the sites from `first` on, followed by the result."""

    instruction: Instruction
    size: int
    first: int

    @property
    def is_product(self) -> bool:
        """Whether it multiplies."""
        return self.instruction.name.startswith("mul")

    @property
    def is_exponential(self) -> bool:
        """Whether it calls an exponential, which has one operand."""
        return self.instruction.name.startswith("call")


@dataclass(frozen=True, slots=True)
class Seen:
    """The values of a site in all calls: the bits that were 1 in any of them, whether they were all
    the same, and a hash of their sequence for each call."""

    ones: int
    is_alone: bool
    sequences: tuple[int, ...]

    @property
    def is_reached(self) -> bool:
        """Whether there were any values."""
        return any(one != NO_SEQUENCE for one in self.sequences)


def operations_of(listing: Listing, around: Surroundings) -> tuple[list[Operation], list[Site]]:
    """The operations whose values are recorded, and the sites. Raises `TooLargeError`."""
    operations, sites = list[Operation](), list[Site]()
    found = products_and_sums_of(listing, around)
    calls = [one for one in listing.code() if one.name.startswith("call") and one.operands
             and EXPONENTIAL.fullmatch(one.operands[0])]  # fmt: skip
    for one in [*found, *calls] if found else []:
        if one.name.startswith("call"):
            size = 4 if one.operands[0].partition("@")[0].endswith("f") else 8
            given = ["%xmm0"]
        else:
            size, given = _SIZES[one.name[-2:]], list(one.operands)
        if in_memory(given[-1]):
            continue
        operations.append(Operation(one, size, len(sites)))
        sites += [Site(one, value=(operand, size), is_load=True) for operand in given]
        sites.append(Site(one, value=(given[-1], size), is_result=True))
    return operations, sites


def flat(operations: Sequence[Operation], seen: Sequence[Seen]) -> list[Instruction]:
    """The operations without an effect, given what was seen at each site."""
    values = _Values(operations, seen)
    return [one.instruction for one in operations if values.is_flat(one)]


class _Values:
    """What was seen of each operation, and which operations computed these values."""

    def __init__(self, operations: Sequence[Operation], seen: Sequence[Seen]) -> None:
        self._seen = seen
        self._sources: dict[tuple[int, ...], list[Operation]] = {}
        for one in operations:
            if not one.is_exponential:
                result = seen[one.first + 2]
                self._sources.setdefault(result.sequences, []).append(one)

    def is_flat(self, one: Operation) -> bool:
        """Whether an operation never has an effect, although its operands differ."""
        if one.is_exponential:
            argument, result = self._seen[one.first : one.first + 2]
            differs = result.is_reached and result.is_alone and not argument.is_alone
            return differs and not self._begins_a_maximum(argument)
        first, last, result = self._seen[one.first : one.first + 3]
        if not result.is_reached:
            return False
        if result.is_alone:
            return not (
                (first.is_alone and last.is_alone)
                or any(_decides(operand, one) for operand in (first, last))
                or any(self._begins_a_maximum(operand) for operand in (first, last))
            )
        return not one.is_product and any(
            kept.sequences == result.sequences
            and not (other.is_alone or _is_zero(other, one.size) or _decides(kept, one))
            for kept, other in ((first, last), (last, first))
        )

    def _begins_a_maximum(self, value: Seen) -> bool:
        """Whether a value is the difference between a large negative number, which is the same in
        all calls, and another number, or a multiple of it. Before the first tile of a running
        maximum, exponentials of such values are 0."""
        waiting, known = [value.sequences], set[tuple[int, ...]]()
        while waiting:
            sequences = waiting.pop()
            if sequences in known:
                continue
            known.add(sequences)
            for one in self._sources.get(sequences, ()):
                operands = self._seen[one.first : one.first + 2]
                if not one.is_product and any(_decides(operand, one) for operand in operands):
                    return True
                if one.is_product and any(operand.is_alone for operand in operands):
                    waiting += [operand.sequences for operand in operands]
        return False


def _decides(operand: Seen, one: Operation) -> bool:
    """Whether an operand alone decides the result: an infinity or NaN, or 0 in a product, or a
    number in a sum that is larger than the inputs."""
    if _is_zero(operand, one.size):
        return one.is_product
    if not operand.is_alone:
        return False
    value = abs(_number(operand, one.size))
    return not value < (float("inf") if one.is_product else _LARGE)


def _is_zero(operand: Seen, size: int) -> bool:
    return operand.ones & ~_SIGNS[size] == 0


def _number(operand: Seen, size: int) -> float:
    kind = ("<I", "<f") if size == 4 else ("<Q", "<d")
    return float(struct.unpack(kind[1], struct.pack(kind[0], operand.ones))[0])
