// One form of the load for everything, set anew before each.
void kernel(const int8_t A[48][64], const int8_t B[64][32], int8_t C[48][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int i = 0; i < 48; i += 16) {
    for (int j = 0; j < 32; j += 16) {
      for (int k = 0; k < 64; k += 16) {
        config_ld(64, 1.0f, 16, 0);
        mvin(&A[i][k], SPAD(0), 16, 16);
        config_ld(32, 1.0f, 16, 0);
        mvin(&B[k][j], SPAD(16), 16, 16);
        preload(SPAD(16), k == 0 ? ACC(0) : (ACC(0) | ACCUMULATE), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      config_st(32);
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  }
  fence();
}
