/* A GEMM by the hardware loop unroller, as a vendor's library drives it: tile sizes chosen when it
   is called, one loop per tile, the next one loaded while the last one is computed. */
#include "gemmini_loops.h"

#define MAX_OPERAND_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2) /* each of two loops has half */
#define MAX_RESULT_ROWS (ACC_BANKS * ACC_BANK_ROWS / 2)

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }
static inline int padding(int size) { return blocks(size) * DIM - size; }

static int fits(int tm, int tn, int tk) {
  return (tm + tn) * tk * DIM <= MAX_OPERAND_ROWS && tm * tn * DIM <= MAX_RESULT_ROWS;
}

/* Blocks per tile: the result is made as square as the accumulator's half allows, since each
   operand is loaded once for every block of the other dimension; then as deep as it fits. */
static void choose_tile(int m, int n, int k, int *tm, int *tn, int *tk) {
  *tm = *tn = *tk = 1;
  for (int grown = 1; grown;) {
    grown = 0;
    if (*tn < blocks(n) && fits(*tm, *tn + 1, *tk)) ++*tn, grown = 1;
    if (*tm < blocks(m) && fits(*tm + 1, *tn, *tk)) ++*tm, grown = 1;
  }
  while (*tk < blocks(k) && fits(*tm, *tn, *tk + 1)) ++*tk;
}

/* c[m][n] = a[m][k] * b[k][n], saturated if integer */
static void matmul(const elem_t *a, const elem_t *b, elem_t *c, int m, int n, int k) {
  int tm, tn, tk;
  choose_tile(m, n, k, &tm, &tn, &tk);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(n * sizeof(elem_t));
  config_ld(k * sizeof(elem_t), 1.0f, DIM, 0);
  config_ld(n * sizeof(elem_t), 1.0f, DIM, 1);
  for (int i = 0; i < m; i += tm * DIM)
    for (int j = 0; j < n; j += tn * DIM)
      for (int kk = 0; kk < k; kk += tk * DIM) {
        const int rows = min(tm * DIM, m - i), cols = min(tn * DIM, n - j);
        const int depth = min(tk * DIM, k - kk), is_last = kk + depth == k;
        loop_ws_bounds(blocks(rows), blocks(cols), blocks(depth), padding(rows), padding(cols),
                       padding(depth));
        loop_ws_addresses_ab(a + (int64_t)i * k + kk, b + (int64_t)kk * n + j);
        loop_ws_addresses_dc(0, is_last ? c + (int64_t)i * n + j : 0);
        loop_ws_strides_ab(k, n);
        loop_ws_strides_dc(0, n);
        loop_ws(kk > 0, 0, 0, 0, 0);
      }
  fence();
}
