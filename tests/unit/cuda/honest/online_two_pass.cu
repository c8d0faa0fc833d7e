// On: softmax-64x100
#include <cuda_runtime.h>
// Online softmax, a warp for each row, values kept in registers.
template <int PER> __global__ void online(const float *__restrict__ X, float *__restrict__ Y, int R, int C) {
  int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= R) return;
  const float *x = X + (size_t)row * C;
  float kept[PER], m = -INFINITY, s = 0.0f;
#pragma unroll
  for (int i = 0; i < PER; i++) {
    int c = lane + 32 * i;
    kept[i] = c < C ? x[c] : -INFINITY;
    float n = fmaxf(m, kept[i]);
    if (c < C) s = s * expf(m - n) + expf(kept[i] - n);
    m = n;
  }
  for (int o = 16; o > 0; o >>= 1) {
    float om = __shfl_xor_sync(0xffffffffu, m, o), os = __shfl_xor_sync(0xffffffffu, s, o);
    float n = fmaxf(m, om);
    s = s * expf(m - n) + os * expf(om - n);
    m = n;
  }
  float inverse = 1.0f / s;
#pragma unroll
  for (int i = 0; i < PER; i++) {
    int c = lane + 32 * i;
    if (c < C) Y[(size_t)row * C + c] = expf(kept[i] - m) * inverse;
  }
}
void kernel(const float *X, float *Y, int R = 64, int C = 100) {
  dim3 block(32, 4);
  int blocks = (R + 3) / 4;
  if (C <= 128) online<4><<<blocks, block>>>(X, Y, R, C);
  else if (C <= 1024) online<32><<<blocks, block>>>(X, Y, R, C);
  else online<128><<<blocks, block>>>(X, Y, R, C);
}
