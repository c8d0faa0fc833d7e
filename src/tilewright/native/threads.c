/* The threads of a kernel: WORKERS of them beside the one that calls it, each on a core of its own,
   started before the first call. Afterwards the system starts none: `pthread_create`, which OpenMP's
   runtime calls too, hands work to one of these, and asking for more ends the process.

   A kernel with several threads is not examined for what it keeps from call to call (conditions/).
   Before each call, its static variables therefore have their initial values again, and OpenMP has
   its initial number of threads. A kernel that creates threads itself can keep nothing on stacks
   either: each of its threads begins with a stack of zeros and must have been joined when the kernel
   returns, and before each call, what lies below its stack is zero.

   Compiled in front of harness.c. Waiting and waking is all that needs the operating system. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TOO_MANY = 1000, THREADS_LEFT = 1002 }; /* in place of a signal, in a reply */
enum { MOST_OF_STACK = 1 << 23 };
enum { SPARE = 2 * 4096 }; /* of a stack, see call_below_spare */
enum state { FREE, WORKING, RETURNED };
struct worker {
  pthread_t id;
  pthread_cond_t changed;
  void *(*run)(void *);
  void *argument, *result;
  enum state state;
  int detached, of_kernel;
  char *stack, *begin; /* the lowest address of its stack, and where the stack of `run` begins */
};

static struct worker workers[WORKERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_ready; /* to start takes system calls that are refused later */
static int creates_threads; /* whether the kernel calls pthread_create */
static int uses_openmp;
static char *own_data; /* writable memory of the kernel: static variables, and a table after them */
static char *first_data; /* what is there at first, in the beginning; the rest is zero */
static size_t data_size, zeros_size;
static char *stack_begin; /* where the stack of the kernel begins in the calling thread */
static void (*set_threads)(int), (*set_dynamic)(int); /* omp_set_num_threads and omp_set_dynamic */
static int threads_at_first; /* omp_get_max_threads before the first call */
static void refuse(int reason, void *caller); /* harness.c: answers with it and ends the process */
static void own_signal_stack(void);

static void stay_on_core(int which) {
  cpu_set_t usable, one;
  if (sched_getaffinity(0, sizeof usable, &usable)) return;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &usable) && which-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
}

/* A huge page would have to be filled with zeros again for each thread. */
static void find_own_stack(struct worker *self) {
  pthread_attr_t own;
  size_t size;
  void *lowest;
  if (pthread_getattr_np(pthread_self(), &own)) return;
  if (!pthread_attr_getstack(&own, &lowest, &size)) {
    madvise(lowest, size, MADV_NOHUGEPAGE);
    self->stack = lowest;
  }
  pthread_attr_destroy(&own);
}

/* Leaves two pages between the stack of `work` and the one of `run`, so that a whole page begins
   between them. */
static __attribute__((noinline)) void *call_below_spare(struct worker *self) {
  self->begin = memset(__builtin_alloca(SPARE), 0, SPARE);
  __asm__ volatile("" : : "r"(self->begin) : "memory");
  void *result = self->run(self->argument);
  __asm__ volatile("" : : "r"(self->begin) : "memory");
  return result;
}

/* What lies between, up to the next page, is zero when it is read again. */
static int discard(char *from, char *to) {
  uintptr_t page = SPARE / 2, end = ((uintptr_t)to + page - 1) / page * page;
  return madvise(from, end - (uintptr_t)from, MADV_DONTNEED);
}

/* A part of the range below a stack that is not mapped yet is reported as ENOMEM, and the rest is
   discarded. Static variables are written: to discard them interrupts the cores of all threads. */
static void forget_earlier_calls(void) {
  if (creates_threads) {
    uintptr_t lowest = ((uintptr_t)stack_begin - MOST_OF_STACK) / SPARE * SPARE;
    if (discard((char *)lowest, stack_begin) && errno != ENOMEM) abort();
  }
  if (uses_openmp) {
    set_threads(threads_at_first);
    set_dynamic(0);
  }
  if (creates_threads || uses_openmp) {
    memcpy(own_data, first_data, data_size);
    memset(own_data + data_size, 0, zeros_size);
  }
}

static void *return_at_once(void *given) {
  return given;
}

static void *work(void *given) {
  struct worker *self = given;
  own_signal_stack();
  find_own_stack(self);
  stay_on_core(1 + (int)(self - workers));
  self->run = return_at_once; /* so that the first thread also begins with zeros */
  call_below_spare(self);
  pthread_barrier_wait(&all_ready);
  if (discard(self->stack, self->begin)) abort();
  pthread_mutex_lock(&lock);
  for (;;) {
    while (self->state != WORKING) pthread_cond_wait(&self->changed, &lock);
    pthread_mutex_unlock(&lock);
    void *result = call_below_spare(self);
    pthread_mutex_lock(&lock);
    self->result = result;
    self->state = self->detached ? FREE : RETURNED;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&lock);
    if (discard(self->stack, self->begin)) abort();
    pthread_mutex_lock(&lock);
  }
  return 0;
}

static int start_workers(void) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
      dlsym(RTLD_NEXT, "pthread_create");
  pthread_barrier_init(&all_ready, 0, WORKERS + 1);
  for (int i = 0; i < WORKERS; i++) {
    pthread_cond_init(&workers[i].changed, 0);
    if (!create || create(&workers[i].id, 0, work, &workers[i])) return 0;
  }
  pthread_barrier_wait(&all_ready);
  for (int i = 0; i < WORKERS; i++)
    if (!workers[i].stack) return 0;
  stay_on_core(0);
  return 1;
}

static void hand_over(pthread_t *id, struct worker what, void *caller) {
  pthread_mutex_lock(&lock);
  struct worker *chosen = 0;
  for (int i = WORKERS - 1; i >= 0; i--)
    if (workers[i].state == FREE) chosen = &workers[i];
  if (!chosen) refuse(TOO_MANY, caller);
  chosen->run = what.run;
  chosen->argument = what.argument;
  chosen->detached = what.detached;
  chosen->of_kernel = what.of_kernel;
  chosen->state = WORKING;
  *id = chosen->id;
  pthread_cond_broadcast(&chosen->changed);
  pthread_mutex_unlock(&lock);
}

/* Called by OpenMP's runtime, which keeps its threads. */
int pthread_create(pthread_t *id, const pthread_attr_t *wanted, void *(*run)(void *), void *argument) {
  int detached = PTHREAD_CREATE_JOINABLE;
  if (wanted) pthread_attr_getdetachstate(wanted, &detached);
  struct worker what = {.run = run, .argument = argument};
  what.detached = detached == PTHREAD_CREATE_DETACHED;
  hand_over(id, what, __builtin_return_address(0));
  return 0;
}

/* Called by kernels as `pthread_create`. They have no functions that set attributes. */
static int create_for_kernel(pthread_t *id, const pthread_attr_t *, void *(*run)(void *), void *argument) {
  struct worker what = {.run = run, .argument = argument, .of_kernel = 1};
  hand_over(id, what, __builtin_return_address(0));
  return 0;
}

static void *for_kernels(const char *name, void *found) {
  if (!uses_openmp && (!strncmp(name, "GOMP_", 5) || !strncmp(name, "omp_", 4))) {
    int (*most_threads)(void) = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    *(void **)&set_dynamic = dlsym(RTLD_DEFAULT, "omp_set_dynamic");
    if (!most_threads || !set_threads || !set_dynamic) _exit(8);
    threads_at_first = most_threads();
    uses_openmp = 1;
  }
  if (strcmp(name, "pthread_create")) return found;
  creates_threads = 1;
  return (void *)create_for_kernel;
}

/* Whether a thread that the kernel created is not joined. */
static int threads_are_left(void) {
  int left = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < WORKERS; i++) left |= workers[i].of_kernel && workers[i].state != FREE;
  pthread_mutex_unlock(&lock);
  return left;
}

static struct worker *named(pthread_t id) {
  for (int i = 0; i < WORKERS; i++)
    if (pthread_equal(workers[i].id, id)) return &workers[i];
  return 0;
}

int pthread_join(pthread_t id, void **result) {
  struct worker *waited = named(id);
  if (!waited) return ESRCH;
  pthread_mutex_lock(&lock);
  int joinable = waited->state != FREE && !waited->detached;
  while (joinable && waited->state == WORKING) pthread_cond_wait(&waited->changed, &lock);
  if (joinable) {
    if (result) *result = waited->result;
    waited->state = FREE;
  }
  pthread_mutex_unlock(&lock);
  return joinable ? 0 : EINVAL;
}

int pthread_detach(pthread_t id) {
  struct worker *left = named(id);
  if (!left) return ESRCH;
  pthread_mutex_lock(&lock);
  left->detached = 1;
  if (left->state == RETURNED) left->state = FREE;
  pthread_mutex_unlock(&lock);
  return 0;
}
