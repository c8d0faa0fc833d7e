// Two layers from a table of sizes, their arrays in arrays of pointers.
struct layer { int n, k; };
static const struct layer layers[2] = {{192, 256}, {64, 192}};
void kernel(const int8_t x[128][256], const int8_t w1[256][192], const int8_t w2[192][64], int8_t h[128][192], int8_t y[128][64]) {
  const int8_t *in = &x[0][0];
  const int8_t *weights[2] = {&w1[0][0], &w2[0][0]};
  int8_t *outs[2] = {&h[0][0], &y[0][0]};
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int l = 0; l < 2; l++) {
    const int n = layers[l].n, k = layers[l].k;
    config_ld(k, 1.0f, 16, 0);
    config_ld(n, 1.0f, 16, 1);
    if (l == 0) config_st(n, 0.0625f, RELU);
    else config_st(n, 0.0625f, NO_ACTIVATION);
    for (int i = 0; i < 128; i += 16)
      for (int j = 0; j < n; j += 16) {
        for (int p = 0; p < k; p += 16) {
          mvin(in + i * k + p, SPAD(0), 16, 16);
          mvin2(weights[l] + p * n + j, SPAD(16), 16, 16);
          preload(SPAD(16), p > 0 ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
        mvout(outs[l] + i * n + j, ACC(0), 16, 16);
      }
    fence();
    in = outs[l];
  }
}
