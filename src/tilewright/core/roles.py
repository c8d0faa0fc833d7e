"""All roles (interfaces) that plug-ins implement. Their methods receive records, never the search
itself.

The contract suite of the same name in `tilewright.testing` tests an implementation of a role.
Methods take and return whole batches, and report progress through small callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Argument,
    Artifact,
    AttackResult,
    Brief,
    CallRecord,
    Candidate,
    EvaluationRequest,
    ExternalResult,
    Failed,
    FolderTemplate,
    History,
    LeftAlone,
    Measured,
    MenuOption,
    Outcome,
    Plan,
    RunRecord,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.core.run_notes import Note, RunNote
from tilewright.core.templates import ParameterSpace, Point, TriedPoint

NOTHING_CHECKED = Verdict()

Data: TypeAlias = bytes | memoryview
"""The bytes of an array; a `memoryview` of bytes takes no copy of a large one."""

OnOutcome = Callable[[int, Outcome, float, bool], None]
"""Called when a request ends: its index, outcome, seconds, and whether the cache had it."""

More = Callable[[], Sequence[EvaluationRequest] | None]
"""Returns further requests of a batch that is still being made, after waiting a moment for the
first one. The result is empty if there are none yet, and None if the batch is complete."""

Checkpoint = Callable[[], None]
"""Called several times a second while a batch is evaluated; an exception from it ends the batch."""


MenuFilter = Callable[[TargetBrief, Trial, Sequence[MenuOption]], tuple[MenuOption, ...]]
"""Selects the options of a menu that may make a kernel faster, from its source and its measurement.
Options that cannot help are left out; options of which this is not certain are kept."""


@runtime_checkable
class Proposer(Protocol):
    """Writes candidates in two steps. The same `seed` gives the same result.

    A proposer can set the following attributes:

    - `waits` is true if the proposer mostly waits for other programs. Its methods may then be
      called from several threads at once, and candidates that are somewhat slower than their
      parent are measured to the end.
    - `parallel` is true if the proposer computes, and treats each parent separately. Parents may
      then be given to pickled copies of the proposer in other processes.
    - `languages` names the languages of the kernels that the proposer can work on, if it cannot
      work on all kernels.
    - `replays` is true if the proposer carries out each recorded schedule (`Brief.schedules`) as a
      whole. The search then does not give it the plans of a schedule one by one.
    """

    name: str

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` different plans for `parent`, each with one of the offered options."""
        ...

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates that carry out `plan`; none if it cannot be carried out."""
        ...

    def normalize(self, source: str, target: TargetBrief) -> str:
        """A canonical form, which is equal for two sources that differ, for example, only in
        comments.
        """
        ...


@runtime_checkable
class SearchStrategy(Protocol):
    """Chooses parents from the history, and says when to stop.

    Its results depend only on the history. To avoid reading the whole history each time, a
    strategy keeps an index of its own (`History.indexed`). tilewright finds a strategy through
    the entry point group `tilewright.strategies`, as a callable that takes a run's `Settings`.
    """

    def select(self, history: History) -> list[Trial]:
        """The trials to start from next; at least one as soon as any trial was measured.

        The candidates that are made from the first of these trials are evaluated first. If the
        budget ends early, candidates from the last trials are left out.
        """
        ...

    def limit_latency(self, parent: Trial) -> float | None:
        """The latency at which a child of `parent` is too slow to be kept; None for no limit."""
        ...

    def should_stop(self, history: History, iteration: int) -> str | None:
        """The reason why the search ends before `iteration` begins, or None if it continues."""
        ...


class ParameterSearch(Protocol):
    """Chooses which instances of a template, or of a kernel's steps, are evaluated next."""

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """Up to `count` different points that were not tried yet, the most promising first.

        The result depends only on the arguments, so a resumed run gets the same points. There are
        fewer than `count` if nearly all points were tried.
        """
        ...


class Builder(Protocol):
    """Turns a source into the exact bytes that will be checked and measured."""

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """Build a candidate. Raises `ToolchainMissingError` if there is no compiler."""
        ...


@runtime_checkable
class Sandboxed(Protocol):
    """A builder that runs its compiler in a sandbox."""

    @property
    def sandbox(self) -> str:
        """The name of the sandbox, which is recorded with every outcome."""
        ...


class Checker(Protocol):
    """Compares an artifact with the reference on private inputs."""

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """One comparison, for a candidate that may turn out too slow to be kept."""
        ...

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Perform all comparisons except those in `passed`, at least one for each distribution.

        The returned verdict includes those in `passed`. The log of a failure describes the first
        difference.
        """
        ...


class Runner(Protocol):
    """Measures an artifact that passed its checks."""

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Measure the kernel and check the output of the measured run. The outcome may be
        `slower_than_limit`.
        """
        ...


class Executor(Protocol):
    """Evaluates requests, on all cores by default. If a worker dies, the outcome is a `Failed`."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests, followed by those of the requests from `more`.

        The executor calls `more` when a worker is free and no request is waiting, so candidates
        can be made while others are evaluated. If `on_outcome`, `more` or `checkpoint` raises an
        exception, for example because the budget is spent or the user pressed Ctrl-C, the executor
        cancels the evaluations in progress, starts no others, and lets the exception propagate.
        """
        ...

    def close(self) -> None:
        """Stop all workers. May be called again."""
        ...


class Storage(Protocol):
    """Stores runs, trials, artifacts and cached outcomes. Data is durable when a call returns."""

    def create_run(self, run: RunRecord) -> None:
        """Record a new run."""
        ...

    def update_run(self, run_id: str, *, status: str, stop_reason: str, wall_s: float) -> None:
        """Set a run's status (running, finished, interrupted), stop reason and wall seconds."""
        ...

    def run(self, run_id: str) -> RunRecord:
        """The run with this id or prefix ("latest" for the newest), or `UnknownNameError`."""
        ...

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        ...

    def delete_run(self, run_id: str) -> None:
        """Remove the run with this full id and its own data; cached outcomes are kept."""
        ...

    def unfinished(self, identity: str) -> RunRecord | None:
        """The newest run with this identity that is not finished."""
        ...

    def append_trial(self, run_id: str, trial: Trial) -> None:
        """Append one trial; its index must be the next one."""
        ...

    def amend_trial(self, run_id: str, index: int, outcome: Outcome) -> None:
        """Replace the outcome of a trial, because a later check refuted or completed it."""
        ...

    def history(self, run_id: str) -> History:
        """All trials of a run."""
        ...

    def cached_outcome(self, key: str) -> Outcome | None:
        """Outcome stored under a content key, if any."""
        ...

    def store_outcome(self, key: str, outcome: Outcome) -> None:
        """Store an outcome under a content key.

        A stored outcome is kept. Only a lower bound ("slower_than_limit") is replaced, by a higher
        bound or by a complete outcome.
        """
        ...

    def put_artifact(self, data: bytes, kind: str) -> str:
        """Store bytes, and return their SHA-256, which identifies them."""
        ...

    def artifact(self, digest: str) -> bytes:
        """The bytes with this SHA-256. Raises `UnknownNameError` if none are stored."""
        ...

    def keep(self, run_id: str, note: RunNote) -> None:
        """Add a note to a run, after its earlier notes of the same class."""
        ...

    def kept(self, run_id: str, kind: type[Note]) -> list[Note]:
        """A run's notes of this class, oldest first."""
        ...

    def append_event(self, run_id: str, kind: str, data: Mapping[str, object]) -> None:
        """Append one line to a run's event log, with the current time."""
        ...

    def events(self, run_id: str) -> list[tuple[str, str, Mapping[str, object]]]:
        """A run's event log, oldest first: time (UTC, ISO 8601), kind, data."""
        ...

    def close(self) -> None:
        """Release the database. Idempotent."""
        ...


class CallStore(Protocol):
    """Stores calls to models. Thread-safe; data is durable when a method returns."""

    def reply(self, key: str) -> Mapping[str, object] | None:
        """The recorded reply to this call, no matter which run of the project made the call."""
        ...

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        """Record that a call is about to be made, in place of an earlier such record of the run."""
        ...

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        """Record how a call ended; `reply` is None if the call failed."""
        ...

    def annotate(self, run_id: str, key: str, note: str) -> None:
        """Record why the reply of a finished call could not be used."""
        ...

    def calls(self, run_id: str) -> list[CallRecord]:
        """A run's calls, in the order in which they were made."""
        ...

    def exchanges(
        self, run_id: str
    ) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
        """Key, request and reply of each answered call of a run, in the order of the calls."""
        ...

    def close(self) -> None:
        """Release the database. Idempotent."""
        ...


@runtime_checkable
class StreamingPlanner(Protocol):
    """A proposer that makes its plans one by one."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans that `plan` returns, in the same order, each one as soon as it is made."""
        ...


@runtime_checkable
class Responder(Protocol):
    """A proposer that reacts to the outcomes of its own candidates."""

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """Further candidates; none for trials of another proposer.

        The trials are either one candidate that failed, which the proposer corrects, or all
        candidates of a turn (`Plan.turn`), whose proposal it continues. All of them were made from
        `parent`, when the history was `history`.
        """
        ...


@runtime_checkable
class LiveProposer(Protocol):
    """A proposer whose authors, such as agents, continue to work while kernels are evaluated.

    The search reports each outcome with `Responder.respond`, from any thread, when it is known.
    """

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """The candidates that the author wants evaluated, until the author has finished.

        None for a plan that `implement` carries out.
        """
        ...

    def give_up(self) -> None:
        """End all authors, because nothing more is evaluated for them. Idempotent."""
        ...


@runtime_checkable
class OffersFactors(Protocol):
    """A proposer that makes kernels by steps with numbers, and can make them with other numbers."""

    def offers_factors(self, target: TargetBrief) -> bool:
        """Whether it does so for kernels of this target."""
        ...

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        """The numbers in the steps that led to a kernel; None where there are none."""
        ...


@runtime_checkable
class FindsUnsupportedCode(Protocol):
    """A proposer that changes only the parts of a kernel it understands, and can list the rest."""

    def left_alone(self, target: TargetBrief, source: str) -> list[LeftAlone]:
        """The code that the proposer will not change, in the order of the source."""
        ...


class Task(Protocol):
    """A workload with its starting kernel, as a target opens it."""

    @property
    def workload(self) -> Workload:
        """What a kernel must compute."""
        ...

    @property
    def start(self) -> str:
        """Source of the starting kernel."""
        ...

    @property
    def baselines(self) -> Mapping[str, str]:
        """Sources of the kernels that results are compared with, by name, the slowest first."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything that influences outcomes, except source, workload and versions.

        This is the reference and the settings that determine inputs. Every cache key contains it.
        """
        ...

    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """The builder, checker and runner, created on first use in the evaluating process."""
        ...


class CheckCase(Protocol):
    """One comparison of a task's check, to which any outputs can be passed. Arrays are
    mappings from the names of arguments to data.
    """

    @property
    def distribution(self) -> str:
        """The name of the distribution of the input values."""
        ...

    @property
    def arguments(self) -> Sequence[Argument]:
        """The arguments of this comparison, which may be smaller than those of the measured run."""
        ...

    @property
    def given(self) -> Mapping[str, Data]:
        """Every argument before the call; outputs contain data that the kernel must overwrite."""
        ...

    @property
    def expected(self) -> Mapping[str, Data]:
        """Every written argument after the call of a correct kernel."""
        ...

    def reference(self, given: Mapping[str, Data]) -> Mapping[str, Data]:
        """Correct outputs for other inputs, which are computed again in every call."""
        ...

    def mismatch(self, outputs: Mapping[str, Data]) -> str | None:
        """How outputs differ from the correct ones by the task's rule, or None if they agree."""
        ...

    @property
    def careless(self) -> Mapping[str, float]:
        """For each imprecise way to compute, by name: its error divided by the allowed error.

        Ways that make no difference here are left out. Empty for integer tasks.
        """
        ...


@runtime_checkable
class Attackable(Protocol):
    """A task whose check can be tested with wrong kernels before a search."""

    def check_cases(self) -> Sequence[CheckCase]:
        """All comparisons that a candidate must pass; the last one is that of the measured run."""
        ...

    def hostile_kernels(self) -> Mapping[str, str]:
        """Sources that must fail, each with the name of what it does, such as "writes zeros"."""
        ...


@runtime_checkable
class PublishedRules(Protocol):
    """A task of a published benchmark that has its own rule of correctness."""

    def published_rules(self) -> Sequence[AttackResult]:
        """The benchmark's verdicts on wrong kernels, which are shown but decide nothing."""
        ...


@runtime_checkable
class OffersTemplates(Protocol):
    """A task for which the target provides templates (docs/templates.md)."""

    def templates(self) -> Mapping[str, str]:
        """The texts of the templates by name, the most promising first; may be empty."""
        ...


@runtime_checkable
class SkipsDistributions(Protocol):
    """A task that skips distributions of inputs on which its own arithmetic fails."""

    def omissions(self) -> Mapping[str, str]:
        """The skipped distributions, each with the reason."""
        ...


@runtime_checkable
class Containable(Protocol):
    """A task whose evaluation needs no network and writes only temporary files once it is open.

    The workers give up all other rights before they receive a candidate.
    """

    containable: Literal[True]


@runtime_checkable
class ShowsCode(Protocol):
    """A task that can show the machine code of a kernel."""

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code or traced instructions that would be measured, or the build's failure.

        Raises `ToolchainMissingError` if the disassembler is missing.
        """
        ...


@runtime_checkable
class ExplainsCode(Protocol):
    """A task whose compiler gives information about a kernel that the measurement lacks.

    Prompts and reports show the notes on the machine code next to the measurement.
    """

    explains_code: Literal[True]


@runtime_checkable
class LimitsWorkers(Protocol):
    """A task whose measurements cannot run at the same time, so further workers would only wait."""

    most_workers: int


@runtime_checkable
class NeedsResource(Protocol):
    """A target whose kernels can be evaluated only on machines that have a certain resource.

    Kernels of targets without this role can be evaluated on any machine with their toolchain.
    """

    @property
    def resource(self) -> str:
        """The resource, by the name that workers of a cluster announce, such as "gemmini-sim"."""
        ...


@runtime_checkable
class Untimed(Protocol):
    """A task whose kernels this machine may be able to check but not to measure."""

    @property
    def untimed(self) -> str | None:
        """What is missing and what to do, as a clause ("no GPU ..."); None if all is there."""
        ...


@runtime_checkable
class FindsBrokenRules(Protocol):
    """A task that can run a kernel for its rules alone, without a reference."""

    def broken_rule(self, artifact: Artifact) -> Failed | None:
        """The rule of the machine that a kernel breaks when it runs, or None if none was found.

        The results of the run are not compared, so its answer tells nothing about them.
        """
        ...


@runtime_checkable
class ModelsLatency(Protocol):
    """A task whose latencies are computed by a model, without data.

    A search begins with the modelled latency of the starting kernel, and compares this kernel with
    the reference while the search is running.
    """

    def modelled(self, source: str) -> Measured | Failed:
        """The modelled latency of a kernel that was not compared, or the failure of its build."""
        ...


@runtime_checkable
class DerivesKernels(Protocol):
    """A task that derives its starting kernel from the problem, which contains no kernel."""

    @property
    def derived(self) -> str:
        """A sentence on what the problem is, or on why no kernel was derived. Empty if the task
        never derives kernels."""
        ...


@runtime_checkable
class HasLatencyFloor(Protocol):
    """A task that knows a lower bound on the latency of its kernels."""

    def floor(self, measured: Measured) -> tuple[float, str]:
        """A latency that no correct kernel with these counts can beat, and the bound in words.

        The bound must hold for every legal kernel, because a kernel that is faster is refused as a
        wrong measurement.
        """
        ...


ExternalRun = Callable[[str, float], ExternalResult | Failed]
"""Runs a kernel's source on an external simulator, for at most this number of seconds."""


@runtime_checkable
class ExternallySimulated(Protocol):
    """A task whose kernels also run on simulators outside this package."""

    def external(self, simulator: str) -> ExternalRun:
        """The simulator with this name; `ToolchainMissingError` says how to get it."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """A target of which users can describe further instances."""

    def configured(self, file: Path) -> Target:
        """The instance that `file` describes. `ConfigurationError` says what is wrong with it."""
        ...


@runtime_checkable
class ProvidesFolderTemplate(Protocol):
    """A target that provides the files of a new kernel folder."""

    def template(self) -> FolderTemplate:
        """The files. The starting kernel must agree with the reference."""
        ...


@runtime_checkable
class OpensFiles(Protocol):
    """A target whose workloads may also be single files of users."""

    def open_file(self, file: Path, settings: Mapping[str, object]) -> Task:
        """The task that a file describes. `InputError` says what is wrong with the file."""
        ...


class Target(Protocol):
    """One accelerator, found through the entry point group `tilewright.targets`."""

    name: str
    """Name used in workload names (`gemmini` in `gemmini:gemm-512x512x512`)."""

    def brief(self) -> TargetBrief:
        """Everything that proposers may know about the target."""
        ...

    def workloads(self) -> Mapping[str, str]:
        """Workload patterns and registered names, each with one line of description."""
        ...

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """The task with this name, given without the target. Raises `InputError` if malformed.

        `settings` contains the settings that a run records: `input_seed`, `checks`, timeouts.
        """
        ...

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """The task in a folder with `workload.toml`, `reference.py` and the kernel."""
        ...

    def versions(self) -> Mapping[str, str]:
        """The compiler, simulator and configuration, which every result records."""
        ...

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """What is installed: for each part its name, whether it is usable, and its version.

        For a missing part, the text says how to get it, and None instead of False marks a part
        that is not required.
        """
        ...
