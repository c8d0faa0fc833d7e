// Settings and fences that a careful author writes too often.
void kernel(const int8_t A[48][32], const int8_t B[32][64], int8_t C[48][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 1);
  config_st(64);
  for (int k = 0; k < 32; k += 16) {
    mvin2(&B[k][0], SPAD(4 * k + 4096), 64, 16);
  }
  fence();
  for (int i = 0; i < 48; i += 16) {
    config_ld(32, 1.0f, 16, 0);
    mvin(&A[i][0], SPAD(0), 32, 16);
    config_ld(0, 1.0f, 16, 0);
    mvin(0, ACC(0), 64, 16);
    for (int k = 0; k < 32; k += 16) {
      for (int j = 0; j < 64; j += 16) {
        preload(SPAD(j + 4 * k + 4096), ACC(j) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(k), NONE, 16, 16, 16, 16);
      }
    }
    mvout(&C[i][0], ACC(0), 64, 16);
    fence();
  }
  fence();
  fence();
}
