"""DRAM accesses that the accelerator does not order: raced, unordered and ordered ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

from target.sim import assembler as asm
from target.sim import numpy_model as m
from target.sim.assembler import A0, CODE, FENCE, command_stream
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

TABLE, SOURCE, MIDDLE, TARGET = 0x8F00_0000, 0x9000_0000, 0x9100_0000, 0x9200_0000
WIDE = 0x9300_0000
ROWS = 16
COMMANDS = 16  # bytes of code per command; the command itself is the third instruction
Command = tuple[int, int, int]
SETUP = [m.config_ld(16, 1.0, 16, 0), m.config_ld(64, 1.0, 16, 1), m.config_st(16)]
# Loads that keep the DMA busy until the CPU is ahead.
SLOW = [m.mvin(1, WIDE + 1024 * i, 64 + 64 * i, 64, ROWS) for i in range(6)]
NOTHING = m.config_ld(16, 1.0, 16, 0)


def simulate(
    config: SimConfig, commands: list[Command], *, timing: bool = True, ordering: str = "timing"
) -> SimResult:
    elf, table = command_stream([*SETUP, *commands, (FENCE, 0, 0)])
    block = np.arange(ROWS * 16, dtype=np.int8).reshape(ROWS, 16)
    regions = [
        Region(TABLE, table, False, "commands"),
        Region(SOURCE, block, False, "source"),
        Region(MIDDLE, np.full(ROWS * 16, 77, np.int8), True, "middle"),
        Region(TARGET, bytes(ROWS * 16), True, "target"),
        Region(WIDE, bytes(6 * 1024), False, "wide"),
    ]
    return run_kernel(config, elf, regions, timing=timing, ordering=ordering)  # type: ignore[arg-type]


def chain(*between: Command, local: int = 32) -> list[Command]:
    """SOURCE to MIDDLE by way of the scratchpad, then MIDDLE to TARGET by way of `local`."""
    return [
        *SLOW,
        m.mvin(0, SOURCE, 0, 16, ROWS),
        m.mvout(MIDDLE, 0, 16, ROWS),
        *between,
        m.mvin(0, MIDDLE, local, 16, ROWS),
        m.mvout(TARGET, local, 16, ROWS),
    ]


RACED = chain()  # the second load waits for nothing
LANDED = chain(*[NOTHING] * 60)  # sixty settings later the store is through
ORDERED = chain((FENCE, 0, 0))


def pc_of(index: int, commands: list[Command]) -> int:
    """Address of a command's instruction."""
    sizes = [8 if funct == FENCE else 16 for funct, _, _ in [*SETUP, *commands]]
    return CODE + sum(sizes[: len(SETUP) + index]) + 8


@pytest.mark.parametrize("ordering", ["fence", "timing"])
def test_a_read_that_overtakes_the_store_gets_the_old_data(
    config: SimConfig, ordering: str
) -> None:
    result = simulate(config, RACED, ordering=ordering)
    assert result.status == "fault"
    assert result.fault is not None
    assert result.fault.kind == "raced_dram_access"
    assert (result.fault.pc, result.fault.second_pc) == (pc_of(8, RACED), pc_of(7, RACED))
    told = re.search(r"the byte at 0x(\w+) is (-?\d+), not (-?\d+)", result.fault.message)
    assert told is not None
    address, old, stored = int(told[1], 16), int(told[2]), int(told[3])
    assert old == 77  # what was there before the run
    assert stored == np.int8(address - MIDDLE)  # what the store puts there


def test_a_read_after_the_store_landed_is_unordered(config: SimConfig) -> None:
    result = simulate(config, LANDED)
    assert result.status == "ok", result.fault
    (pair,) = result.unordered
    assert pair.kind == "unordered_dram_read"
    later = len(LANDED) - 2
    assert (pair.pc, pair.second_pc, pair.count) == (pc_of(later, LANDED), pc_of(7, LANDED), ROWS)
    # It did land: the read got the new data.
    assert result.outputs[3] == bytes(np.arange(ROWS * 16, dtype=np.uint8))


def test_an_unordered_read_is_a_fault_by_default(config: SimConfig) -> None:
    for timing in (False, True):
        result = simulate(config, LANDED, timing=timing, ordering="fence")
        assert result.fault is not None
        assert result.fault.kind == "unordered_dram_read"
        assert result.fault.pc == pc_of(len(LANDED) - 2, LANDED)
        assert result.fault.second_pc == pc_of(7, LANDED)


@pytest.mark.parametrize("ordering", ["fence", "timing"])
@pytest.mark.parametrize("timing", [False, True])
def test_a_fence_orders(config: SimConfig, ordering: str, timing: bool) -> None:
    result = simulate(config, ORDERED, timing=timing, ordering=ordering)
    assert result.status == "ok", result.fault
    assert result.unordered == ()
    assert result.outputs[3] == bytes(np.arange(ROWS * 16, dtype=np.uint8))


def test_without_timing_nothing_is_said_about_the_order(config: SimConfig) -> None:
    result = simulate(config, RACED, timing=False)
    assert result.status == "ok", result.fault
    assert result.unordered == ()


def test_a_local_dependency_orders_what_no_fence_does(config: SimConfig) -> None:
    """The load waits for the store to read its rows: too short a wait to be ordered, or even to
    be safe, but the read no longer overtakes the rows that were sent."""
    result = simulate(config, chain(local=0))
    assert result.fault is None or result.fault.kind == "raced_dram_access"
    strict = simulate(config, chain(local=0), ordering="fence")
    assert strict.status == "fault"


def overwritten(*between: Command) -> list[Command]:
    """MIDDLE is moved in after loads that take long, and stored over at once."""
    return [
        m.mvin(0, SOURCE, 0, 16, ROWS),
        (FENCE, 0, 0),
        *SLOW,
        m.mvin(0, MIDDLE, 32, 16, ROWS),
        *between,
        m.mvout(MIDDLE, 0, 16, ROWS),
    ]


def test_a_store_that_overtakes_a_load(config: SimConfig) -> None:
    commands = overwritten()
    result = simulate(config, commands)
    assert result.fault is not None
    assert result.fault.kind == "raced_dram_access"
    assert "mvout writes" in result.fault.message
    assert "mvin reads" in result.fault.message
    assert (result.fault.pc, result.fault.second_pc) == (pc_of(9, commands), pc_of(8, commands))


def test_a_store_after_the_load_is_unordered(config: SimConfig) -> None:
    result = simulate(config, overwritten(*[NOTHING] * 120))
    assert result.status == "ok", result.fault
    assert [(u.kind, u.count) for u in result.unordered] == [("unordered_dram_write", ROWS)]
    strict = simulate(config, overwritten(*[NOTHING] * 120), ordering="fence", timing=False)
    assert strict.fault is not None
    assert strict.fault.kind == "unordered_dram_write"
    assert simulate(config, overwritten((FENCE, 0, 0))).unordered == ()


def cpu_kernel(access: list[int | bytes], gap: int) -> tuple[bytes, bytes]:
    """Moves SOURCE to MIDDLE, waits `gap` instructions, then accesses MIDDLE (address in x7)."""
    commands = [*SETUP, *SLOW, m.mvin(0, SOURCE, 0, 16, ROWS), m.mvout(MIDDLE, 0, 16, ROWS)]
    code: list[int | bytes] = []
    for index, (funct, _, _) in enumerate(commands):
        code += [asm.ld(5, A0, 16 * index), asm.ld(6, A0, 16 * index + 8), asm.rocc(funct, 5, 6)]
    code += [asm.addi(0, 0, 0)] * gap
    code += [asm.addi(7, 11, 0), *access, FENCE, asm.RETURN]
    mask = (1 << 64) - 1
    table = b"".join(
        (a & mask).to_bytes(8, "little") + (b & mask).to_bytes(8, "little") for _, a, b in commands
    )
    return asm.link(code), table


@pytest.mark.parametrize(
    ("access", "kind"),
    [(asm.ld(8, 7, 0), "unordered_dram_read"), (asm.sd(8, 7, 0), "unordered_dram_write")],
)
def test_the_cpu_after_a_store(config: SimConfig, access: int, kind: str) -> None:
    def run(gap: int, ordering: str) -> SimResult:
        elf, table = cpu_kernel([access], gap)
        regions = [
            Region(TABLE, table, False, "commands"),
            Region(MIDDLE, bytes(ROWS * 16), True, "middle"),
            Region(SOURCE, bytes(ROWS * 16), False, "source"),
            Region(WIDE, bytes(6 * 1024), False, "wide"),
        ]
        return run_kernel(config, elf, regions, ordering=ordering)  # type: ignore[arg-type]

    raced = run(0, "timing").fault
    assert raced is not None
    assert raced.kind == "raced_dram_access"
    late = run(3000, "timing")
    assert late.status == "ok", late.fault
    assert [(u.kind, u.count) for u in late.unordered] == [(kind, 1)]
    refused = run(3000, "fence").fault
    assert refused is not None
    assert refused.kind == kind


def test_a_hardware_loop_that_stores_over_its_own_operand(config: SimConfig) -> None:
    """Within a loop stores may overtake loads; the loop's line is both of the two."""
    blocks = 1 | 1 << 16 | 1 << 32
    loop: list[Command] = [
        m.config_ex(),
        m.config_ld(16, 1.0, 16, 1),
        (9, 0, blocks),
        (10, MIDDLE, SOURCE),
        (11, 0, MIDDLE),
        (12, 16, 16),
        (13, 16, 16),
        (8, 0, 0),
    ]
    result = simulate(config, loop, ordering="fence", timing=False)
    assert result.fault is not None
    assert result.fault.kind == "unordered_dram_write"
    assert result.fault.pc == result.fault.second_pc == pc_of(7, loop)
    timed = simulate(config, loop)
    assert timed.status == "ok", timed.fault
    assert sum(u.count for u in timed.unordered) == ROWS
