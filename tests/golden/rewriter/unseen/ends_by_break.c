// Blocks that count down, a depth that ends by break, and a fence on either side of the stores.
void kernel(const int8_t A[256][128], const int8_t B[128][256], int8_t C[256][256]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(128, 1.0f, 16, 0);
  config_ld(256, 1.0f, 64, 1);
  config_st(256);
  for (int bi = 256 - 64; bi >= 0; bi -= 64)
    for (int bj = 256 - 64; bj >= 0; bj -= 64) {
      int k = 0;
      for (;;) {
        for (int r = 0; r < 64; r += 16) {
          mvin(&A[bi + r][k], SPAD(r), 16, 16);
          mvin2(&B[k][bj], SPAD(8192), 64, 16);
          for (int c = 0; c < 4; c++) {
            preload(SPAD(8192 + c * 64), ACC(r * 4 + c * 16) | (k ? ACCUMULATE : 0), 16, 16, 16, 16);
            compute_preloaded(SPAD(r), NONE, 16, 16, 16, 16);
          }
        }
        k += 16;
        if (k == 128) break;
      }
      fence();
      for (int r = 0; r < 64; r += 16) mvout(&C[bi + r][bj], ACC(r * 4), 64, 16);
      fence();
    }
}
