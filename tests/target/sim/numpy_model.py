"""A plain numpy model of every accelerator command: slow, obvious, independent of the simulator."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

DIM = 16
NONE = 0xFFFF_FFFF
ACC, ADD, FULL = 0x8000_0000, 0x4000_0000, 0x2000_0000
I8, I32 = npt.NDArray[np.int8], npt.NDArray[np.int32]


def float_bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def tile(address: int, cols: int, rows: int) -> int:
    return address | cols << 32 | rows << 48


def config_ex(act: int = 0, a_stride: int = 1, at: int = 0, bt: int = 0, c_stride: int = 1):
    rs1 = a_stride << 16 | bt << 9 | at << 8 | act << 3 | 1 << 2
    return 0, rs1 | float_bits(1.0) << 32, c_stride << 48


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


def quantize(values: npt.NDArray[np.generic], scale: float) -> I8:
    """float32 scaling, to nearest even, saturated."""
    scaled = np.rint(values.astype(np.float32) * np.float32(scale))
    return np.clip(scaled, -128, 127).astype(np.int8)


def wrap(values: npt.NDArray[np.int64]) -> I32:
    return values.astype(np.uint64).astype(np.uint32).astype(np.int32)


@dataclass
class Model:
    """State of the accelerator; `dram` maps addresses from `base` on."""

    dram: npt.NDArray[np.uint8]
    base: int
    spad: I8 = field(default_factory=lambda: np.zeros((16384, DIM), np.int8))
    acc: I32 = field(default_factory=lambda: np.zeros((1024, DIM), np.int32))
    weights: I32 = field(default_factory=lambda: np.zeros((DIM, DIM), np.int32))

    def __post_init__(self) -> None:
        self.loads = [(0, 1.0, DIM, 0)] * 3
        self.store = (0, 1.0, 0)
        self.ex = {"act": 0, "a_stride": 1, "at": 0, "bt": 0, "c_stride": 1}
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
                "act": rs1 >> 3 & 3,
                "a_stride": rs1 >> 16 & 0xFFFF,
                "at": rs1 >> 8 & 1,
                "bt": rs1 >> 9 & 1,
                "c_stride": rs2 >> 48,
            }

    def _mvin(self, ident: int, address: int, packed: int) -> None:
        stride, scale, block, shrunk = self.loads[ident]
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        wide = local & ACC and not shrunk
        dtype = np.dtype(np.int32 if wide else np.int8)
        for r in range(rows):
            at = address + r * stride - self.base
            raw = self.dram[at : at + cols * dtype.itemsize].tobytes() if address else b""
            values = np.frombuffer(raw, dtype) if address else np.zeros(cols, dtype)
            if not wide and address:
                values = quantize(values, scale) if scale != 1.0 else values
            for c in range(cols):
                row = (local & 0x1FFFFFFF) + r + c // DIM * block
                if not local & ACC:
                    self.spad[row, c % DIM] = values[c]
                else:
                    old = int(self.acc[row, c % DIM]) if local & ADD else 0
                    self.acc[row, c % DIM] = wrap(np.array([old + int(values[c])]))[0]

    def _mvout(self, address: int, packed: int) -> None:
        stride, scale, act = self.store
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        source = self.acc if local & ACC else self.spad
        for r in range(rows):
            blocks = range(-(-cols // DIM))
            first = (local & 0x1FFFFFFF) + r
            values = np.concatenate([source[first + b * DIM] for b in blocks])[:cols]
            if local & ACC and not local & FULL:
                values = np.maximum(values, 0) if act == 1 else values
                values = quantize(values, scale)
            raw = np.frombuffer(values.tobytes(), np.uint8)
            at = address + r * stride - self.base
            self.dram[at : at + len(raw)] = raw

    def _compute(self, a_packed: int, d_packed: int, *, keep: bool) -> None:
        b_packed, c_packed = self.pending
        if not keep:
            self.weights = self._operand(b_packed, bool(self.ex["bt"]), 1)
        product = self._operand(a_packed, bool(self.ex["at"]), self.ex["a_stride"]).astype(
            np.int64
        ) @ self.weights.astype(np.int64)
        total = product + self._operand(d_packed, False, 1)
        local, cols, rows = c_packed & 0xFFFFFFFF, c_packed >> 32 & 0xFFFF, c_packed >> 48
        if local == NONE:
            return
        for i in range(rows):
            row = (local & 0x1FFFFFFF) + i * self.ex["c_stride"]
            values = total[i, :cols]
            if local & ACC:
                old = self.acc[row, :cols].astype(np.int64) if local & ADD else 0
                self.acc[row, :cols] = wrap(values + old)
            else:
                values = np.maximum(values, 0) if self.ex["act"] == 1 else values
                self.spad[row, :cols] = np.clip(values, -128, 127)

    def _operand(self, packed: int, transposed: bool, stride: int) -> I32:
        """A DIM x DIM matrix with zeros outside the tile's rows and columns."""
        local, cols, rows = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48
        out = np.zeros((DIM, DIM), np.int32)
        if local == NONE:
            return out
        source = self.acc if local & ACC else self.spad
        for r in range(rows):
            for c in range(cols):
                i, j = (c, r) if transposed else (r, c)
                out[r, c] = source[(local & 0x1FFFFFFF) + i * stride, j]
        return out
