"""The starting kernels of the TinyMPC passes, in which each operation loads its operands, computes,
and stores its result.

Every matrix-vector product configures the accelerator, loads its operands block by block, stores
its result and waits for it; the core computes signs and sums of vectors from the stored results.
Blocks are as large as the array, and smaller at the edges.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.gemmini.tinympc import TinyMpc

_ELEMENT_BYTES = 4


def naive_tinympc(mpc: TinyMpc, dim: int) -> str:
    """C source for an array of `dim` x `dim`."""
    s, i = mpc.states, mpc.inputs
    if mpc.direction == "forward":
        loop = f"  for (int i = 0; i < {mpc.steps}; i++) {{"
        local = [f"  float Bu[{s}];"]
        body = [
            *_product("u[i] = Kinf * x[i]", "Kinf", i, s, "x[i]", "u[i]", dim),
            "    fence();",
            f"    for (int j = 0; j < {i}; j++)",
            "      u[i][j] = -u[i][j] - d[i][j];",
            *_product("x[i + 1] = Adyn * x[i]", "Adyn", s, s, "x[i]", "x[i + 1]", dim),
            *_product("Bu = Bdyn * u[i]", "Bdyn", s, i, "u[i]", "Bu", dim),
            "    fence();",
            f"    for (int j = 0; j < {s}; j++)",
            "      x[i + 1][j] = x[i + 1][j] + Bu[j];",
        ]
    else:
        loop = f"  for (int i = {mpc.steps - 1}; i >= 0; i--) {{"
        local = [f"  float Bp[{i}], Kr[{s}];"]
        body = [
            *_product("Bp = BdynT * p[i + 1]", "BdynT", i, s, "p[i + 1]", "Bp", dim),
            "    fence();",
            f"    for (int j = 0; j < {i}; j++)",
            "      Bp[j] = Bp[j] + r[i][j];",
            *_product("d[i] = Quu_inv * Bp", "Quu_inv", i, i, "Bp", "d[i]", dim),
            *_product("p[i] = AmBKt * p[i + 1]", "AmBKt", s, s, "p[i + 1]", "p[i]", dim),
            *_product("Kr = KinfT * r[i]", "KinfT", s, i, "r[i]", "Kr", dim),
            "    fence();",
            f"    for (int j = 0; j < {s}; j++)",
            "      p[i][j] = q[i][j] + p[i][j] - Kr[j];",
        ]
    setup = "  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);"
    lines = [f"void kernel({parameters(mpc)}) {{", *local, setup, loop, *body, "  }", "  fence();"]
    return "\n".join([*lines, "}"]) + "\n"


def parameters(mpc: TinyMpc) -> str:
    """The kernel's parameters, one array per argument of the workload."""
    return ", ".join(
        f"{'const ' if a.role == 'input' else ''}float {a.name}[{a.shape[0]}][{a.shape[1]}]"
        for a in mpc.arguments()
    )


def _product(
    what: str, matrix: str, rows: int, columns: int, vector: str, result: str, dim: int
) -> Sequence[str]:
    """`result = matrix * vector`, both vectors moved as columns."""
    height, width = (_Extent(n, v, s, dim) for n, v, s in (("h", "m", rows), ("w", "k", columns)))
    add = " | (k > 0 ? ACCUMULATE : 0)" if columns > dim else ""
    return [
        f"    // {what}",
        f"    config_ld({_ELEMENT_BYTES * columns}, 1.0f, {dim}, 0);  // {matrix}",
        f"    config_ld({_ELEMENT_BYTES}, 1.0f, {dim}, 1);  // {vector}",
        f"    config_st({_ELEMENT_BYTES});",
        f"    for (int m = 0; m < {rows}; m += {dim}) {{",
        *height.declaration,
        f"      for (int k = 0; k < {columns}; k += {dim}) {{",
        *(f"  {line}" for line in width.declaration),
        f"        mvin(&{matrix}[m][k], SPAD(0), {width}, {height});",
        f"        mvin2(&{vector}[k], SPAD(SPAD_BANK_ROWS), 1, {width});",
        f"        preload(SPAD(SPAD_BANK_ROWS), ACC(0){add}, 1, {width}, 1, {height});",
        f"        compute_preloaded(SPAD(0), NONE, {width}, {height}, 1, {height});",
        "      }",
        f"      mvout(&{result}[m], ACC(0), 1, {height});",
        "    }",
    ]


class _Extent:
    """The part of a block that one iteration covers: a literal, or a minimum if sizes are not
    multiples of the block.
    """

    def __init__(self, name: str, variable: str, size: int, dim: int) -> None:
        ragged = size > dim and size % dim != 0
        self._text = name if ragged else str(min(size, dim))
        left = f"{size} - {variable}"
        self.declaration = (
            [f"      const int {name} = {left} < {dim} ? {left} : {dim};"] if ragged else []
        )

    def __str__(self) -> str:
        return self._text
