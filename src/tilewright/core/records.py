"""The records that flow through a run, one way::

    Workload -> Plan -> Candidate -> Artifact -> Verdict -> Measured | Failed -> Trial -> storage
                  ^                                                              |
                  +------------------------- History (read-only) <---------------+

All are frozen and import only the standard library; `to_json`/`from_json` in `core.codec`
turn them into plain JSON for storage and for worker processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

ArgumentRole = Literal["input", "output", "inout"]
"""`inout`: given like an input, written by the kernel, and compared whole like an output."""
Stage = Literal["build", "check", "measure"]
FailureKind = Literal[
    "compile_error",  # the compiler rejected the source
    "link_error",  # the source calls something that is not there, or has no `kernel`
    "illegal_instruction",  # the CPU or the accelerator met an instruction it does not have
    "illegal_address",  # a CPU or DMA access outside the kernel's arguments, code and stack
    "local_out_of_bounds",  # scratchpad or accumulator rows that do not exist
    "limit_exceeded",  # rows, columns or strides over what a command may carry
    "uninitialised_read",  # a local row was read before it was ever written
    "unordered_dram_read",  # DRAM was read after an accelerator store to it, without a fence
    "unordered_dram_write",  # DRAM was written after an accelerator access to it, without a fence
    "raced_dram_access",  # such an access overtook the earlier one in the modelled time
    "wrong_result",  # the output differs from the reference
    "input_modified",  # the kernel wrote to one of its inputs
    "forbidden_call",  # the kernel asked the operating system for something (a thread, a file)
    "non_deterministic",  # the same binary gave two different results
    "slower_than_limit",  # simulation stopped: it can no longer be kept
    "timeout",  # a stage ran out of wall time or instructions and was killed
    "crash",  # the evaluating process died
    "invalid",  # measured faster than the hardware could be
    "unconfirmed",  # rebuilt and run on fresh inputs, it was wrong or slower
    "no_result",  # a program that ran outside gave no result, or one that is not its own
]


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the kernel takes, in the order of its parameters (row-major, C layout)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: ArgumentRole

    @property
    def is_given(self) -> bool:
        """Whether the kernel finds values there; an output holds nothing of use before."""
        return self.role != "output"

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it and the result is compared."""
        return self.role != "input"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Accepted difference from the reference: |got - expected| <= absolute + relative*|expected|.

    Both zero means bit-exact.
    """

    absolute: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What a kernel must compute, on which target, over which arrays.

    `operations` is the number of useful multiply-accumulates: the ideal cycle count of an
    array of P units is `operations / P`, the basis of every utilisation reported.
    `source` says where the task comes from: a registered name or a folder's absolute path.
    """

    name: str
    target: str
    arguments: tuple[Argument, ...]
    operations: int
    tolerance: Tolerance = Tolerance()
    source: str = ""


@dataclass(frozen=True, slots=True)
class MenuOption:
    """One optimisation of a target's menu.

    `id` is stable and appears in plans; `text` is what a proposer reads; `technique` names the
    built-in rewriter's transformation, empty where only a language model can carry it out.
    `kinds` are the workloads it is for, by the first word of their names; empty for all.
    """

    id: str
    text: str
    technique: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandEffect:
    """What one accelerator command reads, writes or configures, as the target declares it.

    `operands` are in the order of the macro's parameters, each one of the roles documented in
    docs/targets.md. The rewriter and the hazard checks know commands only through this.
    """

    name: str
    operands: tuple[str, ...]
    unit: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example for language models, shown when a plan's text holds one of the triggers."""

    name: str
    triggers: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class TargetBrief:
    """Everything a proposer may know about a target; it never receives the evaluator."""

    name: str
    isa: str
    rules: str
    menu: tuple[MenuOption, ...]
    commands: tuple[CommandEffect, ...]
    limits: Mapping[str, int]
    constants: Mapping[str, int]
    examples: tuple[Example, ...] = ()

    def menu_for(self, workload: Workload) -> tuple[MenuOption, ...]:
        """The options for a workload's kind; all of them for a folder's own kernel.

        The kind is the first word of a registered name: `gemm` of `gemm-512x512x512`.
        """
        if Path(workload.source).is_absolute():
            return self.menu
        kind = workload.source.partition("-")[0]
        return tuple(o for o in self.menu if not o.kinds or kind in o.kinds)


@dataclass(frozen=True, slots=True)
class Brief:
    """What a proposer is given for one step: workload, target and the menu after dropout.

    `rank` is the parent's place in the beam, 0 for the best. `schedule` is what an earlier run
    found for a similar workload, if the user named one.
    """

    workload: Workload
    target: TargetBrief
    menu: tuple[MenuOption, ...]
    iteration: int
    iterations: int
    rank: int = 0
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One optimisation to make on one parent: the menu option and how to apply it, in words.

    `parameters` is for proposers that implement their own plans (the rewriter); the one named
    `base` is the candidate the plan starts from where that is not the parent. `expected` says which
    quantity the plan should save and by how much, empty when unknown; `expected_gain` is the
    speedup over the parent that its author foresees, None when unknown.
    """

    parent_id: str
    option: str
    text: str
    proposer: str
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    expected: str = ""
    expected_gain: float | None = None

    @property
    def id(self) -> str:
        """Content hash of parent, option, text and parameters."""
        items = sorted((k, str(v)) for k, v in self.parameters.items())
        return content_id(self.parent_id, self.option, self.text, repr(items))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plans that led an earlier run from its starting kernel to its best one, in order.

    `latencies` are in `unit`: that of the starting kernel, then of the kernel after each plan.
    """

    workload: str
    plans: tuple[Plan, ...]
    latencies: tuple[float, ...]
    unit: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Code of a kernel that a proposer cannot work on: its line, its first line, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel's full source and where it comes from. Two equal sources are one candidate."""

    source: str
    parent_id: str | None = None
    plan: Plan | None = None
    proposer: str = "start"

    @property
    def id(self) -> str:
        """Content hash of the source (16 hexadecimal digits)."""
        return content_id(self.source)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A candidate to evaluate; measuring may stop once it exceeds `limit_latency`."""

    candidate: Candidate
    limit_latency: float | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A built candidate: the exact bytes that are checked and measured, and what built them.

    `source` is its text, for a runner that builds it once more to look into it; empty where none
    does.
    """

    candidate_id: str
    binary: bytes
    toolchain: str
    source: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the binary."""
        return hashlib.sha256(self.binary).hexdigest()


@dataclass(frozen=True, slots=True)
class Check:
    """One passed comparison with the reference: input seed and value distribution."""

    seed: int
    distribution: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks a candidate passed. A check that does not pass is a `Failed` instead."""

    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A correct, measured candidate.

    `latency` is in `unit` ("cycles" or "ns"); `quantity` says what kind of number it is
    ("simulated", "measured" or "modelled"). `utilization` is useful operations over the array's
    peak, 0..1. `breakdown` says where cycles went; `details` holds further numbers (instructions,
    kilobytes touched). `versions` pins compiler, simulator, configuration and binary. `feedback`
    says in words what costs most and where, for whoever proposes the next step. `sandbox` names
    what contained whatever was built or run natively, empty where the target names none.
    `warnings` are sentences on what may make the result differ on hardware. `noise` is half the
    interquartile range of a measured latency's samples over their median, 0 where it repeats.
    `samples` are the raw measurements in `unit` behind a measured latency, by series, in the order
    taken; empty where nothing was measured.
    """

    latency: float
    unit: str
    quantity: str
    utilization: float
    verdict: Verdict
    breakdown: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    artifact_digest: str = ""
    feedback: str = ""
    sandbox: str = ""
    warnings: tuple[str, ...] = ()
    noise: float = 0.0
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that did not make it: which stage, what kind, the log, the source line.

    `bound` is set for "slower_than_limit": the latency it is known to exceed. `sandbox` is that of
    `Measured`.
    """

    stage: Stage
    kind: FailureKind
    log: str
    line: int | None = None
    bound: float | None = None
    sandbox: str = ""


Outcome: TypeAlias = Measured | Failed


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What a task's check made of one deliberately wrong kernel, before any budget was spent.

    `text` says what the kernel does, `log` how it was told from a right one, `remedy` what to
    change in the task if it was not.
    """

    name: str
    text: str
    verdict: Literal["rejected", "accepted", "does not apply"]
    log: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """A correct run of a kernel on a simulator beside the embedded one.

    `cycles` is None where the simulator checks function only.
    """

    simulator: str
    cycles: float | None
    instructions: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """A kernel that results are compared with: evaluated like a candidate, but not one of a run.

    `name` is the target's ("naive", "library", "tuned", "fsm"), `candidate_id` the content id.
    """

    name: str
    candidate_id: str
    outcome: Outcome

    @property
    def latency(self) -> float | None:
        """Latency if measured, else None."""
        return self.outcome.latency if isinstance(self.outcome, Measured) else None

    @property
    def utilization(self) -> float | None:
        """Utilisation if measured, else None."""
        return self.outcome.utilization if isinstance(self.outcome, Measured) else None


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluated candidate of a run. `index` counts from 0, the starting kernel."""

    index: int
    iteration: int
    candidate: Candidate
    outcome: Outcome
    wall_s: float = 0.0
    cached: bool = False

    @property
    def latency(self) -> float | None:
        """Latency if measured, else None."""
        return self.outcome.latency if isinstance(self.outcome, Measured) else None


class History(Sequence[Trial]):
    """Read-only view of a run's trials in the order they were recorded."""

    def __init__(self, trials: Sequence[Trial] = ()) -> None:
        self._trials = tuple(trials)
        self._by_id = {t.candidate.id: t for t in reversed(self._trials)}

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Trial at `index` (or a tuple of trials for a slice)."""
        return self._trials[index]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def get(self, candidate_id: str) -> Trial | None:
        """First trial of the candidate with this content id."""
        return self._by_id.get(candidate_id)

    def extended(self, trials: Sequence[Trial]) -> History:
        """A new history with `trials` appended."""
        return History(self._trials + tuple(trials))

    @property
    def baseline(self) -> Trial | None:
        """The starting kernel's trial, if it was evaluated."""
        return self._trials[0] if self._trials else None

    @property
    def best(self) -> Trial | None:
        """The measured trial of lowest latency; the earliest on ties."""
        measured = [t for t in self._trials if t.latency is not None]
        return min(measured, key=lambda t: (t.latency, t.index), default=None)

    def lineage(self, candidate_id: str) -> list[Trial]:
        """Trials from the starting kernel to this candidate, in order."""
        chain: list[Trial] = []
        current = self.get(candidate_id)
        seen: set[str] = set()
        while current is not None and current.candidate.id not in seen:
            chain.append(current)
            seen.add(current.candidate.id)
            parent = current.candidate.parent_id
            current = self.get(parent) if parent else None
        return chain[::-1]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's identity: what was asked, with which settings, by which versions.

    `task` is the workload's registered name or folder; `settings` the full configuration
    (JSON-compatible), of which `identity` is a hash, so the same command finds its run again.
    """

    id: str
    task: str
    target: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    created_at: str
    status: Literal["running", "finished", "interrupted"] = "running"
    stop_reason: str = ""
    wall_s: float = 0.0

    @property
    def identity(self) -> str:
        """Hash of task and settings."""
        return content_id(self.task, repr(sorted(self.settings.items(), key=lambda kv: kv[0])))


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call to a model, as a run keeps it.

    `cached` calls were answered from an earlier run's reply and cost this run nothing. Tokens and
    dollars are None where they are unknown; `counted_usd` and `counted_tokens` are what the budget
    counted: the same, or the reservation. A call that is still "intended" in a run that has stopped
    was under way then: it cost at most what is counted. `served_by` is the model's own name for
    itself, `note` why a call failed or its reply could not be used.
    """

    run_id: str
    key: str
    model: str
    phase: str
    state: Literal["intended", "replied", "failed"] = "intended"
    cached: bool = False
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usd: float | None = None
    counted_usd: float = 0.0
    counted_tokens: int = 0
    served_by: str = ""
    attempts: int = 1
    note: str = ""


def content_id(*parts: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the parts, with lengths mixed in."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
