"""Feedback names the binding limit, the first-order causes and their lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.targets.gemmini import create_target, feedback
from tilewright.targets.gemmini.causes import CAUSES
from tilewright.targets.gemmini.feedback import bounds, cycles_by_line, describe, least_latency
from tilewright.targets.gemmini.parameters import SimConfig
from tilewright.targets.gemmini.phases import described_phases, few_phases
from tilewright.targets.gemmini.sim import BankLoss, Hotspot, SimResult

CONFIG = create_target().instance.config
WORKLOAD = create_target().open("gemm-64x64x64", {}).workload  # 1,024 cycles of the array


def result(cycles: int, instructions: int = 100, **breakdown: int) -> SimResult:
    spots = (Hotspot("dma_wait", 10, 300), Hotspot("dma_wait", 14, 80), Hotspot("cpu", 20, 5))
    return SimResult(
        status="ok", cycles=cycles, instructions=instructions, macs=64**3, utilization=0.5,
        scratchpad_kb=64.0, accumulator_kb=16.0, outputs=(), breakdown=breakdown, hotspots=spots,
        executed=((10, 60), (14, 20), (20, 20)), computes=64,
    )  # fmt: skip


def told(result: SimResult) -> list[str]:
    return describe(WORKLOAD, CONFIG, result, b"", cycles_by_line(result, b"")).splitlines()


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {10: 7, 14: 8, 20: None}
    monkeypatch.setattr(feedback, "source_lines", lambda elf, pcs, file: [known[pc] for pc in pcs])


def test_every_cause_is_one_the_simulator_counts() -> None:
    """The simulator's own causes, in its order, are a contract of `sim.run_kernel`."""
    assert set(feedback.CORE_WAITS) < {cause.name for cause in CAUSES}


def test_bounds_of_a_workload() -> None:
    assert bounds(WORKLOAD, CONFIG, 77) == {"array": 1024, "DMA": 1024, "core": 77}
    tall = create_target().open("gemm-16x1024x1024", {}).workload
    assert bounds(tall, CONFIG, 0)["DMA"] == (16 * 1024 + 1024 * 1024) // 8


def test_the_bound_of_transfers_is_the_slower_of_bus_and_dram() -> None:
    slow_dram = SimConfig({**CONFIG.parameters, "dram_line_cycles": 5 * CONFIG["dram_line_cycles"]})
    fast_dram = SimConfig({**CONFIG.parameters, "dram_line_cycles": 1, "dma_bus_bytes": 4})
    assert bounds(WORKLOAD, slow_dram, 77)["DMA"] == 5 * 1024
    assert bounds(WORKLOAD, fast_dram, 77)["DMA"] == 2 * 1024


def test_every_cause_is_told_in_cycles_and_the_largest_are_explained() -> None:
    bound, causes, helps, lines, core, code, memory = told(
        result(
            2000, array_busy=1030, preloads_alone=6, product_rows=1024, dma_wait=700, cpu=200,
            cpu_fetch=60, fence=10, fetch_wait=90,
        )
    )  # fmt: skip
    assert bound == (
        "The kernel takes 1.95 times the 1,024 cycles that any kernel needs: 1,024 cycles "
        "of the array if all blocks fill it, and 1,024 cycles of DMA to fetch every input once. "
        "This kernel's instructions need 100 cycles of the core."
    )
    assert causes.startswith(
        "The array does no useful work in 976 cycles: dma wait 700 (the array waits for a load); "
        "cpu 200 ("
    )
    assert causes.endswith("; fence 10; preloads alone 6.")
    assert helps.startswith("What usually helps against cpu fetch: less code (`less-code`)")
    assert "against preloads alone" not in helps  # too few cycles
    assert lines == (
        "Most of these cycles are lost at line 7 (dma wait 300) and line 8 (dma wait 80)."
    )
    assert core == (
        "The core runs 100 instructions, 1.6 per pair of preload and compute (0.9 at line 7, 0.3 "
        "at line 8). The core waits 90 cycles for instructions; the array may be working during "
        "these cycles."
    )
    assert code == "These are 3 different instructions in 1 line of 64 bytes."
    assert memory == ("Local memory written: scratchpad 64.0 of 256 KB, accumulator 16.0 of 64 KB.")


def test_a_remedy_is_told_only_for_a_large_part_of_what_is_lost() -> None:
    """It repeats what the description of the commands says."""
    text = "\n".join(told(result(2000, array_busy=1080, preloads_alone=56, dma_wait=900)))
    assert "against preloads alone" not in text
    text = "\n".join(told(result(1300, array_busy=1180, preloads_alone=156, dma_wait=100)))
    assert "against preloads alone" in text


def test_near_the_bound_nothing_is_left_out() -> None:
    text = "\n".join(told(result(1030, array_busy=1024, fence=4, cpu_fetch=2)))
    assert "1.01 times the 1,024 cycles" in text
    assert "fence 4" in text
    assert "cpu fetch 2" in text


def test_a_core_that_binds_is_told() -> None:
    text = "\n".join(told(result(2000, 1900, array_busy=1500)))
    assert "need 1,900 cycles of the core, so it cannot reach this minimum without fewer" in text


@pytest.mark.parametrize(
    ("busy", "rows", "alone", "small", "short"),
    [
        (1500, 1024, 476, 0, 0),  # whole blocks, and preloads without products
        (1500, 1488, 12, 464, 0),  # blocks of B that do not fill the array
        (1500, 1200, 12, 176, 288),  # and some products of few rows that take 16 cycles
        (1500, 1024, 0, 0, 476),
        (1024, 1024, 0, 0, 0),
    ],
)
def test_small_blocks_short_products_and_preloads_alone_are_told_apart(
    busy: int, rows: int, alone: int, small: int, short: int
) -> None:
    timed = result(2000, array_busy=busy, product_rows=rows, preloads_alone=alone)
    text = "\n".join(told(timed))
    assert (f"preloads alone {alone} (" in text) == bool(alone)
    assert (f"small blocks {small} (" in text) == bool(small)
    assert (f"short products {short} (" in text) == bool(short)
    needs = f"Its products need at least {rows:,} cycles of the array"
    assert (needs in text) == bool(small)
    assert ("not all blocks of B fill the array" in text) == bool(small)
    assert "more than the task counts" not in text
    extra = "\n".join(told(replace(timed, macs=2 * 64**3)))
    assert ("they are more than the task counts" in extra) == bool(small)


def test_the_least_latency_knows_nothing_of_a_kernel() -> None:
    assert least_latency(WORKLOAD, CONFIG) == 1024


def test_the_table_holds_every_line_and_cause() -> None:
    assert cycles_by_line(result(2000), b"") == {
        "7": {"dma_wait": 300, "instructions": 60},
        "8": {"dma_wait": 80, "instructions": 20},
        "elsewhere": {"cpu": 5, "instructions": 20},
    }


def test_phases_tell_when_cycles_are_lost() -> None:
    def part(busy: int, **lost: int) -> dict[str, int]:
        return {"array_busy": busy, "cpu": 0, "dma_wait": 0, **lost}

    phases = [
        part(0, dma_wait=90, cpu=10, fence=5, drain=4, cpu_data=3),
        part(1600, dma_wait=500),
        *[part(1600, cpu=8)] * 8,
        part(800),
        part(0, cpu=30),
    ]
    (text,) = described_phases(phases, 950)
    assert text == (
        "Idle cycles of the array by phase: before the first product: 112 (dma wait 90, cpu 10, "
        "fence 5, drain 4, cpu data 3); "
        "about products 1 to 100 of 950: 500 (dma wait 500); during the other products: 64 (cpu "
        "64); after the last product: 30 (cpu 30)."
    )
    (even,) = described_phases([phases[0], *phases[2:]], 850)
    assert "; during the products: 64 (cpu 64); after" in even
    assert described_phases(phases[:2], 1) == []


def test_requests_are_told_beside_the_lines_of_the_arrays() -> None:
    """More misses than lines mean that data are fetched twice."""
    (said,) = [t for t in told(result(2000, array_busy=1024, l2_hit=300, l2_miss=200)) if "L2" in t]
    assert said == (
        "Loads and stores make 500 requests of at most 64 bytes, 200 of them for lines that the L2 "
        "cache does not hold; all arrays together have 192 lines."
    )
    assert not [t for t in told(result(2000, array_busy=1024)) if "L2" in t]


def test_a_full_queue_of_stores_is_told_with_what_the_stores_wait_for() -> None:
    """A store that waits for products needs more places for results, others do not."""
    full = result(2000, array_busy=1024, rs_full_store=400, cpu=576)
    waits = {**full.breakdown, "full_store_products": 250, "full_store_bank": 100}
    (said,) = [t for t in told(replace(full, breakdown=waits)) if t.startswith("While")]
    assert said == (
        "While a store found its queue full (400 cycles), the first store of the queue waited in "
        "250 cycles until products had left the array and in 100 cycles for a bank to which the "
        "array added; it moved data or waited for memory in 50 cycles."
    )
    (moved,) = [t for t in told(full) if t.startswith("While")]
    assert moved == (
        "While a store found its queue full (400 cycles), the first store of the queue moved data "
        "or waited for memory in 400 cycles."
    )
    few = result(200_000, array_busy=1024, rs_full_store=4, cpu=576)
    assert not [t for t in told(few) if t.startswith("While")]


def test_a_measurement_keeps_few_phases_that_add_up() -> None:
    start, end = {"array_busy": 0, "cpu": 70}, {"array_busy": 0, "cpu": 9}
    parts = [{"array_busy": 16, "cpu": number} for number in range(64)]
    kept = few_phases([start, *parts, end])
    assert len(kept) == 10
    assert (kept[0], kept[-1]) == ({"cpu": 70.0}, {"cpu": 9.0})
    assert kept[1] == {"array_busy": 128.0, "cpu": 28.0}
    assert sum(sum(phase.values()) for phase in kept) == 70 + 9 + 64 * 16 + sum(range(64))
    assert few_phases([start, end]) == ()


def test_banks_are_named_with_who_shares_them_and_where_first() -> None:
    lost = (
        BankLoss("bank_conflict", "operands A and B", 0, 280, 10),
        BankLoss("write_steal", "a load and operand A", 2, 130, 20),
        BankLoss("bank_conflict", "operands A and B", 3, 20, 14),
    )
    timed = replace(
        result(2000, array_busy=1024, bank_conflict=300, write_steal=130), bank_losses=lost
    )
    _, _, conflict, steal, *_ = told(timed)
    assert conflict == (
        "Operands A and B share scratchpad bank 0: 280 cycles lost; first at line 7; 20 more at "
        "bank 3."
    )
    assert steal == (
        "A load and operand A share scratchpad bank 2: 130 cycles lost, in which the load writes "
        "and the operand cannot be read."
    )


def test_waits_of_the_core_that_decide_nothing_are_left_out() -> None:
    tiny, telling = (
        "\n".join(told(result(2000, array_busy=1030, cpu=970, fetch_wait=cycles)))
        for cycles in (2, 3)
    )
    assert "for instructions" not in tiny
    assert "3 cycles for instructions" in telling


def test_the_documentation_explains_every_cause() -> None:
    """A user finds each label that `evaluate` prints in docs/targets/gemmini.md."""
    page = (Path(__file__).parents[3] / "docs/targets/gemmini.md").read_text()
    for cause in CAUSES:
        assert f"| {cause.name.replace('_', ' ')} | {cause.meaning} |" in page
