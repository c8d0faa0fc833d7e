/* What a GPU does at best, with kernels whose only purpose is one kind of work. Called by peaks.py through program.cu.
   TENSOR_CORES, which peaks.py defines, says whether the architecture's tensor cores multiply tf32 and bfloat16.

   Every kernel repeats its work as often as `passes[0]` says, so that a call takes long enough for its time to be exact. */
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#if TENSOR_CORES
#include <mma.h>
#endif

enum { THREADS = 256, BLOCKS_OF_ONE = 4, SUMS = 8, STEPS = 16, TILES = 4, PRODUCTS = 4 };

/* Each pass reads one array and writes the other; the next pass does the opposite. */
__global__ void __launch_bounds__(THREADS) copy(const int *passes, float4 *from, float4 *to, int length) {
  int step = gridDim.x * blockDim.x, count = *passes;
  for (int pass = 0; pass < count; pass++) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += step) to[i] = from[i];
    float4 *other = from;
    from = to;
    to = other;
  }
}

/* SUMS independent chains in each thread: SUMS * STEPS multiply-adds of float32 in a pass. */
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_ONE) multiply_add(const int *passes, float *to) {
  float sums[SUMS], factor = 0.999f - 1e-6f * threadIdx.x, term = 1e-3f * threadIdx.x, total = 0.0f;
  int count = *passes;
  for (int i = 0; i < SUMS; i++) sums[i] = (float)(threadIdx.x + i);
  for (int pass = 0; pass < count; pass++) {
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
      for (int i = 0; i < SUMS; i++) sums[i] = fmaf(sums[i], factor, term);
  }
  for (int i = 0; i < SUMS; i++) total += sums[i];
  to[blockIdx.x * THREADS + threadIdx.x] = total;
}

/* Each warp adds PRODUCTS products to each of TILES tiles in a pass. */
#if TENSOR_CORES
template <class T, int DEPTH, class Value>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_ONE) multiply_tiles(const int *passes, float *to, Value value) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, DEPTH, T, row_major> left;
  fragment<matrix_b, 16, 16, DEPTH, T, row_major> right;
  fragment<accumulator, 16, 16, DEPTH, float> sums[TILES];
  fill_fragment(left, value);
  fill_fragment(right, value);
  int count = *passes;
  for (int i = 0; i < TILES; i++) fill_fragment(sums[i], (float)i);
  for (int pass = 0; pass < count; pass++) {
#pragma unroll
    for (int step = 0; step < PRODUCTS; step++)
#pragma unroll
      for (int i = 0; i < TILES; i++) mma_sync(sums[i], left, right, sums[i]);
  }
  for (int i = 0; i < TILES; i++)
    store_matrix_sync(to + ((blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * TILES + i) * 256, sums[i], 16, mem_row_major);
}
#endif

void kernel(const int *passes, float *from, float *to, int length, int blocks, int work) {
  if (work == 0) copy<<<blocks, THREADS>>>(passes, (float4 *)from, (float4 *)to, length / 4);
  if (work == 1) multiply_add<<<blocks, THREADS>>>(passes, to);
#if TENSOR_CORES
  if (work == 2) multiply_tiles<nvcuda::wmma::precision::tf32, 8, float><<<blocks, THREADS>>>(passes, to, 0.25f);
  if (work == 3) multiply_tiles<__nv_bfloat16, 16, __nv_bfloat16><<<blocks, THREADS>>>(passes, to, __float2bfloat16(0.25f));
#endif
}
