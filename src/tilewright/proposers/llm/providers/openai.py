"""OpenAI, and all endpoints with its chat completions protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tilewright.core.records import content_id
from tilewright.proposers.llm.failures import TransientError, redacted
from tilewright.proposers.llm.messages import (
    Message,
    NativeCall,
    OfferedTool,
    Reply,
    Request,
    Stop,
    Usage,
)
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    from_raw,
    joined,
    load_sdk,
    raw_json,
    results_of,
    sdk_error,
    secret_values,
)

OFFICIAL_URL = "https://api.openai.com/v1"
_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refused"}


class OpenAIProvider:
    """Chat completions, one sample per call. Prompts are cached by the service itself."""

    def __init__(self, model: Model, environment: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._sdk = load_sdk("openai", model)
        client = self._sdk.OpenAI(
            api_key=find_key(model, environment) or "none",
            base_url=model.base_url or OFFICIAL_URL,
            timeout=model.options.timeout_s,
            max_retries=0,
        )
        # Raw, because some endpoints leave out fields that the SDK's own records require.
        self._create = client.chat.completions.with_raw_response.create

    def complete(self, request: Request) -> Reply:
        """Send the request once, without a retry."""
        try:
            answer = self._create(
                extra_headers={"Idempotency-Key": request.key}, **self._arguments(request)
            )
            return _reply(answer.text)
        except (self._sdk.OpenAIError, ValueError) as error:
            raise sdk_error(self._sdk, error, self._model, request) from None

    def _arguments(self, request: Request) -> dict[str, Any]:
        options = self._model.options
        # Endpoints other than OpenAI's own support only the older name of the limit.
        limit = "max_tokens" if self._model.base_url else "max_completion_tokens"
        optional = {
            "temperature": options.temperature,
            "reasoning_effort": options.reasoning_effort,
            limit: options.max_tokens,
            "response_format": (
                {"type": "json_object"} if request.as_json and options.json else None
            ),
            "tools": [_offered(tool) for tool in request.tools] or None,
            # Requests with the same beginning are sent to a server that has it in its cache.
            "prompt_cache_key": None if self._model.base_url else _beginning(request),
        }
        return {
            "model": self._model.target,
            "messages": [
                message
                for role, turn in alternating(request.messages)
                for message in _messages(role, turn)
            ],
            **{name: value for name, value in optional.items() if value is not None},
        }


def _reply(text_of_answer: str) -> Reply:
    """The reply in a successful answer; `TransientError` if it contains no valid reply."""
    try:
        document = json.loads(text_of_answer)
        choice = document["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content") or "", message.get("refusal") or ""
        if not isinstance(text, str):
            raise TypeError(f"content is a {type(text).__name__}")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        reason = redacted(f"{type(error).__name__}: {error}", secret_values())
        raise TransientError(f"unreadable answer ({reason})") from None
    stop = "refused" if refusal else _STOPS.get(choice.get("finish_reason") or "", "end")
    calls = _calls(message)
    return Reply(
        text or str(refusal),
        stop,
        _usage(document),
        str(document.get("model") or ""),
        calls=calls,
        raw=raw_json(_sent_back(message)) if calls else "",
    )


def _offered(tool: OfferedTool) -> dict[str, Any]:
    schema = json.loads(tool.schema)
    function = {"name": tool.name, "description": tool.text, "parameters": schema}
    return {"type": "function", "function": function}


def _beginning(request: Request) -> str | None:
    stable = [message.text for message in request.messages if message.stable]
    return content_id(stable[0]) if stable else None


def _messages(role: str, turn: list[Message]) -> list[dict[str, Any]]:
    """The messages of one turn. A model's own turn is sent back unchanged, and each answer to a
    call is a separate message.
    """
    if role == "assistant" and turn[-1].raw:
        return [from_raw(turn[-1].raw)]
    answers: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": result.call, "content": result.text}
        for result in results_of(turn)
    ]
    text = joined(turn)
    return [*answers, {"role": role, "content": text}] if text or not answers else answers


def _calls(message: Mapping[str, Any]) -> tuple[NativeCall, ...]:
    """The calls in a message; `TransientError` if they do not conform to the protocol."""
    calls = []
    for call in message.get("tool_calls") or ():
        try:
            function = call["function"]
            arguments = function.get("arguments") or "{}"
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(NativeCall(str(call["id"]), str(function["name"]), written))
        except (KeyError, TypeError, AttributeError) as error:
            raise TransientError(f"unreadable call of a tool ({type(error).__name__})") from None
    return tuple(calls)


def _sent_back(message: Mapping[str, Any]) -> dict[str, Any]:
    """A model's message in the form in which endpoints accept it: without empty fields, and without
    arguments that are not JSON objects, which cause errors in the templates of open models.
    """
    kept = {name: value for name, value in message.items() if value not in (None, [], {})}
    kept["role"] = "assistant"
    kept.setdefault("content", None)
    for call in kept["tool_calls"]:
        try:
            readable = isinstance(json.loads(call["function"].get("arguments") or ""), dict)
        except (ValueError, TypeError, RecursionError):
            readable = False
        if not readable:
            call["function"] = {**call["function"], "arguments": "{}"}
    return kept


def _usage(document: Mapping[str, Any]) -> Usage:
    """The tokens of a call. Endpoints may leave out any of the fields."""
    usage = _fields(document, "usage")
    return Usage(
        input=_count(usage, "prompt_tokens"),
        cached=_count(_fields(usage, "prompt_tokens_details"), "cached_tokens"),
        output=_count(usage, "completion_tokens"),
        reasoning=_count(_fields(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


def _fields(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _count(document: Mapping[str, Any], name: str) -> int | None:
    found = document.get(name)
    return found if isinstance(found, int) else None
