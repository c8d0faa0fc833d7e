"""The role of a task, a workload with its starting kernel, and the optional roles of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import (
    Argument,
    Artifact,
    AttackResult,
    ExternalResult,
    Failed,
    Measured,
    Workload,
)
from tilewright.core.roles.evaluating import Builder, Checker, Runner
from tilewright.core.tuning_records import TunableWorkload, TunedKernel

Data: TypeAlias = bytes | memoryview
"""The bytes of an array; a `memoryview` of bytes takes no copy of a large one."""


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
class ComparesFurther(Protocol):
    """A task whose checker has the role `ChecksFurther`.

    A search compares its starting kernel as strictly as a winner when it measures it, so preflight
    does not evaluate it.
    """

    compares_further: Literal[True]


@runtime_checkable
class LimitsWorkers(Protocol):
    """A task whose measurements cannot run at the same time, so further workers would only wait."""

    most_workers: int


@runtime_checkable
class Untimed(Protocol):
    """A task whose kernels this machine may be able to check but not to measure."""

    @property
    def untimed(self) -> str | None:
        """What is missing and what to do, as a clause ("no GPU ..."); None if all is there."""
        ...


@runtime_checkable
class ComparesTuned(Protocol):
    """A task with which kernels of the tuner can be compared, if the tuner has tuned its
    workload."""

    @property
    def tunable(self) -> TunableWorkload | None:
        """What the tuner must tune; None if it cannot tune the workload, or not on this machine."""
        ...

    def tuned_baseline(self, kernel: TunedKernel) -> str:
        """The text of the baseline, which is evaluated under the kernel's name as proposer."""
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
