"""The starting kernels, which compute one tile of the output at a time and load every operand
immediately before it is used.
"""

from __future__ import annotations

from tilewright.targets.amx.elements import TILE_BYTES, TILE_ROWS, Element
from tilewright.targets.amx.shapes import Convolution, Gemm, Shape


def naive_kernel(shape: Shape, element: Element) -> str:
    """C source with one accumulator tile."""
    body = _gemm(shape, element) if isinstance(shape, Gemm) else _convolution(shape, element)
    rows = TILE_ROWS if isinstance(shape, Gemm) else shape.pixels
    return f"""\
#include "tiles.h"

/* tile 0: sums, tile 1: rows of A, tile 2: packed rows of B */
static const struct tile_config config = {{
  .palette = 1,
  .row_bytes = {{{", ".join([str(TILE_BYTES)] * 8)}}},
  .rows = {{{rows}, {rows}, {", ".join([str(TILE_ROWS)] * 6)}}},
}};

void kernel({parameters(shape, element)}) {{
  _tile_loadconfig(&config);
{body}  _tile_release();
}}
"""


def parameters(shape: Shape, element: Element) -> str:
    """The declaration of a kernel's parameters in C."""
    c = {element.dtype: element.c, element.sum_dtype: element.sum_c}
    return ", ".join(
        f"{'const ' * (a.role == 'input')}{c[a.dtype]} {a.name}"
        + "".join(f"[{n}]" for n in a.shape)
        for a in shape.arguments(element)
    )


def _gemm(gemm: Gemm, element: Element) -> str:
    depth, group = element.depth, element.group
    if gemm.packed:
        load = f"        _tile_loadd(2, &B[k / {group}][j][0], {4 * gemm.n});\n"
    else:
        load = f"""\
        {element.c} packed[{TILE_ROWS}][{TILE_ROWS}][{group}];
        for (int r = 0; r < {depth}; r++)
          for (int c = 0; c < {TILE_ROWS}; c++)
            packed[r / {group}][c][r % {group}] = B[k + r][j + c];
        _tile_loadd(2, packed, {TILE_BYTES});
"""
    return f"""\
  for (int i = 0; i < {gemm.m}; i += {TILE_ROWS}) {{
    for (int j = 0; j < {gemm.n}; j += {TILE_ROWS}) {{
      _tile_zero(0);
      for (int k = 0; k < {gemm.k}; k += {depth}) {{
        _tile_loadd(1, &A[i][k], {gemm.k * element.size_bytes});
{load}        {element.product}(0, 1, 2);
      }}
      _tile_stored(0, &C[i][j], {4 * gemm.n});
    }}
  }}
"""


def _convolution(conv: Convolution, element: Element) -> str:
    depth, group = element.depth, element.group
    pixel = conv.channels * element.size_bytes
    return f"""\
  for (int n = 0; n < {conv.batch}; n++)
  for (int y = 0; y < {conv.height}; y++)
  for (int x = 0; x < {conv.width}; x += {conv.pixels})
  for (int j = 0; j < {conv.filters}; j += {TILE_ROWS}) {{
    _tile_zero(0);
    for (int r = 0; r < 3; r++)
    for (int t = 0; t < 3; t++)
    for (int c = 0; c < {conv.channels}; c += {depth}) {{
      _tile_loadd(1, &input[n][y + r][x + t][c], {pixel});
      _tile_loadd(2, &weights[r][t][c / {group}][j][0], {4 * conv.filters});
      {element.product}(0, 1, 2);
    }}
    _tile_stored(0, &output[n][y][x][j], {4 * conv.filters});
  }}
"""
