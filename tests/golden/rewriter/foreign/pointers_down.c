/* everything counts down, pointers walk */
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(128);
  config_ld(192, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  const int8_t *a_row = (const int8_t *)A;
  int8_t *c_row = (int8_t *)C;
  int left_rows = 128;
  while (left_rows > 0) {
    int left_cols = 128;
    const int8_t *b_col = (const int8_t *)B;
    int8_t *c = c_row;
    do {
      const int8_t *a = a_row, *b = b_col;
      for (int k = 12; k-- > 0;) {
        mvin(a, SPAD(0), 16, 16);
        mvin2(b, SPAD(16), 16, 16);
        preload(SPAD(16), k != 11 ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        a += 16;
        b += 16 * 128;
      }
      mvout(c, ACC(0), 16, 16);
      c += 16;
      b_col += 16;
      left_cols -= 16;
    } while (left_cols);
    a_row += 16 * 192;
    c_row += 16 * 128;
    left_rows -= 16;
  }
  fence();
}
