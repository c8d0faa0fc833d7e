void kernel(const float A[256][256], const float B[256][256], float C[256][256]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(1024);
  config_ld(1024, 1.0f, 4, 0);  // A
  config_ld(1024, 1.0f, 4, 1);  // B
  config_ld(0, 1.0f, 4, 2);  // zeros
  for (int j = 0; j < 256; j += 64) {
    const int slot = j / 64 % 3;
    // B for all of loop i
    for (int k = 0; k < 256; k += 4) {
      for (int jj = 0; jj < 64; jj += 16) {
        mvin2(&B[k][j + jj], SPAD(64 * jj + 4 * k), 16, 4);
      }
    }
    // A for all of loop j
    for (int k = 0; k < 256; k += 16) {
      // operands of this step
      mvin(&A[0][k], SPAD(k + 4096 * slot + 4096), 16, 4);
    }
    for (int i = 0; i < 256; i += 4) {
      const int slot2 = (i / 4 + j / 64 + 1) % 3;
      const int slot3 = i / 4 % 2;
      const int slot4 = (i / 4 + j / 64) % 3;
      // A for the next iteration
      if (i + 4 < 256) {
        // A for all of loop j
        for (int k = 0; k < 256; k += 16) {
          // operands of this step
          mvin(&A[i + 4][k], SPAD(k + 4096 * slot2 + 4096), 16, 4);
        }
      }
      for (int k = 0; k < 256; k += 8) {
        preload(SPAD(4 * k), ACC(64 * slot3) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 4), ACC(64 * slot3 + 4) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 8), ACC(64 * slot3 + 8) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 12), ACC(64 * slot3 + 12) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1024), ACC(64 * slot3 + 16) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1028), ACC(64 * slot3 + 20) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1032), ACC(64 * slot3 + 24) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1036), ACC(64 * slot3 + 28) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2048), ACC(64 * slot3 + 32) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2052), ACC(64 * slot3 + 36) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2056), ACC(64 * slot3 + 40) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2060), ACC(64 * slot3 + 44) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3072), ACC(64 * slot3 + 48) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3076), ACC(64 * slot3 + 52) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3080), ACC(64 * slot3 + 56) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3084), ACC(64 * slot3 + 60) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4096), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 16), ACC(64 * slot3) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 20), ACC(64 * slot3 + 4) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 24), ACC(64 * slot3 + 8) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 28), ACC(64 * slot3 + 12) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1040), ACC(64 * slot3 + 16) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1044), ACC(64 * slot3 + 20) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1048), ACC(64 * slot3 + 24) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 1052), ACC(64 * slot3 + 28) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2064), ACC(64 * slot3 + 32) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2068), ACC(64 * slot3 + 36) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2072), ACC(64 * slot3 + 40) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 2076), ACC(64 * slot3 + 44) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3088), ACC(64 * slot3 + 48) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3092), ACC(64 * slot3 + 52) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3096), ACC(64 * slot3 + 56) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
        preload(SPAD(4 * k + 3100), ACC(64 * slot3 + 60) | ACCUMULATE, 4, 4, 4, 4);
        compute_preloaded(SPAD(k + 4096 * slot4 + 4100), NONE, 4, 4, 4, 4);
      }
      for (int jj = 0; jj < 64; jj += 16) {
        // store the tile
        mvout(&C[i][j + jj], ACC(jj + 64 * slot3), 16, 4);
      }
    }
  }
  fence();
}
