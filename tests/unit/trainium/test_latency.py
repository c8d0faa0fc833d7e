"""The latency model: costs, dependences, ports, buffers, capacity, and the NKI 1 compiler."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.core.records import Argument
from tilewright.targets.trainium.latency.model import Estimate, estimate
from tilewright.targets.trainium.machine import Machine, load_machine
from tilewright.targets.trainium.program import Call, parse, trace_program

TRN1 = load_machine("trn1")
HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
TRANSFER_NS = 8 * (2048 / 17 + 10) + 1300  # 128 x 2 KiB on all engines, and completion


def modelled(body: str, machine: Machine = TRN1, head: str = HEAD, tail: str = TAIL) -> Estimate:
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    array = Argument("x", (128, 512), "float32", "input")
    out = Argument("out", (128, 512), "float32", "output")
    trace = trace_program(parse(head + lines + tail), Call((array,), (out,), {}), machine)
    return estimate(trace, machine)


def test_a_copy_is_two_transfers_one_after_the_other() -> None:
    found = modelled("pass")
    assert found.latency_ns == pytest.approx(TRN1.launch + 2 * TRANSFER_NS)
    assert found.bytes_read == found.bytes_written == 128 * 512 * 4
    assert found.busiest == "DMA"
    assert set(found.timeline) == {"DMA"}
    shares = found.timeline["DMA"]
    busy = found.busy["DMA"] / (found.latency_ns - TRN1.launch)
    assert sum(shares) / len(shares) == pytest.approx(busy)
    assert shares[-1] < shares[0]  # the last transfer completes


def test_the_timeline_shows_when_an_engine_works() -> None:
    many = "for i in range(20): nisa.activation(dst=tile, op=nl.exp, data=tile)"
    found = modelled(many)
    assert found.timeline["DMA"][0] > 0.5 > found.timeline["ACT"][0]
    assert found.timeline["DMA"][5] == 0
    assert found.timeline["ACT"][5] > 0.8


@pytest.mark.parametrize(
    ("body", "engine", "cycles", "clock"),
    [
        ("nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)", "DVE", 1079, 1.12),
        ("nisa.activation(dst=tile, op=nl.exp, data=tile)", "ACT", 567, 1.4),
        ("nisa.reciprocal(dst=tile, data=tile)", "DVE", 4151, 1.12),
        ("nisa.reciprocal(dst=tile[:, 0:1], data=tile[:, 0:1])", "DVE", 64, 1.12),
        (
            "p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
            "nisa.nc_matmul(dst=p, stationary=tile[:, 0:128], moving=tile)",
            "PE",
            4 * 512,
            2.8,
        ),
    ],
)
def test_costs_of_instructions(body: str, engine: str, cycles: int, clock: float) -> None:
    assert modelled(body).busy[engine] == pytest.approx(cycles / clock)


def test_independent_work_of_two_engines_overlaps() -> None:
    apart = modelled(
        "a = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
        "b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.activation(dst=a, op=nl.exp, data=tile)\n"
        "nisa.reciprocal(dst=b, data=tile)"
    )
    chain = modelled(
        "a = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
        "b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.activation(dst=a, op=nl.exp, data=tile)\n"
        "nisa.reciprocal(dst=b, data=a)\n"
        "nisa.dma_copy(dst=out, src=b)"
    )
    assert apart.latency_ns < chain.latency_ns
    assert chain.busy["ACT"] == apart.busy["ACT"]


PSUM_WORK = """
p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
q = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
for i in nl.affine_range(64):
    nisa.activation(dst=p, op=nl.exp, data=tile)
    nisa.tensor_scalar(dst=q, data=tile, op0=nl.add, operand0=1.0, engine=nisa.vector_engine)
"""


def test_two_engines_wait_for_the_port_of_psum_on_trn1_only() -> None:
    free = dataclasses.replace(TRN1, psum_port_shared=0)
    shared = modelled(PSUM_WORK)
    assert shared.latency_ns > 1.4 * modelled(PSUM_WORK, free).latency_ns
    assert shared.busy["PSUM port"] == pytest.approx(64 * 512 * (1 / 1.4 + 1 / 1.12))


def test_a_tile_declared_in_a_loop_is_buffered_several_times() -> None:
    inside = """
for i in nl.affine_range(16):
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
"""
    outside = """
t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
for i in nl.affine_range(16):
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
"""
    assert modelled(outside).latency_ns > 1.5 * modelled(inside).latency_ns


def test_halves_of_a_tile_do_not_wait_for_each_other() -> None:
    halves = """
nisa.activation(dst=tile[:, 0:256], op=nl.exp, data=tile[:, 0:256])
nisa.reciprocal(dst=tile[:, 256:512], data=tile[:, 256:512])
"""
    same = """
nisa.activation(dst=tile[:, 0:256], op=nl.exp, data=tile[:, 0:256])
nisa.reciprocal(dst=tile[:, 0:256], data=tile[:, 0:256])
"""
    assert modelled(halves).latency_ns < modelled(same).latency_ns


def test_what_does_not_fit_names_the_tile_its_line_and_the_limit() -> None:
    found = modelled(
        "big = nl.ndarray((128, 40000), dtype=nl.float32, buffer=nl.sbuf)\n"
        "more = nl.ndarray((128, 40000), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.memset(dst=big, value=0.0)\n"
        "nisa.memset(dst=more, value=0.0)\n"
        "nisa.tensor_copy(dst=tile, src=big[:, 0:512])\n"
        "nisa.tensor_copy(dst=tile, src=more[:, 0:512])"
    )
    excess = found.capacity.excess()
    assert excess is not None
    text, line = excess
    assert "180224" in text
    assert "160000" in text
    assert "SBUF" in text
    assert line in (11, 12)
    assert modelled("pass").capacity.excess() is None


OLD_HEAD = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x[0:128, 0:512])
    sums = nl.ndarray((128, 512), dtype=nl.float32)
"""
OLD_TAIL = """
    nl.store(out[0:128, 0:512], value=sums)
    return out
"""


def test_the_nki_1_compiler_merges_short_loops_and_drops_what_nobody_uses() -> None:
    body = """
unused = nl.exp(tile)
for i in nl.affine_range(64):
    for j in nl.affine_range(8):
        sums[:, i * 8 + j : i * 8 + j + 1] = nl.add(tile[:, i * 8 + j : i * 8 + j + 1], 1.0)
"""
    found = modelled(body, head=OLD_HEAD, tail=OLD_TAIL)
    assert found.instructions == 1
    sequential = body.replace("affine", "sequential")
    assert modelled(sequential, head=OLD_HEAD, tail=OLD_TAIL).instructions == 512


@pytest.mark.parametrize(
    "other",
    [
        "sums[:, 8:16] = nl.exp(tile[:, 8:16])",
        "sums[:, 8:16] = nl.multiply(tile[:, 8:16], 1.0)",
        "sums[:, 8:24] = nl.add(tile[:, 8:24], 1.0)",
        "sums[0:64, 8:16] = nl.add(tile[0:64, 8:16], 1.0)",
        "sums[:, 8:16] = nl.add(other[:, 8:16], 1.0)",
        "sums[:, 0:512] = nl.load(x[0:128, 0:512])",
    ],
)
def test_iterations_that_do_not_do_the_same_are_not_merged(other: str) -> None:
    body = f"""
other = nl.copy(tile, dtype=nl.bfloat16)
for i in nl.affine_range(2):
    if i == 0:
        sums[:, 0:8] = nl.add(tile[:, 0:8], 1.0)
    else:
        {other}
"""
    found = modelled(body, head=OLD_HEAD, tail=OLD_TAIL)
    assert found.instructions + found.transfers == 2 + 2 + ("other[" in other)


def test_a_merged_instruction_runs_if_any_iteration_is_needed() -> None:
    body = """
parts = [nl.ndarray((128, 8), dtype=nl.float32), nl.ndarray((128, 8), dtype=nl.float32)]
for i in nl.affine_range(2):
    parts[i][...] = nl.add(tile[:, 0:8], 1.0)
sums[:, 0:8] = nl.exp(parts[1])
"""
    assert modelled(body, head=OLD_HEAD, tail=OLD_TAIL).instructions == 2


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (("", ""), 256 + 64),
        (("psum", "sbuf"), 256 + 256),
        (("affine", "sequential"), 256 + 256),
        (("i : i + 3", "0 : 3 * (i % 2 + 1)"), 256 + 256),
        (("axis=[1])", "axis=[1])\n    nisa.activation(nl.exp, tile)"), 256 + 256),
        (("i : i + 3", "0:300"), 256 + 256),
    ],
    ids=["psum", "no psum", "ordered", "unlike", "not last", "wide"],
)
def test_the_nki_1_compiler_merges_reductions_of_long_loops(
    change: tuple[str, str], count: int
) -> None:
    body = """
taps = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
taps[...] = nl.copy(tile)
for i in nl.affine_range(256):
    part = nl.multiply(tile[:, i : i + 3], taps[:, i : i + 3])
    sums[:, i] = nisa.tensor_reduce(nl.add, part, axis=[1])
"""
    found = modelled(body.replace(*change), head=OLD_HEAD, tail=OLD_TAIL)
    assert found.instructions == 1 + count  # with the copy into taps


def test_a_transfer_within_hbm_has_a_descriptor_for_every_run() -> None:
    cost = {}
    for name, source in (("rows", "x"), ("columns", "x.ap(pattern=[[1, 512], [512, 128]])")):
        shape = "(128, 512)" if name == "rows" else "(512, 128)"
        body = f"other = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.hbm)\n"
        cost[name] = modelled(body + f"nisa.dma_copy(dst=other, src={source})").busy["DMA"]
    base = modelled("pass").busy["DMA"]
    # 65,536 runs of 4 bytes against 128 of 2,048, at 10 ns each on 16 engines.
    assert cost["columns"] - cost["rows"] == pytest.approx((65_536 - 128) * 10 / 16)
    assert cost["rows"] > base


def test_nki_1_spills_what_does_not_fit() -> None:
    body = """
kept = nl.ndarray((16, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
for i in nl.affine_range(16):
    kept[i] = nisa.nc_matmul(tile[0:128, 0:128], tile)
for i in nl.affine_range(16):
    sums[...] = nl.copy(kept[i])
"""
    found = modelled(body, head=OLD_HEAD, tail=OLD_TAIL)
    assert found.capacity.excess() is not None
    assert found.spilled == 2 * 16 * 128 * 512 * 4


def test_lines_and_causes_of_waiting() -> None:
    found = modelled("nisa.activation(dst=tile, op=nl.exp, data=tile)")
    assert found.lines[11]["ACT"] == pytest.approx(567 / 1.4)
    assert found.idle["results of DMA"] == pytest.approx(TRANSFER_NS)
    assert found.idle["nothing left to do"] == pytest.approx(TRANSFER_NS)
    ((line, causes),) = found.waits.items()
    assert causes == {"results of DMA": pytest.approx(TRANSFER_NS)}
    assert found.lines[line].keys() == {"ACT"}


def test_trn2_is_another_machine() -> None:
    found = modelled(PSUM_WORK, load_machine("trn2"))
    assert "PSUM port" not in found.busy
