/* Measures what cores can do at best, and prints one line per number: name, value.

   usage: calibrate L1 L2 L3 [THREADS]    (bytes; each thread has data and a core of its own)

   Each number is the sum over threads, which measure the same at the same time, of each one's best of
   many short repetitions by CPU time, so that other work on the machine only makes the search for the
   best one longer. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
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

static _Thread_local volatile float sink;

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

static double products_fn(void *d, size_t s, size_t t) {
  (void)d, (void)s, (void)t;
  double most = 0;
  for (int i = 0; i < REPETITIONS / 12; i++) {
    double value = products();
    if (value > most) most = value;
  }
  return most;
}

enum { MEMORY = 128 << 20, MOST = 256 };
static struct test {
  const char *name;
  double (*run)(void *, size_t, size_t);
  size_t size, total;
} tests[] = {
  {"products_per_s", products_fn, 0, 0},
  {"l1_read_bytes_per_s", read_fn, 0, 16 << 20},
  {"l1_write_bytes_per_s", written, 0, 16 << 20},
  {"l2_read_bytes_per_s", read_fn, 0, 16 << 20},
  {"l3_read_bytes_per_s", read_fn, 0, 64 << 20},
  {"memory_read_bytes_per_s", read_fn, MEMORY, MEMORY},
};
enum { TESTS = sizeof tests / sizeof *tests };
static double found[MOST][TESTS];
static pthread_barrier_t together;

static void stay_on_core(int which) {
  cpu_set_t usable, one;
  sched_getaffinity(0, sizeof usable, &usable);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &usable) && which-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
}

static void *measure(void *number) {
  int thread = (int)(intptr_t)number;
  stay_on_core(thread);
  char *data = aligned_alloc(4096, MEMORY);
  if (!data) exit(1);
  memset(data, 0, MEMORY);
  for (int i = 0; i < TESTS; i++) {
    pthread_barrier_wait(&together);
    found[thread][i] = best(tests[i].run, data, tests[i].size, tests[i].total);
  }
  return 0;
}

int main(int argc, char **argv) {
  size_t l1 = argc > 1 ? strtoull(argv[1], 0, 10) : 32 << 10;
  size_t l2 = argc > 2 ? strtoull(argv[2], 0, 10) : 512 << 10;
  size_t l3 = argc > 3 ? strtoull(argv[3], 0, 10) : 8 << 20;
  int threads = argc > 4 ? atoi(argv[4]) : 1;
  if (threads < 1 || threads > MOST) return 2;
  tests[1].size = tests[2].size = l1 / 2;
  tests[3].size = l2 / 2;
  tests[4].size = l3 / 4 / threads < MEMORY ? l3 / 4 / threads : MEMORY; /* they share that level */
  pthread_t others[MOST];
  pthread_barrier_init(&together, 0, threads);
  for (int i = 1; i < threads; i++)
    if (pthread_create(&others[i], 0, measure, (void *)(intptr_t)i)) return 1;
  measure(0);
  for (int i = 1; i < threads; i++) pthread_join(others[i], 0);
  for (int i = 0; i < TESTS; i++) {
    double sum = 0;
    for (int thread = 0; thread < threads; thread++) sum += found[thread][i];
    printf("%s %.6g\n", tests[i].name, sum);
  }
  return 0;
}
