#include <math.h>

typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline vf v_max(vf a, vf b) {
#if defined __SSE__ && __has_builtin(__builtin_ia32_maxps)
  return __builtin_ia32_maxps(a, b);
#else
  vi first = a > b;
  return (vf)(((vi)a & first) | ((vi)b & ~first));
#endif
}

static inline vf v_min(vf a, vf b) {
#if defined __SSE__ && __has_builtin(__builtin_ia32_minps)
  return __builtin_ia32_minps(a, b);
#else
  vi first = a < b;
  return (vf)(((vi)a & first) | ((vi)b & ~first));
#endif
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
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2});
  return a[0];
}

static inline float v_most(vf a) {
  a = v_max(a, __builtin_shuffle(a, (vi){2, 3, 0, 1}));
  a = v_max(a, __builtin_shuffle(a, (vi){1, 0, 3, 2}));
  return a[0];
}

void kernel(const float X[3][11], float Y[3][11]) {
  for (int r = 0; r < 3; r++) {
    float most = X[r][0];
    vf most_1 = v_splat(most);
    vf most_1_1 = most_1;
    for (int c = 0; c < 8; c += 8) {
      most_1 = v_max(most_1, *(const vf *)&X[r][c]);
      most_1_1 = v_max(most_1_1, *(const vf *)&X[r][c + 4]);
    }
    most_1 = v_max(most_1, most_1_1);
    for (int c = 7; c < 11; c += 4) {
      most_1 = v_max(most_1, *(const vf *)&X[r][c]);
    }
    most = fmaxf(most, v_most(most_1));
    float sum = 0.0f;
    vf sum_1 = v_splat(0.0f);
    for (int c = 0; c < 8; c += 4) {
      *(vf *)&Y[r][c] = v_exp(*(const vf *)&X[r][c] - most);
      sum_1 = sum_1 + *(const vf *)&Y[r][c];
    }
    sum = sum + v_sum(sum_1);
    for (int c = 8; c < 11; c++) {
      Y[r][c] = expf(X[r][c] - most);
      sum = sum + Y[r][c];
    }
    float over_1 = 1.0f / sum;
    for (int c = 0; c < 11; c++) {
      Y[r][c] = Y[r][c] * over_1;
    }
  }
}
