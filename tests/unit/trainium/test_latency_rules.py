"""Rules that keep work and memory from being left out of a modelled latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from nki_world import BF16, TRN1, Kernel

from tilewright.core.records import Argument, Workload
from tilewright.targets.trainium.counts import counts_of
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.feedback import in_words
from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.latency.compiling import compiled
from tilewright.targets.trainium.latency.costs import SCALAR, Costs
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import parse_shape
from tilewright.targets.trainium.tiles.regular import patterns
from tilewright.targets.trainium.trace import Pattern


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


def test_copies_inside_hbm_are_limited_by_the_bandwidth_of_hbm() -> None:
    """HBM reads and writes every byte of them, and gives each core 410 GB/s."""
    trace = Kernel("nisa.dma_copy(out, x)", x=np.zeros((2048, 2048), np.float32),
                   out=(2048, 2048), language=2).trace  # fmt: skip
    found = estimate(trace, TRN1)
    moved = 2 * 2048 * 2048 * 4 / 410
    assert found.busy["DMA"] == pytest.approx(moved, rel=0.02)
    size = 2048 * 2048 * 4
    assert (found.bytes_read, found.bytes_written, found.bytes_copied) == (size, size, (size, size))


def test_a_copy_that_converts_the_type_has_other_bytes_on_each_side() -> None:
    trace = Kernel("nisa.dma_copy(out, x)", x=np.zeros((512, 512), BF16), out=(512, 512),
                   language=2).trace  # fmt: skip
    count = 512 * 512
    found = estimate(trace, TRN1)
    assert (found.bytes_read, found.bytes_written) == (2 * count, 4 * count)
    assert found.bytes_copied == (2 * count, 4 * count)
    arguments = (
        Argument("x", (512, 512), "bfloat16", "input"),
        Argument("out", (512, 512), "float32", "output"),
    )
    told = in_words(
        Workload("copy", "trainium", arguments, 0, source="/f"),
        TRN1,
        found,
        counts_of(trace),
        "",
    )
    least = 4 * count / (410 / 2) / 1e3
    assert f"its transfers to and from HBM would take {least:.2f} us" in told


def test_bytes_through_sbuf_are_not_copied_inside_hbm() -> None:
    body = "t = nl.ndarray((128, 64), nl.float32)\nnisa.dma_copy(t, x)\nnisa.dma_copy(out, t)"
    x = np.zeros((128, 64), np.float32)
    assert estimate(Kernel(body, x=x, out=(128, 64), language=2).trace, TRN1).bytes_copied == (0, 0)


def test_the_roofline_of_a_folder_without_operations_is_that_of_copies_inside_hbm() -> None:
    arguments = (
        Argument("x", (2048, 2048), "float32", "input"),
        Argument("out", (2048, 2048), "float32", "output"),
    )
    folder = Workload("copy", "trainium", arguments, 0, source="/folder")
    both = 2 * 2048 * 2048 * 4
    assert roofline_ns(folder, TRN1)[0] == pytest.approx(both / 410)
    assert roofline_ns(replace(folder, operations=1), TRN1)[0] == pytest.approx(both / 272)
    filled = replace(folder, arguments=arguments[1:])
    assert roofline_ns(filled, TRN1)[0] == pytest.approx(both / 2 / 272)


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


def _moved(line: str) -> str:
    return f"""
        t = nl.load(x)
        p, f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        {line}
    """


def _kernel(body: str) -> Kernel:
    return Kernel(body, x=np.zeros((128, 512), np.float32), out=(128, 512))


@pytest.mark.parametrize(
    "places",
    ["t[(p + 64) % 128, f]", "t[p // 128, f]", "t[127 - p, f]", "t[p, (f + p) % 512]",
     "t[(p * 37) % 128, f]", "t[p % 64, f]"],
)  # fmt: skip
def test_an_engine_moves_nothing_between_partitions(places: str) -> None:
    _kernel(_moved("nl.store(out, nl.copy(t[(p * 1) % 128, f // 1]))")).trace  # noqa: B018
    with pytest.raises(KernelError) as caught:
        _kernel(_moved(f"nl.store(out, nl.copy({places}))")).trace  # noqa: B018
    assert caught.value.code == "unsupported_partition_step"


def test_a_shift_by_one_partition_is_refused_where_a_mask_leaves_the_rest() -> None:
    body = _moved("nl.store(out, nl.copy(t[p - 1, f], mask=p >= 1))")
    with pytest.raises(KernelError) as caught:
        _kernel(body).trace  # noqa: B018
    assert caught.value.code == "unsupported_partition_start"


def test_negative_steps_stay_in_their_partition() -> None:
    body = """
        t, r = nl.ndarray((128, 512), nl.float32), nl.ndarray((32, 8), nl.float32)
        nisa.dma_copy(t, x)
        nisa.tensor_copy(r, t.ap(pattern=[[512, 32], [-1, 8]], offset=32 * 512))
        nisa.dma_copy(out, r)
    """
    with pytest.raises(KernelError, match="past the end of the partition"):
        Kernel(body, x=np.zeros((128, 512), np.float32), out=(32, 8), language=2).trace  # noqa: B018


def _cycles(places: str) -> float:
    trace = _kernel(_moved(f"nl.store(out, nl.exp(t[p, {places}]))")).trace
    (found,) = [i for i in trace.instructions if i.engine != "dma"]
    return dict(Costs(TRN1).of(found).on)[SCALAR] * TRN1.clock.scalar


def test_an_order_that_steps_do_not_describe_takes_an_instruction_for_each_part() -> None:
    assert _cycles("f") == pytest.approx(512 + 55)
    assert _cycles("f % 4 * 128 + f // 4") == pytest.approx(512 + 55)
    assert _cycles("(f + 100) % 512") == pytest.approx(512 + 2 * 55)
    assert _cycles("(f * f) % 512") > 100 * 55


def test_every_row_of_a_load_is_counted_not_the_first_alone() -> None:
    body = _moved("nl.store(out, nl.load(x[p, (f * ((p + 127) // 128 * 36 + 1)) % 512]))")
    transfer = _kernel(body).trace.instructions[1]
    assert transfer.reads[0].pattern.run == 1


def test_a_transfer_of_every_fourth_partition_waits_for_the_last_of_them() -> None:
    body = """
        t = nl.ndarray((128, 4), nl.float32)
        nisa.dma_copy(t[64:128, :], x)
        nisa.dma_copy(out, t[::4, :])
    """
    trace = Kernel(body, x=np.zeros((64, 4), np.float32), out=(32, 4), language=2).trace
    assert trace.instructions[1].reads[0].lanes == 125
    one, other = (Costs(TRN1).of(i) for i in trace.instructions)
    both = one.job_ns + other.job_ns + 2 * TRN1.dma.fixed
    assert estimate(trace, TRN1).latency_ns == pytest.approx(TRN1.launch + both)


@pytest.mark.parametrize(
    ("line", "together"),
    [
        ("r[:, i : i + 1] = nl.copy(t[:, i : i + 1])", True),
        ("r[:, i : i + 1] = nl.copy(t[:, 511 - i : 512 - i])", True),
        ("r[:, i : i + 1] = nl.copy(t[:, i * 37 % 512 : i * 37 % 512 + 1])", False),
        ("r[:, i : i + 1] = nl.copy(tiles[i % 2][:, i : i + 1])", False),
    ],
)
def test_iterations_run_as_one_if_their_places_follow_one_another_evenly(
    line: str, together: bool
) -> None:
    body = f"""
        t = nl.load(x)
        tiles = [nl.load(x), nl.load(x)]
        r = nl.ndarray((128, 512), nl.float32)
        for i in nl.affine_range(512):
            {line}
        nl.store(out, r)
    """
    steps = [s for s in compiled(_kernel(body).trace) if s.instruction.engine != "dma"]
    assert len(steps) == (1 if together else 512)


def test_places_are_split_into_operands_of_four_steps() -> None:
    assert patterns([5]) == 1
    assert patterns([0, 0, 1, 1, 2, 2]) == 1
    assert patterns([0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11]) == 1
    assert patterns([0, 1, 2, 3, 7]) == 2
    five = np.add.outer(np.arange(2) * 1000, np.add.outer([0, 100], np.add.outer([0, 20], [0, 5])))
    assert patterns(five.ravel().tolist()) == 1
    assert patterns(np.add.outer(five, [0, 1]).ravel().tolist()) == 2


def test_an_operand_of_more_than_four_steps_takes_several_instructions() -> None:
    assert Pattern(((512, 2), (64, 4), (16, 2), (1, 8))).pieces == 1
    assert Pattern(((64, 2), (32, 2), (16, 2), (8, 2), (4, 2), (2, 2), (1, 2))).pieces == 1
    assert Pattern(((1, 3), (3, 2), (7, 2), (20, 2), (50, 2), (200, 5))).pieces == 6


def test_a_transfer_that_adds_reads_what_it_adds_to() -> None:
    body = """
        t = nl.load(x)
        nl.store(out, t)
        nisa.dma_copy(dst=out, src=t, dst_rmw_op=np.add)
    """
    plain, adding = (Costs(TRN1).of(i) for i in _kernel(body).trace.instructions[1:])
    assert adding.jobs == plain.jobs
    assert adding.job_ns == pytest.approx(2 * plain.job_ns)


RAGGED = """
    i, j = {}nl.arange(128)[:, None], 512 + nl.arange(512)[None, :]
    ok = (i < 300) & (j < 700)
    t = nl.load(x[i, j], mask=ok)
    nl.store(out[i, j], nl.multiply(t, 2.0, mask=ok), mask=ok)
"""


def test_what_lies_outside_a_mask_takes_no_time_and_cuts_no_run() -> None:
    x = np.zeros((300, 700), np.float32)
    load, scaled, store = Kernel(RAGGED.format("256 + "), x=x, out=x.shape).trace.instructions
    for access in (load.reads[0], load.writes[0], store.reads[0], store.writes[0]):
        assert (access.partitions, access.elements, access.pattern.run) == (44, 188, 188)
    assert scaled.reads[0].elements == scaled.writes[0].elements == 188
    whole = Kernel(RAGGED.format(""), x=x, out=x.shape).trace.instructions[0]
    assert (whole.reads[0].partitions, whole.reads[0].elements) == (128, 188)
