constexpr int EXTENT_Z = {EXTENT_Z}, EXTENT_Y = {EXTENT_Y}, EXTENT_X = {EXTENT_X}, WINDOW = EXTENT_Z * EXTENT_Y * EXTENT_X;
constexpr int STRIDE_Z = {STRIDE_Z}, STRIDE_Y = {STRIDE_Y}, STRIDE_X = {STRIDE_X};
constexpr int PADDING_Z = {PADDING_Z}, PADDING_Y = {PADDING_Y}, PADDING_X = {PADDING_X};
constexpr int DILATION_Z = {DILATION_Z}, DILATION_Y = {DILATION_Y}, DILATION_X = {DILATION_X};
constexpr int SPREAD_Z = {SPREAD_Z}, SPREAD_Y = {SPREAD_Y}, SPREAD_X = {SPREAD_X};  // 2: with zeros between the elements

// Whether an element lies at a place along one axis of an image.
template <int SPREAD> __device__ bool lies(int at, int extent) {
  return (unsigned)at < (unsigned)(extent * SPREAD) && (SPREAD == 1 || at % SPREAD == 0);
}

// The right factor: a column for each place of the output, which holds the patch of the input below the window. A thread
// loads the same columns of every tile. Each group of channels is an image.
struct Right {
  static constexpr int EACH = TN > THREADS ? TN / THREADS : 1, STEP = TN > THREADS ? 1 : THREADS / TN;
  const float *values;
  int channels, depth, height, width, high, wide, groups;
  int z[EACH], y[EACH], x[EACH];
  __device__ int left_of(int image) const { return image % groups; }
  __device__ void choose(int image, int first, int columns) {
    values += (size_t)image * channels * depth * height * width;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int at = first + threadIdx.x % TN + i * THREADS;
      z[i] = at / (high * wide) * STRIDE_Z - PADDING_Z;
      y[i] = at / wide % high * STRIDE_Y - PADDING_Y, x[i] = at % wide * STRIDE_X - PADDING_X;
      if (at >= columns) z[i] = depth * SPREAD_Z;  // outside
    }
  }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
#pragma unroll
    for (int t = threadIdx.x / TN; t < TK; t += STEP) {
      int term = k + t, channel = term / WINDOW, a = term % WINDOW / (EXTENT_Y * EXTENT_X) * DILATION_Z;
      int b = term / EXTENT_X % EXTENT_Y * DILATION_Y, c = term % EXTENT_X * DILATION_X;
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        int d = z[i] + a, h = y[i] + b, w = x[i] + c;
        bool there = term < end && lies<SPREAD_Z>(d, depth) && lies<SPREAD_Y>(h, height) && lies<SPREAD_X>(w, width);
        size_t at = ((size_t)(channel * depth + d / SPREAD_Z) * height + h / SPREAD_Y) * width + w / SPREAD_X;
        const float *from = there ? &values[at] : values;
        __pipeline_memcpy_async(&tile[t * RIGHT + threadIdx.x % TN + i * THREADS], from, 4, there ? 0 : 4);
      }
    }
  }
};
