"""Feedback names the binding limit, the first-order causes and their lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.targets.gemmini import create_target, feedback
from tilewright.targets.gemmini.feedback import bounds, describe
from tilewright.targets.gemmini.sim import BREAKDOWN, BankLoss, Hotspot, SimResult

CONFIG = create_target().instance.config
WORKLOAD = create_target().open("gemm-64x64x64", {}).workload  # 1,024 cycles of the array


def result(cycles: int, instructions: int = 100, **breakdown: int) -> SimResult:
    spots = (Hotspot("dma_wait", 10, 300), Hotspot("dma_wait", 14, 80), Hotspot("cpu", 20, 5))
    return SimResult(
        status="ok", cycles=cycles, instructions=instructions, macs=64**3, utilization=0.5,
        scratchpad_kb=64.0, accumulator_kb=16.0, outputs=(), breakdown=breakdown, hotspots=spots,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {10: 7, 14: 7, 20: None}
    monkeypatch.setattr(feedback, "source_lines", lambda elf, pcs: [known[pc] for pc in pcs])


def test_every_cause_is_one_the_simulator_counts() -> None:
    assert set(feedback.LOSSES) < set(BREAKDOWN)


def test_bounds_of_a_workload() -> None:
    assert bounds(WORKLOAD, CONFIG, 77) == {"array": 1024, "DMA": 1024, "CPU": 77}
    tall = create_target().open("gemm-16x1024x1024", {}).workload
    assert bounds(tall, CONFIG, 0)["DMA"] == (16 * 1024 + 1024 * 1024) // 8


def test_the_largest_losses_come_first_with_their_lines() -> None:
    text = describe(WORKLOAD, CONFIG, result(2000, array_busy=1024, dma_wait=700, cpu=200), b"")
    bound, dma, core, memory = text.splitlines()
    assert bound.startswith("2,000 cycles, 1.95 times the bound: the array binds")
    assert dma == (
        "dma wait: 700 cycles, 35.0% of all (the array waits for a load); most at line 7 (380)."
    )
    assert core.startswith("cpu: 200 cycles, 10.0% of all (")
    assert "line" not in core
    assert memory == (
        "Local memory written: scratchpad 64.0 of 256 KB (25.0%), accumulator 16.0 of 64 KB "
        "(25.0%)."
    )


def test_a_core_that_binds_and_partial_products_are_told() -> None:
    text = describe(WORKLOAD, CONFIG, result(2000, 1900, array_busy=1500), b"")
    assert "1.05 times the bound: the CPU binds" in text
    assert "array busy: 476 cycles, 23.8% of all" in text


def test_banks_are_named_with_who_shares_them_and_where_first() -> None:
    lost = (
        BankLoss("bank_conflict", "A and B", 0, 280, 10),
        BankLoss("write_steal", "a load and A", 2, 130, 20),
        BankLoss("bank_conflict", "A and B", 3, 20, 14),
    )
    timed = replace(
        result(2000, array_busy=1024, bank_conflict=300, write_steal=130), bank_losses=lost
    )
    _, conflict, steal, _ = describe(WORKLOAD, CONFIG, timed, b"").splitlines()
    assert conflict == (
        "A and B share scratchpad bank 0: 280 conflict cycles, 14.0% of all; first at line 7; "
        "20 more at bank 3."
    )
    assert steal == (
        "A load and A share scratchpad bank 2: 130 cycles lost to the load's writes, 6.5% of all."
    )


def test_negligible_causes_are_left_out() -> None:
    text = describe(WORKLOAD, CONFIG, result(2000, array_busy=1024, fence=9), b"")
    assert "fence" not in text
