// Somebody tuned: both operands of the next step are loaded ahead, under one test.
#define LOADA(i,k,s) mvin(&A[i][k], SPAD((s) ? 512 : 0), 16, 16)
#define LOADB(k,j,s) mvin2(&B[k][j], SPAD(SPAD_BANK_ROWS + ((s) ? 512 : 0)), 64, 16)
void kernel(const int8_t A[256][320], const int8_t B[320][192], int8_t C[256][192]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(320, 1.0f, 16, 0);
  config_ld(192, 1.0f, 16, 1);
  config_st(192);
  for (int i = 0; i < 256; i += 16) {
    for (int j = 0; j < 192; j += 64) {
      int cur = 0;
      LOADA(i, 0, 0);
      LOADB(0, j, 0);
      for (int k = 0; k < 320; k += 16) {
        if (k + 16 < 320) {
          LOADA(i, k + 16, !cur);
          LOADB(k + 16, j, !cur);
        }
        const uint32_t b = SPAD_BANK_ROWS + (cur ? 512 : 0);
        for (int jj = 0; jj < 4; jj++) {
          preload(SPAD(b + jj * 16), k ? ACC(jj * 16) | ACCUMULATE : ACC(jj * 16), 16, 16, 16, 16);
          compute_preloaded(SPAD(cur ? 512 : 0), NONE, 16, 16, 16, 16);
        }
        cur = !cur;
      }
      mvout(&C[i][j], ACC(0), 64, 16);
    }
  }
  fence();
}
