"""Runs loop IR on a plain model of the float32 accelerator, memory and core.

Local rows that were never written are NaN. A DRAM element that an accelerator's store wrote may
only be touched again after a fence, and so may one that a load has read before it is overwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_model import Values, evaluate, trace

from tilewright.proposers.rewriter.ir import Assign, Body, Command, Dram, Guard, Kernel, Loop

DIM = 4


class Accelerator:
    """The commands of a float32 kernel, and the core's own assignments."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = {a.name: np.full(a.shape, np.nan) for a in kernel.arrays} | arrays
        self.stored: set[tuple[str, int]] = set()
        self.loaded: set[tuple[str, int]] = set()
        self.local = {"SPAD": np.full((16384, DIM), np.nan), "ACC": np.full((4096, DIM), np.nan)}
        self.loads: dict[int, tuple[int, float, int]] = {}
        self.store_stride = 0
        self.latches_transposed = False
        self.latched: Any = None
        self.array: Any = None
        self.target: Any = None

    def run(self, body: Body, values: Values) -> None:
        for stmt in body:
            match stmt:
                case Command():
                    ((name, operands),) = trace((stmt,), values)
                    getattr(self, name)(*operands)
                case Loop(var, lower, upper, step, inside):
                    for value in range(evaluate(lower, values), evaluate(upper, values), step):
                        self.run(inside, {**values, var: value})
                case Guard(condition, yes, no):
                    holds = all(
                        {"==": int.__eq__, "<": int.__lt__, ">": int.__gt__}[c.op](
                            evaluate(c.left, values), evaluate(c.right, values)
                        )
                        for c in condition
                    )
                    self.run(yes if holds else no, values)
                case Assign(target, terms, constant):
                    total = constant + sum(f * self._element(d, values) for f, d in terms)
                    self._element(target, values, write=True)
                    self._flat(target.array)[self._number(target, values)] = total
                case _:
                    raise AssertionError(f"not modelled: {stmt}")

    def config_ex(self, *settings: int | str) -> None:
        assert settings[2:4] == (1, 0)
        self.latches_transposed = settings[4] == 1

    def config_ld(self, stride: int, scale: str, block_stride: int, key: int) -> None:
        self.loads[key] = (stride // 4, float(scale.rstrip("f")), block_stride)

    def config_st(self, stride: int) -> None:
        self.store_stride = stride // 4

    def fence(self) -> None:
        self.stored.clear()
        self.loaded.clear()

    def mvin(self, source: Any, to: Any, cols: int, rows: int, key: int = 0) -> None:
        assert 0 < cols <= 4 * DIM
        assert 0 < rows <= DIM
        stride, scale, block_stride = self.loads[key]
        data = np.zeros((rows, cols))
        if source != 0:
            numbers = self._block(source, cols, rows, stride)
            touched = {(source[0], int(n)) for n in numbers.flat}
            assert not touched & self.stored, f"{source} is loaded before its store is ordered"
            self.loaded |= touched
            data = scale * self._flat(source[0])[numbers]
        for block in range(0, cols, DIM):
            self._write(to, block // DIM * block_stride, data[:, block : block + DIM])

    def mvin2(self, *operands: Any) -> None:
        self.mvin(*operands, key=1)

    def mvin3(self, *operands: Any) -> None:
        self.mvin(*operands, key=2)

    def mvout(self, to: Any, source: Any, cols: int, rows: int) -> None:
        assert cols <= 4 * DIM
        numbers = self._block(to, cols, rows, self.store_stride)
        touched = {(to[0], int(n)) for n in numbers.flat}
        assert not touched & self.loaded, f"{to} is stored before its load is ordered"
        self.stored |= touched
        blocks = [
            self._read((source[0], source[1] + first, source[2]), min(DIM, cols - first), rows)
            for first in range(0, cols, DIM)  # blocks lie DIM rows apart
        ]
        self._flat(to[0])[numbers] = np.hstack(blocks)

    def preload(self, b: Any, c: Any, bcols: int, brows: int, ccols: int, crows: int) -> None:
        self.latched = None
        if b != "NONE" and self.latches_transposed:
            self.latched = self._read(b, brows, bcols).T
        elif b != "NONE":
            self.latched = self._read(b, bcols, brows)
        self.target = (c, ccols, crows)

    def compute_preloaded(
        self, a: Any, d: Any, acols: int, arows: int, dcols: int, drows: int
    ) -> None:
        self.array = self.latched
        self.compute_accumulated(a, d, acols, arows, dcols, drows)

    def compute_accumulated(
        self, a: Any, d: Any, acols: int, arows: int, dcols: int, drows: int
    ) -> None:
        to, cols, rows = self.target
        result = np.zeros((rows, cols))
        if a != "NONE" and self.array is not None:
            result += self._read(a, acols, arows) @ self.array
        if d != "NONE":
            result += self._read(d, dcols, drows)
        self._write(to, 0, result)

    def _read(self, source: Any, cols: int, rows: int) -> np.ndarray:
        values = self.local[source[0]][source[1] : source[1] + rows, :cols]
        assert not np.isnan(values).any(), f"{source} is read before it is written"
        return values.copy()

    def _write(self, to: Any, offset: int, data: np.ndarray) -> None:
        space, row, flags = to
        view = self.local[space][row + offset : row + offset + len(data), : data.shape[1]]
        assert view.shape == data.shape
        view[:] = view + data if "ACCUMULATE" in flags else data

    def _flat(self, array: str) -> np.ndarray:
        return self.arrays[array].reshape(-1)

    def _block(self, at: Any, cols: int, rows: int, stride: int) -> np.ndarray:
        array, index = at
        shape = self.arrays[array].shape
        padded = (*index, *[0] * (len(shape) - len(index)))
        start = int(np.ravel_multi_index(padded, shape))
        return start + np.arange(rows)[:, None] * stride + np.arange(cols)[None, :]

    def _number(self, dram: Dram, values: Values) -> int:
        index = tuple(evaluate(e, values) for e in dram.index)
        return int(np.ravel_multi_index(index, self.arrays[dram.array].shape))

    def _element(self, dram: Dram, values: Values, *, write: bool = False) -> float:
        number = self._number(dram, values)
        touched = (dram.array, number)
        assert touched not in self.stored, f"the core touches {touched} before it is stored"
        assert not (write and touched in self.loaded), f"the core overwrites {touched} too early"
        return float(self._flat(dram.array)[number])


def results(kernel: Kernel, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a kernel leaves in its parameters."""
    model = Accelerator(kernel, {name: array.copy() for name, array in arrays.items()})
    model.run(kernel.body, {})
    assert not model.stored, "the kernel ends before its stores are ordered"
    return {a.name: model.arrays[a.name] for a in kernel.arrays if not a.local}
