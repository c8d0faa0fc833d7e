"""The sandboxed process that runs a problem's `Model` in PyTorch, and its answers.

A problem's file is the user's own code, like a folder's `reference.py`. It nevertheless runs in a
sandbox, in its own process, and never in the process of a candidate.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tilewright.core.errors import WorkloadError
from tilewright.parts.user_code import REFERENCE_TIMEOUT_S
from tilewright.sandbox import Limits, open_folder
from tilewright.sandbox.child import Channel
from tilewright.sandbox.total_limits import session_cpu_s
from tilewright.targets.cuda.other_python import (
    FoundPython,
    environment,
    find_python,
    install_command,
)

PYTHON = "TILEWRIGHT_TORCH"
"""The environment variable that names a Python with PyTorch, if the Python of tilewright has
none."""
HOW_TO_GET = (
    f"run `{install_command('torch')}`, or set {PYTHON} to a Python that has it (no GPU is needed)"
)
_PROGRAM = Path(__file__).with_name("oracle_program.py")
_PARTS = ("oracle_arithmetic.py", "oracle_sizes.py", "oracle_trace.py")
_MOST_REPLY = 16 << 20
"""Maximum number of bytes of the JSON part of a reply. A description of 2000 arrays takes a quarter
of a MiB."""
_ADDRESSES = 8 << 30
"""Address space that PyTorch's libraries and threads take in addition to the memory limit."""
_START_S = 120.0
_LOOK_AGAIN_S = 0.1
_MOST_WAITING = 10
"""Maximum duration of a request, in multiples of its limit of CPU time. Other processes of the
machine may delay it."""


@cache
def find_torch() -> FoundPython:
    """The Python interpreter that the environment variable names, or else this one.

    Raises `ToolchainMissingError` if it has no PyTorch.
    """
    why = "problems in KernelBench's form are computed by PyTorch"
    return find_python("torch", PYTHON, why, HOW_TO_GET)


@lru_cache(maxsize=2)
def process_of(path: Path, text: str) -> OracleProcess:
    """The process for a problem's text, which runs until this process ends or until it fails."""
    return OracleProcess(path, text)


class OracleProcess:
    """A running program that answers requests about a problem until it is closed."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._stack = path, ExitStack()
        torch = find_torch()
        folder = Path(self._stack.enter_context(open_folder("tilewright-torch-")))
        (folder / "program.py").write_bytes(_PROGRAM.read_bytes())
        for name in _PARTS:
            (folder / name).write_bytes(Path(__file__).with_name(name).read_bytes())
        own, other = socket.socketpair()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        bounds = Limits(
            1e6, memory_bytes=memory + _ADDRESSES, total_memory_bytes=memory, processes=256
        )  # each request has its own time limit here
        with other:
            self._process = self._stack.enter_context(
                torch.sandbox.started(
                    [torch.python, "-I", "program.py", str(other.fileno())],
                    folder, bounds, environment(), pass_on=[other.fileno()],
                )
            )  # fmt: skip
        self._stack.callback(own.close)
        self._channel = _Timed(own, self._process.pid)
        self._limit_s = _START_S
        self.ask("open", text=text)
        self._limit_s = float(REFERENCE_TIMEOUT_S)

    def ask(
        self, what: str, data: bytes = b"", most_bytes: int = 0, **more: object
    ) -> tuple[Mapping[str, Any], bytes]:
        """The reply to a request, with a payload of at most `most_bytes` bytes.

        `WorkloadError` if the user's code fails or its reply is larger.
        """
        try:
            self._channel.begin(self._limit_s)
            self._channel.send_json({"do": what, **more})
            self._channel.send(data)
            reply = self._channel.receive_json()
            self._channel.most_bytes = most_bytes
            payload = self._channel.receive()
        except TimeoutError as late:
            raise self._failed(str(late)) from None
        except (OSError, EOFError, ValueError, RecursionError):
            raise self._failed("ends the process that runs it, or needs too much memory") from None
        if not isinstance(reply, dict):
            raise self._failed("writes to the channel on which its process answers")
        if "unusable" in reply:
            raise WorkloadError(
                f"{self._path} is not a problem in KernelBench's form: {reply['unusable']}; it "
                "must define Model, get_inputs and get_init_inputs."
            )
        if "raised" in reply:
            said = " ".join(str(reply["raised"]).split())
            raise self._failed(f"raised {said}")
        return reply, payload

    def close(self) -> None:
        """End the process."""
        self._stack.close()

    def _failed(self, what: str) -> WorkloadError:
        process_of.cache_clear()
        self.close()
        return WorkloadError(
            f"{self._path}: running its Model on a CPU {what}; it must compute its outputs from "
            "get_inputs() alone, on any device."
        )


class _Timed(Channel):
    """A channel with a limit for each request and its reply: the CPU time of the session of the
    process `leader`, and a multiple of it for a process that waits or sends each byte late."""

    def __init__(self, own: socket.socket, leader: int) -> None:
        super().__init__(own.fileno())
        self._own, self._leader = own, leader
        self.most_bytes = _MOST_REPLY
        self._limit_s = self._begun_s = self._begun_cpu_s = self._deadline = 0.0

    def begin(self, limit_s: float) -> None:
        """Set the limit for everything up to the next call, in seconds."""
        self._limit_s, self._begun_s = limit_s, time.monotonic()
        self._begun_cpu_s = session_cpu_s(self._leader)
        self._deadline = self._begun_s + limit_s
        self.most_bytes = _MOST_REPLY

    def send(self, message: bytes) -> None:
        data = memoryview(len(message).to_bytes(8, "big") + message)
        while data:
            with self._limited():
                data = data[self._own.send(data) :]

    def receive(self) -> bytes:
        length = int.from_bytes(self._all(8), "big")
        if length > self.most_bytes:
            raise EOFError(f"tilewright sends no message of {length} bytes")
        return self._all(length)

    def _all(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            with self._limited():
                part = self._own.recv(min(count - len(found), 1 << 20))
                if not part:
                    raise EOFError("the other end is closed")
                found += part
        return bytes(found)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Let the enclosed call return early at the deadline, which moves while CPU time is left.

        `TimeoutError` says which limit is exceeded.
        """
        now, most_s = time.monotonic(), _MOST_WAITING * self._limit_s
        if now >= self._deadline:
            left_s = self._limit_s - session_cpu_s(self._leader) + self._begun_cpu_s
            if left_s <= 0:
                raise TimeoutError(f"takes more than {self._limit_s:g} s of CPU time")
            if now - self._begun_s >= most_s:
                raise TimeoutError(f"does not end within {most_s:g} s")
            self._deadline = now + max(left_s, _LOOK_AGAIN_S)
        self._own.settimeout(self._deadline - now)
        with suppress(TimeoutError):
            yield
