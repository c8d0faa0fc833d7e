// workload: gemmini:gemm-112x96x144
// Blocks with ragged edges, whose three loops may stand in any order; C stays in the accumulator.
TUNE(ORDER, 0, 1, 2, 3, 4, 5)       // ijk, ikj, jik, jki, kij, kji
TUNE(TI, 16, 32, 48, 80, 112)       // rows, columns and depth of a block; not all are divisors
TUNE(TJ, 16, 32, 48, 64, 96)
TUNE(TK, 16, 32, 48, 64, 80, 144)
TUNE(A_PLACES, 1, 2, 3)             // blocks of A and B that take turns
TUNE(B_PLACES, 1, 2, 3)
TUNE(WIDE, 1, 2, 3, 4)              // column blocks that one load moves
TUNE(B_FIRST, 0, 1)
TUNE(STORE_LATE, 0, 1)              // 1: all stores after the last product
TUNE_REQUIRE(A_PLACES * TI * TK <= 12288 && B_PLACES * TJ * TK <= 12288)
TUNE_REQUIRE(TI * TJ * TK >= 16384 && WIDE * 16 <= max(TJ, TK))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define PARTS(size, part) (((size) + (part) - 1) / (part))
#define A_AT(place, i, k) SPAD((place) * (TI * TK / 16) + (k) / 16 * TI + (i))
#define B_AT(place, k, j) SPAD(8192 + (place) * (TJ * TK / 16) + (j) / 16 * TK + (k))
#define C_AT(i, j) ((j) / 16 * 112 + (i))

static int a_turn = -1, b_turn = -1;

static inline void load_a(const int8_t A[112][144], int i, int k, int rows, int depth) {
  for (int kk = 0; kk < depth; kk += WIDE * 16)
    for (int ii = 0; ii < rows; ii += 16)
      mvin(&A[i + ii][k + kk], A_AT(a_turn % A_PLACES, ii, kk), LESS(WIDE * 16, depth - kk), 16);
}

static inline void load_b(const int8_t B[144][96], int k, int j, int depth, int columns) {
  for (int jj = 0; jj < columns; jj += WIDE * 16)
    for (int kk = 0; kk < depth; kk += 16)
      mvin2(&B[k + kk][j + jj], B_AT(b_turn % B_PLACES, kk, jj), LESS(WIDE * 16, columns - jj), 16);
}

void kernel(const int8_t A[112][144], const int8_t B[144][96], int8_t C[112][96]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(96);
  config_ld(144, 1.0f, TI, 0);
  config_ld(96, 1.0f, TK, 1);
  const int is = PARTS(112, TI), js = PARTS(96, TJ), ks = PARTS(144, TK);
  const int outer = ORDER < 2 ? is : ORDER < 4 ? js : ks;
  const int middle = ORDER == 0 || ORDER == 5 ? js : ORDER == 1 || ORDER == 3 ? ks : is;
  const int inner = ORDER == 0 || ORDER == 2 ? ks : ORDER == 1 || ORDER == 4 ? js : is;
  int a_held = -1, b_held = -1;
  a_turn = b_turn = -1;
  for (int x = 0; x < outer; x++)
    for (int y = 0; y < middle; y++)
      for (int z = 0; z < inner; z++) {
        const int i = TI * (ORDER < 2 ? x : ORDER == 2 || ORDER == 4 ? y : z);
        const int j = TJ * (ORDER == 0 || ORDER == 5 ? y : ORDER == 2 || ORDER == 3 ? x : z);
        const int k = TK * (ORDER >= 4 ? x : ORDER == 1 || ORDER == 3 ? y : z);
        const int rows = LESS(TI, 112 - i), columns = LESS(TJ, 96 - j), depth = LESS(TK, 144 - k);
        const int a = i * 144 + k, b = k * 96 + j;
        const int new_a = a != a_held, new_b = b != b_held;
        a_turn += new_a, b_turn += new_b, a_held = a, b_held = b;
        if (B_FIRST && new_b) load_b(B, k, j, depth, columns);
        if (new_a) load_a(A, i, k, rows, depth);
        if (!B_FIRST && new_b) load_b(B, k, j, depth, columns);
        for (int jj = 0; jj < columns; jj += 16)
          for (int kk = 0; kk < depth; kk += 16)
            for (int ii = 0; ii < rows; ii += 16) {
              const uint32_t to = ACC(C_AT(i + ii, j + jj)) | (k + kk ? ACCUMULATE : 0);
              preload(ii ? NONE : B_AT(b_turn % B_PLACES, kk, jj), to, 16, 16, 16, 16);
              if (ii) compute_accumulated(A_AT(a_turn % A_PLACES, ii, kk), NONE, 16, 16, 16, 16);
              else compute_preloaded(A_AT(a_turn % A_PLACES, ii, kk), NONE, 16, 16, 16, 16);
            }
        if (!STORE_LATE && k + depth == 144)
          for (int ii = 0; ii < rows; ii += 16)
            for (int jj = 0; jj < columns; jj += 16)
              mvout(&C[i + ii][j + jj], ACC(C_AT(i + ii, j + jj)), 16, 16);
      }
  if (STORE_LATE)
    for (int i = 0; i < 112; i += 16)
      for (int j = 0; j < 96; j += 16)
        mvout(&C[i][j], ACC(C_AT(i, j)), 16, 16);
  fence();
}
