"""Sends calls to the call process, and returns futures of their replies."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from tilewright.core.errors import ConfigurationError, InternalError, TilewrightError
from tilewright.core.secrets import is_secret_name, without_secrets
from tilewright.proposers.llm.failures import CallAbandonedError, ModelError
from tilewright.proposers.llm.messages import Reply, Request, reply_from_json, request_to_json
from tilewright.proposers.llm.providers.base import GO_ON
from tilewright.proposers.llm.retry import Backoff
from tilewright.proposers.llm.spool import Spool
from tilewright.sandbox.child import Child


class Transport(Protocol):
    """Sends calls to models. Thread-safe."""

    @property
    def closed(self) -> bool:
        """Whether no more calls are sent."""
        ...

    def submit(self, request: Request) -> Future[Reply]:
        """A future of the reply, which raises `ModelError` or `ConfigurationError`."""
        ...

    def settled(self, key: str) -> None:
        """The reply to this call has been recorded, so the transport may delete it."""
        ...

    def close(self) -> None:
        """Send no more calls, without waiting for calls in progress. May be called again."""
        ...


class ProcessTransport:
    """A transport that uses one call process, which is started with the first call.

    Args:
        folder: the run's spool, which contains replies until they are settled.
        backoff: the rule for repeating failed calls.
    """

    def __init__(self, folder: Path, backoff: Backoff) -> None:
        self._folder = folder
        self._backoff = backoff
        self._spool = Spool(folder)
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Reply]] = {}
        self._process: Child | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the run was stopped."""
        return self._closed

    def submit(self, request: Request) -> Future[Reply]:
        """Send a request. Equal requests in progress share one call."""
        key = request.key
        with self._lock:
            if key in self._waiting:
                return self._waiting[key]
            if self._closed:
                refused = Future[Reply]()
                refused.set_exception(ModelError(f"the run was stopped; {GO_ON}."))
                return refused
            future = self._waiting[key] = Future[Reply]()
            future.set_running_or_notify_cancel()
            process = self._process = self._process or self._start()
            process.send_json(request_to_json(request))
        return future

    def settled(self, key: str) -> None:
        """Remove the call from the spool."""
        self._spool.discard(key)

    @property
    def process_id(self) -> int | None:
        """The process id of the call process, if it is running."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Close the input of the call process, which then finishes the calls in progress.

        Callers that wait for a reply get an exception now; the reply will be in the spool.
        """
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.finish()
            orphans, self._waiting = list(self._waiting.values()), {}
        for future in orphans:
            future.set_exception(CallAbandonedError(f"the run was stopped; {GO_ON}."))

    def _start(self) -> Child:
        self._folder.mkdir(parents=True, exist_ok=True)
        process = Child(
            "tilewright.proposers.llm.call_process",
            str(self._folder),
            environment=without_secrets(os.environ),
            output=subprocess.DEVNULL,
        )
        secrets = {name: value for name, value in os.environ.items() if is_secret_name(name)}
        process.send_json({"secrets": secrets, "backoff": asdict(self._backoff)})
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: Child) -> None:
        with contextlib.suppress(EOFError):
            while True:
                message = process.receive_json()
                with self._lock:
                    future = self._waiting.pop(message["key"], None)
                if future is None:
                    continue
                if "reply" not in message:
                    future.set_exception(_raised(message["kind"], message["error"]))
                    continue
                try:
                    future.set_result(reply_from_json(message["reply"]))
                except ValueError as error:  # otherwise, another thread would wait forever
                    future.set_exception(ModelError(f"the model's answer is {error}."))
        with self._lock:
            orphans, self._waiting = list(self._waiting.values()), {}
            self._process = None
        process.wait()
        process.kill()
        for future in orphans:
            future.set_exception(
                CallAbandonedError(f"the process that calls models died; {GO_ON}.")
            )


def _raised(kind: str, text: str) -> TilewrightError:
    classes = {"ModelError": ModelError, "ConfigurationError": ConfigurationError}
    return classes.get(kind, InternalError)(text)
