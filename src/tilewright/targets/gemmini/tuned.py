"""The `tuned` baseline: static schedules as an expert writes them by hand for one size.

Weights (B) stay in the lower two scratchpad banks for a panel of output columns and are loaded
while the first rows are computed; pixels (A) take turns in the upper two, loaded one step ahead;
each output tile uses the other accumulator bank than the one before it, so that it is stored while
the next one is computed.
"""

from __future__ import annotations

from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.naive import parameters

_TILE = 16
_WEIGHT_ROWS = 8192  # scratchpad rows of two banks
_PIXEL_ROWS = 8192
_BANK_ROWS = 4096
_MAX_PANEL = 256  # columns: four stores per tile, as many as the store queue holds


def tuned_gemm(m: int, n: int, k: int) -> str | None:
    """C source of the GEMM; None where K is so large that 16 rows of A do not fit a bank."""
    depth = _round_up(k, _TILE)
    if depth > _BANK_ROWS:
        return None
    panel = _panel(n, depth)
    rows, ahead = _least(_TILE, m, "i"), _least(_TILE, m, "i + 16")
    return f"""\
#define M {m}
#define N {n}
#define K {k}
#define PANEL {panel}  // columns of B and C at a time
#define MIN(a, b) ((a) < (b) ? (a) : (b))

void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  for (int j = 0; j < N; j += PANEL) {{
    const int cols = {_least(panel, n, "j")};
    for (int k = 0; k < K; k += 64)
      mvin(&A[0][k], SPAD(2 * SPAD_BANK_ROWS + k), {_least(64, k, "k")}, {min(_TILE, m)});
    for (int i = 0; i < M; i += 16) {{
      const int rows = {rows};
      // rows of A and tiles of C in turn: one bank for even, the other for odd tiles
      const uint32_t a = SPAD(2 * SPAD_BANK_ROWS + i % 32 * (SPAD_BANK_ROWS / 16));
      const uint32_t next = SPAD(2 * SPAD_BANK_ROWS + (i + 16) % 32 * (SPAD_BANK_ROWS / 16));
      const uint32_t c = ACC(i % 32 * (ACC_BANK_ROWS / 16));
      for (int k = 0; k < K; k += 16) {{
        const int depth = {_least(_TILE, k, "k")};
        const uint32_t b = SPAD(k / 16 * PANEL);
        if (k % 64 == 0 && i + 16 < M)
          mvin(&A[i + 16][k], next + k, {_least(64, k, "k")}, {ahead});
        if (i == 0)
          for (int jj = 0; jj < cols; jj += 64)
            mvin2(&B[k][j + jj], b + jj, MIN(64, cols - jj), depth);
#pragma GCC unroll 4
        for (int jj = 0; jj < cols; jj += 16) {{
          const int jcols = {_least(_TILE, n, "j + jj")};
          preload(b + jj, (c + jj) | (k == 0 ? 0 : ACCUMULATE), jcols, depth, jcols, rows);
          compute_preloaded(a + k, NONE, depth, rows, jcols, rows);
        }}
      }}
      for (int jj = 0; jj < cols; jj += 64)
        mvout(&C[i][j + jj], c + jj, MIN(64, cols - jj), rows);
    }}
  }}
  fence();
}}
"""


def tuned_convolution(conv: Convolution) -> str | None:
    """C source of the convolution; None where weights or input rows do not fit the scratchpad."""
    depth = conv.size * conv.size * _round_up(conv.channels, _TILE)
    _, _, input_columns, _ = conv.input_shape
    ring = 1 << (conv.size + conv.stride - 1).bit_length()
    slot = input_columns * _round_up(conv.channels, _TILE) // _TILE
    if depth > _WEIGHT_ROWS or ring * slot > _PIXEL_ROWS:
        return None
    batch, rows, columns, filters = conv.output_shape
    panel = _panel(filters, depth)
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
#define BLOCKS {_round_up(conv.channels, _TILE) // _TILE}
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define PIXELS(row) SPAD(2 * SPAD_BANK_ROWS + (row) % RING * SLOT)

static inline void load_row(const int8_t from[WIDE][CHANNELS], uint32_t to) {{
  for (int c = 0; c < CHANNELS; c += 64)
    for (int x = 0; x < WIDE; x += 16)
      mvin(&from[x][c], to + c / 16 * WIDE + x, MIN(64, CHANNELS - c), MIN(16, WIDE - x));
}}

static inline void load_bias(const int32_t *bias, uint32_t to, int cols) {{
  for (int o = 0; o < cols; o += 64)
    mvin3(&bias[o], to + o, MIN(64, cols - o), 16);
}}

void kernel({parameters(conv)}) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, STRIDE, 0, 0);
  config_st(FILTERS);
  config_ld(CHANNELS, 1.0f, WIDE, 0);
  config_ld(FILTERS, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int p = 0; p < FILTERS; p += PANEL) {{
    const int cols = {_least(panel, filters, "p")};
    uint32_t tile = ACC(0);
    load_bias(&bias[p], tile, cols);
    for (int n = 0; n < {batch}; n++) {{
      for (int y = 0; y < SIZE; y++)
        load_row(input[n][y], PIXELS(y));
      for (int y = 0; y < ROWS; y++) {{
        for (int x = 0; x < COLUMNS; x += 16) {{
          const int pixels = {_least(_TILE, columns, "x")};
          const uint32_t other = tile ^ ACC_BANK_ROWS;
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
              for (int c = 0; c < CHANNELS; c += 16) {{
                const int depth = {_least(_TILE, conv.channels, "c")};
                const uint32_t b = SPAD(((r * SIZE + t) * BLOCKS + c / 16) * PANEL);
                if (n == 0 && y == 0 && x == 0)
                  for (int o = 0; o < cols; o += 64)
                    mvin2(&weights[r][t][c][p + o], b + o, MIN(64, cols - o), depth);
#pragma GCC unroll 4
                for (int o = 0; o < cols; o += 16) {{
                  const int ocols = {_least(_TILE, filters, "p + o")};
                  preload(b + o, (tile + o) | ACCUMULATE, ocols, depth, ocols, pixels);
                  compute_preloaded(row + c / 16 * WIDE + t, NONE, depth, pixels, ocols, pixels);
                }}
              }}
          }}
          for (int o = 0; o < cols; o += 64)
            mvout(&output[n][y][x][p + o], tile + o, MIN(64, cols - o), pixels);
          tile = other;
        }}
      }}
    }}
  }}
  fence();
}}
"""


def _panel(columns: int, depth: int) -> int:
    """Columns of weights kept at a time: whole tiles, equal panels, as few as fit."""
    most = min(_WEIGHT_ROWS * _TILE // depth, _MAX_PANEL) // _TILE * _TILE
    panels = -(-columns // most)
    return _round_up(-(-columns // panels), _TILE)


def _least(step: int, size: int, start: str) -> str:
    """C for how much of a step from `start` lies inside `size`: a literal where always the same."""
    if size % step == 0 or size <= step:
        return str(min(step, size))
    return f"MIN({step}, {size} - ({start}))"


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
