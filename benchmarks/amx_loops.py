"""A workload of the tile targets as plain C loops, for the baseline `compiler`.

The innermost loop runs along a row of the output, because compilers vectorise this form much better
than loops that sum up one output at a time.
"""

from __future__ import annotations

from tilewright.targets.amx.elements import BF16, Element
from tilewright.targets.amx.naive import parameters
from tilewright.targets.amx.shapes import Convolution, Gemm, Shape

_WIDENED = """
static inline float number(uint16_t bits) {
  union { uint32_t bits; float value; } wide = {(uint32_t)bits << 16};
  return wide.value;
}
"""


def plain_loops(shape: Shape, element: Element) -> str:
    """C source without tile instructions; bfloat16 is widened by shifting its bits."""
    body = _gemm(shape, element) if isinstance(shape, Gemm) else _convolution(shape, element)
    widened = _WIDENED if element is BF16 else ""
    return f"""\
#include <stdint.h>
{widened}
void kernel({parameters(shape, element)}) {{
{body}}}
"""


def _product(left: str, right: str, element: Element) -> str:
    return f"number({left}) * number({right})" if element is BF16 else f"{left} * {right}"


def _gemm(gemm: Gemm, element: Element) -> str:
    group = element.group
    if gemm.packed:
        product = _product(f"A[i][{group} * k + g]", "B[k][j][g]", element)
        sums = f"""\
    for (int k = 0; k < {gemm.k // group}; k++)
      for (int j = 0; j < {gemm.n}; j++)
        for (int g = 0; g < {group}; g++)
          C[i][j] += {product};
"""
    else:
        sums = f"""\
    for (int k = 0; k < {gemm.k}; k++)
      for (int j = 0; j < {gemm.n}; j++)
        C[i][j] += {_product("A[i][k]", "B[k][j]", element)};
"""
    return f"""\
  for (int i = 0; i < {gemm.m}; i++) {{
    for (int j = 0; j < {gemm.n}; j++)
      C[i][j] = 0;
{sums}  }}
"""


def _convolution(conv: Convolution, element: Element) -> str:
    group = element.group
    product = _product(
        f"input[n][y + r][x + t][{group} * c + g]", "weights[r][t][c][j][g]", element
    )
    return f"""\
  for (int n = 0; n < {conv.batch}; n++)
  for (int y = 0; y < {conv.height}; y++)
  for (int x = 0; x < {conv.width}; x++) {{
    for (int j = 0; j < {conv.filters}; j++)
      output[n][y][x][j] = 0;
    for (int r = 0; r < 3; r++)
    for (int t = 0; t < 3; t++)
    for (int c = 0; c < {conv.channels // group}; c++)
      for (int j = 0; j < {conv.filters}; j++)
        for (int g = 0; g < {group}; g++)
          output[n][y][x][j] += {product};
  }}
"""
