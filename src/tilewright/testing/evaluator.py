"""Contract suites of the `Builder`, `Checker` and `Runner` roles, for a task with a correct
starting kernel.

Subclass `EvaluatorContract` in a test module, or `CheckerContract` if kernels cannot be measured.
Define the fixtures `open_task` (opens a small task with the given settings) and `wrong` (a source
that builds and runs but computes a wrong result).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

from tilewright.core.codec import to_json
from tilewright.core.plugins import load_target
from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Verdict,
)
from tilewright.core.roles import Builder, Checker, Runner, Task
from tilewright.evaluation.pipeline import evaluate
from tilewright.evaluation.sent_outcome import read_outcome

OpenTask: TypeAlias = Callable[[Mapping[str, object]], Task]
MEASURED_NOISE = 3.0
"""Ratio by which two measured latencies of one kernel may differ on a busy machine."""
NO_KERNELS = ("", "this is not a kernel {", "\x00", "#include <stdio.h>")
Evaluator: TypeAlias = tuple[Builder, Checker, Runner]


def built(builder: Builder, source: str) -> Artifact:
    """The artifact of a source that must build."""
    artifact = builder.build(Candidate(source))
    assert isinstance(artifact, Artifact), artifact
    return artifact


class CheckerContract:
    """Tests of a target's builder and checker, which also work if kernels cannot be measured."""

    @pytest.fixture
    def open_task(self) -> OpenTask:
        """Opens a small task; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def wrong(self) -> str:
        """A source that computes a wrong result; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def task(self, open_task: OpenTask) -> Task:
        """The task with input seed 1."""
        return open_task({"input_seed": 1})

    @pytest.fixture
    def evaluator(self, task: Task) -> Evaluator:
        """The builder, checker and runner of `task`."""
        return task.evaluator

    @pytest.fixture
    def artifact(self, task: Task, evaluator: Evaluator) -> Artifact:
        """The compiled starting kernel."""
        return built(evaluator[0], task.start)

    @pytest.fixture
    def verdict(self, artifact: Artifact, evaluator: Evaluator) -> Verdict:
        """The verdict on the starting kernel."""
        verdict = evaluator[1].check(artifact)
        assert isinstance(verdict, Verdict), verdict
        return verdict

    def test_the_evaluator_is_made_once(self, task: Task) -> None:
        """A task creates its evaluator once, because it holds the inputs and the expected
        outputs."""
        assert task.evaluator is task.evaluator

    def test_builds_are_reproducible(
        self, task: Task, evaluator: Evaluator, artifact: Artifact
    ) -> None:
        """Building the same source twice gives the same bytes, and the artifact records the
        compiler."""
        again = built(evaluator[0], task.start)
        assert again == artifact
        assert artifact.candidate_id == Candidate(task.start).id
        assert artifact.toolchain

    @pytest.mark.parametrize("source", NO_KERNELS)
    def test_what_is_no_kernel_is_a_failed_build(self, evaluator: Evaluator, source: str) -> None:
        """A text that is not a kernel gives a failure record with a log, never an exception."""
        failed = evaluator[0].build(Candidate(source))
        assert isinstance(failed, Failed)
        assert failed.stage == "build"
        assert failed.log.strip()

    def test_failures_are_of_a_declared_kind(
        self, task: Task, evaluator: Evaluator, wrong: str
    ) -> None:
        """A failure has a general kind or one that the target's brief declares. Other kinds raise
        `UndeclaredFailureError`."""
        kinds = load_target(task.workload.target).brief().failure_kinds
        for source in (*NO_KERNELS, wrong):
            request = EvaluationRequest(Candidate(source))
            outcome = evaluate(evaluator, request, kinds=lambda: kinds)
            assert isinstance(outcome, Failed)

    def test_checks_use_several_seeds_and_distributions(self, verdict: Verdict) -> None:
        """A check uses at least three seeds and three input distributions."""
        assert len({check.seed for check in verdict.checks}) >= 3
        assert len({check.distribution for check in verdict.checks}) >= 3

    def test_another_input_seed_gives_other_checks(
        self, open_task: OpenTask, artifact: Artifact, verdict: Verdict
    ) -> None:
        """Another input seed gives other inputs, because the inputs are private to a run."""
        other = open_task({"input_seed": 2}).evaluator[1].check(artifact)
        assert isinstance(other, Verdict)
        assert not {c.seed for c in other.checks} & {c.seed for c in verdict.checks}

    def test_a_wrong_result_fails_the_check(self, evaluator: Evaluator, wrong: str) -> None:
        """A wrong result fails the check, and the failure names the first element that differs."""
        failed = evaluator[1].check(built(evaluator[0], wrong))
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("check", "wrong_result")
        assert "got" in failed.log
        assert "expected" in failed.log


class EvaluatorContract(CheckerContract):
    """Tests that the builder, checker and runner of every target must pass."""

    def test_a_wrong_result_is_also_noticed_while_measuring(
        self, evaluator: Evaluator, verdict: Verdict, wrong: str
    ) -> None:
        """A wrong kernel is also rejected during measurement, even with the verdict of another
        artifact."""
        failed = evaluator[2].measure(built(evaluator[0], wrong), verdict, None)
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("measure", "wrong_result")

    def test_a_measurement_is_complete(
        self, task: Task, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """A measurement has a latency with unit and kind, the utilisation, the verdict, versions,
        and the hash of the measured artifact.

        The target's brief explains each entry of the breakdown.
        """
        measured = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(measured, Measured), measured
        assert measured.latency > 0
        assert 0 < measured.utilization <= 1
        assert set(verdict.checks) <= set(measured.verdict.checks)
        assert measured.versions
        assert measured.artifact_digest == artifact.digest
        brief = load_target(task.workload.target).brief()
        assert set(measured.breakdown) <= {cause.name for cause in brief.causes}

    def test_a_measurement_may_be_sent_by_another_process(
        self, task: Task, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """A measurement that another process sends is accepted: none of its fields is rejected as
        forged, and its latency is of the kind that the target's brief declares.
        """
        measured = evaluator[2].measure(artifact, verdict, None)
        declared = load_target(task.workload.target).brief().latency
        assert read_outcome(to_json(measured), declared) == measured

    def test_a_simulation_repeats_exactly(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """Simulated latencies are the same in every run. Measured times may vary."""
        first = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(first, Measured)
        if first.quantity == "simulated":
            assert evaluator[2].measure(artifact, verdict, None) == first

    def test_what_exceeds_the_limit_is_stopped_with_its_bound(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """A kernel slower than the limit is stopped. The reported bound is at least the limit and
        at most the true latency, apart from noise."""
        full = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(full, Measured)
        noise = 1.0 if full.quantity == "simulated" else MEASURED_NOISE
        stopped = evaluator[2].measure(artifact, verdict, full.latency / (2 * noise))
        assert isinstance(stopped, Failed)
        assert (stopped.stage, stopped.kind) == ("measure", "slower_than_limit")
        assert stopped.bound is not None
        assert full.latency / (2 * noise) <= stopped.bound <= full.latency * noise

    def test_a_limit_above_the_latency_changes_nothing(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """A limit above the latency does not change the measurement, apart from noise."""
        full = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(full, Measured)
        again = evaluator[2].measure(artifact, verdict, full.latency * 2 * MEASURED_NOISE)
        if full.quantity == "simulated":
            assert again == full
        else:
            assert isinstance(again, Measured)
