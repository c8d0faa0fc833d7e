"""Recorded calls in a file, from which another run can read replies without a key.

One JSON object per line: first the file's version and the price snapshot, then one call each.

A reply is identified by the content of its request, or otherwise by the position of the call in the
run: model, phase, turn and sample (derived from the seed, the iteration, the parent and the plan).
Therefore, a recording remains usable if prompts change, for example because of other cycle counts.
Prompts that differ are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path

from tilewright.core.errors import InputError
from tilewright.core.field_types import require_types
from tilewright.core.files import read_text
from tilewright.core.run_notes import Prices
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Reply, Request, reply_from_json, request_from_json

VERSION = 1
MAX_BYTES = 1 << 30
"""Maximum size of a recording, which suffices for thousands of calls with long prompts."""


def write_recording(
    prices: Prices | None,
    exchanges: Iterable[tuple[str, Mapping[str, object], Mapping[str, object]]],
) -> str:
    """The text of a recording, from the key, request and reply of every call."""
    head = asdict(prices) if prices else {}
    lines: list[Mapping[str, object]] = [{"recording": VERSION, "prices": head}]
    lines += [{"key": key, "request": request, "reply": reply} for key, request, reply in exchanges]
    return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)


class Recording:
    """A `Transport` that reads replies from a file and never calls a model."""

    def __init__(self, file: Path, strict: bool = False) -> None:
        """Read the file; `InputError` if it is not a recording. If `strict`, a prompt that differs
        from the recorded one is an `InputError` too.
        """
        self._file, self._strict = file, strict
        self._used: set[str] = set()
        self._differing: set[str] = set()
        try:
            text = read_text(file, MAX_BYTES)
            if not text.strip():
                raise ValueError("it is empty")
            head, *lines = [json.loads(line) for line in text.split("\n") if line]
            if head["recording"] != VERSION:
                raise ValueError(f"version {head['recording']}")
            self.prices = Prices(**head["prices"]) if head["prices"] else None
            if self.prices is not None:
                require_types(self.prices)
            self._replies = {line["key"]: reply_from_json(line["reply"]) for line in lines}
            self._places = {
                _place(request_from_json(line["request"])): self._replies[line["key"]]
                for line in lines
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            found = getattr(error, "strerror", None) or str(error)
            if isinstance(error, KeyError | TypeError | AttributeError):
                found = "its content does not have the form of a recording"
            raise InputError(
                f"{file} is not a usable recording ({found[:200]}). Give a file that `tilewright "
                "optimize --record` wrote."
            ) from error

    def require(self, names: Iterable[str]) -> None:
        """Raise `InputError` if the recording has no replies of a model."""
        recorded = self.prices.usd_per_mtok if self.prices is not None else {}
        for name in names:
            if recorded and name not in recorded:
                raise InputError(
                    f"{self._file} contains no replies of {name}, but of {', '.join(recorded)}. "
                    "Name one of these with --proposer."
                )

    def submit(self, request: Request) -> Future[Reply]:
        """A future of the recorded reply, which raises `ModelError` if there is none."""
        future = Future[Reply]()
        reply = self._replies.get(request.key)
        if reply is None and self._strict:
            raise InputError(
                f"the recording {self._file} contains no reply to exactly this {request.phase} "
                f"prompt of {request.model}. A reply to another prompt at the same position would "
                "make different arms the same, so record the run again with these settings."
            )
        if reply is None:
            reply = self._places.get(_place(request))
            self._differing.add(request.key)
        self._used.add(request.key)
        if reply is not None:
            future.set_result(reply)
        else:
            future.set_exception(
                ModelError(
                    f"the recording {self._file} contains no reply to this {request.phase} call of "
                    f"{request.model}: replay it with the workload, settings and compiler it was "
                    "made with, or record it anew if the kernels or how replies are read have "
                    "changed since."
                )
            )
        return future

    @property
    def calls(self) -> int:
        """The number of different calls."""
        return len(self._used)

    @property
    def differing(self) -> int:
        """The number of calls whose prompt differs from the recorded one."""
        return len(self._differing)

    @property
    def closed(self) -> bool:
        """Always false."""
        return False

    def settled(self, key: str) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def _place(request: Request) -> tuple[str, str, str, int]:
    return request.model, request.phase, request.sample, len(request.messages)
