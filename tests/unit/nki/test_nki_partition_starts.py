"""The rewriter and the interpreter agree on the partitions at which instructions can begin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.partition_starts import TRANSFERS, can_start, startable
from tilewright.proposers.nki.ir import Region, Tensor, ops
from tilewright.proposers.nki.linear import Linear
from tilewright.targets.trainium.destinations import _check_start
from tilewright.targets.trainium.errors import KernelError

TILE = Tensor("t", (128, 64), "float32", "sbuf")
PLACES = [(start, count) for count in range(1, 129) for start in range(129 - count)]


def accepted(start: int, count: int, by_dma: bool) -> bool:
    """Whether the interpreter accepts an operand."""
    run = cast("Any", SimpleNamespace(machine=world.MACHINE, function="f"))
    try:
        _check_start(run, "data", start, count, by_dma)
    except KernelError:
        return False
    return True


def test_engines_can_begin_at_the_same_partitions() -> None:
    tensors = {"t": TILE}
    for start, count in PLACES:
        region = Region("t", Linear(start * 64), ((64, count), (1, 64)))
        assert can_start(region, tensors) == accepted(start, count, False), (start, count)


def test_transfers_can_begin_at_any_partition() -> None:
    assert all(accepted(start, count, True) for start, count in PLACES)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("dma_copy", "nisa.dma_copy(dst=t[16:48], src=x[0:32])"),
        ("dma_copy", "nisa.dma_copy(dst=out[0:32], src=t[16:48])"),
        ("dma_transpose", "nisa.dma_transpose(dst=t[16:48], src=x[0:64, 0:32])"),
        ("dma_add", "nisa.dma_compute(t[16:48], [x[0:32], t[16:48]], nl.add)"),
        ("gather",
         "nisa.dma_copy(dst=t[16:48], src=x.ap(pattern=[[64, 32], [1, 64]], vector_offset=r, "
         "indirect_dim=0))"),
        ("scatter",
         "nisa.dma_copy(dst=out.ap(pattern=[[64, 32], [1, 64]], vector_offset=r, "
         "indirect_dim=0), src=t[16:48])"),
        ("", "nisa.tensor_scalar(dst=t[16:48], data=t[0:32], op0=nl.add, operand0=1.0)"),
        ("", "nisa.tensor_copy(dst=t[0:32], src=t[16:48])"),
    ],
)  # fmt: skip
def test_both_hold_the_same_instructions_for_transfers(name: str, line: str) -> None:
    kernel = read(f"""
t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x[0:128])
r = nl.ndarray((32, 1), dtype=nl.int32, buffer=nl.sbuf)
nisa.iota(dst=r, pattern=[[1, 1]], offset=0, channel_multiplier=1)
nisa.dma_copy(dst=out[0:128], src=t)
nisa.dma_copy(dst=out[128:256], src=x[0:128])
nisa.dma_copy(dst=out[256:512], src=x[0:256])
{line}
""")
    if name:
        assert name in TRANSFERS
        assert any(op.name == name for op in ops(kernel.body))
        assert startable(kernel) is kernel
        results(kernel)
    else:
        with pytest.raises(NotApplicableError, match="cannot begin at this partition"):
            startable(kernel)
        with pytest.raises(KernelError, match="only transfers may start anywhere"):
            results(kernel)


@pytest.mark.parametrize("column", ["48 - i * 16", "i * 16"])
def test_a_column_stays_in_its_row_where_partition_and_column_move(column: str) -> None:
    kernel = read(f"""
for a in nl.affine_range(4):
    t = TILE
    nisa.dma_copy(dst=t, src=x[a * 128 : a * 128 + 128])
    for i in nl.affine_range(4):
        nisa.dma_copy(dst=t[i * 32 : i * 32 + 32, {column} : {column} + 16], src=x[0:32, 0:16])
    nisa.dma_copy(dst=out[a * 128 : a * 128 + 128], src=t)
""")
    if column == "i * 16":
        made = world.read_kernel(after(kernel, "jam a 2"), ARGUMENTS)
        np.testing.assert_array_equal(results(made), results(kernel))
        return
    with pytest.raises(NotApplicableError, match="t is accessed across its rows"):
        after(kernel, "jam a 2")
