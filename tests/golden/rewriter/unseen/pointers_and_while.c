/* Flat pointers that are moved along, and loops that are written as while. */
void kernel(const int8_t *a, const int8_t *b, int8_t *c) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256 * sizeof(int8_t), 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_st(128);
  const int8_t *rows = a;
  int8_t *out = c;
  int m = 0;
  while (m < 192) {
    int n = 0;
    while (n < 128) {
      const int8_t *left = rows;
      const int8_t *right = b + n;
      uint32_t sum = ACC(0);
      int left_over = 256;
      while (left_over > 0) {
        mvin(left, SPAD(0), 16, 16);
        mvin2(right, SPAD(16), 16, 16);
        preload(SPAD(16), sum, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        sum = ACC(0) | ACCUMULATE;
        left += 16;
        right += 16 * 128;
        left_over -= 16;
      }
      mvout(out + n, ACC(0), 16, 16);
      n += 16;
    }
    rows += 16 * 256;
    out += 16 * 128;
    m += 16;
  }
  fence();
}
