#include <cuda_runtime.h>

// A product of filters and patches that are gathered on the way: a block computes TM filters at TN places of one image.
TUNE(TM, 32, 64, 16)          // filters that a block computes
TUNE(TN, 64, 128, 32)         // places of the output
TUNE(TK, 16, 8, 32)           // terms that lie in shared memory at a time
TUNE(RM, 4, 8, 2)             // filters that a thread computes
TUNE(RN, 4, 2, 8)             // places
TUNE_REQUIRE(TM * TN >= 64 * RM * RN && TM * TN <= 512 * RM * RN)
TUNE_REQUIRE(4 * TK * (TM + TN + 8) <= 49152)

constexpr int ACROSS = TN / RN, DOWN = TM / RM, THREADS = ACROSS * DOWN;
constexpr int DEEP = {DEEP}, HIGH = {R}, WIDE = {WIDE}, STRIDE = {T}, PADDING = {P}, WINDOW = DEEP * HIGH * WIDE;

__global__ void __launch_bounds__(THREADS) convolution(const float *X, const float *F, const float *added, float *Y, int channels,
                                                       int depth, int height, int width, int filters, int high, int wide,
                                                       int places) {
  __shared__ float a[TK][TM + 4], b[TK][TN + 4];
  float sums[RM][RN];
  int filter = blockIdx.y * TM, place = blockIdx.x * TN, terms = channels * WINDOW;
  int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  const float *image = X + (size_t)blockIdx.z * channels * depth * height * width;
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) sums[i][j] = 0.0f;
  for (int k = 0; k < terms; k += TK) {
    for (int i = threadIdx.x; i < TM * TK; i += THREADS) {
      int f = i / TK, t = i % TK;
      a[t][f] = filter + f < filters && k + t < terms ? F[(size_t)(filter + f) * terms + k + t] : 0.0f;
    }
    for (int i = threadIdx.x; i < TK * TN; i += THREADS) {
      int t = i / TN, at = place + i % TN, e = k + t;
      int channel = e / WINDOW, z = e % WINDOW / (HIGH * WIDE) + at / (high * wide);
      int y = at / wide % high * STRIDE + e / WIDE % HIGH - PADDING, x = at % wide * STRIDE + e % WIDE - PADDING;
      bool there = at < places && e < terms && y >= 0 && y < height && x >= 0 && x < width;
      b[t][i % TN] = there ? image[(((size_t)channel * depth + z) * height + y) * width + x] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < TK; t++) {
      float of_filters[RM], of_places[RN];
#pragma unroll
      for (int i = 0; i < RM; i++) of_filters[i] = a[t][down * RM + i];
#pragma unroll
      for (int j = 0; j < RN; j++) of_places[j] = b[t][across + j * ACROSS];
#pragma unroll
      for (int i = 0; i < RM; i++)
#pragma unroll
        for (int j = 0; j < RN; j++) sums[i][j] += of_filters[i] * of_places[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) {
      int f = filter + down * RM + i, at = place + across + j * ACROSS;
      if (f < filters && at < places)
        Y[((size_t)blockIdx.z * filters + f) * places + at] = sums[i][j] + (added ? added[f] : 0.0f);
    }
}

void kernel(PARAMETERS) {
  BINDINGS
  int high = (H + 2 * PADDING - HIGH) / STRIDE + 1, wide = (W + 2 * PADDING - WIDE) / STRIDE + 1;
  int places = (depth - DEEP + 1) * high * wide;
  dim3 grid((places + TN - 1) / TN, (K + TM - 1) / TM, N);
  convolution<<<grid, THREADS>>>(X, F, added, Y, C, depth, H, W, K, high, wide, places);
}
