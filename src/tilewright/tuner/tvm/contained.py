"""The answering side of `answering`: each request in a child process, whose end takes nothing else.

Imports nothing that starts threads: the children are forked.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def contained(answer: Callable[[], Answer], out: int, what: str) -> None:
    """Send what `answer` returns in a child; `what` is what a child does that ends without.

    A child may set itself a profiling timer (`setitimer`): to be ended by it is a time-out.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            send(writing, answer())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 (a descriptor, not a path)
        reply = pipe.read()
    _, status = os.waitpid(child, 0)
    if reply.endswith(b"\n"):
        os.write(out, reply)
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        send(out, {"failure": "timeout", "log": f"{what} was ended: it took too long"})
    elif os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        send(out, {"failure": "crashed", "log": f"{what} ended with {name}"})
    else:
        send(out, {"failure": "crashed", "log": f"{what} ended its process"})


def send(out: int, reply: Answer) -> None:
    """One line, in one piece."""
    data = (json.dumps(reply) + "\n").encode()
    while data:
        data = data[os.write(out, data) :]
