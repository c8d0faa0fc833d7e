"""The answers of the tools. All records are frozen and contain plain values, so each of them is one
JSON object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a kernel compiles and obeys the rules of its target. Its results are not compared.

    `kind` is empty if nothing wrong was found. A kernel that builds may break a rule when it runs,
    which only some targets can find. `error` is the first error, at `line` of the kernel if the
    line is known.
    """

    candidate: str
    builds: bool
    kind: str = ""
    line: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a measured kernel and another one; positive numbers mean that it takes
    longer.

    `latency` and `causes` are in the unit of the latency, `share` is of the other's latency.
    """

    other: str
    latency: float
    share: float
    causes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The outcome of a kernel: `verdict` is "correct", or the kind of failure in `stage`.

    `trial` is its position in the run. `known` is true if it was evaluated before, so that this
    call cost nothing. `left` is the number of evaluations that are left; None if there is no limit.
    `noise` is half the interquartile range of a measured latency's samples divided by their median;
    0 if latencies repeat exactly. `to_best` is the difference from the best kernel that was known
    before this one.
    """

    candidate: str
    trial: int
    verdict: str
    known: bool = False
    latency: float | None = None
    unit: str = ""
    quantity: str = ""
    utilization: float | None = None
    bound: float | None = None
    to_parent: Difference | None = None
    to_best: Difference | None = None
    stage: str = ""
    line: int | None = None
    error: str = ""
    left: int | None = None
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class Compared:
    """Several kernels, compared with the kernel from which they were made, in the given order.

    `best` was the best kernel before these, if it is a different kernel; `to_best` is the
    difference from it.
    """

    parent: str
    kernels: tuple[Evaluated, ...]
    best: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledLine:
    """One source line of a kernel, and its counts by name."""

    line: int
    text: str
    counts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProfiledPhase:
    """One phase of a kernel's time, by cause."""

    when: str
    causes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProfiledGap:
    """A period without useful work, most of which has this cause, at this line."""

    start: float
    length: float
    cause: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Profiled:
    """The profile of a measured kernel: its time by `causes` in `unit`, and `counters`, all in
    absolute numbers.

    Each unit of time has exactly one of the `exclusive` causes, which add up to the latency; all
    other causes overlap with them. `phases` divide the exclusive causes. `lines` are source lines
    with all their causes and counters; `lines_left_out` is the number of further lines, those with
    the lowest counts. `notes` are notes of the target. `gaps` are the longest periods without
    useful work, in the order of time.
    """

    candidate: str
    latency: float
    unit: str
    quantity: str
    causes: Mapping[str, float]
    counters: Mapping[str, float]
    lines: tuple[ProfiledLine, ...]
    notes: str
    exclusive: tuple[str, ...] = ()
    phases: tuple[ProfiledPhase, ...] = ()
    lines_left_out: int = 0
    gaps: tuple[ProfiledGap, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopCode:
    """One loop of a kernel's machine code, as in `core.compiled_code.CodeLoop`.

    `count` is the number of instructions of one iteration, and `text` the source line.
    `per_command` is the number of instructions per accelerator command; None if the loop has no
    commands.
    """

    loop: int
    line: int | None
    text: str
    depth: int
    innermost: bool
    straight: bool
    count: int
    instructions: Mapping[str, int]
    per_command: float | None
    code_bytes: int
    reads: int
    spill_loads: int
    spill_stores: int
    extensions: int
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """The loops of a kernel's machine code, and a listing.

    `listed` is the number of the listed loop, or None; `title` describes the listing. A row of
    `listing` contains instructions of one source line and of one 64-byte block, as `*address line:
    instruction; instruction`, with `*` at the beginning of a block. `left_out` is the number of
    instructions that are not shown.
    """

    candidate: str
    architecture: str
    instructions: int
    code_bytes: int
    loops: tuple[LoopCode, ...]
    notes: tuple[str, ...] = ()
    listed: int | None = None
    listing: tuple[str, ...] = ()
    left_out: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number or word about the machine, with its source and its meaning."""

    name: str
    value: str
    source: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the machine; `costs` describes the costs of operations."""

    target: str
    facts: tuple[Fact, ...]
    costs: str
    rules: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One kernel that was made from another kernel, with its result; `share` is relative to the
    other kernel's latency.
    """

    candidate: str
    trial: int
    author: str
    option: str
    what: str
    verdict: str
    latency: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """The kernels that were made from a kernel, oldest first; `earlier` is the number of older ones
    that are left out.

    `siblings` are the latest kernels that were made from its parent. All shares are relative to
    this kernel's latency.
    """

    candidate: str
    attempts: tuple[Attempt, ...]
    earlier: int = 0
    siblings: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change that the built-in rewriter can make; `time` is the estimated time after it, as a
    share of the present time.
    """

    step: str
    what: str
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Rewrites:
    """The rewrites that apply to a kernel, and the code that the rewriter does not understand.

    `incomplete` gives the reason if there may be further rewrites, and is "" if the list is
    complete.
    """

    candidate: str
    rewrites: tuple[Rewrite, ...]
    left_alone: tuple[str, ...] = ()
    incomplete: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A kernel after some rewrites, which has not been evaluated."""

    candidate: str
    done: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The whole source of a kernel."""

    candidate: str
    source: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """The kernel that its author submitted, with its outcome."""

    kernel: Evaluated


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that could not be carried out, with one sentence that gives the reason."""

    reason: str


Answer: TypeAlias = (
    Checked | Evaluated | Compared | Profiled | Assembly | Facts | Tried | Rewrites | Rewritten
    | Shown | Submitted | Refused
)  # fmt: skip


def answer_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain JSON, with its class as "answer", without empty fields."""
    return {"answer": type(answer).__name__.lower(), **_filled(asdict(answer))}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not empty."""
    return {
        name: _filled(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None and value != "" and value != {} and value != ()
    }
