/* a product macro repeated by hand, addresses by shifts, constants by const locals */
#define MM(a, b, c) do { preload((b), (c), 16, 16, 16, 16); compute_preloaded((a), 0xffffffffU, 16, 16, 16, 16); } while (0)
#define ACCADDR (1U << 31)
#define ACCUM (1U << 30)
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  const uint32_t sa0 = 0, sa1 = 1 << 6, sb = 1 << 12;
  register int i, j, k;
  config_ex(1, 0, 1, 0, 0);
  config_st(128);
  config_ld(192, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  for (i = 0; i <= 128 - 32; i += 32)
    for (j = 0; j <= 128 - 64; j += 64) {
      for (k = 0; k < 192; k += 64) {
        const uint32_t acc0 = k == 0 ? ACCADDR : ACCADDR | ACCUM;
        const uint32_t acc1 = acc0 + 64;
        mvin(&A[i][k], sa0, 64, 16);
        mvin(&A[i + 16][k], sa1, 64, 16);
        mvin2(&B[k][j], sb, 64, 16); mvin2(&B[k + 16][j], sb + 64, 64, 16);
        mvin2(&B[k + 32][j], sb + 128, 64, 16); mvin2(&B[k + 48][j], sb + 192, 64, 16);
        MM(sa0, sb, acc0); MM(sa0, sb + 16, acc0 + 16); MM(sa0, sb + 32, acc0 + 32); MM(sa0, sb + 48, acc0 + 48);
        MM(sa1, sb, acc1); MM(sa1, sb + 16, acc1 + 16); MM(sa1, sb + 32, acc1 + 32); MM(sa1, sb + 48, acc1 + 48);
        for (int q = 1; q <= 3; ++q) {
          for (int j4 = 0; j4 < 4; j4++) {
            MM(sa0 + (q << 4), sb + (q << 6) + (j4 << 4), (acc0 | ACCUM) + (j4 << 4));
            MM(sa1 + (q << 4), sb + (q << 6) + (j4 << 4), (acc1 | ACCUM) + (j4 << 4));
          }
        }
      }
      mvout(&C[i][j], ACCADDR, 64, 16);
      mvout(&C[i + 16][j], ACCADDR + 64, 64, 16);
    }
  fence();
}
