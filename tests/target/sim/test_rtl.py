"""The co-simulator against RTL simulation: results exactly, cycles within bounds."""

from __future__ import annotations

import struct

import pytest

from target.gemmini_rtl.corpus import (
    POOL_ADDRESS,
    RESULTS_ADDRESS,
    Program,
    micro_loops,
    pool,
    programs,
)
from tilewright.targets.gemmini.sim import SimConfig, SimResult, run_program

PROGRAMS = programs()


def run(
    config: SimConfig, program: Program, *, timing: bool = True, every_cycle: bool = False
) -> SimResult:
    return run_program(
        config,
        program.elf,
        [(POOL_ADDRESS, pool())],
        read=[(RESULTS_ADDRESS, 24)],
        timing=timing,
        every_cycle=every_cycle,
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_results_and_instruction_counts_equal_rtl(config: SimConfig, program: Program) -> None:
    result = run(config, program, timing=False)
    assert result.status == "ok"
    _, instructions, output_hash = struct.unpack("<3Q", result.outputs[0])
    assert instructions == program.instructions
    if program.output_hash is not None:
        assert output_hash == program.output_hash


def test_cycles_are_close_to_rtl(config: SimConfig) -> None:
    errors = {p.name: abs(run(config, p).cycles / p.rtl_cycles - 1) for p in PROGRAMS}
    assert sum(errors.values()) / len(errors) <= 0.02, errors
    assert max(errors.values()) <= 0.05, errors


def test_runs_repeat_exactly_and_the_breakdown_adds_up(config: SimConfig) -> None:
    program = next(p for p in PROGRAMS if p.name == "gemm_bias_relu_O2")
    first, second = run(config, program), run(config, program)
    assert first == second
    array_time = list(first.breakdown.values())[:11]
    assert sum(array_time) == first.cycles


@pytest.mark.parametrize("program", PROGRAMS + micro_loops(), ids=lambda p: p.name)
def test_skipping_quiet_cycles_changes_nothing(config: SimConfig, program: Program) -> None:
    assert run(config, program) == run(config, program, every_cycle=True)
