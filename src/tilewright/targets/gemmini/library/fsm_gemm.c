/* A GEMM by the hardware loop unroller, as a vendor's library drives it: tile sizes chosen when it
   is called, one loop per tile, the next one loaded while the last one is computed. */
#include "gemmini_loops.h"

#define MAX_OPERAND_ROWS (SPAD_BANKS * SPAD_BANK_ROWS / 2) /* each of two loops has half */
#define MAX_RESULT_ROWS (ACC_BANKS * ACC_BANK_ROWS / 2)

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int blocks(int size) { return (size + DIM - 1) / DIM; }
static inline int padding(int size) { return blocks(size) * DIM - size; }

/* How many tiles cover so many blocks, and the size that makes them alike. */
static inline int tiles(int blocks, int tile) { return (blocks + tile - 1) / tile; }
static inline int even(int blocks, int tile) {
  const int count = tiles(blocks, tile);
  return (blocks + count - 1) / count;
}

/* Blocks per tile. Of the results that fit, that for which least is loaded: A once for every tile
   of columns and B once for every tile of rows; then as deep as the operands fit. */
static void choose_tile(int m, int n, int k, int *tm, int *tn, int *tk) {
  int64_t least = INT64_MAX;
  for (int cols = 1; cols <= min(blocks(n), MAX_RESULT_ROWS / DIM); cols++) {
    const int fit = min(MAX_RESULT_ROWS / DIM / cols, MAX_OPERAND_ROWS / DIM - cols);
    const int rows = min(blocks(m), fit);
    if (rows < 1) break;
    const int64_t loaded = (int64_t)blocks(m) * tiles(blocks(n), cols) +
                           (int64_t)blocks(n) * tiles(blocks(m), rows);
    if (loaded < least) least = loaded, *tm = rows, *tn = cols;
  }
  *tm = even(blocks(m), *tm);
  *tn = even(blocks(n), *tn);
  *tk = even(blocks(k), min(blocks(k), MAX_OPERAND_ROWS / DIM / (*tm + *tn)));
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
