/* helper functions with a context structure, attributes in many places */
#define UNUSED __attribute__((unused))
typedef struct ctx {
  const int8_t *a, *b;
  int8_t *c;
  int lda, ldb, ldc;
  uint32_t a_base, b_base, c_base;
} ctx_t;
static __attribute__((noinline)) void load_a(const ctx_t *restrict x, int i, int k) {
  config_ld(x->lda, 1.0f, 16, 0);
  mvin(x->a + i * x->lda + k, x->a_base + k, 64, 16);
}
__attribute__((always_inline)) static inline void load_b(const ctx_t *x, int k, int j) {
  config_ld(x->ldb, 1.0f, 16, 1);
  mvin2(x->b + k * x->ldb + j, x->b_base + (k / 16) * 64, 64, 16);
}
static inline uint32_t accumulator(const ctx_t *x, int j, bool accumulate) {
  uint32_t address = x->c_base + j;
  if (accumulate) address |= ACCUMULATE;
  return address;
}
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  ctx_t x = {.a = &A[0][0], .b = &B[0][0], .c = &C[0][0], .lda = 192, .ldb = 128, .ldc = 128,
             .a_base = SPAD(0), .b_base = SPAD(4096), .c_base = ACC(0)};
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(x.ldc);
  for (int i = 0; i < 128; i += 16) {
    for (int j = 0; j < 128; j += 64) {
      for (int k = 0; k < 192; k += 64) load_a(&x, i, k);
      for (int k = 0; k < 192; k += 16) load_b(&x, k, j);
      for (int k = 0; k < 192; k += 16) {
        for (int jj UNUSED = 0; jj < 64; jj += 16) {
          preload(x.b_base + k / 16 * 64 + jj, accumulator(&x, jj, k > 0), 16, 16, 16, 16);
          compute_preloaded(x.a_base + k, NONE, 16, 16, 16, 16);
        }
      }
      mvout(x.c + i * x.ldc + j, x.c_base, 64, 16);
    }
  }
  fence();
}
