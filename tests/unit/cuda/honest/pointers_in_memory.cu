// On: rowsum-8x64
#include <cuda_runtime.h>
// Pointers in constant and shared memory: tests for null and for alignment, and loops to an end address.
struct Layer { const float *x, *bias; float *y; int cols; };
__constant__ Layer layer;
__global__ void sums() {
  __shared__ const float *row;
  __shared__ float parts[32];
  const Layer &l = layer;
  if (threadIdx.x == 0) row = l.x + blockIdx.x * l.cols;
  __syncthreads();
  if (row == nullptr) return;
  float sum = 0;
  if (((size_t)row & 15) == 0) {
    for (const float4 *p = (const float4 *)row + threadIdx.x; p < (const float4 *)(row + l.cols); p += 32) sum += (p->x + p->y) + (p->z + p->w);
  } else {
    for (const float *p = row + threadIdx.x; p < row + l.cols; p += 32) sum += *p;
  }
  if (l.bias) sum += l.bias[blockIdx.x];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 16; half; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) l.y[blockIdx.x] = parts[0];
}
void kernel(const float *X, float *Y, int R = 8, int C = 64) {
  Layer l = {X, nullptr, Y, C};
  cudaMemcpyToSymbol(layer, &l, sizeof l);
  sums<<<R, 32>>>();
}
