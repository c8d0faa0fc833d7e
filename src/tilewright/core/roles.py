"""Every role on one page. Roles receive records, never the engine.

An implementation of a role is checked by the contract suite of the same name in
`tilewright.testing`. Batch in, batch out; effects are small callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from tilewright.core.compiled_code import CompiledCode
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
from tilewright.core.templates import KernelTemplate, Point, TriedPoint

NOTHING_CHECKED = Verdict()

OnOutcome = Callable[[int, Outcome, float, bool], None]
"""Called as each request finishes: its index, outcome, seconds taken, whether from the cache."""

More = Callable[[], Sequence[EvaluationRequest] | None]
"""Further requests of a batch that is still made: those that are there, after a moment's wait for
the first; empty where there are none yet, None at the batch's end."""

Checkpoint = Callable[[], None]
"""Called several times a second while a batch is evaluated; what it raises ends the batch."""


MenuFilter = Callable[[TargetBrief, Trial, Sequence[MenuOption]], tuple[MenuOption, ...]]
"""The options of a menu that may help a kernel of a target, as its source and its measurement tell:
what cannot help is left out, what is not certain stays."""


@runtime_checkable
class Proposer(Protocol):
    """Writes candidates in two steps. Deterministic for a given `seed`.

    One that mostly waits for others says so by a true attribute `waits`: its methods may then be
    called from several threads at once, and candidates that are somewhat slower than their parent
    are measured to the end. One that computes, and for each parent apart, says so by a
    true attribute `parallel`: parents may then be given to pickled copies of it in other processes.
    One that can only work on kernels in some languages names these in an attribute `languages`.
    One that carries out recorded schedules (`Brief.schedules`) as a whole says so by a true
    attribute `replays`: it is not led through them plan by plan.
    """

    name: str

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans for `parent`, each on one option it is offered."""
        ...

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates that carry out `plan`; empty when it cannot be carried out."""
        ...

    def normalize(self, source: str, target: TargetBrief) -> str:
        """A canonical form: two sources with equal forms are the same kernel (comments, layout)."""
        ...


@runtime_checkable
class SearchStrategy(Protocol):
    """Chooses parents from the history, and says when to stop.

    A pure function of the history. What it would have to walk the history for, it keeps as an
    index of its own (`History.indexed`). Found through the entry point group
    `tilewright.strategies`, as a callable that makes one from a run's `Settings`.
    """

    def select(self, history: History) -> list[Trial]:
        """The trials to expand next; never empty once a trial is measured.

        The first one's candidates are evaluated first, which tells where a budget ends.
        """
        ...

    def limit_latency(self, parent: Trial) -> float | None:
        """Latency at or above which a child of `parent` would not be kept; None for no limit."""
        ...

    def should_stop(self, history: History, iteration: int) -> str | None:
        """Why the search is over before `iteration` starts, or None."""
        ...


class ParameterSearch(Protocol):
    """Chooses which instances of a template are evaluated next."""

    def next_points(
        self, template: KernelTemplate, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        """Up to `count` distinct points, none of them tried, the most promising first.

        A pure function of its arguments: a resumed run asks the same. Fewer where all were tried.
        """
        ...


class Builder(Protocol):
    """Turns a source into the exact bytes that will be checked and measured."""

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """Raises `ToolchainMissingError` when there is no compiler."""
        ...


@runtime_checkable
class Sandboxed(Protocol):
    """A builder that contains what a candidate makes it run."""

    @property
    def sandbox(self) -> str:
        """The level of containment, as it is recorded with every outcome."""
        ...


class Checker(Protocol):
    """Compares an artifact with the reference on private inputs."""

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """One comparison, for a candidate that may turn out too slow to be kept."""
        ...

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """All comparisons, at least one of each distribution, but those `passed` already.

        The verdict has those too. The first mismatch becomes the failure's log.
        """
        ...


class Runner(Protocol):
    """Measures an artifact that passed its checks."""

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """May stop early with `slower_than_limit`; the output of the measured run is checked."""
        ...


class Executor(Protocol):
    """Evaluates requests on every core; a killed or crashed worker is a `Failed`, never a raise."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests, then of those that `more` adds.

        `more` is asked whenever something could be started but nothing waits to be, so that
        candidates are made while others are evaluated. An exception raised by `on_outcome`,
        `more` or `checkpoint` (the search stops: budget, Ctrl-C) ends the batch: evaluations under
        way are given up, nothing further is started and the exception propagates.
        """
        ...

    def close(self) -> None:
        """Stop every worker. Idempotent."""
        ...


class Storage(Protocol):
    """Keeps runs, trials, artifacts and cached outcomes. Every call is durable when it returns."""

    def create_run(self, run: RunRecord) -> None:
        """Record a new run."""
        ...

    def update_run(self, run_id: str, *, status: str, stop_reason: str, wall_s: float) -> None:
        """Set a run's status (running, finished, interrupted), stop reason and wall seconds."""
        ...

    def run(self, run_id: str) -> RunRecord:
        """A run by id or unique prefix ("latest" for the newest); `UnknownNameError` if none."""
        ...

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        ...

    def delete_run(self, run_id: str) -> None:
        """Remove a run (by its full id) and all that belongs to it alone; cached outcomes stay."""
        ...

    def unfinished(self, identity: str) -> RunRecord | None:
        """The newest run with this identity that is not finished."""
        ...

    def append_trial(self, run_id: str, trial: Trial) -> None:
        """Append one trial; its index must be the next one."""
        ...

    def amend_trial(self, run_id: str, index: int, outcome: Outcome) -> None:
        """Replace the outcome of a trial: a later check refuted it, or found out more."""
        ...

    def history(self, run_id: str) -> History:
        """All trials of a run."""
        ...

    def cached_outcome(self, key: str) -> Outcome | None:
        """Outcome stored under a content key, if any."""
        ...

    def store_outcome(self, key: str, outcome: Outcome) -> None:
        """Store an outcome under a content key.

        The first one stored wins, except that a bare lower bound ("slower_than_limit") gives way
        to a higher bound or to a full outcome.
        """
        ...

    def put_artifact(self, data: bytes, kind: str) -> str:
        """Store bytes by content; returns their SHA-256."""
        ...

    def artifact(self, digest: str) -> bytes:
        """Bytes by SHA-256; `UnknownNameError` if there are none."""
        ...

    def keep(self, run_id: str, note: RunNote) -> None:
        """Keep a note of a run, after earlier ones of the same class."""
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
    """Keeps calls to models. Thread-safe; every call of it is durable when it returns."""

    def reply(self, key: str) -> Mapping[str, object] | None:
        """The recorded reply to this call, whichever run of the project made it."""
        ...

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        """Record that a call is about to be made; an earlier intent of the run is replaced."""
        ...

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        """Record how an intended call ended; `reply` is None when it failed."""
        ...

    def annotate(self, run_id: str, key: str, note: str) -> None:
        """Say of a finished call why its reply could not be used."""
        ...

    def calls(self, run_id: str) -> list[CallRecord]:
        """A run's calls in the order of their intents."""
        ...

    def exchanges(
        self, run_id: str
    ) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
        """Key, request and reply of a run's answered calls, in the order of their intents."""
        ...

    def close(self) -> None:
        """Release the database. Idempotent."""
        ...


@runtime_checkable
class StreamingPlanner(Protocol):
    """A proposer whose plans become known one by one."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """What `plan` returns, in the same order, each one as soon as it is known."""
        ...


@runtime_checkable
class Responder(Protocol):
    """A proposer that goes on from what became of candidates of its own."""

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """What follows from these outcomes; empty for others' work.

        They are of one candidate that failed, of which it gives corrected versions, or of all
        candidates of a turn (`Plan.turn`), whose proposal it goes on with. All were made from
        `parent`; `history` is the one that they were proposed from.
        """
        ...


@runtime_checkable
class LiveProposer(Protocol):
    """A proposer whose authors go on by themselves while their kernels are evaluated.

    Outcomes are told by `Responder.respond`, in any thread, as soon as they are there.
    """

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """Candidates as their author wants them evaluated, until it is done.

        None for a plan that is carried out by `implement`.
        """
        ...

    def give_up(self) -> None:
        """Nobody evaluates anything more for those at work: they are to end. Idempotent."""
        ...


@runtime_checkable
class Surveyor(Protocol):
    """A proposer that works on the parts of a kernel it understands, and can name the others."""

    def left_alone(self, target: TargetBrief, source: str) -> list[LeftAlone]:
        """The code it will not change, in textual order; all of it where it understands nothing."""
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
        """Sources by name that a result is compared with, slowest first; may be empty."""
        ...

    @property
    def fingerprint(self) -> str:
        """Content hash of what decides an outcome beside source, workload and versions.

        The reference and the settings that choose inputs; part of every cache key.
        """
        ...

    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Built on first use; lives in the process that evaluates."""
        ...


class CheckCase(Protocol):
    """One comparison of a task's check, open to made-up outputs. Arrays are bytes by name."""

    @property
    def distribution(self) -> str:
        """Of the values of the inputs."""
        ...

    @property
    def arguments(self) -> Sequence[Argument]:
        """Of this comparison; a target may compare at smaller sizes than it measures."""
        ...

    @property
    def given(self) -> Mapping[str, bytes]:
        """Every argument as the kernel finds it; outputs hold what it must overwrite."""
        ...

    @property
    def expected(self) -> Mapping[str, bytes]:
        """Every written argument as a right kernel leaves it."""
        ...

    def reference(self, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Right outputs for other inputs; computed anew with every call."""
        ...

    def mismatch(self, outputs: Mapping[str, bytes]) -> str | None:
        """How outputs differ from the right ones by the task's own rule, or None."""
        ...

    @property
    def careless(self) -> Mapping[str, float]:
        """By shortcut that costs digits: its error over the one that is allowed.

        Shortcuts that make no difference here are left out; empty for tasks of whole numbers.
        """
        ...


@runtime_checkable
class Attackable(Protocol):
    """A task whose own check can be attacked before a budget is spent on it."""

    def check_cases(self) -> Sequence[CheckCase]:
        """All comparisons that a candidate must pass, the measured run's last."""
        ...

    def hostile_kernels(self) -> Mapping[str, str]:
        """Sources that must fail, by what they do ("writes zeros")."""
        ...


@runtime_checkable
class PublishedRules(Protocol):
    """A task of a published benchmark that has a rule of correctness of its own."""

    def published_rules(self) -> Sequence[AttackResult]:
        """What that rule makes of wrong kernels, to be shown beside ours; it decides nothing."""
        ...


@runtime_checkable
class OffersTemplates(Protocol):
    """A task with kernels of the target's own whose parameters are free (docs/templates.md)."""

    def templates(self) -> Mapping[str, str]:
        """Their texts by name, the most promising first; empty where there are none."""
        ...


@runtime_checkable
class LeavesOut(Protocol):
    """A task that does not compare distributions of inputs on which its arithmetic itself fails."""

    def omissions(self) -> Mapping[str, str]:
        """These distributions, and why each is left out."""
        ...


@runtime_checkable
class Containable(Protocol):
    """A task whose evaluation, once it is open, needs no network and writes temporary files only.

    Its workers give up all other rights before they see a candidate.
    """

    containable: Literal[True]


@runtime_checkable
class ShowsCode(Protocol):
    """A task that can show what its compiler makes of a kernel."""

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code (or traced instructions) that would be measured, or why there is none.

        `ToolchainMissingError` where what reads machine code is missing.
        """
        ...


@runtime_checkable
class ExplainsCode(Protocol):
    """A task whose compiler says more of a kernel than its measurement does.

    The notes of its code stand beside the measurement in prompts and reports.
    """

    explains_code: Literal[True]


@runtime_checkable
class TakesTurns(Protocol):
    """A task whose measurements wait for one another: further workers would only wait longer."""

    most_workers: int


@runtime_checkable
class OnMachine(Protocol):
    """A target whose kernels only some machines can evaluate, whatever is installed elsewhere.

    Others name none: any machine with their toolchain will do.
    """

    @property
    def resource(self) -> str:
        """What the machine must have, as workers of a cluster announce it ("gemmini-sim")."""
        ...


@runtime_checkable
class Untimed(Protocol):
    """A task whose kernels may be such that this machine can check them, but not measure them."""

    @property
    def untimed(self) -> str | None:
        """What is missing and what to do, as a clause ("no GPU ..."); None where nothing is."""
        ...


@runtime_checkable
class ModelsLatency(Protocol):
    """A task whose latencies follow from a model that needs no data.

    A search begins with the modelled start, and compares it with the reference while it searches.
    """

    def modelled(self, source: str) -> Measured | Failed:
        """What the model says of a kernel that nothing was compared of, or why it is none."""
        ...


@runtime_checkable
class DerivesKernels(Protocol):
    """A task that makes its first kernel of the problem itself, which has none."""

    @property
    def derived(self) -> str:
        """What the problem is, or why no kernel is made of it, as a sentence; empty where none is
        ever made."""
        ...


@runtime_checkable
class Floored(Protocol):
    """A task that knows how fast its kernels can be at best."""

    def floor(self, measured: Measured) -> tuple[float, str]:
        """Latency that no correct kernel with these counts can beat, and the bound in words.

        Must hold for every legal kernel: what is faster is refused as a wrong measurement.
        """
        ...


ExternalRun = Callable[[str, float], ExternalResult | Failed]
"""Runs a kernel's source on an external simulator, for so many wall seconds at most."""


@runtime_checkable
class ExternallySimulated(Protocol):
    """A task whose kernels also run on simulators outside this package."""

    def external(self, simulator: str) -> ExternalRun:
        """The simulator by name; `ToolchainMissingError` says how to get it."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """A target that a user can describe another instance of."""

    def configured(self, file: Path) -> Target:
        """The instance `file` describes; `ConfigurationError` says what is wrong with it."""
        ...


@runtime_checkable
class Templated(Protocol):
    """A target that offers a folder for users to begin with."""

    def template(self) -> FolderTemplate:
        """Its starting kernel agrees with its reference."""
        ...


@runtime_checkable
class OpensFiles(Protocol):
    """A target whose workloads may be single files of a user's."""

    def open_file(self, file: Path, settings: Mapping[str, object]) -> Task:
        """The task that a file describes; an `InputError` says what is wrong with it."""
        ...


class Target(Protocol):
    """One accelerator: a folder behind the `tilewright.targets` entry point."""

    name: str
    """Name used in workload names (`gemmini` in `gemmini:gemm-512x512x512`)."""

    def brief(self) -> TargetBrief:
        """What proposers may know."""
        ...

    def workloads(self) -> Mapping[str, str]:
        """Workload patterns and registered names, each with one line of description."""
        ...

    def open(self, spec: str, settings: Mapping[str, object]) -> Task:
        """A task by the part of the name after the colon; `InputError`s for malformed ones.

        `settings` holds what a run records: `input_seed`, `checks`, timeouts.
        """
        ...

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> Task:
        """A user's own kernel: `workload.toml`, `reference.py` and its language's kernel file."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Compiler, simulator and configuration, as they go into every result."""
        ...

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """What is installed: name, whether usable, version or how to get it.

        None instead of False marks what is missing but not needed.
        """
        ...
