"""What an evaluation receives and returns: requests, artifacts, checks, latencies and failures."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tilewright.core.records.failures import FailureKind, Stage
from tilewright.core.records.proposals import Candidate
from tilewright.core.records.targets import LatencyKind


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A candidate to evaluate. The measurement may stop when it exceeds `limit_latency`.

    At least `comparisons` comparisons are made, if the task has the role `ComparesFurther`.
    `is_baseline` is true for a baseline that is identified by the name of its proposer, so that its
    outcome is not that of a candidate with the same text.
    """

    candidate: Candidate
    limit_latency: float | None = None
    comparisons: int = 0
    is_baseline: bool = False

    @property
    def identity(self) -> tuple[str, ...]:
        """The text of the candidate, and the name of a baseline: requests with different identities
        may have different outcomes.
        """
        named = (self.candidate.proposer,) if self.is_baseline else ()
        return (self.candidate.source, *named)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A built candidate: the exact bytes that are checked and measured, and what built them.

    `source` is its text, for a checker or a runner that examines it; otherwise it is empty.
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
_QUANTILE = 2.326
"""99 % of a normal distribution are below this number of standard deviations above its mean."""
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
    - `feedback`: a text for the proposer of the next step, which names the largest costs
    - `sandbox`: the sandbox in which the kernel was built or run natively, if the target names one
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

    def __repr__(self) -> str:
        """The numbers that a user looks at first, without samples and texts."""
        return (
            f"Measured(latency={self.latency:g}, unit={self.unit!r}, quantity={self.quantity!r}, "
            f"utilization={self.utilization:.3g}, precision={self.verdict.precision!r})"
        )

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of a confidence interval (98 %) of the median latency.

        Without samples, the interval is the latency plus and minus its noise. Otherwise, its ends
        are two samples of the candidate: those with the ranks between which the median lies with
        this probability (Hollander and Wolfe, Nonparametric Statistical Methods, section 3.6).
        """
        pooled = sorted(
            sample
            for name, series in self.samples.items()
            if name.endswith("candidate")
            for sample in series
        )
        if not pooled:
            return self.latency * (1 - self.noise), self.latency * (1 + self.noise)
        rank = max(0, int((len(pooled) - _QUANTILE * math.sqrt(len(pooled))) / 2))
        return min(self.latency, pooled[rank]), max(self.latency, pooled[-1 - rank])

    def is_faster_than(self, other: Measured, least_gain: float) -> bool:
        """Whether the latency is lower than that of `other` by more than the share `least_gain`,
        and noise does not explain the difference: the whole interval is below that of `other`.
        """
        gains = self.latency < other.latency * (1 - least_gain)
        return gains and self.interval[1] < other.interval[0]

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

    For "slower_than_limit", `bound` is a latency that the candidate exceeds. For "unconfirmed",
    `cause` is the kind of failure of the second evaluation, or "out_of_time" if the budget ended
    before this evaluation. `sandbox` has the same meaning as in `Measured`.

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
    cause: FailureKind = ""

    @property
    def words(self) -> str:
        """A description of the failure, such as "does not build (link error)"."""
        return f"{_FAILS[self.stage]} ({self.kind_in_words})"

    @property
    def kind_in_words(self) -> str:
        """The kind of failure as words, such as "link error"."""
        return self.kind.replace("_", " ")


_FAILS: dict[Stage, str] = {
    "build": "does not build",
    "check": "fails its check",
    "measure": "cannot be measured",
}
Outcome: TypeAlias = Measured | Failed


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The verdict of a task's check on one deliberately wrong kernel, before a search.

    `text` says what the kernel does, `log` how the check rejected it, and `remedy` what to change
    in the task if the check accepted it. "indistinguishable" means that the kernel has a lower
    precision that the task cannot distinguish reliably. The task is then accepted, but its results
    have no precision class.
    """

    name: str
    text: str
    verdict: Literal["rejected", "accepted", "indistinguishable", "does not apply"]
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

    @property
    def precision(self) -> str:
        """Class of precision if measured and known, else empty."""
        return self.outcome.verdict.precision if isinstance(self.outcome, Measured) else ""
