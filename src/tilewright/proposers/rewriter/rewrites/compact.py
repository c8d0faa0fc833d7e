"""Convert straight-line code to loops, to which other rewrites apply."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import Kernel, commands
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.roll import roll


def roll_up(kernel: Kernel, machine: Machine) -> Kernel:
    """Commands that repeat with evenly growing operands become loops, and repeated loops become
    loops again.

    Before: `load(&A[0][0], SPAD(0)); load(&A[0][16], SPAD(16)); load(&A[0][32], SPAD(32));`
    After:  `for (b = 0; b < 48; b += 16) load(&A[0][b], SPAD(b));`

    The same commands are issued in the same order, and settings are unchanged. A kernel that was
    unrolled by hand becomes loops again.
    """
    settings = {name for name in machine.effects if machine.unit(name) == "config"}
    start = count = sum(1 for _ in commands(kernel.body))
    while True:
        rolled = kernel.with_body(roll(kernel, kernel.body, settings))
        left = sum(1 for _ in commands(rolled.body))
        if left == count:
            break
        kernel, count = rolled, left
    if count == start:
        raise NotApplicable("no commands repeat with evenly growing operands")
    return kernel
