"""Sums of one column each, computed for several columns at once with matrices that the core writes.

The array multiplies a row by all columns of its second operand in the same time as by one. A
depthwise convolution of one channel uses one column: each row of pixels under the filter is
multiplied by the filter. Neighbouring results share most pixels, so one longer row of pixels gives
all of them if every column of a matrix contains the filter, each one row further down:

    pixels[x .. x+2] * filter  ->  pixels[x .. x+9] * matrix,  matrix[n + t][n] = filter[t]

If the channels are innermost in memory, neighbouring results belong to different channels, and the
matrix is diagonal. All other elements of a matrix are zero. They add nothing to sums of integers;
sums of floats are left as they are, because zero times infinity is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.ir import Array
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import (
    Computation,
    Constant,
    Copied,
    Kind,
    Store,
    Stored,
)
from tilewright.proposers.rewriter.raising.translation.parts import OWN, SPACING

LEAST_GAIN = 1.25
"""The rewrite is worth it if it takes at most the time before, divided by this number."""
ROW, COPY, LINE = 2.0, 2.5, 80.0
"""Approximate cycles for each row of a product with its share of the moves, for each element that
the core copies, and for each cache line of an array that the core writes."""
LINE_BYTES = 64

_Products: TypeAlias = tuple[tuple[int, int, int], ...]
"""First operand, second operand and kind of each product."""
_Steps: TypeAlias = tuple[int, int, tuple[int, ...]]
"""Bytes from result to result in the first operands, the second operands, and each added row."""


@dataclass(frozen=True, slots=True)
class _Result:
    """One element of the results."""

    phase: int
    how: Store
    products: _Products
    rows: tuple[tuple[int, float], ...]

    def steps_to(self, other: _Result) -> _Steps | None:
        """The steps to a result with the same structure; None if there are none."""
        if (self.phase, self.how) != (other.phase, other.how):
            return None
        if [p[2] for p in self.products] != [p[2] for p in other.products]:
            return None
        if [r[1] for r in self.rows] != [r[1] for r in other.rows]:
            return None
        pairs = list(zip(self.products, other.products, strict=True))
        first = {q[0] - p[0] for p, q in pairs}
        second = {q[1] - p[1] for p, q in pairs}
        if len(first) != 1 or len(second) != 1:
            return None
        added = tuple(q[0] - r[0] for r, q in zip(self.rows, other.rows, strict=True))
        return first.pop(), second.pop(), added


@dataclass(frozen=True, slots=True)
class _Form:
    """What all blocks of an array have in common: the kind of product (None for added rows), and
    for `width` results the steps of the first operand and of the source."""

    kind: Kind | None
    first: int
    source: int
    width: int


@dataclass
class _Matrices:
    """Arrays that the core writes, each with one block for each distinct source."""

    number: int
    made: dict[_Form, dict[int, int]] = field(default_factory=dict)

    def block(self, form: _Form, source: int) -> int:
        """The position of the block of a source among those with the same form."""
        blocks = self.made.setdefault(form, {})
        return blocks.setdefault(source, len(blocks))

    def array(self, form: _Form) -> int:
        """The number of the array for a form."""
        return self.number + list(self.made).index(form)


def side_by_side(computation: Computation, deepest: int, machine: Machine) -> Computation:
    """The computation with as many neighbouring results in a product as its depth allows.

    `deepest` is the depth of the largest product. The result is `computation` itself if it does not
    consist of such sums, or if the core would take too long to write the matrices.
    """
    factors, sums = (machine.element(name) or "" for name in computation.spaces)
    columns = machine.spaces[computation.spaces[0]].row_columns
    if not (factors.startswith("int") and _is_eligible(computation)):
        return computation
    layout = _Layout(computation, SIZES[factors], SIZES[sums], deepest, columns)
    stored = layout.rows(_results(computation))
    before = sum(len(s.products) * s.count for s in computation.stored)
    after = sum(len(s.products) for s in stored)
    copied = layout.copied()
    core = sum(COPY * _elements(c) + LINE * _bytes(c) / LINE_BYTES for c in copied)
    if LEAST_GAIN * (ROW * after + core) > ROW * before:
        return computation
    return replace(computation, stored=stored, kinds=layout.kinds, copied=tuple(copied))


def _elements(copied: Copied) -> int:
    """Number of elements that the core copies."""
    return len(copied.blocks) * math.prod(times for _, times in copied.inside)


def _bytes(copied: Copied) -> int:
    return copied.size * math.prod(copied.shape)


def _is_eligible(computation: Computation) -> bool:
    """Whether every sum has one column, and is made of arguments that the kernel does not store.

    A longer row contains elements that no product used before, so nothing may store them.
    """
    stores = {s.address // SPACING for s in computation.stored}
    for one in computation.stored:
        sources = [b for _, _, b, _ in one.products] + [a for a, _, _ in one.rows]
        if one.how.columns != 1 or not one.products:
            return False
        if any(a == 0 or a // SPACING in stores for a, _, _, _ in one.products):
            return False
        if any(s >= OWN or s // SPACING in stores or s == 0 for s in sources):
            return False
    return all(
        k.columns == 1 and k.transposed == (False, False) and (k.apart > 0 or k.depth == 1)
        for k in computation.kinds
    )


def _results(computation: Computation) -> Mapping[int, _Result]:
    """Each stored element by its address."""
    found: dict[int, _Result] = {}
    for one in computation.stored:
        for r in range(one.count):
            products = tuple((a + r * s, b, k) for a, s, b, k in one.products)
            rows = tuple((a + r * s, f) for a, s, f in one.rows)
            found[one.address + r * one.stride] = _Result(one.phase, one.how, products, rows)
    return found


class _Layout:
    """How results are put side by side: new kinds of products, and the matrices for them."""

    def __init__(
        self, computation: Computation, size: int, sum_size: int, deepest: int, columns: int
    ) -> None:
        self._before, self._deepest, self._columns = computation.kinds, deepest, columns
        self._size, self._sum_size = size, sum_size
        self.kinds: list[Kind] = []
        last = max([OWN // SPACING, *computation.own.numbers()])
        self._matrices = _Matrices(last + 1)

    def rows(self, results: Mapping[int, _Result]) -> list[Stored]:
        """The rows of results. Adjacent runs of results are divided evenly."""
        parts: list[tuple[int, _Result, _Steps, int]] = []
        for address, length, steps in self._runs(results):
            width = self._width(results[address], length, steps)
            size = self._result_size(results[address])
            for start in range(0, length, width):
                at = address + start * size
                parts.append((at, results[at], steps, min(width, length - start)))
        needed = [form for part in parts for form in self._forms(*part[1:])]
        for form, source in sorted(needed, key=lambda f: f[1]):  # addresses then grow evenly
            if not self._is_contiguous(form):
                self._matrices.block(form, source)
        return [self._row(*part) for part in parts]

    def _runs(self, results: Mapping[int, _Result]) -> Iterator[tuple[int, int, _Steps]]:
        """Address, number and steps of adjacent results."""
        addresses = sorted(results)
        at = 0
        while at < len(addresses):
            begin = results[addresses[at]]
            size, stop, steps = self._result_size(begin), at + 1, None
            while stop < len(addresses) and addresses[stop] == addresses[stop - 1] + size:
                found = results[addresses[stop - 1]].steps_to(results[addresses[stop]])
                if found is None or found[0] % self._size or min(*found[:2], *found[2]) < 0:
                    break
                if steps not in (None, found):
                    break
                steps, stop = found, stop + 1
            alone = (0, 0, (0,) * len(begin.rows))
            yield addresses[at], stop - at, steps or alone
            at = stop

    def _result_size(self, result: _Result) -> int:
        return self._sum_size if result.how.unscaled else self._size

    def _width(self, result: _Result, length: int, steps: _Steps) -> int:
        """The number of columns for a run: the largest one that is allowed, or a divisor of the
        run that is at least half as large."""
        depth = max(self._depth(self._before[k], 1, steps[0]) for _, _, k in result.products)
        most = min(length, self._columns)
        if depth > self._deepest:
            return 1
        if steps[0]:
            most = min(most, (self._deepest - depth) * self._size // steps[0] + 1)
        divisors = [w for w in range(1, most + 1) if length % w == 0 and 2 * w >= most]
        return max(divisors, default=most)

    def _depth(self, kind: Kind, width: int, first: int) -> int:
        """Elements from the first to the last one that `width` results use."""
        return (first * (width - 1) + kind.apart * (kind.depth - 1)) // self._size + 1

    def _pitch(self, width: int) -> int:
        """Bytes from row to row of a matrix. The core's time to write it is mostly the time to
        fetch cache lines, so rows are short."""
        return self._size << (width - 1).bit_length()

    def _forms(self, result: _Result, steps: _Steps, width: int) -> list[tuple[_Form, int]]:
        """The form and the source address of each block that is needed to compute a row of results.
        Blocks of products come before blocks of added rows."""
        found = [
            (_Form(self._before[k], steps[0], steps[1], width), b) for _, b, k in result.products
        ]
        for (source, _), step in zip(result.rows, steps[2], strict=True):
            found.append((_Form(None, 0, step, width), source))
        return found

    def _is_contiguous(self, form: _Form) -> bool:
        """Whether an added row needs no copy, because its elements are contiguous in memory."""
        return form.kind is None and form.source == self._sum_size

    def _row(self, address: int, result: _Result, steps: _Steps, width: int) -> Stored:
        forms = iter(self._forms(result, steps, width))
        products, rows = [], []
        for first, _, number in result.products:
            form, source = next(forms)
            kind = self._before[number]
            depth, pitch = self._depth(kind, width, steps[0]), self._pitch(width)
            new = replace(
                kind, depth=depth, columns=width, apart=self._size, stride=pitch, across=self._size
            )
            if new not in self.kinds:
                self.kinds.append(new)
            at = self._matrices.block(form, source) * depth * pitch
            second = self._matrices.array(form) * SPACING + at
            products.append((first, 0, second, self.kinds.index(new)))
        for _, scale in result.rows:
            form, source = next(forms)
            if not self._is_contiguous(form):
                at = self._matrices.block(form, source) * self._columns * self._sum_size
                source = self._matrices.array(form) * SPACING + at
            rows.append((source, 0, scale))
        how = replace(result.how, columns=width)
        return Stored(address, 0, 1, result.phase, how, tuple(products), tuple(rows))

    def copied(self) -> list[Copied]:
        """The arrays that the core writes, in the order of their numbers."""
        return [self._copied(form, blocks) for form, blocks in self._matrices.made.items()]

    def _copied(self, form: _Form, blocks: Mapping[int, int]) -> Copied:
        kind, number = form.kind, self._matrices.array(form)
        shape: tuple[int, ...] = (len(blocks), self._columns)
        inside: tuple[tuple[tuple[int, int], int], ...] = (
            ((self._sum_size, form.source), form.width),
        )
        if kind is not None:
            pitch = self._pitch(form.width)
            depth = self._depth(kind, form.width, form.first)
            shape = (len(blocks), depth, pitch // self._size)
            across = form.first // self._size * pitch + self._size
            down = kind.apart // self._size * pitch
            inside = ((across, form.source), form.width), ((down, kind.stride), kind.depth)
        size = self._sum_size if kind is None else self._size
        bytes_of_block = size * math.prod(shape[1:])
        pairs = ((number * SPACING + n * bytes_of_block, source) for source, n in blocks.items())
        return Copied(number, size, shape, tuple(pairs), inside)


def written_arrays(
    computation: Computation, machine: Machine, taken: Collection[str]
) -> dict[int, Array]:
    """The declarations of the arrays that the core writes, by number."""
    types = {SIZES[kind]: kind for name in computation.spaces if (kind := machine.element(name))}
    size = SIZES[machine.element(computation.spaces[0]) or ""]
    found: dict[int, Array] = {}
    names = set(taken)
    written: list[Copied | Constant] = [*computation.copied, *computation.constants]
    for one in written:
        stem = "matrices" if one.size == size else "vectors"
        stem = "constants" if isinstance(one, Constant) else stem
        name = next(n for k in count(1) if (n := f"{stem}{k if k > 1 else ''}") not in names)
        names.add(name)
        found[one.number] = Array(name, one.shape, types[one.size], local=True, static=True)
    return found
