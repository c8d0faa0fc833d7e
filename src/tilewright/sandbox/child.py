"""Supervises a process of this package that answers messages: starts it, talks to it, ends it.

What such a process does differs, how it is kept does not. It leads a session of its own: Ctrl-C is
the parent's to handle, and ending it ends all that it started. Messages travel over a socket that
only the two hold: nothing that a candidate or a compiler prints can be taken for one. What they say
is up to those who exchange them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import IO, Any

_LENGTH_BYTES = 8
WHOLE_S = 30.0
"""How long a message of a child may take from its first byte to its last one. One that has been
taken over may send half a message, and whoever reads it would wait for the rest for ever."""


class Channel:
    """Messages over a descriptor: each as its length, then its bytes.

    `whole_s` is how long a message that has begun is waited for; None for ever.
    """

    def __init__(
        self, descriptor: int, max_bytes: int | None = None, whole_s: float | None = None
    ) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._whole_s = whole_s

    def fileno(self) -> int:
        """Descriptor that becomes readable when a message, or the other side's end, is there."""
        return self._descriptor

    def send(self, message: bytes) -> None:
        """Send one message whole; `BrokenPipeError` when the other side is gone."""
        data = memoryview(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self) -> bytes:
        """The next message, waiting for it; `EOFError` when the other side is gone.

        One of more than `max_bytes`, or half of one, is not a message: something else has written.
        """
        first = self._part(_LENGTH_BYTES)
        deadline = None if self._whole_s is None else time.monotonic() + self._whole_s
        rest = self._exactly(_LENGTH_BYTES - len(first), deadline)
        length = int.from_bytes(first + rest, "big")
        if self._max_bytes is not None and length > self._max_bytes:
            raise EOFError(f"a message of {length} bytes is not one of ours")
        return self._exactly(length, deadline)

    def send_json(self, message: Any) -> None:
        """Send what JSON can hold."""
        self.send(json.dumps(message).encode())

    def receive_json(self) -> Any:
        """The next message as JSON; `EOFError` when the other side is gone, or sends no JSON."""
        try:
            return json.loads(self.receive())
        except (ValueError, RecursionError):
            raise EOFError("a message that is no JSON is not one of ours") from None

    def each_json(self) -> Iterator[Any]:
        """The messages as they come, until the other side is gone."""
        with contextlib.suppress(EOFError):
            while True:
                yield self.receive_json()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts = []
        while count:
            if deadline is not None and not is_readable(self._descriptor, deadline):
                raise EOFError("half a message is not one of ours")
            parts.append(self._part(count))
            count -= len(parts[-1])
        return b"".join(parts)

    def _part(self, most: int) -> bytes:
        """Some bytes, one at least, as soon as there are any."""
        try:
            part = os.read(self._descriptor, min(most, 1 << 20))
        except ConnectionError:  # it ended with a message of ours unread
            part = b""
        if not part:
            raise EOFError("the other end is closed")
        return part


def is_readable(descriptor: int, deadline: float) -> bool:
    """Whether there is something to read, or the end, before a time of the monotonic clock."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


class Child(Channel):
    """One process that runs `module`, with its end of the channel as its first argument.

    Args:
        module: a module of this package with a `main`.
        arguments: further arguments.
        environment: all of it; None for that of this process.
        output: where it prints to; where this process does if None.
        max_bytes: of a message from it.

    Raises `OSError` when no process can be started.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._taking = Lock()
        own, other = socket.socketpair()
        with own, other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(other.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(other.fileno(),),
                env=environment,
                start_new_session=True,
            )
            super().__init__(own.detach(), max_bytes, WHOLE_S)

    @property
    def pid(self) -> int:
        """Process id, which is also the process group's."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send one message; a process that is gone is noticed when its answer is waited for."""
        with contextlib.suppress(OSError):
            super().send(message)

    def has_message(self, timeout_s: float) -> bool:
        """Whether a message, or the process's end, is there within so many seconds."""
        return is_readable(self.fileno(), time.monotonic() + timeout_s)

    def finish(self) -> None:
        """Send nothing more: the process reads the end of its messages, and may still answer."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as own:
            own.shutdown(socket.SHUT_WR)

    def wait(self) -> int:
        """Its exit status once it ended, negative for a signal; what it started ends with it."""
        if hasattr(os, "waitid"):  # its group's number stays its own until the status is taken
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.signal_end()
        with self._taking:
            return self._process.wait()

    def signal_end(self) -> None:
        """Kill the process and all it started, without waiting; any thread may."""
        with self._taking, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process and all it started, wait for its end and release everything."""
        self.signal_end()
        self.wait()
        os.close(self.fileno())

    @property
    def exit_text(self) -> str:
        """How the process ended, after `kill` or its own end."""
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with status {code}"
