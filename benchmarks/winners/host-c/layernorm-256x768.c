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

void kernel(const float X[256][768], const float gain[768], const float bias[768], float Y[256][768]) {
  float over_9 = 1.0f / 768.0f;
  for (int r = 0; r < 252; r += 6) {
    float mean = 0.0f;
    float mean_1 = 0.0f;
    float mean_2 = 0.0f;
    float mean_3 = 0.0f;
    float mean_4 = 0.0f;
    float mean_5 = 0.0f;
    vf mean_7 = v_splat(0.0f);
    vf mean_1_1 = v_splat(0.0f);
    vf mean_2_1 = v_splat(0.0f);
    vf mean_3_1 = v_splat(0.0f);
    vf mean_4_1 = v_splat(0.0f);
    vf mean_5_1 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      mean_7 = mean_7 + *(const vf *)&X[r][c];
      mean_1_1 = mean_1_1 + *(const vf *)&X[r + 1][c];
      mean_2_1 = mean_2_1 + *(const vf *)&X[r + 2][c];
      mean_3_1 = mean_3_1 + *(const vf *)&X[r + 3][c];
      mean_4_1 = mean_4_1 + *(const vf *)&X[r + 4][c];
      mean_5_1 = mean_5_1 + *(const vf *)&X[r + 5][c];
    }
    mean = mean + v_sum(mean_7);
    mean_1 = mean_1 + v_sum(mean_1_1);
    mean_2 = mean_2 + v_sum(mean_2_1);
    mean_3 = mean_3 + v_sum(mean_3_1);
    mean_4 = mean_4 + v_sum(mean_4_1);
    mean_5 = mean_5 + v_sum(mean_5_1);
    mean = mean * over_9;
    mean_1 = mean_1 * over_9;
    mean_2 = mean_2 * over_9;
    mean_3 = mean_3 * over_9;
    mean_4 = mean_4 * over_9;
    mean_5 = mean_5 * over_9;
    float squares = 0.0f;
    float squares_1 = 0.0f;
    float squares_2 = 0.0f;
    float squares_3 = 0.0f;
    float squares_4 = 0.0f;
    float squares_5 = 0.0f;
    vf squares_7 = v_splat(0.0f);
    vf squares_1_1 = v_splat(0.0f);
    vf squares_2_1 = v_splat(0.0f);
    vf squares_3_1 = v_splat(0.0f);
    vf squares_4_1 = v_splat(0.0f);
    vf squares_5_1 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      squares_7 = squares_7 + (*(const vf *)&X[r][c] - mean) * (*(const vf *)&X[r][c] - mean);
      squares_1_1 = squares_1_1 + (*(const vf *)&X[r + 1][c] - mean_1) * (*(const vf *)&X[r + 1][c] - mean_1);
      squares_2_1 = squares_2_1 + (*(const vf *)&X[r + 2][c] - mean_2) * (*(const vf *)&X[r + 2][c] - mean_2);
      squares_3_1 = squares_3_1 + (*(const vf *)&X[r + 3][c] - mean_3) * (*(const vf *)&X[r + 3][c] - mean_3);
      squares_4_1 = squares_4_1 + (*(const vf *)&X[r + 4][c] - mean_4) * (*(const vf *)&X[r + 4][c] - mean_4);
      squares_5_1 = squares_5_1 + (*(const vf *)&X[r + 5][c] - mean_5) * (*(const vf *)&X[r + 5][c] - mean_5);
    }
    squares = squares + v_sum(squares_7);
    squares_1 = squares_1 + v_sum(squares_1_1);
    squares_2 = squares_2 + v_sum(squares_2_1);
    squares_3 = squares_3 + v_sum(squares_3_1);
    squares_4 = squares_4 + v_sum(squares_4_1);
    squares_5 = squares_5 + v_sum(squares_5_1);
    float spread = sqrtf(squares * over_9 + 1e-05f);
    float spread_1 = sqrtf(squares_1 * over_9 + 1e-05f);
    float spread_2 = sqrtf(squares_2 * over_9 + 1e-05f);
    float spread_3 = sqrtf(squares_3 * over_9 + 1e-05f);
    float spread_4 = sqrtf(squares_4 * over_9 + 1e-05f);
    float spread_5 = sqrtf(squares_5 * over_9 + 1e-05f);
    float over_3 = 1.0f / spread;
    float over_4 = 1.0f / spread_1;
    float over_5 = 1.0f / spread_2;
    float over_6 = 1.0f / spread_3;
    float over_7 = 1.0f / spread_4;
    float over_8 = 1.0f / spread_5;
    for (int c = 0; c < 768; c += 16) {
      *(vf *)&Y[r][c] = (*(const vf *)&X[r][c] - mean) * over_3 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
      *(vf *)&Y[r + 1][c] = (*(const vf *)&X[r + 1][c] - mean_1) * over_4 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
      *(vf *)&Y[r + 2][c] = (*(const vf *)&X[r + 2][c] - mean_2) * over_5 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
      *(vf *)&Y[r + 3][c] = (*(const vf *)&X[r + 3][c] - mean_3) * over_6 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
      *(vf *)&Y[r + 4][c] = (*(const vf *)&X[r + 4][c] - mean_4) * over_7 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
      *(vf *)&Y[r + 5][c] = (*(const vf *)&X[r + 5][c] - mean_5) * over_8 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
    }
  }
  float over_2 = 1.0f / 768.0f;
  for (int r = 252; r < 256; r++) {
    float mean = 0.0f;
    vf mean_6 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      mean_6 = mean_6 + *(const vf *)&X[r][c];
    }
    mean = mean + v_sum(mean_6);
    mean = mean * over_2;
    float squares = 0.0f;
    vf squares_6 = v_splat(0.0f);
    for (int c = 0; c < 768; c += 16) {
      squares_6 = squares_6 + (*(const vf *)&X[r][c] - mean) * (*(const vf *)&X[r][c] - mean);
    }
    squares = squares + v_sum(squares_6);
    float spread = sqrtf(squares * over_2 + 1e-05f);
    float over_1 = 1.0f / spread;
    for (int c = 0; c < 768; c += 16) {
      *(vf *)&Y[r][c] = (*(const vf *)&X[r][c] - mean) * over_1 * *(const vf *)&gain[c] + *(const vf *)&bias[c];
    }
  }
}
