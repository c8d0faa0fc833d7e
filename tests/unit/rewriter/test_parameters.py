"""Numbers for rewrites follow from trip counts, memories and times."""

from __future__ import annotations

from kernel_model import gemm

from tilewright.proposers.rewriter.analysis.buffers import find_buffer
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, simplify
from tilewright.proposers.rewriter.estimate.cost import Cost
from tilewright.proposers.rewriter.ir import Body, Kernel, Loop
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.parameters import (
    all_tile_factors,
    all_unroll_factors,
    slot_counts,
    tile_factors,
    unroll_factors,
)


def start(machine: Machine, m: int, n: int, k: int) -> Kernel:
    return simplify(lift(gemm(m, n, k), machine))


def loop(kernel: Kernel, label: str) -> tuple[Loop, Body]:
    return next((one, above) for name, one, above in labelled_loops(kernel.body) if name == label)


def test_tiles_fill_half_the_smallest_memory_and_no_more(machine: Machine) -> None:
    kernel = start(machine, 4096, 64, 64)  # 64 of 1024 accumulator rows: 8 tiles and the next 8
    assert tile_factors(kernel, machine, *loop(kernel, "i")) == [2, 4, 8]
    few = start(machine, 48, 64, 64)
    assert tile_factors(few, machine, *loop(few, "i")) == [2, 3]
    prime = start(machine, 16 * 7, 64, 64)
    assert tile_factors(prime, machine, *loop(prime, "i")) == [2, 4, 7]
    four_sevens = start(machine, 16 * 28, 64, 64)
    assert tile_factors(four_sevens, machine, *loop(four_sevens, "i")) == [2, 4, 7]  # not 8
    eleven = start(machine, 16 * 11, 64, 64)  # no number divides them, and all fit
    assert tile_factors(eleven, machine, *loop(eleven, "i")) == [2, 4, 8, 11]
    large_prime = start(machine, 16 * 31, 64, 64)
    assert tile_factors(large_prime, machine, *loop(large_prime, "i")) == [2, 4, 8]
    assert all_tile_factors(large_prime, machine, *loop(large_prime, "i")) == [2, 4, 8]
    six = start(machine, 16 * 6, 64, 64)
    assert all_tile_factors(six, machine, *loop(six, "i")) == [2, 3, 4, 6]


def test_unrolling_divides_and_fits(machine: Machine) -> None:
    kernel = start(machine, 64, 64, 64)
    assert unroll_factors(*loop(kernel, "jj")) == [0, 2]
    long = start(machine, 64, 64, 16 * 49)
    assert unroll_factors(*loop(long, "k")) == [7]
    assert all_unroll_factors(*loop(kernel, "jj")) == [0, 2]
    assert all_unroll_factors(*loop(start(machine, 64, 64, 16 * 36), "k"))[:4] == [2, 3, 4, 6]
    assert unroll_factors(*loop(start(machine, 64, 100, 64), "jj")) == []


def test_short_iterations_need_more_slots(machine: Machine) -> None:
    kernel = start(machine, 64, 64, 1024)
    buffer = find_buffer(kernel, machine, "A")
    around, above = loop(kernel, "k")
    iterations = 4 * 64

    def busy(cycles: float) -> Cost:
        return Cost(array=cycles * iterations, moves=0, core=0, exposed=0, loaded_rows=0)

    assert slot_counts(buffer, around, above, busy(1000)) == [2, 3]
    assert max(slot_counts(buffer, around, above, busy(40))) == 4
    assert max(slot_counts(buffer, around, above, busy(1))) == 8
