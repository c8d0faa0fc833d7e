"""Anthropic's messages protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tilewright.proposers.llm.failures import TransientError
from tilewright.proposers.llm.messages import Message, NativeCall, Reply, Request, Stop, Usage
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    from_raw,
    load_sdk,
    raw_json,
    sdk_error,
)

OFFICIAL_URL = "https://api.anthropic.com"
_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class AnthropicProvider:
    """One sample per call; the stable part of a prompt is marked for the provider's cache."""

    def __init__(self, model: Model, environment: Mapping[str, str] = os.environ) -> None:
        self._sdk = load_sdk("anthropic", model)
        self._model = model
        self._client = self._sdk.Anthropic(
            api_key=find_key(model, environment) or "none",
            base_url=model.base_url or OFFICIAL_URL,
            timeout=model.options.timeout_s,
            max_retries=0,
        )

    def complete(self, request: Request) -> Reply:
        """Send the request once, without a retry."""
        try:
            answer = self._client.messages.create(
                extra_headers={"Idempotency-Key": request.key}, **self._arguments(request)
            )
        except (self._sdk.AnthropicError, ValueError) as error:
            raise sdk_error(self._sdk, error, self._model, request) from None
        if not hasattr(answer, "content"):
            raise TransientError("the answer has no content")
        text = "".join(b.text for b in answer.content or () if b.type == "text")
        stop = _STOPS.get(answer.stop_reason or "", "end")
        calls = tuple(
            NativeCall(b.id, b.name, json.dumps(b.input))
            for b in answer.content or ()
            if b.type == "tool_use"
        )
        raw = raw_json([b.to_dict(mode="json") for b in answer.content]) if calls else ""
        return Reply(text, stop, _usage(answer.usage), answer.model or "", calls=calls, raw=raw)

    def _arguments(self, request: Request) -> dict[str, Any]:
        options = self._model.options
        arguments: dict[str, Any] = {
            "model": self._model.target,
            "max_tokens": self._model.reply_tokens,
            "messages": [
                {"role": role, "content": [block for m in turn for block in _blocks(m)]}
                for role, turn in alternating(request.messages)
            ],
        }
        if request.tools:
            arguments["tools"] = [
                {"name": t.name, "description": t.text, "input_schema": json.loads(t.schema)}
                for t in request.tools
            ]
        if options.reasoning_effort is not None:
            arguments["output_config"] = {"effort": options.reasoning_effort}
        if options.temperature is not None:
            # Not an argument of the SDK: newer models reject it, older ones still accept it.
            arguments["extra_body"] = {"temperature": options.temperature}
        return arguments


def _blocks(message: Message) -> list[dict[str, Any]]:
    """The content of a turn. A model's own turn is sent back unchanged. Otherwise, it consists of
    results and text, of which the last block is marked if the turn is stable.
    """
    if message.raw:
        own: list[dict[str, Any]] = from_raw(message.raw)
        return own
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": result.call, "content": result.text}
        for result in message.results
    ]
    if message.text or not blocks:
        blocks.append({"type": "text", "text": message.text})
    if message.stable:
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return blocks


def _usage(usage: Any) -> Usage:
    """The tokens of a call. The protocol does not include tokens from the cache in the input."""
    fresh = getattr(usage, "input_tokens", None)
    if fresh is None:
        return Usage(output=getattr(usage, "output_tokens", None))
    cached = getattr(usage, "cache_read_input_tokens", None) or 0
    written = getattr(usage, "cache_creation_input_tokens", None) or 0
    details = getattr(usage, "output_tokens_details", None)
    return Usage(
        input=fresh + cached + written,
        cached=cached,
        cache_written=written,
        output=usage.output_tokens,
        reasoning=getattr(details, "thinking_tokens", None),
    )
