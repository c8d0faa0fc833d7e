"""What operations require of their operands: partitions, columns, types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import (
    numbers,
    read,
    tile,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.tiles.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    DType,
)
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
