"""Compares the instruction counts of the tool `asm` with those that the simulator executed.

    python benchmarks/asm_counts.py

Each Gemmini kernel is compiled and simulated. If all iterations of a loop execute the same
instructions, the number for one iteration times the number of iterations must be the number of
executed instructions. If iterations differ (`up to` in the answers of `asm`), the loop must not
have executed more. The simulator must execute only instructions that `asm` has read, and the
accelerator must receive as many commands as `asm` counts. The benchmark also contains kernels whose
numbers of iterations are known.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from tilewright.core.compiled_code import CodeLoop
from tilewright.core.records import Failed
from tilewright.core.tasks import open_task
from tilewright.parts.machine_code.riscv import read_elf
from tilewright.targets.gemmini.code import COMMANDS, PRODUCTS, compiled_code
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.sim import Region, SimResult, run_kernel
from tilewright.targets.gemmini.target import GemminiTarget
from tilewright.targets.gemmini.toolchain import compile_kernel, find_toolchain

WORKLOADS = (
    "gemmini:gemm-64x64x64",
    "gemmini:gemm-128x64x256",
    "gemmini:gemm-100x48x70",
    "gemmini:conv-1x8x8x16x16-k3s1",
    "gemmini-fp32-4x4:gemm-16x16x16",
    "gemmini-fp32-4x4:gemm-64x32x16",
    "gemmini-fp32-4x4:tinympc-forward",
    "gemmini-fp32-4x4:tinympc-backward",
)
"""With their starting kernels and baselines."""

SMALL = "gemmini:gemm-16x16x16"
HEAD = """void kernel(const int8_t A[16][16], const int8_t B[16][16], int8_t C[16][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
"""
TAIL = "\n  fence();\n}\n"
COUNTED: Mapping[str, tuple[int, ...]] = {
    "for (int i = 0; i < 37; i++) mvin(A, SPAD(16 * (i & 3)), 16, 16);": (37,),
    "for (int i = 0; i < 9; i++) {\n config_ld(16, 1.0f, 16, 0);\n"
    "for (int j = 0; j < 21; j++)\n mvin(A, SPAD(16 * (j & 1) + 32 * i), 16, 16); }": (9, 9 * 21),
    "int n = 23;\n do mvin(A, SPAD(16 * (n & 3)), 16, 16);\n while (--n);": (23,),
    "for (int i = 0; i < 30; i++) {\n for (int j = 0; j < 40; j++) {\n"
    "config_ld(16, 1.0f, 16, 0);\n"
    "for (int k = 0; k < 33; k++)\n mvin(A, SPAD(16 * k + i), 16, 16); } }": (30, 1200, 39600),
    "mvin(A, SPAD(0), 16, 16);\nfor (int i = 0; i < 50; i++) {\n"
    "preload(SPAD(0), ACC(0), 16, 16, 16, 16);\n"
    "compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16); }": (50,),
}
"""Bodies of kernels, and how often the first instruction of each of their loops runs."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One kernel: its loops, how many of them every iteration runs whole, and what differs."""

    loops: int
    straight: int
    inside: float
    executed: int
    differences: tuple[str, ...]


def kernels() -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Task, source and known iterations of each kernel, by name; equal sources are one."""
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    for name in WORKLOADS:
        for kind, source in open_task(name, {}).task.baselines.items():
            if source not in {known for _, known, _ in found.values()}:
                found[f"{name} {kind}"] = name, source, ()
    for body, iterations in COUNTED.items():
        source = HEAD + body + TAIL
        found[f"loops of {' and '.join(map(str, iterations))}"] = SMALL, source, iterations
    return found


def run(task: str, source: str) -> tuple[bytes, SimResult]:
    """A kernel's ELF file, and a timed run of it on zeros; ends the program where that fails."""
    opened = open_task(task, {})
    assert isinstance(opened.target, GemminiTarget)
    instance, arguments = opened.target.instance, opened.task.workload.arguments
    built = compile_kernel(find_toolchain(), source, instance.header, 60.0)
    if isinstance(built, Failed):
        sys.exit(built.log)
    arrays = [np.zeros(a.shape, dtype=a.dtype) for a in arguments]
    addresses = argument_addresses([array.nbytes for array in arrays])
    regions = [
        Region(address, array, a.is_written, a.name)
        for a, array, address in zip(arguments, arrays, addresses, strict=True)
    ]
    result = run_kernel(instance.config, built, regions, ordering="timing")
    if result.status != "ok":
        sys.exit(f"{task}: {result.status}: {result.fault}")
    return built, result


def compared(elf: bytes, result: SimResult, known: Sequence[int] = ()) -> Compared:
    """Every loop's counts beside what the simulator ran."""
    code, ran = compiled_code(elf), Counter(dict(result.executed))
    differences: list[str] = []
    inside, iterations = 0, []
    for loop in code.loops:
        own = _own(loop, code.loops)
        executed, times = sum(ran[at] for at in own), max(ran[at] for at in own)
        inside += executed
        iterations.append(times)
        expected = loop.count * times
        if len(own) != loop.count:
            differences.append(f"loop {loop.number}: {loop.count} told, {len(own)} listed")
        if executed != expected if loop.straight else executed > expected:
            differences.append(
                f"loop {loop.number} at line {loop.line}: {loop.count} x {times:,} are "
                f"{expected:,}, and {executed:,} ran"
            )
    if known and sorted(iterations) != sorted(known):
        differences.append(f"iterations {iterations} instead of {list(known)}")
    read = {one.address: one for one in read_elf(elf, "kernel", COMMANDS)[1]}
    unread = sum(count for at, count in ran.items() if at not in read)
    if unread or sum(ran.values()) != result.instructions:
        differences.append(f"{unread:,} of {result.instructions:,} instructions are not known")
    computes = sum(n for at, n in ran.items() if read[at].text.startswith(PRODUCTS))
    if computes != result.computes and not any("command" in read[at].text for at in ran):
        differences.append(f"{computes} computes read, {result.computes} received")
    straight = sum(loop.straight for loop in code.loops)
    share = inside / result.instructions
    return Compared(len(code.loops), straight, share, result.instructions, tuple(differences))


def _own(loop: CodeLoop, loops: Sequence[CodeLoop]) -> set[int]:
    """The addresses of a loop's instructions without those of loops inside it."""
    listed = {one.address for one in loop.listing}
    for other in loops:
        if other.inside == loop.number:
            listed -= {one.address for one in other.listing}
    return listed


def main() -> int:
    """Print a row for each kernel; 1 where counts differ."""
    table = Table("kernel", "loops", "straight", "in loops", "instructions", "counts", box=None)
    differ = straight = with_straight = 0
    for name, (task, source, known) in kernels().items():
        found = compared(*run(task, source), known)
        differ += bool(found.differences)
        straight += found.straight
        with_straight += found.straight > 0
        table.add_row(
            name, str(found.loops), str(found.straight), f"{found.inside:.1%}",
            f"{found.executed:,}", "; ".join(found.differences) or "equal",
        )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    console.print(
        f"{straight} straight loops in {with_straight} of {table.row_count} kernels; "
        f"kernels with counts that differ: {differ}"
    )
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
