// On: softmax-64x100
#include <cuda_runtime.h>
// Softmax with a running maximum over tiles of 128 columns; one warp for each row.
__global__ void softmax(const float *X, float *Y, int C) {
  const float *x = X + (size_t)blockIdx.x * C;
  float top = -INFINITY, sum = 0.0f;
  for (int begin = 0; begin < C; begin += 128) {
    float most = -INFINITY;
    for (int c = begin + threadIdx.x; c < min(begin + 128, C); c += 32) most = fmaxf(most, x[c]);
    for (int lane = 16; lane; lane /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lane));
    float next = fmaxf(top, most), part = 0.0f;
    for (int c = begin + threadIdx.x; c < min(begin + 128, C); c += 32) part += expf(x[c] - next);
    for (int lane = 16; lane; lane /= 2) part += __shfl_xor_sync(~0u, part, lane);
    sum = sum * expf(top - next) + part;
    top = next;
  }
  for (int c = threadIdx.x; c < C; c += 32) Y[(size_t)blockIdx.x * C + c] = expf(x[c] - top) / sum;
}
void kernel(const float *X, float *Y, int R = 64, int C = 100) { softmax<<<R, 32>>>(X, Y, C); }
