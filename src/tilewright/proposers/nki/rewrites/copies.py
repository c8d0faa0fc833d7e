"""Removes copies: through HBM, inside the chip, and of results that could be written to the
destination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import KernelFacts, NotApplicableError, may_meet
from tilewright.proposers.nki.analysis.places import extents
from tilewright.proposers.nki.ir import (
    CHANGES,
    Kernel,
    Op,
    Path,
    Region,
    Tensor,
    mapped_ops,
    mapped_regions,
    spliced,
    walk,
)
from tilewright.proposers.nki.rewrites.uses import (
    between,
    body_of,
    enclosing,
    follows,
    is_whole,
    op_at,
    replaced_op,
    through,
    uses,
)

_SBUF_ONLY = (
    "nc_matmul", "nc_transpose", "dma_copy", "dma_add", "gather", "scatter", "affine_select",
    "iota",
)  # fmt: skip
"""Instructions that cannot read PSUM; neither can those on Pool."""


def forward(kernel: Kernel, path: Path) -> Kernel:
    """A load from HBM of data that the same iteration stored, replaced by the tile from which they
    were stored."""
    load = op_at(kernel, path)
    tensors, trips = kernel.tensors(), kernel.trips()
    source = load.get("src")
    if load.name != "dma_copy" or not isinstance(source, Region):
        raise NotApplicableError("the instruction is not a load")
    stored = uses(kernel, source.tensor)
    if tensors[source.tensor].on_chip or len(stored.written) != 1:
        raise NotApplicableError(f"{source.tensor} is not stored once in HBM")
    place = stored.written[0]
    store = op_at(kernel, place)
    tile = store.region("src")
    if store.name != "dma_copy" or not tensors[tile.tensor].on_chip or not follows(path, place):
        raise NotApplicableError("the loaded data was not stored in this iteration")
    if any(r.tensor == tile.tensor for op in between(kernel, place, path) for r in op.writes):
        raise NotApplicableError(f"{tile.tensor} changes before")
    region = _part(source, store.region("dst"), tile, tensors[source.tensor], trips)
    if tensors[tile.tensor].memory != "sbuf" or region.dims[0][1] != tile.dims[0][1]:
        raise NotApplicableError("the load places the data on other partitions")
    target = load.region("dst")
    return replaced_op(kernel, path, Op("tensor_copy", (("dst", target), ("src", region))))


def _part(
    source: Region, target: Region, tile: Region, tensor: Tensor, trips: dict[str, int]
) -> Region:
    """The part of the stored tile that corresponds to `source`."""
    wanted, there = extents(source, tensor, trips), extents(target, tensor, trips)
    if wanted is None or there is None or len(target.dims) != len(tile.dims):
        raise NotApplicableError(
            "it is not known whether the load reads the part of HBM that was stored"
        )
    offset, dims = tile.offset, list(tile.dims)
    for want, have in zip(wanted, there, strict=True):
        start = want.start - have.start
        low, high = start.bounds(trips)
        if low < 0 or high + want.size > have.size or {want.step, have.step} != {1}:
            raise NotApplicableError("the load reads more than was stored")
        if have.dim is None:
            continue
        step = tile.dims[have.dim][0]
        offset = offset + start * step
        dims[have.dim] = (step, want.count)
    return Region(tile.tensor, offset, tuple(dims))


def skip_copy(kernel: Kernel, path: Path) -> Kernel:
    """The uses of a copied tile read the original instead.

    A load counts as a copy if the tile is only stored again: the data then move from HBM to HBM.
    """
    copy = op_at(kernel, path)
    tensors, trips = kernel.tensors(), kernel.trips()
    if copy.name not in ("tensor_copy", "dma_copy"):
        raise NotApplicableError("the instruction is not a copy")
    target, source = copy.region("dst"), copy.region("src")
    tile, origin = tensors[target.tensor], tensors[source.tensor]
    found = uses(kernel, tile.name)
    if copy.name == "dma_copy":
        _require_only_stored(kernel, tile, origin, found.read)
    if found.written != (path,) or not is_whole(target, tile):
        raise NotApplicableError(f"{tile.name} also contains other data")
    _require_unchanged(kernel, path, source, found.read)
    made = kernel
    for place in found.read:
        reader = op_at(made, place)
        if not follows(place, path):
            raise NotApplicableError(f"{tile.name} is read before the copy")

        def changed(region: Region) -> Region:
            if region.tensor != tile.name:
                return region
            moved = through(region, tile, source, trips)
            if moved is None:
                raise NotApplicableError("a part of the copy cannot be expressed")
            return moved

        changed_op = mapped_regions(reader, changed)
        if origin.memory == "psum":
            changed_op = without_pool(changed_op)
        if origin.memory == "psum" and not may_read_psum(changed_op, tensors):
            raise NotApplicableError(f"{reader.name} cannot read PSUM")
        if origin.dtype != tile.dtype and reader.name in ("nc_matmul", "nc_transpose"):
            raise NotApplicableError("the copy changes the type of a product's operand")
        made = replaced_op(made, place, changed_op)
    return replaced_op(made, path)


def _require_only_stored(
    kernel: Kernel, tile: Tensor, origin: Tensor, readers: tuple[Path, ...]
) -> None:
    """Refuse the rewrite for a tile that is converted, or that an engine reads."""
    if origin.on_chip or not tile.on_chip or origin.dtype != tile.dtype:
        raise NotApplicableError(f"{tile.name} does not contain data as they are in HBM")
    for place in readers:
        reader = op_at(kernel, place)
        if reader.name != "dma_copy" or kernel.tensors()[reader.region("dst").tensor].on_chip:
            raise NotApplicableError(f"{tile.name} is not only stored")


def _require_unchanged(
    kernel: Kernel, path: Path, source: Region, readers: tuple[Path, ...]
) -> None:
    """Refuse the rewrite if the original changes before the last use of the copy."""
    if not readers:
        raise NotApplicableError("nothing reads the copy")
    home = uses(kernel, source.tensor).home if source.tensor not in {
        t.name for t in kernel.arguments
    } else ()  # fmt: skip
    last = max(readers)
    body = body_of(kernel, path)
    for number in range(path[-1] + 1, min(last[len(path) - 1] + 1, len(body))):
        for _, statement in walk((body[number],)):
            if isinstance(statement, Op) and any(
                r.tensor == source.tensor for r in statement.writes
            ):
                raise NotApplicableError(f"{source.tensor} changes while the copy is used")
    if any(place[: len(path) - 1] != path[:-1] for place in readers) or len(home) > len(path):
        raise NotApplicableError("the copy is used elsewhere")


def without_pool(op: Op) -> Op:
    """The instruction without the request to run on Pool, which cannot access PSUM."""
    return op.having(engine=None) if "gpsimd" in str(op.get("engine")) else op


def may_read_psum(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """Whether an instruction may have those operands in PSUM that it has there."""
    in_psum = [k for k, r in op.regions if k != "dst" and tensors[r.tensor].memory == "psum"]
    if not in_psum:
        return True
    pool = "gpsimd" in str(op.get("engine"))
    columns = any(k in ("bias", "scale", "operand0") for k in in_psum)
    return op.name not in _SBUF_ONLY and not pool and len(in_psum) < 2 and not columns


def land(kernel: Kernel, path: Path) -> Kernel:
    """A result that is only computed to be copied is computed in the destination of the copy."""
    copy = op_at(kernel, path)
    tensors = kernel.tensors()
    if copy.name != "tensor_copy":
        raise NotApplicableError("the instruction is not a copy")
    target, source = copy.region("dst"), copy.region("src")
    tile = tensors[source.tensor]
    found = uses(kernel, tile.name) if tile.name not in {t.name for t in kernel.arguments} else None
    before = [p for p in found.written if p < path] if found else []
    if found is None or not before or not tile.on_chip:
        raise NotApplicableError(f"{tile.name} is not computed before the copy")
    place = max(before)
    # For a tile that exists only in this iteration, only instructions after the last result matter.
    again = len(found.written) > 1 and found.home[:-1] != path[:-1]
    if again or max(found.written) > path or [p for p in found.read if p > place] != [path]:
        raise NotApplicableError(f"{tile.name} has other uses")
    producer = op_at(kernel, place)
    if place[:-1] != path[:-1] or place > path or tensors[target.tensor].memory != "sbuf":
        raise NotApplicableError("the copied tile is computed elsewhere")
    keeps = producer.name in CHANGES  # a part of the previous contents of its destination
    if producer.name.startswith("nc_") or keeps or producer.get("dst") != source:
        raise NotApplicableError(
            "the instruction that computes the tile cannot write to the destination of the copy"
        )
    if target.shape != source.shape and target.columns != source.columns:
        raise NotApplicableError("the shapes differ")
    world = KernelFacts.of(kernel)
    inner = frozenset(world.trips) - enclosing(kernel, path)
    for op in between(kernel, place, path):
        for _, region in op.regions:
            if region.tensor == target.tensor and may_meet(region, target, world, None, inner):
                raise NotApplicableError(f"{target.tensor} is used between the two instructions")
    if any(r.tensor == target.tensor for r in producer.reads):
        raise NotApplicableError(f"{target.tensor} is an operand")
    made = replaced_op(kernel, path)
    landed = producer.having(dst=target)
    return replace(made, body=spliced(made.body, place, (landed,)))


def replace_original(kernel: Kernel, path: Path) -> Kernel:
    """A copy replaces the original tile if nothing uses the original any more."""
    copy = op_at(kernel, path)
    if copy.name != "tensor_copy":
        raise NotApplicableError("the instruction is not a copy")
    target, source = copy.region("dst"), copy.region("src")
    tensors = kernel.tensors()
    tile, origin = tensors[target.tensor], tensors[source.tensor]
    if replace(tile, name=origin.name) != origin or tile == origin:
        raise NotApplicableError("the tiles differ")
    if not (is_whole(target, tile) and is_whole(source, origin)):
        raise NotApplicableError("the instruction copies only a part of a tile")
    own, other = uses(kernel, tile.name), uses(kernel, origin.name)
    if own.home[:-1] != path[:-1] or other.home[:-1] != path[:-1]:
        raise NotApplicableError("the tiles live longer than an iteration")
    if any(place < path for place in (*own.written, *own.read)):
        raise NotApplicableError(f"{tile.name} is used before the copy")
    if any(place > path for place in (*other.written, *other.read)):
        raise NotApplicableError(f"{origin.name} is used after the copy")

    def renamed(region: Region) -> Region:
        return replace(region, tensor=origin.name) if region.tensor == tile.name else region

    made = replaced_op(kernel, path)
    return replace(made, body=mapped_ops(made.body, lambda op: mapped_regions(op, renamed)))
