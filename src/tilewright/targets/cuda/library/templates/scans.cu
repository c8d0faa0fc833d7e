#include <cuda_runtime.h>

// Sums or products of the elements of a row up to each one. A block computes LANES rows that lie side by side; PARTS
// threads share each of them, and each takes EACH neighbouring elements at a time.
TUNE(LANES, {LANES})
TUNE(PARTS, {PARTS})
TUNE(EACH, 4, 1, 2, 8)
TUNE_REQUIRE(LANES * PARTS >= 32 && LANES * PARTS <= 1024)

__device__ {NUMBER} joined({NUMBER} one, {NUMBER} other) { return one {SIGN} other; }

__global__ void __launch_bounds__(LANES *PARTS) scans({TAKEN}float *result, unsigned rows, int columns, unsigned inner) {
  __shared__ {NUMBER} parts[2][PARTS][LANES];
  unsigned row = blockIdx.x * LANES + threadIdx.x;
  bool there = row < rows;
  unsigned begin = there ? row / inner * columns * inner + row % inner : 0;
  {NUMBER} before = {START};  // all elements of earlier steps
  for (int first = threadIdx.y * EACH; first - (int)threadIdx.y * EACH < columns; first += PARTS * EACH) {
    {NUMBER} found[EACH], own = {START};
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      if (there && first + e < columns) {
        unsigned place = begin + (first + e) * inner;
{SCANNED}
      }
      found[e] = own;
    }
    int now = 0;
    parts[now][threadIdx.y][threadIdx.x] = own;
    __syncthreads();
#pragma unroll
    for (int step = 1; step < PARTS; step *= 2) {
      if (threadIdx.y >= step) own = joined(parts[now][threadIdx.y - step][threadIdx.x], own);
      now = 1 - now;
      parts[now][threadIdx.y][threadIdx.x] = own;
      __syncthreads();
    }
    {NUMBER} earlier = threadIdx.y > 0 ? joined(before, parts[now][threadIdx.y - 1][threadIdx.x]) : before;
    before = joined(before, parts[now][PARTS - 1][threadIdx.x]);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      if (there && first + e < columns) {
        unsigned place = begin + (first + e) * inner;
        float value = (float)joined(earlier, found[e]);
{BODY}
      }
    }
  }
}

static void launch({TAKEN}float *result, unsigned rows, int columns, unsigned inner) {
  scans<<<(rows + LANES - 1) / LANES, dim3(LANES, PARTS)>>>({PASSED}result, rows, columns, inner);
}
