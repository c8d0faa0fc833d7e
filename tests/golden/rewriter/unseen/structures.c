// Tiles as structures, handed to functions.
typedef struct {
  int row, column, height, width;
} tile_t;

static tile_t tile_at(int row, int column, int rows, int columns) {
  tile_t t = {row, column, rows - row < 16 ? rows - row : 16, columns - column < 16 ? columns - column : 16};
  return t;
}

static void load(const int8_t *base, int pitch, tile_t t, uint32_t at, int second) {
  if (second) mvin2(base + t.row * pitch + t.column, at, t.width, t.height);
  else mvin(base + t.row * pitch + t.column, at, t.width, t.height);
}

void kernel(const int8_t lhs[96][112], const int8_t rhs[112][80], int8_t dst[96][80]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(112, 1.0f, 16, 0);
  config_ld(80, 1.0f, 16, 1);
  config_st(80);
  for (int i = 0; i < 96; i += 16)
    for (int j = 0; j < 80; j += 16) {
      tile_t c = tile_at(i, j, 96, 80);
      for (int k = 0; k < 112; k += 16) {
        tile_t a = tile_at(i, k, 96, 112), b = tile_at(k, j, 112, 80);
        load(&lhs[0][0], 112, a, SPAD(0), 0);
        load(&rhs[0][0], 80, b, SPAD(16), 1);
        preload(SPAD(16), k ? ACC(0) | ACCUMULATE : ACC(0), b.width, b.height, c.width, c.height);
        compute_preloaded(SPAD(0), NONE, a.width, a.height, 16, 16);
      }
      mvout(&dst[c.row][c.column], ACC(0), c.width, c.height);
    }
  fence();
}
