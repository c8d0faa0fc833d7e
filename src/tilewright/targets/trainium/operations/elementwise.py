"""Element-wise operations: tensor_tensor, tensor_scalar, scalar_tensor_tensor, select and
reciprocal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import (
    destination,
    in_sbuf,
    numbers,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.engines import chosen
from tilewright.targets.trainium.operations.functions import (
    BITWISE,
    Operator,
    alu,
    name_of,
)
from tilewright.targets.trainium.operations.operands import (
    Number,
    column,
    column_values,
    operand_type,
    same_columns,
    same_partitions,
    two_in_psum,
)
from tilewright.targets.trainium.tiles.dtypes import (
    INT32,
    UINT32,
    DType,
    Values,
    promoted,
)
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


def _whole_numbers(name: str, types: list[DType], engine: str) -> bool:
    """Whether an operation computes with integers: bitwise operations, or 32-bit integers on
    Pool."""
    if name in BITWISE:
        if any(t.is_float for t in types):
            raise KernelError(
                "unsupported_operand", f"{name} works on integer tiles, not on {types[0]}"
            )
        return True
    return engine == "pool" and _exact(name, types)


def _exact(name: str, types: list[DType]) -> bool:
    """Whether Pool computes with 32-bit integers."""
    return name in ("add", "subtract", "multiply") and all(t in (INT32, UINT32) for t in types)


def tensor_tensor(
    run: Execution,
    data1: object,
    data2: object,
    op: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
    engine: object = None,
    copies_psum: bool = False,
    carried: View | None = None,
) -> View:
    """`data1 op data2`. With `copies_psum`, one of two operands in PSUM is copied (nl
    functions)."""
    name = name_of(op)
    function = alu(name)
    one, other = tile(run, data1, "data1"), tile(run, data2, "data2")
    same_partitions(run, one, other)
    same_columns(run, ("data1", "data2"), one, other)
    if one.memory == other.memory == "psum" and one.buffer is not other.buffer:
        if run.language == 2 or not copies_psum:
            raise two_in_psum(run)
        other = in_sbuf(run, other, "its second input")
    types = [one.dtype, other.dtype]
    on_pool = name == "power" or _exact(name, types)
    in_psum = "psum" in (one.memory, other.memory)
    default = "pool" if on_pool and not in_psum else "dve"
    chosen_engine = chosen(run, engine, default, ("dve", "pool"), one, other)  # type: ignore[arg-type]
    out = destination(run, dst, one.shape, dtype or promoted(*types), chosen_engine)
    made = run.emit(
        "tensor_tensor", chosen_engine, (one, other), (out,), _op(name), mask=mask, carried=carried
    )
    record_result(run, out, made)
    if run.valued:
        get = read if _whole_numbers(name, types, chosen_engine) else numbers
        with np.errstate(all="ignore"):
            found = function(get(run, one, mask), get(run, other).reshape(one.shape))
        write(run, out, np.asarray(found), mask)
    elif name in BITWISE:
        _whole_numbers(name, types, chosen_engine)
    return out


_OPS: dict[str, dict[str, object]] = {}


def _op(name: str) -> dict[str, object]:
    return _OPS.setdefault(name, {"op": name})


def named(name: str) -> object:
    """An operator by its canonical name."""
    return Operator(name, name)


def tensor_scalar(
    run: Execution,
    data: object,
    op0: object,
    operand0: object,
    reverse0: bool = False,
    op1: object = None,
    operand1: object = None,
    reverse1: bool = False,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
    engine: object = None,
) -> View:
    """`(data op0 operand0) op1 operand1`; `reverse` exchanges the operands of an operator."""
    view = tile(run, data, "data")
    steps = [(name_of(op0, "op0"), column(run, operand0, view, "operand0"), reverse0)]
    if op1 is not None:
        steps.append((name_of(op1, "op1"), column(run, operand1, view, "operand1"), reverse1))
    names = [name for name, _, _ in steps]
    if any(n in BITWISE for n in names) and not all(n in BITWISE for n in names):
        raise KernelError(
            "unsupported_operator",
            f"{run.function}: {' and '.join(names)} mix bitwise and arithmetic operations",
        )
    columns = [value for _, value, _ in steps if isinstance(value, View)]
    chosen_engine = chosen(run, engine, "any", ("dve", "act", "pool"), view, *columns)
    if chosen_engine == "pool" and names != ["rsqrt"]:
        raise KernelError(
            "unsupported_engine", f"{run.function}: the Pool engine computes only rsqrt"
        )
    out = destination(run, dst, view.shape, dtype or view.dtype, chosen_engine)
    made = run.emit(
        "tensor_scalar", chosen_engine, (view, *columns), (out,), _two_ops(*names), mask=mask,
        settings={"operands": [v for _, v, _ in steps], "reverse": [r for _, _, r in steps]},
    )  # fmt: skip
    record_result(run, out, made)
    exact = [_whole_numbers(name, [view.dtype], chosen_engine) for name in names]
    if run.valued:
        found: Any = read(run, view, mask) if exact[0] else numbers(run, view, mask)
        for (name, value, reverse), whole in zip(steps, exact, strict=True):
            found = _applied(run, name, found, value, reverse, whole)
        write(run, out, found, mask)
    return out


def _applied(
    run: Execution, name: str, data: Values, operand: View | Number, reverse: bool, exact: bool
) -> Values:
    other = column_values(run, operand, data.ndim, exact)
    with np.errstate(all="ignore"):
        found = np.asarray(alu(name)(other, data) if reverse else alu(name)(data, other))
    return found if exact else found.astype(np.float32, copy=False)


def _two_ops(op0: str, op1: str = "") -> dict[str, object]:
    return _OPS.setdefault(f"{op0} {op1}", {"op0": op0, "op1": op1})


def scalar_tensor_tensor(
    run: Execution,
    data: object,
    op0: object,
    operand0: object,
    op1: object,
    operand1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """`(data op0 operand0) op1 operand1` with a scalar operand0 and a tile operand1."""
    view, other = tile(run, data, "data"), tile(run, operand1, "operand1")
    scalar = column(run, operand0, view, "operand0")
    same_partitions(run, view, other)
    same_columns(run, ("data", "operand1"), view, other)
    if view.memory == other.memory == "psum":
        raise two_in_psum(run)
    names = name_of(op0, "op0"), name_of(op1, "op1")
    alu(names[0])
    function = alu(names[1])
    out = destination(run, dst, view.shape, dtype or promoted(view.dtype, other.dtype), "dve")
    columns = (scalar,) if isinstance(scalar, View) else ()
    made = run.emit(
        "scalar_tensor_tensor", "dve", (view, other, *columns), (out,), _two_ops(*names), mask=mask,
        settings={"operands": (scalar,), "reverse": (reverse0, reverse1)},
    )  # fmt: skip
    record_result(run, out, made)
    if run.valued:
        first = _applied(run, names[0], numbers(run, view, mask), scalar, reverse0, False)
        second = numbers(run, other).reshape(view.shape)
        with np.errstate(all="ignore"):
            found = function(second, first) if reverse1 else function(first, second)
        write(run, out, np.asarray(found), mask)
    return out


def reciprocal(
    run: Execution,
    data: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """1 / data, exactly rounded, on DVE."""
    view = tile(run, data, "data")
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    record_result(run, out, run.emit("reciprocal", "dve", (view,), (out,), mask=mask))
    if run.valued:
        with np.errstate(all="ignore"):
            write(run, out, np.float32(1) / numbers(run, view, mask), mask)
    return out


def where(
    run: Execution,
    condition: object,
    x: object,
    y: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """x if the condition is true, otherwise y. Either may be a number or a column."""
    chooser = tile(run, condition, "condition")
    tiles = [tile(run, v, "an operand") for v in (x, y) if isinstance(v, View)]
    out = destination(
        run, None, chooser.shape, dtype or promoted(operand_type(x), operand_type(y)), "dve"
    )
    numbers_of = {"x": None if isinstance(x, View) else x, "y": None if isinstance(y, View) else y}
    made = run.emit("select", "dve", (chooser, *tiles), (out,), mask=mask, settings=numbers_of)
    record_result(run, out, made)
    if run.valued:
        values = [
            numbers(run, v) if isinstance(v, View) else np.float32(v)  # type: ignore[arg-type]
            for v in (x, y)
        ]
        found = np.where(numbers(run, chooser, mask) != 0, *values)
        write(run, out, np.broadcast_to(found, chooser.shape), mask)
    return out
