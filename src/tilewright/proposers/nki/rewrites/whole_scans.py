"""Runs the scans of all iterations of a loop as one scan.

Before:                                       After:

    for c in range(8):                            for c in range(8):
        load(t, x[:, c * 512 ...])                    load(t[:, c * 512 ...], x[:, c * 512 ...])
        scan(s, ones, t, initial=carry)           scan(s, ones 8 times, t, initial=carry)
        copy(carry, s[:, 511])                    copy(carry, s[:, 4095])
        store(y[:, c * 512 ...], s)               for c in range(8):
                                                      store(y[:, c * 512 ...], s[:, c * 512 ...])

The loop is divided into the instructions before the scan and those after it. `strip` is the
opposite rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import (
    KernelFacts,
    NotApplicableError,
    allocated,
    conflicts,
    has_hidden_state,
    touches,
    written,
)
from tilewright.proposers.nki.analysis.widening import widened
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Setting,
    Statement,
    at,
    mapped_ops,
    ops,
    spliced,
    substituted,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.expansion import require_room, widened_tiles
from tilewright.proposers.nki.rewrites.order import exchange
from tilewright.proposers.nki.rewrites.uses import is_whole, same_elements


def whole_scan(kernel: Kernel, path: Path) -> Kernel:
    """The kernel with one scan instead of those of the loop at `path`, or of the loops over which
    it can be moved into the loop inside it."""
    try:
        return _whole(kernel, path)
    except NotApplicableError:
        inner = (*path, 0)
        return _whole(exchange(kernel, path), inner)


def _whole(kernel: Kernel, path: Path) -> Kernel:
    loop, world = at(kernel.body, path), KernelFacts.of(kernel)
    if not isinstance(loop, Loop):
        raise NotApplicableError("there is no such loop")
    if has_hidden_state(loop.body):
        raise NotApplicableError("sums are kept in the accumulator of ACT")
    scan, copy = _scan_with_carry(loop, world)
    parts = [
        [n for n, s in enumerate(loop.body) if not isinstance(s, Alloc) and lowest <= n < end]
        for lowest, end in ((0, scan), (scan + 1, len(loop.body)))
    ]
    parts[1].remove(copy)
    _require_divisible(loop, parts, world)
    tiles = [s.tensor for s in loop.body if isinstance(s, Alloc)]
    used = {tile.name: _parts_with(tile.name, loop.body, parts) for tile in tiles}
    shared = {name for name, numbers in used.items() if len(numbers) != 1}
    copies = dict.fromkeys(shared, (loop.trips, variable(loop.variable)))
    body = widened_tiles(loop.body, copies)
    new = allocated(body)
    made: list[Statement] = []
    for name in sorted(shared):
        require_room(new[name])
        made.append(Alloc(new[name]))
    names = Names(kernel)
    for number, part in enumerate(parts):
        own = [Alloc(new[name]) for name, numbers in used.items() if numbers == [number]]
        if part:
            made.append(_over(loop, (*own, *(body[n] for n in part)), names))
        if number == 0:
            made += _over_all(kernel, body, scan, copy, loop, names)
    return replace(kernel, body=spliced(kernel.body, path, tuple(made)))


def _scan_with_carry(loop: Loop, world: KernelFacts) -> tuple[int, int]:
    """The places of a scan, and of the copy of its last column that begins the next iteration's
    scan."""
    for number, scan in enumerate(loop.body):
        initial = scan.get("initial") if isinstance(scan, Op) else None
        if not isinstance(scan, Op) or not isinstance(initial, Region):
            continue
        users = [n for n, s in enumerate(loop.body) if touches(s, initial.tensor)]
        copy, result = loop.body[users[-1]], scan.region("dst")
        place = result.offset + (result.columns - 1)
        last = Region(result.tensor, place, (result.dims[0], (1, 1)))
        changed = written(loop.body[number + 1 : users[-1]])
        if (
            isinstance(copy, Op)
            and users[-2:] == [number, users[-1]]
            and copy.name == "tensor_copy"
            and copy.region("dst") == initial
            and same_elements(copy.region("src"), last)
            and result.dims[1:] == ((1, result.columns),)
            and result.tensor not in changed
            and not initial.offset.factor(loop.variable)
            and {world.tensors[n].dtype for n in (initial.tensor, result.tensor)} == {"float32"}
        ):
            return number, users[-1]
    raise NotApplicableError("no scan continues that of the iteration before")


def _require_divisible(loop: Loop, parts: Sequence[Sequence[int]], world: KernelFacts) -> None:
    """No instruction may depend on one that comes later in the text, in an earlier iteration."""
    part_of = {n: 2 * number for number, part in enumerate(parts) for n in part}
    for conflict in conflicts(loop.body, loop, world):
        first, second = (part_of.get(p[0], 1) for p in (conflict.first, conflict.second))
        if first != second and not conflict.forward:
            raise NotApplicableError("the iterations of the loop depend on one another")


def _parts_with(name: str, body: Body, parts: Sequence[Sequence[int]]) -> list[int]:
    """The parts that use a tile. Those that the scan uses count as used by all parts."""
    apart = [n for n, s in enumerate(body) if touches(s, name) and n not in (*parts[0], *parts[1])]
    if any(not isinstance(body[n], Alloc) for n in apart):
        return []
    return [
        number for number, part in enumerate(parts) if any(touches(body[n], name) for n in part)
    ]


def _over(loop: Loop, body: Body, names: Names) -> Loop:
    """The loop over some of its statements."""
    own = names.fresh(loop.variable)
    values = {loop.variable: variable(own)}
    return replace(loop, variable=own, body=mapped_ops(body, partial(substituted, values=values)))


def _over_all(
    kernel: Kernel, body: Body, scan: int, copy: int, loop: Loop, names: Names
) -> list[Statement]:
    """The scan of all iterations, and the copy of its last column."""
    one, carried = body[scan], body[copy]
    assert isinstance(one, Op)
    assert isinstance(carried, Op)
    tensors, made = {**kernel.tensors(), **allocated(body)}, list[Statement]()
    for key in ("data0", "data1"):
        region = one.region(key)
        value = _constant(kernel, region.tensor)
        if value is None or region.offset.factor(loop.variable):
            continue
        rows, width = region.dims[0][1], region.columns
        shape = (rows, loop.trips * width)
        tile = replace(tensors[region.tensor], name=names.fresh(region.tensor), shape=shape)
        tensors[tile.name] = tile
        made += [Alloc(tile), Op("memset", (("dst", whole(tile)), ("value", value)))]
        dims = ((tile.row, rows), (1, width))
        one = one.having(**{key: Region(tile.name, variable(loop.variable) * width, dims)})
    wide = widened(replace(one.having(initial=None), name="tensor_tensor"), loop, tensors)
    if wide is None:
        raise NotApplicableError("the iterations' data are too long for one scan")
    made.append(replace(one, arguments=tuple((k, wide.get(k) or v) for k, v in one.arguments)))
    return [*made, substituted(carried, {loop.variable: Linear(loop.trips - 1)})]


def _constant(kernel: Kernel, name: str) -> Setting | None:
    """The value of a tile that is only ever written by one `memset`."""
    writers = [op for op in ops(kernel.body) if any(r.tensor == name for r in op.writes)]
    if len(writers) != 1 or writers[0].name != "memset":
        return None
    value = writers[0].get("value")
    assert not isinstance(value, Region)
    return value if is_whole(writers[0].region("dst"), kernel.tensors()[name]) else None
