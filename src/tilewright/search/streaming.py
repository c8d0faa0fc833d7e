"""Batches of a proposer that mostly waits for others: everything is asked at once.

A plan is implemented as soon as it is known, a candidate handed on for evaluation as soon as it is
written, and one that fails goes back for repair while others are still planned. Yet what is handed
on is always in one order, that of parents and their plans: the same replies give the same batch,
whichever comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TypeAlias

from tilewright.core.records import Brief, Candidate, EvaluationRequest, History, Plan, Trial
from tilewright.core.roles import StreamingPlanner
from tilewright.search.events import Implemented, Planned
from tilewright.search.proposing import CHECK_EVERY_S, SOON_S, Batches, Parts, T

THREADS = 64
"""They only wait; how many calls run at a time is up to the proposer."""

Begun: TypeAlias = "SimpleQueue[Future[list[Candidate]] | None]"
"""Implementations of one parent in the order of its plans; None ends them."""


class StreamedBatches(Batches):
    """Proposes with a proposer whose methods may be called from several threads at once."""

    _threads: ThreadPoolExecutor

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Parts:
        """Parts of the batch as they become ready; their concatenation does not depend on time."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="propose")
        self._checkpoint = checkpoint
        self._repairs: dict[str, Future[list[Candidate]]] = {}
        self._begin(history)
        families: list[tuple[Trial, Begun, Future[None]]] = []
        for rank, parent in enumerate(parents):
            begun: Begun = SimpleQueue()
            planned = self._threads.submit(
                self._plan_family, iteration, rank, parent, history, begun
            )
            families.append((parent, begun, planned))
        part: list[EvaluationRequest] = []
        for parent, begun, planned in families:
            plans = made = kept = 0
            while True:
                try:
                    implementation = begun.get(timeout=0.0 if part else SOON_S)
                except Empty:
                    self._checkpoint()
                    yield part
                    part = []
                    continue
                if implementation is None:
                    break
                while not wait([implementation], 0.0 if part else SOON_S).done:
                    self._checkpoint()
                    yield part
                    part = []
                children = implementation.result()
                fresh = self._fresh(parent, children)
                plans, made, kept = plans + 1, made + len(children), kept + len(fresh)
                part += fresh
            planned.result()
            self._on_event(Planned(iteration, parent.candidate.id, plans))
            self._on_event(Implemented(iteration, parent.candidate.id, kept, made - kept))
        if part:
            yield part

    def foresee_repair(self, iteration: int, failed: Trial, history: History) -> None:
        """Begin to correct a candidate that `repair` will be asked for."""
        parent = history.get(failed.candidate.parent_id or "")
        if parent is not None:
            self._repairs[failed.candidate.id] = self._threads.submit(
                super()._corrections, iteration, failed, parent
            )

    def repair(
        self, iteration: int, failed: Sequence[Trial], history: History
    ) -> list[EvaluationRequest]:
        """Corrections in the order of the failures, whether begun before or now."""
        for trial in failed:
            if trial.candidate.id not in self._repairs:
                self.foresee_repair(iteration, trial, history)
        return super().repair(iteration, failed, history)

    def end(self) -> None:
        """Drop what is still being made."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _corrections(self, iteration: int, failed: Trial, parent: Trial) -> list[Candidate]:
        return self._awaited(self._repairs[failed.candidate.id])

    def _plan_family(
        self, iteration: int, rank: int, parent: Trial, history: History, begun: Begun
    ) -> None:
        """Begin to implement each of a parent's plans once it is known."""
        brief = self._steps.brief(iteration, rank, parent)
        threads = self._threads
        try:
            for plan in self._each_plan(brief, parent, history):
                begun.put(threads.submit(self._steps.implementations, brief, parent, plan))
        finally:
            begun.put(None)

    def _each_plan(self, brief: Brief, parent: Trial, history: History) -> Iterator[Plan]:
        """The proposer's plans as they become known; a defect in it ends them."""
        proposer, count = self._proposer, self._settings.plans
        if not isinstance(proposer, StreamingPlanner):
            yield from self._steps.plans(brief, parent, history)
            return
        seed = self._steps.seed(brief.iteration, parent, "plan")

        def begin() -> Iterator[Plan]:  # only when first asked, so that `or_nothing` sees it fail
            yield from proposer.each_plan(brief, parent, history, count, seed)

        plans = begin()
        while following := self._steps.or_nothing(
            brief.iteration, parent.candidate.id, lambda: list(islice(plans, 1))
        ):
            yield following[0]

    def _awaited(self, future: Future[T]) -> T:
        """The future's result; the checkpoint may end the waiting for it."""
        while True:
            self._checkpoint()
            try:
                return future.result(timeout=CHECK_EVERY_S)
            except TimeoutError:
                if future.done():
                    raise
