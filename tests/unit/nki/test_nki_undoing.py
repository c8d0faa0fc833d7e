"""Rewrites that undo decisions of a tuned kernel: engines, places in PSUM, scans in blocks."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.core.errors import InputError
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.by_hand import carried_out
from tilewright.proposers.nki.planning.planner import complete_sequences

BLOCKS = """
ones = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=ones, value=1.0)
carry = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=carry, value=0.5)
for c in nl.sequential_range(4):
    for r in nl.affine_range(4):
        t = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128, c * 16 : c * 16 + 16])
        s = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=s, data0=ones, data1=t, initial=carry[:, r : r + 1], op0=nl.multiply, op1=nl.add
        )
        BEFORE
        nisa.tensor_copy(dst=carry[:, r : r + 1], src=s[:, 15:16])
        nisa.tensor_scalar(dst=s, data=s, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, c * 16 : c * 16 + 16], src=s)
"""
PLAIN = BLOCKS.replace("BEFORE\n        ", "")


def test_scans_of_blocks_become_one_scan() -> None:
    kernel = read(PLAIN)
    text = after(kernel, "whole-scan c")
    assert "[64, 128]" not in text
    assert text.count("tensor_tensor_scan") == 1
    assert "data0=ones_2,\n" in text
    assert text.index("for r in") < text.index("for c_2 in")
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))
    changed = PLAIN.replace("for c in", "nisa.memset(dst=ones[:, 0:8], value=2.0)\nfor c in")
    text = after(read(changed), "whole-scan c")
    assert "data0=ones.ap(" in text
    np.testing.assert_array_equal(
        results(world.read_kernel(text, ARGUMENTS)), results(read(changed))
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BEFORE", "nisa.tensor_scalar(dst=s, data=s, op0=nl.multiply, operand0=3.0)"),
        ("BEFORE", "nisa.tensor_scalar(dst=carry, data=carry, op0=nl.add, operand0=1.0)"),
        ("BEFORE", "nisa.dma_copy(dst=out[0:128, 0:16], src=t)"),
        ("src=s[:, 15:16]", "src=s[:, 14:15]"),
        ("s = nl.ndarray((128, 16), dtype=nl.", "s = nl.ndarray((128, 16), dtype=nl.b"),
        ("dst=carry[:, r : r + 1], src", "dst=carry[:, 0:1], src"),
        ("x[r * 128 : r * 128 + 128, c * 16 : c * 16 + 16]",
         "out[r * 128 : r * 128 + 128, 48 - c * 16 : 64 - c * 16]"),
    ],
    ids=["changed", "carry", "order", "column", "rounded", "other", "results"],
)  # fmt: skip
def test_blocks_that_pass_on_something_else_stay(old: str, new: str) -> None:
    body = BLOCKS.replace(old, new).replace("bfloat32", "bfloat16")
    assert body != BLOCKS
    kernel = read(body.replace("BEFORE\n        ", ""))
    if "out[0:128, 0:16]" in new:  # each iteration overwrites what all others store
        kernel = read(body.replace("out[r * 128 : r * 128 + 128, c * 16", "out[0:128, c * 16"))
    with pytest.raises(NotApplicableError):
        after(kernel, "whole-scan c")


def test_what_blocks_receive_is_not_read_after_the_scan() -> None:
    """The first iteration stores the column with which it began. No other stores this column."""
    inner, place = (
        "    for r in nl.affine_range(4):\n",
        "r * 128 : r * 128 + 128, c * 16 : c * 16 +",
    )
    stored = f"nisa.dma_copy(dst=out[{place} 1], src=carry[:, c : c + 1])"
    body = BLOCKS.replace("BEFORE", stored).replace(f"{place} 16], src=s", f"{place} 15], src=s")
    body = body.replace(inner, "").replace("        ", "    ").replace("r *", "0 *")
    with pytest.raises(NotApplicableError):
        after(read(body.replace("r : r + 1", "0:1")), "whole-scan c")


LOOSE = """
w = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=w, value=1.0, engine=nisa.gpsimd_engine)
for r in nl.affine_range(4):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    p = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=w, moving=t)
    q = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.activation(dst=q, op=nl.copy, data=p, scale=0.5)
    s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=s, data=q, op0=nl.add, operand0=1.0, engine=nisa.vector_engine)
    nisa.nc_transpose(dst=w[0:32, 0:32], data=s[0:32, 0:32], engine=nisa.vector_engine)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=s)
"""


def test_engines_and_places_of_a_tuned_kernel_are_free() -> None:
    kernel = read(LOOSE)
    text = after(kernel, "loosen")
    assert text.count("buffer=nl.psum") == 1
    assert text.count("engine=") == 1
    assert "engine=" in next(line for line in text.splitlines() if "nc_transpose" in line)
    assert "activation" not in text
    np.testing.assert_allclose(
        results(world.read_kernel(text, ARGUMENTS)), results(kernel), rtol=1e-6
    )
    with pytest.raises(NotApplicableError, match="only PE writes"):
        after(world.read_kernel(text, ARGUMENTS), "loosen")
    with pytest.raises(NotApplicableError, match="missing is not on chip"):
        after(kernel, "psum missing")


def test_complete_sequences_begin_with_what_undoes_the_schedule() -> None:
    kernel = read(PLAIN)
    made = (" ".join(map(str, s)) for s, _ in complete_sequences(kernel, ["whole-scan", "jam"]))
    assert any(steps.startswith("whole-scan c jam c_2 0 jam c_3 0") for steps in made)


def test_loops_are_exchanged_if_the_inner_iterations_are_independent() -> None:
    body = """
t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x[0:128])
for c in nl.sequential_range(4):
    for r in nl.sequential_range(4):
        nisa.tensor_scalar(
            dst=t[:, r * {step} : r * {step} + 16], data=t[:, r * {step} : r * {step} + 16],
            op0=nl.multiply, operand0=1.5,
        )
nisa.dma_copy(dst=out[0:128], src=t)
"""
    text = after(read(body.replace("{step}", "16")), "exchange c")
    assert text.index("for r in") < text.index("for c in")
    with pytest.raises(NotApplicableError, match="depend on one another"):
        after(read(body.replace("{step}", "8")), "exchange c")


def test_a_step_without_arguments_is_applied_where_it_gains_most() -> None:
    task, language = world.opened("gemm-256x1024x256"), world.TARGET.brief().language
    _, done = carried_out(task.start, task.workload, language, "hoist; jam")
    assert [text.partition(":")[0] for text in done] == ["hoist right m", "jam m 0"]
    with pytest.raises(InputError, match="step 'whole-scan' does not apply: there is no place"):
        carried_out(task.start, task.workload, language, "whole-scan")


WINDOWS = """
for r in nl.affine_range(4):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    p = nl.ndarray((128, 56), dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_tensor(dst=p, data1=t[:, 0:56], data2=t[:, 4:60], op=nl.maximum)
    q = nl.ndarray((128, 56), dtype=nl.float32, buffer=nl.sbuf)
    BETWEEN
    nisa.tensor_tensor(dst=q, data1=t[:, 8:64], data2=p, op=nl.maximum)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:56], src=q)
"""
APART = WINDOWS.replace("    BETWEEN\n", "")


def test_operations_on_windows_become_a_reduction() -> None:
    in_place = APART.replace(
        "    p = nl.ndarray((128, 56), dtype=nl.float32, buffer=nl.psum)\n", ""
    )
    in_place = in_place.replace("dst=p,", "dst=q,").replace("data2=p", "data2=q")
    lines = in_place.splitlines(keepends=True)
    lines.insert(4, lines.pop(5))
    for body in (APART, "".join(lines)):
        kernel = read(body)
        text = after(kernel, "refold 3")
        assert "pattern=[[64, 128], [1, 56], [4, 3]]" in text
        made = world.read_kernel(text, ARGUMENTS)
        np.testing.assert_array_equal(results(made)[:, :56], results(kernel)[:, :56])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t[:, 8:64]", "t[:, 7:63]"),
        ("data2=p, op=nl.maximum", "data2=p, op=nl.minimum"),
        ("BETWEEN", "nisa.memset(dst=t, value=0.0)"),
        ("    nisa.dma_copy(dst=out",
         "    nisa.tensor_copy(dst=q[:, 0:1], src=p[:, 0:1])\n    nisa.dma_copy(dst=out"),
        ("tensor_tensor(dst=q,", "tensor_tensor(dst=t[:, 0:56],"),
        ("data2=t[:, 4:60], op=nl.maximum", "data2=t[:, 4:60], op=nl.add"),
        ("p = nl.ndarray((128, 56), dtype=nl.float32, buffer=nl.psum",
         "p = nl.ndarray((128, 56), dtype=nl.bfloat16, buffer=nl.sbuf"),
    ],
    ids=["distances", "operation", "changed", "used", "itself", "mixed", "rounded"],
)  # fmt: skip
def test_operations_on_other_operands_stay(old: str, new: str) -> None:
    body = WINDOWS.replace(old, new).replace("    BETWEEN\n", "")
    assert body != APART
    number = 3 + (old == "BETWEEN")
    with pytest.raises(NotApplicableError):
        after(read(body), f"refold {number}")
