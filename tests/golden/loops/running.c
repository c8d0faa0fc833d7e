typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline vf v_select(vf which, vf a, vf b) {
  vi chosen = (vi)which != 0;
  return (vf)(((vi)a & chosen) | ((vi)b & ~chosen));
}

/* sums of the lanes up to each */
static inline vf v_running(vf a) {
  a = a + __builtin_shuffle(a, (vf){0}, (vi){4, 0, 1, 2});
  a = a + __builtin_shuffle(a, (vf){0}, (vi){4, 4, 0, 1});
  return a;
}

static inline vf v_ends(vf a) { return __builtin_shuffle(a, (vi){0} + 3); }

static inline float v_first(vf a) { return a[0]; }

static inline vf v_less(vf a, vf b) { return (vf)(a < b); }

void kernel(const float X[3][11], float Y[3][11]) {
  for (int r = 0; r < 3; r++) {
    float sum = 0.5f;
    vf sum_1 = v_splat(sum);
    for (int c = 0; c < 8; c += 4) {
      vf lanes_1 = v_running(-(*(const vf *)&X[r][c] * 2.0f));
      vf sum_2 = lanes_1 + sum_1;
      sum_1 = sum_1 + v_ends(lanes_1);
      *(vf *)&Y[r][c] = v_select(v_less(sum_2, v_splat(0.0f)), -sum_2, sum_2);
    }
    sum = v_first(sum_1);
    for (int c = 8; c < 11; c++) {
      sum = sum - X[r][c] * 2.0f;
      Y[r][c] = sum < 0.0f ? -sum : sum;
    }
    Y[r][0] = sum;
  }
}
