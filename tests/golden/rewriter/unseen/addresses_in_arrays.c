// The whole result stays in the accumulator; tiles are found, and ordered, by arrays.
#define TILES (128 / DIM)
static const uint8_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
void kernel(const int8_t A[128][512], const int8_t B[512][128], int8_t C[128][128]) {
  uint32_t c_at[TILES];
  for (int t = 0; t < TILES; t++) c_at[t] = ACC(t * 128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(512, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(128);
  for (int t = 0; t < TILES; t++)
    for (int u = 0; u < 128; u += 64) mvin3(0, c_at[t] + u, 64, 16);
  for (unsigned k = 0; k < 512u; k += DIM) {
    for (int u = 0; u < 128; u += DIM) mvin2(&B[k][u], SPAD(0x2000 + u), DIM, DIM);
    for (int t = 0; t < TILES; t++) {
      const int row = order[t];
      mvin(&A[row << 4][k], SPAD((row & 1) ? 16 : 0), DIM, DIM);
      for (int u = 0; u < 128; u += DIM) {
        preload(SPAD(0x2000 + u), (c_at[row] + u) | ACCUMULATE, DIM, DIM, DIM, DIM);
        compute_preloaded(SPAD(row & 1 ? 16 : 0), NONE, DIM, DIM, DIM, DIM);
      }
    }
  }
  for (int t = 0; t < TILES; t++) {
    mvout(&C[t * 16][0], c_at[t], 64, 16);
    mvout(&C[t * 16][64], c_at[t] + 64, 64, 16);
  }
  fence();
}
