/* A matrix-vector product as a vendor's library has it: one routine for all sizes. Blocks of the
   vector stay in the scratchpad, blocks of the matrix pass through it; every bound and address is
   computed at run time, and the caller finds the result in memory. */

static inline int min(int a, int b) { return a < b ? a : b; }

/* to[m] = sum over k of matrix[m][k] * vector[k] */
static void multiply(const float *matrix, const float *vector, float *to, int rows, int columns) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(sizeof(float) * columns, 1.0f, DIM, 0);
  config_ld(sizeof(float), 1.0f, DIM, 1);
  config_st(sizeof(float));
  for (int m = 0; m < rows; m += DIM) {
    const int height = min(DIM, rows - m);
    for (int k = 0; k < columns; k += DIM) {
      const int width = min(DIM, columns - k);
      const uint32_t block = SPAD(k), part = SPAD(2 * SPAD_BANK_ROWS + k);
      if (k % (MAX_COLUMNS) == 0) mvin(matrix + m * columns + k, block, min(MAX_COLUMNS, columns - k), height);
      if (m == 0) mvin2(vector + k, part, 1, width);
      preload(part, ACC(m) | (k > 0 ? ACCUMULATE : 0), 1, width, 1, height);
      compute_preloaded(block, NONE, width, height, 1, height);
    }
    mvout(to + m, ACC(m), 1, height);
  }
  fence();
}
