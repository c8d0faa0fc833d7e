"""Rewrites in a row that pay only together."""

from __future__ import annotations

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, walk
from tilewright.proposers.nki.rewrites.copies import forward
from tilewright.proposers.nki.rewrites.hoist import hoist
from tilewright.proposers.nki.rewrites.order import fuse
from tilewright.proposers.nki.rewrites.renaming import renewed
from tilewright.proposers.nki.rewrites.uses import body_of, op_at


def stay(kernel: Kernel, path: Path) -> Kernel:
    """A loop that takes what it loads from the tiles that it stored it from.

    It is fused with those behind it, as many as load what the loops before them stored.
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
    """With everything that a loop loads taken from tiles where that is possible, and how much."""
    count = 0
    for place in [p for p, s in walk(kernel.body) if isinstance(s, Op)]:
        if place[: len(path)] == path:
            try:
                kernel = forward(kernel, place)
            except NotApplicableError:
                continue
            count += 1
    return kernel, count


def early(kernel: Kernel, path: Path, loop: Path) -> Kernel:
    """What an instruction computes in place: in a tile of its own, computed before a loop."""
    made = renewed(kernel, path)
    moved = (*path[:-1], path[-1] + isinstance(body_of(made, path)[path[-1]], Alloc))
    return hoist(made, loop, op_at(made, moved).region("dst").tensor)
