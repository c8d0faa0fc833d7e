
void kernel(const int8_t A[32][32], const int8_t B[32][48], const int8_t D[48][32],
            int8_t C[32][32], int8_t E[32][48], int32_t S[32][32]) {
  config_st(32, 0.5f, 0);
  for (int i = 0; i < 32; i += 16) {
    config_ex(WEIGHT_STATIONARY, 1, 1, 0, 0, 0.25f);
    config_ld(32, 1.0f, 16, 0);
    config_ld(48, 1.0f, 16, 1);
    config_ld(0, 1.0f, 16, 2);
    mvin3(0, ACC(0), 48, 16);
    for (int p = 0; p < 32; p += 16) {
      mvin(&A[i][p], SPAD(8192), 16, 16);
      mvin2(&B[p][0], SPAD(0), 48, 16);
      for (int jj = 0; jj < 48; jj += 16) {
        preload(SPAD(jj), ACC(jj) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(8192), NONE, 16, 16, 16, 16);
      }
    }
    config_ex(WEIGHT_STATIONARY, 1, 1, 0, 0, 0.25f);
    config_ld(32, 1.0f, 16, 1);
    config_ld(0, 1.0f, 16, 2);
    mvin3(0, ACC(512), 32, 16);
    for (int p = 0; p < 48; p += 16) {
      mvin2(&D[p][0], SPAD(4096), 32, 16);
      for (int jj = 0; jj < 32; jj += 16) {
        preload(SPAD(jj + 4096), ACC(jj + 512) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(ACC(p), NONE, 16, 16, 16, 16);
      }
    }
    mvout(&C[i][0], ACC(512), 32, 16);
  }
  fence();
}
