// A 5x5 convolution of one image: taps outermost, a whole output row in the accumulator.
void kernel(const int8_t in[20][36][32], const int8_t w[25][32][16], const int32_t b[16],
            int8_t out[16][32][16]) {
  config_ex(WEIGHT_STATIONARY, RELU, 1, 0, 0);
  config_st(16);
  config_ld(32, 1.0f, 16, 0);
  config_ld(16, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int row = 0; row < 16; row++) {
    for (int half = 0; half < 2; half++) mvin3(b, ACC(16 * half), 16, 16);
    for (int tap = 0; tap < 25; tap++) {
      const int dy = tap / 5, dx = tap % 5;
      for (int ch = 0; ch < 2; ch++) {
        mvin2(&w[tap][16 * ch][0], SPAD(2048), 16, 16);
        for (int half = 0; half < 2; half++) {
          mvin(&in[row + dy][16 * half + dx][16 * ch], SPAD(0), 16, 16);
          preload(SPAD(2048), ACC(16 * half) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
      }
    }
    mvout(&out[row][0][0], ACC(0), 16, 16);
    mvout(&out[row][16][0], ACC(16), 16, 16);
  }
  fence();
}
