#include <cuda_runtime.h>

// A block computes TM x TN elements from tiles in shared memory, a thread RM x RN of them in registers.
TUNE(TM, 64, 32, 128)         // rows of the result that a block computes
TUNE(TN, 64, 32, 128)         // columns of it
TUNE(TK, 16, 8, 32)           // terms that lie in shared memory at a time
TUNE(RM, 4, 8, 2)             // rows that a thread computes
TUNE(RN, 4, 8, 2)             // columns
TUNE(STAGES, 1, 2)            // tiles in shared memory: with two, the next one is loaded while one is used
TUNE(SPLIT, 1, 4, 16, 64)     // parts of each sum, which different blocks add up
TUNE_REQUIRE(TM * TN >= 64 * RM * RN && TM * TN <= 512 * RM * RN)
TUNE_REQUIRE(4 * STAGES * TK * (TM + TN + 8) <= 49152)
TUNE_REQUIRE(RM * RN <= 64)

constexpr int ACROSS = TN / RN, DOWN = TM / RM, THREADS = ACROSS * DOWN;

__device__ void load(const float *left, const float *right, float (*a)[TM + 4], float (*b)[TN + 4], int row, int column, int k,
                     int rows, int columns, int terms, int end) {
  for (int i = threadIdx.x; i < TM * TK; i += THREADS) {
    int r = i / TK, t = i % TK;
    a[t][r] = row + r < rows && k + t < end ? left[(size_t)(row + r) * terms + k + t] : 0.0f;
  }
  for (int i = threadIdx.x; i < TK * TN; i += THREADS) {
    int t = i / TN, c = i % TN;
    b[t][c] = column + c < columns && k + t < end ? right[(size_t)(k + t) * columns + column + c] : 0.0f;
  }
}

__global__ void __launch_bounds__(THREADS) product(const float *left, const float *right, float *result, int rows, int columns,
                                                   int terms) {
  __shared__ float a[STAGES][TK][TM + 4], b[STAGES][TK][TN + 4];
  float sums[RM][RN];
  int row = blockIdx.y * TM, column = blockIdx.x * TN;
  int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  int part = (terms + SPLIT * TK - 1) / (SPLIT * TK) * TK;
  int begin = blockIdx.z * part, end = min(terms, begin + part);
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) sums[i][j] = 0.0f;
  if (STAGES == 2) load(left, right, a[0], b[0], row, column, begin, rows, columns, terms, end);
  for (int k = begin, stage = 0; k < end; k += TK) {
    if (STAGES == 2) {
      __syncthreads();
      if (k + TK < end)
        load(left, right, a[(stage + 1) % STAGES], b[(stage + 1) % STAGES], row, column, k + TK, rows, columns, terms, end);
    } else {
      load(left, right, a[0], b[0], row, column, k, rows, columns, terms, end);
      __syncthreads();
    }
#pragma unroll
    for (int t = 0; t < TK; t++) {
      float of_rows[RM], of_columns[RN];
#pragma unroll
      for (int i = 0; i < RM; i++) of_rows[i] = a[stage][t][down * RM + i];
#pragma unroll
      for (int j = 0; j < RN; j++) of_columns[j] = b[stage][t][across + j * ACROSS];
#pragma unroll
      for (int i = 0; i < RM; i++)
#pragma unroll
        for (int j = 0; j < RN; j++) sums[i][j] += of_rows[i] * of_columns[j];
    }
    if (STAGES == 1) __syncthreads();
    stage = (stage + 1) % STAGES;
  }
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) {
      int r = row + down * RM + i, c = column + across + j * ACROSS;
      if (r >= rows || c >= columns) continue;
      float *to = &result[(size_t)r * columns + c];
      if (SPLIT == 1) *to = sums[i][j];
      else atomicAdd(to, sums[i][j]);
    }
}

void kernel(PARAMETERS) {
  BINDINGS
  if (SPLIT > 1) cudaMemsetAsync(C, 0, sizeof(float) * rows * N, 0);
  dim3 grid((N + TN - 1) / TN, (rows + TM - 1) / TM, SPLIT);
  product<<<grid, THREADS>>>(A, right, C, rows, N, K);
}
