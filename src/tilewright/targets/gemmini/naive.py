"""Generates the starting kernels, which are static loop nests like a first version that is written
by hand.

A tile has as many rows as the array and as many columns as the widest move (16x64 on int8 16x16).
Every operand is loaded again in the inner loops, the accumulator is cleared by a move of zeros,
nothing overlaps, and all addresses are computed in the loops. If a size is not a multiple of the
tile, the size of partial tiles is computed as a minimum at the beginning of the loop. The operands
are in different scratchpad banks, and a tile is stored by one command. The utilisation for
12544x64x256 on int8 16x16 is 26.5 %, close to the 28 % that were published for such code (with both
operands in one bank, it would be 22 %).
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.instance import Instance


def naive_gemm(gemm: Gemm, instance: Instance) -> str:
    """C source of `C[m][n] = A[m][k] * B[k][n]` for any positive sizes, saturated if int8.

    No transfer exceeds its array. Loops with one iteration are kept, because their bounds show the
    size of the tile.
    """
    m, n, k = gemm.m, gemm.n, gemm.k
    tile, wide, elem = instance.dim, instance.move_columns, instance.element.c
    size = instance.config.element_bytes
    rows = _Extent("rows", "i", m, tile)
    columns = _Extent("cols", "j", n, wide)
    depth = _Extent("depth", "k", k, tile)
    block = _Extent("jcols", "jj", n, tile, end=str(columns))
    body = [
        f"void kernel(const {elem} A[{m}][{k}], const {elem} B[{k}][{n}], {elem} C[{m}][{n}]) {{",
        "  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);",
        f"  config_st({n * size});",
        f"  config_ld({k * size}, 1.0f, {tile}, 0);  // A",
        f"  config_ld({n * size}, 1.0f, {tile}, 1);  // B",
        f"  config_ld(0, 1.0f, {tile}, 2);  // zeros",
        f"  for (int i = 0; i < {m}; i += {tile}) {{",
        *_indent(2, rows.declaration),
        f"    for (int j = 0; j < {n}; j += {wide}) {{",
        *_indent(3, columns.declaration),
        "      // clear the accumulator tile",
        f"      mvin3(0, ACC(0), {columns}, {rows});",
        f"      for (int k = 0; k < {k}; k += {tile}) {{",
        *_indent(4, depth.declaration),
        "        // operands of this step",
        f"        mvin(&A[i][k], SPAD(0), {depth}, {rows});",
        f"        mvin2(&B[k][j], SPAD(SPAD_BANK_ROWS), {columns}, {depth});",
        f"        for (int jj = 0; jj < {columns}; jj += {tile}) {{",
        *_indent(5, block.declaration),
        "          preload(SPAD(SPAD_BANK_ROWS + jj), ACC(jj) | ACCUMULATE, "
        f"{block}, {depth}, {block}, {rows});",
        f"          compute_preloaded(SPAD(0), NONE, {depth}, {rows}, {block}, {rows});",
        "        }",
        "      }",
        f"      // store the tile{_saturated(instance)}",
        f"      mvout(&C[i][j], ACC(0), {columns}, {rows});",
        "    }",
        "  }",
        "  fence();",
        "}",
    ]
    return "\n".join(body) + "\n"


def naive_convolution(conv: Convolution, instance: Instance) -> str:
    """C source of a convolution: a tile consists of pixels of one output row, and has as many
    columns as a wide move.

    A tile is first set to the bias, which a stride of 0 repeats in every row. Then the pixels and
    weights of each kernel position and each block of channels are loaded and multiplied.
    """
    tile, wide, bytes_ = instance.dim, instance.move_columns, instance.config.element_bytes
    batch, height, width, filters = conv.output_shape
    size, channels = conv.size, conv.channels
    pixels = _Extent("pixels", "x", width, tile)
    columns = _Extent("cols", "o", filters, wide)
    depth = _Extent("depth", "c", channels, tile)
    block = _Extent("ocols", "oo", filters, tile, end=str(columns))
    row = "y + r" if conv.stride == 1 else f"{conv.stride} * y + r"
    column = "x + t" if conv.stride == 1 else f"{conv.stride} * x + t"
    body = [
        f"void kernel({parameters(conv, instance)}) {{",
        "  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);",
        f"  config_st({filters * bytes_});",
        f"  config_ld({conv.stride * channels * bytes_}, 1.0f, {tile}, 0);  // pixels",
        f"  config_ld({filters * bytes_}, 1.0f, {tile}, 1);  // weights",
        f"  config_ld(0, 1.0f, {tile}, 2);  // bias, the same for every pixel",
        f"  for (int n = 0; n < {batch}; n++) {{",
        f"    for (int y = 0; y < {height}; y++) {{",
        f"      for (int x = 0; x < {width}; x += {tile}) {{",
        *_indent(4, pixels.declaration),
        f"        for (int o = 0; o < {filters}; o += {wide}) {{",
        *_indent(5, columns.declaration),
        "          // the tile begins as the bias",
        f"          mvin3(&bias[o], ACC(0), {columns}, {pixels});",
        f"          for (int r = 0; r < {size}; r++) {{",
        f"            for (int t = 0; t < {size}; t++) {{",
        f"              for (int c = 0; c < {channels}; c += {tile}) {{",
        *_indent(8, depth.declaration),
        "                // operands of this step",
        f"                mvin(&input[n][{row}][{column}][c], SPAD(0), {depth}, {pixels});",
        f"                mvin2(&weights[r][t][c][o], SPAD(SPAD_BANK_ROWS), {columns}, {depth});",
        f"                for (int oo = 0; oo < {columns}; oo += {tile}) {{",
        *_indent(9, block.declaration),
        "                  preload(SPAD(SPAD_BANK_ROWS + oo), ACC(oo) | ACCUMULATE, "
        f"{block}, {depth}, {block}, {pixels});",
        f"                  compute_preloaded(SPAD(0), NONE, {depth}, {pixels}, "
        f"{block}, {pixels});",
        "                }",
        "              }",
        "            }",
        "          }",
        f"          // store the tile{_saturated(instance)}",
        f"          mvout(&output[n][y][x][o], ACC(0), {columns}, {pixels});",
        "        }",
        "      }",
        "    }",
        "  }",
        "  fence();",
        "}",
    ]
    return "\n".join(body) + "\n"


def parameters(conv: Convolution, instance: Instance) -> str:
    """The kernel's parameters, one array per argument of the workload."""

    def array(dtype: str, name: str, shape: tuple[int, ...]) -> str:
        return f"{dtype} {name}" + "".join(f"[{extent}]" for extent in shape)

    element, total = instance.element.c, instance.sum.c
    return ", ".join(
        [
            array(f"const {element}", "input", conv.input_shape),
            array(f"const {element}", "weights", conv.weights_shape),
            array(f"const {total}", "bias", (conv.filters,)),
            array(element, "output", conv.output_shape),
        ]
    )


def _saturated(instance: Instance) -> str:
    return f", saturated to {instance.element.dtype}" if instance.is_integer else ""


class _Extent:
    """The part of a tile that one iteration covers: a literal, or a minimum if `size` is not a
    multiple of the tile. `end` is the C expression for the end of the loop over `variable`, which
    is `size` unless `size` itself varies.
    """

    def __init__(self, name: str, variable: str, size: int, tile: int, end: str = "") -> None:
        ragged = size > tile and size % tile != 0
        self._text = name if ragged else str(min(size, tile))
        left = f"{end or size} - {variable}"
        self.declaration = (
            [f"const int {name} = {left} < {tile} ? {left} : {tile};"] if ragged else []
        )

    def __str__(self) -> str:
        return self._text


def _indent(levels: int, lines: Iterable[str]) -> list[str]:
    return ["  " * levels + line for line in lines]
