// The right factor: a matrix whose rows lie one behind the other.
struct Right {
  const float *values;
  int column, columns;
  __device__ void choose(int, int first, int all) { column = first, columns = all; }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
    load_tile<VECTORS, TK, TN, RIGHT>(tile, values, k, end, column, columns, columns);
  }
};
