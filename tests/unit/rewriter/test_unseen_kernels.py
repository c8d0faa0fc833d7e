"""Kernels written by hand in styles of their own: all of each is modelled, and rightly so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine

UNSEEN = Path(__file__).parents[2] / "golden" / "rewriter" / "unseen"
KERNELS = sorted(p.stem for p in UNSEEN.glob("*.c"))
LOGGING_HEADER = """
#include <stdint.h>
#include <stdio.h>
#define DIM 16
#define SPAD_BANK_ROWS 4096
#define SPAD(row) ((uint32_t)(row))
#define ACC(row) (0x80000000u | (uint32_t)(row))
#define ACCUMULATE 0x40000000u
#define NONE 0xffffffffu
#define WEIGHT_STATIONARY 1
#define NO_ACTIVATION 0
#define RELU 1
static long place(const void *p);
#define LOG(name, a, b, c, d, e, f) \\
  printf("%s %ld %ld %ld %ld %ld %ld\\n", name, (long)(a), (long)(b), (long)(c), (long)(d), \\
         (long)(e), (long)(f))
#define mvin(p, l, c, r) LOG("mvin", place((const void *)(uintptr_t)(p)), l, c, r, 0, 0)
#define mvin2(p, l, c, r) LOG("mvin2", place((const void *)(uintptr_t)(p)), l, c, r, 0, 0)
#define mvin3(p, l, c, r) LOG("mvin3", place((const void *)(uintptr_t)(p)), l, c, r, 0, 0)
#define mvout(p, l, c, r) LOG("mvout", place((const void *)(uintptr_t)(p)), l, c, r, 0, 0)
#define preload(a, b, c, d, e, f) LOG("preload", a, b, c, d, e, f)
#define compute_preloaded(a, b, c, d, e, f) LOG("compute", a, b, c, d, e, f)
#define config_ex(a, b, c, d, e) LOG("config_ex", a, b, c, d, e, 0)
#define config_ld(a, b, c, d) LOG("config_ld", a, b, c, d, 0, 0)
#define config_st(a, ...) LOG("config_st", a, 0, 0, 0, 0, 0)
#define fence() LOG("fence", 0, 0, 0, 0, 0, 0)
"""


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_left_alone(machine: Machine, name: str) -> None:
    kernel = lift((UNSEEN / f"{name}.c").read_text(), machine)
    assert [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)] == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@pytest.mark.parametrize("name", KERNELS)
def test_the_printed_kernel_issues_what_its_author_wrote(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    source = (UNSEEN / f"{name}.c").read_text()
    kernel = simplify(lift(source, machine))
    printed = issued(emit(kernel), tmp_path)
    assert printed == issued(source, tmp_path)
    assert len(printed.splitlines()) == len(list(trace(kernel.body)))


def issued(source: str, folder: Path) -> str:
    """Every command of the compiled kernel; a place in an array is its number and offset."""
    arguments = re.findall(r"(const )?int(?:8|32)_t (\*?)\w+((?:\[\w*\])*)[,)]", _signature(source))
    names = [f"x{n}" for n in range(len(arguments))]
    calls = ", ".join(f"(void *){n}" for n in names)
    main = f"""
static char {", ".join(f"{n}[1 << 20]" for n in names)};
static long place(const void *p) {{
  {
        " ".join(
            f"if ((char *)p >= {n} && (char *)p < {n} + (1 << 20)) return (char *)p - {n} + "
            f"{i + 1}000000000L;"
            for i, n in enumerate(names)
        )
    }
  return 0;
}}
int main(void) {{ kernel({calls}); return 0; }}
"""
    (folder / "gemmini.h").write_text(LOGGING_HEADER)
    (folder / "k.c").write_text('#include "gemmini.h"\n' + _once(source) + main)
    subprocess.run(["cc", "-w", "-o", "k", "k.c"], cwd=folder, check=True)
    return subprocess.run(["./k"], cwd=folder, check=True, capture_output=True, text=True).stdout


def _once(source: str) -> str:
    return source.replace('#include "gemmini.h"\n', "")


def _signature(source: str) -> Any:
    found = re.search(r"void kernel\(.*?\{", source, re.DOTALL)
    assert found is not None
    return found[0]
