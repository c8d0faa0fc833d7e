/* Runs a kernel of real tile instructions on a CPU without them: each raises SIGILL, is decoded from
   its bytes and carried out by the emulation of tiles.h.

   usage: trapped { r|w FILE }...    each file is an array; those with w are written back
   prints how many of each instruction ran, as `name count` lines. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>
#include "tiles.h"

enum { LOADCONFIG, RELEASE, ZERO, LOAD, STORE, PRODUCT, KINDS, MOST = 8 };
static const char *const names[] = {"loadconfig", "release", "zero", "load", "store", "product"};
static long counts[KINDS];
static const int registers[] = {
  REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
  REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

struct decoded { const uint8_t *next; long base, index; };

/* What ModRM and SIB name; `index` is 0 where there is none. */
static struct decoded operand(const uint8_t *modrm, const greg_t *g, int x, int b) {
  struct decoded found = {modrm + 1, 0, 0};
  int mod = *modrm >> 6, rm = *modrm & 7, has_base = 1, base = rm | b << 3;
  if (rm == 4) {
    int sib = *found.next++, index = (sib >> 3 & 7) | x << 3;
    base = (sib & 7) | b << 3;
    if (index != 4) found.index = g[registers[index]] << (sib >> 6);
    has_base = mod || (sib & 7) != 5;
  } else if (mod == 0 && rm == 5) {
    has_base = 0;
  }
  int wide = mod == 2 || !has_base;
  int32_t distance = 0;
  if (wide) memcpy(&distance, found.next, 4), found.next += 4;
  if (mod == 1) distance = (int8_t)*found.next++;
  if (has_base) found.base = g[registers[base]];
  else if (rm == 5) found.base = (long)found.next;
  found.base += distance;
  return found;
}

static void on_illegal(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
  const uint8_t *at = (const uint8_t *)g[REG_RIP];
  int prefix = at[2] & 3, opcode = at[3], modrm = at[4], reg = modrm >> 3 & 7;
  if (at[0] != 0xc4 || (at[1] & 31) != 2 || at[2] & 0x84) abort();
  const uint8_t *next = at + 5;
  if (opcode == 0x49 && prefix == 0 && modrm == 0xc0) {
    counts[RELEASE]++, tile_release();
  } else if (opcode == 0x49 && prefix == 3 && modrm >> 6 == 3) {
    counts[ZERO]++, tile_zero(reg);
  } else if (opcode == 0x5e && prefix == 3 && modrm >> 6 == 3) {
    counts[PRODUCT]++, tile_dpbssd(reg, modrm & 7, ~at[2] >> 3 & 15);
  } else if (opcode == 0x5c && prefix == 2 && modrm >> 6 == 3) {
    counts[PRODUCT]++, tile_dpbf16ps(reg, modrm & 7, ~at[2] >> 3 & 15);
  } else {
    struct decoded memory = operand(at + 4, g, !(at[1] & 0x40), !(at[1] & 0x20));
    next = memory.next;
    if (opcode == 0x49 && prefix == 0)
      counts[LOADCONFIG]++, tile_loadconfig((void *)(memory.base + memory.index));
    else if (opcode == 0x4b && (prefix == 3 || prefix == 1))
      counts[LOAD]++, tile_loadd(reg, (void *)memory.base, memory.index);
    else if (opcode == 0x4b && prefix == 2)
      counts[STORE]++, tile_stored(reg, (void *)memory.base, memory.index);
    else
      abort();
  }
  g[REG_RIP] = (greg_t)next;
}

void kernel(void *, void *, void *, void *);

int main(int argc, char **argv) {
  void *arrays[MOST] = {0};
  for (int i = 0; 2 * i + 2 < argc; i++) {
    int file = open(argv[2 * i + 2], O_RDWR);
    struct stat known;
    if (file < 0 || fstat(file, &known)) return 1;
    int how = argv[2 * i + 1][0] == 'w' ? MAP_SHARED : MAP_PRIVATE;
    arrays[i] = mmap(0, known.st_size, PROT_READ | PROT_WRITE, how, file, 0);
    if (arrays[i] == MAP_FAILED) return 1;
  }
  struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &action, 0);
  kernel(arrays[0], arrays[1], arrays[2], arrays[3]);
  for (int kind = 0; kind < KINDS; kind++) printf("%s %ld\n", names[kind], counts[kind]);
  return 0;
}
