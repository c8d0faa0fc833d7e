/* Calls a kernel in a process of its own, as often as the evaluator asks.

   It decides nothing: the evaluator holds the arrays (memory that both map), reads the clocks and
   compares the outputs. What is said over the pipe is no verdict, only that a call has returned, or
   with which signal it ended.

   usage: harness SOCKET INPUTS OUTPUTS IMAGE BASE CODE CONSTANTS DATA ZEROS ENTRY
                  STACK ARRAYS { r|w BODY }... FUNCTION...
   SOCKET .. IMAGE are descriptors. Commands come and answers go through the socket. Each array has
   SLOTS places of BODY bytes (whole pages) in the memory of inputs (r) or outputs (w), one after the
   other; around each place lies a page that may not be touched. Inputs are mapped read-only, and
   their memory is sealed against more. Before each call, the first STACK bytes of the kernel's stack
   are overwritten: no kernel may find there what an earlier call left. Before the first call, this
   is done with nearly the whole stack. This program uses other parts of the stack than the kernel.

   The kernel is an image that the evaluator has linked (image.py): CODE, CONSTANTS and DATA bytes,
   mapped from the address BASE on, then ZEROS bytes, then a table of the addresses of the functions
   of libraries that it calls. They are looked up before, and the image is mapped after all system
   calls but a few are taken away: nothing of an untrusted file is seen by the system's loader.

   With WORKERS, threads.c precedes this text. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, SLOTS = 2, MOST = 9, NOWHERE = -1 };
enum { NOT_MAPPED = 6, NO_FUNCTION = 9 }; /* exit statuses, see process.py */
enum { MOST_STACK = 1 << 23 };
enum { OWN_STACK = 4 * PAGE }; /* what this program uses of the stack between two calls, at most */
enum { MODES_CHANGED = 1001 }; /* in place of a signal, in a reply */

struct command { uint64_t nonce; uint32_t slot[MOST], shift[MOST]; };
struct reply { uint64_t nonce, signal, number, pc; int64_t argument, offset; };
typedef void kernel_fn(void *, void *, void *, void *, void *, void *, void *, void *, void *);

static char *places[MOST][SLOTS];
static size_t bodies[MOST];
static int count, messages;
static struct command command;

static void answer(struct reply *reply) {
  reply->nonce = command.nonce;
  if (write(messages, reply, sizeof *reply) != sizeof *reply) _exit(3);
}

/* ldtilecfg: VEX.128.NP.0F38.W0 49, with any registers in its address. */
static int is_tile_configuration(const uint8_t *at) {
#ifdef TILES
  return at[0] == 0xc4 && (at[1] & 31) == 2 && at[2] == 0x78 && at[3] == 0x49;
#else
  return (void)at, 0;
#endif
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  struct reply reply = {.signal = signal, .argument = NOWHERE};
  ucontext_t *at = context;
#if defined __x86_64__
  reply.pc = at->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
  reply.pc = at->uc_mcontext.pc;
#endif
  if (signal == SIGSYS) reply.number = info->si_syscall;
  if (signal == SIGSEGV && info->si_code == SI_KERNEL) {  /* no address was refused, but the access */
    reply.number = 1;
    if (is_tile_configuration((const uint8_t *)reply.pc)) reply.signal = SIGILL;
  }
  char *address = info->si_addr;
  for (int i = 0; i < count && (signal == SIGSEGV || signal == SIGBUS); i++)
    for (int slot = 0; slot < SLOTS; slot++)
      if (address >= places[i][slot] - PAGE && address < places[i][slot] + bodies[i] + PAGE) {
        reply.argument = i;
        reply.offset = address - (places[i][slot] + command.shift[i]);
      }
  answer(&reply);
  _exit(1);
}

static void own_signal_stack(void) {
  static _Thread_local char stack[16 * PAGE];  /* what is saved of wide registers takes some pages */
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternate, 0);
}

static void catch_signals(void) {
  own_signal_stack();
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, 0);
}

#ifdef WORKERS
static void refuse(int reason, void *caller) {
  struct reply reply = {.signal = reason, .pc = (uintptr_t)caller, .argument = NOWHERE};
  answer(&reply);
  _exit(1);
}
#endif

/* Whatever a kernel needs no system call for stays possible: it may use the memory it has, get more
   within its limit, and return. */
static void forbid_system_calls(void) {
  static const int allowed[] = {
    SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_brk, SYS_mmap, SYS_munmap,
    SYS_mremap, SYS_madvise, SYS_sched_yield,
#ifdef WORKERS
    SYS_futex,
#endif
  };
  struct sock_filter code[64];
  size_t n = 0;
#if defined __x86_64__
  const uint32_t architecture = AUDIT_ARCH_X86_64;
#else
  const uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  struct sock_fprog program = {.len = n, .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(4);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) _exit(4);
}

static void map_places(int i, int memory, off_t *at, size_t body, int writable) {
  bodies[i] = body;
  for (int slot = 0; slot < SLOTS; slot++, *at += body) {
    char *room = mmap(0, body + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) _exit(5);
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    places[i][slot] = mmap(room + PAGE, body, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, memory, *at);
    if (places[i][slot] == MAP_FAILED) _exit(5);
  }
}

#ifdef TILES
static int allow_tiles(void) {  /* ARCH_REQ_XCOMP_PERM for tile data */
  return !syscall(SYS_arch_prctl, 0x1023, 18);
}
#endif

/* What a kernel may call may lie in any of these; those that a system lacks are not missed until a
   kernel calls one of their functions. */
static void **look_up(char **names, int count) {
  static const char *const libraries[] = {
    "libm.so.6", "libmvec.so.1", "libgcc_s.so.1",
#ifdef WORKERS
    "libgomp.so.1",
#endif
  };
  void **found = calloc(count + 1, sizeof *found);
  for (size_t i = 0; count && i < sizeof libraries / sizeof *libraries; i++)
    dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
  for (int i = 0; found && i < count; i++) {
    found[i] = dlsym(RTLD_DEFAULT, names[i]);
    if (!found[i]) {
      struct reply reply = {.argument = i};
      answer(&reply);
      _exit(NO_FUNCTION);
    }
#ifdef WORKERS
    found[i] = for_kernels(names[i], found[i]);
#endif
  }
  return found;
}

static char *map_at(char *address, size_t size, int protection, int image, off_t from) {
  int how = MAP_PRIVATE | MAP_FIXED_NOREPLACE | (image < 0 ? MAP_ANONYMOUS : 0);
  if (!size) return address;
  if (mmap(address, size, protection, how, image, from) != address) _exit(NOT_MAPPED);
  return address + size;
}

static struct { char *at; void **functions; size_t size; } table;

static void fill_table(void) {
  memcpy(table.at, table.functions, table.size);
}

/* sizes: of code, constants, data and zeros, whole pages each. */
static void map_image(char *at, const size_t *sizes, int image) {
  at = map_at(at, sizes[0], PROT_READ | PROT_EXEC, image, 0);
  at = map_at(at, sizes[1], PROT_READ, image, sizes[0]);
#ifdef WORKERS
  own_data = at;
#endif
  at = map_at(at, sizes[2], PROT_READ | PROT_WRITE, image, sizes[0] + sizes[1]);
  table.at = map_at(at, sizes[3], PROT_READ | PROT_WRITE, -1, 0);
  at = map_at(table.at, (table.size + PAGE - 1) / PAGE * PAGE, PROT_READ | PROT_WRITE, -1, 0);
#ifdef WORKERS
  data_size = sizes[2];
  zeros_size = at - own_data - data_size;
  first_data = malloc(data_size + 1);
  if (!first_data) _exit(NOT_MAPPED);
  memcpy(first_data, own_data, data_size);
#endif
  fill_table();
}

/* How a processor rounds, and which floating-point numbers it takes for zero or as faults. Each call
   begins with what a program begins with, and a call that ends with anything else has failed. */
static void set_usual_modes(void) {
#if defined __x86_64__
  __asm__ volatile("fninit\n\tcld");
  __builtin_ia32_ldmxcsr(0x1f80);
#else
  __asm__ volatile("msr fpcr, xzr");
#endif
}

static int modes_are_usual(void) {
#if defined __x86_64__
  unsigned long long downwards = __builtin_ia32_readeflags_u64() & 0x400;
  uint16_t x87;
  __asm__ volatile("cld\n\tfnstcw %0" : "=m"(x87));
  return (__builtin_ia32_stmxcsr() & 0xffc0) == 0x1f80 && x87 == 0x37f && !downwards;
#else
  uint64_t modes;
  __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
  return !modes;
#endif
}

/* A function with a variable number of arguments stores these registers, also those that its caller
   has not set. An earlier call could have left something there. */
static void clear_vector_registers(void) {
#if defined __x86_64__
  if (__builtin_cpu_supports("avx"))
    __asm__ volatile("vzeroall" : : : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

static __attribute__((noinline)) void overwrite_stack(size_t bytes) {
  char *below = __builtin_alloca(bytes);
  memset(below, 0xff, bytes);  /* not-a-number, or -1 */
  __asm__ volatile("" : : "r"(below) : "memory");
}

/* The stack of the kernel begins OWN_STACK bytes below the one of `main`. What `main` leaves there
   between two calls is different each time. A kernel that finds it in elements of an array that it
   has not written, and does not use, would seem to depend on its earlier calls. */
static __attribute__((noinline)) void call_below(kernel_fn *kernel, void **p, size_t overwritten) {
  char *own = __builtin_alloca(OWN_STACK);
  __asm__ volatile("" : : "r"(own) : "memory");
#ifdef WORKERS
  stack_begin = memset(own, 0, OWN_STACK);  /* the kernel could reach it as well */
#endif
  if (overwritten) overwrite_stack(overwritten);
  clear_vector_registers();
  kernel(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]);
  __asm__ volatile("" : : "r"(own) : "memory");
}

#ifdef WORKERS
static void no_kernel(void *a, void *b, void *c, void *d, void *e, void *f, void *g, void *h, void *i) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i;
}
#endif

/* How many bytes of the stack can be overwritten beyond the given ones. */
static size_t below_stack(size_t bytes) {
  struct rlimit limit;
  size_t spare = bytes + 64 * PAGE;  /* what the harness itself uses, and the arguments above it */
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY) return MOST_STACK;
  return limit.rlim_cur > spare ? limit.rlim_cur - spare : 0;
}

int main(int argc, char **argv) {
  enum { SOCKET = 1, INPUTS, OUTPUTS, IMAGE, BASE, CODE, ENTRY = CODE + 4, STACK, ARRAYS, FIRST };
  if (argc < FIRST) return 2;
  int inputs = atoi(argv[INPUTS]), outputs = atoi(argv[OUTPUTS]), arrays = atoi(argv[ARRAYS]);
  if (arrays < 0 || arrays > MOST || argc < FIRST + 2 * arrays) return 2;
  messages = atoi(argv[SOCKET]);
  off_t at_input = 0, at_output = 0;
  for (char **array = argv + FIRST; count < arrays; count++, array += 2) {
    int writable = array[0][0] == 'w';
    map_places(count, writable ? outputs : inputs, writable ? &at_output : &at_input,
               strtoull(array[1], 0, 10), writable);
  }
  close(inputs);
  close(outputs);
  int functions = argc - FIRST - 2 * arrays;
  table.functions = look_up(argv + FIRST + 2 * arrays, functions);
  table.size = functions * sizeof *table.functions;
  size_t sizes[4];
  for (int i = 0; i < 4; i++) sizes[i] = strtoull(argv[CODE + i], 0, 10);
  kernel_fn *kernel = (kernel_fn *)strtoull(argv[ENTRY], 0, 10);
  size_t stack = strtoull(argv[STACK], 0, 10), deep = below_stack(stack);
#ifdef TILES
  if (!allow_tiles()) return 7;
#endif
  catch_signals();
#ifdef WORKERS
  if (!start_workers()) return 8;
#endif
  struct reply ready = {.argument = NOWHERE};
  answer(&ready);
  forbid_system_calls();
  map_image((char *)strtoull(argv[BASE], 0, 10), sizes, atoi(argv[IMAGE]));
#ifdef WORKERS
  call_below(no_kernel, (void *[MOST]){0}, 0);  /* finds where the stack begins */
  if (creates_threads) stack = 0;  /* the stack is discarded instead */
#endif
  while (read(messages, &command, sizeof command) == sizeof command) {
    void *p[MOST] = {0};
    for (int i = 0; i < count; i++) p[i] = places[i][command.slot[i] % SLOTS] + command.shift[i];
    set_usual_modes();
#ifdef WORKERS
    forget_earlier_calls();
    fill_table();
#endif
    call_below(kernel, p, stack ? stack + deep : 0);
    deep = 0;
#ifdef WORKERS
    if (threads_are_left()) refuse(THREADS_LEFT, 0);
#endif
    struct reply done = {.argument = NOWHERE, .signal = modes_are_usual() ? 0 : MODES_CHANGED};
    set_usual_modes();
    answer(&done);
  }
  _exit(0);
}
