"""The `tuned` baseline: static schedules as an expert writes them by hand for one size.

Which operand stays in the scratchpad is the first choice. A GEMM with fewer rows than columns keeps
A whole and streams B, each block of which is used for all rows. Any other keeps weights (B) in the
lower half of the scratchpad for a panel of output columns, loaded while the first rows are
computed; pixels (A) take turns in the upper half, loaded one step ahead. Each output tile uses the
other half of the accumulator than the one before it, so that it is stored while the next one is
computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.gemm import Gemm
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.naive import parameters


@dataclass(frozen=True)
class _Halves:
    """How the local memories of an instance are divided, in rows."""

    instance: Instance

    @property
    def weights(self) -> int:
        """The lower half of the scratchpad; pixels have as much above."""
        limits = self.instance.limits
        return limits["scratchpad_banks"] * limits["scratchpad_bank_rows"] // 2

    @property
    def sums(self) -> int:
        """Half of the accumulator: the tile in work, or the one that is stored."""
        limits = self.instance.limits
        return limits["accumulator_banks"] * limits["accumulator_bank_rows"] // 2

    def panel(self, columns: int, depth: int) -> int:
        """Columns of weights kept at a time: whole tiles, equal panels, as few as fit; or 0.

        A tile of that many columns is stored by at most as many commands as the queue holds.
        """
        dim, stores = self.instance.dim, self.instance.config["commands_store_entries"]
        fit = min(self.weights * dim // depth, self.sums, stores * self.instance.move_columns)
        if fit < dim:
            return 0
        panels = -(-columns // (fit // dim * dim))
        return _round_up(-(-columns // panels), dim)

    def streamed_panel(self, m: int) -> int:
        """Columns of the output kept at a time while B is streamed: whole moves; or 0."""
        dim, wide = self.instance.dim, self.instance.move_columns
        stores = self.instance.config["commands_store_entries"]
        fit = self.sums // _round_up(m, dim) * dim
        return min(fit // wide, stores) * wide


def tuned_gemm(gemm: Gemm, instance: Instance) -> str | None:
    """C source of the GEMM; None where K is so large that neither A nor two tiles of it fit."""
    halves = _Halves(instance)
    if gemm.m < gemm.n:
        return _keeping_a(gemm, instance, halves) or _keeping_b(gemm, instance, halves)
    return _keeping_b(gemm, instance, halves) or _keeping_a(gemm, instance, halves)


def _keeping_a(gemm: Gemm, instance: Instance, halves: _Halves) -> str | None:
    """All of A in the lower half of the scratchpad, blocks of B in turn in the upper one."""
    m, n, k = gemm.m, gemm.n, gemm.k
    dim, wide, elem = instance.dim, instance.move_columns, instance.element.c
    panel = min(halves.streamed_panel(m), _round_up(n, wide))
    if panel == 0 or _round_up(m, dim) * _round_up(k, dim) // dim > halves.weights:
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
#define A_ROWS(i) SPAD((i) / {dim} * {_round_up(k, dim)})
#define B_ROWS(step) SPAD({halves.weights} + (step) % RING * PANEL)

// Rows {dim} * (step % STEPS) onwards of the panel of columns they belong to.
static inline void load_b(const {elem} B[K][N], int step) {{
  const int j = step / STEPS * PANEL, k = step % STEPS * {dim};
  const int cols = {_least(panel, n, "j")};
  if (j < N)
    for (int jj = 0; jj < cols; jj += {wide})
      mvin2(&B[k][j + jj], B_ROWS(step) + jj, MIN({wide}, cols - jj), {_least(dim, k, "k")});
}}

static inline void load_a(const {elem} A[M][K], int k) {{
  for (int i = 0; i < M; i += {dim})
    mvin(&A[i][k], A_ROWS(i) + k, {_least(wide, k, "k")}, {_least(dim, m, "i")});
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
    const int cols = {_least(panel, n, "j")};
    const uint32_t c = ACC(j / PANEL % 2 * {halves.sums});
    for (int k = 0; k < K; k += {dim}, step++) {{
      const int depth = {_least(dim, k, "k")};
      const uint32_t b = B_ROWS(step);
      load_b(B, step + AHEAD);
      if (j == 0 && k % {wide} == 0 && k + {wide} < K)
        load_a(A, k + {wide});
      for (int jj = 0; jj < cols; jj += {dim}) {{
        const int jcols = {_least(dim, n, "j + jj")};
#pragma GCC unroll 8
        for (int i = 0; i < M; i += {dim}) {{
          const int rows = {_least(dim, m, "i")};
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
              {_least(dim, m, "i")});
  }}
  fence();
}}
"""


def _keeping_b(gemm: Gemm, instance: Instance, halves: _Halves) -> str | None:
    """A panel of B in the lower half of the scratchpad, tiles of A in turn in the upper one."""
    m, n, k = gemm.m, gemm.n, gemm.k
    dim, wide, elem = instance.dim, instance.move_columns, instance.element.c
    depth = _round_up(k, dim)
    panel = halves.panel(n, depth)
    slot = halves.weights // 2
    if depth > slot or panel == 0:
        return None
    rows, ahead = _least(dim, m, "i"), _least(dim, m, f"i + {dim}")
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
    const int cols = {_least(panel, n, "j")};
    for (int k = 0; k < K; k += {wide})
      mvin(&A[0][k], A_ROWS(0) + k, {_least(wide, k, "k")}, {min(dim, m)});
    for (int i = 0; i < M; i += {dim}) {{
      const int rows = {rows};
      const uint32_t a = A_ROWS(i), next = A_ROWS(i + {dim}), c = C_ROWS(i);
      for (int k = 0; k < K; k += {dim}) {{
        const int depth = {_least(dim, k, "k")};
        const uint32_t b = SPAD(k / {dim} * PANEL);
        if (k % {wide} == 0 && i + {dim} < M)
          mvin(&A[i + {dim}][k], next + k, {_least(wide, k, "k")}, {ahead});
        if (i == 0)
          for (int jj = 0; jj < cols; jj += {wide})
            mvin2(&B[k][j + jj], b + jj, MIN({wide}, cols - jj), depth);
#pragma GCC unroll 4
        for (int jj = 0; jj < cols; jj += {dim}) {{
          const int jcols = {_least(dim, n, "j + jj")};
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


def tuned_convolution(conv: Convolution, instance: Instance) -> str | None:
    """C source of the convolution; None where weights or input rows do not fit the scratchpad."""
    dim, wide, halves = instance.dim, instance.move_columns, _Halves(instance)
    depth = conv.size * conv.size * _round_up(conv.channels, dim)
    _, _, input_columns, _ = conv.input_shape
    ring = 1 << (conv.size + conv.stride - 1).bit_length()
    slot = input_columns * _round_up(conv.channels, dim) // dim
    batch, rows, columns, filters = conv.output_shape
    panel = halves.panel(filters, depth)
    if panel == 0 or ring * slot > halves.weights:
        return None
    return f"""\
#define ROWS {rows}  // of the output
#define COLUMNS {columns}
#define WIDE {input_columns}  // columns of the input, border included
#define CHANNELS {conv.channels}
#define FILTERS {filters}
#define SIZE {conv.size}
#define STRIDE {conv.stride}
#define PANEL {panel}  // filters at a time
#define RING {ring}  // input rows kept
#define NEW {min(conv.size, conv.stride)}  // input rows that the next output row adds
#define SLOT {slot}  // scratchpad rows of one input row
#define BLOCKS {_round_up(conv.channels, dim) // dim}
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define PIXELS(row) SPAD({halves.weights} + (row) % RING * SLOT)

static inline void load_row(const elem_t from[WIDE][CHANNELS], uint32_t to) {{
  for (int c = 0; c < CHANNELS; c += {wide})
    for (int x = 0; x < WIDE; x += {dim})
      mvin(&from[x][c], to + c / {dim} * WIDE + x, MIN({wide}, CHANNELS - c), MIN({dim}, WIDE - x));
}}

static inline void load_bias(const acc_t *bias, uint32_t to, int cols) {{
  for (int o = 0; o < cols; o += {wide})
    mvin3(&bias[o], to + o, MIN({wide}, cols - o), {dim});
}}

void kernel({parameters(conv, instance)}) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, STRIDE, 0, 0);
  config_st(FILTERS * sizeof(elem_t));
  config_ld(CHANNELS * sizeof(elem_t), 1.0f, WIDE, 0);
  config_ld(FILTERS * sizeof(elem_t), 1.0f, DIM, 1);
  config_ld(0, 1.0f, DIM, 2);
  for (int p = 0; p < FILTERS; p += PANEL) {{
    const int cols = {_least(panel, filters, "p")};
    uint32_t tile = ACC(0);
    load_bias(&bias[p], tile, cols);
    for (int n = 0; n < {batch}; n++) {{
      for (int y = 0; y < SIZE; y++)
        load_row(input[n][y], PIXELS(y));
      for (int y = 0; y < ROWS; y++) {{
        for (int x = 0; x < COLUMNS; x += {dim}) {{
          const int pixels = {_least(dim, columns, "x")};
          const uint32_t other = tile ^ {halves.sums};
          for (int r = 0; r < SIZE; r++) {{
            const uint32_t row = PIXELS(y * STRIDE + r) + x * STRIDE;
            // while this tile is computed: the next input rows and the next tile's bias
            if (x == 0 && r < NEW && y + 1 < ROWS) {{
              const int ahead = (y + 1) * STRIDE + SIZE - NEW + r;
              load_row(input[n][ahead], PIXELS(ahead));
            }}
            if (r == SIZE - 1)
              load_bias(&bias[p], other, cols);
            for (int t = 0; t < SIZE; t++)
              for (int c = 0; c < CHANNELS; c += {dim}) {{
                const int depth = {_least(dim, conv.channels, "c")};
                const uint32_t b = SPAD(((r * SIZE + t) * BLOCKS + c / {dim}) * PANEL);
                if (n == 0 && y == 0 && x == 0)
                  for (int o = 0; o < cols; o += {wide})
                    mvin2(&weights[r][t][c][p + o], b + o, MIN({wide}, cols - o), depth);
#pragma GCC unroll 4
                for (int o = 0; o < cols; o += {dim}) {{
                  const int ocols = {_least(dim, filters, "p + o")};
                  preload(b + o, (tile + o) | ACCUMULATE, ocols, depth, ocols, pixels);
                  compute_preloaded(row + c / {dim} * WIDE + t, NONE, depth, pixels, ocols, pixels);
                }}
              }}
          }}
          for (int o = 0; o < cols; o += {wide})
            mvout(&output[n][y][x][p + o], tile + o, MIN({wide}, cols - o), pixels);
          tile = other;
        }}
      }}
    }}
  }}
  fence();
}}
"""


def _least(step: int, size: int, start: str) -> str:
    """C for how much of a step from `start` lies inside `size`: a literal where always the same."""
    if size % step == 0 or size <= step:
        return str(min(step, size))
    return f"MIN({step}, {size} - ({start}))"


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
