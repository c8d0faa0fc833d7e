// Twenty right kernels and twenty wrong ones, chosen by `which`: one program for all of them.
//
// A and B hold 4096 floats each, C is the output of 4096. A kernel with BUG != 0 is a right one with one fault planted
// in it; the line that ends the kernel, if one does, says so.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace cg = cooperative_groups;
using namespace nvcuda;

constexpr int W = 64, N = W * W, T = 16;
#define ALL 0xffffffffu

__global__ void plain_product(const float *A, const float *B, float *C) {
  int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < W; k++) sum += A[y * W + k] * B[k * W + x];
  C[y * W + x] = sum;
}

template <int BUG> __global__ void tiled_product(const float *A, const float *B, float *C) {
  __shared__ float a[T][T], b[T][T];
  int ty = threadIdx.y, tx = threadIdx.x, y = blockIdx.y * T + ty, x = blockIdx.x * T + tx;
  float sum = 0.0f;
  if (BUG == 6) { float unset; sum = *(volatile float *)&unset; }
  for (int k = 0; k < W; k += T) {
    a[ty][tx] = A[y * W + k + tx + (BUG == 3)];  // BUG 3
    b[ty][tx] = B[(k + ty) * W + x];
    if (BUG != 1) __syncthreads();
    int terms = BUG == 4 ? T + 1 : T;
    for (int i = 0; i < terms; i++) sum += a[ty][i] * b[i][tx];  // BUG 4
    if (BUG != 2) __syncthreads();
  }
  if (BUG == 5) C[x * W + y] = sum;
  else C[y * W + x + (BUG == 7) * N] = sum;  // BUG 7
}

__global__ void blocked_product(const float *A, const float *B, float *C) {
  __shared__ float a[16][W + 4], b[16][W];
  int t = threadIdx.x, x = t % 16 * 4, y = t / 16 * 4;
  float sum[4][4] = {};
  for (int k = 0; k < W; k += 16) {
    float4 left = *(const float4 *)&A[(t / 4) * W + k + t % 4 * 4];
    for (int i = 0; i < 4; i++) a[t % 4 * 4 + i][t / 4] = (&left.x)[i];
    *(float4 *)&b[t / 16][t % 16 * 4] = *(const float4 *)&B[(k + t / 16) * W + t % 16 * 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      float4 p = *(const float4 *)&a[i][y], q = *(const float4 *)&b[i][x];
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) sum[r][c] += (&p.x)[r] * (&q.x)[c];
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; r++)
    *(float4 *)&C[(y + r) * W + x] = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

template <int BUG> __global__ void dynamic_product(const float *A, const float *B, float *C) {
  extern __shared__ float tiles[];
  float *a = tiles, *b = tiles + T * T;
  int ty = threadIdx.y, tx = threadIdx.x, y = blockIdx.y * T + ty, x = blockIdx.x * T + tx;
  float sum = 0.0f;
  for (int k = 0; k < W; k += T) {
    a[ty * T + tx] = A[y * W + k + tx];
    b[ty * T + tx] = B[(k + ty) * W + x];  // BUG 8
    __syncthreads();
    for (int i = 0; i < T; i++) sum += a[ty * T + i] * b[i * T + tx];
    __syncthreads();
  }
  C[y * W + x] = sum;
}

template <int BUG> __global__ void buffered_product(const float *A, const float *B, float *C) {
  __shared__ float a[2][T][T], b[2][T][T];
  int ty = threadIdx.y, tx = threadIdx.x, y = blockIdx.y * T + ty, x = blockIdx.x * T + tx;
  auto load = [&](int to, int k) {
    __pipeline_memcpy_async(&a[to][ty][tx], &A[y * W + k + tx], 4);
    __pipeline_memcpy_async(&b[to][ty][tx], &B[(k + ty) * W + x], 4);
    __pipeline_commit();
  };
  float sum = 0.0f;
  load(0, 0);
  for (int k = 0, now = 0; k < W; k += T, now ^= 1) {
    if (k + T < W) load(BUG == 9 ? now : now ^ 1, k + T);
    if (BUG != 31) __pipeline_wait_prior(k + T < W ? 1 : 0);
    __syncthreads();
    for (int i = 0; i < T; i++) sum += a[now][ty][i] * b[now][i][tx];
    __syncthreads();
  }
  C[y * W + x] = sum;
}

template <int BUG> __global__ void split_product(const float *A, const float *B, float *C) {
  int y = threadIdx.y + blockIdx.y * 16, x = threadIdx.x + blockIdx.x * 16, k0 = blockIdx.z * 16;
  float sum = 0.0f;
  for (int k = k0; k < k0 + 16; k++) sum += A[y * W + k] * B[k * W + x];
  if (BUG == 10) C[y * W + x] = sum;
  else if (BUG == 30) C[y * W + x] += sum;  // BUG 30
  else if (BUG == 33 && blockIdx.z == 3) C[y * W + x] += sum;  // BUG 33
  else atomicAdd(&C[y * W + x], sum);
}

__global__ void half_product(const float *A, const float *B, float *C) {
  __shared__ half a[16][16], b[16][16];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  int y = blockIdx.y * 16, x = blockIdx.x * 16;
  for (int k = 0; k < W; k += 16) {
    for (int i = threadIdx.x; i < 256; i += 32) {
      a[i / 16][i % 16] = __float2half(A[(y + i / 16) * W + k + i % 16]);
      b[i / 16][i % 16] = __float2half(B[(k + i / 16) * W + x + i % 16]);
    }
    __syncwarp();
    wmma::load_matrix_sync(left, &a[0][0], 16);
    wmma::load_matrix_sync(right, &b[0][0], 16);
    wmma::mma_sync(sum, left, right, sum);
    __syncwarp();
  }
  wmma::store_matrix_sync(&C[y * W + x], sum, W, wmma::mem_row_major);
}

template <int BUG> __global__ void tree_sums(const float *A, float *C) {
  __shared__ float parts[W];
  int t = threadIdx.x;
  parts[t] = A[blockIdx.x * W + t];
  __syncthreads();
  for (int half = W / 2; half > 0; half /= 2) {
    if (BUG == 11 && t >= half) break;
    if (t < half) parts[t] += parts[t + half + (BUG == 12 && half == 1) * W];  // BUG 12
    if (BUG == 13) {
      if (t < half) __syncthreads();
      else __syncthreads();
    } else if (BUG != 14) __syncthreads();
  }
  if (BUG == 11) __syncthreads();
  if (t == 0) C[blockIdx.x] = parts[0];
}

template <int BUG> __global__ void shuffled_sums(const float *A, float *C) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = A[row * W + lane] + A[row * W + lane + 32];
  if (BUG == 15 && lane >= 16) return;
  for (int step = 16; step > 0; step /= 2) {
    if (BUG == 16 && lane >= step) continue;
    sum += __shfl_down_sync(BUG == 17 ? 0x0000ffffu : ALL, sum, step);  // BUG 17
  }
  if (lane == 0) C[row] = sum;
}

__global__ void grouped_sums(const float *A, float *C) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int row = blockIdx.x * 8 + tile.meta_group_rank();
  float sum = 0.0f;
  for (int i = tile.thread_rank(); i < W; i += tile.size()) sum += A[row * W + i];
  sum = cg::reduce(tile, sum, cg::plus<float>());
  if (tile.thread_rank() == 0) C[row] = sum;
}

__global__ void scan_in_shared(const float *A, float *C) {
  __shared__ float at[2][W];
  int t = threadIdx.x, now = 0;
  at[0][t] = A[blockIdx.x * W + t];
  __syncthreads();
  for (int step = 1; step < W; step *= 2, now ^= 1) {
    at[now ^ 1][t] = t >= step ? at[now][t] + at[now][t - step] : at[now][t];
    __syncthreads();
  }
  C[blockIdx.x * W + t] = at[now][t];
}

template <int BUG> __global__ void scan_by_shuffles(const float *A, float *C) {
  __shared__ float first;
  int t = threadIdx.x, lane = t % 32;
  float sum = A[blockIdx.x * W + t];
  for (int step = 1; step < 32; step *= 2) {
    float below = __shfl_up_sync(ALL, sum, step);
    if (lane >= step) sum += below;
  }
  if (t == 31 && BUG != 18) first = sum;
  __syncthreads();
  C[blockIdx.x * W + t] = t >= 32 ? sum + first : sum;
}

__global__ void softmax(const float *A, float *C) {
  int row = blockIdx.x, lane = threadIdx.x;
  float a = A[row * W + lane], b = A[row * W + lane + 32], most = fmaxf(a, b);
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, step));
  a = expf(a - most);
  b = expf(b - most);
  float sum = a + b;
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
  C[row * W + lane] = a / sum;
  C[row * W + lane + 32] = b / sum;
}

template <int BUG> __global__ void five_taps(const float *A, const float *B, float *C) {
  __shared__ float tile[128 + 4];
  int t = threadIdx.x, at = blockIdx.x * 128 + t;
  tile[t + 2] = A[at];
  if (t < 2) tile[t] = at >= 2 ? A[at - 2] : 0.0f;
  if (t >= 126 && BUG != 19) tile[t + 4] = at + 2 < N ? A[at + 2] : 0.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < 5; i++) sum += tile[t + i] * B[i];
  C[at] = sum;
}

template <int BUG> __global__ void stencil(const float *A, float *C) {
  int x = threadIdx.x, y = blockIdx.x;
  bool inside = BUG == 20 ? x > 0 && x < W - 1 : x > 0 && y > 0 && x < W - 1 && y < W - 1;
  float at = A[y * W + x];
  C[y * W + x] = inside ? A[(y - 1) * W + x] + A[(y + 1) * W + x] + A[y * W + x - 1] + A[y * W + x + 1] - 4 * at : at;  // BUG 20
}

template <int BUG> __global__ void histogram(const float *A, float *C) {
  __shared__ unsigned bins[16];
  int t = threadIdx.x;
  if (t < 16 && BUG != 21) bins[t] = 0;
  __syncthreads();
  for (int i = t; i < N; i += blockDim.x) {
    int bin = min(15, max(0, (int)(A[i] * 4.0f + 8.0f)));
    if (BUG == 29) bins[bin]++;  // BUG 29
    else if (BUG == 32 && i == 0) bins[bin]++;  // BUG 32
    else atomicAdd(&bins[bin], 1u);
  }
  __syncthreads();
  if (t < 16) C[t] = (float)bins[t];
}

template <int BUG> __global__ void transpose(const float *A, float *C) {
  __shared__ float tile[16][17];
  int x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x * 16, by = blockIdx.y * 16;
  tile[y][x] = A[(by + y) * W + bx + x];
  if (BUG != 22) __syncthreads();
  C[(bx + y) * W + by + x] = tile[x][y];
}

// One sum, by a lock within each block and by tickets among blocks: the last block adds what all have left.
__global__ void sum_of_all(const float *A, float *C) {
  __shared__ float sum;
  __shared__ int lock;
  __shared__ bool last;
  __device__ static unsigned tickets;
  int t = threadIdx.x;
  if (t == 0) sum = 0.0f, lock = 0;
  __syncthreads();
  while (atomicCAS(&lock, 0, 1) != 0) {}
  sum += A[blockIdx.x * W + t];
  __threadfence_block();
  atomicExch(&lock, 0);
  __syncthreads();
  if (t == 0) {
    C[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  for (int step = W / 2; step > 0; step /= 2) {
    if (t < step) C[t] += C[t + step];
    __syncthreads();
  }
}

__global__ void positives(const float *A, float *C) {
  int lane = threadIdx.x;
  bool is = A[blockIdx.x * 32 + lane] > 0.0f;
  unsigned votes = __ballot_sync(ALL, is);
  unsigned sum = __reduce_add_sync(ALL, (unsigned)is);
  C[blockIdx.x * 32 + lane] = __popc(votes & ((1u << lane) - 1)) + (__any_sync(ALL, is) ? 100.0f * sum : 0.0f);
}

template <int BUG> __global__ void half_sums(const float *A, const float *B, float *C) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  const float *from = A + i + (BUG == 23);
  float2 a = *(const float2 *)from;  // BUG 23
  half2 sum = __hfma2(__floats2half2_rn(a.x, a.y), __float2half2_rn(2.0f), __floats2half2_rn(B[i], B[i + 1]));
  C[i] = __low2float(sum);
  C[i + 1] = __high2float(sum);
}

__global__ void counted(const float *A, float *C) {
  int count = __syncthreads_count(A[blockIdx.x * W + threadIdx.x] > 0.0f);
  int any = __syncthreads_or(count > 60), all = __syncthreads_and(count > 3);
  C[blockIdx.x * W + threadIdx.x] = count + 100.0f * all + 1000.0f * any;
}

__global__ void sorted(const float *A, float *C) {
  __shared__ float row[W];
  int t = threadIdx.x;
  row[t] = A[blockIdx.x * W + t];
  __syncthreads();
  for (int size = 2; size <= W; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      int other = t ^ step;
      if (other > t && (row[t] > row[other]) == ((t & size) == 0)) {
        float kept = row[t];
        row[t] = row[other];
        row[other] = kept;
      }
      __syncthreads();
    }
  C[blockIdx.x * W + t] = row[t];
}

template <int BUG> __global__ void doubled(float *A, float *C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (BUG == 24) A[i] = 2 * A[i];  // BUG 24
  C[i] = 2 * A[i];
}

__global__ void nothing() {}

void kernel(const float *A, const float *B, float *C, int which) {
  dim3 tiles(W / T, W / T), tile(T, T);
  int dynamic = 2 * T * T * sizeof(float);
  cudaMemset(C, 0, N * sizeof(float));
  switch (which) {
    case 0: plain_product<<<dim3(2, 8), dim3(32, 8)>>>(A, B, C); break;
    case 1: tiled_product<0><<<tiles, tile>>>(A, B, C); break;
    case 2: blocked_product<<<1, 256>>>(A, B, C); break;
    case 3: dynamic_product<0><<<tiles, tile, dynamic>>>(A, B, C); break;
    case 4: buffered_product<0><<<tiles, tile>>>(A, B, C); break;
    case 5: split_product<0><<<dim3(4, 4, 4), tile>>>(A, B, C); break;
    case 6: half_product<<<dim3(4, 4), 32>>>(A, B, C); break;
    case 7: tree_sums<0><<<W, W>>>(A, C); break;
    case 8: shuffled_sums<0><<<W / 4, 128>>>(A, C); break;
    case 9: grouped_sums<<<W / 8, 128>>>(A, C); break;
    case 10: scan_in_shared<<<W, W>>>(A, C); break;
    case 11: scan_by_shuffles<0><<<W, W>>>(A, C); break;
    case 12: softmax<<<W, 32>>>(A, C); break;
    case 13: five_taps<0><<<N / 128, 128>>>(A, B, C); break;
    case 14: stencil<0><<<W, W>>>(A, C); break;
    case 15: histogram<0><<<1, 256>>>(A, C); break;
    case 16: transpose<0><<<tiles, tile>>>(A, C); break;
    case 17: positives<<<N / 32, 32>>>(A, C); break;
    case 18: half_sums<0><<<N / 256, 128>>>(A, B, C); break;
    case 19: counted<<<W, W>>>(A, C); break;
    case 20: sorted<<<W, W>>>(A, C); break;
    case 21: sum_of_all<<<W, W>>>(A, C); break;
    case 101: tiled_product<1><<<tiles, tile>>>(A, B, C); break;
    case 102: tiled_product<2><<<tiles, tile>>>(A, B, C); break;
    case 103: tiled_product<3><<<tiles, tile>>>(A, B, C); break;
    case 104: tiled_product<4><<<tiles, tile>>>(A, B, C); break;
    case 105: tiled_product<5><<<tiles, tile>>>(A, B, C); break;
    case 106: tiled_product<6><<<tiles, tile>>>(A, B, C); break;
    case 107: tiled_product<7><<<tiles, tile>>>(A, B, C); break;
    case 108: dynamic_product<8><<<tiles, tile, dynamic / 2>>>(A, B, C); break;
    case 109: buffered_product<9><<<tiles, tile>>>(A, B, C); break;
    case 110: split_product<10><<<dim3(4, 4, 4), tile>>>(A, B, C); break;
    case 111: tree_sums<11><<<W, W>>>(A, C); break;
    case 112: tree_sums<12><<<W, W>>>(A, C); break;
    case 113: tree_sums<13><<<W, W>>>(A, C); break;
    case 114: tree_sums<14><<<W, W>>>(A, C); break;
    case 115: shuffled_sums<15><<<W / 4, 128>>>(A, C); break;
    case 116: shuffled_sums<16><<<W / 4, 128>>>(A, C); break;
    case 117: shuffled_sums<17><<<W / 4, 128>>>(A, C); break;
    case 118: scan_by_shuffles<18><<<W, W>>>(A, C); break;
    case 119: five_taps<19><<<N / 128, 128>>>(A, B, C); break;
    case 120: stencil<20><<<W, W>>>(A, C); break;
    case 121: histogram<21><<<1, 256>>>(A, C); break;
    case 122: transpose<22><<<tiles, tile>>>(A, C); break;
    case 123: half_sums<23><<<N / 256, 128>>>(A, B, C); break;
    case 124: doubled<24><<<N / 256, 256>>>((float *)A, C); break;
    case 125: C[0] = A[0]; break;  // BUG 25
    case 126: nothing<<<1, 1025>>>(); break;  // BUG 26
    case 127: nothing<<<1, 32, 100000>>>(); break;  // BUG 27
    case 129: histogram<29><<<1, 256>>>(A, C); break;
    case 130: split_product<30><<<dim3(4, 4, 4), tile>>>(A, B, C); break;
    case 132: histogram<32><<<1, 256>>>(A, C); break;
    case 133: split_product<33><<<dim3(4, 4, 4), tile>>>(A, B, C); break;
    case 131: buffered_product<31><<<tiles, tile>>>(A, B, C); break;
    case 128: plain_product<<<dim3(2, 7), dim3(32, 8)>>>(A, B, C); break;
  }
}
