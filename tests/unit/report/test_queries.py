from dataclasses import replace

import pytest

from tilewright.core.records import Candidate, Failed, History, Measured, Plan, Trial
from tilewright.report.queries import report_view
from tilewright.testing.runs import history, measured, run_record

PLAN = Plan("", "widen-moves", "Merge the moves of A.", "builtin", expected="half the loads")


def child(index: int, parent: Trial, latency: float | Failed) -> Trial:
    outcome = measured(latency) if isinstance(latency, float) else latency
    candidate = Candidate(f"kernel {index}\nsame\n", parent.candidate.id, PLAN, "builtin")
    return Trial(index, 1, candidate, outcome)


def small_history() -> History:
    start = Trial(0, 0, Candidate("kernel 0\nsame\n"), measured(1000.0))
    kept = child(1, start, 500.0)
    return History(
        [
            start,
            kept,
            child(2, start, 1100.0),
            child(3, start, Failed("measure", "slower_than_limit", "too slow", bound=1000.0)),
            child(4, start, Failed("check", "wrong_result", "C[0][0] differs", line=7)),
            child(5, kept, 250.0),
        ]
    )


def test_states_speedups_and_gains() -> None:
    view = report_view(run_record(), small_history())
    states = [t.state for t in view.trials]
    assert states == ["start", "kept", "rejected", "stopped", "failed", "kept"]
    assert [t.speedup for t in view.trials] == [1.0, 2.0, 1000 / 1100, None, None, 4.0]
    assert view.trials[5].gain == 2.0
    assert [t.parent for t in view.trials] == [None, 0, 0, 0, 0, 1]
    assert view.count("start", "kept", "rejected") == 4
    assert view.metric == "simulated cycles"


def test_the_schedule_leads_from_the_start_to_the_best() -> None:
    view = report_view(run_record(), small_history())
    assert [t.index for t in view.schedule] == [0, 1, 5]
    assert view.best is view.trials[5]
    assert view.baseline is view.trials[0]
    assert view.schedule[1].plan == PLAN.text
    assert view.schedule[1].expected == PLAN.expected
    assert view.best_source == "kernel 5\nsame\n"
    assert view.checks == "3 private inputs (small, full range, sparse)"


def test_diffs_are_against_the_parent_and_failures_keep_their_place() -> None:
    view = report_view(run_record(), small_history())
    assert view.trials[5].diff == ("@@ -1,2 +1,2 @@", "-kernel 1", "+kernel 5", " same")
    assert view.trials[0].diff == ()
    assert view.trials[4].failure == "wrong result (check, line 7)"
    assert view.trials[4].log == "C[0][0] differs"


def test_versions_join_the_run_and_the_best_measurement() -> None:
    versions = report_view(run_record(), small_history()).versions
    assert versions["compiler"] == "gcc 12.2.0"
    assert versions["binary"] == "5d0a1c"


def test_feedback_and_warnings_go_with_their_trial() -> None:
    trials = list(small_history())
    best = report_view(run_record(), History(trials)).best
    assert best is not None
    outcome = trials[best.index].outcome
    assert isinstance(outcome, Measured)
    told = replace(outcome, feedback="the array waits", warnings=("unordered: line 3",))
    trials[best.index] = replace(trials[best.index], outcome=told)
    view = report_view(run_record(), History(trials)).best
    assert view is not None
    assert (view.feedback, view.warnings) == ("the array waits", ("unordered: line 3",))


def test_nothing_measured_is_nothing_to_compare() -> None:
    failed = Failed("build", "compile_error", "kernel.c:1: error")
    view = report_view(run_record(), History([Trial(0, 0, Candidate("x"), failed)]))
    assert view.best is None
    assert view.baseline is None
    assert view.schedule == ()
    assert report_view(run_record(), History()).trials == ()


@pytest.mark.parametrize("count", [100, 1000])
def test_long_diffs_and_logs_share_a_fixed_room(count: int) -> None:
    trials = list(history(count, lines=300))
    for index in range(1, count):
        noisy = Failed("check", "wrong_result", "y" * 100_000)
        rewritten = replace(trials[index].candidate, source=f"{index}\n" * 5000)
        if index % 2:
            trials[index] = replace(trials[index], outcome=noisy)
        elif trials[index].latency is None:
            trials[index] = replace(trials[index], candidate=rewritten)
    view = report_view(run_record(), History(trials))
    assert sum(len(t.log) for t in view.trials) < 1_100_000
    lost = [t for t in view.trials if not t.winning]
    assert sum(len("\n".join(t.diff)) for t in lost) < 2_200_000
