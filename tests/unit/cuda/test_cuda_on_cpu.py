"""On the CPU right kernels give what numpy gives in every order; planted bugs are found.

All kernels are one program (kernels_on_cpu.cu). A bug is found where one of the three orders gives
another result, or where a rule was broken, at the line that names it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.records import Argument, Failed
from tilewright.native.toolchain import Listed
from tilewright.targets.cuda import cpu_program
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.emulation import ORDERS, Run, RunResult, run_on_cpu
from tilewright.targets.cuda.launcher import call

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")

W, N = 64, 4096
ARGUMENTS = (
    Argument("A", (N,), "float32", "input"),
    Argument("B", (N,), "float32", "input"),
    Argument("C", (N,), "float32", "output"),
)
SOURCE = Path(__file__).with_name("kernels_on_cpu.cu").read_text()
Array = np.ndarray


def softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def stencil(a: Array) -> Array:
    found = a.copy()
    around = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    found[1:-1, 1:-1] = around - 4 * a[1:-1, 1:-1]
    return found


def histogram(a: Array) -> Array:
    bins = np.clip(np.trunc(a * np.float32(4) + np.float32(8)), 0, 15).astype(int)
    return np.bincount(bins.ravel(), minlength=16)


def positives(a: Array) -> Array:
    rows = (a.reshape(-1, 32) > 0).astype(int)
    return np.cumsum(rows, 1) - rows + 100 * rows.sum(1, keepdims=True)


def counted(a: Array) -> Array:
    counts = (a > 0).sum(1, keepdims=True)
    return np.broadcast_to(counts + 100 * (counts > 3) + 1000 * (counts > 60), (W, W))


def five_taps(a: Array, b: Array) -> Array:
    wide = np.pad(a.ravel(), 2)
    return sum(wide[i : i + N] * b.ravel()[i] for i in range(5))


def half_sums(a: Array, b: Array) -> Array:
    a, b = a.astype(np.float16), b.astype(np.float16)
    return (a.astype(float) * 2 + b.astype(float)).astype(np.float16)


def product(a: Array, b: Array) -> Array:
    return a.astype(float) @ b.astype(float)


def row_sums(a: Array, b: Array) -> Array:
    return a.sum(1)


def scan(a: Array, b: Array) -> Array:
    return np.cumsum(a.astype(float), 1)


RIGHT: dict[str, tuple[int, Callable[[Array, Array], Array], float]] = {
    "plain product": (0, product, 1e-4),
    "shared tiles": (1, product, 1e-4),
    "register blocks": (2, product, 1e-4),
    "dynamic shared memory": (3, product, 1e-4),
    "double buffering": (4, product, 1e-4),
    "split sums by atomics": (5, product, 1e-4),
    "tensor cores": (6, product, 5e-2),
    "tree": (7, row_sums, 1e-4),
    "shuffles": (8, row_sums, 1e-4),
    "cooperative groups": (9, row_sums, 1e-4),
    "scan in shared memory": (10, scan, 1e-4),
    "scan by shuffles": (11, scan, 1e-4),
    "softmax": (12, lambda a, b: softmax(a), 1e-6),
    "convolution with a halo": (13, five_taps, 1e-5),
    "stencil": (14, lambda a, b: stencil(a), 1e-5),
    "histogram": (15, lambda a, b: histogram(a), 0),
    "transpose": (16, lambda a, b: a.T, 0),
    "votes": (17, lambda a, b: positives(a), 0),
    "half types": (18, half_sums, 0),
    "votes of a block": (19, lambda a, b: counted(a), 0),
    "lock and tickets": (21, lambda a, b: a.astype(float).sum(), 1e-4),
    "sort": (20, lambda a, b: np.sort(a, 1), 0),
}
WRONG: dict[str, tuple[int, int, str]] = {
    "no barrier after loading": (101, 1, "wrong"),
    "no barrier before overwriting": (102, 1, "wrong"),
    "column off by one": (103, 1, "illegal_address"),
    "sum runs beyond a shared tile": (104, 1, "illegal_address"),
    "row and column exchanged": (105, 1, "wrong"),
    "sum never set": (106, 1, "wrong"),
    "write beyond the output": (107, 1, "illegal_address"),
    "too little dynamic shared memory": (108, 3, "illegal_address"),
    "wrong buffer": (109, 4, "wrong"),
    "plain sum instead of an atomic": (110, 5, "wrong"),
    "threads leave the loop before its barrier": (111, 7, "barrier"),
    "index beyond the parts": (112, 7, "illegal_address"),
    "two barriers for one": (113, 7, "barrier"),
    "no barrier in a tree": (114, 7, "wrong"),
    "half a warp has ended": (115, 8, "wrong"),
    "threads that the mask names do not come": (116, 8, "wrong"),
    "a mask without the thread itself": (117, 8, "barrier"),
    "shared value never written": (118, 11, "wrong"),
    "edge of a tile never loaded": (119, 13, "wrong"),
    "no check of the first row": (120, 14, "illegal_address"),
    "bins never cleared": (121, 15, "wrong"),
    "no barrier in a transpose": (122, 16, "wrong"),
    "misaligned pair": (123, 18, "misaligned"),
    "input overwritten": (124, 16, "input_modified"),
    "host reads the device": (125, 16, "host_access"),
    "block too large": (126, 16, "launch_failure"),
    "shared memory not asked for": (127, 16, "launch_failure"),
    "grid too small": (128, 0, "wrong"),
    "copies not waited for": (131, 4, "wrong"),
}
"""By what is wrong: its number, the kernel that would be right, and how it is found."""
RACES = {
    "plain sums of threads": (129, "shared memory that another thread of the same block"),
    "plain sums of blocks": (130, "an element of C that another thread of another block"),
    "one plain sum among atomics": (132, "shared memory that another thread of the same block"),
    "plain sums of one block among atomics": (
        133,
        "an element of C that another thread of another",
    ),
}
"""Right in every order of threads that run one after the other: by what is wrong, its number."""


@cache
def program(races: bool = False) -> bytes:
    built = find_cpu_compiler().compile(SOURCE, call(ARGUMENTS, ("which",)), 120.0, races)
    assert isinstance(built, bytes), built
    return built


@cache
def inputs() -> dict[str, Array]:
    rng = np.random.default_rng(7)
    values = {name: rng.standard_normal(N).astype(np.float32) for name in "AB"}
    return {**values, "C": np.full(N, 7.0, np.float32)}


def ran(which: int) -> RunResult:
    runs = [Run(inputs(), order, 5) for order in ORDERS]
    return run_on_cpu(program(), find_cpu_compiler().sandbox, ARGUMENTS, (which,), runs, 60.0)


def race_of(which: int, order: str = "shuffled") -> Failed | None:
    sandbox = find_cpu_compiler().sandbox
    runs = [Run(inputs(), order, 5)]
    return run_on_cpu(program(races=True), sandbox, ARGUMENTS, (which,), runs, 60.0).failed


def expected_of(number: int) -> tuple[Array, float]:
    for which, formula, allowed in RIGHT.values():
        if which == number:
            values = formula(inputs()["A"].reshape(W, W), inputs()["B"].reshape(W, W))
            return np.asarray(values, float).ravel(), allowed
    raise AssertionError(number)


def is_right(outputs: bytes, number: int) -> bool:
    expected, allowed = expected_of(number)
    got = np.frombuffer(outputs, np.float32)[: len(expected)].astype(float)
    return bool(np.all(np.abs(got - expected) <= allowed))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_gives_what_numpy_gives_in_every_order(name: str) -> None:
    which = RIGHT[name][0]
    found = ran(which)
    assert found.failed is None
    assert len(found.outputs) == len(ORDERS)
    assert [is_right(outputs["C"], which) for outputs in found.outputs] == [True] * len(ORDERS)
    assert found.launches


@pytest.mark.parametrize("name", WRONG)
def test_a_planted_bug_is_found(name: str) -> None:
    which, right, kind = WRONG[name]
    found = ran(which)
    if kind == "wrong":
        assert found.failed is None or found.failed.kind == "barrier"
        right_in = [is_right(outputs["C"], right) for outputs in found.outputs]
        assert found.failed is not None or not all(right_in)
        return
    assert isinstance(found.failed, Failed), [o["C"][:16] for o in found.outputs]
    assert found.failed.kind == kind
    marked = f"BUG {which - 100}"
    line = found.failed.line
    if marked in SOURCE.replace("(BUG == ", ""):
        assert line is not None
        assert SOURCE.splitlines()[line - 1].rstrip().endswith(f"// {marked}")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_has_no_race(name: str) -> None:
    assert race_of(RIGHT[name][0]) is None


@pytest.mark.parametrize("name", RACES)
def test_a_race_that_changes_no_result_is_found(name: str) -> None:
    which, touched = RACES[name]
    failed = race_of(which)
    assert failed is not None
    assert failed.kind == "race"
    assert touched in failed.log
    assert failed.line is not None
    planted = next(
        number
        for number, line in enumerate(SOURCE.splitlines(), 1)
        if line.endswith(f"// BUG {which - 100}")
    )
    assert failed.line == planted or f"at line {planted}," in failed.log


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_a_plain_write_before_or_after_atomic_operations_is_a_race(order: str) -> None:
    failed = race_of(133, order)
    assert failed is not None
    assert failed.kind == "race"


def test_shared_memory_of_a_template_holds_no_numbers_when_a_block_begins() -> None:
    assert not is_right(ran(121).outputs[0]["C"], 15)


@pytest.mark.parametrize("program", ["sanitized", "races", "records"])
def test_the_header_is_read_once_and_not_again_for_each_kernel(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    compiler = find_cpu_compiler()

    def built() -> bytes | Listed | Failed:
        kernel = "void kernel(const float *A, const float *B, float *C, int which) {}"
        given = (kernel, call(ARGUMENTS, ("which",)), 120.0)
        if program == "records":
            return compiler.listing(*given)
        return compiler.compile(*given, program == "races")

    first = built()
    write_headers = cpu_program.write_headers

    def without_the_header(folder: Path) -> None:
        write_headers(folder)
        (folder / "device.h").write_text("#error this header is read again")

    monkeypatch.setattr(cpu_program, "write_headers", without_the_header)
    assert not isinstance(first, Failed)
    assert built() == first


PROCESS = """
from pathlib import Path
from tilewright.targets.cuda import cpu_program
compiler = cpu_program.find_cpu_compiler()
run, outputs = cpu_program.CpuCompiler._run, []

def recorded(self, folder, words, timeout_s):
    outputs.append(words[-1])
    return run(self, folder, words, timeout_s)

cpu_program.CpuCompiler._run = recorded
call = 'extern "C" void tw_call(void **, const long long *) {}'
assert isinstance(compiler.compile("void kernel() {}", call, 120.0), bytes)
print(*outputs)
"""


@pytest.mark.slow
def test_a_later_process_compiles_nothing_of_the_emulator(tmp_path: Path) -> None:
    def compiled() -> list[str]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        words = [sys.executable, "-c", PROCESS]
        return subprocess.check_output(words, env=environment, text=True, timeout=250).split()

    assert "device.h.gch" in compiled()
    assert compiled() == ["kernel.o", "program"]


def test_a_report_names_thread_block_and_array() -> None:
    failed = ran(107).failed
    assert failed is not None
    assert "C, " in failed.log
    assert "bytes after its end" in failed.log
    assert "thread (" in failed.log or "thread 0, 0, 0" in failed.log


NO_CALL = 'extern "C" void tw_call(void **, const long long *) {}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main", 'extern "C" int main() { return 0; }'),
        ("malloc", 'extern "C" void *malloc(unsigned long) { return nullptr; }'),
        ("write", 'extern "C" { int write; }'),
        ("tw_barrier", 'extern "C" void tw_barrier(int) {}'),
        ("_Znwm", 'extern "C" __attribute__((weak)) void *_Znwm(unsigned long) { return 0; }'),
        ("_start", 'extern "C" void _start() {}'),
        ("_mine", 'extern "C" void __asan_mine() {}'),
    ],
)
def test_a_kernel_defines_no_name_of_the_rest_of_its_program(name: str, text: str) -> None:
    refused = find_cpu_compiler().compile(text, NO_CALL, 60.0)
    assert isinstance(refused, Failed)
    assert refused.kind == "forbidden_call"
    assert f"{name} with C linkage" in refused.log
    assert "ld" not in refused.log.split(), "no output of the linker"


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" __global__ void sums() {}',
        "int main() { return 0; }\nvoid write() {}",
        "void *malloc(unsigned long) { return nullptr; }",
    ],
)
def test_a_kernel_may_define_other_names_with_c_linkage_and_any_without(text: str) -> None:
    assert isinstance(find_cpu_compiler().compile(text, NO_CALL, 60.0), bytes)


@pytest.mark.parametrize(
    "report",
    ["done\\n", "part\\tone\\ttwo\\ndone\\n", "wrote\\t9\\t1\\npart\\t1\\t2\\ndone\\n"],
    ids=["no outputs", "no numbers", "no such array"],
)
def test_a_kernel_that_changes_the_answers_of_its_program_fails(report: str) -> None:
    program = f"#!/bin/sh\nprintf '{report}' > report.txt\n".encode()
    given = {a.name: np.zeros(a.shape, a.dtype) for a in ARGUMENTS}
    sandbox = find_cpu_compiler().sandbox
    found = run_on_cpu(program, sandbox, ARGUMENTS, (), [Run(given, "forward", 0)], 10.0)
    assert found.failed is not None
    assert found.failed.kind == "crash"
    assert "gave incomplete answers" in found.failed.log
