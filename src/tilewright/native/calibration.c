/* Measures what one core can do at best, and prints one line per number: name, value.

   Each number is the best of many short repetitions by CPU time, so that other work on the machine
   only makes the search for the best one longer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined __AVX512F__
enum { BYTES = 64, SUMS = 24 };
#elif defined __AVX__
enum { BYTES = 32, SUMS = 12 };
#else
enum { BYTES = 16, SUMS = 12 };
#endif
typedef float vec __attribute__((vector_size(BYTES)));
enum { REPETITIONS = 60 };

static volatile float sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double products(void) {
  vec sums[SUMS], a, b;
  for (int i = 0; i < (int)(BYTES / sizeof(float)); i++) a[i] = 0.999f, b[i] = 1e-3f;
  for (int i = 0; i < SUMS; i++) sums[i] = b;
  const int rounds = 40000;
  double start = now();
  for (int n = 0; n < rounds; n++) {
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) sums[i] = sums[i] * a + b;
  }
  double taken = now() - start;
  for (int i = 0; i < SUMS; i++) sink = sums[i][0];
  return (double)rounds * SUMS * (BYTES / sizeof(float)) / taken;
}

static double written(void *data, size_t size, size_t total) {
  size_t rounds = total / size;
  double start = now();
  for (size_t n = 0; n < rounds; n++) {
    vec value = {(float)n};
    vec *p = data;
    for (size_t i = 0; i < size / sizeof(vec); i++) {
      p[i] = value;
      __asm__ volatile("" ::: "memory");
    }
  }
  return (double)rounds * size / (now() - start);
}

static double read_from(const void *data, size_t size, size_t total) {
  size_t rounds = total / size;
  vec sums[8];
  memset(sums, 0, sizeof sums);
  double start = now();
  for (size_t n = 0; n < rounds; n++) {
    const vec *p = data;
    for (size_t i = 0; i + 8 <= size / sizeof(vec); i += 8) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) sums[k] += p[i + k];
    }
    __asm__ volatile("" ::: "memory");
  }
  double taken = now() - start;
  for (int k = 0; k < 8; k++) sink = sums[k][0];
  return (double)rounds * size / taken;
}

static double best(double (*f)(void *, size_t, size_t), void *data, size_t size, size_t total) {
  double found = 0;
  for (int i = 0; i < 12; i++) {
    double value = f(data, size, total);
    if (value > found) found = value;
  }
  return found;
}

static double read_fn(void *d, size_t s, size_t t) { return read_from(d, s, t); }

int main(int argc, char **argv) {
  size_t l1 = argc > 1 ? strtoull(argv[1], 0, 10) : 32 << 10;
  size_t l2 = argc > 2 ? strtoull(argv[2], 0, 10) : 512 << 10;
  size_t l3 = argc > 3 ? strtoull(argv[3], 0, 10) : 8 << 20;
  size_t memory = 128 << 20;
  char *data = aligned_alloc(4096, memory);
  if (!data) return 1;
  memset(data, 0, memory);
  double most = 0;
  for (int i = 0; i < REPETITIONS; i++) {
    double value = products();
    if (value > most) most = value;
  }
  printf("products_per_s %.6g\n", most);
  printf("l1_read_bytes_per_s %.6g\n", best(read_fn, data, l1 / 2, 16 << 20));
  printf("l1_write_bytes_per_s %.6g\n", best(written, data, l1 / 2, 16 << 20));
  printf("l2_read_bytes_per_s %.6g\n", best(read_fn, data, l2 / 2, 16 << 20));
  printf("l3_read_bytes_per_s %.6g\n", best(read_fn, data, l3 / 4 < memory ? l3 / 4 : memory, 64 << 20));
  printf("memory_read_bytes_per_s %.6g\n", best(read_fn, data, memory, memory));
  return 0;
}
