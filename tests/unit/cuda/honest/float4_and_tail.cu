// On: rowsum-40x300
#include <cuda_runtime.h>
__inline__ __device__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  return v;
}
__inline__ __device__ float block_sum(float v) {
  static __shared__ float shared[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  v = (threadIdx.x < blockDim.x / 32) ? shared[lane] : 0.0f;
  if (warp == 0) v = warp_sum(v);
  return v;
}
__global__ __launch_bounds__(128) void rows(const float *__restrict__ X, float *__restrict__ Y, int C) {
  const float *x = X + (size_t)blockIdx.x * C;
  float s = 0.0f;
  if ((C & 3) == 0 && ((size_t)x & 15) == 0) {
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    for (int c = threadIdx.x; c < C / 4; c += blockDim.x) { float4 v = x4[c]; s += (v.x + v.y) + (v.z + v.w); }
  } else {
    for (int c = threadIdx.x; c < C; c += blockDim.x) s += x[c];
  }
  s = block_sum(s);
  if (threadIdx.x == 0) Y[blockIdx.x] = s;
}
void kernel(const float *X, float *Y, int R = 40, int C = 300) { rows<<<R, 128>>>(X, Y, C); }
