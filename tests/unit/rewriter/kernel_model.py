"""Runs loop IR on a plain model of the int8 accelerator, and lists the commands it issues.

Rows that were never written are NaN, so that a rewrite that reads too early shows in the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.expr import Expr, Minimum, Quotient, Remainder, Var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Opaque,
    Operand,
    Text,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.steps import steps_for
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.naive import naive_gemm

Values = dict[str, int]
Call = tuple[str, tuple[Any, ...]]
_TESTS = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}


def evaluate(expr: Expr, values: Values) -> int:
    total = expr.const
    for atom, coefficient in expr.terms:
        match atom:
            case Var(name):
                value = values[name]
            case Quotient(of, by):
                value = evaluate(of, values) // by
            case Remainder(of, by):
                value = evaluate(of, values) % by
            case Minimum(left, right):
                value = min(evaluate(left, values), evaluate(right, values))
        total += coefficient * value
    return total


def _holds(condition: tuple[Compare, ...], values: Values) -> bool:
    return all(_TESTS[c.op](evaluate(c.left, values), evaluate(c.right, values)) for c in condition)


def _operand(operand: Operand, values: Values) -> Any:
    match operand:
        case Expr():
            return evaluate(operand, values)
        case Local(space, row, flags):
            names = frozenset(f.name for f in flags if _holds(f.when, values))
            return (space, evaluate(row, values), names)
        case Dram(array, index):
            return (array, tuple(evaluate(e, values) for e in index))
        case Text(text):
            return text


def trace(body: Body, values: Values | None = None) -> Iterator[Call]:
    """Every command with the values of its operands, in the order they are issued."""
    values = values or {}
    for stmt in body:
        match stmt:
            case Command(name, operands):
                yield name, tuple(_operand(o, values) for o in operands)
            case Loop(var, lower, upper, step, inside):
                for value in range(evaluate(lower, values), evaluate(upper, values), step):
                    yield from trace(inside, {**values, var: value})
            case Guard(condition, yes, no):
                yield from trace(yes if _holds(condition, values) else no, values)
            case Opaque(text):
                yield text, ()


class Gemmini:
    """Functional model of the commands the generated GEMM kernels use."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.local = {"SPAD": np.full((16384, 16), np.nan), "ACC": np.full((1024, 16), np.nan)}
        self.block_stride = {0: 16, 1: 16, 2: 16}
        self.stride: dict[int | str, int] = {}
        self.array: np.ndarray | None = None
        self.fresh = False
        self.transposed = (False, False)
        self.target: tuple[str, int, frozenset[str]] | None = None

    def run(self, kernel: Kernel) -> None:
        for name, operands in trace(kernel.body):
            getattr(self, name)(*operands)

    def config_ex(self, *settings: Any) -> None:
        self.transposed = (settings[3] == 1, settings[4] == 1)

    def config_st(self, stride: int, *settings: Any) -> None:
        self.stride["store"] = stride

    def fence(self) -> None:
        pass

    def config_ld(self, stride: int, scale: str, block_stride: int, key: int) -> None:
        self.block_stride[key], self.stride[key] = block_stride, stride

    def mvin(self, source: Any, to: Any, cols: int, rows: int, key: int = 0) -> None:
        assert 0 < cols <= 64
        assert 0 < rows <= 16
        data = np.zeros((rows, cols))
        if source != 0:
            data = self._block(source, cols, rows, self.stride[key])
        for block in range(0, cols, 16):
            part = data[:, block : block + 16]
            self._write(to, block // 16 * self.block_stride[key], part)

    def mvin2(self, *operands: Any) -> None:
        self.mvin(*operands, key=1)

    def mvin3(self, *operands: Any) -> None:
        self.mvin(*operands, key=2)

    def preload(self, b: Any, c: Any, bcols: int, brows: int, ccols: int, crows: int) -> None:
        assert max(bcols, brows, ccols, crows) <= 16
        self.fresh = b != "NONE"
        if self.fresh:
            self.array = self._factor(b, brows, bcols, self.transposed[1]).copy()
        self.target = c

    def compute_preloaded(
        self, a: Any, d: Any, acols: int, arows: int, dcols: int, drows: int
    ) -> None:
        assert self.fresh, "no preload before this compute"
        self._product(a, acols, arows)

    def compute_accumulated(
        self, a: Any, d: Any, acols: int, arows: int, dcols: int, drows: int
    ) -> None:
        assert not self.fresh, "an operand is latched and not used"
        self._product(a, acols, arows)

    def _product(self, a: Any, acols: int, arows: int) -> None:
        assert self.array is not None, "nothing is in the array"
        assert self.target is not None, "no preload before this compute"
        operand = self._factor(a, arows, acols, self.transposed[0])
        self._write(self.target, 0, operand @ self.array[:acols])
        self.target = None

    def _factor(self, at: Any, rows: int, cols: int, transposed: bool) -> np.ndarray:
        """An operand; in local memory, columns of a transposed one are rows.

        Sums that are read from the accumulator saturate, as those that are stored.
        """
        rows, cols = (cols, rows) if transposed else (rows, cols)
        found = self.local[at[0]][at[1] : at[1] + rows, :cols]
        found = np.clip(found, -128, 127) if at[0] == "ACC" else found
        return found.T if transposed else found

    def mvout(self, to: Any, source: Any, cols: int, rows: int) -> None:
        target = self._block(to, cols, rows, self.stride["store"])
        for block in range(0, cols, 16):
            width = min(16, cols - block)
            first = source[1] + block
            target[:, block : block + width] = np.clip(
                self.local[source[0]][first : first + rows, :width], -128, 127
            )

    def _block(self, at: Any, cols: int, rows: int, stride: int) -> np.ndarray:
        """Rows of an array, `stride` elements apart: a whole number of its own rows."""
        array, (*_, column) = self.arrays[at[0]], at[1]
        height, width = array.shape[-2] if array.ndim > 1 else 1, array.shape[-1]
        step = stride // width
        assert stride % width == 0, f"{at} is loaded by a wrong stride"
        row = at[1][-2] if array.ndim > 1 else 0
        assert min(at[1]) >= 0
        assert row + step * (rows - 1) < height, f"{at} is outside the array"
        assert column + cols <= width, f"{at} is outside the array"
        if array.ndim > 1:
            plane = array[tuple(at[1][:-2])]
            chosen = row + step * np.arange(rows)
            if step == 1:
                return plane[row : row + rows, column : column + cols]
            return plane[chosen, column : column + cols]
        assert step == 0 or rows == 1
        return np.repeat(array[None, column : column + cols], rows, axis=0)

    def _write(self, to: Any, offset: int, data: np.ndarray) -> None:
        space, row, flags = to
        rows, columns = data.shape
        assert row + offset + rows <= len(self.local[space])
        view = self.local[space][row + offset : row + offset + rows, :columns]
        view[:] = view + data if "ACCUMULATE" in flags else data


def gemm(m: int, n: int, k: int) -> str:
    """The generated start of an int8 product."""
    return naive_gemm(Gemm(m, n, k), create_target().instance)


def gemm_is_right(kernel: Kernel, m: int, n: int, k: int) -> bool:
    """Whether the kernel computes `C = sat8(A * B)` on random signed inputs."""
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    names = [a.name for a in kernel.arrays]
    a, b = rng.integers(-6, 7, (m, k)).astype(float), rng.integers(-6, 7, (k, n)).astype(float)
    c = np.full((m, n), np.nan)
    Gemmini(dict(zip(names, (a, b, c), strict=True))).run(kernel)
    return bool(np.array_equal(c, np.clip(a @ b, -128, 127)))


def randomly_rewritten(
    kernel: Kernel, machine: Machine, rng: random.Random, tries: int
) -> tuple[Kernel, list[str]]:
    """The kernel after up to `tries` steps of any technique, and those that applied."""
    done = []
    for _ in range(tries):
        steps = list(steps_for(kernel, machine, rng.choice(list(CATALOGUE))))
        if not steps:
            continue
        step = rng.choice(steps)
        try:
            kernel = step.apply(kernel, machine)
        except NotApplicable:
            continue
        done.append(str(step))
    return kernel, done
