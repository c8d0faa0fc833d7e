"""Roles of the parts that build, check and measure kernels, and of executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)

NOTHING_CHECKED = Verdict()


OnOutcome = Callable[[int, Outcome, float, bool], None]
"""Called when a request ends: its index, outcome, seconds, and whether the cache had it."""


More = Callable[[], Sequence[EvaluationRequest] | None]
"""Returns further requests of a batch that is still being made, after waiting a moment for the
first one. The result is empty if there are none yet, and None if the batch is complete."""


Checkpoint = Callable[[], None]
"""Called several times a second while a batch is evaluated; an exception from it ends the batch."""


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


@runtime_checkable
class NamesUnchecked(Protocol):
    """A checker that may accept a kernel without a part of its checks."""

    def unchecked(self, artifact: Artifact) -> tuple[str, ...]:
        """Sentences that say what was left out for the artifact that was checked last. They are
        added to the warnings of its outcome.
        """
        ...


@runtime_checkable
class ChecksFurther(Protocol):
    """A `Checker` that can make more comparisons than the settings say."""

    def check_further(self, artifact: Artifact, comparisons: int) -> Verdict | Failed:
        """At least this many comparisons, and at least one for each distribution."""
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
