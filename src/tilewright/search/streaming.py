"""Batches of a proposer that mostly waits for others: everything is asked at once.

Parents are planned, plans implemented and candidates handed on for evaluation concurrently, but
always in one order, that of parents and their plans: the same replies give the same batch,
whichever comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tilewright.core.records import Candidate, EvaluationRequest, History, Plan, Trial
from tilewright.search.events import Implemented, Planned
from tilewright.search.proposing import Batches, Parts, T, U

THREADS = 64
"""They only wait; how many calls run at a time is up to the proposer."""

CHECK_EVERY_S = 0.5
"""How long the wall-time budget may be overdrawn while nothing happens."""


class StreamedBatches(Batches):
    """Proposes with a proposer whose methods may be called from several threads at once."""

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Parts:
        """Parts of the batch as they become ready; their concatenation does not depend on time."""
        self._begin(history)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="propose")
        try:
            families = [
                threads.submit(self._family, threads, iteration, rank, parent, history)
                for rank, parent in enumerate(parents)
            ]
            yield from self._ready(iteration, parents, families, checkpoint)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _family(
        self,
        threads: ThreadPoolExecutor,
        iteration: int,
        rank: int,
        parent: Trial,
        history: History,
    ) -> list[Future[list[Candidate]]]:
        """One parent's plans are made; their implementations have begun."""
        brief = self._brief(iteration, rank, parent)
        plans: list[Plan] = self._plans(brief, parent, history)
        return [threads.submit(self._implementations, brief, parent, plan) for plan in plans]

    def _ready(
        self,
        iteration: int,
        parents: Sequence[Trial],
        families: Sequence[Future[list[Future[list[Candidate]]]]],
        checkpoint: Callable[[], None],
    ) -> Parts:
        """In order, as much at a time as is there."""
        part: list[EvaluationRequest] = []
        for parent, family in zip(parents, families, strict=True):
            implementations = _awaited(family, checkpoint)
            self._on_event(Planned(iteration, parent.candidate.id, len(implementations)))
            made = kept = 0
            for implementation in implementations:
                if part and not implementation.done():
                    yield part
                    part = []
                children = _awaited(implementation, checkpoint)
                fresh = self._fresh(parent, children)
                made, kept = made + len(children), kept + len(fresh)
                part += fresh
            self._on_event(Implemented(iteration, parent.candidate.id, kept, made - kept))
        if part:
            yield part

    def _map(self, make: Callable[[T], U], items: Sequence[T]) -> list[U]:
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="propose")
        try:
            return list(threads.map(make, items))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _awaited(future: Future[T], checkpoint: Callable[[], None]) -> T:
    """The future's result; `checkpoint` may end the waiting for it."""
    while True:
        checkpoint()
        try:
            return future.result(timeout=CHECK_EVERY_S)
        except TimeoutError:
            if future.done():
                raise
