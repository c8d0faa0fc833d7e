"""Contract suites of the `Builder`, `Checker` and `Runner` roles, for a task with a correct
starting kernel.

Subclass `EvaluatorContract` in a test module (`CheckerContract` where nothing can be measured) and
give the fixtures `open_task` (opens a small task with the given settings) and `wrong` (a source
that builds and runs but computes something else).
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
    """Tests of the builder and the checker of a target, even if nothing can be measured."""

    @pytest.fixture
    def open_task(self) -> OpenTask:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def wrong(self) -> str:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def task(self, open_task: OpenTask) -> Task:
        """The task of input seed 1."""
        return open_task({"input_seed": 1})

    @pytest.fixture
    def evaluator(self, task: Task) -> Evaluator:
        """The roles of `task`."""
        return task.evaluator

    @pytest.fixture
    def artifact(self, task: Task, evaluator: Evaluator) -> Artifact:
        """The starting kernel, built."""
        return built(evaluator[0], task.start)

    @pytest.fixture
    def verdict(self, artifact: Artifact, evaluator: Evaluator) -> Verdict:
        """The starting kernel, checked."""
        verdict = evaluator[1].check(artifact)
        assert isinstance(verdict, Verdict), verdict
        return verdict

    def test_the_evaluator_is_made_once(self, task: Task) -> None:
        """Inputs and expected outputs are kept in it."""
        assert task.evaluator is task.evaluator

    def test_builds_are_reproducible(
        self, task: Task, evaluator: Evaluator, artifact: Artifact
    ) -> None:
        """The same source gives the same bytes, and says what built them."""
        again = built(evaluator[0], task.start)
        assert again == artifact
        assert artifact.candidate_id == Candidate(task.start).id
        assert artifact.toolchain

    @pytest.mark.parametrize("source", NO_KERNELS)
    def test_what_is_no_kernel_is_a_failed_build(self, evaluator: Evaluator, source: str) -> None:
        """A record with a log, never an exception."""
        failed = evaluator[0].build(Candidate(source))
        assert isinstance(failed, Failed)
        assert failed.stage == "build"
        assert failed.log.strip()

    def test_failures_are_of_a_declared_kind(
        self, task: Task, evaluator: Evaluator, wrong: str
    ) -> None:
        """The general ones and those of the target's brief; `UndeclaredFailureError` for others."""
        kinds = load_target(task.workload.target).brief().failure_kinds
        for source in (*NO_KERNELS, wrong):
            outcome = evaluate(evaluator, EvaluationRequest(Candidate(source)), kinds=kinds)
            assert isinstance(outcome, Failed)

    def test_checks_use_several_seeds_and_distributions(self, verdict: Verdict) -> None:
        """At least three of each."""
        assert len({check.seed for check in verdict.checks}) >= 3
        assert len({check.distribution for check in verdict.checks}) >= 3

    def test_another_input_seed_gives_other_checks(
        self, open_task: OpenTask, artifact: Artifact, verdict: Verdict
    ) -> None:
        """Inputs are private to a run."""
        other = open_task({"input_seed": 2}).evaluator[1].check(artifact)
        assert isinstance(other, Verdict)
        assert not {c.seed for c in other.checks} & {c.seed for c in verdict.checks}

    def test_a_wrong_result_fails_the_check(self, evaluator: Evaluator, wrong: str) -> None:
        """With the first mismatch."""
        failed = evaluator[1].check(built(evaluator[0], wrong))
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("check", "wrong_result")
        assert "got" in failed.log
        assert "expected" in failed.log


class EvaluatorContract(CheckerContract):
    """What the three roles of every target must do."""

    def test_a_wrong_result_is_also_noticed_while_measuring(
        self, evaluator: Evaluator, verdict: Verdict, wrong: str
    ) -> None:
        """A verdict for other bytes does not help."""
        failed = evaluator[2].measure(built(evaluator[0], wrong), verdict, None)
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("measure", "wrong_result")

    def test_a_measurement_is_complete(
        self, task: Task, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """Latency with unit and kind, utilisation, verdict, versions, the measured bytes' hash.

        The target's brief says what each entry of the breakdown counts.
        """
        measured = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(measured, Measured), measured
        assert measured.latency > 0
        assert measured.unit in ("cycles", "ns")
        assert measured.quantity in ("simulated", "measured", "modelled")
        assert 0 < measured.utilization <= 1
        assert set(verdict.checks) <= set(measured.verdict.checks)
        assert measured.versions
        assert measured.artifact_digest == artifact.digest
        causes = load_target(task.workload.target).brief().causes
        assert set(measured.breakdown) <= {cause.name for cause in causes}

    def test_a_measurement_may_be_sent_by_another_process(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """None of its fields is taken for forged."""
        measured = evaluator[2].measure(artifact, verdict, None)
        assert read_outcome(to_json(measured)) == measured

    def test_a_simulation_repeats_exactly(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """Measured times may vary; simulated ones may not."""
        first = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(first, Measured)
        if first.quantity == "simulated":
            assert evaluator[2].measure(artifact, verdict, None) == first

    def test_what_exceeds_the_limit_is_stopped_with_its_bound(
        self, evaluator: Evaluator, artifact: Artifact, verdict: Verdict
    ) -> None:
        """The bound is at least the limit and at most the true latency, as far as it repeats."""
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
        """The full measurement comes back; a measured one as far as it repeats."""
        full = evaluator[2].measure(artifact, verdict, None)
        assert isinstance(full, Measured)
        again = evaluator[2].measure(artifact, verdict, full.latency * 2 * MEASURED_NOISE)
        if full.quantity == "simulated":
            assert again == full
        else:
            assert isinstance(again, Measured)
