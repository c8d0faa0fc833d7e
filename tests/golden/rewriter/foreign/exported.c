// As a scheduling language exports it: wide counters, flat pointers, settings within loops.
void kernel(const int8_t *x, const int8_t *y, int8_t *z) {
  config_ex(1, 0, 1, 0, 0);
  config_st(64);
  for (int_fast32_t io = 0; io < 6; io++) {
    for (int_fast32_t jo = 0; jo < 4; jo++) {
      mvin3(0, (uint32_t)(0x80000000), 16, 16);
      for (int_fast32_t ko = 0; ko < 5; ko++) {
        config_ld(80, 1.0f, 16, 0);
        mvin(&x[(16 * io) * 80 + 16 * ko], ((uint64_t)0), 16 + 0, 16 + 0);
        config_ld(64, 1.0f, 16, 1);
        mvin2(&y[(16 * ko) * 64 + 16 * jo], ((uint64_t)256), 16 + 0, 16 + 0);
        preload((uint32_t)256, (uint32_t)(0x80000000) | 0x40000000, 16, 16, 16, 16);
        compute_preloaded((uint32_t)0, ~((uint32_t)0), 16, 16, 16, 16);
      }
      mvout(&z[(16 * io) * 64 + 16 * jo], (uint32_t)(0x80000000), 16, 16);
    }
  }
  fence();
}
