"""`nl.add` and similar functions, and Python's operators on tiles."""

from __future__ import annotations

import numpy as np

from tilewright.targets.trainium.destinations import (
    tile,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.copies import broadcast_to
from tilewright.targets.trainium.operations.elementwise import (
    named,
    reciprocal,
    tensor_scalar,
    tensor_tensor,
)
from tilewright.targets.trainium.operations.functions import (
    COMPARISONS,
    name_of,
)
from tilewright.targets.trainium.operations.operands import (
    Number,
    operand_type,
    same_partitions,
)
from tilewright.targets.trainium.tiles.dtypes import (
    BOOL,
    FLOAT32,
    DType,
    promoted,
)
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


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
    if x.shape == y.shape:
        return x.shape
    try:
        return np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise KernelError(
            "shape_mismatch", f"{run.function}: shapes {x.shape} and {y.shape} do not fit"
        ) from None
