"""Recorded calls in a file: written by a run, answered from in another that needs no key.

One JSON object per line: first the file's version and the price snapshot, then one call each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tilewright.core.errors import InputError
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Reply, Request, reply_from_json

VERSION = 1


def write_recording(
    prices: Mapping[str, object],
    exchanges: Iterable[tuple[str, Mapping[str, object], Mapping[str, object]]],
) -> str:
    """The recording's text, from (key, request, reply) of every call."""
    lines: list[Mapping[str, object]] = [{"recording": VERSION, "prices": prices}]
    lines += [{"key": key, "request": request, "reply": reply} for key, request, reply in exchanges]
    return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)


class Recording:
    """The `Transport` role: answers from a file and never reaches out."""

    def __init__(self, file: Path) -> None:
        """Read the file; `InputError` when it is not a recording."""
        self._file = file
        try:
            head, *lines = [json.loads(line) for line in file.read_text().splitlines()]
            if head["recording"] != VERSION:
                raise ValueError(f"version {head['recording']}")
            self.prices: Mapping[str, Any] = head["prices"]
            self._replies = {line["key"]: reply_from_json(line["reply"]) for line in lines}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file} is not a usable recording ({type(error).__name__}: {error}): name a file "
                "that `tilewright optimize --record` wrote."
            ) from error

    def submit(self, request: Request) -> Future[Reply]:
        """The recorded reply; the future raises `ModelError` when there is none."""
        future = Future[Reply]()
        reply = self._replies.get(request.key)
        if reply is not None:
            future.set_result(reply)
        else:
            future.set_exception(
                ModelError(
                    f"the recording {self._file} holds no reply to this {request.phase} call of "
                    f"{request.model}: replay it with the same workload, settings and version."
                )
            )
        return future

    def settled(self, key: str) -> None:
        """Nothing to forget."""

    def close(self) -> None:
        """Nothing to close."""
