"""Runs kernels and bare-metal programs on the co-simulator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tilewright.core.errors import InputError, InternalError
from tilewright.core.records import FailureKind
from tilewright.parts.extension_check import require_current
from tilewright.targets.gemmini.causes import EXCLUSIVE
from tilewright.targets.gemmini.parameters import SimConfig
from tilewright.targets.gemmini.sim import _cosim

require_current(_cosim, Path(__file__).parent / "cpp")

MODEL_VERSION = _cosim.SOURCE_HASH[:16]
"""Version of the simulator, which changes with every change of its sources and is part of every
result.
"""

Status: TypeAlias = Literal["ok", "fault", "slower_than_limit", "timeout"]
Ordering: TypeAlias = Literal["fence", "timing"]
Buffer: TypeAlias = Any
"""An object with a contiguous buffer: bytes, bytearray, memoryview or a numpy array."""


@dataclass(frozen=True, slots=True)
class Region:
    """An array in simulated memory, copied in before the run.

    A kernel that writes to a region that is not `writable` fails with `input_modified`. A kernel
    that reads bytes of a region that is not `given` before it writes them fails with
    `uninitialised_read`.
    """

    address: int
    data: Buffer
    writable: bool
    name: str
    given: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """An operation that the hardware does not allow, with its place in the program.

    `second_pc` is the other instruction involved, for instance the mvout whose bytes were read
    too early.
    """

    kind: FailureKind
    message: str
    pc: int
    second_pc: int | None = None


@dataclass(frozen=True, slots=True)
class BankLoss:
    """The cycles that products lost at one scratchpad bank, by "bank_conflict" or "write_steal".

    `users` are the accesses to the bank ("operands A and B", "a load and operand A"); `first_pc` is
    the first affected instruction.
    """

    cause: str
    users: str
    bank: int
    cycles: int
    first_pc: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A period in which the array was idle, beginning at cycle `start`.

    `cause` (an entry of `EXCLUSIVE`) and `pc` are those of most of its cycles.
    """

    start: int
    cycles: int
    cause: str
    pc: int


@dataclass(frozen=True, slots=True)
class Unordered:
    """DRAM accesses of two instructions that no fence orders, but which were in order in this run.

    `second_pc` is the earlier instruction; `count` is the number of such pairs of accesses.
    """

    kind: FailureKind
    message: str
    pc: int
    second_pc: int
    count: int


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A cause of lost cycles (one of `causes.CAUSES`), an affected instruction, and the number of
    cycles.
    """

    cause: str
    pc: int
    cycles: int


Hashes: TypeAlias = tuple[int, int]
"""A hash of all values of a sequence (0: there were none), and a hash of the only value if all were
the same (0: they were not).
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that depends on the contents of arguments (a branch or comparison), and the
    results that it had; another instruction that computes a number from them; or a jump to an
    address that depends on them. `is_kept`: it read what an earlier call left in memory, another
    value in each call.

    `operands` (together), `results` and `values` have one entry for each call in which the
    instruction read data. `values` are those of each operand that another instruction computed from
    data, and `producers` are the addresses of these instructions.
    """

    pc: int
    is_jump: bool
    is_number: bool
    is_kept: bool
    was_false: bool
    was_true: bool
    producers: Sequence[Collection[int]] = ()
    operands: tuple[Hashes, ...] = ()
    results: tuple[Hashes, ...] = ()
    values: tuple[tuple[Hashes, Hashes, Hashes], ...] = ()


@dataclass(frozen=True, slots=True)
class SimResult:
    """The outcome of one run.

    `cycles` is 0 without timing; after "slower_than_limit", it is the cycle at which the run was
    stopped. `outputs` contains the bytes of every region (`run_kernel`) or of every range to read
    (`run_program`) after the run. `breakdown` and `hotspots` are empty without timing; see
    `causes.CAUSES`. `phases` divide the cycles of the causes in `EXCLUSIVE` into those before the
    array's first busy cycle, parts with equal numbers of busy cycles (the last one may be shorter),
    and those after the last busy cycle. `gaps` are the longest gaps, at most 16, in the order of
    time. `executed` is the number of executions of the instruction at each address, and `computes`
    the number of commands with which the array computes. `scratchpad_kb` and `accumulator_kb` are
    the sizes of all rows that were written. `pc` is the instruction at which the program stopped.
    `later_outputs` are the outputs of each further call, and `finished` is the number of calls that
    ended without a fault or timeout. `cpu_read_data` is true if the CPU read an argument, a static
    variable, memory that the accelerator wrote, or a byte of the stack that was not written before.
    """

    status: Status
    cycles: int
    instructions: int
    macs: int
    utilization: float
    scratchpad_kb: float
    accumulator_kb: float
    outputs: tuple[bytes, ...]
    fault: Fault | None = None
    breakdown: Mapping[str, int] = field(default_factory=dict)
    hotspots: tuple[Hotspot, ...] = ()
    bank_losses: tuple[BankLoss, ...] = ()
    unordered: tuple[Unordered, ...] = ()
    pc: int = 0
    phases: tuple[Mapping[str, int], ...] = ()
    gaps: tuple[Gap, ...] = ()
    executed: tuple[tuple[int, int], ...] = ()
    computes: int = 0
    later_outputs: tuple[tuple[bytes, ...], ...] = ()
    finished: int = 0
    cpu_read_data: bool = False
    conditions: tuple[Condition, ...] = ()


def run_kernel(
    config: SimConfig,
    elf: bytes,
    regions: Sequence[Region],
    *,
    later: Sequence[Sequence[Buffer]] = (),
    symbol: str = "kernel",
    timing: bool = True,
    ordering: Ordering = "fence",
    every_cycle: bool = False,
    limit_cycles: int | None = None,
    max_instructions: int = 2_000_000_000,
    max_host_s: float | None = None,
    joins: Mapping[int, int] | None = None,
) -> SimResult:
    """Call `symbol` with the regions' addresses in a0..a7 (at most 8), beginning with empty caches.

    With timing, a DRAM access that overtakes an earlier one to the same bytes, because no fence
    orders the two, is the fault "raced_dram_access". An access that could have overtaken the
    earlier one, but did not, is a fault with `ordering` "fence", and an entry of `unordered` with
    "timing". Without timing, neither is reported with "timing". Cycles are counted from before the
    kernel's first instruction to after an implicit fence at its end. A run that exceeds
    `limit_cycles` stops with "slower_than_limit", one that exceeds `max_instructions` or
    `max_host_s` (wall seconds) with "timeout". `every_cycle` is that of `run_program`. If `later`
    contains further contents of the regions, the kernel is called with each of them in the same
    memory, without timing, and after a reset of the accelerator. A fault or timeout in one of these
    calls is reported as that of the run. With `joins`, the result has the `conditions` of all
    calls. `joins` are the addresses at which both ways of a branch meet, by the branch's address;
    those of other branches meet when their function returns. Raises `InputError` for an ELF file or
    regions that cannot be loaded.
    """
    try:
        raw = _cosim.run_kernel(
            dict(config.parameters),
            elf,
            [(r.address, r.data, r.writable, r.name, r.given) for r in regions],
            [list(call) for call in later],
            symbol,
            timing,
            ordering == "timing",
            every_cycle,
            limit_cycles,
            max_instructions,
            max_host_s,
            None if joins is None else list(joins.items()),
        )
    except ValueError as error:
        raise InputError(f"cannot load the kernel: {error}.") from error
    except RuntimeError as error:
        raise InternalError(f"the co-simulator failed: {error}.") from error
    outputs = _outputs(regions, [r.data for r in regions], raw["outputs"])
    return replace(
        _result(config, raw, outputs),
        later_outputs=tuple(
            _outputs(regions, contents, written)
            for contents, written in zip(later, raw["later_outputs"], strict=False)
        ),
        finished=raw["finished"],
        cpu_read_data=raw["cpu_read_data"],
        conditions=tuple(
            Condition(*condition, *zip(*calls, strict=True))
            for *condition, calls in raw["conditions"]
        ),
    )


def _outputs(
    regions: Sequence[Region], contents: Sequence[Buffer], written: Sequence[bytes]
) -> tuple[bytes, ...]:
    """The bytes of every region after a call, of which only the writable ones were read back."""
    found = iter(written)
    return tuple(
        next(found) if region.writable else bytes(data)
        for region, data in zip(regions, contents, strict=True)
    )


def run_program(
    config: SimConfig,
    elf: bytes,
    segments: Sequence[tuple[int, Buffer]] = (),
    *,
    read: Sequence[tuple[int, int]] = (),
    timing: bool = True,
    every_cycle: bool = False,
    max_instructions: int = 2_000_000_000,
) -> SimResult:
    """Run a bare-metal program from its entry until it stores to the symbol `tohost`.

    `segments` are contents of memory by address: they initialise memory that the program reserves,
    or are additional read-only memory. Cycles are those between the program's first two reads of
    mcycle. `outputs` holds the (address, size) ranges of `read`. With `every_cycle`, cycles in
    which nothing changes are simulated instead of skipped, which is slower and gives the same
    result.
    """
    try:
        raw = _cosim.run_program(
            dict(config.parameters),
            elf,
            list(segments),
            list(read),
            timing,
            every_cycle,
            max_instructions,
        )
    except ValueError as error:
        raise InputError(f"cannot load the program: {error}.") from error
    except RuntimeError as error:
        raise InternalError(f"the co-simulator failed: {error}.") from error
    return _result(config, raw, tuple(raw["outputs"]))


def _result(config: SimConfig, raw: dict[str, Any], outputs: tuple[bytes, ...]) -> SimResult:
    peak = raw["cycles"] * config["array_dim"] ** 2
    return SimResult(
        status=raw["status"],
        cycles=raw["cycles"],
        instructions=raw["instructions"],
        pc=raw["pc"],
        macs=raw["macs"],
        utilization=raw["macs"] / peak if peak else 0.0,
        scratchpad_kb=raw["scratchpad_bytes"] / 1024,
        accumulator_kb=raw["accumulator_bytes"] / 1024,
        outputs=outputs,
        fault=Fault(*raw["fault"]) if raw["fault"] else None,
        breakdown=raw["breakdown"],
        hotspots=tuple(Hotspot(*h) for h in raw["hotspots"]),
        bank_losses=tuple(BankLoss(*loss) for loss in raw["bank_losses"]),
        unordered=tuple(Unordered(*u) for u in raw["unordered"]),
        phases=tuple(dict(zip(EXCLUSIVE, cycles, strict=True)) for cycles in raw["phases"]),
        gaps=tuple(Gap(*gap) for gap in raw["gaps"]),
        executed=tuple(raw["executed"]),
        computes=raw["computes"],
    )
