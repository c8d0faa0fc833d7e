// Somebody tuned: one operand stays, each tile's stores wait for the next tile's products.
void kernel(const int8_t A[512][256], const int8_t B[256][128], int8_t C[512][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_st(128);
  for (int k = 0; k < 256; k += 16)
    for (int j = 0; j < 128; j += 64) mvin2(&B[k][j], SPAD(8192 + k * 8 + j), 64, 16);
  for (int i = 0; i < 512; i += 16) {
    const uint32_t acc = ACC((i & 16) ? 512 : 0);
    for (int k = 0; k < 256; k += 64) mvin(&A[i][k], SPAD(k), 64, 16);
    for (int j = 0; j < 128; j += 16)
      for (int k = 0; k < 256; k += 16) {
        preload(SPAD(8192 + k * 8 + j), k ? (acc + j) | ACCUMULATE : acc + j, 16, 16, 16, 16);
        compute_preloaded(SPAD(k), NONE, 16, 16, 16, 16);
      }
    if (i > 0) {
      const uint32_t prev = ACC((i & 16) ? 0 : 512);
      mvout(&C[i - 16][0], prev, 64, 16);
      mvout(&C[i - 16][64], prev + 64, 64, 16);
    }
  }
  mvout(&C[496][0], ACC(512), 64, 16);
  mvout(&C[496][64], ACC(512 + 64), 64, 16);
  fence();
}
