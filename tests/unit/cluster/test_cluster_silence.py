"""A search does not wait for ever if the answers of its scheduler do not arrive."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from test_cluster_hosts import EXPECTED, Machines, evaluated, right

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster import (
    connection,
    executor,
    message_sizes,
    silence,
    verdicts,
    worker_stream,
)
from tilewright.cluster.arrivals import Answered, Lost
from tilewright.cluster.connection import Connection
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.pending_messages import UnderWay
from tilewright.core.errors import ClusterError
from tilewright.core.records import Candidate, EvaluationRequest
from tilewright.evaluation.batch import Pending


class Muted(Machines):
    """Machines whose answers do not arrive until the search has connected this number of times."""

    def __init__(self, times: int) -> None:
        super().__init__({"a": right, "b": right})
        self.opened, self._times = 0, times

    def receive(self, timeout_s: float) -> list[Answered | Lost]:
        found = super().receive(timeout_s)
        return [a for a in found if isinstance(a, Lost) or self.opened >= self._times]

    def held(self, keys: Iterable[str]) -> dict[str, str]:
        return {}

    def reopen(self) -> None:
        self.opened += 1
        self._arrived.extend(Lost(f"k{n}", died=False) for n in range(len(self.sizes)))


@pytest.fixture
def asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "QUIET_S", 0.01)
    monkeypatch.setattr(silence, "ASK_EVERY_S", 0.01)


@pytest.mark.usefixtures("asks_at_once")
@pytest.mark.parametrize("times", [1, silence.MOST_REOPENED])
def test_a_search_connects_again_if_answers_do_not_arrive(times: int) -> None:
    machines = Muted(times)
    assert evaluated(machines) == EXPECTED
    assert machines.opened == times


@pytest.mark.usefixtures("asks_at_once")
def test_a_search_ends_if_new_connections_do_not_help() -> None:
    machines = Muted(1000)
    with pytest.raises(ClusterError, match=r"here:1 can be reached, but its answers do not arrive"):
        evaluated(machines)
    assert machines.opened == silence.MOST_REOPENED


@pytest.mark.usefixtures("asks_at_once")
def test_a_scheduler_that_still_works_on_messages_is_waited_for() -> None:
    class Slow(Machines):
        """Machines that answer only after the scheduler was asked ten times."""

        asked_times = 0

        def receive(self, timeout_s: float) -> list[Answered | Lost]:
            time.sleep(0.005)
            return super().receive(timeout_s) if self.asked_times >= 10 else []

        def held(self, keys: Iterable[str]) -> dict[str, str]:
            self.asked_times += 1
            return dict.fromkeys(keys, "")

    assert evaluated(Slow({"a": right, "b": right})) == EXPECTED


@pytest.mark.usefixtures("asks_at_once")
def test_a_cluster_in_which_all_workers_hang_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies of their messages were sent to other workers that hang, so the run waited without
    end.
    """
    monkeypatch.setattr(message_sizes, "OVERDUE_S", 0.01)
    monkeypatch.setattr(executor, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(silence, "NOTE_S", 0.1)
    monkeypatch.setattr(silence, "MOST_STEP_S", 0.05)

    class Hanging(Machines):
        """Machines that never answer, although the scheduler hears from them."""

        def receive(self, timeout_s: float) -> list[Answered | Lost]:
            time.sleep(0.01)
            return []

        def held(self, keys: Iterable[str]) -> dict[str, str]:
            return {key: f"tcp://{'ab'[int(key[1:]) % 2]}:1" for key in keys}

    for stays in (False, True):  # whether measurements of other machines can be compared
        notes = list[str]()
        with pytest.raises(ClusterError, match=r"answered for \d s, .* workers on a( and b)? have"):
            evaluated(Hanging({"a": right, "b": right}), stays=stays, on_note=notes.append)
        assert [note[:35] for note in notes] == ["no worker of here:1 has answered fo"]


class Watched:
    """A search with one message under way, whose evaluations may take 100 s each; `worker` has the
    message ("" if it waits).
    """

    def __init__(self, requests: int = 1) -> None:
        machines = Machines({"a": right})
        machines.held = lambda keys: dict.fromkeys(keys, self.worker)  # type: ignore[attr-defined]
        hosts = Hosts(machines, ["cpu"], "here:1")  # type: ignore[arg-type]
        self.worker, self.notes, self.machines = "tcp://a:1", list[str](), machines
        self.silence = silence.Silence(machines, hosts, 100.0, self.notes.append)  # type: ignore[arg-type]
        self._sent = UnderWay()
        job = Job(Pending(EvaluationRequest(Candidate("1")), [0]))
        self._sent.add(["k0"], [[job] * requests])

    def look(self, *times_s: float) -> None:
        for now_s in times_s:
            self.silence.overdue(self._sent, now_s, math.inf)

    def ends(self, now_s: float) -> None:
        with pytest.raises(ClusterError, match="no worker of here:1 has answered for"):
            self.look(now_s)


def test_a_search_that_was_stopped_itself_does_not_blame_the_workers() -> None:
    watched = Watched()
    watched.look(100.0, 130.0, 160.0, 100_000.0, 100_005.0)  # a step of hours
    watched.ends(100_010.0)


def test_silence_is_counted_from_the_first_question_about_a_message() -> None:
    watched = Watched()
    watched.look(10_000.0, 10_025.0, 10_050.0, 10_075.0, 10_099.0)
    watched.ends(10_104.0)
    watched = Watched()
    watched.look(100.0, 125.0, 150.0, 175.0)
    watched.silence.note_heard("a")
    watched.look(200.0, 225.0, 250.0, 275.0, 299.0)
    watched.ends(304.0)


def test_the_time_that_a_message_waits_for_a_worker_is_not_counted() -> None:
    """Suitable workers may be gone for a moment."""
    watched = Watched()
    watched.worker = ""
    watched.look(*range(100, 10_000, 25))
    assert watched.notes == []
    watched.worker = "tcp://a:1"
    watched.look(10_000, 10_025, 10_050, 10_075, 10_099)
    watched.ends(10_104)


def test_workers_that_answer_another_search_are_not_silent() -> None:
    """The scheduler gives a message to a worker at once, where it waits for the messages of other
    searches.
    """
    watched = Watched()
    for n in range(100):  # each takes 90 s
        watched.machines.others = {"tcp://a:1": {f"k{n}", f"k{n + 1}"}, "tcp://b:1": {"stays"}}
        watched.look(*(90.0 * n + 1000 + s for s in (0, 30, 60)))
    watched.machines.others = {"tcp://a:1": {"k99", "k100"}}  # it hangs now
    watched.look(10_000.0, 10_009.0)
    watched.ends(10_014.0)


def test_the_messages_of_other_searches_are_listed_for_the_workers_with_own_ones() -> None:
    async def get_task_status(keys: list[str]) -> dict[str, str]:
        return dict.fromkeys(keys, "processing")

    async def processing(workers: None) -> dict[str, list[Any]]:
        own = ["tilewright-1234-0", "tilewright-1234-1"]
        return {"tcp://a:1": [*own, "tilewright-abcd-7", ("x", 1)], "tcp://b:1": ["y"]}

    opened = object.__new__(Connection)
    scheduler = SimpleNamespace(get_task_status=get_task_status, processing=processing)
    opened._client, opened._session = SimpleNamespace(scheduler=scheduler), "1234"
    keys = ["tilewright-1234-0", "tilewright-1234-9"]
    found = asyncio.run(opened._held(keys))
    assert found == {"tilewright-1234-0": "tcp://a:1", "tilewright-1234-9": ""}
    assert opened.others == {"tcp://a:1": {"tilewright-abcd-7", "('x', 1)"}}


def test_a_message_with_several_requests_may_take_longer() -> None:
    watched = Watched(requests=3)
    watched.look(*range(100, 400, 25))
    assert [note.rpartition("If none")[2] for note in watched.notes] == [
        " answers for 5 minutes, the run ends and can be continued"
    ]
    watched.ends(400)


def test_a_request_whose_answers_are_lost_again_and_again_ends_the_run() -> None:
    asked = 0

    def losing(*_: object) -> Lost:
        nonlocal asked
        asked += 1
        assert asked < 200, "it is asked for ever"
        return Lost("", died=False)

    with pytest.raises(ClusterError, match=r"lost the results of the same kernel from a"):
        evaluated(Machines({"a": losing}), [1])
    assert asked == verdicts.MOST_UNHEARD + 1


def test_other_hosts_answer_if_the_answers_of_one_are_lost() -> None:
    machines = Machines({"a": lambda *_: Lost("", died=False), "b": right})
    assert evaluated(machines) == EXPECTED
    assert sum(host == "a" for host, _ in machines.asked) <= len(EXPECTED) * (
        verdicts.MOST_UNHEARD + 1
    )


def test_a_client_of_dask_that_does_not_start_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_closed = threading.Event()

    def opened_late(*_: object, **__: object) -> object:
        time.sleep(0.5)
        return SimpleNamespace(close=is_closed.set)

    monkeypatch.setattr(connection, "create_client", opened_late)
    monkeypatch.setattr(connection, "OPEN_S", 0.1)
    with pytest.raises(ClusterError, match=r"here:1 does not answer .*no connection within 0.1 s"):
        connection._client("tcp://127.0.0.1:1", "here:1")
    assert is_closed.wait(10)


def test_a_scheduler_that_does_not_answer_for_long_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process keeps its connections open, so dask does not notice it."""
    monkeypatch.setattr(connection, "AWAY_S", 0.05)
    monkeypatch.setattr(connection, "LOOK_EVERY_S", 0.0)
    answers = True

    async def identity(n_workers: int) -> dict[str, Any]:
        while not answers:
            await asyncio.sleep(0.01)
        worker = {"id": "tcp://a:1", "host": "a", "nthreads": 1}
        return {"workers": {"tcp://a:1": worker}}

    async def look() -> list[bool]:
        nonlocal answers
        looking = asyncio.create_task(opened._look())
        found = []
        for answers in (True, False, True):  # noqa: B007  (`identity` reads it)
            await asyncio.sleep(0.3)
            found.append(opened.is_lost)
        looking.cancel()
        return found

    opened = object.__new__(Connection)
    scheduler = SimpleNamespace(identity=identity)
    opened._client = SimpleNamespace(status="running", scheduler=scheduler)
    opened._workers, opened._asked_s = (), None
    assert asyncio.run(look()) == [False, True, False]


@pytest.mark.parametrize(
    ("listed", "ends"),
    [
        ([["k1"], ["k1"]], True),
        ([["k1"], ["k2"], ["k3"], []], False),  # messages that are on their way
        ([["known"], ["known"], []], False),
        ([["k1"], None, ["k1"]], False),  # no answer in between
    ],
)
def test_a_worker_notices_messages_that_it_does_not_receive(
    monkeypatch: pytest.MonkeyPatch, listed: list[list[str] | None], ends: bool
) -> None:
    monkeypatch.setattr(worker_stream, "ASK_EVERY_S", 0.0)
    answers = iter(listed)

    async def processing(workers: list[str]) -> dict[str, list[str]]:
        for answer in answers:
            if answer is None:
                raise OSError("the scheduler is away")
            return {workers[0]: answer}
        raise asyncio.CancelledError

    worker: Any = SimpleNamespace(
        address="tcp://a:1",
        scheduler=SimpleNamespace(processing=processing),
        state=SimpleNamespace(tasks={"known": None}),
    )
    if ends:
        asyncio.run(worker_stream.silence(worker))
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(worker_stream.silence(worker))
