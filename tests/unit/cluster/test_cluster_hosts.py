"""Whom a search believes, on a made-up cluster: workers that lie, differ, vanish or measure."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tilewright.cluster import executor as module
from tilewright.cluster import message_sizes, silence
from tilewright.cluster.arrivals import Answered, Lost
from tilewright.cluster.connection import WorkerInfo
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.messages import TaskDescription, read_request
from tilewright.core.errors import ClusterError, WorkloadError
from tilewright.core.records import (
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.evaluation.replies import outcome_reply
from tilewright.testing.toy import LATENCY

DESCRIPTION = TaskDescription(
    "toy:digits", "toy", {}, {"compiler": "gcc 12"}, "context", {}, LATENCY
)
READY = {"ready": "context", "versions": {"compiler": "gcc 12"}}
MISSING, UNWANTED = [{"ready": None}], [READY]
OTHER_VERSIONS = [{"ready": "", "versions": {"compiler": "gcc 13"}}]
Behaviour = Callable[[EvaluationRequest, bool], Outcome | list[Any] | bytes | Lost]
"""What a host makes of a request, and whether it came with the task's description.

What is no outcome stands for the whole message.
"""


def right(request: EvaluationRequest, described: bool) -> Outcome:
    return measured(float(request.candidate.source))


def measured(latency: float) -> Measured:
    return Measured(latency, "cycles", "simulated", 0.5, Verdict((Check(1, "small"),)))


def reporting(kind: str, text: str) -> list[Any]:
    return [{"error": {"type": kind, "message": text}}]


class Machines:
    """The connection to a cluster whose hosts behave as they are told; each has one worker."""

    is_lost = False
    others: Mapping[str, Collection[str]] = {}

    def __init__(self, behaviours: Mapping[str, Behaviour], takes_s: float = 1.0) -> None:
        self.behaviours = dict(behaviours)
        self.new: Collection[str] = ()  # hosts whose workers answer under unlisted addresses
        self.takes_s = takes_s
        self.asked: list[tuple[str, str]] = []
        self.sizes: list[int] = []
        self._arrived = deque[Answered | Lost]()

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        return tuple(
            WorkerInfo(f"tcp://{host}:1", host, 1, frozenset({"cpu"})) for host in self.behaviours
        )

    def send(
        self,
        messages: Sequence[bytes],
        needs: Mapping[str, float],
        among: Iterable[str] | None = None,
    ) -> list[str]:
        allowed = list(self.behaviours) if among is None else list(among)
        keys = []
        for message in messages:
            host = allowed[len(self.asked) % len(allowed)]
            opening, requests = read_request(message)
            keys.append(f"k{len(self.sizes)}")
            self.sizes.append(len(requests))
            self.asked += [(host, request.candidate.source) for request in requests]
            described = not isinstance(opening, str)
            said = [self.behaviours[host](request, described) for request in requests]
            outcomes = [
                {**outcome_reply(request, o), "seconds": self.takes_s}
                for request, o in zip(requests, said, strict=True)
                if isinstance(o, Measured | Failed)
            ]
            answer = next((a for a in said if not isinstance(a, Measured | Failed)), None)
            if isinstance(answer, Lost):
                self._arrived.append(Lost(keys[-1], answer.died, f"tcp://{host}:1"))
                continue
            if answer is None:
                answer = [READY, *outcomes]
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            port = 2 if host in self.new else 1
            self._arrived.append(Answered(keys[-1], data, f"tcp://{host}:{port}"))
        return keys

    def receive(self, timeout_s: float) -> list[Answered | Lost]:
        found = list(self._arrived)
        self._arrived.clear()
        return found

    def give_up(self, keys: Iterable[str]) -> None:
        pass

    def close(self) -> None:
        pass


class Idle(Machines):
    """Machines of which the first that may answer gets every message."""

    def send(
        self,
        messages: Sequence[bytes],
        needs: Mapping[str, float],
        among: Iterable[str] | None = None,
    ) -> list[str]:
        first = next(h for h in self.behaviours if among is None or h in set(among))
        return super().send(messages, needs, [first])


def evaluated(
    machines: Machines,
    sources: Iterable[int] = range(1, 9),
    on_note: Callable[[str], None] = lambda sentence: None,
    **options: object,
) -> list[Outcome]:
    hosts = Hosts(machines, ["cpu"], "here:1", **{"repeats": True, **options})  # type: ignore[arg-type]
    executor = DaskExecutor(machines, DESCRIPTION, hosts, on_note=on_note)  # type: ignore[arg-type]
    return executor.evaluate([EvaluationRequest(Candidate(str(n))) for n in sources])


EXPECTED = [measured(float(n)) for n in range(1, 9)]


def test_what_may_win_is_heard_from_two_hosts() -> None:
    machines = Machines({"a": right, "b": right})
    assert evaluated(machines) == EXPECTED
    for n in range(1, 9):
        assert {host for host, source in machines.asked if source == str(n)} == {"a", "b"}


def test_failures_and_lone_hosts_are_believed_at_once() -> None:
    failed = Failed("check", "wrong_result", "differs")
    machines = Machines(dict.fromkeys("ab", lambda *_: failed))
    assert evaluated(machines, [1, 2]) == [failed] * 2
    assert len(machines.asked) == 2
    machines = Machines({"a": right})
    assert evaluated(machines) == EXPECTED
    assert len(machines.asked) == 8


def test_of_three_hosts_two_outvote_a_forger() -> None:
    def forger(request: EvaluationRequest, described: bool) -> Outcome:
        return measured(0.5)

    machines = Machines({"a": right, "b": forger, "c": right})
    assert evaluated(machines) == EXPECTED
    asked_last = {host for host, source in machines.asked if source == "8"}
    assert "b" not in asked_last  # it was left out when it was found out


def test_a_host_that_connects_again_and_again_is_one_host() -> None:
    """Under an address that is not listed yet, it counted as a further host, so it outvoted others
    with two equal answers, and could not be left out.
    """
    forged = measured(0.5)
    for lie in (forged, b"garbage"):
        machines = Machines({"a": right, "b": right, "evil": lambda *_, lie=lie: lie})
        machines.new = {"evil"}
        assert evaluated(machines) == EXPECTED
        assert sum(host == "evil" for host, _ in machines.asked) < len(EXPECTED)


def test_two_that_disagree_end_the_run() -> None:
    def forger(request: EvaluationRequest, described: bool) -> Outcome:
        return measured(0.5)

    with pytest.raises(ClusterError, match=r"workers on [ab] and [ab] disagree on a kernel"):
        evaluated(Machines({"a": right, "b": forger}))


@pytest.mark.parametrize("garbage", [b"", b"{}", b"\x80\x04pickled", b'{"outcome": 1}'])
def test_garbage_is_asked_of_others(garbage: bytes) -> None:
    machines = Machines({"a": right, "b": lambda *_: garbage})
    assert evaluated(machines) == EXPECTED
    assert sum(host == "b" for host, _ in machines.asked) <= 2  # then it is left out
    with pytest.raises(ClusterError, match="worker on b sends messages that are not answers"):
        evaluated(Machines({"b": lambda *_: garbage}))


def test_a_host_that_answers_in_another_unit_is_asked_no_more() -> None:
    def faster(request: EvaluationRequest, described: bool) -> Outcome:
        return replace(measured(0.5), unit="us")

    machines = Machines({"a": right, "b": faster})
    assert evaluated(machines) == EXPECTED
    assert sum(host == "b" for host, _ in machines.asked) <= 2
    with pytest.raises(ClusterError, match=r"worker on b .* 'us', but the target's latencies are"):
        evaluated(Machines({"b": faster}))


def test_other_versions_are_left_out() -> None:
    machines = Machines({"a": right, "b": lambda *_: OTHER_VERSIONS})
    assert evaluated(machines) == EXPECTED


def test_only_other_versions() -> None:
    with pytest.raises(
        ClusterError, match="worker on b has compiler gcc 13, but this run needs gcc 12"
    ):
        evaluated(Machines({"b": lambda *_: OTHER_VERSIONS}))


def test_a_task_is_described_when_it_is_missing() -> None:
    known = set[str]()

    def forgetful(request: EvaluationRequest, described: bool) -> Outcome | list[Any]:
        if described:
            known.add("a")
        return right(request, described) if known else MISSING

    machines = Machines({"a": forgetful})
    assert evaluated(machines) == EXPECTED


def test_a_worker_that_dies_costs_no_candidate() -> None:
    losses = iter([Lost("", died=True)] * 3 + [Lost("", died=False)] * 20)

    def mortal(request: EvaluationRequest, described: bool) -> Outcome | Lost:
        return next(losses, None) or right(request, described)

    assert evaluated(Machines({"a": mortal})) == EXPECTED


def test_a_host_on_which_every_worker_dies_makes_no_kernel_a_crash() -> None:
    """Its workers are idle when they come back, so they got the same request again and again."""
    machines = Idle({"b": lambda *_: Lost("", died=True), "a": right})
    assert evaluated(machines) == EXPECTED


def test_a_candidate_with_which_every_worker_dies() -> None:
    def mortal(request: EvaluationRequest, described: bool) -> Outcome | Lost:
        return Lost("", died=True) if request.candidate.source == "2" else right(request, described)

    for takes_s in (1.0, 0.001):  # alone in its messages, or with others at first
        outcomes = evaluated(Machines({"a": mortal}, takes_s), [1, 3, 2, *range(4, 60)])
        failed = outcomes.pop(2)
        assert isinstance(failed, Failed)
        assert failed.kind == "crash"
        assert all(isinstance(outcome, Measured) for outcome in outcomes)


def test_short_evaluations_share_messages_and_long_ones_do_not() -> None:
    long, short = Machines({"a": right}, takes_s=1.0), Machines({"a": right}, takes_s=0.001)
    for machines in (long, short):
        assert evaluated(machines, range(1, 401)) == [measured(float(n)) for n in range(1, 401)]
    assert set(long.sizes) == {1}
    assert max(short.sizes) == message_sizes.MOST_IN_MESSAGE
    assert len(short.sizes) < 40
    assert short.sizes[-1] < message_sizes.MOST_IN_MESSAGE  # the last ones are shared among workers


def test_a_worker_that_cannot_work() -> None:
    broken = reporting("OSError", "too many open files")
    with pytest.raises(ClusterError, match=r"worker on a fails .OSError: too many open files"):
        evaluated(Machines({"a": lambda *_: broken}))


def test_a_worker_that_could_not_work_once_is_asked_again() -> None:
    answers = iter([reporting("OSError", "too many open files")] * 3)
    machines = Machines({"a": lambda *given: next(answers, None) or right(*given)})
    assert evaluated(machines) == EXPECTED


def test_a_host_with_a_full_disk_takes_no_further_part() -> None:
    full = reporting("DiskFullError", "the disk of /tmp on b is full.")
    machines = Machines({"a": right, "b": lambda *_: full})
    assert evaluated(machines) == EXPECTED
    assert sum(host == "b" for host, _ in machines.asked) <= 2
    with pytest.raises(ClusterError, match=r"b has no space left on its disk .*the disk of /tmp"):
        evaluated(Machines({"b": lambda *_: full}))


def test_an_error_that_one_of_two_hosts_reports_ends_no_run() -> None:
    for kind in ("WorkloadError", "InternalError", "SystemExit", "no class"):
        lies = reporting(kind, "nothing works.\x1b[2J")
        machines = Machines({"a": right, "b": lambda *_, lies=lies: lies})
        assert evaluated(machines) == EXPECTED
        assert sum(host == "b" for host, _ in machines.asked) <= 2


def test_no_other_machine_reports_a_defect_of_this_one() -> None:
    lies = reporting("InternalError", "a defect.\x1b[2J")
    with pytest.raises(ClusterError, match=r"worker on b reports an error \(a defect\.\)"):
        evaluated(Machines({"b": lambda *_: lies}))


def test_an_error_of_the_task_is_told_where_only_one_host_is_there() -> None:
    wrong = reporting("WorkloadError", "the shape is wrong.")
    with pytest.raises(WorkloadError, match="the shape is wrong"):
        evaluated(Machines({"b": lambda *_: wrong}))


@pytest.mark.parametrize("answer", [MISSING, UNWANTED])
def test_answers_that_put_off_the_work_for_ever_end(answer: list[Any]) -> None:
    def putting_off(*_: object) -> list[Any]:
        assert len(machines.asked) < 20, "it is asked for ever"
        return answer

    machines = Machines({"b": putting_off})
    with pytest.raises(ClusterError, match="worker on b"):
        evaluated(machines, [1])


def test_measurements_stay_on_one_host() -> None:
    machines, homes = Machines({"b": right, "a": right}), list[str]()
    options = {"stays": True, "on_home": homes.append}
    assert evaluated(machines, **options) == EXPECTED
    assert {host for host, _ in machines.asked} == {"a"}
    assert homes == ["a"]
    machines.asked.clear()
    assert evaluated(machines, stays=True, home="b") == EXPECTED
    assert {host for host, _ in machines.asked} == {"b"}


@pytest.mark.parametrize(
    ("machines", "options", "sentence"),
    [
        ({}, {}, "scheduler at here:1 has no workers"),
        ({"a": right}, {"stays": True, "home": "b"}, "is measured on b, which has no workers now"),
    ],
)
def test_nobody_is_there(
    monkeypatch: pytest.MonkeyPatch,
    machines: dict[str, Behaviour],
    options: dict[str, object],
    sentence: str,
) -> None:
    monkeypatch.setattr(module, "NO_WORKER_S", 0.0)
    with pytest.raises(ClusterError, match=sentence):
        evaluated(Machines(machines), **options)


class Held(Machines):
    """Machines of which one gets its first message and says nothing."""

    def __init__(self, hosts: int, workers: int = 1) -> None:
        super().__init__({f"h{n}": right for n in range(hosts)})
        self.named: list[Sequence[str] | None] = []
        self.needed: list[Mapping[str, float]] = []
        self.given_up: list[str] = []
        self._held: list[Answered | Lost] = []
        self._all = tuple(
            WorkerInfo(f"tcp://{host}:{n}", host, 1, frozenset({"cpu"}))
            for host in self.behaviours
            for n in range(workers)
        )

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        return self._all

    def send(
        self,
        messages: Sequence[bytes],
        needs: Mapping[str, float],
        among: Iterable[str] | None = None,
    ) -> list[str]:
        self.named.append(None if among is None else list(among))
        self.needed.append(needs)
        keys = super().send(messages, needs)
        if not self._held:
            self._held = [self._arrived.popleft()]
        return keys

    def give_up(self, keys: Iterable[str]) -> None:
        self.given_up += keys


class Silent(Machines):
    """Machines of which the one with the name "mute" keeps its messages."""

    def __init__(self, behaviours: Mapping[str, Behaviour]) -> None:
        super().__init__(behaviours)
        self._kept: dict[str, str] = {}

    def receive(self, timeout_s: float) -> list[Answered | Lost]:
        found = super().receive(timeout_s)
        mute = [a for a in found if isinstance(a, Answered) and "mute" in a.worker]
        self._kept.update((answer.key, answer.worker) for answer in mute)
        if not found:
            time.sleep(0.001)
        return [answer for answer in found if answer not in mute]

    def held(self, keys: Iterable[str]) -> dict[str, str]:
        held = {**self._kept, **dict.fromkeys((a.key for a in self._arrived), "")}
        return {key: held[key] for key in keys if key in held}


def test_the_last_requests_of_a_batch_are_sent_a_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_sizes, "MESSAGE_S", 0.0)
    machines = Held(8)
    machines.takes_s = 0.001
    assert evaluated(machines, range(1, 61), repeats=False) == [
        measured(float(n)) for n in range(1, 61)
    ]
    assert [source for _, source in machines.asked].count("1") == 2
    assert "k0" in machines.given_up


def test_a_host_that_never_answers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler heard from it, so the run waited for its answers without end."""
    monkeypatch.setattr(message_sizes, "OVERDUE_S", 0.01)
    monkeypatch.setattr(message_sizes, "OVERDUE", 0.0)
    monkeypatch.setattr(silence, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(silence, "QUIET_S", 0.0)
    machines = Silent({"a": right, "b": right, "mute": right})
    assert evaluated(machines, range(1, 41)) == [measured(float(n)) for n in range(1, 41)]
    assert sum(host == "mute" for host, _ in machines.asked) < 10
    alone = Silent({"a": right, "b": right})
    assert evaluated(alone) == EXPECTED
    assert len(alone.asked) == 2 * len(EXPECTED)  # nothing is sent twice without reason


def test_another_worker_of_the_host_answers_for_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all workers on one host, the run waited for a worker that hangs without end."""
    monkeypatch.setattr(message_sizes, "OVERDUE_S", 0.01)
    monkeypatch.setattr(message_sizes, "OVERDUE", 0.0)
    monkeypatch.setattr(silence, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(silence, "QUIET_S", 0.0)

    class OneHost(Silent):
        @property
        def workers(self) -> tuple[WorkerInfo, ...]:
            return tuple(replace(worker, host="here") for worker in super().workers)

        def send(
            self,
            messages: Sequence[bytes],
            needs: Mapping[str, float],
            among: Iterable[str] | None = None,
        ) -> list[str]:
            names = None if among is None else [a[6:-2] for a in among if a.startswith("tcp://")]
            return super().send(messages, needs, names or None)

    for repeats in (False, True):
        machines = OneHost({"a": right, "mute": right})
        assert evaluated(machines, repeats=repeats) == EXPECTED
        assert any(name == "mute" for name, _ in machines.asked)


def test_a_host_that_answers_in_between_is_not_left_out() -> None:
    """A busy host may keep a message waiting for a long time."""
    machines = Machines({"a": right, "b": right})
    hosts = Hosts(machines, ["cpu"], "here:1", repeats=True)  # type: ignore[arg-type]
    watched = silence.Silence(machines, hosts)  # type: ignore[arg-type]
    for n in range(2 * silence.MOST_UNANSWERED):
        watched._silent_host[f"k{n}"] = "a"
        watched.note_answer(f"copy of k{n}", f"k{n}")
        watched.note_heard("a")
    assert hosts.has_others(["b"])
    for n in range(silence.MOST_UNANSWERED):
        watched._silent_host[f"k{n}"] = "a"
        watched.note_answer(f"copy of k{n}", f"k{n}")
    assert not hosts.has_others(["b"])


def test_a_host_that_has_answered_is_not_left_out_for_a_worker_that_ended() -> None:
    """Only hosts that never answered a request are excluded because their workers ended with it."""
    times = {"a": 0, "b": 0}

    def first_ends(request: EvaluationRequest, described: bool) -> Outcome | Lost:
        times["a"] += 1
        return Lost("", died=True) if times["a"] == 1 else right(request, described)

    def always_ends(request: EvaluationRequest, described: bool) -> Lost:
        return Lost("", died=True)

    machines = Machines({"a": first_ends, "b": always_ends})
    assert evaluated(machines, [1, 2, 3]) == [measured(float(n)) for n in (1, 2, 3)]


def test_of_many_workers_the_scheduler_chooses_among_a_few() -> None:
    machines = Held(10, workers=7)
    machines._held = [Lost("", died=False)]  # nothing is held back
    outcomes = evaluated(machines, range(1, 201), repeats=False)
    assert outcomes == [measured(float(n)) for n in range(1, 201)]
    addresses = {worker.address for worker in machines.workers}
    assert all(named and len(named) <= 64 and set(named) <= addresses for named in machines.named)
    assert len({tuple(named or ()) for named in machines.named}) > 1
    assert not any(machines.needed)  # what they offer was seen here
