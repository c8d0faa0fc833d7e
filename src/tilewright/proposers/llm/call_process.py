"""The process that makes calls to models, which continues them even if the process of the run is
killed.

Started as `python -m tilewright.proposers.llm.call_process DESCRIPTOR SPOOL`. DESCRIPTOR is one end
of a channel of JSON messages: first one with the secrets (never in a process's environment, where
others could read them), then one for each request. Each finished call is answered by a message.
When the requests end, calls in progress are finished and stored in the spool, and waiting calls are
dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Reply, reply_to_json, request_from_json
from tilewright.proposers.llm.pool import ProviderPool
from tilewright.proposers.llm.providers.create import create_provider
from tilewright.proposers.llm.retry import Backoff
from tilewright.proposers.llm.spool import Spool
from tilewright.sandbox.child import Channel


def main(arguments: list[str]) -> None:
    """Serve until there are no more requests."""
    with contextlib.suppress(EOFError):
        _serve(Channel(int(arguments[0])), Path(arguments[1]))


def _serve(channel: Channel, folder: Path) -> None:
    start = channel.receive_json()
    os.environ.update(start["secrets"])
    spool = Spool(folder)
    spool.enter()
    pool = ProviderPool(create_provider, Backoff(**start["backoff"]), spool.around)
    writing = threading.Lock()

    def answer(key: str, future: Future[Reply]) -> None:
        # The run may have ended; then the reply stays in the spool.
        with contextlib.suppress(CancelledError, OSError), writing:
            channel.send_json({"key": key, **_outcome(future)})

    with contextlib.suppress(EOFError):
        while True:
            request = request_from_json(channel.receive_json())
            pool.submit(request).add_done_callback(partial(answer, request.key))
    spool.stop()
    pool.stop()
    spool.leave()


def _outcome(future: Future[Reply]) -> dict[str, Any]:
    error = future.exception()
    if error is None:
        return {"reply": reply_to_json(future.result())}
    if isinstance(error, (ModelError, ConfigurationError)):
        return {"error": str(error), "kind": type(error).__name__}
    # The place of the error, but not its text, which may contain keys.
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    text = f"unexpected {type(error).__name__} in a call to a model ({where})."
    return {"error": text, "kind": "InternalError"}


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
