/* Runs CUDA kernels on the CPU: the program that a kernel's object file is linked into.

   It decides nothing. It calls the kernel on the arrays of inputs.bin, in the orders of threads that job.txt
   asks for, writes what the outputs hold afterwards to outputs.bin, and says in report.txt what was launched
   and which rule was broken where. The evaluator compares.

   Threads of a block are fibers: each runs until it waits at a barrier or for its warp, then the next one that
   can run goes on. In which order they run is what `order` says: forward, reversed, or shuffled by a seed. In the last
   of these, other threads also run before each atomicCAS and atomicExch, and, in most runs, before other
   atomic operations and fences; two blocks then run in turns (turns.h).

   Memory that nothing has been written to holds the same byte everywhere, shared memory again before each block: what
   `old` says for the run. A kernel that uses it is wrong in one of the runs: maxima ignore what is not a number, but no
   huge number.

   Arrays of the device lie between pages that may not be touched; outside launches they may not be touched at all, so
   that host code which reads them is found. Inputs can only be read. With the address sanitizer, the bytes between
   an array and its first and last page's ends, freed memory and what lies beside shared arrays are refused too.
   Arrays lie elsewhere in every run (`place`).

   What a kernel keeps in its own variables from one run to the next is found by repeating runs (state.h).

   A run may be of some blocks only, chosen by its seed. Then a kernel is one launch whose blocks write different
   elements; for anything else, such a run tells nothing, and it ends. */
#include "runtime.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef SANITIZED
extern "C" {
void __asan_poison_memory_region(void const volatile *, size_t);
void __asan_unpoison_memory_region(void const volatile *, size_t);
void *__asan_get_report_pc(void);
void *__asan_get_report_address(void);
int __asan_get_report_access_type(void);
}
static void poison(const void *at, size_t bytes) { if (bytes) __asan_poison_memory_region(at, bytes); }
static void unpoison(const void *at, size_t bytes) { if (bytes) __asan_unpoison_memory_region(at, bytes); }
#else
static void poison(const void *, size_t) {}
static void unpoison(const void *, size_t) {}
#endif

extern "C" {
void tw_call(void **arrays, const long long *sizes); /* the kernel, with its parameters' types */
extern char __start_tw_shared[] __attribute__((weak));
extern char __stop_tw_shared[] __attribute__((weak));
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
}

enum { MOST_THREADS = 1024, WARP = 32, MOST_WARPS = MOST_THREADS / WARP, RING = 2048 };
enum { STACK = 64 << 10, PAGE = 4096, MOST_ARRAYS = 64, GUARD = 1 << 20, ALIGNMENT = 256, BIG_PAGE = 2 << 20 };
enum { DYNAMIC = 232 << 10, WITHOUT_ASKING = 48 << 10, SHARED_FUNCTIONS = 64 };

/* ---- what is told ---- */

static FILE *report;
static bool on_device;

static void where(void) {
  if (on_device)
    fprintf(report, "\t%u\t%u\t%u\t%u\t%u\t%u", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
            threadIdx.z);
  fputc('\n', report);
}

[[noreturn]] static void fail(const char *kind, long first, long second) {
  fprintf(report, "failed\t%s\t%ld\t%ld", kind, first, second);
  where();
  fflush(report);
  _exit(1);
}

/* ---- arrays of the device ---- */

struct Array {
  char *reserved, *pages, *data;
  size_t bytes, mapped, reserved_bytes;
  bool read_only, used;
};
static Array arrays[MOST_ARRAYS];
static int arguments;
static unsigned char old = 0xff; /* each byte of memory that was never written; 0xff is not a number */
static double share = 1; /* of its blocks that a launch runs; 1 for all of them */
static unsigned current, threads; /* the number of the thread that runs, and how many a block has */
static char *stacks;
static char dynamic_pages[DYNAMIC] __attribute__((aligned(1024)));

static bool is_shared(const char *at) {
  return (at >= __start_tw_shared && at < __stop_tw_shared) || (at >= dynamic_pages && at < dynamic_pages + DYNAMIC);
}

static void fault(const char *kind, long pc, const char *address, bool written);

#include "streams.h"
#ifdef RACES
#include "races.h"
#else
static void races_launch(unsigned long) {}
static void races_work(void) {}
static void races_host(const void *, size_t, bool) {}
static void races_fence(void) {}
static void races_block(void) {}
static void races_barrier(void) {}
static void races_warp(unsigned, unsigned) {}
static void races_atomic(void *, size_t, bool, int) {}
static void races_flush(void) {}
static void races_read_only(const void *, size_t, int) {}
static void watch_array(const Array &) {}
static void forget_array(const Array &) {}
#endif

static void protect(const Array &array, int rights) { mprotect(array.pages, array.mapped, rights); }

static void open_arrays(bool launched) {
  for (const Array &a : arrays)
    if (a.used) protect(a, launched ? a.read_only ? PROT_READ : PROT_READ | PROT_WRITE : PROT_NONE);
}

static uint64_t next_random(uint64_t &of) { return (of = of * 6364136223846793005ull + 1442695040888963407ull) >> 33; }

/* Where the arrays of a run lie, so that a kernel cannot tell its calls here from those on a GPU by the addresses. Like
   on a GPU, these are multiples of 256, of a page or of 2 MiB; which of these, and all higher bits, are drawn for each
   run. Half of the runs use the part of the address space where GPUs have their arrays too. */
static struct {
  uint64_t random;
  unsigned apart; /* addresses are multiples of this, and of no more than chance makes them */
  bool high;
} place = {1, ALIGNMENT, true};

static void begin_place(uint64_t seed, int run) {
  const unsigned choices[] = {ALIGNMENT, PAGE, BIG_PAGE};
  place.random = seed + 0x9e3779b97f4a7c15ull * (run + 1);
  next_random(place.random);
  place.apart = choices[next_random(place.random) % 3];
  place.high = next_random(place.random) % 2;
}

static Array *new_array(size_t bytes) {
  for (Array &a : arrays) {
    if (a.used) continue;
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint64_t first = place.high ? 0x7e00ull << 32 : 0x2100ull << 32, size = place.high ? 0x180ull << 32 : 0x5c00ull << 32;
    char *hint = (char *)(first + (next_random(place.random) << 16) % size / PAGE * PAGE);
    a.reserved_bytes = padded + 2 * GUARD + 2 * BIG_PAGE + PAGE;
    a.reserved = (char *)mmap(hint, a.reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a.reserved == MAP_FAILED) return nullptr;
    uintptr_t big = ((uintptr_t)a.reserved + GUARD + BIG_PAGE - 1) / BIG_PAGE * BIG_PAGE;
    a.data = (char *)big + next_random(place.random) % (BIG_PAGE / place.apart) * place.apart;
    a.pages = (char *)((uintptr_t)a.data / PAGE * PAGE);
    a.mapped = (a.data - a.pages + padded + PAGE - 1) / PAGE * PAGE + (padded == 0) * PAGE;
    a.bytes = bytes;
    a.used = true;
    a.read_only = false;
    protect(a, PROT_READ | PROT_WRITE);
    poison(a.pages, a.data - a.pages);
    poison(a.data + bytes, a.pages + a.mapped - a.data - bytes);
    watch_array(a);
    return &a;
  }
  return nullptr;
}

static void free_array(Array &a) {
  forget_array(a);
  unpoison(a.pages, a.mapped);
  munmap(a.reserved, a.reserved_bytes);
  a.used = false;
}

static Array *array_at(const char *address, size_t reach) {
  for (Array &a : arrays)
    if (a.used && address >= a.pages - reach && address < a.pages + a.mapped + reach) return &a;
  return nullptr;
}

extern "C" void *tw_allocate(size_t bytes) {
  Array *a = new_array(bytes);
  if (!a) return nullptr;
  memset(a->data, old, bytes);
  if (!on_device) protect(*a, PROT_NONE);
  return a->data;
}

extern "C" void tw_release(void *memory) {
  if (!memory) return;
  Array *a = array_at((char *)memory, 0);
  if (!a || a->data != memory || a - arrays < arguments) fail("bad_free", 0, 0);
  free_array(*a);
}

static void check_range(const void *memory, size_t bytes, bool written) {
  Array *a = array_at((const char *)memory, 0);
  if (!a) return; /* memory of the host */
  const char *at = (const char *)memory;
  if (at < a->data || at + bytes > a->data + a->bytes) fail("copy_out_of_bounds", a - arrays, at - a->data);
  if (written && a->read_only) fail("input_modified", a - arrays, at - a->data);
  if (written && share < 1 && a - arrays < arguments) fail("part_host_writes", 0, 0);
}

extern "C" void tw_copy(void *to, const void *from, size_t bytes, const void *stream, int line) {
  check_range(to, bytes, true);
  check_range(from, bytes, false);
  issue(stream, line);
  races_work();
  races_host(from, bytes, false);
  races_host(to, bytes, true);
  open_arrays(true);
  memmove(to, from, bytes);
  open_arrays(false);
}

extern "C" void tw_fill(void *to, int value, size_t bytes, const void *stream, int line) {
  check_range(to, bytes, true);
  issue(stream, line);
  races_work();
  if (line || value != 0xff) races_host(to, bytes, true); /* a header fills new arrays with what is not a number */
  open_arrays(true);
  memset(to, value, bytes);
  open_arrays(false);
}

/* ---- faults ---- */

static void fault(const char *kind, long pc, const char *address, bool written) {
  Array *a = array_at(address, GUARD);
  long index = a ? a - arrays : -1;
  if (a && !on_device) kind = "host_access";
  else if (a && written && a->read_only && address >= a->data && address < a->data + a->bytes) kind = "input_modified";
  fprintf(report, "fault\t%s\t%ld\t%ld\t%ld\t%ld\t%d", kind, pc, index, a ? (long)(address - a->data) : 0L,
          a ? (long)a->bytes : 0L, written);
  where();
  fflush(report);
  _exit(1);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  long pc = 0;
  bool written = false;
#if defined __x86_64__
  ucontext_t *at = (ucontext_t *)context;
  pc = at->uc_mcontext.gregs[REG_RIP];
  written = at->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined __aarch64__
  pc = ((ucontext_t *)context)->uc_mcontext.pc;
#endif
  const char *address = (const char *)info->si_addr;
  if (signal == SIGFPE) fault("divided_by_zero", pc, nullptr, false);
  fault("illegal_address", pc, address, written);
}

#ifdef SANITIZED
extern "C" void __asan_on_error(void) {
  fault("illegal_address", (long)__asan_get_report_pc() - 1, (const char *)__asan_get_report_address(),
        __asan_get_report_access_type());
}
extern "C" const char *__asan_default_options(void) {
  return "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:"
         "allow_user_segv_handler=1:use_sigaltstack=0:symbolize=0:detect_stack_use_after_return=0";
}
#endif

/* What the compiler's checks of undefined behaviour call (-fsanitize in cpu_program.py). */
extern "C" {
static long called_from(void *address) { return (long)address - 1; }
[[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(void *, uintptr_t) {
  fault("misaligned", called_from(__builtin_return_address(0)), nullptr, false);
  _exit(1);
}
[[noreturn]] void __ubsan_handle_shift_out_of_bounds_abort(void *, uintptr_t, uintptr_t) {
  fault("undefined_shift", called_from(__builtin_return_address(0)), nullptr, false);
  _exit(1);
}
[[noreturn]] void __ubsan_handle_builtin_unreachable(void *) {
  fault("unreachable", called_from(__builtin_return_address(0)), nullptr, false);
  _exit(1);
}
[[noreturn]] void __ubsan_handle_missing_return(void *) {
  fault("no_return", called_from(__builtin_return_address(0)), nullptr, false);
  _exit(1);
}
[[noreturn]] void __ubsan_handle_float_cast_overflow_abort(void *, uintptr_t) {
  fault("undefined_conversion", called_from(__builtin_return_address(0)), nullptr, false);
  _exit(1);
}
}

static void on_clock(int);

static void catch_signals(void) {
  static char stack[16 * PAGE];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, 0);
  struct sigaction clock = {};
  clock.sa_handler = on_clock;
  clock.sa_flags = SA_NODEFER | SA_RESTART; /* it may go on with other threads, and return much later */
  sigaction(SIGVTALRM, &clock, 0);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
  for (int signal : signals) sigaction(signal, &action, 0);
}

/* ---- threads ---- */

#if defined __x86_64__ && !defined PORTABLE
extern "C" void tw_switch(void **from, void *to);
asm(".text\n.globl tw_switch\n.type tw_switch, @function\ntw_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size tw_switch, . - tw_switch\n");
struct Place {
  void *sp;
  void begin(char *top, void (*entry)()) {
    void **s = (void **)top;
    *--s = nullptr; /* where `entry` would return to; keeps its stack aligned */
    *--s = (void *)entry;
    for (int i = 0; i < 6; i++) *--s = nullptr;
    sp = s;
  }
  void go(Place &to) { tw_switch(&sp, to.sp); }
};
#else
struct Place {
  ucontext_t context;
  void begin(char *top, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = top - STACK;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  void go(Place &to) { swapcontext(&context, &to.context); }
};
#endif

struct Copy { /* asynchronous: what it brings is there when its thread has waited for its batch */
  void *to;
  unsigned bytes, batch;
  char brought[16];
  Copy *next;
};
struct Fiber {
  Place place;
  uint3 index;
  bool alive;
  unsigned batch; /* of the copies that it issues now */
  Copy *copies, **last_copy;
};
struct Lane {
  void *lent[4];
  tw_operation operation;
  unsigned mask, source;
  uint64_t value, result;
  int line;
};
struct Warp {
  unsigned alive, waiting;
  Lane lanes[WARP];
  unsigned char order[WARP];
};

/* What is known about a block that runs. */
struct Resident {
  Fiber fibers[MOST_THREADS];
  Warp warps[MOST_WARPS];
  unsigned alive, arrived;
  int barrier_line, barrier_sum[2], barrier_turn;
  unsigned ring[RING], head, tail;
  char *stacks;
};
static Resident residents[2], *own = residents;
static Place outside;
enum { FORWARD, REVERSED, SHUFFLED };
static int how;   /* the order of threads and blocks */
static int alone; /* whether each block runs alone, and threads change places only where they wait or take a lock */
static unsigned order[MOST_THREADS];
static void (*body)(void *);
static void *closure;
static unsigned long changes; /* of the thread that runs */

static void ready(unsigned thread) { own->ring[own->tail++ % RING] = thread; }

/* Of each warp, the threads that ask at one line which others are there; each is told of all of them. */
static void tell_who_is_there(void) {
  for (unsigned w = 0; w * WARP < threads; w++) {
    Warp &warp = own->warps[w];
    for (unsigned l = 0; l < WARP; l++) {
      if (!(warp.waiting >> l & 1) || warp.lanes[l].operation != TW_ACTIVE) continue;
      unsigned there = 0;
      for (unsigned o = l; o < WARP; o++) {
        Lane &other = warp.lanes[o];
        if (warp.waiting >> o & 1 && other.operation == TW_ACTIVE && other.line == warp.lanes[l].line) there |= 1u << o;
      }
      warp.waiting &= ~there;
      for (unsigned char o : warp.order)
        if (there >> o & 1) warp.lanes[o].result = there, ready(w * WARP + o);
    }
  }
}

static void next(Place &from) {
  races_flush();
  changes++;
  if (own->head == own->tail && own->alive) tell_who_is_there();
  if (own->head == own->tail) { /* all have ended, or nobody can go on */
    from.go(outside);
    return;
  }
  unsigned chosen = own->ring[own->head++ % RING];
  current = chosen;
  threadIdx = own->fibers[chosen].index;
  if (&own->fibers[chosen].place != &from) from.go(own->fibers[chosen].place);
}

static void release_barrier(void) {
  races_barrier();
  own->arrived = 0;
  own->barrier_line = 0;
  own->barrier_sum[own->barrier_turn ^= 1] = 0;
  for (unsigned i = 0; i < threads; i++)
    if (own->fibers[order[i]].alive) ready(order[i]);
}

static void wait_at_barrier(int line) {
  if (own->barrier_line && own->barrier_line != line) fail("divergent_barrier", own->barrier_line, line);
  own->barrier_line = line;
  if (++own->arrived == own->alive) release_barrier();
  next(own->fibers[current].place);
}

extern "C" void tw_barrier(int line) { wait_at_barrier(line); }

extern "C" int tw_barrier_sum(int line, int value) {
  int turn = own->barrier_turn;
  own->barrier_sum[turn] += value;
  wait_at_barrier(line);
  return own->barrier_sum[turn];
}

static uint64_t reduced(tw_operation operation, uint64_t a, uint64_t b) {
  switch (operation) {
    case TW_ADD: return (uint32_t)(a + b);
    case TW_MIN: return (int32_t)a < (int32_t)b ? a : b;
    case TW_MAX: return (int32_t)a > (int32_t)b ? a : b;
    case TW_UMIN: return a < b ? a : b;
    case TW_UMAX: return a > b ? a : b;
    case TW_AND: return a & b;
    case TW_OR: return a | b;
    default: return a ^ b;
  }
}

/* Whether all threads of `mask` are there; then they go on, each with what it was to get. */
static void release_warp(Warp &warp, unsigned mask) {
  unsigned expected = mask & warp.alive, there = 0;
  for (unsigned l = 0; l < WARP; l++)
    if (warp.waiting >> l & 1 && warp.lanes[l].mask == mask) there |= 1u << l;
  if (!there || (expected & ~there)) return;
  Lane *first = &warp.lanes[__builtin_ctz(there)];
  uint64_t ballot = 0, all = first->value;
  for (unsigned l = 0; l < WARP; l++) {
    if (!(there >> l & 1)) continue;
    Lane &lane = warp.lanes[l];
    if (lane.operation != first->operation) fail("divergent_warp", first->line, lane.line);
    if (lane.value) ballot |= 1ull << l;
    if (&lane != first) all = reduced(first->operation, all, lane.value);
  }
  for (unsigned l = 0; l < WARP; l++) {
    if (!(there >> l & 1)) continue;
    Lane &lane = warp.lanes[l];
    if (lane.operation == TW_SHUFFLE)  /* of a thread that takes no part, nothing is known */
      lane.result = there >> lane.source & 1 ? warp.lanes[lane.source].value : old * 0x0101010101010101ull;
    else if (lane.operation == TW_MATCH) {
      lane.result = 0;
      for (unsigned o = 0; o < WARP; o++)
        if (there >> o & 1 && warp.lanes[o].value == lane.value) lane.result |= 1ull << o;
    } else
      lane.result = lane.operation == TW_BALLOT ? ballot : all;
  }
  races_warp(&warp - own->warps, there);
  warp.waiting &= ~there;
  unsigned base = (&warp - own->warps) * WARP;
  for (unsigned char l : warp.order)
    if (there >> l & 1) ready(base + l);
}

extern "C" uint64_t tw_warp(tw_operation operation, unsigned mask, uint64_t value, unsigned source, int line) {
  Warp &warp = own->warps[current / WARP];
  unsigned l = current % WARP;
  if (!(mask >> l & 1)) fail("not_in_mask", line, mask);
  Lane &lane = warp.lanes[l];
  lane.operation = operation, lane.mask = mask, lane.source = source, lane.value = value, lane.result = 0, lane.line = line;
  warp.waiting |= 1u << l;
  release_warp(warp, mask);
  next(own->fibers[current].place);
  return warp.lanes[l].result;
}

static Copy *spare_copies;

extern "C" void tw_copy_later(void *to, const void *brought, size_t bytes) {
  Fiber &fiber = own->fibers[current];
  Copy *copy = spare_copies;
  if (copy) spare_copies = copy->next;
  else if (!(copy = (Copy *)malloc(sizeof *copy))) _exit(4);
  *copy = {to, (unsigned)bytes, fiber.batch};
  memcpy(copy->brought, brought, bytes);
  memset(to, old, bytes); /* until it is waited for */
  *fiber.last_copy = copy;
  fiber.last_copy = &copy->next;
}

extern "C" void tw_end_batch(void) { own->fibers[current].batch++; }

/* Of the ended batches all but the last few. */
extern "C" void tw_wait_for_copies(size_t but) {
  Fiber &fiber = own->fibers[current];
  races_flush();
  while (fiber.copies && fiber.copies->batch + but < fiber.batch) {
    Copy *copy = fiber.copies;
    memcpy(copy->to, copy->brought, copy->bytes);
    fiber.copies = copy->next;
    copy->next = spare_copies;
    spare_copies = copy;
  }
  if (!fiber.copies) fiber.last_copy = &fiber.copies;
}

static void begin_copies(Fiber &fiber) {
  if (fiber.copies) {
    *fiber.last_copy = spare_copies;
    spare_copies = fiber.copies;
  }
  fiber.copies = nullptr;
  fiber.last_copy = &fiber.copies;
  fiber.batch = 0;
}

/* Whole numbers in the order of the short floats that have these bits. */
static int in_order(unsigned bits) { return bits & 0x8000 ? -(int)(bits & 0x7fff) - 1 : (int)bits; }
static unsigned from_order(int place) { return place < 0 ? 0x8000u | (unsigned)(-place - 1) : (unsigned)place; }

extern "C" unsigned tw_rounded(uint64_t number, int is_bfloat, int side) {
  double value;
  memcpy(&value, &number, sizeof value);
  if (value != value) return 0x7fff;
  if (!side) side = value < 0 ? 1 : -1;
  const unsigned infinite = is_bfloat ? 0x7f80 : 0x7c00;
  int first = in_order(0x8000 | infinite), last = in_order(infinite);
  if (value == 0) return signbit(value) ? 0x8000 : 0;
  while (first < last) { /* the greatest that is not above, or the least that is not below */
    int middle = first + (last - first + (side < 0)) / 2;
    unsigned bits = from_order(middle), wide = bits << 16;
    float other;
    if (is_bfloat) memcpy(&other, &wide, sizeof other);
    else {
      unsigned short stored = (unsigned short)bits;
      _Float16 half;
      memcpy(&half, &stored, sizeof half);
      other = (float)half;
    }
    if (side < 0) (other <= value ? first : last) = middle - (other > value);
    else (other >= value ? last : first) = middle + (other < value);
  }
  return from_order(first);
}

extern "C" void tw_lend(void *first, const void *second, const void *third, const void *fourth) {
  void **lent = own->warps[current / WARP].lanes[current % WARP].lent;
  lent[0] = first, lent[1] = (void *)second, lent[2] = (void *)third, lent[3] = (void *)fourth;
}
extern "C" void *tw_lent(unsigned lane, int number) { return own->warps[current / WARP].lanes[lane].lent[number]; }
static int scattered;
extern "C" int tw_scattered(void) { return scattered; }
extern "C" unsigned tw_lane(void) { return current % WARP; }
extern "C" unsigned tw_active(int line) {
  Warp &warp = own->warps[current / WARP];
  unsigned l = current % WARP;
  warp.lanes[l].operation = TW_ACTIVE, warp.lanes[l].mask = 0, warp.lanes[l].line = line;
  warp.waiting |= 1u << l;
  next(own->fibers[current].place);
  return warp.lanes[l].result;
}
static void may_change(bool of_all_blocks);
extern "C" void tw_read_only(const void *at, size_t bytes, int line) { races_read_only(at, bytes, line); }
extern "C" void tw_fence(void) {
  may_change(true);
  races_fence();
}
extern "C" void tw_trap(int line) { fail("trap", line, 0); }
extern "C" void tw_false_promise(int line) { fail("false_promise", line, 0); }

static void thread(void) {
  body(closure);
  unsigned ended = current;
  Warp &warp = own->warps[ended / WARP];
  own->fibers[ended].alive = false;
  warp.alive &= ~(1u << ended % WARP);
  own->alive--;
  if (own->arrived && own->arrived == own->alive) release_barrier();
  for (unsigned l = 0; l < WARP; l++) /* those that waited for this one alone */
    if (warp.waiting >> l & 1 && warp.lanes[l].mask) release_warp(warp, warp.lanes[l].mask);
  next(own->fibers[ended].place);
  abort();
}

static void deadlock(void) {
  for (unsigned w = 0; w < MOST_WARPS; w++)
    if (own->warps[w].waiting) {
      unsigned l = __builtin_ctz(own->warps[w].waiting);
      threadIdx = own->fibers[w * WARP + l].index;
      fail("deadlock_warp", own->warps[w].lanes[l].line, own->warps[w].lanes[l].mask);
    }
  fail("deadlock_barrier", own->barrier_line, own->arrived);
}

static dim3 grid_of_launch;
static size_t dynamic_of_launch;

static void fresh_shared(void) {
  size_t bytes = __stop_tw_shared - __start_tw_shared;
  if (bytes) {
    char *at = __start_tw_shared;
#if defined __x86_64__
    asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(old) : "memory"); /* over poisoned bytes too */
#else
    for (size_t i = 0; i < bytes; i++) ((volatile char *)at)[i] = (char)old;
#endif
  }
  memset(dynamic_pages, old, dynamic_of_launch);
}

/* Its threads run when the first of them is switched to. */
static void begin_block(unsigned block) {
  const dim3 &grid = grid_of_launch;
  blockIdx = {block % grid.x, block / grid.x % grid.y, block / (grid.x * grid.y)};
  fresh_shared();
  races_block();
  own->head = own->tail = 0;
  own->arrived = 0;
  own->barrier_line = own->barrier_sum[0] = own->barrier_sum[1] = 0;
  own->alive = threads;
  for (unsigned w = 0; w * WARP < threads; w++) {
    unsigned there = threads - w * WARP;
    own->warps[w].alive = there >= WARP ? ~0u : (1u << there) - 1;
    own->warps[w].waiting = 0;
  }
  for (unsigned i = 0; i < threads; i++) {
    unsigned t = order[i];
    own->fibers[t].alive = true;
    begin_copies(own->fibers[t]);
    own->fibers[t].place.begin(own->stacks + (size_t)(t + 1) * (STACK + PAGE), thread);
    ready(t);
  }
}

static void run_block(unsigned block) {
  begin_block(block);
  next(outside);
  if (own->alive) deadlock();
}

static char *new_stacks(void) {
  char *found = (char *)mmap(0, (size_t)(MOST_THREADS + 1) * (STACK + PAGE), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) _exit(3);
  for (int t = 0; t <= MOST_THREADS; t++) mprotect(found + (size_t)t * (STACK + PAGE), PAGE, PROT_NONE);
  return found;
}

#include "turns.h"

/* ---- launches ---- */

static struct { const void *function; size_t bytes; } allowed[SHARED_FUNCTIONS];
static uint64_t state;     /* of the generator that shuffles */
static long launches, launched; /* of all runs, and of this one */
static bool counts_elements;
static int element_bytes[MOST_ARRAYS]; /* of outputs; 0 for inputs */

extern "C" void *tw_address(const volatile void *at) { return (void *)at; }
extern "C" void *tw_dynamic_shared(void) { return dynamic_pages; }

/* Most runs are on a small device, where kernels that size their grid by it run quickly. */
static int large;

extern "C" bool tw_is_large(void) { return large; }

static const char *const NAMES[] = {"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200",
                                    "NVIDIA L40S", "NVIDIA L4", "NVIDIA A10", "NVIDIA GeForce RTX 4090"};
static const int MANY[] = {40, 46, 58, 68, 72, 82, 84, 108, 114, 128, 132, 142, 148, 170};
static const int SHARED[] = {99, 163, 227}; /* KiB of a block */
static const int CAPABILITIES[] = {80, 86, 89, 90, 100, 120};
/* What tests see that call a kernel without a seed: small, so that few copies of an array exceed its cache. */
static tw_device device = {NAMES[0], 4, 8, 0, 1000000, 1000000, 256, 16, 1 << 20, 99, 0};

extern "C" const tw_device *tw_the_device(void) { return &device; }

/* One device in four has many multiprocessors even where a small one is asked for. */
static void draw_device(uint64_t seed) {
  uint64_t of = seed ^ 0x9e3779b97f4a7c15ull;
  auto below = [&of](unsigned count) { return (int)(next_random(of) % count); };
  bool many = below(4) == 0 || large;
  device.name = NAMES[below(sizeof NAMES / sizeof *NAMES)];
  device.multiprocessors = many ? MANY[below(sizeof MANY / sizeof *MANY)] : 1 + below(8);
  int capability = CAPABILITIES[below(sizeof CAPABILITIES / sizeof *CAPABILITIES)];
  device.major = capability / 10, device.minor = capability % 10;
  device.clock_khz = 1000000 + 1000 * below(2000);
  device.memory_clock_khz = 800000 + 1000 * below(13000);
  device.bus_bits = 64 * (1 + below(96));
  device.cache_kib = 512 * (1 + below(256));  /* neither size is a round number on most devices */
  device.memory_kib = 64 * ((16 << 10) + below(191 * (16 << 10)));
  device.shared_kib = SHARED[below(sizeof SHARED / sizeof *SHARED)];
  device.random = below(1 << 20);
}

extern "C" void tw_allow_shared(const void *function, size_t bytes) {
  for (auto &entry : allowed)
    if (!entry.function || entry.function == function) {
      entry.function = function;
      entry.bytes = bytes;
      return;
    }
}

static unsigned drawn(unsigned below) { return (unsigned)(next_random(state) % below); }

static void exchange(unsigned *items, unsigned i, unsigned j) {
  unsigned item = items[i];
  items[i] = items[j];
  items[j] = item;
}

static void shuffle(unsigned *items, unsigned count) {
  for (unsigned i = count; i > 1; i--) exchange(items, i - 1, drawn(i));
}

/* `items` are in ascending order. */
static void arrange(unsigned *items, unsigned count) {
  for (unsigned i = 0; how == REVERSED && i < count / 2; i++) exchange(items, i, count - 1 - i);
  if (how == SHUFFLED) shuffle(items, count);
}

static void arrange_warps(void) {
  unsigned seen[MOST_WARPS] = {};
  for (unsigned i = 0; i < threads; i++) {
    unsigned w = order[i] / WARP;
    own->warps[w].order[seen[w]++] = order[i] % WARP;
  }
  for (unsigned w = 0; w * WARP < threads; w++)
    while (seen[w] < WARP) own->warps[w].order[seen[w]] = seen[w], seen[w]++;
}

/* ---- some blocks of a launch ---- */

static int ascending(const void *a, const void *b) {
  unsigned one = *(const unsigned *)a, other = *(const unsigned *)b;
  return (one > other) - (one < other);
}

/* Moves some blocks to the front, in ascending order, and tells how many: up to half of them are at corners of the
   grid, where mistakes at edges show; all others are drawn, each with the same chance. */
static unsigned long chosen_blocks(unsigned *blocks, unsigned long count, const dim3 *grid, int line) {
  double wanted = share * (double)count;
  if (wanted < 0.5) fail("part_of_a_block", line, (long)count);
  unsigned long chosen = (unsigned long)(wanted + 0.5), taken = 0;
  unsigned corners[8], found = 0;
  for (unsigned c = 0; c < 8; c++) {
    bool twice = (c & 1 && grid->x == 1) || (c & 2 && grid->y == 1) || (c & 4 && grid->z == 1);
    unsigned x = c & 1 ? grid->x - 1 : 0, y = c & 2 ? grid->y - 1 : 0, z = c & 4 ? grid->z - 1 : 0;
    if (!twice) corners[found++] = x + grid->x * (y + grid->y * z);
  }
  shuffle(corners, found);
  if (found > chosen / 2) found = chosen / 2;
  qsort(corners, found, sizeof *corners, ascending);
  for (; taken < found; taken++) exchange(blocks, taken, corners[taken]); /* ascending: none is moved away again */
  for (; taken < chosen; taken++) exchange(blocks, taken, taken + drawn(count - taken));
  qsort(blocks, chosen, sizeof *blocks, ascending);
  return chosen;
}

static size_t changed_elements(const Array &array, const char *before, int bytes) {
  size_t found = 0;
  for (size_t at = 0; at < array.bytes; at += PAGE) {
    size_t end = at + PAGE < array.bytes ? at + PAGE : array.bytes;
    if (!memcmp(array.data + at, before + at, end - at)) continue;
    for (size_t i = at; i < end; i += bytes) found += memcmp(array.data + i, before + i, bytes) != 0;
  }
  return found;
}

/* How many elements of each output a block writes: of a few blocks, the most of each. */
struct Counted {
  enum { BLOCKS = 8 };
  char *before[MOST_ARRAYS] = {};
  size_t known[MOST_ARRAYS] = {}, most[MOST_ARRAYS] = {};
  void begin() {
    for (int i = 0; counts_elements && i < arguments; i++) {
      if (!element_bytes[i]) continue;
      before[i] = (char *)malloc(arrays[i].bytes);
      if (!before[i]) _exit(4);
      memcpy(before[i], arrays[i].data, arrays[i].bytes);
    }
  }
  void block(bool over) {
    for (int i = 0; i < arguments; i++) {
      if (!before[i]) continue;
      size_t now = changed_elements(arrays[i], before[i], element_bytes[i]);
      if (over && now - known[i] > most[i]) most[i] = now - known[i];
      known[i] = now;
    }
  }
  void end(unsigned long chosen, unsigned long blocks) {
    if (counts_elements) fprintf(report, "part\t%lu\t%lu\n", chosen, blocks);
    for (int i = 0; i < arguments; i++) {
      if (before[i]) fprintf(report, "wrote\t%d\t%zu\n", i, most[i]);
      free(before[i]);
    }
  }
};

extern "C" void tw_atomic(void *at, size_t bytes, bool locks, int line) {
  races_flush();
  if (on_device && locks && how == SHUFFLED) { /* others may change what the thread has just read */
    ready(current);
    next(own->fibers[current].place);
  }
  if (on_device) may_change(!is_shared((const char *)at));
  if (on_device) races_atomic(at, bytes, locks, line);
  if (share < 1 && !is_shared((const char *)at)) fail("part_atomic", line, 0);
}

extern "C" void tw_launch(const char *name, const void *function, int line, const dim3 *grid, const dim3 *block,
                          size_t shared, const void *stream, void (*run)(void *), void *with) {
  if (on_device) fail("nested_launch", line, 0);
  issue(stream, line);
  if (launched++ && share < 1) fail("part_launches", line, 0);
  if (launches++ < 256)
    fprintf(report, "launch\t%s\t%d\t%u\t%u\t%u\t%u\t%u\t%u\t%zu\n", name, line, grid->x, grid->y, grid->z, block->x,
            block->y, block->z, shared);
  unsigned long count = (unsigned long)block->x * block->y * block->z;
  if (count < 1 || count > MOST_THREADS || block->z > 64) fail("launch_threads", line, count);
  unsigned long blocks = (unsigned long)grid->x * grid->y * grid->z;
  if (!blocks || grid->x > 2147483647u || grid->y > 65535 || grid->z > 65535) fail("launch_grid", line, blocks);
  size_t may = WITHOUT_ASKING;
  for (auto &entry : allowed) /* of a launch whose function is not known, what any has asked for */
    if (entry.function && (!function || entry.function == function) && entry.bytes > may) may = entry.bytes;
  if (shared > may || shared > DYNAMIC) fail("launch_shared", line, shared);

  threads = count;
  gridDim = grid_of_launch = *grid;
  dynamic_of_launch = shared;
  blockDim = *block;
  body = run;
  closure = with;
  unsigned *sequence = (unsigned *)malloc(blocks * sizeof *sequence);
  for (unsigned long i = 0; i < blocks; i++) sequence[i] = i;
  unsigned long chosen = share < 1 ? chosen_blocks(sequence, blocks, grid, line) : blocks;
  for (unsigned t = 0; t < threads; t++) order[t] = t;
  arrange(order, threads);
  arrange_warps();
  for (unsigned t = 0; t < threads; t++)
    own->fibers[t].index = {t % block->x, t / block->x % block->y, t / (block->x * block->y)};
  arrange(sequence, chosen);
  races_launch(chosen);
  open_arrays(true);
  unpoison(dynamic_pages, DYNAMIC);
  poison(dynamic_pages + shared, DYNAMIC - shared);
  Counted counted;
  if (share < 1) counted.begin();
  unsigned long apart = chosen / Counted::BLOCKS + 1;
#ifndef RACES
  const bool takes_turns = how == SHUFFLED && !alone && share == 1;
#else
  const bool takes_turns = false;
#endif
  on_device = true;
  if (takes_turns && chosen > 1) run_in_turns(sequence, chosen, shared);
  else for (unsigned long i = 0; i < chosen; i++) {
    bool counts = share < 1 && i % apart == 0;
    if (counts) counted.block(false);
    run_block(sequence[i]);
    if (counts) counted.block(true);
  }
  on_device = false;
  if (share < 1) counted.end(chosen, blocks);
  open_arrays(false);
  free(sequence);
}

/* ---- the job ---- */

static void read_whole(int from, char *to, size_t bytes) {
  while (bytes) {
    ssize_t got = read(from, to, bytes);
    if (got <= 0) _exit(3);
    to += got;
    bytes -= got;
  }
}

static void write_whole(int to, const char *from, size_t bytes) {
  while (bytes) {
    ssize_t put = write(to, from, bytes);
    if (put <= 0) _exit(3);
    from += put;
    bytes -= put;
  }
}

static void begin(void) {
  own->stacks = stacks = new_stacks();
  catch_signals();
}

#ifdef SERVES
/* Without a job: another program calls kernels, and has all arrays for its own. */
extern "C" size_t tw_allocated(void) {
  size_t sum = 0;
  for (const Array &a : arrays) sum += a.used ? a.mapped : 0;
  return sum;
}

__attribute__((constructor)) static void begin_to_serve(void) {
  report = fopen("report.txt", "w");
  if (!report) _exit(3);
  begin();
  forget_streams();
}
#else
#include "state.h"

/* ---- records of conditions ---- */

/* Calls of this program differ in their inputs only, so that what they record can be compared: their arrays lie at the
   same addresses, except in a run whose arrays are `moved`. */
#ifdef RECORDS
static const bool same_places = true;
static uint64_t *records;
static FILE *recorded;

static void begin_records(void) {
  records = (uint64_t *)mmap(0, tw_records_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  recorded = fopen("records.bin", "w");
  if (records == MAP_FAILED || !recorded) _exit(4);
  tw_begin_records(records);
}

static void forget_records(void) { memset(records, 0, tw_records_size); }

/* What the call of a run has recorded: each number that is not 0, with its place. The next call finds only zeros. */
static void end_records(uint64_t run) {
  for (uint64_t i = 0; i < tw_records_size / sizeof *records; i++) {
    if (!records[i]) continue;
    const uint64_t row[] = {run, i, records[i]};
    if (fwrite(row, sizeof row, 1, recorded) != 1) _exit(3);
  }
  forget_records();
  if (fflush(recorded)) _exit(3);
}
#else
static const bool same_places = false;
static void begin_records(void) {}
static void end_records(uint64_t) {}
static void forget_records(void) {}
#endif

struct Job {
  int inputs;
  long long offset; /* in the file of inputs */
  const long *bytes;
  const long long *sizes;
  uint64_t seed;
  int run, fill, moved;
};

/* Afterwards, the arrays may be read. */
static void call_kernel(const Job &job) {
  state = job.seed;
  turns.random = job.seed + 1;
  /* No thread holds the elements that it would read next in most kernels. Runs whose conditions are compared are alike. */
  scattered = 1 + (same_places ? 0 : job.run * 11 % (WARP - 1));
  launched = 0;
  draw_device(job.seed);
  begin_place(same_places ? 1 : job.seed, same_places ? job.moved : job.run);
  if (lseek(job.inputs, job.offset, SEEK_SET) < 0) _exit(3);
  void *pointers[MOST_ARRAYS];
  for (int i = 0; i < arguments; i++) {
    Array *a = new_array(job.bytes[i]);
    if (!a) _exit(4);
    read_whole(job.inputs, a->data, a->bytes);
    a->read_only = !element_bytes[i];
    for (long at = element_bytes[i]; at && job.fill && at <= job.bytes[i]; at += element_bytes[i])
      a->data[at - 1] ^= job.fill;
    pointers[i] = a->data;
  }
  open_arrays(false);
  forget_streams();
  forget_stacks();
  tw_call(pointers, job.sizes);
  if (int line = line_beside(clock_of(DEFAULT_STREAM))) fail("not_joined", line, 0);
  for (const Array &a : arrays)
    if (a.used && &a - arrays >= arguments) fail("keeps_memory", (long)a.bytes, 0);
  open_arrays(true);
}

/* What all calls of a run have in common. */
struct Settings { int how, alone, large; double share; unsigned char old; };
static Settings settings_now(void) { return {how, alone, large, share, old}; }
static void use_settings(const Settings &of) {
  how = of.how, alone = of.alone, large = of.large, share = of.share, old = of.old;
}

static void free_arrays(void) {
  for (Array &a : arrays)
    if (a.used) free_array(a);
}

int main(void) {
  report = fopen("report.txt", "w");
  FILE *job = fopen("job.txt", "r");
  int inputs = open("inputs.bin", O_RDONLY), outputs = open("outputs.bin", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int sizes_count = 0, runs = 0;
  if (!report || !job || inputs < 0 || outputs < 0 || fscanf(job, "%d", &arguments) != 1) _exit(3);
  static long bytes[MOST_ARRAYS];
  for (int i = 0; i < arguments; i++)
    if (fscanf(job, "%ld %d", &bytes[i], &element_bytes[i]) != 2) _exit(3);
  static long long sizes[MOST_ARRAYS];
  if (fscanf(job, "%d", &sizes_count) != 1) _exit(3);
  for (int i = 0; i < sizes_count; i++)
    if (fscanf(job, "%lld", &sizes[i]) != 1) _exit(3);
  if (fscanf(job, "%d", &runs) != 1) _exit(3);

  begin();
  begin_records();

  const char *kept = nullptr;
  Job one = {}, first = {};
  Settings of_first = {};
  for (int run = 0; run < runs; run++) {
    one = {inputs, 0, bytes, sizes, 0, run};
    int fill = 0;
    if (fscanf(job, "%lld %d %llu %lf %d %hhu %d %d %d", &one.offset, &how, (unsigned long long *)&one.seed, &share, &fill,
               &old, &large, &one.moved, &alone)
        != 9)
      _exit(3);
    one.fill = fill;
    if (run == 0) first = one, of_first = settings_now();
    counts_elements = run == 0;
    fprintf(report, "run\t%d\n", run);
    variables.before_run(run);
    call_kernel(one);
    end_records(run);
    for (int i = 0; i < arguments; i++)
      if (element_bytes[i]) write_whole(outputs, arrays[i].data, arrays[i].bytes);
    free_arrays();
    variables.after_run(run);
    if (kept || !variables.began_otherwise()) continue;
    variables.begin_again();
    call_kernel(one);
    forget_records();
    free_arrays();
    kept = variables.kept();
  }
#if !defined RACES && !defined RECORDS
  if (!kept && runs > 1 && variables.changed_by_first()) {
    const Settings of_last = settings_now();
    first.offset = one.offset;
    use_settings(of_first);
    variables.begin_as_first();
    call_kernel(first);
    free_arrays();
    use_settings(of_last);
    if (!variables.left_as_first()) {
      variables.begin_after_other();
      call_kernel(one);
      free_arrays();
      variables.begin_again();
      call_kernel(one);
      free_arrays();
      kept = variables.kept();
    }
  }
#endif
  if (kept) fail("keeps_state", (long)kept, 0); /* after all runs: a wrong result says more */
  fprintf(report, "done\n");
  fclose(report);
  return 0;
}
#endif
