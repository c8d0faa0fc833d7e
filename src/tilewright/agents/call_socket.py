"""The socket that receives the calls of one agent. Its sizes are limited, and the search never
waits for it.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from threading import BoundedSemaphore, Lock, Thread
from typing import Any

from tilewright.agents.protocol import MAX_LINE, VERSION, read_line
from tilewright.core.text import plain_text

MOST_CONNECTIONS = 8
"""Maximum number of calls of one agent at the same time; further calls are refused immediately."""
SILENT_S = 30.0
"""Seconds without data after which a connection is closed."""

Use = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class CallSocket:
    """A server that listens until it is closed. The socket is in a folder that only this user may
    enter.

    Args:
        use: carries out a tool by name with its arguments; called by only one thread at a time.
        described: the description of the work for a client.
    """

    def __init__(self, use: Use, described: Mapping[str, Any]) -> None:
        self._use = use
        self._described = described
        self._turn = Lock()
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._folder = Path(mkdtemp(prefix="tilewright-agent-"))
        self.path = str(self._folder / "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        Thread(target=self._listen, name="agent-calls", daemon=True).start()

    def close(self) -> None:
        """Stop listening and close all connections. May be called again."""
        for connection in (self._listener, *tuple(self._open)):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # it is already closed
            while True:
                connection, _ = self._listener.accept()
                if self._places.acquire(blocking=False):
                    Thread(target=self._serve, args=(connection,), daemon=True).start()
                else:
                    connection.settimeout(0.1)
                    _say(
                        connection,
                        _error(
                            "there are too many calls at the same time: wait for an answer before "
                            "the next call."
                        ),
                    )
                    connection.close()

    def _serve(self, connection: socket.socket) -> None:
        self._open.add(connection)
        try:
            with contextlib.suppress(OSError), connection:
                connection.settimeout(SILENT_S)
                try:
                    line = read_line(connection)
                except ValueError:
                    _say(
                        connection,
                        _error(f"the call is larger than {MAX_LINE >> 20} MiB: send less."),
                    )
                    return
                if line is not None:
                    _say(connection, self._answer(line))
        finally:
            self._open.discard(connection)
            self._places.release()

    def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            return _error("a call is one line with a JSON object: version, tool and arguments.")
        if request.get("version") != VERSION:
            given = plain_text(str(request.get("version"))[:40])
            return _error(
                f"the call uses protocol version {given}, but the search uses version {VERSION}. "
                "Call the tilewright that started the agent."
            )
        if request.get("describe") is True:
            return self._described
        tool, arguments = request.get("tool"), request.get("arguments")
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return _error('a call names its "tool", a text, and "arguments", an object.')
        with self._turn:
            return self._use(tool, arguments)


def _error(sentence: str) -> dict[str, str]:
    return {"error": sentence}


def _say(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")
