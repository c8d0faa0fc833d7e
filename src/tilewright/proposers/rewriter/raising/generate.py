"""Writes the naive loop nest of a computation, in which data are loaded where they are used and
nothing overlaps. A tile has the height of the array and the width of the widest move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.proposers.rewriter.ir import Array, Body, Command, Stmt
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.chained import chain
from tilewright.proposers.rewriter.raising.computation import Computation, Kind
from tilewright.proposers.rewriter.raising.isa import Isa
from tilewright.proposers.rewriter.raising.nest_writer import NestWriter
from tilewright.proposers.rewriter.raising.nests import Lattice, Nest, Terms
from tilewright.proposers.rewriter.raising.tiles import beside


def generated(
    computation: Computation,
    found: Sequence[Nest],
    arrays: Mapping[int, Array],
    machine: Machine,
    *,
    chained: bool = False,
) -> tuple[Body, frozenset[int]]:
    """The body of the naive kernel, for arrays given by the numbers in their addresses, and the
    numbers of the arrays that it does not use.

    If it is `chained`, products read results of the product before them in local memory, where this
    is possible.
    """
    isa = Isa.of(machine, computation)
    result: list[Stmt] = []
    for copied in computation.copied:
        result += NestWriter(isa, arrays, computation.kinds).copies(copied)
    for constant in computation.constants:
        result += NestWriter(isa, arrays, computation.kinds).constant(constant)
    phase, at = found[0].phase, 0
    nests = _widened(found, isa, computation.kinds)
    unused = set[int]()
    while at < len(nests):
        nest, rest = nests[at]
        if nest.phase != phase:
            result.append(Command(isa.sync, ()))
        both = chain(computation, isa, arrays, nests, at) if chained else None
        if both is not None:
            result += both[0]
            unused.add(both[1])
            at += 1
        else:
            result += NestWriter(isa, arrays, computation.kinds, rest).nest(nest)
        phase, at = nests[at][0].phase, at + 1
    result.append(Command(isa.sync, ()))
    return tuple(result), frozenset(unused)


def _widened(found: Sequence[Nest], isa: Isa, kinds: Sequence[Kind]) -> list[tuple[Nest, int]]:
    """Nests in which narrower nests that continue the last block of columns are merged."""
    result: list[tuple[Nest, int]] = []
    for nest in found:
        for number, (main, rest) in enumerate(result):
            if not rest and _goes_on(main, nest, isa, kinds):
                result[number] = (main, nest.how.columns)
                break
        else:
            result.append((nest, 0))
    return result


def _goes_on(main: Nest, nest: Nest, isa: Isa, kinds: Sequence[Kind]) -> bool:
    """Whether a nest is the narrower last block of columns of another one."""
    if main.how.columns != isa.width or nest.how != replace(main.how, columns=nest.how.columns):
        return False
    step, dims, count = beside(isa, main, kinds), list(main.points.dims), 1
    for dim in dims:
        if dim[0] == step:
            count = dim[1]
            dims.remove(dim)
            break
    ends = tuple(b + count * s for b, s in zip(main.points.base, step, strict=True))

    def alike(terms: tuple[Terms, ...]) -> list[tuple[Kind, Lattice, int]]:
        return [(replace(kinds[t.kind], columns=0), t.points, t.first) for t in terms]

    return (
        (nest.phase, nest.scales, nest.points.base) == (main.phase, main.scales, ends)
        and list(nest.points.dims) == dims
        and alike(nest.terms) == alike(main.terms)
    )
