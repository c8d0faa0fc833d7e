/* ragged tile sizes by a min macro, helper function for ceil, while loops */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
static inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
void kernel(const int8_t A[100][72], const int8_t B[72][88], int8_t C[100][88]) {
  const int m = 100, n = 88, k = 72;
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(n);
  config_ld(k, 1.0f, 16, 0);
  config_ld(n, 1.0f, 16, 1);
  for (int bi = 0; bi < ceil_div(m, 16); bi++) {
    const int rows = MIN(16, m - bi * 16);
    for (int bj = 0; bj < ceil_div(n, 16); bj++) {
      const int cols = MIN(16, n - 16 * bj);
      int bk = ceil_div(k, 16);
      while (bk--) {
        const int deep = MIN(16, k - bk * 16);
        mvin(&A[bi * 16][bk * 16], SPAD(0), deep, rows);
        mvin2(&B[bk * 16][bj * 16], SPAD(64), cols, deep);
        preload(SPAD(64), (bk == ceil_div(k, 16) - 1) ? ACC(0) : (ACC(0) | ACCUMULATE), cols, deep, cols, rows);
        compute_preloaded(SPAD(0), NONE, deep, rows, 16, 16);
      }
      mvout(&C[16 * bi][16 * bj], ACC(0), cols, rows);
    }
  }
  fence();
}
