"""Loops that share rows but hand no values over: rows of their own, and rewrites that follow."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from kernel_model import Gemmini, randomly_rewritten

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, same_code
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.separate_rows import separated

GOLDEN = Path(__file__).parents[2] / "golden" / "rewriter"
HEAD = "void kernel(const int8_t A[64][64], int8_t C[64][64]) {\n"


def chained() -> str:
    return (GOLDEN / "chain.c").read_text()


def chain_is_right(kernel: Kernel) -> bool:
    """Whether T is X * V and Y is T * W, for each of the two X."""
    rng = np.random.default_rng(5)
    arrays = {a.name: rng.integers(-3, 4, a.shape).astype(float) for a in kernel.arrays}
    middle = np.clip(arrays["X"] @ arrays["V"], -128, 127)
    expected = np.clip(middle @ arrays["W"], -128, 127)
    arrays["T"][:], arrays["Y"][:] = np.nan, np.nan
    Gemmini(arrays).run(kernel)
    return np.array_equal(arrays["T"], middle) and np.array_equal(arrays["Y"], expected)


def test_result_is_the_stored_one(machine: Machine, update_golden: bool) -> None:
    kernel = separated(simplify(lift(chained(), machine)), machine)
    text, path = emit(kernel), GOLDEN / "expected" / "separate.c"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert chain_is_right(kernel)
    assert same_code(separated(kernel, machine).body, kernel.body)


def test_each_product_of_a_chain_has_buffers_of_its_own(machine: Machine) -> None:
    shared = simplify(lift(chained(), machine))
    assert [b.name for b in find_buffers(shared, machine)] == ["X", "V", "T"]
    names = [b.name for b in find_buffers(read(chained(), machine), machine)]
    assert sorted(names) == ["T", "T2", "V", "W", "X", "Y"]


def test_a_part_inside_a_loop_may_begin_with_one_load(machine: Machine) -> None:
    body = """
    for (int n = 0; n < 4; n++) {
      mvin(A[n], SPAD(0), 16, 1);
      mvout(C[n], SPAD(0), 16, 1);
      for (int i = 4; i < 8; i++) {
        mvin(A[4 * n + i], SPAD(0), 16, 1);
        mvout(C[4 * n + i], SPAD(0), 16, 1);
      }
    }"""
    kernel = simplify(lift(HEAD + body + "}\n", machine))
    assert len(find_buffers(kernel, machine)) == 1
    assert len(find_buffers(separated(kernel, machine), machine)) == 2


@pytest.mark.parametrize("seed", range(6))
def test_random_rewrites_of_a_chain_keep_it_right(machine: Machine, seed: int) -> None:
    kernel = read(chained(), machine)
    kernel, done = randomly_rewritten(kernel, machine, random.Random(seed), 10)
    assert done
    assert chain_is_right(kernel), done


@pytest.mark.parametrize(
    "body",
    [
        # the last loop uses rows that only the first one filled
        "for (int i = 0; i < 32; i++) mvin(A[i], SPAD(i), 16, 1);"
        "for (int i = 0; i < 16; i++) mvin(A[i + 32], SPAD(i), 16, 1);"
        "for (int i = 0; i < 32; i++) mvout(C[i], SPAD(i), 16, 1);",
        # the second loop adds to what the first one left
        "for (int i = 0; i < 16; i++) mvin(A[i], ACC(i), 16, 1);"
        "for (int i = 0; i < 16; i++) { mvin(A[i], ACC(i) | ACCUMULATE, 16, 1);"
        " mvout(C[i], ACC(i), 16, 1); }",
        # an iteration uses what the one before left
        "for (int n = 0; n < 4; n++) { for (int i = 0; i < 4; i++) mvout(C[i], SPAD(i), 16, 1);"
        "for (int i = 0; i < 4; i++) mvin(A[n + i], SPAD(i), 16, 1); }",
        # a single command at the beginning of an iteration uses what the one before left
        "for (int n = 0; n < 4; n++) { mvout(C[n], SPAD(0), 16, 1);"
        "for (int i = 0; i < 4; i++) { mvin(A[n + i], SPAD(0), 16, 1);"
        " mvout(C[i + 8], SPAD(0), 16, 1); } }",
    ],
)
def test_what_hands_values_over_stays_together(machine: Machine, body: str) -> None:
    kernel = simplify(lift(HEAD + body + "}\n", machine))
    assert separated(kernel, machine) is kernel
