"""Batches of a proposer that computes: further candidates are made while others are evaluated.

Evaluations run in processes of their own, and the searching process only waits for them. So one
thread is enough to keep a core busy with proposing; it is the only one that calls the proposer, in
the same order and with the same result as if everything were proposed first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TypeAlias

from tilewright.core.records import EvaluationRequest, History, Trial
from tilewright.search.events import Event
from tilewright.search.proposing import SOON_S, Batches, Parts

Message: TypeAlias = Event | list[EvaluationRequest] | BaseException | None
"""What the proposing thread hands over; None is its end."""


class _GivenUpError(Exception):
    """Ends the proposing thread of an iteration that nobody wants any more."""


class AheadBatches(Batches):
    """Proposes on a thread of its own."""

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Parts:
        """The batch in parts: at each request for one, all that was made since the last."""
        made: SimpleQueue[Message] = SimpleQueue()
        given_up = Flag()

        def check() -> None:
            if given_up.is_set():
                raise _GivenUpError
            checkpoint()

        def work() -> None:
            try:
                for fresh in self.plan_by_plan(iteration, parents, history, check):
                    made.put(fresh)
                made.put(None)
            except BaseException as error:
                made.put(error)

        # Listeners are not made for several threads: they hear of everything in this one.
        tell, self._on_event = self._on_event, made.put
        thread = Thread(target=work, name="propose", daemon=True)
        thread.start()
        try:
            part: list[EvaluationRequest] = []
            while True:
                try:
                    message = made.get(timeout=0.0 if part else SOON_S)
                except Empty:
                    yield part
                    part = []
                    continue
                if message is None:
                    break
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, list):
                    part += message
                else:
                    tell(message)
            if part:
                yield part
        finally:
            given_up.set()
            thread.join()
            self._on_event = tell
