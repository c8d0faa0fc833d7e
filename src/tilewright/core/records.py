"""The records of a run, which are passed on in one direction::

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
"""An `inout` array has given values like an input, and is written and compared like an output."""
Stage = Literal["build", "check", "measure"]
GeneralFailure = Literal[
    "compile_error",  # the compiler rejected the source
    "link_error",  # the source calls a function that is not defined, or defines no `kernel`
    "illegal_instruction",  # the CPU or the accelerator met an instruction it does not have
    "illegal_address",  # a CPU or DMA access outside the kernel's arguments, code and stack
    "wrong_result",  # the output differs from the reference
    "input_modified",  # the kernel wrote to one of its inputs
    "forbidden_call",  # the kernel asked the operating system for something (a thread, a file)
    "non_deterministic",  # the same binary gave two different results
    "slower_than_limit",  # the measurement was stopped because the kernel is too slow to be kept
    "timeout",  # a stage ran out of wall time or instructions and was killed
    "crash",  # the evaluating process died
    "invalid",  # measured faster than the hardware could be
    "unconfirmed",  # rebuilt and run on fresh inputs, it was wrong or slower
    "no_result",  # an external program printed no result, or a result that is not its own
]
"""Kinds of failure that every target may have; the target's brief declares further ones."""
GENERAL_FAILURES: frozenset[str] = frozenset(get_args(GeneralFailure))
FailureKind: TypeAlias = str
"""A `GeneralFailure`, or one that the target's brief declares."""
Quantity = Literal["simulated", "measured", "modelled"]
"""How a latency was obtained."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One array the kernel takes, in the order of its parameters (row-major, C layout)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: ArgumentRole

    @property
    def is_given(self) -> bool:
        """Whether the array has meaningful values before the call, which is true for all roles
        except outputs.
        """
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
    """What a kernel must compute, on which target and on which arrays.

    `operations` is the number of multiply-adds that the computation requires. An array of P units
    needs at least `operations / P` cycles, and every utilisation is relative to this number.
    `source` is a registered name or the absolute path of a folder.
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

    `id` is stable and appears in plans. `text` is the description that a proposer reads.
    `technique` names the transformation of the built-in rewriter, and is empty if only a language
    model can carry out the optimisation. `kinds` lists the workloads to which the option applies,
    by the first word of their names; empty for all workloads. The option can help only a kernel
    that has one of the facts in `needs` (see `proposers.rewriter.facts`) and that loses at least
    the share `worth` of its time to the causes in `saves`. If these are empty, any kernel will do.
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

    `operands` contains a role for each parameter of the macro, in order; docs/targets.md lists the
    roles. The rewriter and the hazard checks know nothing else about commands.
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
    """The language in which the kernels of a target are written.

    - `file`: the name of a kernel's file in folders and in messages
    - `entry`: the function that a kernel defines
    - `fence`: the tag of a fenced block in prompts
    - `comment`: the characters that begin a comment up to the end of the line
    - `lexer`: the name of the Pygments lexer that colours kernels
    - `keywords`: names that no argument may have
    - `normal_form`: a function that returns equal texts for two sources only if both have the same
      tokens. It must be a function of a module, because it is sent to other processes.
    - `templates`: how templates declare parameters; None if the language has no templates
    - `plain`: a function that returns a workload's kernel in the newest version of the language,
      or raises `InputError` if this is not possible; None if kernels are read as they are
    - `constants`: a function that returns the arguments of a workload's kernels that are not
      arrays, by name; None if there are none
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
        """The suffix of kernel files, including the dot."""
        return Path(self.file).suffix

    def located(self, message: str, line: int | None) -> str:
        """The message, preceded by the file and by the line of the kernel if it is known."""
        return f"{self.file}:{line}: {message}" if line else message


@dataclass(frozen=True, slots=True)
class FolderTemplate:
    """The content of a new kernel folder of a target (`tilewright init`).

    `workload` is the name, without the target, of the workload from which the folder takes arrays,
    operations and starting kernel. `reference` is the text of `reference.py`, and `reduction` the
    number of products that each output sums. `skeleton` is a Jinja template of a kernel without a
    body, for the user's own arrays. It can use `parameters`, the C declarations of the arguments,
    and `inputs` and `outputs`. `tolerance` contains the absolute and the relative tolerance, and is
    empty if the target's own rule applies. `inputs` is TOML text that describes the values of each
    input, and is empty for the usual values.
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

    Facts that are `first` are shown at the beginning of the work on a kernel, others on request.
    """

    name: str
    value: str
    source: str
    meaning: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """An entry of a breakdown, and what it counts.

    Each cycle is counted for exactly one of a target's `exclusive` causes; other causes overlap.
    """

    name: str
    meaning: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class LatencyKind:
    """How all latencies of a target are obtained, and their unit, such as "cycles" or "ns".

    >>> str(LatencyKind("simulated", "cycles"))
    'simulated cycles'
    """

    quantity: Quantity
    unit: str

    def __str__(self) -> str:
        return f"{self.quantity} {self.unit}"


@dataclass(frozen=True, slots=True)
class TargetBrief:
    """Everything that a proposer may know about a target. It has no access to the evaluator.

    `latency` is the kind of its latencies; an outcome with a latency of another kind is refused.
    `costs` states the costs of operations, and `plan_hints` says how detailed a plan must be. Only
    language models read these two. `settings` lists the target's own settings by name, each with
    its values, the default first. `failures` explains the kinds of failure that only this target
    has. `causes` explains the entries that a breakdown may have. `facts` are shown only on request.
    `model` returns the modelled latency of a workload's kernel in ns, or None if the kernel breaks
    a rule. Only targets that model latencies without running kernels have it. It must be a function
    of a module, because it is sent to other processes.
    """

    name: str
    isa: str
    rules: str
    menu: tuple[MenuOption, ...]
    commands: tuple[CommandEffect, ...]
    limits: Mapping[str, int]
    constants: Mapping[str, int]
    language: KernelLanguage
    latency: LatencyKind
    examples: tuple[Example, ...] = ()
    costs: str = ""
    plan_hints: str = ""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    facts: tuple[MachineFact, ...] = ()
    model: Callable[[str, Workload], float | None] | None = None

    @property
    def failure_kinds(self) -> frozenset[str]:
        """Every kind of failure that a kernel of the target may have."""
        return GENERAL_FAILURES.union(self.failures)

    @property
    def exclusive_causes(self) -> tuple[str, ...]:
        """The causes of which every cycle has exactly one; empty where all causes may overlap."""
        return tuple(cause.name for cause in self.causes if cause.exclusive)

    def menu_for(self, workload: Workload) -> tuple[MenuOption, ...]:
        """The options that apply to the kind of a workload; all options for a kernel folder.

        The kind is the first word of a registered name: `gemm` of `gemm-512x512x512`.
        """
        if Path(workload.source).is_absolute():
            return self.menu
        kind = workload.source.partition("-")[0]
        return tuple(o for o in self.menu if not o.kinds or kind in o.kinds)


@dataclass(frozen=True, slots=True)
class Brief:
    """The input of a proposer for one step: workload, target and the workload's menu.

    `dropout` is the probability with which an option is left out of the menu of a plan, drawn from
    `seed` (see `offered`). `rank` is the parent's place in the beam, 0 for the best. `schedules`
    contains schedules of earlier runs for similar workloads, the most similar first. While a search
    applies the plans of the first schedule, one in each iteration, `step` is the number of the
    current plan, from 0, and the menu contains only the option of this plan. The search stops when
    the best kernel is at most the share `stop_within` above its bound; 0 disables this stop.
    `templates` contains the templates that the target offers for the workload, by name.
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
        """The menu of one plan after dropout, drawn for each `number` separately; never empty.

        A proposer that uses one menu for all plans of a parent uses the menu of number 0.
        """
        rng = random.Random(self.seed + number)
        kept = tuple(option for option in self.menu if rng.random() >= self.dropout)
        return kept or tuple(rng.sample(self.menu, min(1, len(self.menu))))


@dataclass(frozen=True, slots=True)
class Plan:
    """One optimisation of one parent: the option of the menu, and how to apply it, in words.

    `parameters` is for proposers that implement their own plans, such as the rewriter. The
    following names have a meaning for the search:

    - `base`: the candidate from which the plan starts, if this is not the parent
    - `turn`: the turn of a proposal in several turns
    - `anew`: present if the plan keeps nothing of the parent's schedule
    - `beyond`: by how much the kernel may exceed its limit while it is measured, in percent
    - `template`: the text of the template whose first instance the plan makes
    - `instance` and `tune.NAME`: the candidate that introduced the template of an instance, and
      the values of its parameters

    `expected` says which quantity the plan should save and by how much, and is empty if this is
    not known. `expected_gain` is the expected speedup over the parent, or None.
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
        """The turn of the proposal that made its candidates; None without turns.

        All candidates of a turn have the same plan, and their outcomes are reported together.
        """
        turn = self.parameters.get("turn")
        return turn if isinstance(turn, int) else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of a plan of the rewriter, as texts; empty for plans of other proposers."""
        return tuple(filter(None, str(self.parameters.get("steps", "")).split("; ")))

    @property
    def begins_anew(self) -> bool:
        """Whether its kernels are a new start, which is measured and kept even if it is slower."""
        return "anew" in self.parameters

    @property
    def brings_template(self) -> bool:
        """Whether its kernel is the first instance of a template."""
        return "template" in self.parameters

    @property
    def is_instance(self) -> bool:
        """Whether its kernel differs from the parent only in the values of a template."""
        return "instance" in self.parameters

    @property
    def measured_beyond(self) -> float | None:
        """Up to which multiple of its limit the kernel is measured; None for the default."""
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
    """A kernel's full source and its origin. Two equal sources are the same candidate.

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
    """A candidate to evaluate. The measurement may stop when it exceeds `limit_latency`."""

    candidate: Candidate
    limit_latency: float | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A built candidate: the exact bytes that are checked and measured, and what built them.

    `source` is its text, for a runner that builds it again to examine it; otherwise it is empty.
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
"""The share by which a latency may be below a bound because of the model's error."""
PRECISIONS = ("exact", "float64", "float32", "tf32-like", "bf16-like", "coarser than bf16")
"""Classes of precision, the finest first, found by comparison with a wider type."""


@dataclass(frozen=True, slots=True)
class Check:
    """One passed comparison with the reference: its distribution, and a hash of its input seed.

    `precision` is the class of the outputs; empty if the inputs cannot distinguish the classes.
    """

    seed: int
    distribution: str
    precision: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks that a candidate passed. If a check does not pass, the outcome is a `Failed`
    instead.
    """

    checks: tuple[Check, ...] = ()

    @property
    def precision(self) -> str:
        """The coarsest class of precision of all checks; empty if no check shows one."""
        seen = {check.precision for check in self.checks}
        return next((name for name in reversed(PRECISIONS) if name in seen), "")


@dataclass(frozen=True, slots=True)
class Gap:
    """A period in which the machine did no useful work, in the unit of the latency.

    `cause` is the name in the breakdown that explains most of it, at source line `line`, if known.
    """

    start: float
    length: float
    cause: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A correct, measured candidate.

    - `latency`: the time of one call, in `unit` ("cycles" or "ns")
    - `quantity`: how the latency was obtained: "simulated", "measured" or "modelled"
    - `utilization`: the required operations divided by those that the hardware could perform in
      the same time, from 0 to 1
    - `breakdown`: the time by cause
    - `details`: further numbers, such as instructions or kilobytes accessed
    - `versions`: the versions of compiler, simulator and configuration, and a hash of the binary
    - `feedback`: a text for the proposer of the next step, which says what costs most time
    - `sandbox`: the sandbox of everything that was built or run natively, if the target names one
    - `warnings`: sentences about differences that the kernel may show on hardware
    - `noise`: half the interquartile range of the samples divided by their median; 0 if latencies
      repeat exactly
    - `samples`: the raw measurements in `unit`, by series and in the order of time, if any
    - `bound`: a latency that no kernel of the workload can beat according to the target's model
    - `by_line`: cycles by cause, and other counts, for each source line, if the target knows them
    - `phases`: cycles by cause before the machine's first work, during its work (in parts with
      equal work), and after its last work; empty if unknown
    - `gaps`: the longest periods without work, in the order of time

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

    def is_of(self, kind: LatencyKind) -> bool:
        """Whether the latency was obtained as `kind` says, and has its unit."""
        return (self.quantity, self.unit) == (kind.quantity, kind.unit)

    def is_near_bound(self, share: float) -> bool:
        """Whether the latency is at most `share` above the bound, and does not refute it."""
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
    """The verdict of a task's check on one deliberately wrong kernel, before a search.

    `text` says what the kernel does, `log` how the check rejected it, and `remedy` what to change
    in the task if the check accepted it. "not told apart" means that the kernel has a lower
    precision that the task cannot distinguish reliably. The task is then accepted, but its results
    have no precision class.
    """

    name: str
    text: str
    verdict: Literal["rejected", "accepted", "not told apart", "does not apply"]
    log: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """A correct run of a kernel on an external simulator or on the chip.

    `latency` is None if the simulator only checks results; `details` contains further numbers.
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
    """A kernel that results are compared with. It is evaluated like a candidate of a run.

    `name` is the target's name for it, such as "tuned"; `candidate_id` is the hash of its source.
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
    """Data that a strategy or a proposer derives from a history, which the history updates."""

    def add(self, trial: Trial, history: History) -> None:
        """Add the last trial of `history`."""
        ...


Index = TypeVar("Index", bound=HistoryIndex)


class History(Sequence[Trial]):
    """Read-only view of a run's trials in the order they were recorded, iteration by iteration.

    A history shares one list and its indices with the histories that extend it. The cost of an
    extension depends only on the number of added trials, and no query becomes slower as the
    history grows.

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
        """Trials of the candidates that were made from this candidate, in order."""
        positions = self._log.children_of.get(candidate_id, ())
        return [self._log.trials[i] for i in positions[: bisect_left(positions, self._length)]]

    def extended(self, trials: Sequence[Trial]) -> History:
        """A history with `trials` appended; the present history does not change."""
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
        """The trials after those of `earlier`, or None if this history does not extend it."""
        if earlier._log is not self._log or earlier._length > self._length:
            return None
        return tuple(self[earlier._length :])

    def iterations_after(self, iteration: int) -> int:
        """The number of iterations after this one that have a trial."""
        known = bisect_left(self._log.starts, self._length)
        return max(0, known - bisect_right(self._log.iterations, iteration))

    def indexed(self, kind: Callable[[], Index]) -> Index:
        """The index that `kind` constructs, with all trials of this history.

        Calls with the same `kind` share one index. Read the index immediately, because a later
        history adds its trials to the same index. A history that is older than the index
        constructs a new one.
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
        """The measured trial with the lowest latency; of several such trials, the earliest."""
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
    """The trials that histories share, and indices of positions in them."""

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
            position = trial.index  # reuses the integer object of the first trial, to save memory
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
    """The identity of a run: its task, its settings, and the versions that produced it.

    `task` is the workload's registered name or the folder. `settings` contains the complete
    configuration (compatible with JSON). `identity` is a hash of the task and the configuration, so
    that the same command finds its run again.
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
    """One call to a model, as a run stores it.

    Calls that are `cached` were answered with the reply of an earlier run, and cost nothing. Tokens
    and dollars are None if they are unknown. `counted_usd` and `counted_tokens` are the amounts
    that the budget counted, which are the real or the reserved amounts. If a run has stopped
    and a call is still "intended", the call was in progress, and cost at most the counted amounts.
    `served_by` is the name that the model gives itself. `note` says why the call failed or why its
    reply could not be used.
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
    """The first 16 hexadecimal digits of the SHA-256 of the parts and their lengths."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
