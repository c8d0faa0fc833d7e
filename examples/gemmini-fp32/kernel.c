// The starting kernel: correct, but slow. Replace it with your own kernel
// of the same name, with the parameters in the order of workload.toml.
void kernel(const float A[128][128], const float B[128][128], float C[128][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(512);
  config_ld(512, 1.0f, 4, 0);  // A
  config_ld(512, 1.0f, 4, 1);  // B
  config_ld(0, 1.0f, 4, 2);  // zeros
  for (int i = 0; i < 128; i += 4) {
    for (int j = 0; j < 128; j += 16) {
      // clear the accumulator tile
      mvin3(0, ACC(0), 16, 4);
      for (int k = 0; k < 128; k += 4) {
        // operands of this step
        mvin(&A[i][k], SPAD(0), 4, 4);
        mvin2(&B[k][j], SPAD(SPAD_BANK_ROWS), 16, 4);
        for (int jj = 0; jj < 16; jj += 4) {
          preload(SPAD(SPAD_BANK_ROWS + jj), ACC(jj) | ACCUMULATE, 4, 4, 4, 4);
          compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
        }
      }
      // store the tile
      mvout(&C[i][j], ACC(0), 16, 4);
    }
  }
  fence();
}
