#define ROWS 128
#define COLS 96
#define DEPTH 160
#define T 16
#define EACH_TILE(v, total) for (int v = 0; v < (total) / T; ++v)
#define X_AT(p) (X_BASE + (p) * T)
#define X_BASE SPAD(512)
#define W_AT(p) SPAD(4096 + (p) * T)
#define SUM(c) (ACC(0) + (c) * T)
#define PRODUCT(x, w, c, more)                                      \
  do {                                                              \
    preload(w, (more) ? (c) | ACCUMULATE : (c), T, T, T, T);        \
    compute_preloaded(x, NONE, T, T, T, T);                         \
  } while (0)

void kernel(const int8_t lhs[ROWS][DEPTH], const int8_t rhs[DEPTH][COLS], int8_t dst[ROWS][COLS]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(sizeof(int8_t) * DEPTH, 1.0f, T, 0);
  config_ld(sizeof(rhs[0][0]) * COLS, 1.0f, T, 1);
  config_st(COLS * sizeof(int8_t));
  EACH_TILE(c, COLS) {
    EACH_TILE(r, ROWS) {
      EACH_TILE(p, DEPTH) { mvin(&lhs[r * T][p * T], X_AT(p), T, T); }
      EACH_TILE(p, DEPTH) { mvin2(*(rhs + p * T) + c * T, W_AT(p), T, T); }
      EACH_TILE(p, DEPTH) PRODUCT(X_AT(p), W_AT(p), SUM(c), p > 0);
      mvout(dst[r * T] + T * c, SUM(c), T, T);
    }
  }
  fence();
}
