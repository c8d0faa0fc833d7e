#define LOAD(array, row, column, to)                                              \
  do {                                                                            \
    for (int r_ = 0; r_ < 32; r_ += 16) {                                         \
      mvin(&array[(row) + r_][column], (to) + (r_ / 16) * 64 + 0, 64, 16);        \
    }                                                                             \
  } while (0)

void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[64][64]) {
  const uint32_t halves[2] = {SPAD(0), SPAD(SPAD_BANK_ROWS)};
  const uint32_t operand[2] = {SPAD(2 * SPAD_BANK_ROWS), SPAD(3 * SPAD_BANK_ROWS)};
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 0);
  config_st(64);
  LOAD(B, 0, 0, operand[0]);
  LOAD(B, 32, 0, operand[1]);
  for (int step = 0; step < 2; step++) {
    const int turn = step & 1;
    LOAD(A, step * 32, 0, halves[turn]);
    for (int i = 0; i < 2; i++) {
      for (int j = 0; j < 64; j += 16) {
        for (int k = 0; k < 64; k += 16) {
          const uint32_t from = k < 32 ? operand[0] : operand[1];
          preload((from) + (k % 32 / 16) * 64 + j, ACC(j) | (k ? ACCUMULATE : 0), 16, 16, 16, 16);
          compute_preloaded((halves[turn]) + i * 64 + k, NONE, 16, 16, 16, 16);
        }
      }
      mvout(&C[step * 32 + i * 16][0], ACC(0), 64, 16);
    }
  }
  fence();
}
