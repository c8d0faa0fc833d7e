"""Requests to models and their replies, independent of any provider.

All records are frozen. Requests and replies are converted to JSON for the database, for recordings
and for the process that makes the calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from tilewright.core.field_types import require_types
from tilewright.core.records import content_id
from tilewright.core.text import plain_text

Role = Literal["user", "assistant"]
Phase = str
"""The purpose of a call: "plan", "implement", "repair", "probe", or "turn 3" of a proposal."""
Stop = Literal["end", "length", "refused"]
_OTHER_FORM = (LookupError, TypeError, ValueError, AttributeError)

MAX_REPLY_CHARACTERS = 1 << 20
"""Maximum number of characters of a reply, which is more than any kernel and any reply of a model
has.
"""
MAX_RAW_CHARACTERS = 4 << 20
"""Maximum number of characters of a provider's original reply in JSON."""
MAX_TOKENS = (1 << 31) - 1
"""Maximum number of tokens of one call, which a database can represent and which is more than the
context of any model.
"""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a model may call through its provider's protocol; `schema` is JSON Schema as
    text.
    """

    name: str
    text: str
    schema: str


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One call through the provider's protocol; `arguments` is the text of the model, which should
    be JSON.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a native call; `call` and `name` are those of the call."""

    call: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `stable` marks text that many requests have in common, up to which providers can
    cache the prompt.

    `raw` is a model's turn in the form of its provider, as JSON, which is sent back unchanged with
    its reasoning and signatures. `results` are the answers to the calls of the previous turn.
    """

    role: Role
    text: str
    stable: bool = False
    results: tuple[ToolResult, ...] = ()
    raw: str = ""

    @property
    def characters(self) -> int:
        """The number of characters that are sent."""
        said = len(self.raw) or len(self.text)
        return said + sum(len(result.text) for result in self.results)


@dataclass(frozen=True, slots=True)
class Request:
    """One call to one model. Equal requests with different `sample`s are different calls.

    `model` is the model's full name with options, as the user gave it. `as_json` requests a JSON
    object if the provider supports this. `tools` can be called through the provider's protocol.
    """

    model: str
    phase: Phase
    messages: tuple[Message, ...]
    sample: str = "0"
    as_json: bool = False
    tools: tuple[OfferedTool, ...] = ()

    @property
    def key(self) -> str:
        """The hash under which a call is recorded, cached and replayed."""
        return _key(self)

    @property
    def characters(self) -> int:
        """The number of characters of all messages and of the descriptions of the tools."""
        tools = sum(len(tool.name) + len(tool.text) + len(tool.schema) for tool in self.tools)
        return sum(m.characters for m in self.messages) + tools


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call; None if the provider reports none, or reports a value that cannot be
    a count.

    `input` is the number of tokens of the whole prompt, of which `cached` were read from the
    provider's cache and `cache_written` were written to it. `output` is the number of generated
    tokens, including `reasoning`.
    """

    input: int | None = None
    cached: int | None = None
    cache_written: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            count = getattr(self, field.name)
            if type(count) is not int or not 0 <= count <= MAX_TOKENS:
                object.__setattr__(self, field.name, None)

    @property
    def known(self) -> bool:
        """Whether the provider reported the tokens."""
        return self.input is not None and self.output is not None

    @property
    def total(self) -> int:
        """The sum of the known input and output tokens."""
        return (self.input or 0) + (self.output or 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(_sum(a, b) for a, b in zip(_counts(self), _counts(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model. `served_by` is the model's name as the provider reports it.

    `attempts` is the number of attempts; earlier attempts that timed out may have been billed. The
    text of a reply contains no control characters and is cut off after `MAX_REPLY_CHARACTERS`,
    whether it comes from a provider, the database or a recording. `calls` were made through the
    provider's protocol, and `raw` is the reply in the provider's form. A reply that is much too
    long has neither.
    """

    text: str
    stop: Stop = "end"
    usage: Usage = Usage()
    served_by: str = ""
    attempts: int = 1
    calls: tuple[NativeCall, ...] = ()
    raw: str = ""

    def __post_init__(self) -> None:
        if len(self.raw) + sum(len(call.arguments) for call in self.calls) > MAX_RAW_CHARACTERS:
            object.__setattr__(self, "calls", ())
            object.__setattr__(self, "raw", "")
            object.__setattr__(self, "stop", "length")
        text = plain_text(self.text[:MAX_REPLY_CHARACTERS])
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "served_by", plain_text(self.served_by[:200]))


@lru_cache(maxsize=256)  # requested several times during a call, for long prompts
def _key(request: Request) -> str:
    return content_id(json.dumps(request_to_json(request), sort_keys=True))


def _counts(usage: Usage) -> tuple[int | None, ...]:
    return usage.input, usage.cached, usage.cache_written, usage.output, usage.reasoning


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


def request_to_json(request: Request) -> dict[str, Any]:
    """Plain JSON value of a request.

    Fields of native calls are left out if there are none, so that requests in plain text have the
    same keys as in earlier runs and recordings.
    """
    value = _filled(asdict(request), "tools")
    value["messages"] = tuple(_filled(m, "results", "raw") for m in value["messages"])
    return value


def request_from_json(value: Mapping[str, Any]) -> Request:
    """Inverse of `request_to_json`; `ValueError` for anything else."""
    try:
        messages = tuple(
            Message(**{**m, "results": tuple(ToolResult(**r) for r in m.get("results", ()))})
            for m in value["messages"]
        )
        tools = tuple(OfferedTool(**tool) for tool in value.get("tools", ()))
        request = Request(**{**value, "messages": messages, "tools": tools})
        for record in (request, *messages, *tools, *(r for m in messages for r in m.results)):
            require_types(record)
    except _OTHER_FORM as error:
        raise ValueError(f"not a request to a model ({str(error)[:200]})") from error
    return request


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """Plain JSON value of a reply."""
    return _filled(asdict(reply), "calls", "raw")


def reply_from_json(value: Mapping[str, Any]) -> Reply:
    """Inverse of `reply_to_json`; `ValueError` for anything else."""
    try:
        calls = tuple(
            NativeCall(**{name: _encodable(text) for name, text in call.items()})
            for call in value.get("calls", ())
        )
        raw = _encodable(value.get("raw", ""))
        usage = Usage(**value["usage"])
        reply = Reply(**{**value, "usage": usage, "calls": calls, "raw": raw})
        for record in (reply, *reply.calls):
            require_types(record)
    except _OTHER_FORM as error:
        raise ValueError(f"not a reply of a model ({str(error)[:200]})") from error
    return reply


def _encodable(text: str) -> str:
    """Halves of character pairs, which models do write in calls, become question marks."""
    return text.encode(errors="replace").decode()


def _filled(value: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if part or name not in optional}
