"""Kernels whose loops are written out: like places are rewritten together, in bounded time."""

from __future__ import annotations

import time
from pathlib import Path

import nki_kernels as world
import pytest
from test_nki_legality import read as read_body

from tilewright.proposers.nki.ir import Kernel, size_of
from tilewright.proposers.nki.planning.everywhere import is_large, swept
from tilewright.proposers.nki.planning.moves import cost_of
from tilewright.proposers.nki.planning.planner import complete_sequences
from tilewright.proposers.nki.planning.steps import TECHNIQUES
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read

NAME = "multihead_attention-1x512x128"
FOREIGN = Path(__file__).parents[1] / "trainium" / "foreign"
EXACT = [technique for technique in TECHNIQUES if technique != "narrow"]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    source = (FOREIGN / "multihead_attention_written_out2.txt").read_text(encoding="utf-8")
    return read(source, world.opened(NAME).workload, world.TARGET.brief().language)


def test_parameters_are_what_the_workload_gives_not_their_defaults(kernel: Kernel) -> None:
    """The kernel is written for eight heads and 2048 rows unless it is told otherwise."""
    assert "nl.ndarray((1, 512, 128)" in print_kernel(kernel)


def test_a_step_is_taken_at_all_like_places(kernel: Kernel) -> None:
    assert is_large(kernel)
    steps, after = swept(kernel, EXACT, cost_of)
    merged = [step for step in steps if step.technique == "merge"]
    assert len(merged) == 4, "one for each of the four tiles of rows"
    assert cost_of(after) < 0.95 * cost_of(kernel)
    assert world.is_right(NAME, print_kernel(after), 0.05)


def test_steps_that_do_not_lower_the_estimate_are_left_out(kernel: Kernel) -> None:
    cost = cost_of(kernel)
    for technique in EXACT:
        steps, after = swept(kernel, [technique], cost_of)
        assert cost_of(after) < cost if steps else after == kernel


def test_operands_of_a_convolution_become_bfloat16_and_are_loaded_once() -> None:
    """Its borders make it large: every border is a loop body of its own."""
    name = "conv2d-4x128x16x128x256-k3"
    start = world.naive(name)
    assert is_large(start)
    found = list(complete_sequences(start, ("narrow", "hoist", "accumulate")))
    narrowed = [after for steps, after in found if steps[0].technique == "narrow"]
    assert all(any(step.technique == "hoist" for step in steps) for steps, _ in found)
    assert cost_of(narrowed[0]) < 0.75 * cost_of(start)
    assert world.is_right(name, print_kernel(narrowed[0]), 0.02)


def test_a_kernel_that_is_written_out_is_planned_in_seconds(kernel: Kernel) -> None:
    begin = time.process_time()
    found = list(complete_sequences(kernel, EXACT))
    assert found
    assert time.process_time() - begin < 15


COPIED = """
part_ROWS_N = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=part_ROWS_N, src=x[0:128, N * 8 : N * 8 + 8])
nisa.dma_copy(dst=out[ROWS * 128 : ROWS * 128 + 128, N * 8 : N * 8 + 8], src=part_ROWS_N)
"""


def test_data_that_later_tiles_load_again_are_loaded_once() -> None:
    """The first loads of a kind have nothing to reuse, so their refusals must not end the sweep."""
    places = [(str(rows), str(number)) for rows in range(2) for number in range(8)]
    copies = (COPIED.replace("ROWS", rows).replace("N", number) for rows, number in places)
    kernel = read_body("".join(copies))
    steps, after = swept(kernel, ["reuse"], size_of)
    assert len(steps) == 8
    assert print_kernel(after).count("src=x[") == 8
