"""What the estimate knows of tiles that are short in some iterations, and of slots in turn."""

from __future__ import annotations

import pytest

from tilewright.core.tasks import open_task
from tilewright.proposers.rewriter.analysis.buffers import find_buffer
from tilewright.proposers.rewriter.analysis.ranges import mean
from tilewright.proposers.rewriter.estimate.cost import _takes_turns, estimate
from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import Loop
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import full_sequences
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

START = open_task("gemmini:gemm-64x128x64", {}).task.start


def loop(name: str, upper: int, step: int) -> Loop:
    return Loop(name, Expr(0), Expr(upper), step, ())


def test_the_average_of_a_size_counts_every_iteration() -> None:
    left = minimum(Expr(16), Expr(56) - var("x"))
    assert mean(left, (loop("n", 4, 1), loop("x", 56, 16))) == 14.0
    assert mean(left + var("n"), (loop("n", 4, 1), loop("x", 56, 16))) == 15.5
    assert mean(Expr(7), (loop("x", 56, 16),)) == 7.0


def test_some_of_many_values_are_averaged() -> None:
    many = mean(minimum(Expr(500), Expr(1000) - var("x")), (loop("x", 1000, 1),))
    assert many == pytest.approx(375, abs=5)


def test_values_in_a_loop_of_varying_length_count_once_for_each_iteration() -> None:
    inner = Loop("y", Expr(0), var("x"), 1, ())
    assert mean(var("y"), (loop("x", 5, 1), inner)) == 1.0


@pytest.mark.parametrize(("width", "empty"), [(28, 4 / 32), (32, 0.0), (56, 8 / 64)])
def test_rows_that_only_some_products_lack_are_unfilled(
    machine: Machine, width: int, empty: float
) -> None:
    task = open_task(f"gemmini:conv-1x4x{width}x16x16-k3s1", {}).task
    cost = estimate(read(task.start, machine), machine)
    assert cost.unfilled == pytest.approx(empty * cost.array)


@pytest.mark.parametrize(("label", "in_turn"), [("i", False), ("j", True)])
def test_slots_that_an_outer_loop_uses_in_turn_are_one_to_the_inner_loop(
    machine: Machine, label: str, in_turn: bool
) -> None:
    kernel = read(START, machine)
    assert not _takes_turns(find_buffer(kernel, machine, "C"))
    kernel = Step.parse(f"double-accumulator C {label} 2 in-place").apply(kernel, machine)
    assert _takes_turns(find_buffer(kernel, machine, "C")) is in_turn


def test_a_prefetch_is_tried_with_its_loads_distributed_too(machine: Machine) -> None:
    kernel = read(open_task("gemmini:conv-1x16x32x16x16-k3s1", {}).task.start, machine)
    kernel = Step.parse("block-load input x").apply(kernel, machine)
    step, other = Step.parse("pipeline input y 2"), Step.parse("retile y 2")
    found = [steps for steps, _ in full_sequences._with_interleaved(step, kernel, machine)]
    assert found == [(step,), (step, Step.parse("interleave y"))]
    assert [s for s, _ in full_sequences._with_interleaved(other, kernel, machine)] == [(other,)]


def test_an_unrolled_loop_is_described_by_what_is_done_to_it() -> None:
    assert Step.parse("unroll k 0").sentence == "unroll loop k completely"
    assert Step.parse("unroll k 4").sentence == "unroll loop k by a factor of 4"
    assert Step.parse("retile i 0").sentence.startswith("process 0 neighbouring tiles of loop i")
