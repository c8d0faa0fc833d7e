"""A kernel's process on the GPU, with placed arrays and calls in batches. The clock is outside the
process.
"""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument, Failed, Stage
from tilewright.parts.inputs import Array, bytes_of
from tilewright.sandbox import UNCONTAINED, Limits, Sandbox, open_folder

_ROLES = {"input": 0, "output": 1, "inout": 2}
_LINE = 1000
_START_S = 60.0
"""Seconds for the driver to start, which is slow on machines with several GPUs."""
_LIFETIME_S = 900.0
_ILLEGAL, _UNDER_SANITIZER, _MISALIGNED, _OUT_OF_MEMORY = 700, 719, 716, 2
_LAUNCH = (1, 9, 98, 701)
_KINDS = {
    _ILLEGAL: "illegal_address",
    _UNDER_SANITIZER: "illegal_address",
    _MISALIGNED: "misaligned",
    **dict.fromkeys(_LAUNCH, "launch_failure"),
}
"""CUDA's error numbers (driver_types.h)."""


class DeviceFailedError(Exception):
    """The kernel, or its process, failed; `failed` says how."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.log)
        self.failed = failed


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Properties that the device reports; zero if it reports none.

    Clocks in kHz, the bus of its memory in bits, `free_bytes` before any array is placed.
    """

    multiprocessors: int
    clock_khz: int
    cache_bytes: int
    memory_khz: int
    bus_bits: int
    free_bytes: int

    @property
    def in_words(self) -> str:
        """One sentence about the multiprocessors and the cache."""
        return (
            f"The GPU has {self.multiprocessors} multiprocessors at {self.clock_khz / 1e6:.2f} GHz "
            f"and a second-level cache of {self.cache_bytes / 2**20:.3g} MiB."
        )


class DeviceProcess:
    """A running program of `program.cu`. Use as a context manager; every call raises
    `DeviceFailedError` where the kernel or its process fails.

    The process is restricted only by resource limits, because the driver needs access to devices
    and further system calls. The functions that a kernel's host code may call are restricted when
    it is linked (`build.py`). `prefix` is a command with which the program is started, if any.
    """

    def __init__(
        self,
        program: bytes,
        arguments: Sequence[Argument],
        sizes: Sequence[int],
        stage: Stage,
        timeout_s: float,
        prefix: Sequence[str] = (),
    ) -> None:
        self._program, self._arguments = program, tuple(arguments)
        self._sizes, self.stage, self._timeout_s = tuple(sizes), stage, timeout_s
        self._prefix = tuple(prefix)
        self._stack = ExitStack()
        self._unread = b""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(open_folder("tilewright-gpu-")))
            (folder / "program").write_bytes(self._program)
            (folder / "program").chmod(0o755)
            own, theirs = socket.socketpair()
            self._socket = stack.enter_context(own)
            limits = Limits(
                _LIFETIME_S, memory_bytes=1 << 47, total_memory_bytes=1 << 40, open_files=1024,
                processes=4096,
            )  # fmt: skip
            with theirs:
                self._running = stack.enter_context(
                    Sandbox(UNCONTAINED).started(
                        [*self._prefix, "./program", str(theirs.fileno())], folder, limits,
                        pass_on=(theirs.fileno(),),
                    )
                )  # fmt: skip
            numbers = [len(self._arguments), *(bytes_of([a]) for a in self._arguments)]
            numbers += [_ROLES[a.role] for a in self._arguments]
            numbers += [len(self._sizes), *self._sizes]
            words = self._asked("open " + " ".join(map(str, numbers)), "device", _START_S)
            self.facts = DeviceFacts(*self._numbers(words, 6))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def make_room(self, copies: int) -> None:
        """Allocate memory for this number of copies of every array, filled with zeros. Call it
        once.
        """
        self._asked(f"copies {copies}", "copies")

    def place(self, values: Mapping[str, Array], copy: int = 0) -> None:
        """Write the values of all arguments to one copy."""
        for index, argument in enumerate(self._arguments):
            self.upload(index, copy, values[argument.name])

    def upload(self, index: int, copy: int, values: Array) -> None:
        """Write the values of one argument to one copy."""
        self._send(f"upload {index} {copy}\n".encode())
        self._send(memoryview(values.tobytes()))
        self._line("uploaded", self._timeout_s)

    def spread(self, first: int, end: int) -> None:
        """Copy the arrays of copy 0 to the copies from `first` to `end` - 1."""
        self._asked(f"spread {first} {end}", "spread")

    def draw(self, index: int, copies: int, key: int, scale: float) -> None:
        """Draw new floats for the first copies of an argument (`values.drawn_floats`)."""
        self._asked(f"draw {index} {copies} {key} {scale:.9g}", "drawn")

    def poison(self, copies: int) -> None:
        """Fill the outputs of the first copies with NaN."""
        self._asked(f"poison {copies}", "poisoned")

    def batch(self, first: int, count: int) -> tuple[float, float]:
        """The seconds of `count` calls on the copies from `first` on, by the host's clock and by
        that of the device.

        The device is idle before and after the calls.
        """
        self._asked(f"batch {first} {count}", "ready")
        started = time.perf_counter()
        words = self._asked("go", "done")
        seconds = time.perf_counter() - started
        try:
            return seconds, float(words[0]) * 1e-3
        except (IndexError, ValueError):
            raise self._garbage(" ".join(words)) from None

    def hash(self, index: int, copy: int) -> int:
        """The hash of an argument in a copy, as in `values.hash_of`."""
        return self._numbers(self._asked(f"hash {index} {copy}", "hash"), 1)[0]

    def outputs(self, copy: int) -> dict[str, bytes]:
        """Every written argument of a copy."""
        found = {}
        for index, argument in enumerate(self._arguments):
            if argument.is_written:
                self._send(f"download {index} {copy}\n".encode())
                found[argument.name] = self._exactly(bytes_of([argument]))
        return found

    def finish(self, timeout_s: float) -> None:
        """Wait until the program, and the command that started it, have ended."""
        self._socket.shutdown(socket.SHUT_WR)
        try:
            self._running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            log = f"the kernel's process did not end within {timeout_s:g} s."
            raise DeviceFailedError(Failed(self.stage, "timeout", log)) from None

    def free_bytes(self) -> int:
        """The number of free bytes of the device's memory."""
        return self._numbers(self._asked("free", "free"), 1)[0]

    def _asked(self, command: str, answer: str, timeout_s: float | None = None) -> list[str]:
        self._send(f"{command}\n".encode())
        return self._line(answer, self._timeout_s if timeout_s is None else timeout_s)

    def _send(self, data: bytes | memoryview) -> None:
        self._socket.settimeout(self._timeout_s)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise self._late(self._timeout_s) from None
        except OSError:
            pass  # the process has ended, which reading its answer reports

    def _line(self, answer: str, timeout_s: float) -> list[str]:
        """The words after `answer` in the next line."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            if len(self._unread) > _LINE:
                raise self._garbage(self._unread[:80].decode(errors="replace"))
            self._unread += self._received(end - time.monotonic(), timeout_s)
        line, _, self._unread = self._unread.partition(b"\n")
        words = line.decode(errors="replace").split(" ")
        if words[0] == "failed" and len(words) >= 3 and words[2].isdigit():
            if words[1] == "start":  # before any code of the kernel runs
                raise ToolchainMissingError(
                    f"the GPU of this machine cannot be used ({' '.join(words[3:])}, CUDA error "
                    f"{words[2]}). Install a driver that supports the CUDA toolkit, and check that "
                    "no other process uses the GPU exclusively."
                )
            raise self._error(int(words[2]), " ".join(words[3:]))
        if words[0] != answer:
            raise self._garbage(line.decode(errors="replace")[:80])
        return words[1:]

    def _exactly(self, count: int) -> bytes:
        end = time.monotonic() + self._timeout_s
        parts, there = [self._unread], len(self._unread)
        while there < count:
            parts.append(self._received(end - time.monotonic(), self._timeout_s))
            there += len(parts[-1])
        data = b"".join(parts)
        self._unread = data[count:]
        return data[:count]

    def _received(self, left_s: float, timeout_s: float) -> bytes:
        ready, _, _ = select.select([self._socket], [], [], max(0.0, left_s))
        if not ready:
            raise self._late(timeout_s)
        try:
            data = self._socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            log = "the kernel's process on the GPU ended early."
            raise DeviceFailedError(Failed(self.stage, "crash", log))
        return data

    def _numbers(self, words: Sequence[str], count: int) -> list[int]:
        try:
            found = [int(word) for word in words]
        except ValueError:
            found = []
        if len(found) != count:
            raise self._garbage(" ".join(words)[:80])
        return found

    def _late(self, timeout_s: float) -> DeviceFailedError:
        log = f"the kernel was stopped after {timeout_s:g} s on the GPU."
        return DeviceFailedError(Failed(self.stage, "timeout", log))

    def _garbage(self, said: str) -> DeviceFailedError:
        log = f"the kernel's process answered {said!r}, which is not a valid answer."
        return DeviceFailedError(Failed(self.stage, "no_result", log))

    def _error(self, number: int, text: str) -> DeviceFailedError:
        kind = _KINDS.get(number, "crash")
        log = f"the GPU refused or ended the kernel: {text} (CUDA error {number})."
        if number == _OUT_OF_MEMORY:
            log = f"the kernel's arrays do not fit into the GPU's memory: {text}."
        return DeviceFailedError(Failed(self.stage, kind, log))
