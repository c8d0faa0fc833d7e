"""A program as a model, which reads the prompt from standard input and writes the reply to standard
output.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from typing import IO

from tilewright.core.errors import ConfigurationError
from tilewright.core.secrets import without_secrets
from tilewright.core.text import plain_text
from tilewright.proposers.llm.failures import ModelError, redacted
from tilewright.proposers.llm.messages import MAX_REPLY_CHARACTERS, Reply, Request
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import GO_ON, alternating, joined, secret_values
from tilewright.sandbox.child import Child
from tilewright.sandbox.supervised_program import END_S

_POLL_S = 0.02
_MAX_BYTES = 4 * MAX_REPLY_CHARACTERS
"""Maximum number of bytes of a program's output; a character takes at most four bytes."""
_MAX_MESSAGE = 1 << 16
"""Maximum number of bytes of the message in which a program's exit status arrives."""


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

        When this function returns, everything that the program started has ended, on systems other
        than Linux without the processes in sessions of their own.
        """
        # Files instead of pipes, so that a child that outlives the program cannot block a reader.
        with tempfile.TemporaryFile() as prompt:
            prompt.write(prompt_text(request).encode(errors="replace"))
            prompt.seek(0)
            try:
                supervisor = Child(
                    "tilewright.sandbox.supervised_program",
                    environment=without_secrets(os.environ),
                    given=prompt,
                    output=output,
                    errors=complaints,
                    max_bytes=_MAX_MESSAGE,
                )
            except OSError as error:
                raise ModelError(
                    f"model {self._model.name} cannot be started ({error.strerror}). Close other "
                    f"programs; {GO_ON}."
                ) from error
        deadline = time.monotonic() + self._model.options.timeout_s
        try:
            supervisor.send_json(self._command)
            while time.monotonic() < deadline:
                if supervisor.has_message(_POLL_S):
                    return self._status(supervisor)
                if max(_size(output), _size(complaints)) > _MAX_BYTES:
                    raise ModelError(
                        f"model {self._model.name} wrote more than {_MAX_BYTES >> 20} MiB in one "
                        f"answer. Check the program; {GO_ON}."
                    )
        finally:
            supervisor.finish()
            supervisor.has_message(END_S + 1)  # it has ended everything, or has ended itself
            supervisor.kill()
        raise ModelError(
            f"model {self._model.name} gave no answer within {self._model.options.timeout_s:g} s. "
            f"Check the program, or add ?timeout_s=SECONDS to its name; {GO_ON}."
        )

    def _status(self, supervisor: Child) -> int:
        """The exit code of the program, which has ended or could not be started."""
        try:
            said = supervisor.receive_json()
        except EOFError:
            raise ModelError(
                f"model {self._model.name} gave no exit code, because the process that supervises "
                f"it was killed. Check whether the program kills other processes; {GO_ON}."
            ) from None
        if "not_started" in said:
            raise ModelError(
                f"model {self._model.name} cannot be started ({said['not_started']}). Check the "
                f"program; {GO_ON}."
            )
        return int(said["status"])


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
