"""Removes repeated computations: the later of two equal instructions reads the tile of the earlier
one.

Before:                                   After:

    for i in range(8):                        kept = tile(128, 8 * 512)
        a = load(x[..., i])                   for i in range(8):
        use(a)                                    kept[i] = load(x[..., i])
    for j in range(8):                            use(kept[i])
        b = load(x[..., j])                   for j in range(8):
        use(b)                                    use(kept[j])

Loads of an argument count as computations, so data that two loops load are loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.proposers.nki.analysis.dependence import KernelFacts, NotApplicableError, may_meet
from tilewright.proposers.nki.ir import (
    CHANGES,
    WRITTEN,
    Alloc,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Setting,
    Tensor,
    at,
    mapped_ops,
    mapped_regions,
    spliced,
    substituted,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.rewrites.cleaning import without_tensor
from tilewright.proposers.nki.rewrites.copies import skip_copy
from tilewright.proposers.nki.rewrites.expansion import (
    carried,
    expanded,
    require_room,
    widened_tiles,
)
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import is_whole, op_at, replaced_op, uses


def reuse(kernel: Kernel, path: Path) -> Kernel:
    """The kernel without the instruction at `path`, whose result an earlier one has computed."""
    for pair in _earlier(kernel, path):
        try:
            return _taken(kernel, pair)
        except NotApplicableError:
            continue
    raise NotApplicableError("no earlier instruction computes the same result")


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two instructions that compute the same result, inside `depth` common loops.

    `loops` are the other loops around the first one, and `again` those around the second one, from
    the outermost to the innermost. They have equal numbers of iterations.
    """

    first: Path
    second: Path
    depth: int
    loops: tuple[Loop, ...]
    again: tuple[Loop, ...]


def _earlier(kernel: Kernel, path: Path) -> Iterator[_Pair]:
    """Earlier instructions with the same result as the one at `path` in the same iteration."""
    later = op_at(kernel, path)
    if later.name in CHANGES and later.name != "nc_matmul":
        return
    if later.get("reduce_cmd") is not None or len(later.writes) > 1:
        return
    world = KernelFacts.of(kernel)
    for place, op in kernel.statements():
        if place >= path:
            return
        if not isinstance(op, Op) or op.name != later.name or len(place) != len(path):
            continue
        depth = next(n for n, (a, b) in enumerate(zip(place, path, strict=True)) if a != b)
        pair = _Pair(place, path, depth, _loops(kernel, place, depth), _loops(kernel, path, depth))
        if _computes_same(kernel, pair, world):
            yield pair


def _loops(kernel: Kernel, path: Path, depth: int) -> tuple[Loop, ...]:
    """The loops around a place, without the outer ones up to a depth."""
    around = (at(kernel.body, path[:n]) for n in range(depth + 1, len(path)))
    return tuple(loop for loop in around if isinstance(loop, Loop))


def _computes_same(kernel: Kernel, pair: _Pair, world: KernelFacts) -> bool:
    first, second = op_at(kernel, pair.first), op_at(kernel, pair.second)
    if [loop.trips for loop in pair.loops] != [loop.trips for loop in pair.again]:
        return False
    if _sources(first) != _sources(substituted(second, _names(pair.again, pair.loops))):
        return False
    sources = [region for key, region in first.regions if key not in WRITTEN]
    return all(_lasts(kernel, region, pair, world) for region in sources)


def _sources(op: Op) -> tuple[tuple[str, Region | Setting], ...]:
    return tuple((key, value) for key, value in op.arguments if key not in ("dst", "engine"))


def _names(old: tuple[Loop, ...], new: tuple[Loop, ...]) -> dict[str, Linear]:
    return {a.variable: variable(b.variable) for a, b in zip(old, new, strict=True)}


def _lasts(kernel: Kernel, region: Region, pair: _Pair, world: KernelFacts) -> bool:
    """Whether the inputs of the first instruction are unchanged when the second one runs."""
    tensor = world.tensors[region.tensor]
    if tensor.on_chip and len(uses(kernel, tensor.name).home) > pair.depth + 1:
        return False
    end = (*pair.second[: pair.depth], pair.second[pair.depth] + 1)
    own = {loop.variable for loop in pair.loops}
    both = _around(kernel, pair.first) - own
    for place, op in kernel.statements():
        if not isinstance(op, Op) or all(r.tensor != region.tensor for r in op.writes):
            continue
        if not tensor.on_chip:
            return False
        if place[: pair.depth] != pair.first[: pair.depth]:
            continue
        if pair.first <= place < end:
            return False
        if place[: pair.depth + 1] != pair.first[: pair.depth + 1]:
            continue
        inside = _around(kernel, place) - both
        for name in inside & own:
            free = frozenset((inside | own) - {name})
            for written in op.writes:
                if written.tensor == region.tensor and may_meet(
                    written, region, world, name, free, later=True
                ):
                    return False
    return True


def _around(kernel: Kernel, path: Path) -> set[str]:
    return {loop.variable for loop in _loops(kernel, path, 0)}


def _taken(kernel: Kernel, pair: _Pair) -> Kernel:
    """The readers of the second instruction's result read that of the first one, which is kept."""
    numbers = [place for place, s in kernel.statements() if isinstance(s, Op)]
    first, second = numbers.index(pair.first), numbers.index(pair.second)
    kept = op_at(kernel, pair.first).region("dst").tensor
    copied = op_at(kernel, pair.second).region("dst").tensor
    kernel = _with_own_tile(kernel, second, copied)
    kernel = _with_own_tile(kernel, first, kept)
    kernel = _widened(kernel, _place(kernel, first), pair, kept)
    source = op_at(kernel, _place(kernel, first)).region("dst")
    region = replace(source, offset=source.offset.replaced(_names(pair.loops, pair.again)))
    path = _place(kernel, second)
    target = op_at(kernel, path).region("dst")
    tensors = kernel.tensors()
    if target.shape != region.shape or tensors[kept].dtype != tensors[copied].dtype:
        raise NotApplicableError("the tiles differ")
    found, tile = uses(kernel, copied), tensors[copied]
    is_private = found.home[:-1] == path[:-1] and all(place > path for place in found.read)
    if (
        is_private
        and is_whole(target, tile)
        and tensors[kept].memory == tile.memory
        and region.dims[1:] == whole(tile).dims[1:]
    ):
        body = mapped_ops(
            spliced(kernel.body, path, ()),
            lambda op: mapped_regions(op, lambda part: _within(part, tile, region)),
        )
        return replace(kernel, body=body)
    copy = Op("tensor_copy", (("dst", target), ("src", region)))
    return skip_copy(replaced_op(kernel, path, copy), path)


def _within(part: Region, tile: Tensor, region: Region) -> Region:
    """A part of a tile as a part of the region with the same contents in the same order."""
    if part.tensor != tile.name:
        return part
    return carried(part, tile, region.tensor, region.dims[0][0], region.offset)


def _place(kernel: Kernel, number: int) -> Path:
    """The place of the instruction with this number of instructions before it."""
    return [path for path, s in kernel.statements() if isinstance(s, Op)][number]


def _with_own_tile(kernel: Kernel, number: int, name: str) -> Kernel:
    """The kernel with a tile that only this instruction writes. Later results have other tiles."""
    path = _place(kernel, number)
    kernel = with_own_tile(kernel, path, name)
    found = uses(kernel, name)
    if found.written != (path,):
        raise NotApplicableError(f"{name} is written again")
    if op_at(kernel, path).name in CHANGES and found.home[:-1] != path[:-1]:
        raise NotApplicableError(f"{name} contains more than this result")
    return kernel


def _widened(kernel: Kernel, path: Path, pair: _Pair, name: str) -> Kernel:
    """The kernel with the first instruction's tile kept for all iterations of its own loops."""
    if not pair.loops:
        return kernel
    home = uses(kernel, name).home
    op, tensor = op_at(kernel, path), kernel.tensors()[name]
    if len(home) <= pair.depth + 1:
        # It is used after the loops, so each iteration must have a separate part of it.
        world, region = KernelFacts.of(kernel), op.region("dst")
        own = frozenset(loop.variable for loop in pair.loops)
        for changing in own:
            if may_meet(region, region, world, changing, own - {changing}):
                raise NotApplicableError(f"{name} contains only the values of one iteration")
        return kernel
    if home[:-1] != path[:-1] or not is_whole(op.region("dst"), tensor):
        raise NotApplicableError(f"no single iteration computes all of {name}")
    copies, copy = 1, Linear()
    for loop in pair.loops:
        copies, copy = copies * loop.trips, copy * loop.trips + variable(loop.variable)
    wide = expanded(tensor, copies)
    require_room(wide)
    place = path[: pair.depth + 1]
    inside = without_tensor(widened_tiles((at(kernel.body, place),), {name: (copies, copy)}), name)
    return replace(kernel, body=spliced(kernel.body, place, (Alloc(wide), *inside)))
