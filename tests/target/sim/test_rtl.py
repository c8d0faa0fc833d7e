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
    assert sum(errors.values()) / len(errors) <= 0.008, errors
    assert max(errors.values()) <= 0.025, errors


def test_every_single_mechanism_loop_is_close_to_rtl(config: SimConfig) -> None:
    errors = {p.name: abs(run(config, p).cycles / p.rtl_cycles - 1) for p in micro_loops()}
    assert max(errors.values()) <= 0.05, errors


# Loops that only use the core, the command queues and the reservation station: nothing there is
# fitted, so that a change of more than one cycle per round is a change of structure.
@pytest.mark.parametrize("loop", [0, 3, 5, 6, 7, 8, 12, 27, 28, 29, 30, 39])
def test_loops_of_known_structure_agree_to_a_cycle_per_round(config: SimConfig, loop: int) -> None:
    program = micro_loops()[loop]
    assert abs(run(config, program).cycles - program.rtl_cycles) < 200


def test_runs_repeat_exactly_and_the_breakdown_adds_up(config: SimConfig) -> None:
    program = next(p for p in PROGRAMS if p.name == "gemm_bias_relu_O2")
    first, second = run(config, program), run(config, program)
    assert first == second
    names = list(first.breakdown)
    array_time = names[: names.index("drain") + 1]  # what follows overlaps with these
    assert sum(first.breakdown[name] for name in array_time) == first.cycles


@pytest.mark.parametrize("program", PROGRAMS + micro_loops(), ids=lambda p: p.name)
def test_skipping_quiet_cycles_changes_nothing(config: SimConfig, program: Program) -> None:
    assert run(config, program) == run(config, program, every_cycle=True)
