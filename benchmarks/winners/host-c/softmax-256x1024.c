#include <math.h>

typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline vf v_max(vf a, vf b) {
  vi more = a > b;
  return (vf)(((vi)a & more) | ((vi)b & ~more));
}

static inline vf v_min(vf a, vf b) {
  vi less = a < b;
  return (vf)(((vi)a & less) | ((vi)b & ~less));
}

/* e to the power of each lane, within 2 units in the last place */
static inline vf v_exp(vf x) {
  const vf magic = (vf){0} + 12582912.0f;
  x = v_max(v_min(x, (vf){0} + 89.0f), (vf){0} - 104.0f);
  vf n = x * 1.44269504f + magic;
  n = n - magic;
  vf r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
  return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

static inline float v_sum(vf a) {
  a = a + __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  a = a + __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
  return a[0];
}

static inline float v_most(vf a) {
  a = v_max(a, __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  a = v_max(a, __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  a = v_max(a, __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  a = v_max(a, __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
  return a[0];
}

void kernel(const float X[256][1024], float Y[256][1024]) {
  for (int r = 0; r < 252; r += 6) {
    float most = X[r][0];
    float most_2 = X[r + 1][0];
    float most_3 = X[r + 2][0];
    float most_4 = X[r + 3][0];
    float most_5 = X[r + 4][0];
    float most_6 = X[r + 5][0];
    vf most_1 = v_splat(most);
    vf most_1_1 = v_splat(most_2);
    vf most_1_2 = v_splat(most_3);
    vf most_1_3 = v_splat(most_4);
    vf most_1_4 = v_splat(most_5);
    vf most_1_5 = v_splat(most_6);
    vf most_1_6 = most_1;
    vf most_1_1_1 = most_1_1;
    vf most_1_2_1 = most_1_2;
    vf most_1_3_1 = most_1_3;
    vf most_1_4_1 = most_1_4;
    vf most_1_5_1 = most_1_5;
    for (int c = 0; c < 1024; c += 32) {
      most_1 = v_max(most_1, *(const vf *)&X[r][c]);
      most_1_1 = v_max(most_1_1, *(const vf *)&X[r + 1][c]);
      most_1_2 = v_max(most_1_2, *(const vf *)&X[r + 2][c]);
      most_1_3 = v_max(most_1_3, *(const vf *)&X[r + 3][c]);
      most_1_4 = v_max(most_1_4, *(const vf *)&X[r + 4][c]);
      most_1_5 = v_max(most_1_5, *(const vf *)&X[r + 5][c]);
      most_1_6 = v_max(most_1_6, *(const vf *)&X[r][c + 16]);
      most_1_1_1 = v_max(most_1_1_1, *(const vf *)&X[r + 1][c + 16]);
      most_1_2_1 = v_max(most_1_2_1, *(const vf *)&X[r + 2][c + 16]);
      most_1_3_1 = v_max(most_1_3_1, *(const vf *)&X[r + 3][c + 16]);
      most_1_4_1 = v_max(most_1_4_1, *(const vf *)&X[r + 4][c + 16]);
      most_1_5_1 = v_max(most_1_5_1, *(const vf *)&X[r + 5][c + 16]);
    }
    most_1 = v_max(most_1, most_1_6);
    most_1_1 = v_max(most_1_1, most_1_1_1);
    most_1_2 = v_max(most_1_2, most_1_2_1);
    most_1_3 = v_max(most_1_3, most_1_3_1);
    most_1_4 = v_max(most_1_4, most_1_4_1);
    most_1_5 = v_max(most_1_5, most_1_5_1);
    most = fmaxf(most, v_most(most_1));
    most_2 = fmaxf(most_2, v_most(most_1_1));
    most_3 = fmaxf(most_3, v_most(most_1_2));
    most_4 = fmaxf(most_4, v_most(most_1_3));
    most_5 = fmaxf(most_5, v_most(most_1_4));
    most_6 = fmaxf(most_6, v_most(most_1_5));
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    float sum_4 = 0.0f;
    float sum_5 = 0.0f;
    float sum_6 = 0.0f;
    vf sum_1 = v_splat(0.0f);
    vf sum_1_1 = v_splat(0.0f);
    vf sum_1_2 = v_splat(0.0f);
    vf sum_1_3 = v_splat(0.0f);
    vf sum_1_4 = v_splat(0.0f);
    vf sum_1_5 = v_splat(0.0f);
    for (int c = 0; c < 1024; c += 16) {
      *(vf *)&Y[r][c] = v_exp(*(const vf *)&X[r][c] - most);
      *(vf *)&Y[r + 1][c] = v_exp(*(const vf *)&X[r + 1][c] - most_2);
      *(vf *)&Y[r + 2][c] = v_exp(*(const vf *)&X[r + 2][c] - most_3);
      *(vf *)&Y[r + 3][c] = v_exp(*(const vf *)&X[r + 3][c] - most_4);
      *(vf *)&Y[r + 4][c] = v_exp(*(const vf *)&X[r + 4][c] - most_5);
      *(vf *)&Y[r + 5][c] = v_exp(*(const vf *)&X[r + 5][c] - most_6);
      sum_1 = sum_1 + *(const vf *)&Y[r][c];
      sum_1_1 = sum_1_1 + *(const vf *)&Y[r + 1][c];
      sum_1_2 = sum_1_2 + *(const vf *)&Y[r + 2][c];
      sum_1_3 = sum_1_3 + *(const vf *)&Y[r + 3][c];
      sum_1_4 = sum_1_4 + *(const vf *)&Y[r + 4][c];
      sum_1_5 = sum_1_5 + *(const vf *)&Y[r + 5][c];
    }
    sum = sum + v_sum(sum_1);
    sum_2 = sum_2 + v_sum(sum_1_1);
    sum_3 = sum_3 + v_sum(sum_1_2);
    sum_4 = sum_4 + v_sum(sum_1_3);
    sum_5 = sum_5 + v_sum(sum_1_4);
    sum_6 = sum_6 + v_sum(sum_1_5);
    float over_1 = 1.0f / sum;
    float over_1_1 = 1.0f / sum_2;
    float over_1_2 = 1.0f / sum_3;
    float over_1_3 = 1.0f / sum_4;
    float over_1_4 = 1.0f / sum_5;
    float over_1_5 = 1.0f / sum_6;
    for (int c = 0; c < 1024; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&Y[r][c] * over_1;
      *(vf *)&Y[r + 1][c] = *(const vf *)&Y[r + 1][c] * over_1_1;
      *(vf *)&Y[r + 2][c] = *(const vf *)&Y[r + 2][c] * over_1_2;
      *(vf *)&Y[r + 3][c] = *(const vf *)&Y[r + 3][c] * over_1_3;
      *(vf *)&Y[r + 4][c] = *(const vf *)&Y[r + 4][c] * over_1_4;
      *(vf *)&Y[r + 5][c] = *(const vf *)&Y[r + 5][c] * over_1_5;
    }
  }
  for (int r = 252; r < 256; r += 4) {
    float most = X[r][0];
    float most_7 = X[r + 1][0];
    float most_8 = X[r + 2][0];
    float most_9 = X[r + 3][0];
    vf most_1 = v_splat(most);
    vf most_1_7 = v_splat(most_7);
    vf most_1_8 = v_splat(most_8);
    vf most_1_9 = v_splat(most_9);
    for (int c = 0; c < 1024; c += 16) {
      most_1 = v_max(most_1, *(const vf *)&X[r][c]);
      most_1_7 = v_max(most_1_7, *(const vf *)&X[r + 1][c]);
      most_1_8 = v_max(most_1_8, *(const vf *)&X[r + 2][c]);
      most_1_9 = v_max(most_1_9, *(const vf *)&X[r + 3][c]);
    }
    most = fmaxf(most, v_most(most_1));
    most_7 = fmaxf(most_7, v_most(most_1_7));
    most_8 = fmaxf(most_8, v_most(most_1_8));
    most_9 = fmaxf(most_9, v_most(most_1_9));
    float sum = 0.0f;
    float sum_7 = 0.0f;
    float sum_8 = 0.0f;
    float sum_9 = 0.0f;
    vf sum_1 = v_splat(0.0f);
    vf sum_1_6 = v_splat(0.0f);
    vf sum_1_7 = v_splat(0.0f);
    vf sum_1_8 = v_splat(0.0f);
    for (int c = 0; c < 1024; c += 16) {
      *(vf *)&Y[r][c] = v_exp(*(const vf *)&X[r][c] - most);
      *(vf *)&Y[r + 1][c] = v_exp(*(const vf *)&X[r + 1][c] - most_7);
      *(vf *)&Y[r + 2][c] = v_exp(*(const vf *)&X[r + 2][c] - most_8);
      *(vf *)&Y[r + 3][c] = v_exp(*(const vf *)&X[r + 3][c] - most_9);
      sum_1 = sum_1 + *(const vf *)&Y[r][c];
      sum_1_6 = sum_1_6 + *(const vf *)&Y[r + 1][c];
      sum_1_7 = sum_1_7 + *(const vf *)&Y[r + 2][c];
      sum_1_8 = sum_1_8 + *(const vf *)&Y[r + 3][c];
    }
    sum = sum + v_sum(sum_1);
    sum_7 = sum_7 + v_sum(sum_1_6);
    sum_8 = sum_8 + v_sum(sum_1_7);
    sum_9 = sum_9 + v_sum(sum_1_8);
    float over_1 = 1.0f / sum;
    float over_1_6 = 1.0f / sum_7;
    float over_1_7 = 1.0f / sum_8;
    float over_1_8 = 1.0f / sum_9;
    for (int c = 0; c < 1024; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&Y[r][c] * over_1;
      *(vf *)&Y[r + 1][c] = *(const vf *)&Y[r + 1][c] * over_1_6;
      *(vf *)&Y[r + 2][c] = *(const vf *)&Y[r + 2][c] * over_1_7;
      *(vf *)&Y[r + 3][c] = *(const vf *)&Y[r + 3][c] * over_1_8;
    }
  }
}
