/* A tiled GEMM as a vendor's library has it: one routine for all sizes. Loop order is fixed, tile
   sizes are chosen when it is called, and every bound and address is computed at run time. */

#define MAX_A_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2) /* A in the lower half, B in the upper */
#define MAX_B_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2)
#define MAX_C_ROWS (ACC_BANKS * ACC_BANK_ROWS)

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }

/* Blocks per tile in each dimension: grown in turn for as long as the tile fits. */
static void choose_tile(int m, int n, int k, int *tm, int *tn, int *tk) {
  *tm = *tn = *tk = 1;
  for (int grown = 1; grown;) {
    grown = 0;
    if (*tn < blocks(n) && *tk * (*tn + 1) * DIM <= MAX_B_ROWS &&
        *tm * (*tn + 1) * DIM <= MAX_C_ROWS) {
      ++*tn;
      grown = 1;
    }
    if (*tm < blocks(m) && (*tm + 1) * *tk * DIM <= MAX_A_ROWS &&
        (*tm + 1) * *tn * DIM <= MAX_C_ROWS) {
      ++*tm;
      grown = 1;
    }
    if (*tk < blocks(k) && *tm * (*tk + 1) * DIM <= MAX_A_ROWS &&
        (*tk + 1) * *tn * DIM <= MAX_B_ROWS) {
      ++*tk;
      grown = 1;
    }
  }
}

/* The products of one m x n x k tile. Block (i, k) of A is local block i * tk + k, and so on; a
   block is loaded when it is first used, as many of a row at once as a move carries. */
static void multiply_tile(const elem_t *a, const elem_t *b, int m, int n, int k, int a_stride,
                          int b_stride, int tn, int tk, int first) {
  for (int kk = 0; kk < k; kk += DIM) {
    const int depth = min(DIM, k - kk);
    for (int j = 0; j < n; j += DIM) {
      const int cols = min(DIM, n - j);
      const uint32_t b_row = SPAD(MAX_A_ROWS + kk * tn + j);
      if (j % (MAX_COLUMNS) == 0)
        mvin2(b + (int64_t)kk * b_stride + j, b_row, min(MAX_COLUMNS, n - j), depth);
      for (int i = 0; i < m; i += DIM) {
        const int rows = min(DIM, m - i);
        const uint32_t a_row = SPAD(i * tk + kk), c_row = ACC(i * tn + j);
        if (j == 0 && kk % (MAX_COLUMNS) == 0)
          mvin(a + (int64_t)i * a_stride + kk, a_row, min(MAX_COLUMNS, k - kk), rows);
        const uint32_t add = first && kk == 0 ? 0 : ACCUMULATE;
        preload(i == 0 ? b_row : NONE, c_row | add, cols, depth, cols, rows);
        if (i == 0) compute_preloaded(a_row, NONE, depth, rows, cols, rows);
        else compute_accumulated(a_row, NONE, depth, rows, cols, rows);
      }
    }
  }
}

static void store_tile(elem_t *c, int m, int n, int c_stride, int tn) {
  for (int i = 0; i < m; i += DIM)
    for (int j = 0; j < n; j += MAX_COLUMNS)
      mvout(c + (int64_t)i * c_stride + j, ACC(i * tn + j), min(MAX_COLUMNS, n - j), min(DIM, m - i));
}

/* c[m][n] = a[m][k] * b[k][n], saturated if integer */
static void matmul(const elem_t *a, const elem_t *b, elem_t *c, int m, int n, int k) {
  int tm, tn, tk;
  choose_tile(m, n, k, &tm, &tn, &tk);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(n * sizeof(elem_t));
  config_ld(k * sizeof(elem_t), 1.0f, DIM, 0);
  config_ld(n * sizeof(elem_t), 1.0f, DIM, 1);
  for (int i = 0; i < m; i += tm * DIM) {
    for (int j = 0; j < n; j += tn * DIM) {
      const int rows = min(tm * DIM, m - i), cols = min(tn * DIM, n - j);
      for (int kk = 0; kk < k; kk += tk * DIM)
        multiply_tile(a + (int64_t)i * k + kk, b + (int64_t)kk * n + j, rows, cols,
                      min(tk * DIM, k - kk), k, n, tn, tk, kk == 0);
      store_tile(c + (int64_t)i * n + j, rows, cols, n, tn);
    }
  }
  fence();
}
