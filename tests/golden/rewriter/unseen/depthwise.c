// A depthwise 3x3 convolution: 16 channels at a time by diagonal matrices, one per tap.
void kernel(const int8_t x[18][34][64], const int8_t diagonal[9][64][16], int8_t y[16][32][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 0);
  config_ld(16, 1.0f, 16, 1);
  config_st(64);
  int i = 0;
  while (i < 16) {
    for (int c = 0; c < 64; c += 16) {
      for (int j = 0; j < 32; j += 16) {
        for (int u = 0; u < 3; u++)
          for (int v = 0; v < 3; v++) {
            const uint32_t tile = ACC(0) | (u + v > 0 ? ACCUMULATE : 0);
            mvin(&x[i + u][j + v][c], SPAD(0), 16, 16);
            mvin2(&diagonal[3 * u + v][c][0], SPAD(16), 16, 16);
            preload(SPAD(16), tile, 16, 16, 16, 16);
            compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
          }
        mvout(&y[i][j][c], ACC(0), 16, 16);
      }
    }
    i++;
  }
  fence();
}
