"""Evaluates a PrimFunc with numpy in double precision, which gives the expected outputs of all
candidates.

It does not use TVM's lowering or code generation. The blocks are evaluated one after the other from
their definitions: element-wise ones for all elements at once, sums of products with `numpy.einsum`
on windows of the operands, and other reductions step by step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.tuner.tvm.analysis import blocks_of, dtype_of, output_position

Array = np.ndarray[Any, Any]
# Each argument unchanged, in single and in double precision.
_BYTES_OF_ELEMENT = 4 + 4 + 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Max": np.maximum,
    "Min": np.minimum,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "if_then_else": np.where,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log": np.log,
    "fabs": np.abs,
    "pow": np.power,
    "erf": np.vectorize(math.erf),
}


@dataclass(frozen=True)
class Expectation:
    """The arguments of a function, the expected output, and the maximum error.

    `arguments` are the function's buffers in order, including the output with arbitrary values.
    `bound` is 64 times the error of the same evaluation in the function's own precision with
    another order of summation. The error of a wrong element is far larger.
    """

    arguments: list[Array]
    output: int
    expected: Array
    bound: float


def expectation(function: Any, seed: int) -> Expectation:
    """Random arguments, uniform in (-1, 1), and the expected result.

    `WorkloadError` names an operation that has no numpy counterpart here, or says that this machine
    has too little memory for the buffers.
    """
    _check_memory(function)
    rng = np.random.default_rng(seed)
    arguments = [_random(parameter, rng) for parameter in function.params]
    output = output_position(function)
    exact = evaluate(function, arguments, np.float64)[output]
    rough = evaluate(function, arguments, np.float32)[output]
    kind = arguments[output].dtype
    if not np.issubdtype(kind, np.floating):
        return Expectation(arguments, output, exact, 0.0)
    scale = float(np.abs(exact).max())
    step = float(np.finfo(kind).eps)
    if not math.isfinite(scale):
        raise WorkloadError("the function's output is not finite for inputs between -1 and 1.")
    bound = 64 * float(np.abs(rough - exact).max()) + 4 * step * scale
    if kind == np.float16:
        bound += 64 * step * scale
    return Expectation(arguments, output, exact, bound)


def _check_memory(function: Any) -> None:
    elements = sum(math.prod(int(d) for d in buffer.shape) for buffer in function.params)
    needed = elements * _BYTES_OF_ELEMENT
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > present:
        raise WorkloadError(
            f"checking results needs about {needed / 1e9:,.0f} GB and this machine has "
            f"{present / 1e9:,.0f} GB. Give smaller sizes."
        )


def evaluate(function: Any, arguments: list[Array], kind: type) -> list[Array]:
    """All buffers of the arguments after the function was applied to them in precision `kind`."""
    buffers: dict[Any, Array] = {}
    for parameter, value in zip(function.params, arguments, strict=True):
        floating = np.issubdtype(value.dtype, np.floating)
        buffers[parameter] = value.astype(kind if floating else np.int64)
    for block in blocks_of(function):
        _run(block, buffers, kind)
    return [buffers[parameter] for parameter in function.params]


def _random(buffer: Any, rng: np.random.Generator) -> Array:
    shape, kind = tuple(int(d) for d in buffer.shape), np.dtype(dtype_of(buffer))
    if np.issubdtype(kind, np.floating):
        return rng.uniform(-1, 1, shape).astype(kind)
    low = 0 if kind.kind in "ub" else -8
    return rng.integers(low, 2 if kind.kind == "b" else 8, shape).astype(kind)


def _run(block: Any, buffers: dict[Any, Array], kind: type) -> None:
    store = block.body
    if type(store).__name__ != "BufferStore":
        raise _unsupported(type(store).__name__)
    out = store.buffer
    if out not in buffers:
        floating = np.issubdtype(np.dtype(dtype_of(out)), np.floating)
        shape = tuple(int(d) for d in out.shape)
        buffers[out] = np.zeros(shape, kind if floating else np.int64)
    domain = {axis.var: int(axis.dom.extent) for axis in block.iter_vars}
    reduced = [axis.var for axis in block.iter_vars if int(axis.iter_type) == 2]
    spatial = [variable for variable in domain if variable not in reduced]
    grid = {
        variable: np.arange(domain[variable]).reshape([-1 if v is variable else 1 for v in spatial])
        for variable in spatial
    }
    shape = tuple(domain[variable] for variable in spatial)

    def assign(store: Any, values: dict[Any, Any]) -> None:
        result = np.broadcast_to(_value(store.value, values, buffers), shape)
        place = tuple(_value(index, values, buffers) for index in store.indices)
        buffers[out][np.broadcast_arrays(*place) if place else ()] = result

    if not reduced:
        assign(store, grid)
        return
    assign(block.init, grid)
    # The contraction follows the order of the axes, so it must fill the whole buffer in that order.
    in_order = all(i.same_as(v) for i, v in zip(store.indices, spatial, strict=False))
    whole = buffers[out].shape == shape and in_order
    if whole and (operands := _product(store)) is not None:
        summed = _contract(operands, spatial, reduced, domain, buffers)
        if summed is not None:
            buffers[out] += summed.reshape(buffers[out].shape)
            return
    for step in product(*(range(domain[variable]) for variable in reduced)):
        assign(store, {**grid, **dict(zip(reduced, step, strict=True))})


def _product(store: Any) -> list[Any] | None:
    """The two loads x, y of an update `c[...] = c[...] + x * y`; None for any other statement."""
    total = store.value
    if type(total).__name__ != "Add" or type(total.b).__name__ != "Mul":
        return None
    loads = [total.a, total.b.a, total.b.b]
    if any(type(load).__name__ != "TensorLoad" for load in loads):
        return None
    return loads[1:] if total.a.source.same_as(store.buffer) else None


def _contract(
    loads: list[Any],
    spatial: list[Any],
    reduced: list[Any],
    domain: dict[Any, int],
    buffers: dict[Any, Array],
) -> Array | None:
    """The sum over `reduced` of the product of two affine loads, in the order of `spatial`."""
    letter = dict(zip([*spatial, *reduced], _LETTERS, strict=False))
    views, names = [], []
    for load in loads:
        window = _window(buffers[load.source], load.indices, domain)
        if window is None:
            return None
        view, variables = window
        views.append(view)
        names.append("".join(letter[variable] for variable in variables))
    present = [variable for variable in spatial if any(letter[variable] in n for n in names)]
    if any(domain[variable] > 1 for variable in spatial if variable not in present):
        return None
    formula = f"{','.join(names)}->{''.join(letter[variable] for variable in present)}"
    result: Array = np.einsum(formula, *views, optimize=True)
    return result


def _window(buffer: Array, indices: Any, domain: dict[Any, int]) -> tuple[Array, list[Any]] | None:
    """A view of `buffer` with one dimension for each variable that its indices use."""
    from tvm.sym import detect_linear_equation

    variables = list(domain)
    strides: dict[Any, int] = {}
    offset = 0
    for index, stride in zip(indices, buffer.strides, strict=True):
        terms = detect_linear_equation(index, variables)
        if not len(terms) or any(int(term) < 0 for term in terms):
            return None
        offset += int(terms[len(variables)]) * stride
        for variable, term in zip(variables, terms, strict=False):
            if int(term):
                strides[variable] = strides.get(variable, 0) + int(term) * stride
    if offset:
        return None
    view = np.lib.stride_tricks.as_strided(
        buffer, [domain[v] for v in strides], list(strides.values()), writeable=False
    )
    return view, list(strides)


def _value(node: Any, values: dict[Any, Any], buffers: dict[Any, Array]) -> Any:
    """The value of an expression on arrays of indices. Loads beyond a buffer's end read its last
    element.

    Only loads that a condition excludes, as in padding, are beyond the end: both branches are
    evaluated.
    """
    name = type(node).__name__
    if name == "Var":
        return values[node]
    if name in ("IntImm", "FloatImm"):
        return node.value
    if name == "TensorLoad":
        source = buffers[node.source]
        place = [_value(index, values, buffers) for index in node.indices]
        clipped = [np.clip(p, 0, size - 1) for p, size in zip(place, source.shape, strict=True)]
        return source[tuple(clipped)]
    if name in _BINARY:
        return _BINARY[name](_value(node.a, values, buffers), _value(node.b, values, buffers))
    if name == "Not":
        return np.logical_not(_value(node.a, values, buffers))
    if name == "Cast":
        return _value(node.value, values, buffers)
    if name == "Select":
        parts = (node.condition, node.true_value, node.false_value)
        return np.where(*(_value(part, values, buffers) for part in parts))
    if name == "Call":
        name = str(node.op.name).rsplit(".", 1)[-1]
        if name in _CALLS:
            return _CALLS[name](*(_value(a, values, buffers) for a in node.args))
    raise _unsupported(name)


def _unsupported(what: str) -> WorkloadError:
    return WorkloadError(
        f"the function uses {what}, which has no numpy counterpart to check results against. "
        "Write it with arithmetic, comparisons and the usual element-wise functions."
    )
