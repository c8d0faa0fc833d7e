"""Reads the replies of a proposal in turns: calls of tools in a block of JSON, or a kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import KernelLanguage
from tilewright.core.text import plain_text
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.replies import (
    ReplyFailed,
    fenced_blocks,
    read_code,
    unusable,
    without_thoughts,
)

MOST_CALLS = 8
"""Maximum number of calls of one reply that are carried out."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CALLS = re.compile(r'\s*+[\[{].*"tool"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as a model wrote it; `arguments` may be anything that JSON can say.

    They are None if those of a native call are not valid JSON.
    """

    tool: str
    arguments: object


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a reply, in order; `left_out` is the number of calls beyond the maximum."""

    calls: tuple[ToolCall, ...]
    left_out: int = 0


def read_turn(reply: Reply, language: KernelLanguage) -> Calls | str | ReplyFailed:
    """The calls in a reply, or if there are none, the kernel that it submits.

    Calls through the provider's protocol precede those in the text. Fenced blocks without calls are
    named A, B, C in their order, and arguments may use these names.
    """
    if reply.calls:
        return _native(reply)
    failure = unusable(reply)
    if failure is not None:
        return failure
    blocks, is_open = fenced_blocks(without_thoughts(reply.text))
    calling = [block for block in blocks if _CALLS.match(block)]
    if not calling:
        return read_code(reply, language)
    if is_open:
        return ReplyFailed("truncated", "the last fenced block does not end")
    others = [block for block in blocks if block not in calling]
    named = dict(zip(_LETTERS, others, strict=False))
    calls: list[ToolCall] = []
    for block in calling:
        read = _calls(block, named)
        if isinstance(read, ReplyFailed):
            return read
        calls += read
    return Calls(tuple(calls[:MOST_CALLS]), max(0, len(calls) - MOST_CALLS))


def _native(reply: Reply) -> Calls | ReplyFailed:
    """The calls through the provider's protocol, without those of a reply that was cut off."""
    if reply.stop == "refused":
        return ReplyFailed("refused", reply.text.strip()[:200])
    if reply.stop == "length":
        return ReplyFailed(
            "truncated",
            "none of the calls in it was carried out: make fewer or shorter calls in one answer",
        )
    blocks, _ = fenced_blocks(without_thoughts(reply.text))
    named = dict(zip(_LETTERS, blocks, strict=False))
    calls = []
    for call in reply.calls[:MOST_CALLS]:
        arguments = _json(call.arguments)
        if isinstance(arguments, dict):
            arguments = {key: _meant(value, named) for key, value in arguments.items()}
        calls.append(ToolCall(call.name, arguments))
    return Calls(tuple(calls), max(0, len(reply.calls) - MOST_CALLS))


def _json(text: str) -> object:
    """The value, or None if the text is not valid JSON."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def written_calls(reply: Reply) -> tuple[ToolCall, ...]:
    """The calls in a reply that can be parsed, without inserting the blocks."""
    if reply.calls:
        return tuple(ToolCall(call.name, _json(call.arguments)) for call in reply.calls)
    blocks, _ = fenced_blocks(without_thoughts(reply.text))
    calls: list[ToolCall] = []
    for block in blocks:
        read = _calls(block, {}) if _CALLS.match(block) else []
        calls += read if isinstance(read, list) else []
    return tuple(calls[:MOST_CALLS])


def _calls(block: str, named: Mapping[str, str]) -> list[ToolCall] | ReplyFailed:
    try:
        document = json.loads(block)
    except (ValueError, RecursionError) as error:
        reason = (
            plain_text(str(error))[:200] if isinstance(error, ValueError) else "nested too deep"
        )
        return ReplyFailed("bad_calls", f"the calls are not JSON: {reason}")
    entries = document if isinstance(document, list) else [document]
    calls = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("tool"), str):
            return ReplyFailed("bad_calls", 'a call is not an object with a text "tool"')
        arguments = {key: _meant(value, named) for key, value in entry.items() if key != "tool"}
        calls.append(ToolCall(entry["tool"], arguments))
    return calls


def _meant(value: object, named: Mapping[str, str]) -> object:
    """An argument in which names of blocks are replaced by the blocks."""
    if isinstance(value, str):
        return named.get(value.strip(), value)
    if isinstance(value, Sequence):
        return [_entry(item, named) for item in value[: MOST_CALLS + 1]]
    return value


def _entry(value: object, named: Mapping[str, str]) -> object:
    """An entry of a list, which is an object with a kernel or the name of a kernel."""
    if isinstance(value, str):
        return {"kernel": named.get(value.strip(), value)}
    if isinstance(value, dict):
        return {k: named.get(v.strip(), v) if isinstance(v, str) else v for k, v in value.items()}
    return value
