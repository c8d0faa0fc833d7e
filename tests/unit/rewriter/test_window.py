"""Sliding windows: a convolution along the rows loads every pixel once."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_model import Gemmini, trace

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step

TAPS, DEPTH, FILTERS = 3, 32, 32


def convolution(pixels: int, tile: int, stride: int = DEPTH) -> str:
    return f"""void kernel(const int8_t X[{pixels + TAPS - 1}][{DEPTH}],
    const int8_t W[{TAPS * DEPTH}][{FILTERS}], int8_t Y[{pixels}][{FILTERS}]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld({stride}, 1.0f, 16, 0);
  config_ld({FILTERS}, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st({FILTERS});
  for (int x = 0; x < {pixels}; x += {tile}) {{
    const int rows = {pixels} - x < {tile} ? {pixels} - x : {tile};
    mvin3(0, ACC(0), {FILTERS}, rows);
    for (int t = 0; t < {TAPS}; t++) {{
      for (int c = 0; c < {DEPTH}; c += 16) {{
        mvin(&X[x + t][c], SPAD(0), 16, rows);
        mvin2(&W[{DEPTH} * t + c][0], SPAD(4096), {FILTERS}, 16);
        for (int o = 0; o < {FILTERS}; o += 16) {{
          preload(SPAD(4096 + o), ACC(o) | ACCUMULATE, 16, 16, 16, rows);
          compute_preloaded(SPAD(0), NONE, 16, rows, 16, rows);
        }}
      }}
    }}
    mvout(&Y[x][0], ACC(0), {FILTERS}, rows);
  }}
  fence();
}}
"""


def is_right(kernel: Kernel) -> bool:
    rng = np.random.default_rng(1)
    (x, depth), (wide, filters), (pixels, _) = (a.shape for a in kernel.arrays)
    inputs = rng.integers(-4, 5, (x, depth)).astype(float)
    weights = rng.integers(-4, 5, (wide, filters)).astype(float)
    output = np.full((pixels, filters), np.nan)
    Gemmini({"X": inputs, "W": weights, "Y": output}).run(kernel)
    taps = (inputs[t : t + pixels] @ weights[t * depth : (t + 1) * depth] for t in range(TAPS))
    return bool(np.array_equal(output, np.clip(sum(taps), -128, 127)))


def loaded_rows(kernel: Kernel) -> int:
    return sum(operands[3] for name, operands in trace(kernel.body) if name == "mvin")


@pytest.mark.parametrize(
    ("pixels", "tile", "loads"), [(28, 14, 2), (28, 16, 3), (40, 16, 5), (5, 16, 1)]
)
@pytest.mark.parametrize("steps", ["block-load X t", "block-load X t; pipeline X x 2", ""])
def test_every_pixel_is_loaded_once_per_tile(
    machine: Machine, pixels: int, tile: int, loads: int, steps: str
) -> None:
    kernel = simplify(lift(convolution(pixels, tile), machine))
    for text in filter(None, steps.split("; ")):
        if text.endswith("2") and pixels < tile:
            continue
        kernel = Step.parse(text).apply(kernel, machine)
    assert is_right(kernel)
    assert is_right(lift(emit(kernel), machine))
    if steps:
        tiles = -(-pixels // tile)
        columns = sum(o[2] * o[3] for name, o in trace(kernel.body) if name == "mvin")
        assert columns == (pixels + (TAPS - 1) * tiles) * DEPTH
        assert sum(name == "mvin" for name, _ in trace(kernel.body)) == loads


def test_rows_further_apart_are_no_window(machine: Machine) -> None:
    kernel = simplify(lift(convolution(28, 14, stride=2 * DEPTH), machine))
    after = Step.parse("block-load X t").apply(kernel, machine)
    assert loaded_rows(after) == loaded_rows(Step.parse("block-load X c").apply(kernel, machine))
