"""Reads a kernel into the form on which the rewriter works."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.schedule import scheduled
from tilewright.proposers.rewriter.rewrites.flattened import unflattened
from tilewright.proposers.rewriter.rewrites.paired import paired
from tilewright.proposers.rewriter.rewrites.separate_rows import separated


@lru_cache(maxsize=64)
def read(source: str, machine: Machine) -> Kernel:
    """The kernel of a C file. Loops and buffers with several uses are split into separate ones, and
    no load or store stays between a latched operand and its product.

    `InputError` if it has none or does not parse.
    """
    return paired(separated(unflattened(simplify(understood(source, machine))), machine), machine)


@lru_cache(maxsize=64)
def understood(source: str, machine: Machine) -> Kernel:
    """The kernel as its C describes it, or as the commands that it issues if the C is not
    understood. Cached, because finding them takes seconds, and may be in vain."""
    kernel = lift(source, machine)
    if any(isinstance(s, Opaque) for s in walk(kernel.body)):
        with suppress(NotRaised):
            return scheduled(source, machine)
    return kernel
