"""Element-wise operations: tensor_tensor, tensor_scalar, scalar_tensor_tensor, select and
reciprocal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.landing import (
    destination,
    in_sbuf,
    numbers,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.operations.engines import chosen
from tilewright.targets.trainium.operations.functions import (
    BITWISE,
    COMPARISONS,
    alu,
    name_of,
)
from tilewright.targets.trainium.tiles.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    UINT32,
    DType,
    Values,
    promoted,
)
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View

Number = int | float


def same_partitions(run: Execution, *views: View | None) -> None:
    """All operands must have the same number of partitions."""
    shapes = [view.shape for view in views if view is not None]
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise KernelError(
            "num_partition_mismatch",
            f"{run.function}: operands have different numbers of partitions: "
            f"{', '.join(map(str, shapes))}",
        )


def same_columns(run: Execution, names: tuple[str, str], one: View, other: View) -> None:
    """`KernelError` if two inputs have different numbers of elements in a partition."""
    if one.columns != other.columns:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: {names[0]} {one.shape} and {names[1]} {other.shape} must have as "
            "many elements in each partition",
        )


def two_in_psum(run: Execution) -> KernelError:
    """The failure of an instruction with two inputs in PSUM."""
    return KernelError(
        "unsupported_memory", f"{run.function}: both inputs lie in PSUM: copy one of them to SBUF"
    )


def column(run: Execution, operand: object, data: View, name: str) -> View | Number:
    """A scalar operand: a number, or a tile with one number for each partition."""
    if isinstance(operand, (int, float)):
        return operand
    view = tile(run, operand, name)
    if view.columns != 1:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {name} has the shape {view.shape}: expected a number or a column "
            f"[{data.partitions}, 1]",
        )
    same_partitions(run, data, view)
    return view


def column_values(run: Execution, operand: View | Number, rank: int, exact: bool = False) -> Any:
    """The numbers of a scalar operand, in a form that can be broadcast to a tile with `rank`
    axes."""
    if not isinstance(operand, View):
        return operand if exact else np.float32(operand)
    values = read(run, operand) if exact else numbers(run, operand)
    return values.reshape((values.shape[0],) + (1,) * (rank - 1))


def operand_type(value: object) -> DType:
    """The type of an operand: Python numbers are int32 and float32."""
    if isinstance(value, View):
        return value.dtype
    if isinstance(value, bool):
        return BOOL
    return INT32 if isinstance(value, int) else FLOAT32


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


def add_in_place(run: Execution, dst: View, value: object) -> None:
    """`dst += value`, if the accumulation is not free."""
    run.function = "+="
    add = named("add")
    if isinstance(value, View) and value.shape == dst.shape:
        tensor_tensor(run, dst, value, add, dst=dst, copies_psum=True, carried=dst)
        return
    from tilewright.targets.trainium.landing import assign

    assign(run, dst, binary(run, add, dst, value))


def named(name: str) -> object:
    """An operator by its canonical name."""
    from tilewright.targets.trainium.operations.functions import Operator

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
            "unsupported_engine", f"{run.function}: of its operations Pool has only rsqrt"
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


def binary(
    run: Execution,
    op: object,
    x: object,
    y: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
    across_partitions: bool = False,
) -> View:
    """`nl.add` and similar functions, and Python's operators, which do not broadcast partitions."""
    from tilewright.targets.trainium.operations.copies import broadcast_to

    name = name_of(op)
    for value in (x, y):
        if not isinstance(value, (View, int, float)):
            raise KernelError(
                "unsupported_operand",
                f"{run.function} takes tiles and numbers, not {type(value).__name__}",
            )
    if name == "divide":
        if not isinstance(y, View):
            assert isinstance(y, (int, float))
            op, y = named("multiply"), _reciprocal_of(y)
        elif not isinstance(x, View) and x == 1:
            return reciprocal(run, y, dtype=dtype or _floating(promoted(FLOAT32, y.dtype)))
        else:
            op, y = named("multiply"), reciprocal(run, y, mask=mask, dtype=_floating(y.dtype))
    kind = dtype or promoted(operand_type(x), operand_type(y))
    if name in COMPARISONS and dtype is None:
        kind = BOOL
    if not isinstance(y, View):
        return tensor_scalar(run, x, op, y, dtype=kind, mask=mask)
    if not isinstance(x, View):
        return tensor_scalar(run, y, op, x, True, dtype=kind, mask=mask)
    tile(run, x, "the first operand")
    tile(run, y, "the second operand")
    if x.partitions != y.partitions and across_partitions and 1 in (x.partitions, y.partitions):
        if x.partitions == 1:
            x = broadcast_to(run, x, (y.partitions, *x.shape[1:]))
        else:
            y = broadcast_to(run, y, (x.partitions, *y.shape[1:]))
    same_partitions(run, x, y)
    if y.columns == 1 and x.columns > 1:
        return tensor_scalar(run, x, op, y, dtype=kind, mask=mask)
    if x.columns == 1 and y.columns > 1:
        return tensor_scalar(run, y, op, x, True, dtype=kind, mask=mask)
    if x.columns != y.columns or len(x.shape) == len(y.shape):
        shape = _broadcast_shape(run, x, y)
        x, y = x.broadcast(shape), y.broadcast(shape)
    return tensor_tensor(run, x, y, op, dtype=kind, mask=mask, copies_psum=True)


def _floating(dtype: DType) -> DType:
    return dtype if dtype.is_float else FLOAT32


def _reciprocal_of(number: Number) -> float:
    if number == 0:
        raise KernelError("unsupported_operand", "a tile is divided by the number 0")
    return 1.0 / number


def _broadcast_shape(run: Execution, x: View, y: View) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise KernelError(
            "shape_mismatch", f"{run.function}: shapes {x.shape} and {y.shape} do not fit"
        ) from None
