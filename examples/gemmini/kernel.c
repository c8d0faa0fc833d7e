// A straightforward first version: one 16x16 tile of C at a time, the bias broadcast into the
// accumulator, every operand loaded when it is needed.
void kernel(const int8_t A[128][128], const int8_t B[128][64], const int32_t bias[64],
            int8_t C[128][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(64, 1.0f, RELU);
  config_ld(128, 1.0f, 16, 0);  // A
  config_ld(64, 1.0f, 16, 1);   // B
  config_ld(0, 1.0f, 16, 2);    // bias: stride 0 repeats the row
  for (int i = 0; i < 128; i += 16) {
    for (int j = 0; j < 64; j += 16) {
      // start the tile from the bias
      mvin3(&bias[j], ACC(0), 16, 16);
      for (int k = 0; k < 128; k += 16) {
        mvin(&A[i][k], SPAD(0), 16, 16);
        mvin2(&B[k][j], SPAD(16), 16, 16);
        preload(SPAD(16), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  }
  fence();
}
