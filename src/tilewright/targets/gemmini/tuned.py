"""The `tuned` baseline of GEMMs: static schedules as an expert writes them by hand for one size.

If a GEMM has fewer rows than columns, all of A stays in the scratchpad, and B is loaded block by
block. Each block of B is used for all rows. Otherwise, the weights (B) of a panel of output columns
stay in the lower half of the scratchpad, and are loaded while the first rows are computed. The
pixels (A) are loaded one step ahead into two buffers in the upper half. Consecutive output tiles
use different halves of the accumulator, so that one is stored while the next one is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.instance import Instance


@dataclass(frozen=True)
class Halves:
    """How the local memories of an instance are divided, in rows."""

    instance: Instance

    @property
    def weights(self) -> int:
        """The lower half of the scratchpad; the upper half is for pixels."""
        limits = self.instance.limits
        return limits["scratchpad_banks"] * limits["scratchpad_bank_rows"] // 2

    @property
    def sums(self) -> int:
        """Half of the accumulator, for the tile that is computed or the one that is stored."""
        limits = self.instance.limits
        return limits["accumulator_banks"] * limits["accumulator_bank_rows"] // 2

    def panel(self, columns: int, depth: int, most: int) -> int:
        """Number of columns of weights in the scratchpad at a time, so that as few equal panels of
        whole tiles as possible result; 0 if none fits.
        """
        dim = self.instance.dim
        fit = min(self.weights * dim // depth, most)
        if fit < dim:
            return 0
        panels = -(-columns // (fit // dim * dim))
        return round_up(-(-columns // panels), dim)

    def streamed_panel(self, m: int) -> int:
        """Number of output columns in the accumulator at a time while B is loaded block by block,
        which is a multiple of the widest move; 0 if none fits.
        """
        dim, wide = self.instance.dim, self.instance.move_columns
        stores = self.instance.config["commands_store_entries"]
        fit = self.sums // round_up(m, dim) * dim
        return min(fit // wide, stores) * wide


def tuned_gemm(gemm: Gemm, instance: Instance) -> str | None:
    """C source of the GEMM; None if K is so large that neither A nor two of its tiles fit."""
    halves = Halves(instance)
    if gemm.m < gemm.n:
        return _keeping_a(gemm, instance, halves) or _keeping_b(gemm, instance, halves)
    return _keeping_b(gemm, instance, halves) or _keeping_a(gemm, instance, halves)


def _keeping_a(gemm: Gemm, instance: Instance, halves: Halves) -> str | None:
    """The kernel with all of A in the lower half of the scratchpad, and blocks of B alternating in
    the upper half.
    """
    m, n, k = gemm.m, gemm.n, gemm.k
    dim, wide, elem = instance.dim, instance.move_columns, instance.element.c
    panel = min(halves.streamed_panel(m), round_up(n, wide))
    if panel == 0 or round_up(m, dim) * round_up(k, dim) // dim > halves.weights:
        return None
    ring = 1 << (min(halves.weights // panel, 16).bit_length() - 1)
    return f"""\
#define M {m}
#define N {n}
#define K {k}
#define PANEL {panel}  // columns of C at a time
#define RING {ring}  // blocks of {dim} rows of B kept
#define AHEAD {ring // 2}  // of them loaded before they are used
#define STEPS {-(-k // dim)}  // such blocks in B
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define A_ROWS(i) SPAD((i) / {dim} * {round_up(k, dim)})
#define B_ROWS(step) SPAD({halves.weights} + (step) % RING * PANEL)

// Rows {dim} * (step % STEPS) onwards of the panel of columns they belong to.
static inline void load_b(const {elem} B[K][N], int step) {{
  const int j = step / STEPS * PANEL, k = step % STEPS * {dim};
  const int cols = {least(panel, n, "j")};
  if (j < N)
    for (int jj = 0; jj < cols; jj += {wide})
      mvin2(&B[k][j + jj], B_ROWS(step) + jj, MIN({wide}, cols - jj), {least(dim, k, "k")});
}}

static inline void load_a(const {elem} A[M][K], int k) {{
  for (int i = 0; i < M; i += {dim})
    mvin(&A[i][k], A_ROWS(i) + k, {least(wide, k, "k")}, {least(dim, m, "i")});
}}

void kernel(const {elem} A[M][K], const {elem} B[K][N], {elem} C[M][N]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N * sizeof(elem_t));
  config_ld(K * sizeof(elem_t), 1.0f, DIM, 0);
  config_ld(N * sizeof(elem_t), 1.0f, DIM, 1);
  load_a(A, 0);
  for (int step = 0; step < AHEAD; step++)
    load_b(B, step);
  int step = 0;
  for (int j = 0; j < N; j += PANEL) {{
    const int cols = {least(panel, n, "j")};
    const uint32_t c = ACC(j / PANEL % 2 * {halves.sums});
    for (int k = 0; k < K; k += {dim}, step++) {{
      const int depth = {least(dim, k, "k")};
      const uint32_t b = B_ROWS(step);
      load_b(B, step + AHEAD);
      if (j == 0 && k % {wide} == 0 && k + {wide} < K)
        load_a(A, k + {wide});
      for (int jj = 0; jj < cols; jj += {dim}) {{
        const int jcols = {least(dim, n, "j + jj")};
#pragma GCC unroll 8
        for (int i = 0; i < M; i += {dim}) {{
          const int rows = {least(dim, m, "i")};
          const uint32_t to = (c + i * (PANEL / {dim}) + jj) | (k == 0 ? 0 : ACCUMULATE);
          preload(i == 0 ? b + jj : NONE, to, jcols, depth, jcols, rows);
          if (i == 0) compute_preloaded(A_ROWS(i) + k, NONE, depth, rows, jcols, rows);
          else compute_accumulated(A_ROWS(i) + k, NONE, depth, rows, jcols, rows);
        }}
      }}
    }}
    for (int i = 0; i < M; i += {dim})
      for (int jj = 0; jj < cols; jj += {wide})
        mvout(&C[i][j + jj], c + i * (PANEL / {dim}) + jj, MIN({wide}, cols - jj),
              {least(dim, m, "i")});
  }}
  fence();
}}
"""


def _keeping_b(gemm: Gemm, instance: Instance, halves: Halves) -> str | None:
    """The kernel with a panel of B in the lower half of the scratchpad, and tiles of A alternating
    in the upper half.
    """
    m, n, k = gemm.m, gemm.n, gemm.k
    dim, wide, elem = instance.dim, instance.move_columns, instance.element.c
    depth = round_up(k, dim)
    # A tile of C is stored by at most as many commands as fit into their queue.
    most = min(halves.sums, instance.config["commands_store_entries"] * instance.move_columns)
    panel = halves.panel(n, depth, most)
    slot = halves.weights // 2
    if depth > slot or panel == 0:
        return None
    rows, ahead = least(dim, m, "i"), least(dim, m, f"i + {dim}")
    return f"""\
#define M {m}
#define N {n}
#define K {k}
#define PANEL {panel}  // columns of B and C at a time
#define MIN(a, b) ((a) < (b) ? (a) : (b))
// rows of A and tiles of C in turn: one half for even, the other for odd tiles
#define A_ROWS(i) SPAD({halves.weights} + (i) % {2 * dim} * {slot // dim})
#define C_ROWS(i) ACC((i) % {2 * dim} * {halves.sums // dim})

void kernel(const {elem} A[M][K], const {elem} B[K][N], {elem} C[M][N]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N * sizeof(elem_t));
  config_ld(K * sizeof(elem_t), 1.0f, DIM, 0);
  config_ld(N * sizeof(elem_t), 1.0f, DIM, 1);
  for (int j = 0; j < N; j += PANEL) {{
    const int cols = {least(panel, n, "j")};
    for (int k = 0; k < K; k += {wide})
      mvin(&A[0][k], A_ROWS(0) + k, {least(wide, k, "k")}, {min(dim, m)});
    for (int i = 0; i < M; i += {dim}) {{
      const int rows = {rows};
      const uint32_t a = A_ROWS(i), next = A_ROWS(i + {dim}), c = C_ROWS(i);
      for (int k = 0; k < K; k += {dim}) {{
        const int depth = {least(dim, k, "k")};
        const uint32_t b = SPAD(k / {dim} * PANEL);
        if (k % {wide} == 0 && i + {dim} < M)
          mvin(&A[i + {dim}][k], next + k, {least(wide, k, "k")}, {ahead});
        if (i == 0)
          for (int jj = 0; jj < cols; jj += {wide})
            mvin2(&B[k][j + jj], b + jj, MIN({wide}, cols - jj), depth);
#pragma GCC unroll 4
        for (int jj = 0; jj < cols; jj += {dim}) {{
          const int jcols = {least(dim, n, "j + jj")};
          preload(b + jj, (c + jj) | (k == 0 ? 0 : ACCUMULATE), jcols, depth, jcols, rows);
          compute_preloaded(a + k, NONE, depth, rows, jcols, rows);
        }}
      }}
      for (int jj = 0; jj < cols; jj += {wide})
        mvout(&C[i][j + jj], c + jj, MIN({wide}, cols - jj), rows);
    }}
  }}
  fence();
}}
"""


def least(step: int, size: int, start: str) -> str:
    """The C expression for the part of a step from `start` that is inside `size`; a literal if it
    is always the same.
    """
    if size % step == 0 or size <= step:
        return str(min(step, size))
    return f"MIN({step}, {size} - ({start}))"


def round_up(value: int, step: int) -> int:
    """The least multiple of `step` that is not below `value`."""
    return -(-value // step) * step
