// Running pointers and what is left to do; every edge is ragged.
enum { H = 100, W = 72, D = 90 };

static int part(int left) { return left > DIM ? DIM : left; }

void kernel(const int8_t lhs[H][D], const int8_t rhs[D][W], int8_t dst[H][W]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(D, 1.0f, DIM, 0);
  config_ld(W, 1.0f, DIM, 1);
  config_st(W);
  const int8_t *in = &lhs[0][0];
  int8_t *out = &dst[0][0];
  int rows_left = H;
  while (rows_left > 0) {
    const int h = part(rows_left);
    int columns_left = W;
    const int8_t *weights = &rhs[0][0];
    int8_t *to = out;
    while (columns_left > 0) {
      const int w = part(columns_left);
      const int8_t *a = in;
      const int8_t *b = weights;
      uint32_t flag = 0;
      for (int depth_left = D; depth_left > 0; depth_left -= DIM) {
        const int d = part(depth_left);
        mvin(a, SPAD(0), d, h);
        mvin2(b, SPAD(DIM), w, d);
        preload(SPAD(DIM), ACC(0) | flag, w, d, w, h);
        compute_preloaded(SPAD(0), NONE, d, h, DIM, DIM);
        flag = ACCUMULATE;
        a += DIM;
        b += DIM * W;
      }
      mvout(to, ACC(0), w, h);
      weights += w;
      to += w;
      columns_left -= w;
    }
    in += h * D;
    out += h * W;
    rows_left -= h;
  }
  fence();
}
