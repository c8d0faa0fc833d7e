"""Stops a run through its database, also from another machine, container or project folder.

A request is a note of the run. The process that works on the run looks for new requests, and then
interrupts itself, as Ctrl-C would.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread, main_thread

from tilewright.core.errors import StorageError
from tilewright.core.roles import Storage
from tilewright.core.run_notes import StopRequest

LOOK_EVERY_S = 1.0
"""Seconds between two looks for a request."""


class StopRequests:
    """The requests to stop the present work on a run; earlier requests do not count.

    `is_pending` is true after a request if this process ignores interrupts, as a program that a
    script starts in the background does. The search then ends at its next step.
    """

    def __init__(self, storage: Storage, run_id: str) -> None:
        self.is_pending = False
        self._storage = storage
        self._run_id = run_id
        self._earlier = len(storage.kept(run_id, StopRequest))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look for requests in a thread while the block runs."""
        over = Event()
        thread = Thread(target=self._watch, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, over: Event) -> None:
        while not over.wait(LOOK_EVERY_S):
            with suppress(StorageError):  # without the database, nobody can stop the run either
                if len(self._storage.kept(self._run_id, StopRequest)) > self._earlier:
                    if not over.is_set():
                        self._stop()
                    return

    def _stop(self) -> None:
        main = main_thread().ident
        if main is not None and callable(signal.getsignal(signal.SIGINT)):
            signal.pthread_kill(main, signal.SIGINT)
        else:
            self.is_pending = True


def request_stop(storage: Storage, run_id: str) -> None:
    """Ask the process that works on a run to end it, with its best kernel so far.

    The process does so within about a second; the run can be resumed.
    """
    storage.keep(run_id, StopRequest())
