"""Ways to propose in this process: step by step, on one thread, or on many threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import Empty, Queue, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TypeAlias

from tilewright.core.records import History, Plan
from tilewright.search.events import Planned
from tilewright.search.proposing import Arrival, Stream
from tilewright.search.steps import Expansion, Message, SearchTask, Steps

THREADS = 64
"""Number of threads, which mostly wait. The proposer limits the number of calls at the same
time.
"""

Answers: TypeAlias = "SimpleQueue[Message | BaseException | None]"


class StepByStep:
    """Makes each step when its message is requested."""

    def __init__(self, task: SearchTask) -> None:
        self._steps = Steps(task)

    def begin(self, expansions: Sequence[Expansion], history: History) -> Sequence[Stream]:
        """Does nothing, because steps are made when they are requested."""
        return [Lazy(self._steps.expand(expansion, history)) for expansion in expansions]

    def begin_answer(self, answer: Callable[[], list[Message]]) -> Stream:
        """Does nothing, because steps are made when they are requested."""
        return Lazy(message for _ in range(1) for message in answer())

    def arrived(self, timeout: float) -> list[Arrival]:
        """Does nothing, because no other thread works during the search here."""
        return []

    @property
    def at_work(self) -> bool:
        """False, because no step is in progress between two requests."""
        return False

    def end(self) -> None:
        """Does nothing, because no step is in progress."""


class Lazy:
    """A `Stream` whose messages are made when they are requested."""

    def __init__(self, messages: Iterator[Message]) -> None:
        self._messages = messages

    def get(self, *, timeout: float) -> Message | None:
        """Make the next message, without a time limit."""
        return next(self._messages, None)


class OneThread(StepByStep):
    """One thread, for a proposer that computes. Only this thread calls the proposer.

    Evaluations run in other processes, for which the process of the search only waits, so one
    thread can use a core for proposing. Steps are made in the order of their messages.
    """

    _thread: Thread | None = None

    def begin(self, expansions: Sequence[Expansion], history: History) -> Sequence[Stream]:
        """Start the thread with the first of these parents."""
        answers: list[Answers] = [SimpleQueue() for _ in expansions]
        self._given_up = Flag()
        arguments = expansions, history, answers, self._given_up
        self._thread = Thread(target=self._work, args=arguments, name="propose", daemon=True)
        self._thread.start()
        return answers

    def end(self) -> None:
        """Let the thread end after its present step."""
        if self._thread is not None:
            self._given_up.set()
            self._thread.join()

    def _work(
        self,
        expansions: Sequence[Expansion],
        history: History,
        answers: Sequence[Answers],
        given_up: Flag,
    ) -> None:
        for expansion, answer in zip(expansions, answers, strict=True):
            try:
                for message in self._steps.expand(expansion, history):
                    answer.put(message)
                    if given_up.is_set():
                        return
                answer.put(None)
            except BaseException as error:
                answer.put(error)
                return


class ManyThreads:
    """Many threads, for a proposer that mostly waits for other programs.

    A plan is implemented as soon as it is made, and outcomes are answered while other plans are
    still made. Authors that work while their kernels are evaluated (`LiveProposer`) have separate
    threads, and their candidates are used in the order of time.
    """

    def __init__(self, task: SearchTask) -> None:
        self._steps = Steps(task)
        self._threads = ThreadPoolExecutor(1)  # replaced in every iteration, like all of these
        self._authors = ThreadPoolExecutor(1)
        self._workers: list[Future[None]] = []
        # No SimpleQueue: in CPython its `get` with a short time-out can wait forever.
        self._arrivals: Queue[tuple[Expansion, Message | BaseException]] = Queue()

    def begin(self, expansions: Sequence[Expansion], history: History) -> Sequence[Stream]:
        """Start with all of these parents."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="propose")
        self._authors = ThreadPoolExecutor(THREADS, thread_name_prefix="author")
        self._workers, self._arrivals = [], Queue()
        streams = [_Unfolded() for _ in expansions]
        for expansion, stream in zip(expansions, streams, strict=True):
            self._threads.submit(self._plan, expansion, history, stream)
        return streams

    def begin_answer(self, answer: Callable[[], list[Message]]) -> Stream:
        """Start immediately."""
        stream = _Unfolded()
        stream.put(self._threads.submit(answer))
        stream.put(None)
        return stream

    def arrived(self, timeout: float) -> list[Arrival]:
        """The new messages of authors at work; raises the exception of an author."""
        found: list[Arrival] = []
        with suppress(Empty):
            while True:
                expansion, message = self._arrivals.get(timeout=0.0 if found else timeout)
                if isinstance(message, BaseException):
                    raise message
                found.append((expansion, message))
        return found

    @property
    def at_work(self) -> bool:
        """Whether an author is still working, or has sent messages that were not read."""
        return any(not worker.done() for worker in self._workers) or not self._arrivals.empty()

    def end(self) -> None:
        """Drop unfinished proposals, and end the authors at work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._authors.shutdown(wait=False, cancel_futures=True)
        self._steps.give_up()

    def _plan(self, expansion: Expansion, history: History, stream: _Unfolded) -> None:
        """Start the implementation of each plan of a parent as soon as the plan is made."""
        try:
            plans = 0
            brief, parent = self._steps.opened(expansion, history)
            for found in self._steps.each_plan(brief, parent, history):
                if isinstance(found, Plan):
                    plans += 1
                    live = self._steps.working(brief, parent, found)
                    if live is not None:
                        self._workers.append(self._authors.submit(self._work, expansion, live))
                        continue
                    implement = self._steps.implemented
                    stream.put(self._threads.submit(implement, brief, parent, found))
                else:
                    stream.put(found)
            stream.put(Planned(expansion.iteration, expansion.parent_id, plans))
            stream.put(None)
        except BaseException as error:
            stream.put(error)

    def _work(self, expansion: Expansion, live: Iterator[Message]) -> None:
        try:
            for message in live:
                self._arrivals.put((expansion, message))
        except BaseException as error:
            self._arrivals.put((expansion, error))


class _Unfolded:
    """A `Stream` of messages that are finished or in progress, in the order of their start."""

    def __init__(self) -> None:
        self._begun: Queue[Future[list[Message]] | Message | BaseException | None]
        self._begun = Queue()  # as above, because of the time-out
        self._making: Future[list[Message]] | None = None
        self._made: deque[Message] = deque()

    def put(self, begun: Future[list[Message]] | Message | BaseException | None) -> None:
        """Add the next message, or a future of the next messages."""
        self._begun.put(begun)

    def get(self, *, timeout: float) -> Message | BaseException | None:
        """The next message; raises the exception of a future."""
        while not self._made:
            if self._making is None:
                begun = self._begun.get(timeout=timeout)
                if not isinstance(begun, Future):
                    return begun
                self._making = begun
            if not wait([self._making], timeout).done:
                raise Empty
            self._made.extend(self._making.result())
            self._making = None
        return self._made.popleft()
