"""Reduces a row while it is computed, instead of reading it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, written
from tilewright.proposers.nki.analysis.widening import widened
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Tensor,
    ops,
    spliced,
    with_tensor,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.uses import body_of, is_whole, op_at, same_elements, uses

REDUCTIONS = ("nl.add", "nl.maximum", "nl.minimum")


def along(kernel: Kernel, path: Path) -> Kernel:
    """A reduction of rows that an earlier loop computes in parts: each part is reduced in that
    loop."""
    reduce, tensors = op_at(kernel, path), kernel.tensors()
    if not reduces_rows(reduce):
        raise NotApplicableError("the instruction does not reduce each row to one number")
    data = reduce.region("data")
    row = tensors[data.tensor]
    place, loop = _filling(kernel, path, row)
    if not is_whole(data, row):
        raise NotApplicableError(f"the instruction reduces only a part of {row.name}")
    piece = op_at(kernel, place)
    target = piece.region("dst")
    if target.columns * loop.trips != row.row or target.offset != variable(loop.variable) * (
        target.columns
    ):
        raise NotApplicableError(f"the loop does not compute {row.name} piece by piece")
    rows = target.dims[0][1]
    parts = Tensor(Names(kernel).fresh("parts"), (rows, loop.trips), "float32", "sbuf")
    column = Region(parts.name, variable(loop.variable), ((loop.trips, rows), (1, 1)))
    made = with_sum(piece, reduce, column, {**tensors, parts.name: parts})
    if made is None:
        raise NotApplicableError(f"{piece.name} cannot reduce its own result")
    everything = Region(parts.name, Linear(), ((loop.trips, rows), (1, loop.trips)))
    last = reduce.having(data=everything, axis=1)
    kernel = replace(kernel, body=spliced(kernel.body, path, (last,)))
    kernel = replace(kernel, body=spliced(kernel.body, place, (made,)))
    outer = place[:-1]
    body = body_of(kernel, outer)
    return replace(kernel, body=spliced(kernel.body, outer, (Alloc(parts), body[outer[-1]])))


def coarsen(kernel: Kernel, path: Path) -> Kernel:
    """A reduction to several numbers that are then reduced by the same operation: directly to one
    number."""
    reduce, tensors = op_at(kernel, path), kernel.tensors()
    target = reduce.region("dst")
    count, tile = target.columns, tensors[target.tensor]
    found = uses(kernel, tile.name)
    if reduce.name != "tensor_reduce" or reduce.get("op") not in REDUCTIONS or count < 2:
        raise NotApplicableError("the instruction does not reduce each row to several numbers")
    if found.written != (path,) or len(found.read) != 1 or not tile.on_chip:
        raise NotApplicableError(f"{tile.name} has other uses")
    again = op_at(kernel, found.read[0])
    if not reduces_rows(again) or again.get("op") != reduce.get("op") or reduce.get("negate"):
        raise NotApplicableError(
            "the instruction's results are not reduced again by the same operation"
        )
    place, rest = target.offset.divided(count)
    if rest != Linear() or tile.row % count or not is_whole(again.region("data"), tile):
        raise NotApplicableError("the instruction's results are not groups of columns")
    rows, columns = tile.shape[0], tile.row // count
    free = [dim for dim in target.dims[1:] if dim[1] > 1]
    if target.dims[0] != (tile.row, rows) or free != [(1, count)]:
        raise NotApplicableError("the instruction's results are not contiguous")
    axes = tuple(range(1, len(reduce.region("data").dims)))
    column = Region(tile.name, place, ((columns, target.dims[0][1]), (1, 1)))
    made = reduce.having(dst=column, axis=axes if len(axes) > 1 else 1)
    everything = Region(tile.name, Linear(), ((columns, rows), (1, columns)))
    body = spliced(kernel.body, path, (made,))
    body = spliced(body, found.read[0], (again.having(data=everything, axis=1),))
    return replace(kernel, body=with_tensor(body, replace(tile, shape=(rows, columns))))


def folded(kernel: Kernel) -> Kernel:
    """Loops of one instruction whose results are summed again, as single instructions.

    Parts that a jammed loop computes with a separate sum for each are then computed at once, with
    one sum.
    """
    for path, loop in list(kernel.statements()):
        if isinstance(loop, Loop) and len(loop.body) == 1:
            try:
                kernel = _folded(kernel, path, loop)
            except NotApplicableError:
                continue
    return kernel


def _folded(kernel: Kernel, path: Path, loop: Loop) -> Kernel:
    op = loop.body[0]
    column = op.get("reduce_res") if isinstance(op, Op) else None
    if not isinstance(op, Op) or not isinstance(column, Region):
        raise NotApplicableError("the loop computes no sum")
    tensors, how = kernel.tensors(), op.get("reduce_op")
    tile, found = tensors[column.tensor], uses(kernel, column.tensor)
    if found.written != ((*path, 0),) or len(found.read) != 1:
        raise NotApplicableError(f"{tile.name} has other uses")
    again = op_at(kernel, found.read[0])
    if not reduces_rows(again) or again.get("op") != how:
        raise NotApplicableError("the sums of the loop are not summed again")
    place, rest = column.offset.without(loop.variable).divided(loop.trips)
    if column.offset.factor(loop.variable) != 1 or rest != Linear() or tile.row % loop.trips:
        raise NotApplicableError("the sums of the loop are not contiguous")
    if not is_whole(again.region("data"), tile) or tile.dtype != "float32":
        raise NotApplicableError("the sums of the loop are not summed all together in float32")
    alone = op.having(reduce_res=None, reduce_op=None, reduce_cmd=None)
    plain = replace(alone, name="tensor_scalar") if op.name != "activation" else alone
    wide = widened(plain, loop, tensors)
    if wide is None:
        raise NotApplicableError("the instruction cannot work on all columns at once")
    rows, columns = tile.shape[0], tile.row // loop.trips
    into = Region(tile.name, place, ((columns, column.dims[0][1]), (1, 1)))
    made = replace(wide, name=op.name).having(
        reduce_op=how, reduce_res=into, reduce_cmd=op.get("reduce_cmd")
    )
    everything = Region(tile.name, Linear(), ((columns, rows), (1, columns)))
    body = spliced(kernel.body, found.read[0], (again.having(data=everything, axis=1),))
    body = spliced(body, path, (made,))
    return replace(kernel, body=with_tensor(body, replace(tile, shape=(rows, columns))))


def reduces_rows(op: Op) -> bool:
    """Whether it reduces each row to one number, with an operation whose order does not matter."""
    return (
        op.name == "tensor_reduce"
        and op.get("op") in REDUCTIONS
        and op.region("dst").columns == 1
        and op.region("data").columns > 1
    )


def with_sum(op: Op, reduce: Op, column: Region, tensors: Mapping[str, Tensor]) -> Op | None:
    """An instruction that also reduces its result into a column of float32; None if there is
    none."""
    if {tensors[r.tensor].dtype for r in (op.region("dst"), column)} != {"float32"}:
        return None
    how = reduce.get("op")
    assert isinstance(how, str)
    if op.name == "activation" and how == "nl.add":
        if op.get("reduce_cmd") is not None or op.get("reduce_res") is not None:
            return None
        return op.having(
            reduce_op=how, reduce_res=column, reduce_cmd="nisa.reduce_cmd.reset_reduce"
        )
    if op.name == "tensor_copy":
        scalar: tuple[tuple[str, object], ...] = (("op0", "nl.multiply"), ("operand0", 1.0))
        source = op.region("src")
    elif op.name == "tensor_scalar" and op.get("op1") is None:
        scalar = tuple((k, v) for k, v in op.arguments if k in ("op0", "operand0", "reverse0"))
        source = op.region("data")
    else:
        return None
    if any(r.tensor == column.tensor for r in op.reads):
        return None
    return Op(
        "tensor_scalar_reduce",
        (("dst", op.region("dst")), ("data", source), *scalar,  # type: ignore[arg-type]
         ("reduce_op", how), ("reduce_res", column)),
    )  # fmt: skip


def _filling(kernel: Kernel, path: Path, row: Tensor) -> tuple[Path, Loop]:
    """The instruction that computes a tile in a loop of the same body, and this loop."""
    found = [p for p in uses(kernel, row.name).written if p < path]
    home = uses(kernel, row.name).home
    if len(found) != 1 or len(found[0]) != len(path) + 1 or found[0][:-2] != path[:-1]:
        raise NotApplicableError(f"{row.name} is not computed in a single earlier loop")
    if home[:-1] != path[:-1] or home > found[0]:
        raise NotApplicableError(f"{row.name} is created elsewhere")
    loop = body_of(kernel, path)[found[0][-2]]
    assert isinstance(loop, Loop)
    return found[0], loop


def beside(kernel: Kernel, path: Path) -> Kernel:
    """A copy and a reduction of the same elements in one body, as one instruction."""
    second, tensors, body = op_at(kernel, path), kernel.tensors(), body_of(kernel, path)
    for number in range(path[-1] - 1, -1, -1):
        first = body[number]
        pair = (first, second) if isinstance(first, Op) else None
        if pair is None:
            continue
        copy = next((op for op in pair if op.name == "tensor_copy"), None)
        reduce = next((op for op in pair if reduces_rows(op)), None)
        if copy is None or reduce is None:
            continue
        if not same_elements(copy.region("src"), reduce.region("data")):
            continue
        assert isinstance(first, Op)
        between = body[number + 1 : path[-1]]
        changed = written(between)
        used = {r.tensor for op in ops(between) for _, r in op.regions}
        early = first.writes[0].tensor
        if copy.region("src").tensor in changed or early in used:
            continue
        if any(r.tensor in (w.tensor for w in first.writes) for r in second.reads):
            continue
        made = with_sum(copy, reduce, reduce.region("dst"), tensors)
        if made is None or reduce.get("negate"):
            continue
        kernel = replace(kernel, body=spliced(kernel.body, path, (made,)))
        return replace(kernel, body=spliced(kernel.body, (*path[:-1], number), ()))
    raise NotApplicableError("there is no copy and reduction of the same elements")
