#include "gemmini.h"

/* Small functions for the parts of a tile, called from a plain loop nest. */
enum { M = 192, N = 128, K = 256, T = DIM };
static const int TILES = N / T;

static inline int least(int x, int y) {
  if (x < y) return x;
  return y;
}

static inline uint32_t weights_at(int tile) { return SPAD(2 * SPAD_BANK_ROWS + tile * T); }

static void load_inputs(const int8_t in[M][K], int row, int depth) {
  mvin(&in[row][depth], SPAD(0), T, least(T, M - row));
}

static void load_weights(const int8_t (*w)[N], int depth) {
  for (int tile = 0; tile < TILES; tile++) {
    mvin2(&w[depth][tile * T], weights_at(tile), T, T);
  }
}

static void multiply(int tile, _Bool first) {
  preload(weights_at(tile), ACC(tile * T) | (first ? 0 : ACCUMULATE), T, T, T, T);
  compute_preloaded(SPAD(0), NONE, T, T, T, T);
}

static void store_all(int8_t out[M][N], int row) {
  for (int tile = TILES - 1; tile >= 0; tile--) {
    mvout(&out[row][tile * T], ACC(tile * T), T, T);
  }
}

void kernel(const int8_t in[M][K], const int8_t w[K][N], int8_t out[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(K, 1.0f, T, 0);
  config_ld(N, 1.0f, T, 1);
  config_st(N);
  for (int row = 0; row < M; row += T) {
    for (int depth = 0; depth < K; depth += T) {
      load_inputs(in, row, depth);
      load_weights(w, depth);
      for (int tile = 0; tile < TILES; tile++) multiply(tile, depth == 0);
    }
    store_all(out, row);
    fence();
  }
}
