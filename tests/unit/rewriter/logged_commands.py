"""Compiles a kernel for this machine, with commands that log themselves, and runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

HEAD = "void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[64][64]) {\n"
LOGGING_HEADER = """
#include <assert.h>
#include <stdio.h>
#include <stdint.h>
#define SPAD(row) ((uint32_t)(row))
#define ACC(row) (0x80000000u | (uint32_t)(row))
#define FULL 0x20000000u
#define ACCUMULATE 0x40000000u
#define LOG(name, at, l, c, r) \\
  printf("%s %ld %u %d %d\\n", name, (long)(at), (uint32_t)(l), (int)(c), (int)(r))
#define mvin(p, l, c, r) LOG("mvin", (const char*)(p) - (const char*)A, l, c, r)
#define mvout(p, l, c, r) LOG("mvout", (char*)(p) - (char*)C, l, c, r)
#define config_ld(s, f, b, i) printf("set %d %g %d %d\\n", (int)(s), (double)(f), (int)(b), i)
#define fence() printf("fence\\n")
"""
MAIN = """
static int8_t a[64][64], b[64][64], c[64][64];
int main(void) { kernel(a, b, c); return 0; }
"""


def issued(source: str, folder: Path) -> str:
    """What the compiled kernel issues, by a header that logs every command."""
    (folder / "k.c").write_text(LOGGING_HEADER + source + MAIN)
    subprocess.run(["cc", "-w", "-o", "k", "k.c"], cwd=folder, check=True)
    return subprocess.run(["./k"], cwd=folder, check=True, capture_output=True, text=True).stdout
