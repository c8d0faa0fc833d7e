/* one loop over all blocks; indices divided out; an array of accumulator addresses */
#define MB 8
#define NB 8
#define KB 12
#define SP(i) ((uint32_t)((i) << 4))
static const uint32_t sums[4] = {0x80000000u, 0x80000010u, 0x80000020u, 0x80000030u};
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(128);
  config_ld(192, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  int slot = 0;
  for (unsigned t = 0; t < MB * NB; t++) {
    const unsigned i = t / NB, j = t % NB;
    const uint32_t c = sums[slot & 3];
    unsigned k = 0;
    for (; k < KB; ++k) {
      mvin(A[i << 4] + (k << 4), SP(k), 16, 16);
      mvin2(B[k << 4] + (j << 4), SP(KB + k), 16, 16);
    }
    for (k = 0; k < KB; ++k) {
      const _Bool start = !k;
      preload(SP(KB + k), start ? c : (c | ACCUMULATE), 16, 16, 16, 16);
      compute_preloaded(SP(k), NONE, 16, 16, 16, 16);
    }
    mvout(C[i << 4] + (j << 4), c, 16, 16);
    if (++slot == 4) slot = 0;
  }
  fence();
}
