// A 1x1 convolution with stride 1: pixels of all images in one long list, filters outermost.
#define PIXELS 196
#define IN 96
#define OUT 80
void kernel(const int8_t pixels[PIXELS][IN], const int8_t filters[IN][OUT], const int32_t offset[OUT],
            int8_t maps[PIXELS][OUT]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(IN, 1.0f, 16, 0);
  config_ld(OUT, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(OUT);
  for (int f = 0; f < OUT; f += 16)
    for (int p = 0; p < PIXELS; p += 16) {
      const int height = PIXELS - p >= 16 ? 16 : PIXELS - p;
      mvin3(&offset[f], ACC(512), 16, height);
      for (int c = 0; c < IN; c += 16) {
        mvin2(&filters[c][f], SPAD(100), 16, 16);
        mvin(&pixels[p][c], SPAD(0), 16, height);
        preload(SPAD(100), ACC(512) | ACCUMULATE, 16, 16, 16, height);
        compute_preloaded(SPAD(0), NONE, 16, height, 16, height);
      }
      mvout(&maps[p][f], ACC(512), 16, height);
    }
  fence();
}
