"""Runs loop IR on the plain model of the int8 accelerator with strides that count bytes.

Arrays of the kernel's own begin without values and keep them from call to call. An element that a
store wrote may only be loaded or stored again after a fence, and so may one that a load has read
before it is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from kernel_model import Gemmini

from tilewright.proposers.rewriter.ir import Kernel
from tilewright.targets.gemmini.convolution import Convolution

SIZES = {"int8_t": 1, "int32_t": 4}


class Bytes(Gemmini):
    """The same with strides that count bytes, as the commands have them."""

    sizes: Mapping[str, int]

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.pending: dict[str, set[tuple[str, int]]] = {"load": set(), "store": set()}

    def fence(self) -> None:
        for elements in self.pending.values():
            elements.clear()

    def mvin(self, source: Any, to: Any, cols: int, rows: int, key: int = 0) -> None:
        if source != 0:
            touched = self._touched(source, cols, rows, self.stride[key])
            assert not touched & self.pending["store"], "a load of what may not be stored yet"
            self.pending["load"] |= touched
        super().mvin(source, to, cols, rows, key)

    def mvout(self, to: Any, source: Any, cols: int, rows: int) -> None:
        touched = self._touched(to, cols, rows, self.stride["store"])
        assert not touched & self.pending["load"], "a store to what may not be loaded yet"
        self.pending["store"] |= touched
        super().mvout(to, source, cols, rows)

    def _touched(self, at: Any, cols: int, rows: int, stride: int) -> set[tuple[str, int]]:
        first, step = self._first(at), stride // self.sizes[at[0]]
        return {(at[0], first + r * step + c) for r in range(rows) for c in range(cols)}

    def _first(self, at: Any) -> int:
        first = 0
        for index, extent in zip(at[1], self.arrays[at[0]].shape, strict=True):
            first = first * extent + index
        return first

    def _block(self, at: Any, cols: int, rows: int, stride: int) -> np.ndarray:
        array, first = self.arrays[at[0]], self._first(at)
        step, odd = divmod(stride, self.sizes[at[0]])
        assert odd == 0
        flat = array.reshape(-1)
        assert first >= 0
        assert first + step * (rows - 1) + cols <= flat.size
        bytes_ = flat.itemsize
        return np.lib.stride_tricks.as_strided(flat[first:], (rows, cols), (step * bytes_, bytes_))


def results(kernel: Kernel, seed: int, calls: int = 1) -> list[np.ndarray]:
    """All arrays that the kernel is given, after it ran on random ones several times."""
    rng = np.random.default_rng(seed)
    given = [a for a in kernel.arrays if not a.local]
    own = {a.name: np.full(a.shape, np.nan) for a in kernel.arrays if a.local}
    left = []
    for _ in range(calls):
        arrays = {
            a.name: rng.integers(-6, 7, [s or 4096 for s in a.shape]).astype(float) for a in given
        }
        model = Bytes(arrays | own)
        model.sizes = {a.name: SIZES[a.element] for a in kernel.arrays}
        model.run(kernel)
        left += arrays.values()
    return left


def same(left: Kernel, right: Kernel, seed: int = 0, calls: int = 1) -> bool:
    """Whether two kernels leave the same in memory, in every one of several calls.

    They may declare an array with other sizes, as long as the elements are the same ones.
    """
    pairs = zip(results(left, seed, calls), results(right, seed, calls), strict=True)
    return all(np.array_equal(a.reshape(-1), b.reshape(-1)) for a, b in pairs)


def convolution_is_right(kernel: Kernel, conv: Convolution) -> bool:
    """Whether the kernel computes the convolution on random signed inputs."""
    rng = np.random.default_rng(conv.operations)
    image = rng.integers(-3, 4, conv.input_shape).astype(float)
    weights = rng.integers(-3, 4, conv.weights_shape).astype(float)
    bias = rng.integers(-9, 10, conv.filters).astype(float)
    output = np.full(conv.output_shape, np.nan)
    given = zip(kernel.arrays, (image, weights, bias, output), strict=True)
    model = Bytes({a.name: v.reshape(a.shape) for a, v in given})
    model.sizes = {a.name: SIZES[a.element] for a in kernel.arrays}
    model.run(kernel)
    _, rows, columns, _ = conv.output_shape
    total = np.zeros(conv.output_shape) + bias
    for r in range(conv.size):
        for t in range(conv.size):
            ends = r + conv.stride * rows, t + conv.stride * columns
            part = image[:, r : ends[0] : conv.stride, t : ends[1] : conv.stride]
            total += part[:, :rows, :columns] @ weights[r, t]
    return bool(np.array_equal(output, np.clip(total, -128, 127)))
