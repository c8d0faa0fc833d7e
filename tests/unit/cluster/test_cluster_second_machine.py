"""Which results of a measured run a second machine refutes, and what happens without one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from test_cluster_hosts import DESCRIPTION, Behaviour, Machines, right

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster import second_machine as module
from tilewright.cluster.connection import WorkerInfo
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.other_hosts import OtherHosts
from tilewright.cluster.second_machine import ALONE, ONLY_RESULTS, SecondMachine, refutation
from tilewright.core.errors import ClusterError
from tilewright.core.records import (
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)


def timed(latency: float, spread: float = 0.01) -> Measured:
    """A kernel with twenty samples whose largest is this share above the median."""
    samples = tuple(latency * (1 + spread * (n - 9.5) / 9.5) for n in range(20))
    verdict = Verdict((Check(1, "small"),))
    return Measured(
        latency, "ns", "measured", 0.5, verdict, samples={"session 1 candidate": samples}
    )


@pytest.mark.parametrize(
    ("first", "again", "is_refuted"),
    [
        (timed(100), timed(100), False),
        (timed(100), timed(104), False),  # a difference that other inputs may cause
        (timed(100), timed(108), True),
        (timed(100), timed(50), False),  # the first is used, which is slower
        (timed(100, 0.2), timed(115, 0.2), False),  # so noisy that the intervals overlap
        (timed(100, 0.2), timed(140, 0.2), True),
        (timed(100, 5.0), timed(150, 5.0), True),  # no machine can claim that it knows nothing
    ],
)
def test_latencies_are_compared_by_their_intervals(
    first: Measured, again: Measured, is_refuted: bool
) -> None:
    found = refutation(first, "a", again, "b", same_model=True)
    assert (found is not None) == is_refuted
    assert refutation(first, "a", again, "b", same_model=False) is None
    if found is not None:
        assert found.kind == "unconfirmed"
        assert found.log.startswith(f"{first.latency:g} ns on a (interval ")
        assert f"On b, the kernel takes {again.latency:g} ns (interval " in found.log


@pytest.mark.parametrize(
    ("failed", "same_model", "is_refuted"),
    [
        (Failed("check", "wrong_result", "differs"), True, True),
        (Failed("check", "wrong_result", "differs"), False, True),
        (Failed("check", "input_modified", "wrote"), False, True),
        (Failed("check", "illegal_instruction", "no such"), False, False),
        (Failed("check", "illegal_instruction", "no such"), True, True),
        (Failed("build", "compile_error", "no such"), False, False),
        (Failed("measure", "invalid", "too fast"), False, False),
        (Failed("measure", "invalid", "too fast"), True, True),
        (Failed("check", "timeout", "busy"), True, False),
    ],
)
def test_another_model_refutes_only_what_no_model_may_do(
    failed: Failed, same_model: bool, is_refuted: bool
) -> None:
    found = refutation(timed(100), "a", failed, "b", same_model)
    assert (found is not None) == is_refuted
    if found is not None:
        assert found.cause == failed.kind
        said = f"100 ns on a was not confirmed by a second machine. On b, the kernel {failed.words}"
        assert said in found.log


class Models(Machines):
    """Machines of which those with an upper-case name have another model of the device."""

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        return tuple(
            replace(w, offers=frozenset({"any", "other" if w.host.isupper() else "cpu"}))
            for w in super().workers
        )

    def receive(self, timeout_s: float) -> object:  # type: ignore[override]
        found = super().receive(timeout_s)
        if not found:
            time.sleep(0.001)
        return found


@contextmanager
def cluster(behaviours: dict[str, Behaviour]) -> Iterator[tuple[DaskExecutor, Models, list[str]]]:
    """An executor on machine "a", whose outcomes the other machines verify, and its notes."""
    notes, home, others = list[str](), Models({"a": behaviours["a"]}), Models(behaviours)
    hosts = Hosts(home, ["cpu"], "here:1", stays=True)  # type: ignore[arg-type]
    of_others = OtherHosts(
        others,  # type: ignore[arg-type]
        ["any"],
        "here:1",
        same_model=["cpu"],
        home=lambda: hosts.home,
    )
    second = SecondMachine(
        lambda hear: DaskExecutor(others, DESCRIPTION, of_others, on_finish=hear),  # type: ignore[arg-type]
        of_others,
        notes.append,
    )
    executor = DaskExecutor(home, DESCRIPTION, hosts, second=second)  # type: ignore[arg-type]
    yield executor, others, notes
    executor.close()


def requests(count: int) -> list[EvaluationRequest]:
    return [EvaluationRequest(Candidate(str(n)), 50.0) for n in range(1, count + 1)]


def slower(request: EvaluationRequest, described: bool) -> Outcome:
    found = right(request, described)
    assert isinstance(found, Measured)
    assert request.limit_latency == module.NO_LIMIT
    return replace(found, latency=2 * found.latency)


def test_every_outcome_is_verified_on_another_machine() -> None:
    with cluster({"a": right, "b": right}) as (executor, others, notes):
        for _ in range(2):
            assert [o.latency for o in executor.evaluate(requests(9))] == list(range(1, 10))  # type: ignore[union-attr]
    assert {host for host, _ in others.asked} == {"b"}
    assert len(others.asked) == 18
    assert notes == []


def test_a_slower_latency_refutes_only_the_second_time() -> None:
    with cluster({"a": right, "b": slower}) as (executor, others, _):
        assert {o.kind for o in executor.evaluate(requests(4))} == {"unconfirmed"}  # type: ignore[union-attr]
    assert len(others.asked) == 8
    times: dict[str, int] = {}

    def disturbed(request: EvaluationRequest, described: bool) -> Outcome:
        source = request.candidate.source
        times[source] = times.get(source, 0) + 1
        return (slower if times[source] == 1 else right)(request, described)

    with cluster({"a": right, "b": disturbed}) as (executor, _, _):
        assert [o.latency for o in executor.evaluate(requests(4))] == [1, 2, 3, 4]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["crash", "illegal_instruction"])
def test_a_failure_with_other_possible_causes_refutes_only_the_second_time(kind: str) -> None:
    """A machine may, for instance, have too little memory for a moment."""
    times: dict[str, int] = {}

    def fails(request: EvaluationRequest, described: bool) -> Outcome:
        times[request.candidate.source] = times.get(request.candidate.source, 0) + 1
        return Failed("check", kind, "killed")

    def recovers(request: EvaluationRequest, described: bool) -> Outcome:
        failed = fails(request, described)
        return failed if times[request.candidate.source] == 1 else right(request, described)

    with cluster({"a": right, "b": recovers}) as (executor, _, _):
        assert [o.latency for o in executor.evaluate(requests(3))] == [1, 2, 3]  # type: ignore[union-attr]
    assert set(times.values()) == {2}
    times.clear()
    with cluster({"a": right, "b": fails}) as (executor, _, _):
        assert {o.kind for o in executor.evaluate(requests(3))} == {"unconfirmed"}  # type: ignore[union-attr]
    assert set(times.values()) == {2}


def test_a_wrong_result_refutes_the_first_time() -> None:
    def wrong(request: EvaluationRequest, described: bool) -> Outcome:
        return Failed("check", "wrong_result", "differs")

    with cluster({"a": right, "b": wrong}) as (executor, others, _):
        assert {o.kind for o in executor.evaluate(requests(3))} == {"unconfirmed"}  # type: ignore[union-attr]
    assert len(others.asked) == 3


def test_a_machine_with_the_same_model_is_preferred() -> None:
    with cluster({"a": right, "B": slower, "b": right}) as (executor, others, notes):
        executor.evaluate(requests(5))
    assert {host for host, _ in others.asked} == {"b"}
    assert notes == []


def test_a_machine_with_another_model_verifies_no_latency() -> None:
    with cluster({"a": right, "B": slower}) as (executor, others, notes):
        assert [o.latency for o in executor.evaluate(requests(3))] == [1, 2, 3]  # type: ignore[union-attr]
        executor.evaluate(requests(2))
    assert len(others.asked) == 5
    assert notes == [ONLY_RESULTS]


def test_one_machine_alone_is_believed_and_says_so_once() -> None:
    with cluster({"a": right}) as (executor, others, notes):
        for _ in range(2):
            assert [o.latency for o in executor.evaluate(requests(3))] == [1, 2, 3]  # type: ignore[union-attr]
    assert others.asked == []
    assert notes == [ALONE]


def test_a_run_goes_on_if_the_second_machine_fails() -> None:
    with cluster({"a": right, "b": lambda *_: b"garbage"}) as (executor, _, notes):
        for _ in range(2):
            assert [o.latency for o in executor.evaluate(requests(5))] == [1, 2, 3, 4, 5]  # type: ignore[union-attr]
    (note,) = notes
    assert note.startswith("until this search ends, no second machine verifies its kernels: the ")


def test_an_excluded_machine_is_not_waited_for() -> None:
    """The machine that measures cannot verify, so a batch waited 30 s for nothing."""
    machines = Models({"a": right, "b": right})
    others = OtherHosts(machines, ["any"], "here:1", same_model=["cpu"], home=lambda: "a")  # type: ignore[arg-type]
    assert not others.all_left_out
    others.leave_out("b", "is wrong")
    assert others.all_left_out
    assert others.why_alone().startswith("the worker on b is wrong. ")


def test_a_second_machine_that_left_is_named_in_plain_words() -> None:
    machines = Models({"a": right})
    others = OtherHosts(machines, ["any"], "here:1", same_model=["cpu"], home=lambda: "a")  # type: ignore[arg-type]
    assert not others.all_left_out  # its worker may be restarting
    assert others.why_alone() == (
        "no other machine of here:1 has workers that can evaluate them now."
    )


def test_a_batch_that_ends_early_ends_the_verification() -> None:
    def end() -> None:
        raise ClusterError("it ends.")

    with cluster({"a": right, "b": right}) as (executor, _, _):
        with pytest.raises(ClusterError, match="it ends"):
            executor.evaluate(requests(5), lambda *_: end())
        assert [o.latency for o in executor.evaluate(requests(3))] == [1, 2, 3]  # type: ignore[union-attr]


def test_only_verified_outcomes_are_cached() -> None:
    kept: dict[str, Outcome] = {}
    with cluster({"a": right, "b": slower}) as (executor, _, _):
        executor._cache._store = kept.__setitem__
        executor.evaluate(requests(3))
    assert not kept
