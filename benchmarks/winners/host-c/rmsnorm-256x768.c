#include <math.h>

typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline float v_sum(vf a) {
  a = a + __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  a = a + __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
  return a[0];
}

void kernel(const float X[256][768], const float gain[768], float Y[256][768]) {
  float over_2 = 1.0f / 768.0f;
  for (int r = 0; r < 252; r += 9) {
    float squares = 0.0f;
    float squares_4 = 0.0f;
    float squares_5 = 0.0f;
    float squares_2 = 0.0f;
    float squares_2_1 = 0.0f;
    float squares_2_2 = 0.0f;
    float squares_3 = 0.0f;
    float squares_3_1 = 0.0f;
    float squares_3_2 = 0.0f;
    vf squares_1 = v_splat(0.0f);
    vf squares_1_6 = v_splat(0.0f);
    vf squares_1_7 = v_splat(0.0f);
    vf squares_1_1 = v_splat(0.0f);
    vf squares_1_1_1 = v_splat(0.0f);
    vf squares_1_1_2 = v_splat(0.0f);
    vf squares_1_2 = v_splat(0.0f);
    vf squares_1_2_1 = v_splat(0.0f);
    vf squares_1_2_2 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      squares_1 = squares_1 + *(const vf *)&X[r][c] * *(const vf *)&X[r][c];
      squares_1_6 = squares_1_6 + *(const vf *)&X[r + 3][c] * *(const vf *)&X[r + 3][c];
      squares_1_7 = squares_1_7 + *(const vf *)&X[r + 6][c] * *(const vf *)&X[r + 6][c];
      squares_1_1 = squares_1_1 + *(const vf *)&X[r + 1][c] * *(const vf *)&X[r + 1][c];
      squares_1_1_1 = squares_1_1_1 + *(const vf *)&X[r + 3 + 1][c] * *(const vf *)&X[r + 3 + 1][c];
      squares_1_1_2 = squares_1_1_2 + *(const vf *)&X[r + 6 + 1][c] * *(const vf *)&X[r + 6 + 1][c];
      squares_1_2 = squares_1_2 + *(const vf *)&X[r + 2][c] * *(const vf *)&X[r + 2][c];
      squares_1_2_1 = squares_1_2_1 + *(const vf *)&X[r + 3 + 2][c] * *(const vf *)&X[r + 3 + 2][c];
      squares_1_2_2 = squares_1_2_2 + *(const vf *)&X[r + 6 + 2][c] * *(const vf *)&X[r + 6 + 2][c];
    }
    squares = squares + v_sum(squares_1);
    squares_4 = squares_4 + v_sum(squares_1_6);
    squares_5 = squares_5 + v_sum(squares_1_7);
    squares_2 = squares_2 + v_sum(squares_1_1);
    squares_2_1 = squares_2_1 + v_sum(squares_1_1_1);
    squares_2_2 = squares_2_2 + v_sum(squares_1_1_2);
    squares_3 = squares_3 + v_sum(squares_1_2);
    squares_3_1 = squares_3_1 + v_sum(squares_1_2_1);
    squares_3_2 = squares_3_2 + v_sum(squares_1_2_2);
    float spread = sqrtf(squares * over_2 + 1e-05f);
    float spread_3 = sqrtf(squares_4 * over_2 + 1e-05f);
    float spread_4 = sqrtf(squares_5 * over_2 + 1e-05f);
    float spread_1 = sqrtf(squares_2 * over_2 + 1e-05f);
    float spread_1_1 = sqrtf(squares_2_1 * over_2 + 1e-05f);
    float spread_1_2 = sqrtf(squares_2_2 * over_2 + 1e-05f);
    float spread_2 = sqrtf(squares_3 * over_2 + 1e-05f);
    float spread_2_1 = sqrtf(squares_3_1 * over_2 + 1e-05f);
    float spread_2_2 = sqrtf(squares_3_2 * over_2 + 1e-05f);
    float over_1 = 1.0f / spread;
    float over_1_3 = 1.0f / spread_3;
    float over_1_4 = 1.0f / spread_4;
    float over_1_1 = 1.0f / spread_1;
    float over_1_1_1 = 1.0f / spread_1_1;
    float over_1_1_2 = 1.0f / spread_1_2;
    float over_1_2 = 1.0f / spread_2;
    float over_1_2_1 = 1.0f / spread_2_1;
    float over_1_2_2 = 1.0f / spread_2_2;
    for (int c = 0; c < 768; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&X[r][c] * over_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 3][c] = *(const vf *)&X[r + 3][c] * over_1_3 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 6][c] = *(const vf *)&X[r + 6][c] * over_1_4 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 1][c] = *(const vf *)&X[r + 1][c] * over_1_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 3 + 1][c] = *(const vf *)&X[r + 3 + 1][c] * over_1_1_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 6 + 1][c] = *(const vf *)&X[r + 6 + 1][c] * over_1_1_2 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 2][c] = *(const vf *)&X[r + 2][c] * over_1_2 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 3 + 2][c] = *(const vf *)&X[r + 3 + 2][c] * over_1_2_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 6 + 2][c] = *(const vf *)&X[r + 6 + 2][c] * over_1_2_2 * *(const vf *)&gain[c];
    }
  }
  for (int r = 252; r < 255; r += 3) {
    float squares = 0.0f;
    float squares_2 = 0.0f;
    float squares_3 = 0.0f;
    vf squares_1 = v_splat(0.0f);
    vf squares_1_1 = v_splat(0.0f);
    vf squares_1_2 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      squares_1 = squares_1 + *(const vf *)&X[r][c] * *(const vf *)&X[r][c];
      squares_1_1 = squares_1_1 + *(const vf *)&X[r + 1][c] * *(const vf *)&X[r + 1][c];
      squares_1_2 = squares_1_2 + *(const vf *)&X[r + 2][c] * *(const vf *)&X[r + 2][c];
    }
    squares = squares + v_sum(squares_1);
    squares_2 = squares_2 + v_sum(squares_1_1);
    squares_3 = squares_3 + v_sum(squares_1_2);
    float spread = sqrtf(squares * over_2 + 1e-05f);
    float spread_1 = sqrtf(squares_2 * over_2 + 1e-05f);
    float spread_2 = sqrtf(squares_3 * over_2 + 1e-05f);
    float over_1 = 1.0f / spread;
    float over_1_1 = 1.0f / spread_1;
    float over_1_2 = 1.0f / spread_2;
    for (int c = 0; c < 768; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&X[r][c] * over_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 1][c] = *(const vf *)&X[r + 1][c] * over_1_1 * *(const vf *)&gain[c];
      *(vf *)&Y[r + 2][c] = *(const vf *)&X[r + 2][c] * over_1_2 * *(const vf *)&gain[c];
    }
  }
  for (int r = 255; r < 256; r++) {
    float squares = 0.0f;
    vf squares_1 = v_splat(0.0f);
    vf squares_1_3 = v_splat(0.0f);
    vf squares_1_4 = v_splat(0.0f);
    vf squares_1_5 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 64) {
      squares_1 = squares_1 + *(const vf *)&X[r][c] * *(const vf *)&X[r][c];
      squares_1_3 = squares_1_3 + *(const vf *)&X[r][c + 16] * *(const vf *)&X[r][c + 16];
      squares_1_4 = squares_1_4 + *(const vf *)&X[r][c + 32] * *(const vf *)&X[r][c + 32];
      squares_1_5 = squares_1_5 + *(const vf *)&X[r][c + 48] * *(const vf *)&X[r][c + 48];
    }
    squares_1 = squares_1 + squares_1_3;
    squares_1 = squares_1 + squares_1_4;
    squares_1 = squares_1 + squares_1_5;
    squares = squares + v_sum(squares_1);
    float spread = sqrtf(squares * over_2 + 1e-05f);
    float over_1 = 1.0f / spread;
    for (int c = 0; c < 768; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&X[r][c] * over_1 * *(const vf *)&gain[c];
    }
  }
}
