// A 3x3 convolution with stride 2: every second pixel is skipped by the stride of the loads.
enum { H = 9, W = 15, C = 32, F = 48 };
static inline void pixel_row(const int8_t *from, int depth, uint32_t to) {
  for (int c = 0; c < depth; c += 16)
    mvin(from + c, to + c, 16, 15);
}
void kernel(const int8_t image[2][19][31][32], const int8_t filters[3][3][32][48],
            const int32_t bias[48], int8_t result[2][9][15][48]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(F);
  config_ld(2 * C, 1.0f, 16, 0);
  config_ld(F, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int n = 0; n < 2; n++)
    for (int y = 0; y < H; ++y) {
      mvin3(bias, ACC(0), F, W);
      for (int r = 0; r < 3; r++)
        for (int t = 0; t < 3; t++) {
          pixel_row(&image[n][2 * y + r][t][0], C, SPAD(0));
          for (int c = 0; c < C; c += 16) {
            mvin2(&filters[r][t][c][0], SPAD(SPAD_BANK_ROWS), F, 16);
            for (int f = 0; f < F; f += 16) {
              preload(SPAD(SPAD_BANK_ROWS + f), ACC(f) | ACCUMULATE, 16, 16, 16, W);
              compute_preloaded(SPAD(c), NONE, 16, W, 16, W);
            }
          }
        }
      mvout(&result[n][y][0][0], ACC(0), F, W);
    }
  fence();
}
