"""The records that flow through a run, one way::

    Workload -> Plan -> Candidate -> Artifact -> Verdict -> Measured | Failed -> Trial -> storage
                  ^                                                              |
                  +------------------------- History (read-only) <---------------+

All are frozen and import only the standard library; `to_json`/`from_json` in `core.codec`
turn them into plain JSON for storage and for worker processes.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, get_args

from tilewright.core.templates import TemplateNotation

ArgumentRole = Literal["input", "output", "inout"]
"""`inout`: given like an input, written by the kernel, and compared whole like an output."""
Stage = Literal["build", "check", "measure"]
GeneralFailure = Literal[
    "compile_error",  # the compiler rejected the source
    "link_error",  # the source calls something that is not there, or has no `kernel`
    "illegal_instruction",  # the CPU or the accelerator met an instruction it does not have
    "illegal_address",  # a CPU or DMA access outside the kernel's arguments, code and stack
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
"""Kinds of failure that any target may have; a target's brief declares those of its own."""
GENERAL_FAILURES: frozenset[str] = frozenset(get_args(GeneralFailure))
FailureKind: TypeAlias = str
"""A `GeneralFailure`, or one that the target's brief declares."""


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

    >>> import tilewright as tw
    >>> tw.Tolerance(absolute=1e-5)
    Tolerance(absolute=1e-05, relative=0.0)
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
    `kinds` are the workloads it is for, by the first word of their names; empty for all. A kernel
    it can help has one of the facts in `needs` (see `proposers.rewriter.facts`), and loses at least
    the share `worth` of its time to the causes in `saves`; both are empty for any kernel.
    """

    id: str
    text: str
    technique: str = ""
    kinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    worth: float = 0.005


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
    """A worked example for language models, shown with plans on one of its menu options."""

    name: str
    options: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """What the kernels of a target are written in.

    `file` is what a kernel is called in a folder and in messages, `entry` the function that it
    defines, `fence` the tag of a fenced block in prompts, `comment` what begins a comment that
    ends with its line, `lexer` the name of the Pygments lexer that colours it. No argument may be
    called like one of the `keywords`. `normal_form` returns equal texts for two sources only if
    both have the same tokens; it is a function of a module, since proposers in other processes
    receive it. `templates` is how kernels with free parameters name these; None where none may.
    `plain`, such a function too, gives the text of a workload's kernel in the language's newest
    version, without what only its own style needs; it raises `InputError` for what it cannot
    write so. None where all kernels are read as they are. `constants` gives what the kernels of a
    workload are called with beside arrays, by name; None where that is nothing.
    """

    name: str
    file: str
    fence: str
    comment: str
    lexer: str
    normal_form: Callable[[str], str]
    keywords: frozenset[str] = frozenset()
    entry: str = "kernel"
    templates: TemplateNotation | None = None
    plain: Callable[[str, Workload], str] | None = None
    constants: Callable[[Workload], Mapping[str, object]] | None = None

    @property
    def suffix(self) -> str:
        """Of the files that kernels are in, with its dot."""
        return Path(self.file).suffix

    def located(self, message: str, line: int | None) -> str:
        """A message with the line of the kernel that it is about, where that is known."""
        return f"{self.file}:{line}: {message}" if line else message


@dataclass(frozen=True, slots=True)
class FolderTemplate:
    """What a new kernel folder of a target begins with (`tilewright init`).

    `workload` names the workload whose arrays, operations and starting kernel the folder takes,
    without the target; `reference` is the text of its `reference.py`, `reduction` how many products
    each output sums. `skeleton` is a Jinja template of an unwritten kernel for arrays of the user's
    own: `parameters` are its C declarations, `inputs` and `outputs` its arguments. `tolerance` is
    absolute and relative, empty where the target's own rule holds; `inputs` is how TOML says what
    the values of each input look like, empty for the usual ones.
    """

    workload: str
    reduction: int
    reference: str
    skeleton: str
    tolerance: tuple[float, ...] = ()
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class MachineFact:
    """One number or word about a machine, where it comes from, and what it means.

    What is `first` is told to whoever begins to work on a kernel; all else when it is asked for.
    """

    name: str
    value: str
    source: str
    meaning: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """An entry of a breakdown, and what it counts.

    Every cycle counts for exactly one of the causes of a target that are `exclusive`; the other
    causes overlap.
    """

    name: str
    meaning: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class TargetBrief:
    """Everything a proposer may know about a target; it never receives the evaluator.

    `costs` says what operations cost that decide between plans, `plan_hints` what a plan must say
    so that someone else can carry it out; both are read by language models only. `settings` are
    the target's own, by name with their values, the default first; `failures` are the kinds of
    failure that only this target knows, with what they mean. `causes` are the entries that a
    breakdown may have. `facts` are told only to those who ask for them.
    """

    name: str
    isa: str
    rules: str
    menu: tuple[MenuOption, ...]
    commands: tuple[CommandEffect, ...]
    limits: Mapping[str, int]
    constants: Mapping[str, int]
    language: KernelLanguage
    examples: tuple[Example, ...] = ()
    costs: str = ""
    plan_hints: str = ""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    facts: tuple[MachineFact, ...] = ()

    @property
    def failure_kinds(self) -> frozenset[str]:
        """Every kind of failure that a kernel of the target may have."""
        return GENERAL_FAILURES.union(self.failures)

    @property
    def exclusive_causes(self) -> tuple[str, ...]:
        """The causes of which every cycle has exactly one; empty where all causes may overlap."""
        return tuple(cause.name for cause in self.causes if cause.exclusive)

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
    """What a proposer is given for one step: workload, target and the workload's menu.

    `dropout` is the probability that a plan is not offered an option, drawn from `seed` (see
    `offered`). `rank` is the parent's place in the beam, 0 for the best. `schedules` are what
    earlier runs found for similar workloads, the most similar first. While a search takes up the
    plans of the first of them, one in each iteration, `step` is the number of the one that it is
    at, from 0, and the menu has nothing but that plan's option. The search stops at
    a kernel that is at most the share `stop_within` above its bound; 0 for no such stop.
    `templates` are kernels with free parameters that the target offers for the workload, by name.
    """

    workload: Workload
    target: TargetBrief
    menu: tuple[MenuOption, ...]
    iteration: int
    iterations: int
    rank: int = 0
    schedules: tuple[Schedule, ...] = ()
    dropout: float = 0.0
    seed: int = 0
    stop_within: float = 0.0
    step: int | None = None
    templates: Mapping[str, str] = field(default_factory=dict)

    def offered(self, number: int = 0) -> tuple[MenuOption, ...]:
        """The menu of one plan after dropout, drawn anew for every `number`; never empty.

        A proposer whose plans for a parent share one menu uses that of number 0.
        """
        rng = random.Random(self.seed + number)
        kept = tuple(option for option in self.menu if rng.random() >= self.dropout)
        return kept or tuple(rng.sample(self.menu, min(1, len(self.menu))))


@dataclass(frozen=True, slots=True)
class Plan:
    """One optimisation to make on one parent: the menu option and how to apply it, in words.

    `parameters` is for proposers that implement their own plans (the rewriter); the one named
    `base` is the candidate the plan starts from where that is not the parent; `turn` that of a
    proposal in several turns; `anew` says that the plan leaves nothing of the parent's schedule;
    `beyond` is how far over its limit the kernel is measured, in percent. Of an instance of a
    template, `instance` is the candidate that brought the template (which has its text in
    `template`), and values go by their names after `tune.`.
    `expected` says which
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

    @property
    def turn(self) -> int | None:
        """In which turn of a proposal its candidates were made; None where there is one turn only.

        Candidates of one turn share the plan, and their outcomes are answered together.
        """
        turn = self.parameters.get("turn")
        return turn if isinstance(turn, int) else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of a rewriter's plan, in its words; none of another author's plan."""
        return tuple(filter(None, str(self.parameters.get("steps", "")).split("; ")))

    @property
    def begins_anew(self) -> bool:
        """Whether its kernels are a new start: measured and kept also where they are slower."""
        return "anew" in self.parameters

    @property
    def brings_template(self) -> bool:
        """Whether its kernel is the first instance of a template."""
        return "template" in self.parameters

    @property
    def is_instance(self) -> bool:
        """Whether its kernel differs from its parent in the values of a template alone."""
        return "instance" in self.parameters

    @property
    def measured_beyond(self) -> float | None:
        """How far over its limit its kernel is measured, as a factor; None for the usual."""
        percent = self.parameters.get("beyond")
        return percent / 100 if isinstance(percent, int) else None


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
    """A kernel's full source and where it comes from. Two equal sources are one candidate.

    >>> import tilewright as tw
    >>> tw.Candidate("void kernel(void) {}").id
    '2ee6a6bde544f1bc'
    """

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


BOUND_ERROR = 0.01
"""How far below a bound, as a share, a latency may lie by the model's own error."""
PRECISIONS = ("exact", "float64", "float32", "tf32-like", "bf16-like", "coarser than bf16")
"""Classes of precision, finest first, measured against a wider type on the same inputs."""


@dataclass(frozen=True, slots=True)
class Check:
    """One passed comparison with the reference: its distribution, and a hash of its input seed.

    `precision` is the class of the outputs, empty where the inputs cannot tell classes apart.
    """

    seed: int
    distribution: str
    precision: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks a candidate passed. A check that does not pass is a `Failed` instead."""

    checks: tuple[Check, ...] = ()

    @property
    def precision(self) -> str:
        """The coarsest class of precision seen in any check; empty where none tells."""
        seen = {check.precision for check in self.checks}
        return next((name for name in reversed(PRECISIONS) if name in seen), "")


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of time without useful work of the machine, in the unit of the latency.

    `cause` (a name of the breakdown) and `line` of the source (None if unknown) cost most of it.
    """

    start: float
    length: float
    cause: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A correct, measured candidate.

    `latency` is in `unit` ("cycles" or "ns"); `quantity` says what kind of number it is
    ("simulated", "measured" or "modelled"). `utilization` is useful operations over the array's
    peak, 0..1. `breakdown` says where cycles went; `details` holds further numbers (instructions,
    kilobytes touched). `versions` pins compiler, simulator, configuration and binary. `feedback`
    says in words what costs most and where, for the proposer of the next step. `sandbox` names the
    containment of everything that was built or run natively, empty where the target names none.
    `warnings` are sentences on what may make the result differ on hardware. `noise` is half the
    interquartile range of a measured latency's samples over their median, 0 where latencies repeat
    exactly.
    `samples` are the raw measurements in `unit` behind a measured latency, by series, in the order
    taken; empty where nothing was measured. `bound` is the latency that no kernel of the workload
    beats, as the target's model says; None where there is none. `by_line` holds cycles by cause,
    and other counts, of each source line (its number as text), where the target knows them.
    `phases` are cycles by cause before the machine's first work, during its work (in parts of
    equal work) and after its last work; empty where that is not known. `gaps` are the longest
    times without work, in order of time.

    >>> import tilewright as tw
    >>> run = tw.open_run("latest")
    >>> isinstance(run.best.outcome, tw.Measured), run.best.outcome.unit
    (True, 'cycles')
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
    bound: float | None = None
    by_line: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    phases: tuple[Mapping[str, float], ...] = ()
    gaps: tuple[Gap, ...] = ()

    def is_near_bound(self, share: float) -> bool:
        """Whether the latency is within `share` above the bound; not where it refutes the bound."""
        if self.bound is None or self.refutes_bound:
            return False
        return self.latency <= self.bound * (1 + share)

    @property
    def refutes_bound(self) -> bool:
        """Whether the latency is clearly below the bound, which must then be wrong."""
        return self.bound is not None and self.latency < self.bound * (1 - BOUND_ERROR)


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that failed: the stage, the kind of failure, the log and the source line.

    `bound` is set for "slower_than_limit": the latency it is known to exceed. `sandbox` is that of
    `Measured`.

    >>> import tilewright as tw
    >>> failed = tw.evaluate("int kernel", "gemmini:gemm-16x16x16").outcome
    >>> isinstance(failed, tw.Failed), failed.stage, failed.kind
    (True, 'build', 'compile_error')
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
    change in the task if it was not. "not told apart" are kernels of lower precision that the task
    cannot tell from right ones for certain: no refusal, but its results have no precision class.
    """

    name: str
    text: str
    verdict: Literal["rejected", "accepted", "not told apart", "does not apply"]
    log: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """A correct run of a kernel on real tools beside the embedded simulator, or on the chip itself.

    `latency` is None where they check function only; `details` are further numbers of theirs.
    """

    simulator: str
    latency: float | None
    instructions: float
    wall_s: float
    unit: str = "cycles"
    versions: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)


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
    """One evaluated candidate of a run. `index` counts from 0, the starting kernel.

    >>> import tilewright as tw
    >>> run = tw.open_run("latest")
    >>> trial = run.history[0]
    >>> trial.index, trial.iteration, trial.candidate.parent_id, trial.latency >= run.best.latency
    (0, 0, None, True)
    """

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


class HistoryIndex(Protocol):
    """What a strategy or a proposer wants to know of a history, kept up to date by the history."""

    def add(self, trial: Trial, history: History) -> None:
        """Take in one more trial, the last one of `history`."""
        ...


Index = TypeVar("Index", bound=HistoryIndex)


class History(Sequence[Trial]):
    """Read-only view of a run's trials in the order they were recorded, iteration by iteration.

    A history and those extended from it share one list and its indices: the cost of extending it
    depends only on what is added, and no query below becomes slower as the history grows.

    >>> import tilewright as tw
    >>> history = tw.open_run("latest").history
    >>> [trial.index for trial in history.lineage(history[1].candidate.id)]
    [0, 1]
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._log = _Log()
        for trial in trials:
            self._log.append(trial)
        self._length = len(self._log.trials)

    @classmethod
    def _view(cls, log: _Log, length: int) -> Self:
        view = cls.__new__(cls)
        view._log, view._length = log, length
        return view

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Trial at `index` (or a tuple of trials for a slice)."""
        found = range(self._length)[index]
        trials = self._log.trials
        return trials[found] if isinstance(found, int) else tuple(trials[i] for i in found)

    def __iter__(self) -> Iterator[Trial]:
        return islice(self._log.trials, self._length)

    def get(self, candidate_id: str) -> Trial | None:
        """First trial of the candidate with this content id."""
        position = self._log.first_of.get(candidate_id, self._length)
        return self._log.trials[position] if position < self._length else None

    def children(self, candidate_id: str) -> list[Trial]:
        """Trials of the candidates made from this one, with any outcome, in order."""
        positions = self._log.children_of.get(candidate_id, ())
        return [self._log.trials[i] for i in positions[: bisect_left(positions, self._length)]]

    def extended(self, trials: Sequence[Trial]) -> History:
        """A history with `trials` appended; this one stays as it is."""
        log = self._log if self._length == len(self._log.trials) else History(self)._log
        for trial in trials:
            log.append(trial)
        return self._view(log, len(log.trials))

    def before(self, iteration: int) -> History:
        """The trials of the iterations before this one."""
        later = bisect_left(self._log.iterations, iteration)
        starts = self._log.starts
        length = starts[later] if later < len(starts) else self._length
        return self._view(self._log, min(length, self._length))

    def since(self, earlier: History) -> tuple[Trial, ...] | None:
        """The trials after those of `earlier`, or None where this one was not extended from it."""
        if earlier._log is not self._log or earlier._length > self._length:
            return None
        return tuple(self[earlier._length :])

    def iterations_after(self, iteration: int) -> int:
        """How many iterations after this one have a trial."""
        known = bisect_left(self._log.starts, self._length)
        return max(0, known - bisect_right(self._log.iterations, iteration))

    def indexed(self, kind: Callable[[], Index]) -> Index:
        """The index that `kind` makes, with every trial added to it; equal kinds share one.

        Read it at once: a later history adds to it. Asking a history that is older than the
        index makes a new one.
        """
        with self._log.lock:
            known, found = self._log.indices.get(kind, (0, None))
            is_older = found is not None and known > self._length
            index: Index = kind() if found is None or is_older else found
            for length in range(1 if is_older else known + 1, self._length + 1):
                index.add(self._log.trials[length - 1], self._view(self._log, length))
            if not is_older:
                self._log.indices[kind] = self._length, index
            return index

    @property
    def baseline(self) -> Trial | None:
        """The starting kernel's trial, if it was evaluated."""
        return self[0] if self._length else None

    @property
    def best(self) -> Trial | None:
        """The measured trial of lowest latency; the earliest on ties."""
        found = bisect_left(self._log.records, self._length)
        return self._log.trials[self._log.records[found - 1]] if found else None

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


class _Log:
    """The trials that histories share, and positions of theirs: first ones, in order, compact."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.first_of: dict[str, int] = {}  # candidate -> its first trial
        self.children_of: dict[str, array[int]] = {}  # candidate -> trials made from it
        self.records: list[int] = []  # trials that were better than all before
        self.iterations: list[int] = []  # those with trials
        self.starts: list[int] = []  # the first trial of each of them
        self.indices: dict[Callable[[], HistoryIndex], tuple[int, Any]] = {}
        self.lock = Lock()

    def append(self, trial: Trial) -> None:
        position, candidate = len(self.trials), trial.candidate
        if position == trial.index:
            position = trial.index  # the same number, and no second object for each trial
        self.trials.append(trial)
        self.first_of.setdefault(candidate.id, position)
        if candidate.parent_id is not None:
            self.children_of.setdefault(candidate.parent_id, array("q")).append(position)
        if not self.iterations or trial.iteration > self.iterations[-1]:
            self.iterations.append(trial.iteration)
            self.starts.append(position)
        best = self.trials[self.records[-1]].latency if self.records else None
        if trial.latency is not None and (best is None or trial.latency < best):
            self.records.append(position)


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
