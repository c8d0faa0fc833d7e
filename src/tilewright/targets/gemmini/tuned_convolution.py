"""The `tuned` baseline of convolutions: a static schedule as an expert writes it by hand.

Weights of a panel of filters stay in the lower half of the scratchpad. The output is computed in
tiles of pixels, each from a patch of the input in one of two buffers of the upper half. A block of
weights is loaded into the array once for all pixels of a tile, so that each of the following passes
takes one cycle per pixel. While a tile is computed, the previous tile is stored, and the patch and
the bias of the next tile are loaded, with one or two commands in every step.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.naive import parameters
from tilewright.targets.gemmini.tuned import Halves, least, round_up

_LEAST_BLOCKS = 4
"""Minimum number of blocks of pixels in a tile, so that weights in the array are used often."""


@dataclass(frozen=True)
class _Tile:
    """Output rows and columns of a tile."""

    rows: int
    columns: int

    def patch(self, conv: Convolution) -> tuple[int, int]:
        """Rows and columns of the input from which it is computed."""
        return (
            (self.rows - 1) * conv.stride + conv.size,
            (self.columns - 1) * conv.stride + conv.size,
        )


def tuned_convolution(conv: Convolution, instance: Instance) -> str | None:
    """C source of the convolution; None if weights or a patch do not fit into the scratchpad."""
    dim, wide, halves = instance.dim, instance.move_columns, Halves(instance)
    blocks = round_up(conv.channels, dim) // dim
    batch, rows, columns, filters = conv.output_shape
    panel = halves.panel(filters, conv.size**2 * blocks * dim, most=halves.sums // _LEAST_BLOCKS)
    tile = _choose_tile(conv, halves, panel)
    if tile is None:
        return None
    high, across = tile.patch(conv)
    stores = tile.rows * -(-tile.columns // dim) * -(-panel // wide)
    steps = conv.size**2 * blocks
    loads = high * -(-across // dim) * -(-conv.channels // wide)
    return f"""\
#define ROWS {rows}  // of the output
#define COLUMNS {columns}
#define FILTERS {filters}
#define HEIGHT {conv.input_shape[1]}  // of the input, border included
#define WIDTH {conv.input_shape[2]}
#define CHANNELS {conv.channels}
#define SIZE {conv.size}
#define STRIDE {conv.stride}
#define PANEL {panel}  // filters at a time
#define TILE_ROWS {tile.rows}  // pixels of the output at a time
#define TILE_COLUMNS {tile.columns}
#define HIGH {high}  // input pixels that they need
#define ACROSS {across}
#define BLOCKS {blocks}  // of channels
#define STORES {stores}  // commands that store a tile, and that load its bias
#define LOADS {loads}  // commands that load a patch
#define STEPS {steps}  // blocks of weights per block of filters
#define SIDE {-(-(2 * stores + loads) // steps)}  // commands beside the products of a step
#define MIN(a, b) ((a) < (b) ? (a) : (b))
// tiles take turns
#define PATCH(turn) SPAD({halves.weights} + ((turn) & 1) * {halves.weights // 2})
#define SUMS(turn) ACC(((turn) & 1) * {halves.sums})
#define WEIGHTS(step) SPAD((step) * PANEL)
// a block of {dim} pixels by PANEL filters
#define SUM_BLOCK(block) ((block) * PANEL)

typedef struct {{
  int p, n, y, x;  // first filter, image, first row and column
  int turn;
}} Tile;

static inline Tile after(Tile tile) {{
  tile.turn++;
  if ((tile.x += TILE_COLUMNS) < COLUMNS) return tile;
  tile.x = 0;
  if ((tile.y += TILE_ROWS) < ROWS) return tile;
  tile.y = 0;
  if (++tile.n < {batch}) return tile;
  tile.n = 0;
  tile.p += PANEL;
  return tile;
}}

// How far a tile's commands have come: rows, pixels of a row, channels.
typedef struct {{
  int y, x, c;
}} Place;

static inline void load_patch(const elem_t input[][HEIGHT][WIDTH][CHANNELS], const Tile *tile,
                              Place *at) {{
  const int y = tile->y * STRIDE + at->y, x = tile->x * STRIDE + at->x;
  if (y < HEIGHT && x < WIDTH)
    mvin(&input[tile->n][y][x][at->c],
         PATCH(tile->turn) + at->c / {dim} * (HIGH * ACROSS) + at->y * ACROSS + at->x,
         {least(wide, conv.channels, "at->c")}, MIN({least(dim, across, "at->x")}, WIDTH - x));
  if ((at->c += {wide}) < CHANNELS) return;
  at->c = 0;
  if ((at->x += {dim}) < ACROSS) return;
  at->x = 0;
  at->y++;
}}

static inline void load_bias(const acc_t *bias, const Tile *tile, Place *at) {{
  if (tile->p + at->c < FILTERS)
    mvin3(&bias[tile->p + at->c], SUMS(tile->turn) + SUM_BLOCK(at->x) + at->c,
          MIN({least(wide, panel, "at->c")}, FILTERS - tile->p - at->c), {min(dim, tile.columns)});
  if ((at->c += {wide}) < PANEL) return;
  at->c = 0;
  at->x++;
}}

static inline void store(elem_t output[][ROWS][COLUMNS][FILTERS], const Tile *tile, Place *at) {{
  const int y = tile->y + at->y, x = tile->x + at->x, o = tile->p + at->c;
  if (y < ROWS && x < COLUMNS && o < FILTERS)
    mvout(&output[tile->n][y][x][o],
          SUMS(tile->turn) + SUM_BLOCK(at->y * {-(-tile.columns // dim)} + at->x / {dim}) + at->c,
          MIN({least(wide, panel, "at->c")}, FILTERS - o),
          MIN({least(dim, tile.columns, "at->x")}, COLUMNS - x));
  if ((at->c += {wide}) < PANEL) return;
  at->c = 0;
  if ((at->x += {dim}) < TILE_COLUMNS) return;
  at->x = 0;
  at->y++;
}}

static inline void load_weights(const elem_t weights[SIZE][SIZE][CHANNELS][FILTERS], int p,
                                int step) {{
  const int position = step / BLOCKS, c = step % BLOCKS * {dim};
  const int cols = {least(panel, filters, "p")};
  for (int o = 0; o < cols; o += {wide})
    mvin2(&weights[position / SIZE][position % SIZE][c][p + o], WEIGHTS(step) + o,
          MIN({wide}, cols - o), {least(dim, conv.channels, "c")});
}}

// Pixels by the weights at b, or by those in the array.
static inline void multiply(uint32_t b, uint32_t a, uint32_t to, int depth, int cols, int pixels) {{
  preload(b, to, cols, depth, cols, pixels);
  if (b == NONE) compute_accumulated(a, NONE, depth, pixels, cols, pixels);
  else compute_preloaded(a, NONE, depth, pixels, cols, pixels);
}}

void kernel({parameters(conv, instance)}) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, STRIDE, 0, 0);
  config_st(FILTERS * sizeof(elem_t));
  config_ld(CHANNELS * sizeof(elem_t), 1.0f, HIGH * ACROSS, 0);
  config_ld(FILTERS * sizeof(elem_t), 1.0f, DIM, 1);
  config_ld(0, 1.0f, DIM, 2);
  Tile tile = {{0, 0, 0, 0, 0}}, before = tile;
  Place patch = {{0, 0, 0}}, begun = patch;
  for (int i = 0; i < LOADS; i++)
    load_patch(input, &tile, &patch);
  for (int i = 0; i < STORES; i++)
    load_bias(bias, &tile, &begun);
  while (tile.p < FILTERS) {{
    const Tile next = after(tile);
    const int cols = {least(panel, filters, "tile.p")};
    const int is_first_of_panel = tile.n == 0 && tile.y == 0 && tile.x == 0;
    const int rows = {least(tile.rows, rows, "tile.y")};
    const int columns = {least(tile.columns, columns, "tile.x")};
    Place stored = {{0, 0, 0}};
    int job = tile.turn == 0 ? STORES : 0, step = 0;
    patch = begun = stored;
    if (is_first_of_panel) load_weights(weights, tile.p, 0);
    for (int r = 0; r < SIZE; r++)
      for (int t = 0; t < SIZE; t++)
        for (int c = 0; c < CHANNELS; c += {dim}, step++) {{
          const int depth = {least(dim, conv.channels, "c")};
          const uint32_t from =
              PATCH(tile.turn) + c / {dim} * (HIGH * ACROSS) + r * ACROSS + t;
          if (is_first_of_panel && step + 1 < STEPS) load_weights(weights, tile.p, step + 1);
          for (int i = 0; i < SIDE; i++, job++) {{
            if (job < STORES) {{
              store(output, &before, &stored);
            }} else if (next.p < FILTERS) {{
              if (job < STORES + LOADS) load_patch(input, &next, &patch);
              else if (job < STORES + LOADS + STORES) load_bias(bias, &next, &begun);
            }}
          }}
          for (int o = 0; o < cols; o += {dim}) {{
            const int ocols = {least(dim, filters, "tile.p + o")};
            const uint32_t to = (SUMS(tile.turn) + o) | ACCUMULATE;
            uint32_t b = WEIGHTS(step) + o, a = from;
#pragma GCC unroll 8
            for (int y = 0; y < rows; y++, a += STRIDE * ACROSS) {{
              const uint32_t sums = to + SUM_BLOCK(y * {-(-tile.columns // dim)});
              int x = 0;
#pragma GCC unroll 8
              for (; x + {dim} <= columns; x += {dim}, b = NONE)
                multiply(b, a + x * STRIDE, sums + SUM_BLOCK(x / {dim}), depth, ocols, {dim});
              if (x < columns)
                multiply(b, a + x * STRIDE, sums + SUM_BLOCK(x / {dim}), depth, ocols,
                         columns - x);
              b = NONE;
            }}
          }}
        }}
    before = tile;
    tile = next;
  }}
  Place stored = {{0, 0, 0}};
  for (int i = 0; i < STORES; i++)
    store(output, &before, &stored);
  fence();
}}
"""


def _choose_tile(conv: Convolution, halves: Halves, panel: int) -> _Tile | None:
    """The tile for which the input is moved with the fewest commands; None if no tile fits. The
    sums of a tile must fit into half of the accumulator, and its patch into half of the memory for
    pixels.
    """
    dim = halves.instance.dim
    _, rows, columns, _ = conv.output_shape
    blocks = round_up(conv.channels, dim) // dim

    def fits(tile: _Tile) -> bool:
        high, across = tile.patch(conv)
        sums = tile.rows * round_up(tile.columns, dim) // dim * panel
        return 0 < sums <= halves.sums and high * across * blocks <= halves.weights // 2

    def commands(tile: _Tile) -> int:
        high, across = tile.patch(conv)
        tiles = -(-rows // tile.rows) * -(-columns // tile.columns)
        return tiles * high * -(-across // dim)

    widths = {min(round_up(-(-columns // parts), dim), columns) for parts in range(1, columns + 1)}
    tiles = []
    for width in sorted(widths, reverse=True):
        high = max((y for y in range(1, rows + 1) if fits(_Tile(y, width))), default=0)
        if high:
            tiles.append(_Tile(-(-rows // -(-rows // high)), width))
    return min(tiles, key=commands, default=None)
