"""Makes calls in a limited number of threads. Providers run concurrently only here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Reply, Request
from tilewright.proposers.llm.models import Model, parse_model
from tilewright.proposers.llm.providers.base import Provider
from tilewright.proposers.llm.retry import Backoff, with_retries

Around = Callable[[Request, Callable[[], Reply]], Reply]
"""A function around one call with its retries, with which the spool stores replies."""


def _plainly(request: Request, call: Callable[[], Reply]) -> Reply:
    return call()


class ProviderPool:
    """Makes at most `concurrency` calls per model at the same time, and repeats failed calls by the
    rule `Backoff`.

    Calls of one model start in the order of submission.
    """

    def __init__(
        self,
        create: Callable[[Model], Provider],
        backoff: Backoff,
        around: Around = _plainly,
    ) -> None:
        self._create = create
        self._backoff = backoff
        self._around = around
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._providers: dict[str, Provider] = {}
        self._creating = threading.Lock()
        self._stopping = threading.Event()

    def submit(self, request: Request) -> Future[Reply]:
        """A future of the reply, which raises `ModelError` or `ConfigurationError`."""
        threads = self._threads.get(request.model)
        if threads is None:
            size = parse_model(request.model).options.concurrency
            threads = ThreadPoolExecutor(size, thread_name_prefix="model-call")
            self._threads[request.model] = threads
        return threads.submit(self._call, request)

    def stop(self) -> None:
        """Drop waiting calls and stop retries. Calls in progress are finished, because they may be
        billed.
        """
        self._stopping.set()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        for threads in self._threads.values():
            threads.shutdown(wait=True)

    def _call(self, request: Request) -> Reply:
        provider = self._provider(request.model)
        return self._around(
            request,
            lambda: with_retries(
                lambda: provider.complete(request), request.model, self._backoff, self._wait
            ),
        )

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise ModelError("the run was stopped between two attempts at a call.")

    def _provider(self, name: str) -> Provider:
        with self._creating:
            if name not in self._providers:
                self._providers[name] = self._create(parse_model(name))
            return self._providers[name]
