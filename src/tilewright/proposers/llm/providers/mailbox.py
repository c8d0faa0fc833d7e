"""A folder as a model, in which people or other programs write replies as files.

A call is written to `requests/KEY.json`, and its reply to `replies/KEY.json`. Write the reply to a
file with another name first, and then rename it. A reply is a JSON object with a `text`, optionally
`stop` ("end", "length" or "refused") and `usage` (`input`, `output` tokens). A resumed run waits
for the replies to earlier requests and does not write them again.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path

from tilewright.core.errors import ConfigurationError
from tilewright.core.files import read_bytes
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Reply, Request, Usage
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import GO_ON
from tilewright.proposers.llm.providers.command import prompt_text

POLL_S = 0.05
MOST_BYTES = 16 << 20
"""Maximum size of a reply file, which is larger than any reply that is stored."""


class MailboxProvider:
    """Writes each request to a file, and waits for the file with its reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        try:
            folder = Path(model.target).expanduser()
            self._requests, self._replies = folder / "requests", folder / "replies"
            self._requests.mkdir(parents=True, exist_ok=True)
            self._replies.mkdir(exist_ok=True)
        except (OSError, ValueError, RuntimeError) as error:  # a zero byte, or an unknown ~user
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"the folder of model {model.name} cannot be created ({reason}). Give a "
                "folder that you may write to."
            ) from None

    def complete(self, request: Request) -> Reply:
        """Wait for a complete reply file and return its content."""
        try:
            self._ask(request)
        except OSError as error:
            raise ModelError(
                f"the request to model {self._model.name} cannot be written ({error.strerror}). "
                f"Create the folder {self._requests}, and free space on its disk; {GO_ON}."
            ) from None
        answer = self._replies / f"{request.key}.json"
        deadline = time.monotonic() + self._model.options.timeout_s
        while time.monotonic() < deadline:
            reply = _read(answer, self._model)
            if reply is not None:
                return reply
            time.sleep(POLL_S)
        what = f"no reply file {answer} was written"
        if answer.exists():
            what = f"the reply file {answer} did not become a complete JSON object"
        raise ModelError(
            f"{what} within {self._model.options.timeout_s:g} s: answer the request, or add "
            f"?timeout_s=SECONDS to the model's name; {GO_ON}."
        )

    def _ask(self, request: Request) -> None:
        question = self._requests / f"{request.key}.json"
        if question.exists():
            return
        document = {
            "key": request.key,
            "model": request.model,
            "phase": request.phase,
            "prompt": prompt_text(request),
        }
        # A new file, because another writer of the folder could have created a link with this name.
        whole = question.with_name(f"{request.key}.{secrets.token_hex(8)}.partial")
        with whole.open("x", encoding="utf-8") as stream:
            stream.write(json.dumps(document, indent=1))
        whole.replace(question)


def _read(answer: Path, model: Model) -> Reply | None:
    """The reply, or None if its file is missing or not complete yet."""
    try:
        document = json.loads(read_bytes(answer, MOST_BYTES, follow_link=False))
    except (FileNotFoundError, ValueError):
        return None
    except (OSError, RecursionError):  # a link, no regular file, or an endless one
        document = None
    try:
        usage = Usage(**document.get("usage", {}))
        stop = document.get("stop", "end")
        if stop not in ("end", "length", "refused"):
            raise ValueError(stop)
        text = document["text"]
        if not isinstance(text, str):
            raise TypeError(text)
        return Reply(text, stop, usage, served_by="mailbox")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ModelError(
            f"the reply file {answer} of model {model.name} is not usable. Write a JSON object "
            f'with a string "text", in a file of at most {MOST_BYTES >> 20} MiB that is no link; '
            f"{GO_ON}."
        ) from None
