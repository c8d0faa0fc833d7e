"""How a program in an agent's folder reaches the tools: one line of JSON to a socket, one back.

The process that searches listens on the socket. What crosses it is what tools answer; kernels are
built, checked and timed on the other side.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import InputError

VERSION = 1
"""Of what the lines say; a client of another version is refused."""
SOCKET_VARIABLE = "TILEWRIGHT_AGENT_SOCKET"
"""Environment variable with the path of the socket; agents' programs inherit it."""
MAX_LINE = 4 << 20
"""Bytes of a request or an answer: four kernels of the largest size."""
ANSWER_S = 7200.0
"""How long a client waits for an answer, which may be that of an evaluation."""

Answer = Mapping[str, Any]
"""`{"text", "answer", "refused"}` of a tool, or what `describe` says of the work."""


def use(path: str, tool: str, arguments: Mapping[str, Any]) -> Answer:
    """What a tool answers, by way of the socket at `path`; `InputError` where nobody does."""
    return _ask(path, {"version": VERSION, "tool": tool, "arguments": dict(arguments)})


def describe(path: str) -> Answer:
    """The work: `{"workload", "target", "resources"}`."""
    return _ask(path, {"version": VERSION, "describe": True})


def _ask(path: str, request: Mapping[str, Any]) -> Answer:
    over = "the work on this kernel has ended, and no further call is answered."
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = read_line(connection)
    except OSError as error:
        raise InputError(over) from error
    if line is None:
        raise InputError(over)
    found = json.loads(line)
    if "error" in found:
        raise InputError(found["error"])
    answer: Answer = found
    return answer


def read_line(connection: socket.socket) -> bytes | None:
    """The next line; None when the other side is gone before its end. `ValueError` if too long."""
    parts, length = [], 0
    while True:
        part = connection.recv(1 << 16)
        if not part:
            return None
        line, newline, _ = part.partition(b"\n")
        parts.append(line)
        length += len(line)
        if length > MAX_LINE:
            raise ValueError(f"the line has more than {MAX_LINE} bytes")
        if newline:
            return b"".join(parts)
