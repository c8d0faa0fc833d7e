"""The emulated products are those of Intel's definition, bit by bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright.parts.inputs import Array
from tilewright.targets.amx.elements import bf16_bits
from tilewright.targets.amx.target import header

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
SOURCE = """\
#include "tiles.h"
void product(const void *a, const void *b, void *c, int rows, int depth, int columns) {
  struct tile_config shapes = {.palette = 1, .row_bytes = {4 * columns, 4 * depth, 4 * columns},
                               .rows = {rows, rows, depth}};
  _tile_loadconfig(&shapes);
  _tile_loadd(0, c, 4 * columns);
  _tile_loadd(1, a, 4 * depth);
  _tile_loadd(2, b, 4 * columns);
  PRODUCT(0, 1, 2);
  _tile_stored(0, c, 4 * columns);
  _tile_release();
}
int unset(const void *a) { /* a configuration of palette 0 is none */
  struct tile_config shapes = {.palette = 1, .row_bytes = {64}, .rows = {16}}, none = {0};
  _tile_loadconfig(&shapes);
  _tile_loadconfig(&none);
  return tile_shapes.rows[0];
}
"""
ROWS, DEPTH, COLUMNS = 5, 7, 3
"""Rows, groups of four bytes summed, and columns: none that a tile is full with."""
TINY = np.float32(2.0**-126)


def emulated(name: str, folder: Path) -> ctypes.CDLL:
    (folder / "tiles.h").write_text(header("emulated"))
    (folder / "product.c").write_text(SOURCE.replace("PRODUCT", name))
    command = ["gcc", "-O3", "-w", "-shared", "-fPIC", "product.c", "-o", "product.so", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "product.so"))


def run(name: str, folder: Path, a: Array, b: Array, c: Array) -> Array:
    result = np.ascontiguousarray(c.copy())
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, result)]
    emulated(name, folder).product(*pointers, ROWS, DEPTH, COLUMNS)
    return result


def flushed(values: Array) -> Array:
    return np.where(np.abs(values) < TINY, np.copysign(np.float32(0), values), values)


def defined(a: Array, b: Array, c: Array) -> Array:
    """TDPBF16PS, with sums of exact products in float64, which hold each of them exactly."""

    def number(bits: Array) -> Array:
        return flushed((bits.astype(np.uint32) << 16).view(np.float32)).astype(np.float64)

    sums = [np.zeros((ROWS, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)]
    for k in range(DEPTH):
        for odd in (0, 1):
            products = np.outer(number(a[:, k, odd]), number(b[k, :, odd]))
            sums[odd] = flushed((products + sums[odd]).astype(np.float32))
    return flushed(flushed(c) + flushed(sums[0] + sums[1]))


@pytest.mark.parametrize("scale", [1.0, 2.0**-62, 2.0**-64, 2.0**-127])
def test_bfloat16_products_round_and_flush_as_defined(scale: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    a = bf16_bits(rng.normal(size=(ROWS, DEPTH, 2)) * scale)
    b = bf16_bits(rng.normal(size=(DEPTH, COLUMNS, 2)) * scale)
    c = (rng.normal(size=(ROWS, COLUMNS)) * scale * scale).astype(np.float32)
    got = run("_tile_dpbf16ps", tmp_path, a, b, c)
    assert got.tobytes() == defined(a, b, c).astype(np.float32).tobytes()


def test_subnormal_operands_are_zeros(tmp_path: Path) -> None:
    a = np.full((ROWS, DEPTH, 2), 0x0040, np.uint16)  # half of the least normal number
    b = np.full((DEPTH, COLUMNS, 2), 0x7F00, np.uint16)  # 2 to the 127
    c = np.zeros((ROWS, COLUMNS), np.float32)
    assert not run("_tile_dpbf16ps", tmp_path, a, b, c).any()


def test_int8_products_wrap_as_defined(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    a = rng.integers(-128, 128, (ROWS, DEPTH, 4)).astype(np.int8)
    b = rng.integers(-128, 128, (DEPTH, COLUMNS, 4)).astype(np.int8)
    c = np.full((ROWS, COLUMNS), 2**31 - 1, np.int32)
    exact = np.einsum("mkg,kng->mn", a.astype(np.int64), b.astype(np.int64)) + c
    assert (run("_tile_dpbssd", tmp_path, a, b, c) == exact.astype(np.int32)).all()


def test_palette_0_releases(tmp_path: Path) -> None:
    assert emulated("_tile_dpbssd", tmp_path).unset(None) == 0
