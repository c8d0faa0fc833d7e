// The depth is the outermost loop: a 64x128 result stays in the accumulator meanwhile.
void kernel(const int8_t A[192][256], const int8_t B[256][128], int8_t C[192][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_st(128);
  for (int half = 0; half < 3; half++) {
    const int8_t(*rows)[256] = &A[64 * half];
    for (int k = 0; k != 256; k += 16) {
      for (int j = 0; j < 128; j += 16) {
        mvin2(&B[k][j], SPAD(8192), 16, 16);
        int i = 0;
        do {
          mvin(&rows[i][k], SPAD(0), 16, 16);
          const uint32_t at = (k > 0 ? ACCUMULATE : 0) | ACC(8 * i + j);
          preload(SPAD(8192), at, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
          i += 16;
        } while (i < 64);
      }
    }
    for (int i = 0; i < 64; i += 16) {
      for (int j = 0; j < 128; j += 64) {
        mvout(&C[64 * half + i][j], ACC(8 * i + j), 64, 16);
      }
    }
  }
  fence();
}
