"""The answering side of `answering`. Each request is processed in a child process, so that a crash
does not affect other requests.

This module imports nothing that starts threads, because the children are forked.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from tilewright.sandbox.child import Channel

Answer = dict[str, Any]


def contained(answer: Callable[[], Answer], out: Channel, what: str) -> None:
    """Send the result of `answer`, computed in a child process. `what` describes the child's work
    if it ends without a result.

    The child may set itself a profiling timer (`setitimer`). If the timer ends it, the result is a
    time-out.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            Channel(writing).send_json(answer())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        reply: Answer | None = Channel(reading).receive_json()
    except EOFError:
        reply = None
    os.close(reading)
    _, status = os.waitpid(child, 0)
    out.send_json(reply or _ended(status, what))


def _ended(status: int, what: str) -> Answer:
    """The answer for a child that ended without a result."""
    if not os.WIFSIGNALED(status):
        return {"failure": "crashed", "log": f"{what} ended its process"}
    if os.WTERMSIG(status) == signal.SIGPROF:
        return {"failure": "timeout", "log": f"{what} was ended: it took too long"}
    name = signal.Signals(os.WTERMSIG(status)).name
    return {"failure": "crashed", "log": f"{what} ended with {name}"}
