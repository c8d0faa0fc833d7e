// A layer as a structure of structures, handed on by its address; a bias for every element.
typedef struct { const int8_t *data; uint32_t ld; } view_t;

typedef struct { view_t x, w; const int32_t *bias; int8_t *y; uint16_t m, n, k; } layer_t;

static void tile(const layer_t *l, uint16_t i, uint16_t j) {
  mvin3(l->bias + (uint32_t)i * l->n + j, ACC(0), 16, 16);
  for (uint16_t k = 0; k < l->k; k += 16) {
    mvin(l->x.data + i * l->x.ld + k, SPAD(0), 16, 16);
    mvin2(l->w.data + k * l->w.ld + j, SPAD(4096), 16, 16);
    preload(SPAD(4096), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
  }
  mvout(&l->y[i * l->n + j], ACC(0), 16, 16);
}

static void run(const layer_t *l) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(l->x.ld, 1.0f, 16, 0);
  config_ld(l->w.ld, 1.0f, 16, 1);
  config_ld(l->n * sizeof(int32_t), 1.0f, 16, 2);
  config_st(l->n, 1.0f, RELU);
  for (uint16_t i = 0; i < l->m; i += 16)
    for (uint16_t j = 0; j < l->n; j += 16) tile(l, i, j);
}

void kernel(const int8_t x[256][256], const int8_t w[256][256], const int32_t bias[256][256], int8_t y[256][256]) {
  layer_t l = {.x = {&x[0][0], 256}, .w = {&w[0][0], 256}, .bias = &bias[0][0], .y = &y[0][0], .m = 256, .n = 256, .k = 256};
  run(&l);
  fence();
}
