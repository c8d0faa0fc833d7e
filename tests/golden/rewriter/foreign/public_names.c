// Under the names of the public Gemmini test programs.
#include "gemmini.h"
#define I 64
#define J 48
#define K_ 80
void kernel(const elem_t A[I][K_], const elem_t B[K_][J], elem_t C[I][J]) {
  const uint32_t A_sp = 0, B_sp = BANK_ROWS, C_acc = 1u << 31;
  gemmini_flush(0);
  gemmini_extended_config_ex(WEIGHT_STATIONARY, 0, 0, 1, false, false);
  gemmini_extended_config_st(J * sizeof(elem_t), NO_ACTIVATION, ACC_SCALE_IDENTITY);
  gemmini_extended3_config_ld(K_ * sizeof(elem_t), MVIN_SCALE_IDENTITY, false, 0);
  gemmini_extended3_config_ld(J * sizeof(elem_t), MVIN_SCALE_IDENTITY, false, 1);
  for (size_t i = 0; i < I / DIM; i++)
    for (size_t j = 0; j < J / DIM; j++) {
      for (size_t k = 0; k < K_ / DIM; k++) {
        gemmini_mvin(&A[i * DIM][k * DIM], A_sp);
        gemmini_extended_mvin2(&B[k * DIM][j * DIM], B_sp, DIM, DIM);
        gemmini_preload(B_sp, k == 0 ? C_acc : C_acc | 1u << 30);
        gemmini_compute_preloaded(A_sp, GARBAGE_ADDR);
      }
      gemmini_extended_mvout(&C[i * DIM][j * DIM], C_acc, DIM, DIM);
    }
  gemmini_fence();
}
