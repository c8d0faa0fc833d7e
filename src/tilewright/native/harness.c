/* Calls a kernel in a process of its own, as often as the evaluator asks.

   It decides nothing: the evaluator holds the arrays (memory that both map), reads the clocks and
   compares the outputs. What is said over the pipe is no verdict, only that a call has returned, or
   with which signal it ended.

   usage: harness KERNEL COMMANDS REPLIES INPUTS OUTPUTS { r|w BODY }...
   COMMANDS .. OUTPUTS are descriptors. Each array has SLOTS places of BODY bytes (whole pages) in
   the memory of inputs (r) or outputs (w), one behind the other; around each place lies a page that
   may not be touched. Inputs are mapped read-only, and their memory is sealed against more.

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
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, SLOTS = 2, MOST = 8, NOWHERE = -1 };

struct command { uint64_t nonce; uint32_t slot[MOST], shift[MOST]; };
struct reply { uint64_t nonce, signal, number, pc; int64_t argument, offset; };
typedef void kernel_fn(void *, void *, void *, void *, void *, void *, void *, void *);

static char *places[MOST][SLOTS];
static size_t bodies[MOST];
static int count, replies;
static struct command command;
static uintptr_t base;

static void answer(struct reply *reply) {
  reply->nonce = command.nonce;
  if (write(replies, reply, sizeof *reply) != sizeof *reply) _exit(3);
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
  reply.pc = at->uc_mcontext.gregs[REG_RIP] - base;
#elif defined __aarch64__
  reply.pc = at->uc_mcontext.pc - base;
#endif
  if (signal == SIGSYS) reply.number = info->si_syscall;
  if (signal == SIGSEGV && info->si_code == SI_KERNEL) {  /* no address was refused, but the access */
    reply.number = 1;
    if (is_tile_configuration((const uint8_t *)(base + reply.pc))) reply.signal = SIGILL;
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
static void refuse(void *caller) {
  struct reply reply = {.signal = TOO_MANY, .pc = (uintptr_t)caller - base, .argument = NOWHERE};
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

int main(int argc, char **argv) {
  if (argc < 6 || (argc - 6) % 2 || (argc - 6) / 2 > MOST) return 2;
  int commands = atoi(argv[2]), inputs = atoi(argv[4]), outputs = atoi(argv[5]);
  replies = atoi(argv[3]);
  off_t at_input = 0, at_output = 0;
  for (count = 0; count < (argc - 6) / 2; count++) {
    int writable = argv[6 + 2 * count][0] == 'w';
    map_places(count, writable ? outputs : inputs, writable ? &at_output : &at_input,
               strtoull(argv[7 + 2 * count], 0, 10), writable);
  }
  close(inputs);
  close(outputs);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  kernel_fn *kernel = library ? (kernel_fn *)dlsym(library, "kernel") : 0;
  Dl_info found;
  if (!kernel || !dladdr((void *)kernel, &found)) return 6;
  base = (uintptr_t)found.dli_fbase;
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
  while (read(commands, &command, sizeof command) == sizeof command) {
    void *p[MOST] = {0};
    for (int i = 0; i < count; i++) p[i] = places[i][command.slot[i] % SLOTS] + command.shift[i];
    kernel(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
    struct reply done = {.argument = NOWHERE};
    answer(&done);
  }
  _exit(0);
}
