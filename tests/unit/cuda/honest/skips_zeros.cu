// On: gemm-96x80x72
#include <cuda_runtime.h>
// Skips a term if the factor is zero; index arrays in local memory.
__global__ void product(const float *A, const float *B, float *C, int M, int N, int K) {
  int rows[4];
  bool inside[4];
  float sums[4] = {0.f, 0.f, 0.f, 0.f};
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < 4; i++) { rows[i] = blockIdx.y * 4 + i; inside[i] = rows[i] < M && column < N; }
  for (int k = 0; k < K; k++)
#pragma unroll 1
    for (int i = 0; i < 4; i++) {
      if (!inside[i]) continue;
      float a = A[rows[i] * K + k];
      if (a != 0.0f) sums[i] += a * B[k * N + column];
    }
#pragma unroll 1
  for (int i = 0; i < 4; i++) if (inside[i]) C[rows[i] * N + column] = sums[i];
}
void kernel(const float *A, const float *B, float *C, int M = 96, int N = 80, int K = 72) { product<<<dim3((N + 31) / 32, (M + 3) / 4), 32>>>(A, B, C, M, N, K); }
