constexpr int DEEP = {DEEP}, HIGH = {R}, WIDE = {WIDE}, STRIDE = {T}, PADDING = {P}, WINDOW = DEEP * HIGH * WIDE;

// The right factor: a column for each place of the output, which holds the patch of the input below the window. A thread
// loads the same columns of every tile.
struct Right {
  static constexpr int EACH = TN > THREADS ? TN / THREADS : 1, STEP = TN > THREADS ? 1 : THREADS / TN;
  const float *values;
  int channels, depth, height, width, high, wide;
  int z[EACH], y[EACH], x[EACH];
  __device__ void choose(int image, int first, int columns) {
    values += (size_t)image * channels * depth * height * width;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int at = first + threadIdx.x % TN + i * THREADS;
      z[i] = at / (high * wide), y[i] = at / wide % high * STRIDE - PADDING, x[i] = at % wide * STRIDE - PADDING;
      if (at >= columns) z[i] = depth;  // outside
    }
  }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
#pragma unroll
    for (int t = threadIdx.x / TN; t < TK; t += STEP) {
      int term = k + t, channel = term / WINDOW, a = term % WINDOW / (HIGH * WIDE), b = term / WIDE % HIGH, c = term % WIDE;
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        int d = z[i] + a, h = y[i] + b, w = x[i] + c;
        bool there = term < end && d < depth && (unsigned)h < (unsigned)height && (unsigned)w < (unsigned)width;
        const float *from = there ? &values[((size_t)(channel * depth + d) * height + h) * width + w] : values;
        __pipeline_memcpy_async(&tile[t * RIGHT + threadIdx.x % TN + i * THREADS], from, 4, there ? 0 : 4);
      }
    }
  }
};
