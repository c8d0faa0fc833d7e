"""Runs a kernel on the CPU in a sandboxed process, and reads the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tilewright.core.records import Argument, Failed
from tilewright.parts.debug_lines import line_or_call
from tilewright.parts.inputs import Array, bytes_of
from tilewright.parts.untested_conditions import is_same_in_all
from tilewright.sandbox import Limits, Sandbox, open_folder, read_output
from tilewright.targets.cuda.faults import failed_by, unset_by
from tilewright.targets.cuda.variables import variable_at

ORDERS = ("forward", "reversed", "shuffled")
"""The orders in which the threads of a block and the blocks of a launch can run."""
OLD_BYTES = (0xFF, 0x7B, 0xFB)
"""Bytes of memory that a call has not written: NaN, huge numbers, or negative ones of large
magnitude, in every type of numbers. A maximum, a minimum or a condition that uses such memory is
wrong with at least one of them."""
_ADDRESSES = 1 << 46
"""Bytes of address space. The address sanitizer reserves all of it and uses only a little."""
_MEMORY = 3 << 30
_MOST_REPORT, _MOST_RECORDS = 1 << 20, 16 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a kernel: the values of all arguments before the call, and the order of its
    threads.

    The run has this `share` of the blocks, chosen by the seed. Before the call, each element of an
    output is changed with the byte `fill`, by exclusive or with its highest byte. Shared memory and
    allocated arrays contain the byte `old` until something is written to them. The device that the
    kernel sees is drawn with the seed. A `large` one has at least 40 multiprocessors and fast
    functions that are as inexact as CUDA allows. In the program that records, all runs have their
    arrays at the same addresses, except for those whose arrays are `moved`. With shuffled threads,
    other threads and another block may run before each atomic operation, unless each block runs
    `alone`.
    """

    initial: Mapping[str, Array]
    order: str
    seed: int = 0
    share: float = 1.0
    fill: int = 0
    old: int = OLD_BYTES[0]
    large: bool = False
    moved: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """The parameters of one launch."""

    name: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True, slots=True)
class Part:
    """The number of a launch's blocks that were run, and the maximum number of output elements that
    one block wrote."""

    blocks: int
    of: int
    written: Mapping[str, int]


class Condition(NamedTuple):
    """A condition on loaded values: its place in the kernel, its line, and which results it had.

    Of a number that is computed without a condition, `was_false` says whether there was one,
    `was_true` whether there was a different one, and `first` is the first one. `sequences` are
    hashes, one for each call, of all results in their order; None if they are not recorded.
    """

    place: str
    line: int | None
    was_false: bool
    was_true: bool
    is_number: bool = False
    first: int | None = None
    sequences: tuple[int, ...] | None = None

    def with_more(self, later: Condition) -> Condition:
        """The same condition with the results that it had in later calls."""
        differs = None not in (self.first, later.first) and self.first != later.first
        sequences = None
        if self.sequences is not None and later.sequences is not None:
            sequences = self.sequences + later.sequences
        return self._replace(
            was_false=self.was_false or later.was_false,
            was_true=self.was_true or later.was_true or differs,
            first=later.first if self.first is None else self.first,
            sequences=sequences,
        )

    @property
    def is_alone(self) -> bool:
        """Whether it had the same result whenever it was reached."""
        return self.was_false != self.was_true

    @property
    def is_alike(self) -> bool:
        """Whether it had the same results in the same order in all calls."""
        return is_same_in_all(self.sequences or ())

    @property
    def is_settled(self) -> bool:
        """Whether further calls cannot show that it is untested."""
        differs = self.sequences is None or len(set(self.sequences)) > 1
        return differs and self.was_false and self.was_true


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outputs of every completed run by name, the launches of the first run, and the failure.

    `failed` is None if all runs were completed, and `part` is None if the first run had all blocks.
    `unset` is the first read of an element that nothing had written, if accesses were recorded.
    `conditions` are those on loaded values, if they were recorded. `records` is what the program
    that records conditions wrote.
    """

    outputs: tuple[Mapping[str, bytes], ...]
    launches: tuple[Launch, ...]
    failed: Failed | None
    part: Part | None = None
    unset: Failed | None = None
    conditions: tuple[Condition, ...] = ()
    records: bytes = b""


CHANGED_ANSWERS = Failed(
    "check",
    "crash",
    "the program that runs the kernel on the CPU gave incomplete answers, because the kernel "
    "changed its memory or replaced its functions.",
)


def run_on_cpu(
    program: bytes,
    sandbox: Sandbox,
    arguments: Sequence[Argument],
    sizes: Sequence[int],
    runs: Sequence[Run],
    timeout_s: float,
) -> RunResult:
    """Execute all runs in one process, one after the other."""
    with open_folder("tilewright-cuda-") as name:
        folder = Path(name)
        (folder / "program").write_bytes(program)
        (folder / "program").chmod(0o755)
        offsets = write_inputs(folder / "inputs.bin", arguments, runs)
        written = bytes_of(a for a in arguments if a.is_written)
        lines = [str(len(arguments))]
        lines += [f"{bytes_of([a])} {_itemsize(a) if a.is_written else 0}" for a in arguments]
        lines += [" ".join(map(str, (len(sizes), *sizes))), str(len(runs))]
        lines += [
            f"{offset} {ORDERS.index(run.order)} {run.seed & (1 << 63) - 1} {run.share} {run.fill} "
            f"{run.old} {run.large:d} {run.moved:d} {run.alone:d}"
            for offset, run in zip(offsets, runs, strict=True)
        ]
        (folder / "job.txt").write_text("\n".join(lines) + "\n")
        bounds = Limits(
            timeout_s,
            memory_bytes=_ADDRESSES,
            total_memory_bytes=_MEMORY,
            file_bytes=max(1 << 24, 2 * written * len(runs)),
            total_file_bytes=4 << 30,
        )
        finished = sandbox.run(["./program"], folder, bounds)
        report = _report(folder / "report.txt")
        records = _records(folder / "records.bin")
        outputs = read_outputs(folder / "outputs.bin", arguments, written * len(runs))
    ended = any(row == ["done"] for row in report) and finished.status == 0
    failed = None

    def line_of(pc: int) -> int | None:
        return line_or_call(program, pc, "kernel.cu")

    def name_of(address: int) -> str:
        name = variable_at(program, address)
        return f"the variable {name}" if name else "a variable"

    if finished.status is None:
        log = (
            f"the kernel was stopped after {timeout_s:g} s on the CPU, where a kernel that waits "
            "for other blocks never ends."
        )
        failed = Failed("check", "timeout", log)
    elif not ended:
        said = finished.output.decode(errors="replace")[-500:]
        failed = failed_by(report, arguments, line_of, name_of, said)
    elif len(outputs) < len(runs):
        failed = CHANGED_ANSWERS
    try:
        unset = unset_by(report, arguments, line_of)
        launches, part = _launches(report), _part(report, arguments)
    except (IndexError, KeyError, ValueError):
        return RunResult(tuple(outputs), (), failed or CHANGED_ANSWERS)
    return RunResult(tuple(outputs), launches, failed, part, unset, records=records)


def _records(path: Path) -> bytes:
    """What the program recorded; empty if it does not record or has not ended."""
    try:
        return read_output(path, _MOST_RECORDS)
    except OSError:
        return b""


def _itemsize(argument: Argument) -> int:
    return np.dtype(argument.dtype).itemsize


def _part(report: Sequence[Sequence[str]], arguments: Sequence[Argument]) -> Part | None:
    """The part of the first run, if it had only some of the blocks."""
    numbers = {row[0]: row[1:] for row in report if row[0] == "part" and len(row) == 3}
    if not numbers:
        return None
    rows = [row for row in report if row[0] == "wrote" and len(row) == 3]
    written = {arguments[int(index)].name: int(most) for _, index, most in rows}
    return Part(int(numbers["part"][0]), int(numbers["part"][1]), written)


def write_inputs(path: Path, arguments: Sequence[Argument], runs: Sequence[Run]) -> list[int]:
    """Write the arrays and return their offsets for each run. Runs with the same arrays share
    them."""
    at: dict[int, int] = {}
    offsets = []
    with path.open("wb") as file:
        for run in runs:
            if id(run.initial) not in at:
                at[id(run.initial)] = file.tell()
                for argument in arguments:
                    file.write(run.initial[argument.name].tobytes())
            offsets.append(at[id(run.initial)])
    return offsets


def _report(path: Path) -> list[list[str]]:
    """The words of each row of a report; empty if it cannot be read."""
    try:
        text = read_output(path, _MOST_REPORT).decode(errors="replace")
    except OSError:
        return []
    return [line.split("\t") for line in text.split("\n") if line]


def read_outputs(path: Path, arguments: Sequence[Argument], most: int) -> list[dict[str, bytes]]:
    """Outputs of the completed runs, in order."""
    try:
        data = read_output(path, most)
    except OSError:
        return []
    found, at = list[dict[str, bytes]](), 0
    written = [(a.name, bytes_of([a])) for a in arguments if a.is_written]
    while at + sum(size for _, size in written) <= len(data) and written:
        outputs = {}
        for name, size in written:
            outputs[name] = data[at : at + size]
            at += size
        found.append(outputs)
    return found


def _launches(report: Sequence[Sequence[str]]) -> tuple[Launch, ...]:
    """The launches of the first run."""
    found = []
    for row in report:
        if row[0] == "run" and row[1] != "0":
            break
        if row[0] == "launch" and len(row) == 10:
            numbers = [int(word) for word in row[2:]]
            grid, block = tuple(numbers[1:4]), tuple(numbers[4:7])
            found.append(Launch(row[1], numbers[0], grid, block, numbers[7]))  # type: ignore[arg-type]
    return tuple(found)
