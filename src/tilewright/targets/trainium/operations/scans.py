"""Recurrences along the columns of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import (
    destination,
    numbers,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.elementwise import (
    _two_ops,
)
from tilewright.targets.trainium.operations.functions import alu, name_of
from tilewright.targets.trainium.operations.operands import (
    column,
    column_values,
    same_columns,
    same_partitions,
    two_in_psum,
)
from tilewright.targets.trainium.tiles.dtypes import DType, Values, promoted
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


def tensor_tensor_scan(
    run: Execution,
    data0: object,
    data1: object,
    initial: object,
    op0: object,
    op1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """r[i] = (data0[i] op0 r[i-1]) op1 data1[i], from `initial`; the state is float32."""
    one, other = tile(run, data0, "data0"), tile(run, data1, "data1")
    start = column(run, initial, one, "initial")
    same_partitions(run, one, other)
    same_columns(run, ("data0", "data1"), one, other)
    if one.memory == other.memory == "psum":
        raise two_in_psum(run)
    names = name_of(op0, "op0"), name_of(op1, "op1")
    first, second = alu(names[0]), alu(names[1])
    out = destination(run, dst, one.shape, dtype or promoted(one.dtype, other.dtype), "dve")
    reads = (one, other, start) if isinstance(start, View) else (one, other)
    settings = {"operands": (start,), "reverse": (reverse0, reverse1)}
    made = run.emit(
        "tensor_tensor_scan", "dve", reads, (out,), _two_ops(*names), mask=mask, settings=settings
    )
    record_result(run, out, made)
    if run.valued:
        a = numbers(run, one, mask).reshape(one.partitions, -1)
        b = numbers(run, other, mask).reshape(one.partitions, -1)
        state: Any = column_values(run, start, 2)
        state = np.broadcast_to(np.asarray(state, np.float32).reshape(-1), (one.partitions,))
        write(run, out, _scanned(a, b, state, first, second, names, reverse0, reverse1), mask)
    return out


def _scanned(
    a: Values,
    b: Values,
    state: Values,
    first: Any,
    second: Any,
    names: tuple[str, str],
    reverse0: bool,
    reverse1: bool,
) -> Values:
    # Columns are contiguous in memory while the state advances along them.
    a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    found = np.empty(a.shape, np.float32)
    plain = names == ("multiply", "add")
    with np.errstate(all="ignore"):
        for i in range(len(a)):
            if plain:
                np.multiply(a[i], state, out=found[i])
                found[i] += b[i]
                state = found[i]
                continue
            step = first(state, a[i]) if reverse0 else first(a[i], state)
            state = second(b[i], step) if reverse1 else second(step, b[i])
            found[i] = state
            state = found[i]
    return found.T
