"""Starts, supervises and ends a process of this package that answers messages.

Each process has its own session, so Ctrl-C reaches only the parent, and ending the process ends
everything that it started. Messages use a socket to which only the two processes have access, so
the output of a candidate or a compiler cannot be mistaken for a message. The content of messages is
defined by the callers.
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
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import IO, Any

from tilewright.sandbox import forking
from tilewright.sandbox.forking import Forked, Prepared

_LENGTH_BYTES = 8
WHOLE_S = 30.0
"""Maximum number of seconds between the first and the last byte of a message. A child that is under
the control of a candidate could otherwise send an incomplete message and let the reader wait
forever.
"""


class Channel:
    """Messages over a descriptor, each of which is its length followed by its bytes.

    `whole_s` is the maximum number of seconds for the rest of a message that has begun; None for no
    limit.
    """

    def __init__(
        self, descriptor: int, max_bytes: int | None = None, whole_s: float | None = None
    ) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._whole_s = whole_s

    def fileno(self) -> int:
        """Descriptor that becomes readable when a message has arrived or the other side has closed
        the channel.
        """
        return self._descriptor

    def send(self, message: bytes) -> None:
        """Send one complete message; `BrokenPipeError` if the other side has closed the channel."""
        data = memoryview(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self) -> bytes:
        """Wait for the next message; `EOFError` if the other side has closed the channel.

        Data of more than `max_bytes`, or an incomplete message, are an error too.
        """
        first = self._part(_LENGTH_BYTES)
        deadline = None if self._whole_s is None else time.monotonic() + self._whole_s
        rest = self._exactly(_LENGTH_BYTES - len(first), deadline)
        length = int.from_bytes(first + rest, "big")
        if self._max_bytes is not None and length > self._max_bytes:
            raise EOFError(f"tilewright sends no message of {length} bytes")
        return self._exactly(length, deadline)

    def send_json(self, message: Any) -> None:
        """Send a value as JSON."""
        self.send(json.dumps(message).encode())

    def receive_json(self) -> Any:
        """The next message as JSON; `EOFError` if the channel is closed or the message is not
        JSON.
        """
        try:
            return json.loads(self.receive())
        except (ValueError, RecursionError):
            raise EOFError("a message is not JSON, so tilewright did not send it") from None

    def each_json(self) -> Iterator[Any]:
        """The messages one by one, until the channel is closed."""
        with contextlib.suppress(EOFError):
            while True:
                yield self.receive_json()

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts = []
        while count:
            if deadline is not None and not is_readable(self._descriptor, deadline):
                raise EOFError("a message ended before its last byte")
            parts.append(self._part(count))
            count -= len(parts[-1])
        return b"".join(parts)

    def _part(self, most: int) -> bytes:
        """The bytes that have arrived. Waits until there is at least one."""
        try:
            part = os.read(self._descriptor, min(most, 1 << 20))
        except ConnectionError:  # it ended with an unread message
            part = b""
        if not part:
            raise EOFError("the other end is closed")
        return part


def is_readable(descriptor: int, deadline: float) -> bool:
    """Whether data or the end of the channel can be read before this time of the monotonic
    clock.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


class Child(Channel):
    """One process that runs `module`, with its end of the channel as its first argument.

    Args:
        module: a module of this package with a `main`.
        arguments: further arguments.
        environment: the whole environment; None for the environment of this process.
        given: its standard input; it is empty by default.
        output: the destination of its output; None for that of this process.
        errors: the destination of its standard error, if it is not `output`.
        max_bytes: maximum size of a message from it.
        preparation: if given, the process is forked from one that has imported these modules. Its
            standard input is then empty.

    Raises `OSError` if the process cannot be started.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        given: IO[bytes] | int = subprocess.DEVNULL,
        output: IO[bytes] | int | None = None,
        errors: IO[bytes] | None = None,
        max_bytes: int | None = None,
        preparation: Prepared | None = None,
    ) -> None:
        own, other = socket.socketpair()
        with own, other:
            self._process: _Executed | Forked
            if preparation is not None:
                descriptors = _descriptor(output, 1), _descriptor(errors or output, 2)
                self._process = forking.fork(preparation, other.fileno(), *descriptors)
            else:
                command = [sys.executable, "-P", "-m", module, str(other.fileno()), *arguments]
                self._process = _Executed(
                    command,
                    stdin=given,
                    stdout=output,
                    stderr=output if errors is None else errors,
                    pass_fds=(other.fileno(),),
                    env=environment,
                    start_new_session=True,
                )
            super().__init__(own.detach(), max_bytes, WHOLE_S)
        if isinstance(self._process, Forked):
            variables = os.environ if environment is None else environment
            self.send_json(forking.start_message(module, arguments, variables))

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the process group."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send one message. If the process has ended, waiting for its answer reports this."""
        with contextlib.suppress(OSError):
            super().send(message)

    def has_message(self, timeout_s: float) -> bool:
        """Whether a message or the end of the process arrives within this number of seconds."""
        return is_readable(self.fileno(), time.monotonic() + timeout_s)

    def finish(self) -> None:
        """Close the sending direction. The process reads the end of the messages and may still
        answer.
        """
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as own:
            own.shutdown(socket.SHUT_WR)

    def wait(self) -> int:
        """Wait for the exit status, which is negative for a signal. Everything that the process
        started is ended.
        """
        return self._process.wait()

    def signal_end(self) -> None:
        """Kill the process and everything that it started, without waiting. Can be called in any
        thread.
        """
        self._process.end()

    def kill(self) -> None:
        """Kill the process and everything that it started, wait for its end, and release all
        resources.
        """
        self.signal_end()
        self.wait()
        self._process.close()
        os.close(self.fileno())

    @property
    def ended_with_server(self) -> bool:
        """Whether it ended because the process that had forked it ended first; known after
        `kill`."""
        return isinstance(self._process, Forked) and self._process.ended_with_server

    @property
    def exit_text(self) -> str:
        """How the process ended; call it after `kill`, or after the process has ended by itself."""
        code = self._process.returncode
        if self.ended_with_server:
            return "ended together with the process that had forked it"
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with status {code}"


class _Executed:
    """A process that is a child of this process."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._taking = Lock()
        self._process = subprocess.Popen(command, **options)
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def wait(self) -> int:
        if hasattr(
            os, "waitid"
        ):  # until the status is read, no other process group can get this number
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.end()
        with self._taking:
            return self._process.wait()

    def end(self) -> None:
        with self._taking, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        pass


def _descriptor(file: IO[bytes] | int | None, default: int) -> int:
    if isinstance(file, int):
        raise TypeError("the output of a forked process must be a file")
    return default if file is None else file.fileno()
