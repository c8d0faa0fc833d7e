// On: gemm-96x80x72
#include <cuda_runtime.h>
__global__ void clear(float *C, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) C[i] = 0.0f; }
__global__ void product(const float *A, const float *B, float *C, int M, int N, int K, int part) {
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const int begin = blockIdx.z * part, end = min(begin + part, K);
  if (row < M && column < N) {
    float s = 0.f;
    for (int k = begin; k < end; ++k) s = fmaf(__ldg(A + row * K + k), __ldg(B + k * N + column), s);
    atomicAdd(&C[row * N + column], s);
  }
}
void kernel(const float *A, const float *B, float *C, int M = 96, int N = 80, int K = 72) {
  clear<<<8, 256>>>(C, M * N);
  int part = 24;
  product<<<dim3((N + 15) / 16, (M + 15) / 16, (K + part - 1) / part), dim3(16, 16)>>>(A, B, C, M, N, K, part);
}
