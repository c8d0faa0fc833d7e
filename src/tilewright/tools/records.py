"""What the tools answer. All are frozen and hold plain values, so that each is one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Checked:
    """Whether a kernel builds and keeps the rules of its target; nothing of it ran.

    `error` is the first one alone, at `line` of the kernel where that is known.
    """

    candidate: str
    builds: bool
    kind: str = ""
    line: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A measured kernel beside another one: positive numbers are what it takes more.

    `latency` and `causes` are in the unit of the latency, `share` is of the other's latency.
    """

    other: str
    latency: float
    share: float
    causes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What became of a kernel: `verdict` is "correct", or the kind of failure in `stage`.

    `trial` is its place in the run; `known` says that it was evaluated before, so that it cost
    nothing now. `left` is how many evaluations may still be spent, None for any number. `noise` is
    half the interquartile range of a measured latency's samples over their median, 0 where it
    repeats. `to_best` is beside the best kernel that was known before this one.
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
    """Several kernels beside one they were made from, in the order given.

    `best` was the best kernel before these, where that is another one: `to_best` is beside it.
    """

    parent: str
    kernels: tuple[Evaluated, ...]
    best: str = ""


@dataclass(frozen=True, slots=True)
class ProfiledLine:
    """One line of a kernel, and what was counted there, by name."""

    line: int
    text: str
    counts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProfiledPhase:
    """What a part of a kernel's time goes to, by cause."""

    when: str
    causes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProfiledGap:
    """A stretch of time without useful work: most of it has this cause, at this line."""

    start: float
    length: float
    cause: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Profiled:
    """Where a measured kernel's time goes: `causes` in `unit` and `counters`, all absolute.

    Each unit of time has exactly one of the causes that are `exclusive`, which add up to the
    latency; all others overlap with these. `phases` split the exclusive ones. `lines` are those
    that the target could tell apart, with every cause and counter; of more than are told,
    `lines_left_out` with the least. `notes` is what the target says in words. `gaps` are the
    longest stretches without useful work, in order of time.
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
    """One loop of a kernel's machine code, as `core.compiled_code.CodeLoop` says.

    `count` are the instructions of one iteration, `text` is the source line. `per_command` are the
    instructions of an iteration for each of its accelerator commands, None where it has none.
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
    """A kernel's machine code by its loops, and a listing.

    `listed` is the number of the loop that is listed, None for none; `title` says what is. A row of
    `listing` holds the instructions of one source line, and of one 64 bytes of code, as
    `*address line: instruction; instruction`, with `*` where 64 bytes begin. The instructions
    that are `left_out` are not shown.
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
    """One number or word about the machine, where it comes from, and what it means."""

    name: str
    value: str
    source: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the machine; `costs` says in words what decides between kernels."""

    target: str
    facts: tuple[Fact, ...]
    costs: str
    rules: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One kernel made from another, and how it ended; `share` is of the other's latency."""

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
    """What was tried from a kernel, oldest first; `earlier` ones are left out.

    `beside` are the latest kernels made from the one that it was made from. All shares are of this
    kernel's latency.
    """

    candidate: str
    attempts: tuple[Attempt, ...]
    earlier: int = 0
    beside: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change the built-in rewriter can make; `time` is its estimate, a share of the time now."""

    step: str
    what: str
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Rewrites:
    """The rewrites that apply to a kernel, and what of it is not understood.

    `incomplete` says why there may be more, "" where these are all.
    """

    candidate: str
    rewrites: tuple[Rewrite, ...]
    left_alone: tuple[str, ...] = ()
    incomplete: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A kernel after some rewrites, which is not evaluated yet."""

    candidate: str
    done: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A kernel's whole source."""

    candidate: str
    source: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """The kernel that its author settled on, as it was evaluated."""

    kernel: Evaluated


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that could not be carried out: one sentence on what was wrong with it."""

    reason: str


Answer: TypeAlias = (
    Checked | Evaluated | Compared | Profiled | Assembly | Facts | Tried | Rewrites | Rewritten
    | Shown | Submitted | Refused
)  # fmt: skip


def answer_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain JSON, with its kind under "answer"; what it does not have is left out."""
    return {"answer": type(answer).__name__.lower(), **_filled(asdict(answer))}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {
        name: _filled(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None and value != "" and value != {} and value != ()
    }
