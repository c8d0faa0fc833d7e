"""Measures the costs of operations on a core of this machine, for `targets/host_c/costs.md`.

    uv run python benchmarks/host_costs.py

Prints the shortest wall time of 200 repeats, in nanoseconds, for one element of a loop that calls a
function of math.h, one step of a chain of dependent additions, and one step of a chain of dependent
loads. The chain of loads uses half the size of each cache, and 64 MiB for the memory.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tilewright.native.calibration import calibrated
from tilewright.native.machine import processor
from tilewright.native.toolchain import find_toolchain

FUNCTIONS = ("expf", "logf", "tanhf", "sinf", "sqrtf")
LEVELS = ("l1", "l2", "l3", "memory")
SOURCE = (
    r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
float x[1024], y[1024];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
#define LEAST(name, count, code) { \
  double least = 1e18; \
  for (int r = 0; r < 200; r++) { \
    double start = now(); code; double taken = (now() - start) / (count); \
    if (taken < least) least = taken; \
  } \
  printf("%s %g\n", name, least); }
static void **chain(size_t bytes) {
  size_t lines = bytes / 64, *order = malloc(lines * sizeof *order);
  char *memory = aligned_alloc(4096, bytes);
  for (size_t i = 0; i < lines; i++) order[i] = i;
  for (size_t i = lines - 1; i > 0; i--) {
    size_t j = (((size_t)rand() << 20) ^ rand()) % (i + 1), kept = order[i];
    order[i] = order[j], order[j] = kept;
  }
  for (size_t i = 0; i < lines; i++)
    *(void **)(memory + 64 * order[i]) = memory + 64 * order[(i + 1) % lines];
  free(order);
  return (void **)memory;
}
void **volatile kept;
int main(int count, char **given) {
  for (int i = 0; i < 1024; i++) x[i] = 0.1f + 0.001f * i;
"""
    + "".join(
        f'  LEAST("{name}", 1024, for (int i = 0; i < 1024; i++) y[i] = {name}(x[i]);\n'
        '    __asm__ volatile("" ::: "memory"))\n'
        for name in FUNCTIONS
    )
    + r"""
  LEAST("addition", 1024, float sum = 0; for (int i = 0; i < 1024; i++) sum += x[i]; y[0] = sum;
    __asm__ volatile("" ::: "memory"))
  const char *names[] = {"l1", "l2", "l3", "memory"};
  for (int level = 0; level < 4; level++) {
    size_t bytes = level < 3 ? strtoul(given[1 + level], 0, 10) / 2 / 4096 * 4096
                             : strtoul(given[3], 0, 10) + (64 << 20);
    void **at = chain(bytes);
    kept = at;
    for (size_t i = 0; i < bytes / 64; i++) kept = *kept;
    LEAST(names[level], 4096, at = kept; for (int i = 0; i < 4096; i++) at = *at; kept = at)
  }
  return 0;
}
"""
)


def main() -> None:
    """Print the table."""
    core = processor()
    caches = (core.l1_bytes or 32 << 10, core.l2_bytes or 512 << 10, core.l3_bytes or 8 << 20)
    names = (*FUNCTIONS, "addition", *LEVELS)
    found = calibrated(find_toolchain(), SOURCE, caches, names, fresh=True)
    table = Table("operation", "ns", title=core.name, box=None)
    for name in names:
        table.add_row(name, f"{found[name]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
