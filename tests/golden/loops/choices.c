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

static inline vf v_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }

static inline vf v_select(vf which, vf a, vf b) {
  vi chosen = (vi)which != 0;
  return (vf)(((vi)a & chosen) | ((vi)b & ~chosen));
}

static inline vf v_less(vf a, vf b) { return (vf)(a < b); }

static inline vf v_at_most(vf a, vf b) { return (vf)(a <= b); }

static inline vf v_equal(vf a, vf b) { return (vf)(a == b); }

static inline vf v_differ(vf a, vf b) { return (vf)(a != b); }

static inline vf v_and(vf a, vf b) { return (vf)((vi)a & (vi)b); }

static inline vf v_not(vf a) { return (vf)~(vi)a; }

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

/* hyperbolic tangent of each lane, within 2 units in the last place */
static inline vf v_tanh(vf x) {
  vf size = v_abs(x), z = x * x;
  vf far = 1.0f - 2.0f / (v_exp(size + size) + 1.0f);
  far = (vf)((vi)far | ((vi)x & ~0x7fffffff));
  vf p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return v_select((vf)(size < 0.625f), p * z * x + x, far);
}

/* error function of each lane, within 2 units in the last place */
static inline vf v_erf(vf x) {
  vf t = v_abs(x), s = x * x;
  t = v_select((vf)(t < 4.0f), t, (vf){0} + 4.0f);
  vf q = t * -1.72853470e-5f + 3.83197126e-4f;
  q = q * t - 3.88396438e-3f;
  q = q * t + 2.42546219e-2f;
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  vf far = 1.0f - v_exp(q * t - t);
  far = (vf)((vi)far | ((vi)x & ~0x7fffffff));
  vf p = s * -5.96761703e-4f + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  return v_select((vf)(t < 0.927734375f), p * x + x, far);
}

/* natural logarithm of each lane, within 2 units in the last place */
static inline vf v_log(vf x) {
  vi tiny = x < 1.17549435e-38f;
  vf up = v_select((vf)tiny, x * 8388608.0f, x);
  vi exponent = ((vi)up >> 23) - 126 + (tiny & -23);
  vf m = (vf)(((vi)up & 0x007fffff) | 0x3f000000);
  vi low = m < 0.707106781f;
  exponent += low;
  vf e = __builtin_convertvector(exponent, vf);
  m = v_select((vf)low, m + m, m) - 1.0f;
  vf z = m * m;
  vf p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z - e * 2.12194440e-4f - z * 0.5f;
  vf y = m + p + e * 0.693359375f;
  y = v_select((vf)(x < __builtin_inff()), y, x);
  y = v_select((vf)(x > 0.0f), y, (vf){0} + __builtin_nanf(""));
  return v_select((vf)(x == 0.0f), (vf){0} - __builtin_inff(), y);
}

static inline float v_sum(vf a) {
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2});
  return a[0];
}

void kernel(const float X[2][9], const float P[7], float Y[2][9]) {
  for (int r = 0; r < 2; r++) {
    float peak = X[r][0];
    for (int c = 0; c < 9; c++) {
      peak = X[r][c] > peak ? X[r][c] : peak;
    }
    float total = 0.0f;
    vf total_1 = v_splat(0.0f);
    for (int c = 0; c < 8; c += 4) {
      vf holds = v_and(v_less(*(const vf *)&X[r][c], v_splat(0.5f)), v_not(v_equal(*(const vf *)&X[r][c], v_splat(peak))));
      vf v = v_select(holds, v_tanh(2.0f * *(const vf *)&X[r][c]), v_erf(*(const vf *)&X[r][c]) / 3.0f);
      total_1 = v_select(v_at_most(v_splat(0.0f), *(const vf *)&X[r][c]), total_1 - v, total_1);
      *(vf *)&Y[r][c] = v_select(v_differ(v, v_splat(peak)), v_log(v_abs(v)), v_splat(0.25));
    }
    total = total + v_sum(total_1);
    for (int c = 8; c < 9; c++) {
      int holds = (X[r][c] < 0.5f) && (X[r][c] == peak == 0);
      float v = holds ? tanhf(2 * X[r][c]) : erff(X[r][c]) / 3;
      total = X[r][c] >= 0.0f ? total - v : total;
      Y[r][c] = v != peak ? logf(fabsf(v)) : 0.25;
    }
    Y[r][0] = total;
  }
}
