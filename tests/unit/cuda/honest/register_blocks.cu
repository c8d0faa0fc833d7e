// On: gemm-96x80x72
#include <cuda_runtime.h>
// Tiles of 32 x 32 with 4 x 4 results for each thread, in local arrays, two stages.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void product(const float *A, const float *B, float *C, int M, int N, int K) {
  __shared__ float a[2][BK][BM], b[2][BK][BN];
  const int threads = (BM / TM) * (BN / TN), t = threadIdx.x;
  const int row = t / (BN / TN) * TM, column = t % (BN / TN) * TN;
  float sums[TM][TN] = {}, left[TM], right[TN];
  auto load = [&](int stage, int k0) {
    for (int i = t; i < BM * BK; i += threads) {
      int r = i / BK, k = i % BK, at = blockIdx.y * BM + r;
      a[stage][k][r] = (at < M && k0 + k < K) ? A[(size_t)at * K + k0 + k] : 0.f;
    }
    for (int i = t; i < BK * BN; i += threads) {
      int k = i / BN, c = i % BN, at = blockIdx.x * BN + c;
      b[stage][k][c] = (at < N && k0 + k < K) ? B[(size_t)(k0 + k) * N + at] : 0.f;
    }
  };
  int stage = 0;
  load(0, 0);
  __syncthreads();
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (k0 + BK < K) load(stage ^ 1, k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; k++) {
      for (int i = 0; i < TM; i++) left[i] = a[stage][k][row + i];
      for (int j = 0; j < TN; j++) right[j] = b[stage][k][column + j];
      for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) sums[i][j] += left[i] * right[j];
    }
    __syncthreads();
    stage ^= 1;
  }
  for (int i = 0; i < TM; i++)
    for (int j = 0; j < TN; j++) {
      int r = blockIdx.y * BM + row + i, c = blockIdx.x * BN + column + j;
      if (r < M && c < N) C[(size_t)r * N + c] = sums[i][j];
    }
}
void kernel(const float *A, const float *B, float *C, int M = 96, int N = 80, int K = 72) { product<32, 32, 8, 4, 4><<<dim3((N + 31) / 32, (M + 31) / 32), 64>>>(A, B, C, M, N, K); }
