// A layer: bias and ReLU in one pass, the bias loaded with a stride of zero.
void kernel(const int8_t A[192][256], const int8_t B[256][128], const int32_t bias[128],
            int8_t C[192][128]) {
  config_ex(WEIGHT_STATIONARY, RELU, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(128, 1.0f, RELU);
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 8; ++j) {
      mvin3(bias + 16 * j, ACC(0), 16, 16);
      for (int k = 0; k < 16; ++k) {
        mvin(&A[i * 16][k * 16], SPAD(0), 16, 16);
        mvin2(&B[k * 16][j * 16], SPAD(16), 16, 16);
        preload(SPAD(16), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&C[i * 16][j * 16], ACC(0), 16, 16);
    }
  }
  fence();
}
