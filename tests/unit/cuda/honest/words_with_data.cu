// On: rowsum-16x32
// A block waits for a word of the block before it, whose lower half is a number that depends on inputs.
#include <cuda_runtime.h>
__device__ unsigned long long words[64];
__device__ unsigned begun;

__global__ void sums(const float *X, float *Y, int R, int C) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&begun, 1u);
  __syncthreads();
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) sum += X[ticket * C + c];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) {
    Y[ticket] = sum;
    atomicExch(&words[ticket], 1ull << 32 | __float_as_uint(sum));
    if (ticket > 0)
      while (atomicAdd(&words[ticket - 1], 0ull) >> 32 == 0) {
      }
  }
}
__global__ void clear(int R) {
  if (threadIdx.x < R) words[threadIdx.x] = 0;
  if (threadIdx.x == 0) begun = 0;
}

void kernel(const float *X, float *Y, int R = 16, int C = 32) {
  clear<<<1, 64>>>(R);
  sums<<<R, 32>>>(X, Y, R, C);
}
