"""Any program as a model: the prompt on its standard input, the reply on its standard output."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess

from tilewright.core.errors import ConfigurationError
from tilewright.core.secrets import without_secrets
from tilewright.proposers.llm.failures import ModelError, redacted
from tilewright.proposers.llm.messages import Reply, Request
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import GO_ON, alternating, joined, secret_values


class CommandProvider:
    """Starts the program once per call, without the keys in this process's environment.

    A program that fails or hangs ends the session: trying again would only repeat it.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._command = shlex.split(model.target)
        if shutil.which(self._command[0]) is None:
            raise ConfigurationError(
                f"model {model.name} names the program {self._command[0]!r}, which is not on PATH: "
                "install it or give its full path."
            )

    def complete(self, request: Request) -> Reply:
        """The program's whole standard output."""
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=without_secrets(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise ModelError(
                f"model {self._model.name} cannot be started ({error.strerror}): "
                f"check the program; {GO_ON}."
            ) from None
        try:
            output, complaints = process.communicate(
                prompt_text(request), timeout=self._model.options.timeout_s
            )
        except subprocess.TimeoutExpired:
            raise ModelError(
                f"model {self._model.name} gave no answer within "
                f"{self._model.options.timeout_s:g} s: check the program, or add "
                f"?timeout_s=SECONDS to its name; {GO_ON}."
            ) from None
        finally:
            _end(process)
        if process.returncode != 0:
            last = redacted(complaints.strip().rpartition("\n")[2], secret_values())
            raise ModelError(
                f"model {self._model.name} ended with exit code {process.returncode} ({last}): "
                f"run the program by hand with a prompt on standard input; {GO_ON}."
            )
        return Reply(output, served_by=self._command[0])


def prompt_text(request: Request) -> str:
    """The prompt as it is, or a transcript with headings where there is more than one turn."""
    turns = alternating(request.messages)
    if len(turns) == 1:
        return joined(turns[0][1])
    names = {"user": "User", "assistant": "Assistant"}
    return "\n\n".join(f"# {names[role]}\n\n{joined(turn)}" for role, turn in turns)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill whatever is left of the program and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
