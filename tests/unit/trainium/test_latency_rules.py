"""Rules that keep work and memory from being left out of a modelled latency."""

from __future__ import annotations

import numpy as np
import pytest
from nki_world import TRN1, Kernel

from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.latency.compiling import compiled
from tilewright.targets.trainium.latency.costs import Costs
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import parse_shape


def test_a_sum_that_the_scalar_engine_keeps_is_not_dropped() -> None:
    body = """
        t = nl.load(x)
        s = nl.ndarray((4, 1), nl.float32)
        nisa.activation(nl.exp, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(nl.exp, t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce,
                        reduce_res=s)
        nl.store(out, s)
    """
    trace = Kernel(body, x=np.zeros((4, 8), np.float32), out=(4, 1)).trace
    opcodes = [step.instruction.opcode for step in compiled(trace)]
    assert opcodes == ["dma_copy", "activation", "activation", "dma_copy"]


def test_merged_reductions_run_after_what_they_reduce() -> None:
    body = """
        t = nl.load(x)
        p = nl.ndarray((4, 256), nl.float32, buffer=nl.psum)
        p[...] = nl.copy(t[:, 0:256])
        s = nl.ndarray((4, 256), nl.float32)
        for i in nl.affine_range(256):
            s[:, i] = nisa.tensor_reduce(nl.add, nl.multiply(t[:, i : i + 3], p[:, 0:3]), axis=[1])
        nl.store(out, s)
    """
    trace = Kernel(body, x=np.zeros((4, 258), np.float32), out=(4, 256)).trace
    opcodes = [step.instruction.opcode for step in compiled(trace)]
    group = ["tensor_tensor"] * 4 + ["tensor_reduce"]
    assert opcodes == ["dma_copy", "tensor_copy", *group * 64, "dma_copy"]


def test_a_tile_in_psum_takes_whole_banks() -> None:
    body = """
        t = nl.ndarray((4, 8), nl.float32)
        nisa.dma_copy(t, x)
        sums = []
        for i in range(9):
            p = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(p, t, t)
            sums.append(p)
        r = nl.ndarray((8, 8), nl.float32)
        for p in sums:
            nisa.tensor_copy(r, p)
        nisa.dma_copy(out, r)
    """
    trace = Kernel(body, x=np.zeros((4, 8), np.float32), out=(8, 8), language=2).trace
    found = examine(trace, TRN1)
    assert found.peaks["psum"] == 9 * 2048
    excess = found.excess()
    assert excess is not None
    assert "PSUM" in excess[0]


def test_the_roofline_of_large_products_is_that_of_the_array() -> None:
    workload = parse_shape("gemm-4096x8192x8192").workload("trainium")
    bound, words = roofline_ns(workload, TRN1)
    assert bound == pytest.approx(32_768 * 512 / 2.8, rel=1e-3)
    assert "products" in words


def test_a_transfer_costs_every_run_of_the_side_that_is_cut_into_more() -> None:
    body = """
        t = nl.ndarray((128, 256), nl.float32)
        nisa.dma_copy(t, x.ap(pattern=[[512, 128], [2, 256]]))
        nisa.dma_copy(out, t)
    """
    x = np.zeros((128, 512), np.float32)
    trace = Kernel(body, x=x, out=(128, 256), language=2).trace
    cut, whole = (Costs(TRN1).of(instruction) for instruction in trace.instructions)
    dma = TRN1.dma
    assert cut.job_ns == pytest.approx(8 * (1024 / dma.bytes_per_ns + 256 * dma.descriptor))
    assert whole.job_ns == pytest.approx(8 * (1024 / dma.bytes_per_ns + dma.descriptor))


def test_what_is_read_from_hbm_waits_until_it_was_written_there() -> None:
    body = """
        kept = nl.ndarray((128, 512), nl.float32, buffer=nl.hbm)
        t, u = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
        nisa.dma_copy(t, x)
        nisa.dma_copy(kept, t)
        nisa.dma_copy(u, kept)
        nisa.dma_copy(out, u)
    """
    x = np.zeros((128, 512), np.float32)
    trace = Kernel(body, x=x, out=(128, 512), language=2).trace
    one = Costs(TRN1).of(trace.instructions[0]).job_ns + TRN1.dma.fixed
    assert estimate(trace, TRN1).latency_ns == pytest.approx(TRN1.launch + 4 * one)
