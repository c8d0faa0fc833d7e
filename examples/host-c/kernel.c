// The starting kernel: correct, but slow. Replace it with your own kernel
// of the same name, with the parameters in the order of workload.toml.
void kernel(const float A[128][128], const float B[128][128], float C[128][128]) {
  for (int i = 0; i < 128; i++) {
    for (int j = 0; j < 128; j++) {
      float sum = 0.0f;
      for (int k = 0; k < 128; k++) sum += A[i][k] * B[k][j];
      C[i][j] = sum;
    }
  }
}
