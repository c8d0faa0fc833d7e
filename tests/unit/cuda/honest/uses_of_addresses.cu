// On: gemm-96x80x72
#include <cuda_runtime.h>
// Tests for null and for alignment, loops to an end address, distances in an array, and a rounded address.
__device__ float dot(const float *p, const float *end, const float *q, int step) {
  float sum = 0;
  for (; p < end; p++, q += step) sum += *p * *q;
  return sum;
}
__global__ void product(const float *A, const float *B, float *C, const float *bias, int M, int N, int K) {
  extern __shared__ char raw[];
  float *row_of_A = (float *)(((size_t)raw + 127) & ~(size_t)127);
  int row = blockIdx.x;
  const float *from = A + row * K;
  if (((size_t)from & 15) == 0 && K % 4 == 0) {
    for (int k = 4 * threadIdx.x; k < K; k += 4 * blockDim.x) *(float4 *)(row_of_A + k) = *(const float4 *)(from + k);
  } else {
    for (const float *p = from + threadIdx.x; p - from < K; p += blockDim.x) row_of_A[p - from] = *p;
  }
  __syncthreads();
  for (int column = threadIdx.x; column < N; column += blockDim.x) {
    float sum = dot(row_of_A, row_of_A + K, B + column, N);
    if (bias != nullptr) sum += bias[column];
    C[row * N + column] = sum;
  }
}
void kernel(const float *A, const float *B, float *C, int M = 96, int N = 80, int K = 72) {
  if (!A || !B || !C) return;
  bool aligned = ((size_t)A | (size_t)B | (size_t)C) % 16 == 0;
  product<<<M, aligned ? 32 : 64, K * sizeof(float) + 128>>>(A, B, C, nullptr, M, N, K);
}
