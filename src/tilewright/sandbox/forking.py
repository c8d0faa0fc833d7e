"""Starts processes by forking one that has already imported their modules (`fork_server.py`).

A process of Python spends most of the time of its start on imports. A process that is forked has
its own session, environment, folder and output, as one that is executed, and inherits nothing else
of this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

_START_S = 10.0
"""Maximum time in seconds for a server to fork its first process once that process is not needed
any more.
"""
_END_S = 5.0
"""Maximum time in seconds for a server to end."""
_MESSAGE_BYTES = 100
_ENDED = (BrokenPipeError, ConnectionResetError)
"""What is raised if a message is sent to a server that has ended."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Prepared:
    """The modules that a process has imported when it begins, and the environment in which they
    were imported. The environment must not contain secrets.
    """

    modules: tuple[str, ...]
    environment: Mapping[str, str]


def prepared(modules: Collection[str], environment: Mapping[str, str]) -> Prepared | None:
    """A preparation, or None if this system does not support what the servers need.

    Of the modules, only those of this package are imported in a server. Modules of others may read
    variables, open files or change at any time, so each new process imports them itself.
    """
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return None
    own = tuple(sorted(name for name in modules if name.startswith("tilewright.")))
    return Prepared(own, environment)


def fork(preparation: Prepared, channel: int, output: int, errors: int) -> Forked:
    """Fork a process with these descriptors, in this process's folder. The server is a new one, or
    that of an earlier call. The first message in the channel must be a `start_message`.
    """
    key = (preparation.modules, frozenset(preparation.environment.items()), *_inherited())
    with _choosing:
        _release_ended()
        for server in _servers.get(key, ())[-1:]:
            with contextlib.suppress(*_ENDED):  # it is about to end
                return server.fork(channel, output, errors)
        server = ForkServer(preparation, output, errors)
        _servers.setdefault(key, []).append(server)
        return server.fork(channel, output, errors)


def start_message(
    module: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, object]:
    """The message that tells a forked process what to run, with its whole environment."""
    return {"module": module, "arguments": list(arguments), "environment": dict(environment)}


class ForkServer:
    """A process that imports modules and then forks.

    Until then, `output` and `errors` receive what it prints.
    """

    def __init__(self, preparation: Prepared, output: int, errors: int) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.has_forked = False
        """Whether it has forked a process."""
        with other:
            arguments = [str(other.fileno()), str(os.getpid()), *preparation.modules]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tilewright.sandbox.fork_server", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=(other.fileno(),),
                env=preparation.environment,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended."""
        return self._control.fileno() < 0 or self._process.poll() is not None

    def fork(self, channel: int, output: int, errors: int) -> Forked:
        """Fork a process; `BrokenPipeError` or `ConnectionResetError` if the server has ended.

        If the server ended at its start, the process ends with the server's exit status instead.
        """
        state, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with other:
                given = [other.fileno(), channel, output, errors, folder]
                with contextlib.suppress(*(() if self.has_forked else _ENDED)):
                    socket.send_fds(self._control, [b"f"], given)
        except BaseException:
            state.close()
            raise
        finally:
            os.close(folder)
        return Forked(self, state)

    def end(self) -> int:
        """End the server, and with it all processes that it has forked. Returns its exit status,
        as `subprocess` gives it. Idempotent.
        """
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # also in copies of this process
        self._control.close()
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Forked:
    """A process that a server has forked or will fork, with the methods of `Popen` that `Child`
    needs.
    """

    def __init__(self, server: ForkServer, state: socket.socket) -> None:
        self.returncode: int | None = None
        """Its exit status, negative for a signal, once `wait` has returned."""
        self.ended_with_server = False
        """Whether it ended because its server did, once `wait` has returned."""
        self._server = server
        self._state = state
        self._pid: int | None = None
        self._deadline: float | None = None
        self._reading = Lock()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group. Waits until it is forked."""
        if self._pid is None:
            with self._reading:
                while self._pid is None and self.returncode is None:
                    self._read()
        if self._pid is None:
            raise ProcessLookupError("a process was not started")
        return self._pid

    def end(self) -> None:
        """Kill its process group, without waiting. Can be called in any thread."""
        if self._deadline is None:
            self._deadline = time.monotonic() + _START_S
        with contextlib.suppress(OSError):
            self._state.shutdown(socket.SHUT_WR)

    def wait(self) -> int:
        """Wait for the exit status. Everything in its process group is ended."""
        with self._reading:
            while self.returncode is None:
                self._read()
        return self.returncode

    def close(self) -> None:
        """Release all resources, after `wait`."""
        self._state.close()

    def _read(self) -> None:
        """Receive a message about the process."""
        while not self._has_message():
            if self._is_late():
                self._server.end()
        try:
            message = json.loads(self._state.recv(_MESSAGE_BYTES) or "null")
        except ConnectionError:
            message = None
        if message is None:  # the server has ended, and with it this process
            self.ended_with_server = self._pid is not None
            self.returncode = self._server.end() if self._pid is None else -signal.SIGKILL
        elif "pid" in message:
            self._pid, self._server.has_forked = message["pid"], True
        else:
            self.returncode = message["status"]

    def _has_message(self) -> bool:
        poll = select.poll()
        poll.register(self._state, select.POLLIN)
        return bool(poll.poll(1000))

    def _is_late(self) -> bool:
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late and not self._server.has_forked


_servers: dict[tuple[object, ...], list[ForkServer]] = {}
_choosing = Lock()


def _inherited() -> tuple[object, ...]:
    """What a new process inherits from this one, in addition to what `fork` passes on, and last
    the id of this process.
    """
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    limits = tuple(resource.getrlimit(getattr(resource, name)) for name in names)
    mask = next(line for line in _STATUS.read_text().splitlines() if line.startswith("Umask"))
    users = (os.getresuid(), os.getresgid(), tuple(os.getgroups()))
    cores = frozenset(os.sched_getaffinity(0))
    return limits, mask, users, cores, os.getpriority(os.PRIO_PROCESS, 0), os.getpid()


def _own_servers() -> Iterator[list[ForkServer]]:
    """The servers of this process, without those of the process of which it is a copy."""
    return (servers for key, servers in _servers.items() if key[-1] == os.getpid())


def _release_ended() -> None:
    for servers in _own_servers():
        for server in servers[:]:
            if server.has_ended:
                server.end()
                servers.remove(server)


@atexit.register
def _end_servers() -> None:
    for servers in _own_servers():
        while servers:
            servers.pop().end()
