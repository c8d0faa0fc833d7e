"""Carries out the calls of a server on the main thread, where Ctrl-C can interrupt them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import Any

from tilewright.core.errors import InputError, TilewrightError

ENDING_S = 5.0
"""Seconds after `interrupt` or `give_up` in which a server must end. It cannot end while it writes
to a client that does not read.
"""
_LOOK_S = 0.5


class MainThread(Executor):
    """Runs calls one after the other in the thread that calls `serve_from_main_thread`.

    After `interrupt`, which a signal handler calls, the present call ends with
    `KeyboardInterrupt`, so evaluations in progress are stopped as by Ctrl-C in a search. Who made
    this call or later ones gets a `TilewrightError`.
    """

    def __init__(self) -> None:
        self._calls: Queue[tuple[Future[Any], Callable[[], Any]] | None] = Queue()
        self._is_busy = False
        self._over_s: float | None = None  # when it was interrupted or given up
        self._failed: list[BaseException] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a call carried out."""
        future = Future[Any]()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def serve_from_main_thread(self, serve: Callable[[], None]) -> None:
        """Carry out calls until `serve`, which runs in a thread, has ended, or should have ended
        after `interrupt` or `give_up`. Raises the exception that `give_up` was given or that
        ended `serve`, if there is one.
        """

        def served() -> None:
            try:
                serve()
            except BaseException as error:
                self._failed.append(error)
            finally:
                self._calls.put(None)

        Thread(target=served, daemon=True).start()
        while self._over_s is None or monotonic() - self._over_s < ENDING_S:
            try:
                asked = self._calls.get(timeout=_LOOK_S)
            except Empty:
                continue
            if asked is None:
                break
            self._carry_out(*asked)
        if self._failed:
            raise self._failed[0]

    def interrupt(self) -> None:
        """End the present call, and refuse later ones. Call this in the same thread."""
        self._over_s = monotonic()
        if self._is_busy:
            raise KeyboardInterrupt

    def give_up(self, error: Exception) -> None:
        """Raise an error in the main thread as soon as the present call is completed and the server
        has ended or should have. Call this in any thread.
        """
        self._failed.append(error)
        self._over_s = monotonic()

    def _carry_out(self, future: Future[Any], call: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            try:
                self._is_busy = self._over_s is None
                if not self._is_busy:
                    raise _ending()
                result = call()
            finally:
                self._is_busy = False  # before the answer is sent, which is not interrupted
        except KeyboardInterrupt:
            future.set_exception(_ending())
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _ending() -> TilewrightError:
    return InputError(
        "the server was told to end, so the call was not completed. The same command continues "
        "the run."
    )
