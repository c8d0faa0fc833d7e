"""Simulates searches on clusters of many sizes, to show how busy workers are and what limits them.

    uv run python benchmarks/cluster_simulation.py [--workers 1 10 100 1000 10000] [--searches 20]

The searches (proposing, batches, executor, messages) are real: the CPU time of each is added to its
own virtual clock, as if it had a core to itself. The choice of a worker by the scheduler of
dask.distributed is also real, and is timed at the start with as many workers. The workers are
simulated, with evaluation times of a recorded run (`cluster_times.json`) scaled to a mean of
`--seconds-each`. Two in a hundred workers are five times slower. Each worker ends once an hour, is
away for ten seconds, and its work goes to others. The other costs are constants: those of a message
at the scheduler were measured with `benchmarks/cluster.py` on a busy machine, and those of the
network and of the database are assumptions. There is one scheduler and one database.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.cluster import executor as executor_module
from tilewright.cluster.arrivals import Answered, Lost
from tilewright.cluster.connection import LOOK_EVERY_S, LOOKED_AT, WorkerInfo
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.messages import TaskDescription, read_request
from tilewright.core.budget import Budget
from tilewright.core.config import Settings
from tilewright.core.records import (
    Brief,
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
    Plan,
    Trial,
    Verdict,
    content_id,
)
from tilewright.evaluation.replies import outcome_reply, ready_reply
from tilewright.search.beam import BeamSearch
from tilewright.search.in_process import StepByStep
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches
from tilewright.search.steps import SearchTask
from tilewright.testing.toy import LATENCY, ToyProposer, ToyTarget, ToyTask, digits_of

NETWORK_S = 0.0005
"""One way."""
SCHEDULER_S = 0.0013
"""CPU of the scheduler for a message and its answer, without the choice of a worker."""
CLIENT_S = 0.0006
"""CPU of dask's client in the search for a message and its answer."""
WORKER_S = 0.0035
"""CPU of a worker for a message and its answer, without the evaluations."""
STORE_S = 0.002
"""Of a search for a trial and its outcome in PostgreSQL."""
DATABASE_S = 0.0008
"""Of the database's server for the same."""
SLOW, SLOWER = 0.02, 5.0
"""Share of workers that are slower, and by how much."""
ENDS_EVERY_S, AWAY_S = 3600.0, 10.0
RESTART_S = 1.0
"""Of a worker's evaluating process that was ended because nobody waits for it any more."""
PER_HOST = 64
NEEDS = ("cpu", "toy@1")
DESCRIPTION = TaskDescription("toy:digits", "toy", {}, {}, "context", {}, LATENCY)
TIMES = Path(__file__).with_name("cluster_times.json")


class Clock:
    """Virtual seconds; what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Have something done then, or now if that is over."""
        heapq.heappush(self._events, (max(when, self.now), next(self._order), action))

    def run(self, until: float) -> None:
        """Do all that is to happen before."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until


class Server:
    """Serves one after another, in the order in which they come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = 0.0
        self.busy_s = 0.0

    def serve(self, takes_s: float, then: Callable[[], None]) -> None:
        """Do something of so many seconds, `then` something else."""
        self._free = max(self._free, self._clock.now) + takes_s
        self.busy_s += takes_s
        self._clock.at(self._free, then)


@dataclass(eq=False)
class Worker:
    """One process, and how many times slower than others it is."""

    number: int
    slower: float
    queue: deque[Message] = field(default_factory=deque)
    current: Message | None = None
    since: float = 0.0
    is_there: bool = True
    life: int = 0  # ends of it so far

    @property
    def load(self) -> int:
        """Messages that it has."""
        return len(self.queue) + (self.current is not None)


@dataclass(eq=False)
class Message:
    """What a search has sent, and who hears the answer."""

    data: bytes
    key: str
    named: Sequence[Worker] | None
    answer: Callable[[Answered], None]
    worker: Worker | None = None
    is_wanted: bool = True


class Cluster:
    """A scheduler and its workers; `busy` are spans of evaluations that came to an end."""

    def __init__(
        self, clock: Clock, count: int, mean_s: float, decide: Decide, identity_s: float
    ) -> None:
        self.clock, self.scheduler, self.database = clock, Server(clock), Server(clock)
        self._rng, self._decide, self.identity_s = random.Random(count), decide, identity_s
        times = json.loads(TIMES.read_text())["wall_s"]
        self._times = [t * mean_s * len(times) / sum(times) for t in times]
        self.workers = [
            Worker(n, SLOWER if self._rng.random() < SLOW else 1.0) for n in range(count)
        ]
        self.infos = tuple(
            WorkerInfo(f"tcp://{w.number}:1", f"host{w.number // PER_HOST}", 1, frozenset(NEEDS))
            for w in self.workers
        )
        self._by_name: dict[str, list[Worker]] = {}
        for info, worker in zip(self.infos, self.workers, strict=True):
            self._by_name.setdefault(info.address, []).append(worker)
            self._by_name.setdefault(info.host, []).append(worker)
            self._plan_end(worker)
        self._lightest = [(0, self._rng.random(), w.number) for w in self.workers]
        heapq.heapify(self._lightest)
        self.busy: list[tuple[float, float]] = []

    def submit(self, message: Message, among: Iterable[str] | None) -> None:
        """Reaches the scheduler now."""
        if among is not None:
            message.named = [w for name in among for w in self._by_name[name]]
        self.scheduler.serve(
            SCHEDULER_S / 2 + self._decide(message.named), lambda: self._assign(message)
        )

    def _assign(self, message: Message) -> None:
        if not message.is_wanted:
            return
        worker = message.worker = self._least(message.named)
        worker.queue.append(message)
        self._weigh(worker)
        self.clock.at(self.clock.now + NETWORK_S, lambda: self._begin(worker))

    def _least(self, named: Sequence[Worker] | None) -> Worker:
        there = [w for w in named or () if w.is_there]
        if there:
            return min(there, key=lambda w: (w.load, self._rng.random()))
        while True:  # entries of loads that have changed since are stale
            load, _, number = heapq.heappop(self._lightest)
            worker = self.workers[number]
            if worker.is_there and worker.load == load:
                return worker

    def _weigh(self, worker: Worker) -> None:
        heapq.heappush(self._lightest, (worker.load, self._rng.random(), worker.number))

    def _begin(self, worker: Worker) -> None:
        if worker.current is not None or not worker.queue or not worker.is_there:
            return
        message = worker.current = worker.queue.popleft()
        worker.since = self.clock.now
        requests = read_request(message.data)[1]
        takes = [worker.slower * self._rng.choice(self._times) for _ in requests]
        outcomes = [
            {**outcome_reply(r, outcome_of(r)), "seconds": s}
            for r, s in zip(requests, takes, strict=True)
        ]
        replies = [ready_reply(DESCRIPTION.context, DESCRIPTION.versions), *outcomes]
        answer = Answered(message.key, json.dumps(replies).encode(), "")
        life, ends = worker.life, self.clock.now + sum(takes)
        span = self.clock.now, ends

        def finish() -> None:
            if worker.life != life:
                return
            self.busy.append(span)
            worker.current = None
            self._weigh(worker)
            self._begin(worker)
            reply = lambda: self.clock.at(  # noqa: E731
                self.clock.now + NETWORK_S, lambda: message.answer(answer)
            )
            self.clock.at(
                self.clock.now + NETWORK_S, lambda: self.scheduler.serve(SCHEDULER_S / 2, reply)
            )

        self.clock.at(ends + WORKER_S, finish)

    def give_up(self, message: Message) -> None:
        """Its worker ends the evaluation, and starts another evaluating process."""
        message.is_wanted, worker = False, message.worker
        if worker is None:
            return
        if message in worker.queue:
            worker.queue.remove(message)
            self._weigh(worker)
        elif worker.current is message:
            worker.life += 1
            life = worker.life

            def again() -> None:
                if worker.life == life:
                    worker.current = None
                    self._weigh(worker)
                    self._begin(worker)

            self.clock.at(self.clock.now + RESTART_S, again)

    def _plan_end(self, worker: Worker) -> None:
        self.clock.at(
            self.clock.now + self._rng.expovariate(1 / ENDS_EVERY_S), lambda: self._end(worker)
        )

    def _end(self, worker: Worker) -> None:
        left = [*filter(None, [worker.current]), *worker.queue]
        worker.is_there, worker.current, worker.life = False, None, worker.life + 1
        worker.queue.clear()

        def back() -> None:
            worker.is_there = True
            self._weigh(worker)
            self._plan_end(worker)

        self.clock.at(self.clock.now + AWAY_S, back)
        if len(self.workers) > 1:
            for message in left:
                self._assign(message)
        else:
            self.clock.at(self.clock.now + AWAY_S, lambda: [*map(self._assign, left)])


class SearchProcess:
    """One search on a thread of its own, of which one at a time runs: those of the clock's turn.

    Also its `Connection`.
    """

    is_lost = False

    def __init__(self, cluster: Cluster, seed: int, settings: Settings) -> None:
        self._cluster, self._clock = cluster, cluster.clock
        self._seed, self._settings = seed, settings
        self._arrived = list[Answered | Lost]()
        self._messages = dict[str, Message]()
        self._sent, self._turn, self._done = itertools.count(), 0, threading.Semaphore(0)
        self._go = threading.Semaphore(0)
        self._local = self._cpu = 0.0
        self._waits = False
        self.cpu_s = 0.0
        self.heard = 0  # messages of one evaluation each
        self._clock.at(0.0, self._start)

    def _start(self) -> None:
        threading.Thread(target=self._work, daemon=True).start()
        self._resume()
        self._look()

    def _look(self) -> None:
        """As the real connection does: the scheduler is asked which workers there are."""
        cluster = self._cluster
        cluster.scheduler.serve(cluster.identity_s, lambda: None)
        every_s = max(LOOK_EVERY_S, len(cluster.workers) / LOOKED_AT)
        self._clock.at(self._clock.now + every_s, self._look)

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """As the scheduler knows them."""
        return self._cluster.infos

    def send(
        self,
        messages: Sequence[bytes],
        needs: Mapping[str, float],
        among: Iterable[str] | None = None,
    ) -> list[str]:
        """As `Connection`."""
        keys = [str(next(self._sent)) for _ in messages]
        among = None if among is None else tuple(among)
        for key, data in zip(keys, messages, strict=True):
            self._charge(CLIENT_S)
            message = self._messages[key] = Message(data, key, None, self._hear)
            self._clock.at(
                self._local + NETWORK_S,
                lambda message=message: self._cluster.submit(message, among),  # type: ignore[misc]
            )
        return keys

    def receive(self, timeout_s: float) -> list[Answered | Lost]:
        """As `Connection`, in virtual time."""
        self._charge()
        self._turn += 1
        turn = self._turn

        def look(last: bool) -> None:
            if turn != self._turn:
                return
            if self._arrived or last:
                self._waits = False
                self._resume()
            else:
                self._waits = True

        self._clock.at(self._local, lambda: look(not timeout_s))
        if timeout_s:
            self._clock.at(self._local + timeout_s, lambda: look(True))
        self._pause()
        found, self._arrived = self._arrived, []
        return found

    def held(self, keys: Iterable[str]) -> dict[str, str]:
        """No worker hangs, and no answer is lost."""
        return dict.fromkeys(keys, "")

    def give_up(self, keys: Iterable[str]) -> None:
        """As `Connection`."""
        for key in keys:
            if (message := self._messages.pop(key, None)) is not None:
                given_up = message
                self._clock.at(
                    self._local + 2 * NETWORK_S,
                    lambda message=given_up: self._cluster.give_up(message),  # type: ignore[misc]
                )

    def close(self) -> None:
        """Nothing is open."""

    def _hear(self, answered: Answered) -> None:
        if self._messages.pop(answered.key, None) is None:
            return  # given up
        self.heard += 1
        self._arrived.append(answered)
        if self._waits:
            self._waits = False
            self._resume()

    def _resume(self) -> None:
        self._turn += 1
        self._go.release()
        self._done.acquire()

    def _pause(self) -> None:
        self._done.release()
        self._go.acquire()
        self._local, self._cpu = self._clock.now, time.thread_time()

    def _charge(self, more_s: float = 0.0) -> None:
        """Add what this thread has computed since to its time."""
        now = time.thread_time()
        self._local += now - self._cpu + more_s
        self.cpu_s += now - self._cpu + more_s
        self._cpu = now

    def _append(self, trial: Trial) -> None:
        self._charge(STORE_S)
        self._cluster.database.serve(DATABASE_S, lambda: None)

    def _work(self) -> None:
        self._go.acquire()
        self._local, self._cpu = self._clock.now, time.thread_time()
        strategy = BeamSearch(self._settings.beam, self._settings.iterations, 10**6)
        task = SearchTask(ToyTask.workload, ToyTarget().brief(), Unending(), self._settings)
        hosts = Hosts(self, NEEDS, "the simulation")  # type: ignore[arg-type]
        search = Search(
            strategy=strategy,
            batches=Batches(task, strategy, StepByStep(task), lambda event: None),
            executor=DaskExecutor(self, DESCRIPTION, hosts),  # type: ignore[arg-type]
            append=self._append,
            iterations=self._settings.iterations,
            budget=Budget(),
            wall_s=lambda: 0.0,
            on_event=lambda event: None,
        )
        search.run(search.evaluate_start(Candidate(f"toy {10**12} 0")))


class Unending(ToyProposer):
    """Always has another candidate, some of them faster; a kernel is its latency and a number."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Each is up to a tenth faster or a twentieth slower than its parent."""
        rng, before = random.Random(seed), digits_of(parent.candidate.source)[0]
        sources = [
            f"toy {int(before * rng.uniform(0.9, 1.05))} {rng.randrange(10**9)}"
            for _ in range(count)
        ]
        return [Candidate(source, parent.candidate.id, plan, self.name) for source in sources]


def outcome_of(request: EvaluationRequest) -> Outcome:
    latency, limit = float(digits_of(request.candidate.source)[0]), request.limit_latency
    if limit is not None and latency >= limit:
        return Failed("measure", "slower_than_limit", "too slow", bound=limit)
    digest = content_id(request.candidate.source)
    return Measured(
        latency, "cycles", "simulated", 0.5, Verdict((Check(1, "small"),)), artifact_digest=digest
    )


Decide = Callable[[Sequence[Worker] | None], float]


def timed_scheduler(count: int) -> tuple[Decide, float]:
    """Seconds of dask's scheduler to choose among all of so many workers, or a few, and to say
    which there are."""
    from distributed import Scheduler
    from distributed.core import Status
    from distributed.protocol import dumps
    from distributed.scheduler import WorkerState

    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    async def measure() -> tuple[dict[int, float], float]:
        local = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
        state = Scheduler(dashboard=False, **local)
        for number in range(count):
            name = f"tcp://{number}:1"
            worker = WorkerState(
                address=name, status=Status.running, pid=0, name=name, nthreads=1, memory_limit=0,
                local_directory="", nanny="", server_id=name, scheduler=state,
            )  # fmt: skip
            state.workers[name] = worker
            state.running.add(worker)
            for need in NEEDS:
                state.resources.setdefault(need, {})[name] = 1
        task, found = state.new_task("key", None, "released"), {}
        for few in sorted({min(few, count) for few in (1, 16, 64)}):
            task.worker_restrictions = set(itertools.islice(state.workers, few))
            found[few] = _timed(lambda: state.decide_worker_non_rootish(task))
        task.worker_restrictions, task.resource_restrictions = set(), dict.fromkeys(NEEDS, 1)
        found[0] = _timed(lambda: state.decide_worker_non_rootish(task))
        return found, _timed(
            lambda: dumps([worker.identity() for worker in state.workers.values()])
        )

    known, identity_s = asyncio.run(measure())
    few = max(known)
    return (lambda named: known[0] if named is None else known[few] * len(named) / few), identity_s


def _timed(work: Callable[[], object]) -> float:
    times = []
    for _ in range(20):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return sorted(times)[10]


def simulate(workers: int, given: argparse.Namespace) -> None:
    clock, (decide, identity_s) = Clock(), timed_scheduler(workers)
    cluster = Cluster(clock, workers, given.seconds_each, decide, identity_s)
    vars(executor_module)["monotonic"] = lambda: clock.now
    searches = []
    for seed in range(given.searches):
        settings = Settings(
            seed=seed, beam=given.beam, plans=5, iterations=10**6, implementations=3, dropout=0
        )
        searches.append(SearchProcess(cluster, seed, settings))
    clock.run(given.warm)
    before = cluster.scheduler.busy_s, cluster.database.busy_s, [s.cpu_s for s in searches]
    first = sum(s.heard for s in searches)
    clock.run(given.warm + given.span)
    ends = given.warm + given.span
    busy = sum(max(0.0, min(e, ends) - max(b, given.warm)) for b, e in cluster.busy)
    under_way = sum(  # at the end
        ends - max(w.since, given.warm) for w in cluster.workers if w.current is not None
    )
    rate = (sum(s.heard for s in searches) - first) / given.span
    own = max(s.cpu_s - b for s, b in zip(searches, before[2], strict=True))
    shares = {
        "workers": (busy + under_way) / (workers * given.span),
        "scheduler": (cluster.scheduler.busy_s - before[0]) / given.span,
        "database": (cluster.database.busy_s - before[1]) / given.span,
        "busiest search": own / given.span,
    }
    print(
        f"{workers:6} workers, {given.searches} searches: {rate:7.1f} evaluations/s; busy:",
        ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()),
        f"(choice of a worker: {1000 * decide(None):.2f} ms among all, "
        f"list of workers: {1000 * identity_s:.1f} ms)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000, 10000])
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--beam", type=int, default=12)
    parser.add_argument("--seconds-each", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=20.0, help="virtual seconds not counted")
    parser.add_argument("--span", type=float, default=40.0, help="virtual seconds counted")
    given = parser.parse_args()
    for workers in given.workers:
        simulate(workers, given)


if __name__ == "__main__":
    main()
