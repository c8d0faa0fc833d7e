"""What the simulator refuses, with the instruction at fault."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import tilewright.targets.gemmini
from target.sim import assembler as asm
from target.sim import numpy_model as m
from target.sim.assembler import A0, A1, CODE, FENCE
from tilewright.core.errors import ConfigurationError, InputError
from tilewright.targets.gemmini.sim import (
    Fault,
    Region,
    SimConfig,
    SimResult,
    _cosim,
    load_config,
    run_kernel,
)

INPUT, OUTPUT, TABLE = 0x9000_0000, 0x9100_0000, 0x9200_0000
BYTES = 8192
Commands = list[tuple[int, int, int]]

SETUP: Commands = [
    m.config_ex(),
    m.config_ld(64, 1.0, 16, 0),
    m.config_st(64),
    m.mvin(0, INPUT, 0, 16, 16),
    m.mvin(0, INPUT, m.ACC, 16, 16),
]


def run_commands(config: SimConfig, commands: Commands, *, timing: bool = False) -> SimResult:
    elf, table = asm.command_stream(commands)
    regions = [
        Region(TABLE, table, False, "commands"),
        Region(INPUT, bytes(BYTES), False, "A"),
        Region(OUTPUT, bytes(BYTES), True, "C"),
    ]
    return run_kernel(config, elf, regions, timing=timing)


def run_code(config: SimConfig, code: list[int | bytes], *, flags: int = 5) -> SimResult:
    regions = [Region(INPUT, bytes(64), False, "A"), Region(OUTPUT, bytes(64), True, "C")]
    return run_kernel(config, asm.link([*code, asm.RETURN], flags=flags), regions, timing=False)


def fault_of(result: SimResult) -> Fault:
    assert result.status == "fault"
    assert result.fault is not None
    return result.fault


def pc_of(commands: Commands, index: int) -> int:
    """Address of the accelerator instruction of a command of `command_stream`."""
    before = sum(8 if c[0] == FENCE else 16 for c in commands[:index])
    return CODE + before + 8


COMMANDS = [
    ("limit_exceeded", "65 columns", [m.mvin(0, INPUT, 0, 65, 16)]),
    ("limit_exceeded", "17 rows", [m.mvin(0, INPUT, 0, 16, 17)]),
    ("limit_exceeded", "0 rows", [m.mvin(0, INPUT, 0, 16, 0)]),
    ("limit_exceeded", "block stride", [m.config_ld(64, 1.0, 8, 0), m.mvin(0, INPUT, 0, 32, 9)]),
    ("limit_exceeded", "65 columns", [m.mvout(OUTPUT, 0, 65, 1)]),
    ("limit_exceeded", "17 columns", [m.preload(0, m.ACC, 17, 16, 16, 16)]),
    (
        "limit_exceeded",
        "17 rows",
        [m.preload(0, m.ACC, 16, 16, 16, 16), m.compute(0, m.NONE, 16, 17, 16, 16)],
    ),
    ("local_out_of_bounds", "16380..16395", [m.mvin(0, INPUT, 16380, 16, 16)]),
    ("local_out_of_bounds", "accumulator rows 1009", [m.mvin(0, 0, m.ACC | 1009, 16, 16)]),
    ("local_out_of_bounds", "scratchpad", [m.mvout(OUTPUT, 16384, 16, 1)]),
    ("uninitialised_read", "scratchpad row 16,", [m.mvout(OUTPUT, 1, 16, 16)]),
    ("uninitialised_read", "accumulator row 16,", [m.mvin(0, INPUT, m.ACC | m.ADD | 1, 16, 16)]),
    ("uninitialised_read", "preload B", [m.preload(64, m.ACC, 16, 16, 16, 16)]),
    ("uninitialised_read", "preload C", [m.preload(0, m.ACC | m.ADD | 16, 16, 16, 16, 16)]),
    (
        "uninitialised_read",
        "compute D",
        [m.preload(0, m.ACC, 16, 16, 16, 16), m.compute(0, m.ACC | 16, 16, 16, 16, 16)],
    ),
    (
        "local_out_of_bounds",
        "accumulator rows 0..15000",
        [
            m.preload(0, m.ACC, 16, 16, 16, 16),
            m.config_ex(c_stride=1000),
            m.compute(0, m.NONE, 16, 16, 16, 16),
        ],
    ),
    (
        "uninitialised_read",
        "preload C that accumulates reads accumulator row 20,",
        [
            m.preload(0, m.ACC | m.ADD, 16, 16, 16, 16),
            m.config_ex(c_stride=20),
            m.compute(0, m.NONE, 16, 16, 16, 16),
        ],
    ),
    ("illegal_instruction", "without a preload", [m.compute(0, m.NONE, 16, 16, 16, 16)]),
    (
        "illegal_instruction",
        "preload without a compute",
        [m.preload(0, m.ACC, 16, 16, 16, 16), m.preload(0, m.ACC, 16, 16, 16, 16)],
    ),
    ("illegal_instruction", "B can be transposed only if A is too", [m.config_ex(os=1, bt=1)]),
    (
        "illegal_instruction",
        "give NONE as C of all but the last",
        [
            m.config_ex(os=1),
            m.preload(0, m.ACC, 16, 16, 16, 16),
            m.compute(0, 0, 16, 16, 16, 16),
            m.preload(0, m.ACC, 16, 16, 16, 16),
            m.compute(0, 0, 16, 16, 16, 16, keep=True),
        ],
    ),
    (
        "illegal_instruction",
        "what the other dataflow left in the array",
        [
            m.preload(0, m.ACC, 16, 16, 16, 16),
            m.compute(0, m.NONE, 16, 16, 16, 16),
            m.config_ex(os=1),
            m.preload(0, m.ACC, 16, 16, 16, 16),
            m.compute(0, 0, 16, 16, 16, 16, keep=True),
        ],
    ),
    ("illegal_instruction", "transposed", [m.config_ex(at=1, bt=1)]),
    ("illegal_instruction", "no command 22", [(22, 0, 0)]),
    ("illegal_address", "mvin reads 16 bytes", [m.mvin(0, INPUT + BYTES - 15, 0, 16, 1)]),
    ("illegal_address", "mvin reads 16 bytes at 0xfffffffffffffff8", [m.mvin(0, -8, 0, 16, 1)]),
    ("illegal_address", "mvout writes", [m.mvout(OUTPUT + BYTES, 0, 16, 1)]),
    ("illegal_address", "mvout writes", [m.mvout(CODE, 0, 16, 1)]),
    ("input_modified", "argument A", [m.mvout(INPUT, 0, 16, 1)]),
]


@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize(("kind", "text", "commands"), COMMANDS)
def test_commands_the_hardware_cannot_carry_out(
    config: SimConfig, kind: str, text: str, commands: Commands, timing: bool
) -> None:
    sequence = SETUP + commands
    fault = fault_of(run_commands(config, sequence, timing=timing))
    assert fault.kind == kind
    assert text in fault.message
    assert fault.pc == pc_of(sequence, len(sequence) - 1)


@pytest.mark.parametrize("timing", [False, True])
def test_the_size_of_a_result_that_is_not_written_means_nothing(
    config: SimConfig, timing: bool
) -> None:
    """Found by fuzzing: 65535 rows made the product write past its own array of sums."""
    ignored = [m.preload(0, m.NONE, 16, 16, 16, 0xFFFF), m.compute(0, m.NONE, 16, 16, 16, 16)]
    sequence = [*SETUP, *ignored, m.mvout(OUTPUT, m.ACC, 16, 16)]
    assert run_commands(config, sequence, timing=timing).status == "ok"


def test_a_dram_read_of_an_unordered_store_names_both_instructions(config: SimConfig) -> None:
    sequence = [*SETUP, m.mvout(OUTPUT + 100, 0, 16, 2), m.mvin(0, OUTPUT + 170, 0, 16, 1)]
    fault = fault_of(run_commands(config, sequence))
    assert fault.kind == "unordered_dram_read"
    assert fault.pc == pc_of(sequence, len(sequence) - 1)
    assert fault.second_pc == pc_of(sequence, len(sequence) - 2)


def test_a_fence_or_distance_orders_dram(config: SimConfig) -> None:
    stored = [*SETUP, m.mvout(OUTPUT + 100, 0, 16, 1)]
    fenced = [*stored, (FENCE, 0, 0), m.mvin(0, OUTPUT + 100, 0, 16, 1)]
    beside = [*stored, m.mvin(0, OUTPUT + 84, 0, 16, 1), m.mvin(0, OUTPUT + 116, 0, 16, 1)]
    assert run_commands(config, fenced).status == "ok"
    assert run_commands(config, beside).status == "ok"


CODES: list[tuple[str, str, list[int | bytes]]] = [
    ("illegal_instruction", "no such instruction", [asm.half(0)]),
    ("illegal_instruction", "no such instruction", [0xFFFFFFFF]),
    ("illegal_instruction", "ecall", [0x00000073]),
    ("illegal_instruction", "control register 0xc00", [asm.i_type(0x73, 2, 5, 0, 0xC00)]),
    ("illegal_instruction", "no such instruction", [asm.r_type(0x7B, 7, 2, 5, 5, 5)]),
    ("illegal_address", "the CPU reads 8 bytes", [asm.ld(5, 0, 0)]),
    ("illegal_address", "the CPU reads 8 bytes", [asm.ld(5, A0, 64)]),
    ("illegal_address", "misaligned CPU read", [asm.ld(5, A0, 4)]),
    ("illegal_address", "misaligned CPU write", [asm.sd(5, A1, 1)]),
    ("input_modified", "argument A", [asm.sd(5, A0, 0)]),
    ("illegal_address", "the CPU jumps", [asm.i_type(0x67, 0, 0, A0, 0)]),
    ("illegal_address", "the code", [asm.u_type(0x17, 5, 0), asm.sd(5, 5, 0)]),
]


@pytest.mark.parametrize(("kind", "text", "code"), CODES)
def test_what_the_cpu_may_not_do(
    config: SimConfig, kind: str, text: str, code: list[int | bytes]
) -> None:
    fault = fault_of(run_code(config, code))
    assert (fault.kind, text in fault.message) == (kind, True), fault


def test_code_may_change_itself_where_it_may_write(config: SimConfig) -> None:
    new = struct.unpack("<I", struct.pack("<I", asm.addi(6, 0, 7)))[0]
    code: list[int | bytes] = [
        asm.addi(6, 0, 1),
        asm.u_type(0x37, 5, (new + 0x800) >> 12),
        asm.addi(5, 5, (new & 0xFFF) - (0x1000 if new & 0x800 else 0)),
        asm.u_type(0x17, 7, 0),
        asm.s_type(0x23, 2, 7, 5, 8),
        asm.addi(6, 0, 2),
        asm.sd(6, A1, 0),
    ]
    result = run_code(config, code, flags=7)
    assert result.outputs[1][0] == 7


def test_limits_stop_a_run(config: SimConfig) -> None:
    many = [*SETUP, *[m.mvin(0, INPUT, 0, 16, 16)] * 200]
    full = run_commands(config, many, timing=True)
    elf, table = asm.command_stream(many)
    regions = [Region(TABLE, table, False, "t"), Region(INPUT, bytes(BYTES), False, "A")]
    stopped = run_kernel(config, elf, regions, limit_cycles=500)
    assert stopped.status == "slower_than_limit"
    assert 500 < stopped.cycles < full.cycles
    assert run_kernel(config, elf, regions, limit_cycles=full.cycles).status == "ok"
    assert run_kernel(config, elf, regions, max_instructions=50).status == "timeout"
    loop = asm.link([asm.j_type(0, 0)])
    for timing in (False, True):
        assert run_kernel(config, loop, [], timing=timing, max_host_s=0.05).status == "timeout"


@pytest.mark.parametrize(
    ("elf", "text"),
    [
        (b"", "truncated"),
        (b"MZ" + bytes(100), "not an ELF"),
        (asm.link([asm.RETURN])[:100], "truncated"),
        (asm.link([asm.RETURN])[:18] + b"\x3e\0" + asm.link([asm.RETURN])[20:], "RISC-V"),
        (asm.link([asm.RETURN], symbol="main"), "does not define kernel"),
    ],
)
def test_files_that_cannot_be_loaded(config: SimConfig, elf: bytes, text: str) -> None:
    with pytest.raises(InputError, match=text):
        run_kernel(config, elf, [])


def test_overlapping_regions_are_refused(config: SimConfig) -> None:
    regions = [Region(INPUT, bytes(64), False, "A"), Region(INPUT + 63, bytes(64), False, "B")]
    with pytest.raises(InputError, match="argument B overlaps region argument A"):
        run_kernel(config, asm.link([asm.RETURN]), regions)


def test_the_simulator_takes_the_documented_parameters(config: SimConfig) -> None:
    assert set(config.parameters) == set(_cosim.config_fields())


GOOD_TOML = (Path(tilewright.targets.gemmini.__file__).parent / "target.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("dim = 16 ", "dims = 16 ", "unknown parameter simulator.array.dims"),
        ("dim = 16 ", "", "simulator.array.dim is missing"),
        ("dim = 16 ", "dim = 12 ", "one of 4"),
        ("dim = 16 ", "dim = 64 ", "one of 4, 8, 16, 32"),
        ("dim = 16 ", "dim = 1.5 ", "whole number"),
        ("ways = 8 ", "ways = 0 ", "between 1"),
        ("load_entries = 8 ", "load_entries = 33 ", "between 1 and 32"),
        ("[simulator.array]", "[simulator.array", "not valid TOML"),
    ],
)
def test_impossible_configurations(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert old in GOOD_TOML
    path = tmp_path / "target.toml"
    path.write_text(GOOD_TOML.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=text):
        load_config(path)
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_config(tmp_path / "none.toml")


def test_cycles_lost_at_the_accumulator_are_at_no_bank_of_the_scratchpad(config: SimConfig) -> None:
    """Operands in the accumulator wait for sums that are added to it, and for each other."""
    operand = m.ACC | 64
    commands = [*SETUP, m.mvin(0, INPUT, operand, 16, 16)]
    for _ in range(40):
        commands.append(m.preload(0, m.ACC | m.ADD, 16, 16, 16, 16))
        commands.append(m.compute(operand, operand, 16, 16, 16, 16))
    result = run_commands(config, commands, timing=True)
    assert result.status == "ok"
    assert result.breakdown["write_steal"] > 0
    assert result.breakdown["bank_conflict"] > 0
    assert result.bank_losses == ()
