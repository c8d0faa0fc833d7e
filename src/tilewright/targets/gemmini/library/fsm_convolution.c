/* A convolution by the hardware loop unroller, as a vendor's library drives it: tile sizes chosen
   when it is called, one loop per tile, the next one loaded while the last one is computed. */
#include "gemmini_loops.h"

#define MAX_OPERAND_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2) /* each of two loops has half */
#define MAX_RESULT_ROWS (ACC_BANKS * ACC_BANK_ROWS / 2)

typedef struct {
  int batch, height, width, channels; /* of the input, border included */
  int rows, columns, filters;         /* of the output */
  int size, stride;
} Shape;

/* Of one loop: output rows and columns, channels, filters, and rows of the kernel. */
typedef struct {
  int rows, columns, channels, filters, kernel_rows;
} Tile;

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }

/* Input rows or columns that the unroller takes for so many of the output and of the kernel. */
static inline int covered(const Shape *s, int outputs, int kernel) {
  return outputs * s->stride + kernel - 1;
}

static int fits(const Shape *s, const Tile *t) {
  const int pixels = covered(s, t->rows, t->kernel_rows) * covered(s, t->columns, s->size) *
                     blocks(t->channels);
  const int weights = t->kernel_rows * s->size * t->channels * blocks(t->filters);
  return pixels + weights <= MAX_OPERAND_ROWS &&
         t->rows * t->columns * blocks(t->filters) <= MAX_RESULT_ROWS;
}

/* One more step in one dimension, taken back where it does not fit. */
static int grow(const Shape *s, Tile *t, int *extent, int step, int limit) {
  const int before = *extent;
  *extent = min(before + step, limit);
  if (*extent > before && fits(s, t)) return 1;
  *extent = before;
  return 0;
}

/* Pixels and filters in turn, so that each weight and pixel loaded is used often; whole rows of
   pixels first, since a row's end leaves part of the array idle. Then as many channels as fit. */
static Tile choose_tile(const Shape *s) {
  Tile t = {1, min(DIM, s->columns), min(DIM, s->channels), min(DIM, s->filters), s->size};
  while (!fits(s, &t) && t.kernel_rows > 1) t.kernel_rows--;
  while (!fits(s, &t) && t.columns > 1) t.columns--;
  while (grow(s, &t, &t.columns, DIM, s->columns)) continue;
  for (int grown = 1; grown;) {
    grown = grow(s, &t, &t.filters, DIM, s->filters);
    grown |= grow(s, &t, &t.rows, 1, s->rows);
  }
  while (grow(s, &t, &t.channels, DIM, s->channels)) continue;
  return t;
}

static void run_tile(const Shape *s, const Tile *t, const elem_t *input, const elem_t *weights,
                     const acc_t *bias, elem_t *output, int y, int x) {
  /* The unroller takes more of the input than there may be: zeros, which no product uses. */
  const int down = max(0, y + covered(s, t->rows, t->kernel_rows) - s->height);
  const int right = max(0, x + covered(s, t->columns, s->size) - s->width);
  loop_conv_ws_arrays(s->height, s->channels, s->stride, s->columns, s->rows);
  loop_conv_ws_tile(s->size, 1, t->filters);
  loop_conv_ws_kernel(t->kernel_rows, s->size, t->channels, 0, right, 0, down, s->width);
  loop_conv_ws_strides(t->rows, 1, s->channels, s->filters, s->filters, t->columns);
  loop_conv_ws_addresses(weights, output, bias, input);
  loop_conv_ws(0);
}

/* One tile of the output by all channels and kernel rows: a loop for each part of the sum. */
static void sum_tile(const Shape *s, const Tile *most, Tile t, const elem_t *input,
                     const elem_t *weights, const acc_t *bias, elem_t *output, int y, int x) {
  for (int c = 0; c < s->channels; c += most->channels)
    for (int r = 0; r < s->size; r += most->kernel_rows) {
      t.channels = min(most->channels, s->channels - c);
      t.kernel_rows = min(most->kernel_rows, s->size - r);
      const int is_last = c + t.channels == s->channels && r + t.kernel_rows == s->size;
      run_tile(s, &t, input + ((int64_t)(y + r) * s->width + x) * s->channels + c,
               weights + ((int64_t)r * s->size * s->channels + c) * s->filters,
               c == 0 && r == 0 ? bias : 0, is_last ? output : 0, y + r, x);
    }
}

static void convolve(const Shape *s, const elem_t *input, const elem_t *weights,
                     const acc_t *bias, elem_t *output) {
  const Tile most = choose_tile(s);
  const int64_t image = (int64_t)s->height * s->width * s->channels;
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, s->stride, 0, 0);
  config_st(s->filters * sizeof(elem_t));
  for (int n = 0; n < s->batch; n++)
    for (int y = 0; y < s->rows; y += most.rows)
      for (int x = 0; x < s->columns; x += most.columns)
        for (int o = 0; o < s->filters; o += most.filters) {
          Tile t = most;
          t.rows = min(most.rows, s->rows - y);
          t.columns = min(most.columns, s->columns - x);
          t.filters = min(most.filters, s->filters - o);
          sum_tile(s, &most, t, input + n * image, weights + o, bias + o,
                   output + (((int64_t)n * s->rows + y) * s->columns + x) * s->filters + o,
                   y * s->stride, x * s->stride);
        }
  fence();
}
