"""Finds how many iterations lie before the first vector that is stored at a multiple of its size.

A vector at another place lies in two lines of the cache, so that storing it takes twice as long. In

    for (int x = 1; x < 4095; x++) Y[y][x] = X[y][x];

with rows of 4096 floats, 15 iterations lie before the first multiple of 16 elements. Arrays begin
at multiples of the size of a vector.
"""

from __future__ import annotations

from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import Assign, Declare, Element, For, Kernel, Var, statements

_LEAST_VECTORS = 4
"""Fewer vectors gain less than the additional one costs."""


def iterations_to_aligned(loop: For, kernel: Kernel, lanes: int) -> int:
    """The number of iterations; 0 if the stores are aligned, or are not all aligned together."""
    if loop.trips < _LEAST_VECTORS * lanes or any(isinstance(s, For) for s in loop.body):
        return 0
    sizes = {array.name: array.sizes for array in (*kernel.parameters, *kernel.scratch)}
    sizes |= {s.name: s.sizes for s in statements(kernel.body) if isinstance(s, Declare)}
    targets = [s.target for s in loop.body if isinstance(s, Assign)]
    offsets = {
        _offset(target, loop.variable, sizes.get(target.array, ()), lanes)
        for target in targets
        if isinstance(target, Element)
    }
    offset = offsets.pop() if len(offsets) == 1 else None
    return -(loop.first + offset) % lanes if offset is not None else 0


def _offset(target: Element, variable: str, sizes: tuple[int, ...], lanes: int) -> int | None:
    """The constant part of an element's position, without the variable, modulo `lanes`."""
    terms, offset = linear(target.subscripts[-1])
    if terms.pop(Var(variable), 0) != 1 or any(factor % lanes for factor in terms.values()):
        return None
    whole_rows = len(target.subscripts) == 1 or (sizes and sizes[-1] % lanes == 0)
    return offset % lanes if whole_rows else None
