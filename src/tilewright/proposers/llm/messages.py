"""What is asked of a model and what comes back, independent of any provider.

All are frozen, and requests and replies travel as JSON: to the call log, to recordings and to the
process that carries calls out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from tilewright.core.records import content_id
from tilewright.core.text import plain_text
from tilewright.core.typed import require_types

Role = Literal["user", "assistant"]
Phase = str
"""What a call is for: "plan", "implement", "repair", "probe", or "turn 3" of a proposal."""
Stop = Literal["end", "length", "refused"]
_OTHER_FORM = (LookupError, TypeError, ValueError, AttributeError)

MAX_REPLY_CHARACTERS = 1 << 20
"""Of a reply; far over any kernel, and over what models write in one answer."""
MAX_RAW_CHARACTERS = 4 << 20
"""Of a reply as its provider gave it, in JSON."""
MAX_TOKENS = (1 << 31) - 1
"""Of one call; what a database's whole numbers hold, and far over any model's context."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a model may call by its provider's protocol; `schema` is JSON Schema as text."""

    name: str
    text: str
    schema: str


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One call by the provider's protocol; `arguments` is JSON as the model wrote it, or is not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a native call is answered; `call` and `name` are those of the call."""

    call: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `stable` marks text that many requests share: providers cache up to there.

    `raw` is a model's turn as its provider gave it, in JSON: it goes back unchanged, with its
    reasoning and signatures. `results` answer the calls of the turn before.
    """

    role: Role
    text: str
    stable: bool = False
    results: tuple[ToolResult, ...] = ()
    raw: str = ""

    @property
    def characters(self) -> int:
        """Length of all that is sent of it."""
        said = len(self.raw) or len(self.text)
        return said + sum(len(result.text) for result in self.results)


@dataclass(frozen=True, slots=True)
class Request:
    """One call to one model. Equal requests with different `sample`s are different calls.

    `model` is the model's full name as the user gave it, options included. `as_json` asks for a
    JSON object where the provider offers that. `tools` may be called by the provider's protocol.
    """

    model: str
    phase: Phase
    messages: tuple[Message, ...]
    sample: str = "0"
    as_json: bool = False
    tools: tuple[OfferedTool, ...] = ()

    @property
    def key(self) -> str:
        """Content hash by which a call is recorded, cached and replayed."""
        return _key(self)

    @property
    def characters(self) -> int:
        """Length of all messages, and of what is said of the tools."""
        tools = sum(len(tool.name) + len(tool.text) + len(tool.schema) for tool in self.tools)
        return sum(m.characters for m in self.messages) + tools


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; None where the provider does not say, or says what cannot be a count.

    `input` counts the whole prompt, of which `cached` were read from and `cache_written` written
    to the provider's cache; `output` counts everything generated, `reasoning` included.
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
        """Whether the provider said how much was used."""
        return self.input is not None and self.output is not None

    @property
    def total(self) -> int:
        """Input and output tokens that are known."""
        return (self.input or 0) + (self.output or 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(_sum(a, b) for a, b in zip(_counts(self), _counts(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. `served_by` is the model's name as the provider reports it.

    `attempts` counts the tries it took; earlier ones that timed out may have been paid for.
    Wherever a reply comes from (a provider, the database, a recording), it holds plain text of
    at most `MAX_REPLY_CHARACTERS`: what is longer is cut off. `calls` were made by the provider's
    protocol, `raw` is all of it as the provider gave it; one that is far too long has neither.
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


@lru_cache(maxsize=256)  # asked for several times while a call is made, of long prompts
def _key(request: Request) -> str:
    return content_id(json.dumps(request_to_json(request), sort_keys=True))


def _counts(usage: Usage) -> tuple[int | None, ...]:
    return usage.input, usage.cached, usage.cache_written, usage.output, usage.reasoning


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


def request_to_json(request: Request) -> dict[str, Any]:
    """Plain JSON value of a request.

    What belongs to native calls is left out where there are none: requests in plain text keep
    their keys, by which earlier runs and recordings know them.
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
        raise ValueError(f"no request to a model ({str(error)[:200]})") from error
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
        raise ValueError(f"no reply of a model ({str(error)[:200]})") from error
    return reply


def _encodable(text: str) -> str:
    """Halves of character pairs, which models do write in calls, become question marks."""
    return text.encode(errors="replace").decode()


def _filled(value: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if part or name not in optional}
