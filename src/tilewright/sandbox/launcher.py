"""Starts a command through the launcher, a small program that restricts itself before it becomes
the command (cpp/launcher.c).

Restrictions could also be applied by Python code between `fork` and `exec`. But `fork` copies the
page tables of this process, which takes as long as everything else together once the process has a
gigabyte. Without such code, Python starts programs with `vfork`, which copies nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import IO

from tilewright.core.errors import ToolchainMissingError

_COMMAND = "command"
"""The launcher's name for the command instead of a step."""


def launched(
    steps: Sequence[str],
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    output: IO[bytes] | int,
    pass_on: Sequence[int],
) -> subprocess.Popen[bytes]:
    """A process that has carried out `steps` and then become `command`, in a session of its own.

    Its working directory is `folder`, and its input is empty. It receives only `environment` and
    the descriptors `pass_on`, of which it closes those that a step names. Raises `OSError`, without
    having run the command, if a step fails or the command cannot be executed.
    """
    reading, writing = os.pipe()
    with open(reading, "rb") as report:  # noqa: PTH123 (a descriptor, not a path)
        try:
            process = subprocess.Popen(
                [find_program(), str(writing), *steps, "--", *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing, *pass_on),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            failure = report.read().decode()
            if failure:
                raise _error(failure, command[0])
        except BaseException:
            end_group(process)
            raise
    return process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a process, and wait for the process.

    Call this before its exit status is read, because afterwards another group could have the same
    number.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@functools.cache
def find_program() -> str:
    """The path of the launcher. Raises `ToolchainMissingError` if it is not installed."""
    path = resources.files("tilewright.sandbox").joinpath("launcher")
    if not path.is_file():
        raise ToolchainMissingError(
            "a part of tilewright that starts sandboxed commands is missing (sandbox/launcher): "
            "install tilewright again."
        )
    return str(path)


def _error(failure: str, command: str) -> OSError:
    number, _, step = failure.partition(" ")
    reason = os.strerror(int(number))
    if step == _COMMAND:
        return OSError(int(number), reason, command)
    return OSError(int(number), f"the sandbox cannot be set up at the step {step!r}: {reason}")
