constexpr int ACROSS = TN / (8 * RN), THREADS = TM * TN / (RM * RN);

// Sums of a thread, in registers: RM rows, every fourth one, and RN columns, in groups of four that are 32 apart.
struct Sums {
  float at[RM][RN];
  __device__ int first_row() const { return threadIdx.x / 32 / ACROSS * 4 * RM + threadIdx.x % 32 / 8; }
  __device__ int first_column() const { return threadIdx.x / 32 % ACROSS * 8 * RN + threadIdx.x % 8 * 4; }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < RM; i++)
#pragma unroll
      for (int j = 0; j < RN; j++) at[i][j] = 0.0f;
  }
  __device__ void add(const float *a, const float *b) {
    a += first_row() * LEFT, b += first_column();
#pragma unroll
    for (int t = 0; t < TK; t += 4) {
      float4 left[RM];
#pragma unroll
      for (int i = 0; i < RM; i++) left[i] = *(const float4 *)&a[4 * i * LEFT + t];
#pragma unroll
      for (int u = 0; u < 4; u++) {
        float4 right[RN / 4];
#pragma unroll
        for (int j = 0; j < RN / 4; j++) right[j] = *(const float4 *)&b[(t + u) * RIGHT + 32 * j];
#pragma unroll
        for (int i = 0; i < RM; i++) {
          float value = u == 0 ? left[i].x : u == 1 ? left[i].y : u == 2 ? left[i].z : left[i].w;
#pragma unroll
          for (int j = 0; j < RN / 4; j++) {
            at[i][4 * j] += value * right[j].x;
            at[i][4 * j + 1] += value * right[j].y;
            at[i][4 * j + 2] += value * right[j].z;
            at[i][4 * j + 3] += value * right[j].w;
          }
        }
      }
    }
  }
  __device__ void write(float *, float *result, const Added &added, int row, int column, int rows, int columns) const {
#pragma unroll
    for (int i = 0; i < RM; i++)
#pragma unroll
      for (int j = 0; j < RN; j += 4)
        put(result, added, row + first_row() + 4 * i, column + first_column() + 8 * j, rows, columns,
            make_float4(at[i][j], at[i][j + 1], at[i][j + 2], at[i][j + 3]));
  }
};
