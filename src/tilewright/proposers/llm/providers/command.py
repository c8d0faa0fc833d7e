"""A program as a model, which reads the prompt from standard input and writes the reply to standard
output.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

from tilewright.core.errors import ConfigurationError
from tilewright.core.secrets import without_secrets
from tilewright.core.text import plain_text
from tilewright.proposers.llm.failures import ModelError, redacted
from tilewright.proposers.llm.messages import MAX_REPLY_CHARACTERS, Reply, Request
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import GO_ON, alternating, joined, secret_values

_POLL_S = 0.02
_END_S = 5.0
_MARK = "TILEWRIGHT_CALL"
"""The variable in whose value a call's processes differ from all others."""
_MAX_BYTES = 4 * MAX_REPLY_CHARACTERS
"""Maximum number of bytes of a program's output; a character takes at most four bytes."""


class CommandProvider:
    """Starts the program once per call, without the keys in this process's environment.

    A program that fails or hangs ends the session, because another attempt would probably fail in
    the same way.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._command = shlex.split(model.target)
        if shutil.which(self._command[0]) is None:
            raise ConfigurationError(
                f"model {model.name} names the program {self._command[0]!r}, which is not on "
                "PATH. Install it or give its full path."
            )

    def complete(self, request: Request) -> Reply:
        """The program's whole standard output."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
            status = self._run(request, output, complaints)
            last = plain_text(_text(complaints)).strip().rpartition("\n")[2]
            text = _text(output)
        if status != 0:
            raise ModelError(
                f"model {self._model.name} ended with exit code {status} "
                f"({redacted(last, secret_values())}). Run the program by hand with a prompt on "
                f"standard input; {GO_ON}."
            )
        return Reply(text, served_by=self._command[0])

    def _run(self, request: Request, output: IO[bytes], complaints: IO[bytes]) -> int:
        """Run the program with the prompt as its input, and return its exit code.

        When this function returns, the processes of the program's session have ended, and on Linux
        also those that it started in sessions of their own.
        """
        mark = secrets.token_hex(16)
        # Files instead of pipes, so that a child that outlives the program cannot block a reader.
        with tempfile.TemporaryFile() as prompt:
            prompt.write(prompt_text(request).encode(errors="replace"))
            prompt.seek(0)
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=prompt,
                    stdout=output,
                    stderr=complaints,
                    env={**without_secrets(os.environ), _MARK: mark},
                    start_new_session=True,
                )
            except OSError as error:
                raise ModelError(
                    f"model {self._model.name} cannot be started ({error.strerror}). Check the "
                    f"program; {GO_ON}."
                ) from None
        deadline = time.monotonic() + self._model.options.timeout_s
        try:
            while time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_S)
                if max(_size(output), _size(complaints)) > _MAX_BYTES:
                    raise ModelError(
                        f"model {self._model.name} wrote more than {_MAX_BYTES >> 20} MiB in one "
                        f"answer. Check the program; {GO_ON}."
                    )
        finally:
            _end(process)
            _end_marked(mark)
        raise ModelError(
            f"model {self._model.name} gave no answer within {self._model.options.timeout_s:g} s. "
            f"Check the program, or add ?timeout_s=SECONDS to its name; {GO_ON}."
        )


def prompt_text(request: Request) -> str:
    """The prompt, or a transcript with headings if there is more than one turn."""
    turns = alternating(request.messages)
    if len(turns) == 1:
        return joined(turns[0][1])
    names = {"user": "User", "assistant": "Assistant"}
    return "\n\n".join(f"# {names[role]}\n\n{joined(turn)}" for role, turn in turns)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_BYTES).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and its children, if they are still running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_marked(mark: str) -> None:
    """Kill the processes whose environment has this mark, until there are none."""
    text = f"{_MARK}={mark}".encode()
    found, deadline = True, time.monotonic() + _END_S
    while found and time.monotonic() < deadline:
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if text in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
