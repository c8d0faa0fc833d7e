"""The protocol with which a program in an agent's folder uses the tools: one line of JSON for each
call and for each answer.

The process of the search listens on the socket and builds, checks and times the kernels. Only the
answers of tools are sent to the agent.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import InputError

VERSION = 1
"""Version of the protocol. A client with another version is refused."""
SOCKET_VARIABLE = "TILEWRIGHT_AGENT_SOCKET"
"""Environment variable with the path of the socket; agents' programs inherit it."""
MAX_LINE = 4 << 20
"""Maximum number of bytes of a request or an answer, which is the size of four kernels of maximum
size.
"""
ANSWER_S = 7200.0
"""Seconds for which a client waits for an answer, which may require an evaluation."""

Answer = Mapping[str, Any]
"""`{"text", "answer", "refused"}` of a tool, or the description from `describe`."""


def use(path: str, tool: str, arguments: Mapping[str, Any]) -> Answer:
    """The answer of a tool through the socket at `path`; `InputError` if there is none."""
    return _ask(path, {"version": VERSION, "tool": tool, "arguments": dict(arguments)})


def describe(path: str) -> Answer:
    """The description of the work: `{"workload", "target", "resources"}`."""
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
    """The next line; None if the connection is closed before its end. Raises `ValueError` if the
    line is too long.
    """
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
