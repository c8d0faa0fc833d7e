"""A kernel as the rewriter works on it."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis import simplify
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lift import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.flattened import unflattened
from tilewright.proposers.rewriter.rewrites.separate import separated


def read(source: str, machine: Machine) -> Kernel:
    """The kernel of a C file, its loops and buffers taken apart where they serve for several.

    `InputError` if it has none or does not parse.
    """
    return separated(unflattened(simplify(lift(source, machine))), machine)
