"""A plain numpy model of every accelerator command: slow, obvious, independent of the simulator.

One model for int8 elements with int32 sums and for float32 throughout, and for any array size.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from target.sim.exact_floats import SINGLE, round_to

NONE = 0xFFFF_FFFF
ACC, ADD, FULL = 0x8000_0000, 0x4000_0000, 0x2000_0000
Values = npt.NDArray[Any]


def float_bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def tile(address: int, cols: int, rows: int) -> int:
    return address | cols << 32 | rows << 48


def config_ex(
    act: int = 0,
    a_stride: int = 1,
    at: int = 0,
    bt: int = 0,
    c_stride: int = 1,
    *,
    os: int = 0,
    scale: float = 1.0,
    shift: int = 0,
):
    rs1 = a_stride << 16 | bt << 9 | at << 8 | act << 3 | (1 - os) << 2
    return 0, rs1 | float_bits(scale) << 32, c_stride << 48 | shift


def config_ld(stride: int, scale: float, block: int, ident: int, shrunk: int = 0):
    return 0, float_bits(scale) << 32 | block << 16 | ident << 3 | shrunk << 2 | 1, stride


def config_st(stride: int, scale: float = 1.0, act: int = 0):
    return 0, act << 2 | 2, float_bits(scale) << 32 | stride


def mvin(ident: int, address: int, local: int, cols: int, rows: int):
    return (2, 1, 14)[ident], address, tile(local, cols, rows)


def mvout(address: int, local: int, cols: int, rows: int):
    return 3, address, tile(local, cols, rows)


def preload(b: int, c: int, bc: int, br: int, cc: int, cr: int):
    return 6, tile(b, bc, br), tile(c, cc, cr)


def compute(a: int, d: int, ac: int, ar: int, dc: int, dr: int, *, keep: bool = False):
    return (5 if keep else 4), tile(a, ac, ar), tile(d, dc, dr)


def quantize(values: Values, scale: float) -> Values:
    """float32 scaling; to int8 to nearest even, saturated."""
    if values.dtype == np.float32:
        return values * np.float32(scale)
    scaled = np.rint(values.astype(np.float32) * np.float32(scale))
    return np.clip(scaled, -128, 127).astype(np.int8)


def wrap(values: npt.NDArray[np.int64]) -> Values:
    return values.astype(np.uint64).astype(np.uint32).astype(np.int32)


def relu(values: Values) -> Values:
    """By the sign bit, as hardware does: minus zero stays."""
    return np.where((values < 0), np.zeros_like(values), values)


def fused(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once to float32."""
    if not math.isfinite(a * b + c):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    zero = np.float32(a) * np.float32(b) + np.float32(c)  # has the sign of an exact zero
    return round_to(exact, 0, SINGLE, negative_zero=bool(np.signbit(zero)))


def round_shift(value: int, shift: int) -> int:
    """Divided by a power of two, to nearest even."""
    return round(Fraction(value, 1 << shift))


@dataclass
class Model:
    """State of the accelerator; `dram` maps addresses from `base` on."""

    dram: npt.NDArray[np.uint8]
    base: int
    dim: int = 16
    floats: bool = False

    def __post_init__(self) -> None:
        self.element = np.dtype(np.float32 if self.floats else np.int8)
        self.sum = np.dtype(np.float32 if self.floats else np.int32)
        self.spad = np.zeros((16384, self.dim), self.element)
        self.acc = np.zeros((4096, self.dim), self.sum)
        self.weights = np.zeros((self.dim, self.dim), self.element)
        self.held = np.zeros((self.dim, self.dim), self.sum)  # output-stationary
        self.loads = [(0, 1.0, self.dim, 0)] * 3
        self.store = (0, 1.0, 0)
        self.run(*config_ex())
        self.pending: tuple[int, int] = (tile(NONE, 1, 1), tile(NONE, 1, 1))

    def run(self, funct: int, rs1: int, rs2: int) -> None:
        if funct == 0:
            self._config(rs1, rs2)
        elif funct in (2, 1, 14):
            self._mvin((2, 1, 14).index(funct), rs1, rs2)
        elif funct == 3:
            self._mvout(rs1, rs2)
        elif funct == 6:
            self.pending = (rs1, rs2)
        elif funct in (4, 5):
            self._compute(rs1, rs2, keep=funct == 5)

    def _config(self, rs1: int, rs2: int) -> None:
        upper = struct.unpack("<f", struct.pack("<I", rs1 >> 32))[0]
        if rs1 & 3 == 1:
            self.loads[rs1 >> 3 & 3] = (rs2, upper, rs1 >> 16 & 0xFFFF, rs1 >> 2 & 1)
        elif rs1 & 3 == 2:
            scale = struct.unpack("<f", struct.pack("<I", rs2 >> 32))[0]
            self.store = (rs2 & 0xFFFFFFFF, scale, rs1 >> 2 & 3)
        else:
            self.ex = {
                "os": 1 - (rs1 >> 2 & 1),
                "act": rs1 >> 3 & 3,
                "a_stride": rs1 >> 16 & 0xFFFF,
                "at": rs1 >> 8 & 1,
                "bt": rs1 >> 9 & 1,
                "c_stride": rs2 >> 48,
                "shift": rs2 & 31,
            }
            self.ex_scale = upper

    def _mvin(self, ident: int, address: int, packed: int) -> None:
        stride, scale, block, shrunk = self.loads[ident]
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        wide = local & ACC and not shrunk
        dtype = self.sum if wide else self.element
        for r in range(rows):
            at = address + r * stride - self.base
            raw = self.dram[at : at + cols * dtype.itemsize].tobytes() if address else b""
            values = np.frombuffer(raw, dtype) if address else np.zeros(cols, dtype)
            if address and scale != 1.0 and (not wide or self.floats):
                values = quantize(values, scale)
            for c in range(cols):
                row = (local & 0x1FFFFFFF) + r + c // self.dim * block
                if not local & ACC:
                    self.spad[row, c % self.dim] = values[c]
                else:
                    at_row = self.acc[row, c % self.dim : c % self.dim + 1]
                    at_row[:] = self._added(at_row, values[c : c + 1], local)

    def _added(self, old: Values, values: Values, local: int) -> Values:
        """What the accumulator holds after a write."""
        if self.floats:
            return old + values.astype(np.float32) if local & ADD else values
        return wrap(values.astype(np.int64) + (old.astype(np.int64) if local & ADD else 0))

    def _mvout(self, address: int, packed: int) -> None:
        stride, scale, act = self.store
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        source = self.acc if local & ACC else self.spad
        for r in range(rows):
            blocks = range(-(-cols // self.dim))
            first = (local & 0x1FFFFFFF) + r
            values = np.concatenate([source[first + b * self.dim] for b in blocks])[:cols]
            if local & ACC and not local & FULL:
                values = quantize(relu(values) if act == 1 else values, scale)
            raw = np.frombuffer(values.tobytes(), np.uint8)
            at = address + r * stride - self.base
            self.dram[at : at + len(raw)] = raw

    def _compute(self, a_packed: int, second: int, *, keep: bool) -> None:
        first, c_packed = self.pending
        a = self._operand(a_packed, bool(self.ex["at"]), self.ex["a_stride"])
        if self.ex["os"]:
            begin = self.held if keep else self._operand(first, False, 1).astype(self.sum)
            b = self._operand(second, bool(self.ex["bt"]), 1)
            self.held = self._multiplied(a, b, begin) if a_packed & 0xFFFFFFFF != NONE else begin
            total = self.held
            if not self.floats:
                shifted = [[round_shift(int(v), self.ex["shift"]) for v in row] for row in total]
                total = np.clip(np.array(shifted), -(1 << 19), (1 << 19) - 1)
        else:
            if not keep:
                self.weights = self._operand(first, bool(self.ex["bt"]), 1)
            begin = self._operand(second, False, 1).astype(self.sum)
            some = a_packed & 0xFFFFFFFF != NONE
            total = self._multiplied(a, self.weights, begin) if some else begin
        self._write(c_packed, total)

    def _multiplied(self, a: Values, b: Values, begin: Values) -> Values:
        """begin + a * b, the products added in order."""
        if not self.floats:
            return wrap(a.astype(np.int64) @ b.astype(np.int64) + begin)
        total = begin.copy()
        for i in range(self.dim):
            for j in range(self.dim):
                for k in range(self.dim):
                    total[i, j] = fused(float(a[i, k]), float(b[k, j]), float(total[i, j]))
        return total

    def _write(self, c_packed: int, total: Values) -> None:
        local, cols, rows = c_packed & 0xFFFFFFFF, c_packed >> 32 & 0xFFFF, c_packed >> 48
        if local == NONE:
            return
        for i in range(rows):
            row = (local & 0x1FFFFFFF) + i * self.ex["c_stride"]
            values = total[i, :cols]
            if local & ACC:
                self.acc[row, :cols] = self._added(self.acc[row, :cols], values, local)
            else:
                values = relu(values) if self.ex["act"] == 1 else values
                self.spad[row, :cols] = values if self.floats else np.clip(values, -128, 127)

    def _operand(self, packed: int, transposed: bool, stride: int) -> Values:
        """A dim x dim matrix of elements with zeros outside the tile's rows and columns."""
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        out = np.zeros((self.dim, self.dim), self.element)
        if local == NONE:
            return out
        if transposed:
            cols, rows = rows, cols
        for r in range(rows):
            row = (local & 0x1FFFFFFF) + r * stride
            if local & ACC:
                values = relu(self.acc[row]) if self.ex["act"] == 1 else self.acc[row]
                values = quantize(values, self.ex_scale)
            else:
                values = self.spad[row]
            out[r, :cols] = values[:cols]
        return out.T if transposed else out
