"""Operations of `nl` that are composed of others: softmax, rms_norm and tan."""

from __future__ import annotations

from tilewright.targets.trainium.destinations import (
    tile,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.activations import unary
from tilewright.targets.trainium.operations.binary import binary
from tilewright.targets.trainium.operations.elementwise import (
    named,
    reciprocal,
    tensor_scalar,
)
from tilewright.targets.trainium.operations.reductions import reduction
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, DType
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


def softmax(
    run: Execution,
    x: object,
    axis: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """nl.softmax, composed of other operations."""
    view = tile(run, x, "x")
    top = reduction(run, named("maximum"), view, axis, mask=mask, keepdims=True)
    centred = binary(run, named("subtract"), view, top, dtype=FLOAT32, mask=mask)
    powers = unary(run, "exp", centred, dtype=FLOAT32, mask=mask)
    total = reduction(run, named("add"), powers, axis, mask=mask, keepdims=True)
    share = reciprocal(run, total)
    return binary(run, named("multiply"), powers, share, dtype=dtype or view.dtype, mask=mask)


def rms_norm(
    run: Execution,
    x: object,
    w: object,
    axis: object,
    n: object,
    epsilon: float = 1e-6,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """nl.rms_norm, composed of other operations: x * w / sqrt(sum(x^2) / n + epsilon)."""
    view = tile(run, x, "x")
    if not isinstance(n, (int, float)):
        raise KernelError("unsupported_operand", f"{run.function}: n must be a number")
    square = unary(run, "square", view, dtype=FLOAT32, mask=mask)
    total = reduction(run, named("add"), square, axis, mask=mask, keepdims=True)
    scaled = tensor_scalar(
        run, total, named("multiply"), 1.0 / n, False, named("add"), float(epsilon)
    )
    root = unary(run, "rsqrt", scaled)
    normal = binary(run, named("multiply"), view, root, dtype=FLOAT32, mask=mask)
    return binary(
        run, named("multiply"), normal, w, dtype=dtype or view.dtype, mask=mask,
        across_partitions=True,
    )  # fmt: skip


def tan(run: Execution, x: object, *, dtype: DType | None = None, mask: Mask | None = None) -> View:
    """nl.tan, composed of other operations: sin(x) / cos(x)."""
    view = tile(run, x, "x")
    sine = unary(run, "sin", view, dtype=FLOAT32, mask=mask)
    cosine = unary(run, "cos", view, dtype=FLOAT32, mask=mask)
    return binary(run, named("divide"), sine, cosine, dtype=dtype or view.dtype, mask=mask)
