// On: rowsum-40x300
#include <cuda_runtime.h>
// Kahan sums, with one thread for each row, in chunks through shared memory.
struct Sum { float high, low; __device__ void add(float v) { float y = v - low; float t = high + y; low = (t - high) - y; high = t; } };
__global__ void rows(const float *X, float *Y, int R, int C) {
  __shared__ float tile[32][33];
  int first = blockIdx.x * 32, lane = threadIdx.x, group = threadIdx.y;
  Sum sum = {0.0f, 0.0f};
  for (int c = 0; c < C; c += 32) {
    for (int r = group; r < 32; r += blockDim.y) {
      bool inside = first + r < R && c + lane < C;
      tile[r][lane] = inside ? X[(size_t)(first + r) * C + c + lane] : 0.0f;
    }
    __syncthreads();
    if (group == 0) for (int i = 0; i < 32; i++) sum.add(tile[lane][i]);
    __syncthreads();
  }
  if (group == 0 && first + lane < R) Y[first + lane] = sum.high;
}
void kernel(const float *X, float *Y, int R = 40, int C = 300) { rows<<<(R + 31) / 32, dim3(32, 8)>>>(X, Y, R, C); }
