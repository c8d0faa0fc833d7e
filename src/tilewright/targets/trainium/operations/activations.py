"""The scalar engine (ACT): functions of data * scale + bias, with an optional row sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.targets.trainium.destinations import (
    destination,
    numbers,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.copies import tensor_copy
from tilewright.targets.trainium.operations.elementwise import named, tensor_scalar
from tilewright.targets.trainium.operations.functions import activation as function_of
from tilewright.targets.trainium.operations.functions import name_of
from tilewright.targets.trainium.operations.operands import column_values, same_partitions
from tilewright.targets.trainium.operations.reductions import reduced_column, without_masked
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


@dataclass(frozen=True, slots=True)
class ReduceCommand:
    """A value of `nisa.reduce_cmd`."""

    name: str


IDLE = ReduceCommand("idle")


def activation(
    run: Execution,
    op: object,
    data: object,
    *,
    dst: View | None = None,
    bias: object = None,
    scale: object = 1.0,
    reduce_op: object = None,
    reduce_res: object = None,
    reduce_cmd: object = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """op(data * scale + bias), accumulated in the hidden accumulator according to `reduce_cmd`."""
    name = name_of(op)
    function = function_of(name)
    view = tile(run, data, "data")
    biases = _bias(run, bias, view)
    scales = _scale(run, scale, view)
    command = "idle" if reduce_cmd is None else _command(run, reduce_cmd)
    if reduce_op is not None and name_of(reduce_op, "reduce_op") != "add":
        raise KernelError("unsupported_operator", f"{run.function}: reduce_op must be nl.add")
    if command in ("reduce", "reset_reduce") and reduce_op is None:
        raise KernelError("unsupported_operand", f"{run.function}: reduce_cmd needs reduce_op")
    total = None if reduce_res is None else reduced_column(run, view, reduce_res)
    out = destination(run, dst, view.shape, dtype or view.dtype, "act")
    columns = [v for v in (biases, scales) if isinstance(v, View)]
    attributes: dict[str, object] = {"op": name}
    if command != "idle":
        attributes["reduce_command"] = command
    if total is not None:
        attributes["reads_accumulator"] = True
    writes = (out,) if total is None else (out, total)
    settings = {"bias": biases, "scale": scales}
    made = run.emit(
        "activation", "act", (view, *columns), writes, attributes, mask=mask, settings=settings
    )
    record_result(run, out, made)
    if run.valued:
        values = numbers(run, view, mask)
        with np.errstate(all="ignore"):
            if not (isinstance(scales, (int, float)) and scales == 1):
                values = values * column_values(run, scales, values.ndim)
            if biases is not None:
                values = values + column_values(run, biases, values.ndim)
            found = np.asarray(function(values), np.float32)
        if found is values:  # a copy must not change with its source
            found = found.copy()
        _reduce(run, command, without_masked(run, found, mask, "add"), total)
        write(run, out, found, mask)
    return out


def _bias(run: Execution, bias: object, view: View) -> View | None:
    if bias is None:
        return None
    if not isinstance(bias, View):
        raise KernelError(
            "activation_bias_invalid_type",
            f"{run.function}: bias must be a tile [{view.partitions}, 1], not a number",
        )
    found = tile(run, bias, "bias")
    if found.columns != 1 or not found.dtype.is_float:
        raise KernelError(
            "activation_bias_invalid_type",
            f"{run.function}: bias is {found.dtype}{list(found.shape)}: expected a float column "
            f"[{view.partitions}, 1]",
        )
    same_partitions(run, view, found)
    return found


def _scale(run: Execution, scale: object, view: View) -> View | int | float:
    if isinstance(scale, (int, float)) and not isinstance(scale, bool):
        return scale
    if not isinstance(scale, View):
        raise KernelError(
            "activation_scale_invalid_type",
            f"{run.function}: scale must be a number or a tile [{view.partitions}, 1]",
        )
    found = tile(run, scale, "scale")
    if found.columns != 1 or found.dtype is not FLOAT32:
        raise KernelError(
            "activation_scale_invalid_type",
            f"{run.function}: scale is {found.dtype}{list(found.shape)}: expected a float32 column "
            f"[{view.partitions}, 1]",
        )
    same_partitions(run, view, found)
    return found


def _command(run: Execution, command: object) -> str:
    if not isinstance(command, ReduceCommand):
        raise KernelError(
            "unsupported_operand", f"{run.function}: reduce_cmd must be of nisa.reduce_cmd"
        )
    return command.name


def _reduce(run: Execution, command: str, values: Values, total: View | None) -> None:
    """The accumulator of ACT, which is hidden, keeps its value between instructions, and is read
    only with reduce_res."""
    if run.reducer is None:
        run.reducer = np.full(run.machine.memory.partitions, np.nan, np.float32)
    count = len(values)
    if command in ("reset", "reset_reduce"):
        run.reducer[:count] = 0
    if command in ("reduce", "reset_reduce"):
        run.reducer[:count] += values.reshape(count, -1).sum(axis=1, dtype=np.float32)
    if total is not None:
        write(run, total, run.reducer[:count].copy().reshape(total.shape))


def activation_reduce(
    run: Execution,
    op: object,
    data: object,
    *,
    reduce_op: object,
    reduce_res: object,
    dst: View | None = None,
    bias: object = None,
    scale: object = 1.0,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """An activation with its row sums in reduce_res."""
    return activation(
        run, op, data, dst=dst, bias=bias, scale=scale, reduce_op=reduce_op, reduce_res=reduce_res,
        reduce_cmd=ReduceCommand("reset_reduce"), dtype=dtype, mask=mask,
    )  # fmt: skip


def unary(
    run: Execution,
    name: str,
    x: object,
    *,
    bias: object = None,
    scale: object = 1.0,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """nl.exp and similar functions of x * scale + bias, as one instruction."""
    view = tile(run, x, "x")
    if name == "negative":
        return tensor_scalar(run, view, named("multiply"), -1, dtype=dtype, mask=mask)
    if name == "copy":
        return tensor_copy(run, view, dtype=dtype, mask=mask)
    return activation(run, named(name), view, bias=bias, scale=scale, dtype=dtype, mask=mask)
