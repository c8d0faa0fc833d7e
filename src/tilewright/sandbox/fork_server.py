"""`python -m tilewright.sandbox.fork_server DESCRIPTOR PARENT MODULE...`: imports modules once, and
forks processes that need them (the other side is `forking.py`).

PARENT is the process that started this one and holds the other end of the socket DESCRIPTOR. Each
message in it has no content, but the descriptors of a new process: its state, its channel, its
output, its errors and its folder. The program of the new process, its arguments and its environment
are the first message in its channel, so this process never reads them and cannot pass them on to
another process.

The state is a socket between this process and PARENT. It receives the id of the new process, and
its exit status when it has ended. When PARENT shuts it down, the new process is killed. At the end
of a process, everything in its session is killed.

This process ends when PARENT ends, and when it has had no processes for `IDLE_S`. All of its
processes end with it. A process is executed instead of forked if an imported module has started
threads, because a fork copies only one of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.sandbox.child import Channel
from tilewright.sandbox.own_process import has_threads

IDLE_S = 60.0
"""Seconds without processes after which this process ends."""
_DESCRIPTORS = 5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class _Forked:
    """A process that this process has forked, and descriptors for its state and its end."""

    pid: int
    state: socket.socket
    end: int

    def kill(self) -> None:
        """Kill its whole process group, or the process alone if it has not made the group yet."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def finish(self) -> None:
        """Wait for its end, kill what is left of its process group, and report the exit status."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # until then, no other has its id
        self.kill()
        _, status = os.waitpid(self.pid, 0)
        _tell(self.state, {"status": os.waitstatus_to_exitcode(status)})
        self.close()

    def close(self) -> None:
        """Close the descriptors."""
        self.state.close()
        os.close(self.end)


def _tell(state: socket.socket, message: Mapping[str, int]) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        state.send(json.dumps(message).encode())


class _Server:
    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._parent_end = os.pidfd_open(parent)
        self._forked: list[_Forked] = []
        self._is_closing = False
        self._poll = select.poll()
        for descriptor in (control.fileno(), self._parent_end):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> Channel | None:
        """Fork processes. Returns the channel in a new process, and None at the end."""
        while self._forked or not self._is_closing:
            ready = {fd for fd, _ in self._poll.poll(None if self._forked else IDLE_S * 1000)}
            if not ready:
                self._is_closing = True  # PARENT may have sent a message just now, but no other
                self._control.shutdown(socket.SHUT_RD)
            if self._parent_end in ready:
                break
            for process in list(self._forked):
                if process.end in ready:
                    self._drop(process)
                elif process.state.fileno() in ready:
                    self._poll.unregister(process.state)
                    process.kill()
            if self._control.fileno() in ready or not ready:
                _, received, _, _ = socket.recv_fds(self._control, 1, _DESCRIPTORS)
                if received:
                    channel = self._fork(received)
                    if channel is not None:
                        return channel
                elif self._is_closing:
                    self._poll.unregister(self._control)
                else:
                    break
        self._end_all()
        return None

    def _drop(self, process: _Forked) -> None:
        self._poll.unregister(process.end)
        with contextlib.suppress(KeyError):  # it has been shut down
            self._poll.unregister(process.state)
        self._forked.remove(process)
        process.finish()

    def _end_all(self) -> None:
        for process in self._forked:
            process.kill()
        for process in self._forked:
            process.finish()

    def _fork(self, received: Sequence[int]) -> Channel | None:
        """Returns the channel in the new process."""
        state = socket.socket(fileno=received[0])
        channel, output, errors, folder = received[1:]
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(errors, f"a process cannot be started: {error.strerror}\n".encode())
            pid = None
        if pid == 0:
            state.close()
            self._prepare(server, output, errors, folder)
            return Channel(channel)
        for descriptor in received[1:]:
            os.close(descriptor)
        if pid is None:
            _tell(state, {"status": 1})
            state.close()
            return None
        process = _Forked(pid, state, os.pidfd_open(pid))
        self._forked.append(process)
        self._poll.register(process.end, select.POLLIN)
        self._poll.register(state, select.POLLIN)
        _tell(state, {"pid": pid})
        return None

    def _prepare(self, server: int, output: int, errors: int, folder: int) -> None:
        """Give a new process its session, output and folder, and nothing of this server."""
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it ended before the line above
            os._exit(1)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.fchdir(folder)
        for descriptor in (output, errors, folder, self._parent_end):
            os.close(descriptor)
        self._control.close()
        for process in self._forked:
            process.close()


def main(arguments: list[str]) -> None:
    """Import the modules and fork processes; in these, run their programs."""
    descriptor, parent, *modules = arguments
    for module in modules:
        with contextlib.suppress(Exception, SystemExit):  # the forked process reports the error
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # objects that no process changes stay shared
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123 (not a file)
        for output in (1, 2):  # those of the first process, which may end before this process
            os.dup2(nothing.fileno(), output)
    run = _executed if has_threads() else _called
    server = _Server(socket.socket(fileno=int(descriptor)), int(parent))
    if os.getppid() != int(parent):
        return
    channel = server.serve()
    if channel is not None:
        start = channel.receive_json()
        run(start["module"], [str(channel.fileno()), *start["arguments"]], start["environment"])


def _called(module: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # the environment names another folder
    if "numpy" in sys.modules:  # unlike Python, it does not do this after a fork
        sys.modules["numpy"].random.seed()
    sys.argv = [module, *words]
    program: Any = importlib.import_module(module)
    program.main(list(words))


def _executed(module: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
    os.set_inheritable(int(words[0]), True)
    os.execve(sys.executable, [sys.executable, "-P", "-m", module, *words], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
