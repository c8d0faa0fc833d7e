/* The threads of a kernel: WORKERS of them beside the one that calls it, each on a core of its own,
   started before the first call. Afterwards the system starts none: `pthread_create`, which OpenMP's
   runtime calls too, hands work to one of these, and asking for more ends the process.

   Compiled in front of harness.c. Waiting and waking is all that needs the operating system. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum { TOO_MANY = 1000 }; /* in place of a signal, in a reply */
enum state { FREE, WORKING, RETURNED };
struct worker {
  pthread_t id;
  pthread_cond_t changed;
  void *(*run)(void *);
  void *argument, *result;
  enum state state;
  int detached;
};

static struct worker workers[WORKERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_ready; /* to start takes system calls that are refused later */
static void refuse(void *caller); /* harness.c: answers with TOO_MANY and ends the process */
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

static void *work(void *given) {
  struct worker *self = given;
  own_signal_stack();
  stay_on_core(1 + (int)(self - workers));
  pthread_barrier_wait(&all_ready);
  pthread_mutex_lock(&lock);
  for (;;) {
    while (self->state != WORKING) pthread_cond_wait(&self->changed, &lock);
    pthread_mutex_unlock(&lock);
    void *result = self->run(self->argument);
    pthread_mutex_lock(&lock);
    self->result = result;
    self->state = self->detached ? FREE : RETURNED;
    pthread_cond_broadcast(&self->changed);
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
  stay_on_core(0);
  return 1;
}

int pthread_create(pthread_t *id, const pthread_attr_t *wanted, void *(*run)(void *), void *argument) {
  int detached = PTHREAD_CREATE_JOINABLE;
  if (wanted) pthread_attr_getdetachstate(wanted, &detached);
  pthread_mutex_lock(&lock);
  struct worker *chosen = 0;
  for (int i = WORKERS - 1; i >= 0; i--)
    if (workers[i].state == FREE) chosen = &workers[i];
  if (!chosen) refuse(__builtin_return_address(0));
  chosen->run = run;
  chosen->argument = argument;
  chosen->detached = detached == PTHREAD_CREATE_DETACHED;
  chosen->state = WORKING;
  *id = chosen->id;
  pthread_cond_broadcast(&chosen->changed);
  pthread_mutex_unlock(&lock);
  return 0;
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
