"""A kernel in a separate sandboxed process, which is called many times.

Before the kernel is mapped, the process sends its process id over a socket on which the operating
system identifies the sender. Its clock is read by this id, and every later answer must come from
this process.
"""

from __future__ import annotations

import secrets
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import numpy as np

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument, Failed, FailureKind, KernelLanguage, Stage
from tilewright.native.image import BASE, Image, linked
from tilewright.native.object_file import with_addresses
from tilewright.native.shared_memory import SLOTS, SealedMemory, SharedArrays
from tilewright.parts.debug_lines import source_line
from tilewright.sandbox import Limits, Sandbox, counting_group, open_folder

MAX_ARGUMENTS = 8
"""Maximum number of arguments of a kernel."""
_MOST_ARRAYS = MAX_ARGUMENTS + 1
"""The number of arrays with which a kernel can be called (MOST in harness.c). The tool adds one
array to the arguments of a kernel that records something.
"""
_COMMAND = struct.Struct(f"=Q{_MOST_ARRAYS}I{_MOST_ARRAYS}I")
_REPLY = struct.Struct("=QQQQqq")
_START_S = 20.0
_LOOKS, _LOOK_AGAIN_S = 10, 0.0005
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group of a message's sender, as the system reports them (unix(7))."""
_NOT_MAPPED = 6  # exit status of harness.c
_TOO_MANY_THREADS = 1000  # threads.c
_MODES_CHANGED = 1001  # harness.c
_THREADS_LEFT = 1002  # threads.c
# The sandbox may start threads, but the filter of the harness forbids this to the kernel.
_PROCESSES = 64
_ILLEGAL = "the kernel executed an instruction that this CPU does not have or does not allow"
_ARITHMETIC = (
    "the kernel divided an integer by zero (or the smallest integer by -1), or enabled "
    "floating-point exceptions"
)
_MODES = (
    "the kernel changed modes of the processor and did not restore them (rounding, "
    "floating-point exceptions, denormal numbers as zero, or the direction of string instructions)."
)
_LEFT = (
    "the kernel returned while one of its threads was not joined: "
    "call pthread_join for each thread in the call of the kernel that creates this thread."
)
_KINDS: Mapping[int, tuple[FailureKind, str]] = {
    signal.SIGSEGV: ("illegal_address", "the kernel accessed memory that does not belong to it"),
    signal.SIGBUS: ("illegal_address", "the kernel accessed memory that does not belong to it"),
    signal.SIGILL: ("illegal_instruction", _ILLEGAL),
    signal.SIGFPE: ("illegal_instruction", _ARITHMETIC),
    signal.SIGSYS: ("forbidden_call", "the kernel made a system call that is not allowed"),
}


class ProcessGoneError(Exception):
    """The clock of a process cannot be read, because the process has ended."""


class KernelProcess:
    """One mapped kernel, as a context manager. It cannot be used after a `Failed`.

    Args:
        sandbox: what contains it.
        harness: the program of `harness.c`.
        binary: the kernel's object file.
        arguments: its parameters in order, `MAX_ARGUMENTS` at most, and one more.
        language: the language of the kernel, which gives the name of its file in messages.
        memory_bytes: address space that it may have in addition to its arrays.
        lifetime_s: CPU seconds after which the system ends it.
        rng: random generator for addresses and for the bytes around arrays.
        threads: number of threads that it may run; the harness must be compiled for this number.
        overwritten_stack: bytes below the kernel's stack that are overwritten before each call.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        harness: bytes,
        binary: bytes,
        arguments: Sequence[Argument],
        rng: np.random.Generator,
        *,
        language: KernelLanguage,
        memory_bytes: int = 4 << 30,
        lifetime_s: float = 600.0,
        threads: int = 1,
        overwritten_stack: int = 0,
    ) -> None:
        self._sandbox = sandbox
        self._harness, self._binary = harness, binary
        self._arguments = tuple(arguments)
        self._rng = rng
        self._language = language
        self._memory_bytes, self._lifetime_s = memory_bytes, lifetime_s
        self.threads = threads
        self._overwritten_stack = overwritten_stack
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        image = linked(self._binary, self.threads)
        with ExitStack() as stack:
            self.arrays = stack.enter_context(SharedArrays(self._arguments, self._rng))
            self.arrays.seal()
            mapped = stack.enter_context(SealedMemory("image", max(1, len(image.contents))))
            mapped.map[: len(image.contents)] = image.contents
            mapped.seal()
            folder = Path(stack.enter_context(open_folder("tilewright-run-")))
            (folder / "harness").write_bytes(self._harness)
            (folder / "harness").chmod(0o755)
            self._group = stack.enter_context(counting_group())
            self._messages, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.callback(self._messages.close)
            with theirs:
                self._messages.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                passed = (
                    theirs.fileno(),
                    self.arrays.inputs.descriptor,
                    self.arrays.outputs.descriptor,
                    mapped.descriptor,
                )
                command = ["./harness", *map(str, (*passed, *_numbers(image)))]
                command += [str(self._overwritten_stack), str(len(self._arguments))]
                for argument, body in zip(self._arguments, self.arrays.bodies, strict=True):
                    command += ["w" if argument.is_written else "r", str(body)]
                self._process = stack.enter_context(
                    self._sandbox.started(
                        [*command, *image.calls],
                        folder,
                        self._limits(),
                        self._environment(),
                        pass_on=passed,
                        group=self._group,
                    )
                )
            self._poll = select.poll()
            self._poll.register(self._messages, select.POLLIN)
            self._missing: str | None = None
            self.pid = self._wait_until_ready(image)
            self._clock = (~self.pid << 3) | 2  # CPUCLOCK_SCHED of a process, see clock_getres(2)
            self._others_s = self._beside_s()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def cpu_s(self) -> float:
        """The CPU seconds of the process so far, as the operating system counts them.

        Raises `ProcessGoneError`.
        """
        try:
            return time.clock_gettime_ns(self._clock) * 1e-9
        except OSError as error:
            raise ProcessGoneError from error

    def hidden_s(self) -> float:
        """CPU seconds since the process was ready that its control group used but `cpu_s` does not
        include.

        Valid while the process waits for a call; 0 if no control group can be created. Raises
        `ProcessGoneError`.
        """
        return self._beside_s() - self._others_s

    def _beside_s(self) -> float:
        return self._group.cpu_s() - self.cpu_s() if self._group else 0.0

    def is_asleep(self) -> bool:
        """Whether all its threads are waiting, or will be within milliseconds."""
        for _ in range(_LOOKS):
            if threads_wait(self.pid):
                return True
            time.sleep(_LOOK_AGAIN_S)
        return False

    def call(self, stage: Stage, timeout_s: float) -> Failed | None:
        """Call the kernel once on the placed arrays; None if it has returned, or its failure."""
        nonce = secrets.randbits(64)
        slots, shifts = [0] * _MOST_ARRAYS, [0] * _MOST_ARRAYS
        for i, place in enumerate(self.arrays.places):
            slots[i], shifts[i] = place.slot, place.shift
        message = _COMMAND.pack(nonce, *slots, *shifts)
        try:
            self._messages.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return self._ended(stage)
        if not self._poll.poll(timeout_s * 1000):
            return Failed(stage, "timeout", f"the kernel was stopped after {timeout_s:g} s.")
        sender, reply = self._received()
        if sender is None:
            return self._ended(stage)
        if sender != self.pid or len(reply) != _REPLY.size or _REPLY.unpack(reply)[0] != nonce:
            return Failed(
                stage, "no_result", "the kernel wrote to the connection to its evaluator."
            )
        return self._fault(stage, reply) if _REPLY.unpack(reply)[1] else None

    def _received(self) -> tuple[int | None, bytes]:
        """The id of the process that sent the next message, or None if all have ended, and the
        message.
        """
        try:
            reply, more, _, _ = self._messages.recvmsg(
                _REPLY.size + 1, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
        except ConnectionResetError:
            return None, b""
        for _, kind, data in more:
            if kind == socket.SCM_CREDENTIALS:
                return _CREDENTIALS.unpack(data)[0], reply
        return None, b""

    def _fault(self, stage: Stage, reply: bytes) -> Failed:
        _, number, call, pc, argument, offset = _REPLY.unpack(reply)
        kind, log = _KINDS.get(number, ("crash", f"the kernel ended with signal {number}"))
        if number == _TOO_MANY_THREADS:
            kind, log = "forbidden_call", _too_many(self.threads)
        elif number == _MODES_CHANGED:
            return Failed(stage, "illegal_instruction", _MODES)
        elif number == _THREADS_LEFT:
            return Failed(stage, "forbidden_call", _LEFT)
        elif kind == "forbidden_call":
            log += f" (system call {call}): it may not start threads or processes, or open files"
        elif kind == "illegal_address" and 0 <= argument < len(self._arguments):
            touched, size = self._arguments[argument], self.arrays.bytes[argument]
            if touched.role == "input" and 0 <= offset < size:
                kind, log = "input_modified", f"the kernel wrote to its input {touched.name}"
            else:
                log = (
                    f"the kernel accessed memory {_relative_to_array(offset, size)} {touched.name}"
                )
        # Refused independently of the memory at the address.
        elif kind == "illegal_address" and call:
            log = "the kernel made a misaligned access, or an access to an impossible address"
        at = linked(self._binary, self.threads).sections_at
        line = source_line(with_addresses(self._binary, at), pc, self._language.file)
        return Failed(stage, kind, self._language.located(f"{log}.", line), line)

    def _ended(self, stage: Stage) -> Failed:
        """The failure of a kernel whose process ended without a reply."""
        if self._missing is not None:
            log = f"the kernel calls {self._missing}, which no library of this machine has."
            return Failed(stage, "link_error", log)
        status = self._status()
        if status == _NOT_MAPPED:
            log = "the kernel cannot be mapped: its static arrays may be too large."
            return Failed(stage, "crash", log)
        if status is not None and status < 0 and -status in _KINDS:
            kind, log = _KINDS[-status]
            return Failed(stage, kind, f"{log}.")
        return Failed(stage, "crash", f"the kernel ended its process (status {status}).")

    def _status(self) -> int | None:
        """The exit status of the process; None while it is running."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0)
        return None

    def _wait_until_ready(self, image: Image) -> int:
        """The process id, which the process sends before any part of the kernel is mapped. Raises
        an exception if no kernel could be started. If a library function of the kernel is missing,
        the kernel fails when it is called.
        """
        sender, reply = self._received() if self._poll.poll(_START_S * 1000) else (None, b"")
        if sender is None or len(reply) != _REPLY.size:
            raise ToolchainMissingError(
                f"a kernel's process did not start in {self._sandbox.name} (status "
                f"{self._status()}): `tilewright doctor` describes the sandbox."
            )
        missing = _REPLY.unpack(reply)[4]
        self._missing = image.calls[missing] if missing >= 0 else None
        return sender

    def _limits(self) -> Limits:
        arrays = SLOTS * sum(self.arrays.bodies)
        return Limits(
            wall_s=self._lifetime_s,
            memory_bytes=self._memory_bytes + 2 * arrays,
            file_bytes=1 << 16,  # for the sandbox; the sandbox's own system calls are filtered
            processes=_PROCESSES + self.threads,
            open_files=32,
        )

    def _environment(self) -> dict[str, str]:
        """The environment for OpenMP, with which waiting threads sleep, because CPU time between
        calls is counted.
        """
        if self.threads == 1:
            return {}
        return {
            "OMP_NUM_THREADS": str(self.threads),
            "OMP_DYNAMIC": "false",
            "OMP_WAIT_POLICY": "passive",
            "MALLOC_ARENA_MAX": "1",  # any other setting would need a system call that is refused
        }


def threads_wait(pid: int) -> bool:
    """Whether no thread of a process is running or ready to run; also true if the process does not
    exist.
    """
    try:
        tasks = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # threads only end together, so the process has ended
        return True
    return all(task.rpartition(")")[2].split()[0] != "R" for task in tasks)


def _relative_to_array(offset: int, size: int) -> str:
    if offset == size:
        return "directly after the end of"
    return f"{-offset} bytes before" if offset < 0 else f"{offset - size} bytes after the end of"


def _too_many(threads: int) -> str:
    return (
        f"the kernel started more than {threads - 1} thread{'s' * (threads > 2)} in addition to "
        f"the thread that calls it: the target declares {threads} threads"
    )


def _numbers(image: Image) -> tuple[int, ...]:
    """The description of an image for the harness."""
    sizes = (len(image.code), len(image.constants), len(image.data), image.zeros)
    return (BASE, *sizes, image.entry)
