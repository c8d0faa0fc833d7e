"""Runs one sandboxed command in a folder, with limited output, and ends everything that it
started.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from tilewright.sandbox import confine, limits
from tilewright.sandbox.confine import Level
from tilewright.sandbox.control_group import ControlGroup, control_group
from tilewright.sandbox.launcher import end_group, launched
from tilewright.sandbox.limits import Limits
from tilewright.sandbox.total_limits import EVERY_S, Watch


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    `status` is its exit status, which is negative for a signal, and None if the command exceeded
    its time limit. `output` is the beginning of its output on stdout and stderr. If the command was
    killed because its processes together exceeded a limit, the last line says so.
    """

    status: int | None
    output: bytes
    wall_s: float


@dataclass(frozen=True)
class Sandbox:
    """One containment level, for commands that may read `readable` in addition to the system's
    files.
    """

    level: Level
    readable: tuple[Path, ...] = ()

    @cached_property
    def name(self) -> str:
        """The name of the level that is recorded with results, such as "landlock+seccomp+uid"."""
        return self.level.name

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        bounds: Limits,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run `command` in `folder`, the only place it may write to. Raises `OSError`.

        It receives only `environment`, and no descriptor, terminal or input of this process. When
        this method returns, its whole process group has ended.
        """
        watch = Watch(bounds, folder)
        started = time.monotonic()
        with tempfile.TemporaryFile() as output, control_group(bounds) as group:
            with self.started(
                command, folder, bounds, environment, output=output, group=group
            ) as process:
                ended, excess = _wait(process, started + bounds.wall_s, watch)
            excess = excess or (group.excess() if group else None)
            wall_s = time.monotonic() - started
            output.seek(0)
            printed = output.read(bounds.output_bytes)
        if excess is not None:
            printed += f"\n{excess}\n".encode()
        return Finished(process.returncode if ended else None, printed, wall_s)

    @contextlib.contextmanager
    def started(
        self,
        command: Sequence[str],
        folder: Path,
        bounds: Limits,
        environment: Mapping[str, str] | None = None,
        *,
        output: IO[bytes] | None = None,
        pass_on: Sequence[int] = (),
        group: ControlGroup | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A context manager that runs a command like `run`, for callers that exchange messages with
        it.

        The command inherits the descriptors `pass_on` under the same numbers. Its output is written
        to `output`, or discarded. The caller enforces `bounds.wall_s`. The command joins `group`
        before it does anything else. At the end of the context its process group is killed.
        """
        self._hand_over(folder)
        start = confine.prepare(self.level, command, folder, self.readable, bounds)
        sink = output if output is not None else subprocess.DEVNULL

        joining = () if group is None else (group.joining,)
        try:
            process = launched(
                [*(f"group={descriptor}" for descriptor in joining), *start.steps],
                start.command,
                folder=folder,
                environment={"TMPDIR": str(folder), "LC_ALL": "C", **(environment or {})},
                output=sink,
                pass_on=(*joining, *start.pass_on, *pass_on),
            )
        finally:
            for descriptor in start.pass_on:
                os.close(descriptor)
        try:
            yield process
        finally:
            end_group(process)

    def _hand_over(self, folder: Path) -> None:
        """Make the sandboxed user the owner of the folder and its files, including files of an
        earlier user.
        """
        if os.geteuid() != 0:
            return
        user = (limits.unused_user() if self.level.own_user else None) or 0
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user, follow_symlinks=False)


def read_output(path: Path, max_bytes: int) -> bytes:
    """The content of a file that a sandboxed command wrote; `OSError` if it is not a regular file
    or is too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
            raise OSError(f"{path.name} is not a regular file of at most {max_bytes} bytes")
        return file.read(max_bytes)


def _wait(
    process: subprocess.Popen[bytes], deadline: float, watch: Watch
) -> tuple[bool, str | None]:
    """Wait for the process. Returns whether it ended, or must end because it exceeds a limit other
    than that of its time, and the exceeded limit.
    """
    with _end_of(process) as wait:
        while (left_s := deadline - time.monotonic()) > 0:
            if wait(min(left_s, EVERY_S)):
                return True, None
            excess = watch.excess(process.pid)
            if excess is not None:
                return True, excess
        return wait(0), None


@contextlib.contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[Callable[[float], bool]]:
    """A function that waits for a number of seconds, and returns whether the process has ended. On
    systems that support this, it returns as soon as the process ends.
    """

    def wait(seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.poll() is not None

    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield wait
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        yield lambda seconds: bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)
