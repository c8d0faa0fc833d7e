"""Selects elements by a predicate, a range or at random, and copies at offsets in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import (
    check_writable,
    destination,
    numbers,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.activations import ReduceCommand
from tilewright.targets.trainium.operations.functions import alu, name_of, neutral, reduced
from tilewright.targets.trainium.operations.operands import (
    Number,
    column,
    column_values,
    same_partitions,
)
from tilewright.targets.trainium.operations.reductions import reduced_column
from tilewright.targets.trainium.tiles.buffer import Scope
from tilewright.targets.trainium.tiles.dtypes import DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View

LOWEST = -3.4028235e38
_LATER = "exists on NeuronCore-v3 (trn2) and later only"


def newer_chip(run: Execution) -> None:
    """Refuse an operation that NeuronCore-v2 does not have."""
    if run.machine.name == "trn1":
        raise KernelError("unsupported_operation", f"{run.function} {_LATER}")


def dropout(
    run: Execution, data: object, prob: object, *, dst: View | None = None,
    dtype: DType | None = None, mask: Mask | None = None,
) -> View:  # fmt: skip
    """Replace each element by zero with the probability `prob` (a number or a column)."""
    view = tile(run, data, "data")
    chance = column(run, prob, view, "prob")
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    reads = (view, chance) if isinstance(chance, View) else (view,)
    settings = {"operands": (chance,)}
    record_result(run, out, run.emit("dropout", "dve", reads, (out,), mask=mask, settings=settings))
    if run.valued:
        values = numbers(run, view, mask)
        stays = run.chance.random(values.shape) >= column_values(run, chance, values.ndim)
        write(run, out, np.where(stays, values, np.float32(0)), mask)
    return out


def select_reduce(
    run: Execution, predicate: object, on_true: object, on_false: object, *,
    reduce_res: object = None, reduce_cmd: object = None, reduce_op: object = None,
    reverse_pred: bool = False, dst: object, dtype: DType | None = None, mask: Mask | None = None,
) -> None:  # fmt: skip
    """dst = on_true if the predicate is not zero, otherwise on_false; the maximum is stored in
    reduce_res."""
    chooser, source = tile(run, predicate, "predicate"), tile(run, on_true, "on_true")
    out = tile(run, dst, "dst", written=True)
    check_writable(run, out)
    if chooser.dtype.is_float:
        raise KernelError(
            "unsupported_operand", f"{run.function}: the predicate must be uint8, uint16 or uint32"
        )
    same_partitions(run, chooser, source, out)
    if not chooser.columns == source.columns == out.columns:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: predicate {chooser.shape}, on_true {source.shape} and dst "
            f"{out.shape} must have the same number of elements in each partition",
        )
    if source.memory == chooser.memory == "psum":
        raise KernelError(
            "unsupported_memory", f"{run.function}: on_true and predicate lie in PSUM"
        )
    other = column(run, on_false, source, "on_false")
    total = None if reduce_res is None else reduced_column(run, source, reduce_res)
    reads = [source, chooser, *([other] if isinstance(other, View) else [])]
    writes = (out,) if total is None else (out, total)
    settings = {
        "operands": (other,), "reverse_pred": reverse_pred,
        "reduce": _reduction(reduce_op, reduce_cmd),
    }  # fmt: skip
    run.emit("select_reduce", "dve", reads, writes, mask=mask, settings=settings)
    if run.valued:
        holds = (read(run, chooser) != 0) ^ bool(reverse_pred)
        values = numbers(run, source, mask)
        found = np.where(
            holds.reshape(values.shape), values, column_values(run, other, values.ndim)
        )
        write(run, out, found.reshape(out.shape), mask)
        _reduce_rows(run, found, total, reduce_op, reduce_cmd)


def _reduce_rows(
    run: Execution, values: Values, total: View | None, op: object, command: object
) -> None:
    """The largest value of each row into its column. `reduce` continues from the column's
    contents."""
    if total is None:
        return
    name, continues = _reduction(op, command)
    neutral(name)
    found = reduced(name, values, tuple(range(1, values.ndim))).reshape(total.shape)
    if continues:
        found = alu(name)(found, numbers(run, total))
    write(run, total, found)


def _reduction(op: object, command: object) -> tuple[str, bool]:
    """The operation, and whether it continues from the contents of the result's column."""
    name = "maximum" if op is None else name_of(op, "reduce_op")
    return name, isinstance(command, ReduceCommand) and command.name == "reduce"


def range_select(
    run: Execution, *, on_true_tile: object, comp_op0: object, comp_op1: object, bound0: object,
    bound1: object, reduce_cmd: object = None, reduce_res: object = None, reduce_op: object = None,
    range_start: object = 0, on_false_value: Number = LOWEST, dst: View | None = None,
    dtype: DType | None = None, mask: Mask | None = None,
) -> View:  # fmt: skip
    """The elements for which `range_start + column` satisfies both comparisons with its row's
    bounds."""
    newer_chip(run)
    view = tile(run, on_true_tile, "on_true_tile")
    bounds = [column(run, bound0, view, "bound0"), column(run, bound1, view, "bound1")]
    start = column(run, range_start, view, "range_start")
    compare = name_of(comp_op0, "comp_op0"), name_of(comp_op1, "comp_op1")
    tests = [alu(name) for name in compare]
    total = None if reduce_res is None else reduced_column(run, view, reduce_res)
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    columns = [v for v in (*bounds, start) if isinstance(v, View)]
    writes = (out,) if total is None else (out, total)
    settings = {
        "operands": (*bounds, start), "compare": compare, "otherwise": on_false_value,
        "reduce": _reduction(reduce_op, reduce_cmd),
    }  # fmt: skip
    reads = (view, *columns)
    made = run.emit("range_select", "dve", reads, writes, mask=mask, settings=settings)
    record_result(run, out, made)
    if run.valued:
        values = numbers(run, view, mask).reshape(view.partitions, -1)
        place: Any = np.arange(view.columns, dtype=np.float32) + column_values(run, start, 2)
        holds = np.ones(values.shape, bool)
        for test, bound in zip(tests, bounds, strict=True):
            holds &= test(place, column_values(run, bound, 2))
        found = np.where(holds, values, np.float32(on_false_value))
        write(run, out, found.reshape(out.shape), mask)
        _reduce_rows(run, found, total, reduce_op, reduce_cmd)
    return out


def tensor_copy_dynamic_src(
    run: Execution, src: object, *, dst: View | None = None, dtype: DType | None = None,
    mask: Mask | None = None, engine: object = None,
) -> View:  # fmt: skip
    """A copy whose source is indexed by a tile."""
    view = tile(run, src, "src")
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    record_result(run, out, run.emit("tensor_copy_dynamic", "dve", (view,), (out,), mask=mask))
    if run.valued:
        write(run, out, read(run, view, mask).copy().reshape(out.shape), mask, view.dtype)
    return out


def tensor_copy_dynamic_dst(
    run: Execution, dst: object, src: object, *, mask: Mask | None = None, engine: object = None
) -> None:
    """A copy whose destination is indexed by a tile."""
    out, view = tile(run, dst, "dst", written=True), tile(run, src, "src")
    check_writable(run, out)
    same_partitions(run, out, view)
    if out.columns != view.columns:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: the shapes of dst {out.shape} and src {view.shape} differ",
        )
    run.emit("tensor_copy_dynamic", "dve", (view,), (out,), mask=mask)
    if run.valued:
        write(run, out, read(run, view, mask).copy().reshape(out.shape), mask, view.dtype)


def loop_reduce(
    run: Execution, x: object, op: object, loop_indices: object, *, dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:  # fmt: skip
    """The reduction of a tile over the enclosing loops whose variables are the `loop_indices`: one
    result for each iteration of the other loops around the call."""
    from tilewright.targets.trainium.operations.copies import tensor_copy
    from tilewright.targets.trainium.operations.elementwise import named, tensor_tensor

    view = tile(run, x, "x")
    name = name_of(op)
    neutral(name)
    if not isinstance(loop_indices, (list, tuple)) or not loop_indices:
        raise KernelError("unsupported_operand", f"{run.function}: loop_indices must be a list")
    around, others = _reduced_loops(run, loop_indices)
    key = (run.line, run.column, around.serial, *others)
    before = run.reduced.get(key)
    if before is None:
        found = tensor_copy(run, view, dtype=dtype, mask=mask)
    else:
        # After an assignment, the sum continues in place.
        result = before.buffer.result
        before = before if result is None or result.place is None else result.place
        found = tensor_tensor(
            run, before, view, named(name), dtype=before.dtype, mask=mask, carried=before
        )
    found.buffer.scope = around.home
    run.reduced[key] = found
    return found


def _reduced_loops(run: Execution, indices: Sequence[object]) -> tuple[Scope, list[int]]:
    """The scope around the outermost loop that is reduced, and the variables of the loops inside it
    that are not. Without names, the innermost loops are reduced."""
    inside: list[Scope] = []
    scope = run.scope
    while scope.parent is not None:
        inside.append(scope)
        scope = scope.parent
    if len(indices) > len(inside):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {len(indices)} loop indices, but fewer loops contain the call",
        )
    names = [None if s.loop is None else s.loop.variable for s in inside]
    chosen: Sequence[int] = range(len(indices))
    if isinstance(indices, LoopNames) and set(indices) <= set(names):
        chosen = sorted(names.index(name) for name in indices)
    outermost = inside[chosen[-1]]
    assert outermost.parent is not None
    others = [s.value for n, s in enumerate(inside[: chosen[-1]]) if n not in chosen]
    return outermost.parent, others


class LoopNames(tuple[str, ...]):
    """The names of the loop variables that a kernel gives as `loop_indices`."""

    __slots__ = ()
