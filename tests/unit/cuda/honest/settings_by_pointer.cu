// On: gemm-96x80x72
#include <cuda_runtime.h>
// Parameters in a struct that is given by value, tiles chosen by a work list in shared memory.
struct Problem { const float *A, *B; float *C; int M, N, K; int blocks_m, blocks_n; };
__global__ void product(Problem p) {
  __shared__ int work[2];
  for (int tile = blockIdx.x; tile < p.blocks_m * p.blocks_n; tile += gridDim.x) {
    if (threadIdx.x == 0 && threadIdx.y == 0) { work[0] = tile / p.blocks_n; work[1] = tile % p.blocks_n; }
    __syncthreads();
    int row = work[0] * 8 + threadIdx.y, column = work[1] * 8 + threadIdx.x;
    if (row < p.M && column < p.N) {
      float s = 0;
      for (int k = 0; k < p.K; k++) s += p.A[row * p.K + k] * p.B[k * p.N + column];
      p.C[row * p.N + column] = s;
    }
    __syncthreads();
  }
}
static Problem problem(const float *A, const float *B, float *C, int M, int N, int K) { Problem p = {A, B, C, M, N, K, (M + 7) / 8, (N + 7) / 8}; return p; }
void kernel(const float *A, const float *B, float *C, int M = 96, int N = 80, int K = 72) {
  Problem p = problem(A, B, C, M, N, K);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  int blocks = p.blocks_m * p.blocks_n;
  if (properties.multiProcessorCount * 2 < blocks) blocks = properties.multiProcessorCount * 2;
  product<<<blocks, dim3(8, 8)>>>(p);
}
