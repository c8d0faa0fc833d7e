"""A kernel's computation as the naive loop nest, whatever schedule it was written with."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.generate import generated
from tilewright.proposers.rewriter.raising.nests import nests
from tilewright.proposers.rewriter.raising.own_arrays import names_in, numbered


@lru_cache(maxsize=16)
def raised(source: str, machine: Machine) -> Kernel:
    """The naive nest that computes what a kernel does; `NotRaised` says why there is none.

    Sums are added up in another order: the same result for integers, another rounding for floats.
    """
    kernel = lift(source, machine)
    found = computation(executed(source, machine), machine)
    arrays = numbered(kernel) | found.own.arrays(names_in(kernel))
    body = generated(found, nests(found), arrays, machine)
    return simplify(replace(kernel, arrays=tuple(arrays.values()), body=body, names={}, words=None))
