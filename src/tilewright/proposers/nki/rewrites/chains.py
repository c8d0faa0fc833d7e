"""Sequences of rewrites that are useful only together."""

from __future__ import annotations

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path
from tilewright.proposers.nki.rewrites.copies import forward
from tilewright.proposers.nki.rewrites.hoist import hoist
from tilewright.proposers.nki.rewrites.order import fuse
from tilewright.proposers.nki.rewrites.renaming import renewed
from tilewright.proposers.nki.rewrites.uses import body_of, op_at


def stay(kernel: Kernel, path: Path) -> Kernel:
    """A loop that reads the tiles from which data were stored, instead of loading the data.

    It is fused with the following loops, as long as they load data that the loops before them
    stored.
    """
    kernel, done = _forwarded(kernel, path)
    while True:
        try:
            fused = fuse(kernel, path)
        except NotApplicableError:
            break
        made, count = _forwarded(fused, path)
        if not count:
            break
        kernel, done = made, done + count
    if not done:
        raise NotApplicableError("neither this loop nor a later loop loads the data that it stores")
    return kernel


def _forwarded(kernel: Kernel, path: Path) -> tuple[Kernel, int]:
    """The kernel in which the loads of a loop are replaced by tiles where possible, and their
    number."""
    count = 0
    for place in [p for p, s in kernel.statements() if isinstance(s, Op)]:
        if place[: len(path)] == path:
            try:
                kernel = forward(kernel, place)
            except NotApplicableError:
                continue
            count += 1
    return kernel, count


def early(kernel: Kernel, path: Path, loop: Path) -> Kernel:
    """An instruction that works in place gets a separate tile, and is computed before a loop."""
    made = renewed(kernel, path)
    moved = (*path[:-1], path[-1] + isinstance(body_of(made, path)[path[-1]], Alloc))
    return hoist(made, loop, op_at(made, moved).region("dst").tensor)
