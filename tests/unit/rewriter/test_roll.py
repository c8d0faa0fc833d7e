"""Kernels without loops become the loops they were unrolled from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_model import gemm_is_right, trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import Loop, commands, walk
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import by_hand
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

SHAPE = (48, 32, 64)


def unrolled() -> str:
    """A product without a loop: every command of every tile."""
    m, n, k = SHAPE

    def issued() -> Iterator[str]:
        for i in range(0, m, 16):
            for j in range(0, n, 16):
                for d in range(0, k, 16):
                    more = " | ACCUMULATE" if d else ""
                    yield f"mvin(&A[{i}][{d}], SPAD(0), 16, 16);"
                    yield f"mvin2(&B[{d}][{j}], SPAD(4096), 16, 16);"
                    yield f"preload(SPAD(4096), ACC({j}){more}, 16, 16, 16, 16);"
                    yield "compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);"
            for j in range(0, n, 16):
                yield f"mvout(&C[{i}][{j}], ACC({j}), 16, 16);"

    settings = f"config_ld({k}, 1.0f, 16, 0); config_ld({n}, 1.0f, 16, 1); config_st({n});"
    arrays = f"const int8_t A[{m}][{k}], const int8_t B[{k}][{n}], int8_t C[{m}][{n}]"
    return f"void kernel({arrays}) {{\n{settings}\n" + "\n".join(issued()) + "\nfence();\n}\n"


def test_a_kernel_unrolled_by_hand_becomes_loops(machine: Machine) -> None:
    straight = read(unrolled(), machine)
    rolled = Step("roll").apply(straight, machine)
    assert list(trace(rolled.body)) == list(trace(straight.body))
    assert sum(isinstance(s, Loop) for s in walk(rolled.body)) == 4
    assert sum(1 for _ in commands(rolled.body)) == 9
    after, _ = by_hand.carried_out(rolled, machine, "resident B before; pipeline A 2")
    assert gemm_is_right(after, *SHAPE)


def test_settings_and_what_does_not_repeat_stay(machine: Machine) -> None:
    settings = "config_ld(8, 1.0f, 16, 0); config_ld(4, 1.0f, 16, 1);"
    uneven = "mvin(A[0], SPAD(0), 16, 1); mvin2(A[3], SPAD(7), 16, 1);"
    head = "void kernel(const int8_t A[64][64]) { "
    with pytest.raises(NotApplicable, match="no commands repeat"):
        Step("roll").apply(read(f"{head}{settings} fence(); }}", machine), machine)
    even = "mvin(A[0], SPAD(0), 16, 2); mvin(A[1], SPAD(2), 16, 2);"
    source = f"{head}{settings} {even} fence(); {uneven} }}"
    rolled = Step("roll").apply(read(source, machine), machine)
    assert sum(isinstance(s, Loop) for s in walk(rolled.body)) == 1
    assert sum(1 for c in commands(rolled.body) if c.name == "config_ld") == 2


def test_neighbouring_moves_outside_loops_are_merged(machine: Machine) -> None:
    moves = "".join(f"mvin(&A[0][{16 * n}], SPAD({16 * n}), 16, 16);" for n in range(5))
    other = "mvin(&A[16][0], SPAD(512), 16, 16); mvin(&A[32][0], SPAD(900), 16, 16);"
    source = f"void kernel(const int8_t A[64][96]) {{ config_ld(96, 1.0f, 16, 0); {moves}"
    kernel = read(f"{source} fence(); {other} }}", machine)
    wide = Step("widen").apply(kernel, machine)
    assert [o[2:] for name, o in trace(wide.body) if name == "mvin"] == [
        (64, 16),
        (16, 16),
        (16, 16),
        (16, 16),
    ]
