"""Creates tiles in each iteration of a loop instead of before the loop.

Before:                                   After:

    t = ndarray(...)                          for i in range(8):
    for i in range(8):                            t = ndarray(...)
        t = load(x, i)                            t = load(x, i)
        store(t * 2, i)                           store(t * 2, i)

A tile that is created in a loop has several buffers, so that the next iteration need not wait until
the tile is free.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, touches
from tilewright.proposers.nki.ir import (
    CHANGES,
    Alloc,
    Body,
    Kernel,
    Loop,
    Path,
    Tensor,
    at,
    ops,
    spliced,
)
from tilewright.proposers.nki.rewrites.uses import body_of, is_whole


def inside(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the loop at `path` creates the tiles that each iteration overwrites."""
    loop = at(kernel.body, path)
    assert isinstance(loop, Loop)
    others = [s for n, s in enumerate(body_of(kernel, path)) if n != path[-1]]
    moved = tuple(
        s
        for s in others
        if isinstance(s, Alloc)
        and not any(touches(other, s.tensor.name) for other in others if other is not s)
        and _is_renewed(loop.body, s.tensor)
    )
    if not moved:
        raise NotApplicableError("no tile before the loop is overwritten in each iteration")
    names = {s.tensor.name for s in moved}
    body = spliced(kernel.body, path, (replace(loop, body=(*moved, *loop.body)),))
    for number, statement in reversed([*enumerate(body_of(kernel, path))]):
        if isinstance(statement, Alloc) and statement.tensor.name in names:
            body = spliced(body, (*path[:-1], number), ())
    return replace(kernel, body=body)


def _is_renewed(body: Body, tile: Tensor) -> bool:
    """Whether each iteration overwrites a tile before it uses the tile.

    The first product that is written to a tile of PSUM overwrites the tile, and the following ones
    add to it. A tile with products therefore stays where it is.
    """
    first = next((s for s in body if touches(s, tile.name)), None)
    products = (op for op in ops(body) if op.name == "nc_matmul")
    if first is None or not tile.on_chip or any(touches(op, tile.name) for op in products):
        return False
    if isinstance(first, Loop):
        return _is_renewed(first.body, tile)
    assert not isinstance(first, Alloc)
    if first.name in CHANGES or any(region.tensor == tile.name for region in first.reads):
        return False
    target = first.region("dst")
    return target.tensor == tile.name and is_whole(target, tile)
