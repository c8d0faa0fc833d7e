/* one load id for all; several config calls in the innermost loop, as a code generator writes */
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  gemmini_extended_config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 0, 1, 0, 0);
  for (int_fast32_t io = 0; io < 8; io++) {
    for (int_fast32_t jo = 0; jo < 8; jo++) {
      gemmini_extended3_config_ld(0, 1.0f, false, 2);
      gemmini_extended_mvin3(0, ((uint64_t)0x80000000), 16, 16);
      for (int_fast32_t ko = 0; ko < 12; ko++) {
        gemmini_extended3_config_ld(192, 1.0f, false, 0);
        gemmini_extended_mvin((void *)((uint64_t)&A[(16) * (io)][(16) * (ko)]), ((uint64_t)0), 16, (16 + 0));
        gemmini_extended3_config_ld(128, 1.0f, false, 0);
        gemmini_extended_mvin((void *)((uint64_t)&B[16 * ko + 0][16 * jo]), (uint64_t)16, (16 + 0), (16 + 0));
        gemmini_extended_preload((uint32_t)(uint64_t)16, (uint32_t)((uint64_t)0x80000000) | 0x40000000, (16 + 0), (16 + 0), (16 + 0), (16 + 0));
        gemmini_extended_compute_preloaded((uint32_t)(uint64_t)0, ~((uint32_t)0), (16 + 0), (16 + 0), 16, 16);
      }
      gemmini_extended_config_st((128), 0, 1.0f);
      gemmini_extended_mvout(((uint64_t)&C[16 * io][16 * jo]), (uint32_t)((uint64_t)0x80000000), (16 + 0), (16 + 0));
    }
  }
  gemmini_fence();
}
