"""Loops over several dimensions at once, and windows that are gathered part by part."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_model import Gemmini, trace

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, Loop, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.flattened import unflattened

ROWS, WIDTH, CHANNELS, FILTERS, TAPS = 6, 28, 16, 32, 3

GATHERED = f"""
void kernel(const int8_t X[{ROWS + 2}][{WIDTH + 2}][{CHANNELS}], const int8_t W[{9 * CHANNELS}][{FILTERS}],
    int8_t Y[{ROWS}][{WIDTH}][{FILTERS}]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld({CHANNELS}, 1.0f, 16, 0);
  config_ld({FILTERS}, 1.0f, 16, 1);
  config_st({FILTERS});
  for (int p = 0; p < {ROWS} * 2; p++) {{
    const int row = p >> 1, col = (p & 1) * 16, n = col ? {WIDTH} - 16 : 16;
    for (int t = 0; t < 9; t++) mvin(&X[row + t / 3][col + t % 3][0], SPAD(16 * t), 16, n);
    for (int t = 0; t < 9; t++) {{
      mvin2(&W[16 * t][0], SPAD(4096), 32, 16);
      for (int f = 0; f < 32; f += 16) {{
        preload(SPAD(4096 + f), t ? ACC(f) | ACCUMULATE : ACC(f), 16, 16, 16, n);
        compute_preloaded(SPAD(16 * t), NONE, 16, n, 16, n);
      }}
    }}
    mvout(&Y[row][col][0], ACC(0), 32, n);
  }}
  fence();
}}
"""  # noqa: E501


def is_right(kernel: Kernel) -> bool:
    rng = np.random.default_rng(1)
    x, w, y = (a.shape for a in kernel.arrays)
    pixels = rng.integers(-4, 5, x).astype(float)
    weights = rng.integers(-4, 5, w).astype(float)
    output = np.full(y, np.nan)
    Gemmini({"X": pixels, "W": weights, "Y": output}).run(kernel)
    columns = [pixels[r : r + ROWS, t : t + WIDTH] for r in range(TAPS) for t in range(TAPS)]
    wanted = np.concatenate(columns, axis=-1) @ weights
    return bool(np.array_equal(output, np.clip(wanted, -128, 127)))


def test_every_dimension_has_a_loop(machine: Machine) -> None:
    plain = simplify(lift(GATHERED, machine))
    kernel = unflattened(plain)
    assert list(trace(kernel.body)) == list(trace(plain.body))
    loops = [(s.var, s.upper.const) for s in walk(kernel.body) if isinstance(s, Loop)]
    assert loops == [("p", ROWS), ("pp", 2), ("t", 3), ("tt", 3), ("t", 9), ("f", 32)]


@pytest.mark.parametrize(("loop", "rows"), [("p", 8 * 30), ("pp", 6 * 3 * 30)])
def test_a_gathered_window_is_loaded_once(machine: Machine, loop: str, rows: int) -> None:
    kernel = read(GATHERED, machine)
    after = Step.parse(f"block-load X {loop}").apply(kernel, machine)
    assert is_right(after)
    assert is_right(read(emit(after), machine))
    assert sum(o[3] for name, o in trace(after.body) if name == "mvin") == rows


@pytest.mark.parametrize(
    "loop",
    [
        "for (int p = 0; p < 7; p++) mvin(&X[p / 2][p % 2 * 16][0], SPAD(0), 16, 8);",  # uneven
        "for (int p = 0; p < 8; p++) mvin(&X[(p + 1) / 2][0][0], SPAD(0), 16, 8);",  # across groups
        "for (int p = 0; p < 8; p++) mvin(&X[p][0][0], SPAD(p % 2 * 64), 16, 8);",  # slots
        "for (int p = 0; p < 2; p++) mvin(&X[p / 2][p % 2][0], SPAD(0), 16, 8);",  # one group
    ],
)
def test_other_loops_stay(machine: Machine, loop: str) -> None:
    source = f"void kernel(const int8_t X[8][64][16]) {{ config_ld(16, 1.0f, 16, 0); {loop} }}"
    kernel = simplify(lift(source, machine))
    assert unflattened(kernel) is kernel
