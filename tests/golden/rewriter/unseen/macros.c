#include "gemmini.h"

#define ROWS 192
#define COLS (64 * 2)
#define DEPTH (1 << 8)
#define BLOCK 64
#ifndef STEP
#define STEP DIM
#endif
#define FOR(v, n, by) for (int v = 0; v < (n); v += (by))
#define A_AT SPAD(0)
#define B_AT(j) SPAD(SPAD_BANK_ROWS + (j))
#define PRODUCT(j, flag)                                         \
  do {                                                           \
    preload(B_AT(j), ACC(j) | (flag), STEP, STEP, STEP, STEP);   \
    compute_preloaded(A_AT, NONE, STEP, STEP, STEP, STEP);       \
  } while (0)
#if BLOCK > 16 && !defined(NO_WIDE)
#define LOAD_B(k, j) mvin2(&B[k][j], B_AT(0), BLOCK, STEP)
#else
#define LOAD_B(k, j) mvin2(&B[k][j], B_AT(0), STEP, STEP)
#endif

/* Everything is a macro. */
void kernel(const int8_t A[ROWS][DEPTH], const int8_t B[DEPTH][COLS], int8_t C[ROWS][COLS]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(COLS);
  FOR(j, COLS, BLOCK) {
    FOR(i, ROWS, STEP) {
      FOR(k, DEPTH, STEP) {
        config_ld(DEPTH, 1.0f, STEP, 0);
        mvin(&A[i][k], A_AT, STEP, STEP);
        config_ld(COLS, 1.0f, STEP, 1);
        LOAD_B(k, j);
        FOR(jj, BLOCK, STEP) PRODUCT(jj, k ? ACCUMULATE : 0);
      }
      mvout(&C[i][j], ACC(0), BLOCK, STEP);
    }
  }
  fence();
}
