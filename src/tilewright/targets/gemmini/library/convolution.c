/* A tiled convolution as a vendor's library has it: one routine for all sizes. Loop order is fixed,
   tile sizes are chosen when it is called, and every bound and address is computed at run time. */

#define MAX_PIXEL_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2) /* pixels in the lower half, weights in the upper one */
#define MAX_WEIGHT_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2)
#define MAX_OUTPUT_ROWS (ACC_BANKS * ACC_BANK_ROWS)

typedef struct {
  int batch, height, width, channels;   /* of the input, border included */
  int rows, columns, filters;           /* of the output */
  int size, stride;
} Shape;

/* Output rows and columns, blocks of channels and blocks of filters. */
typedef struct {
  int rows, columns, channels, filters;
} Tile;

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }
static inline int covered(const Shape *s, int outputs) { return (outputs - 1) * s->stride + s->size; }

static int fits(const Shape *s, const Tile *t) {
  const int pixels = covered(s, t->rows) * covered(s, t->columns) * t->channels;
  const int weights = s->size * s->size * t->channels * t->filters * DIM;
  const int outputs = t->rows * t->columns * t->filters;
  return pixels <= MAX_PIXEL_ROWS && weights <= MAX_WEIGHT_ROWS && outputs <= MAX_OUTPUT_ROWS;
}

/* One more step in one dimension, taken back where it does not fit. */
static int grow(const Shape *s, Tile *t, int *extent, int step, int limit) {
  const int before = *extent;
  if (before == limit) return 0;
  *extent = min(before + step, limit);
  if (fits(s, t)) return 1;
  *extent = before;
  return 0;
}

static Tile choose_tile(const Shape *s) {
  Tile t = {1, min(DIM, s->columns), 1, 1};
  for (int grown = 1; grown;) {
    grown = grow(s, &t, &t.filters, 1, blocks(s->filters));
    grown |= grow(s, &t, &t.channels, 1, blocks(s->channels));
    grown |= grow(s, &t, &t.rows, 1, s->rows);
    grown |= grow(s, &t, &t.columns, DIM, s->columns);
  }
  return t;
}

/* A rows x columns patch of pixels: pixel (y, x) of channel block c at c * patch + y * columns + x. */
static void load_pixels(const Shape *s, const elem_t *from, int rows, int columns, int channels) {
  config_ld(s->channels * sizeof(elem_t), 1.0f, rows * columns, 0);
  for (int c = 0; c < channels; c += MAX_COLUMNS)
    for (int y = 0; y < rows; y++)
      for (int x = 0; x < columns; x += DIM)
        mvin(from + ((int64_t)y * s->width + x) * s->channels + c,
             SPAD(c / DIM * rows * columns + y * columns + x), min(MAX_COLUMNS, channels - c),
             min(DIM, columns - x));
}

static void load_weights(const Shape *s, const elem_t *from, int channels, int filters, int tf) {
  for (int position = 0; position < s->size * s->size; position++)
    for (int c = 0; c < channels; c += DIM)
      for (int o = 0; o < filters; o += MAX_COLUMNS)
        mvin2(from + ((int64_t)position * s->channels + c) * s->filters + o,
              SPAD(MAX_PIXEL_ROWS + (position * blocks(channels) * DIM + c) * tf + o),
              min(MAX_COLUMNS, filters - o), min(DIM, channels - c));
}

/* Output pixel (y, x) of filter block o at o * tile + y * columns + x, which begins as the bias. */
static void load_bias(const acc_t *bias, int pixels, int filters) {
  config_ld(0, 1.0f, pixels, 2);
  for (int o = 0; o < filters; o += MAX_COLUMNS)
    for (int p = 0; p < pixels; p += DIM)
      mvin3(bias + o, ACC(o / DIM * pixels + p), min(MAX_COLUMNS, filters - o), min(DIM, pixels - p));
}

/* All pixels of a tile by one block of weights, which stays in the array after the first product. */
static void multiply_block(const Shape *s, uint32_t weights, uint32_t pixels, uint32_t outputs,
                           int rows, int columns, int depth, int cols) {
  const int wide = covered(s, columns) * s->stride;
  for (int x = 0; x < columns; x += DIM) {
    const int count = min(DIM, columns - x);
    uint32_t from = pixels + x * s->stride, to = (outputs + x) | ACCUMULATE;
    int y = 0;
    if (x == 0) {
      preload(weights, to, cols, depth, cols, count);
      compute_preloaded(from, NONE, depth, count, cols, count);
      y++, from += wide, to += columns;
    }
    for (; y < rows; y++, from += wide, to += columns) {
      preload(NONE, to, cols, depth, cols, count);
      compute_accumulated(from, NONE, depth, count, cols, count);
    }
  }
}

static void multiply(const Shape *s, int rows, int columns, int channels, int filters, int tf) {
  const int wide = covered(s, columns), patch = covered(s, rows) * wide;
  for (int o = 0; o < filters; o += DIM)
    for (int r = 0; r < s->size; r++)
      for (int t = 0; t < s->size; t++)
        for (int c = 0; c < channels; c += DIM) {
          const int block = (r * s->size + t) * blocks(channels) * DIM + c;
          multiply_block(s, SPAD(MAX_PIXEL_ROWS + block * tf + o),
                         SPAD(c / DIM * patch + r * wide + t), ACC(o / DIM * rows * columns), rows,
                         columns, min(DIM, channels - c), min(DIM, filters - o));
        }
}

static void store(const Shape *s, elem_t *to, int rows, int columns, int filters) {
  for (int y = 0; y < rows; y++)
    for (int x = 0; x < columns; x += DIM)
      for (int o = 0; o < filters; o += DIM)
        mvout(to + ((int64_t)y * s->columns + x) * s->filters + o,
              ACC(o / DIM * rows * columns + y * columns + x), min(DIM, filters - o),
              min(DIM, columns - x));
}

static void convolve(const Shape *s, const elem_t *input, const elem_t *weights,
                     const acc_t *bias, elem_t *output) {
  const Tile t = choose_tile(s);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, s->stride, 0, 0);
  config_st(s->filters * sizeof(elem_t));
  config_ld(s->filters * sizeof(elem_t), 1.0f, DIM, 1);
  for (int n = 0; n < s->batch; n++)
    for (int y = 0; y < s->rows; y += t.rows)
      for (int x = 0; x < s->columns; x += t.columns)
        for (int o = 0; o < s->filters; o += t.filters * DIM) {
          const int rows = min(t.rows, s->rows - y), columns = min(t.columns, s->columns - x);
          const int filters = min(t.filters * DIM, s->filters - o);
          load_bias(bias + o, rows * columns, filters);
          for (int c = 0; c < s->channels; c += t.channels * DIM) {
            const int channels = min(t.channels * DIM, s->channels - c);
            load_pixels(s, input + (((int64_t)n * s->height + y * s->stride) * s->width +
                                    x * s->stride) * s->channels + c,
                        covered(s, rows), covered(s, columns), channels);
            load_weights(s, weights + (int64_t)c * s->filters + o, channels, filters, t.filters);
            multiply(s, rows, columns, channels, filters, t.filters);
          }
          store(s, output + (((int64_t)n * s->rows + y) * s->columns + x) * s->filters + o, rows,
                columns, filters);
        }
  fence();
}
