"""Requests and answers of the local model server in the protocols of OpenAI, Anthropic, Google and
Bedrock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]
"""A tool's name and arguments."""
THOUGHT, SIGNATURE = "a thought of its own", "c2lnbmVk"
"""The text before calls of tools in every protocol with reasoning."""


@dataclass(frozen=True)
class ScriptedReply:
    """The answer of a function that calls tools through the provider's protocol."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Behaviour:
    """One HTTP answer. `kind` names the fault that is simulated, or is "ok". `calls` are tool
    calls."""

    kind: str = "ok"
    text: str = "hello"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish: str = "stop"
    usage: bool = True
    model: str = ""
    delay_s: float = 0.0
    calls: tuple[Call, ...] = ()


def prompt_of(body: dict[str, Any]) -> str:
    """All messages of a request as one text, including the results of tools."""
    parts: list[str] = []
    for message in body.get("messages") or body["contents"]:
        content = message.get("content") or message.get("parts") or []
        blocks = [{"text": content}] if isinstance(content, str) else content
        for block in blocks:
            parts += _texts(block)
    return "\n\n".join(parts)


def _texts(block: dict[str, Any]) -> list[str]:
    """The text of one content block in any protocol."""
    if "toolResult" in block:
        return [part["text"] for part in block["toolResult"]["content"]]
    if "functionResponse" in block:
        return [block["functionResponse"]["response"]["output"]]
    text = block.get("text") or block.get("content") or ""
    return [text] if isinstance(text, str) and text else []


def protocol(path: str) -> Callable[[Behaviour, dict[str, Any], str], dict[str, Any]]:
    """The function that writes an answer in the protocol of the address with this path."""
    if path.endswith("/messages"):
        return _anthropic
    if path.endswith(":generateContent"):
        return _google
    return _bedrock if path.endswith("/converse") else _openai


def _openai(behaviour: Behaviour, body: dict[str, Any], text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if behaviour.kind == "refusal":
        message = {"role": "assistant", "content": None, "refusal": text}
    document: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": behaviour.model or body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": behaviour.finish}],
    }
    if behaviour.calls:
        message["reasoning_content"] = THOUGHT
        message["tool_calls"] = [
            {
                "id": f"call-{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(behaviour.calls)
        ]
    if behaviour.kind == "bad_arguments":
        message["tool_calls"][0]["function"]["arguments"] = '{"kernel": '
    if behaviour.kind == "empty":
        document["choices"] = [
            {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
        ]
    if behaviour.usage:
        document["usage"] = {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "total_tokens": 1100,
            "prompt_tokens_details": {"cached_tokens": 400},
            "completion_tokens_details": {"reasoning_tokens": 30},
        }
    return document


def _anthropic(behaviour: Behaviour, body: dict[str, Any], text: str) -> dict[str, Any]:
    stops = {"stop": "end_turn", "length": "max_tokens"}
    document: dict[str, Any] = {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": behaviour.model or body["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": stops.get(behaviour.finish, behaviour.finish),
        "stop_sequence": None,
    }
    if behaviour.calls:
        thinking = {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}
        uses = [
            {"type": "tool_use", "id": f"call-{number}", "name": name, "input": arguments}
            for number, (name, arguments) in enumerate(behaviour.calls)
        ]
        document["content"] = [thinking, *document["content"], *uses]
    if behaviour.kind == "empty":
        document["content"] = []
    if behaviour.kind == "refusal":
        document["stop_reason"] = "refusal"
    if behaviour.usage:
        document["usage"] = {
            "input_tokens": 500,
            "cache_read_input_tokens": 400,
            "cache_creation_input_tokens": 100,
            "output_tokens": 100,
        }
    return document


def _google(behaviour: Behaviour, body: dict[str, Any], text: str) -> dict[str, Any]:
    reasons = {"stop": "STOP", "length": "MAX_TOKENS"}
    thought, answer = {"text": "hm", "thought": True}, {"text": text}
    uses = [
        {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": SIGNATURE}
        for name, arguments in behaviour.calls
    ]
    document: dict[str, Any] = {
        "candidates": [
            {
                "content": {"role": "model", "parts": [thought, answer, *uses]},
                "finishReason": reasons.get(behaviour.finish, behaviour.finish),
            }
        ],
        "modelVersion": behaviour.model or "m-1",
    }
    if behaviour.kind == "refusal":
        document["candidates"] = []
    if behaviour.usage:
        document["usageMetadata"] = {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 400,
            "candidatesTokenCount": 70,
            "thoughtsTokenCount": 30,
        }
    return document


def _bedrock(behaviour: Behaviour, body: dict[str, Any], text: str) -> dict[str, Any]:
    stops = {"stop": "end_turn", "length": "max_tokens"}
    blocks: list[dict[str, Any]] = [{"text": text}]
    if behaviour.calls:
        thinking = {"text": THOUGHT, "signature": SIGNATURE}
        hidden = {"redactedContent": SIGNATURE}  # bytes are sent in base64
        uses = [
            {"toolUse": {"toolUseId": f"call-{number}", "name": name, "input": arguments}}
            for number, (name, arguments) in enumerate(behaviour.calls)
        ]
        reasoning: list[dict[str, Any]] = [
            {"reasoningContent": {"reasoningText": thinking}},
            {"reasoningContent": hidden},
        ]
        blocks = [*reasoning, *blocks, *uses]
    document: dict[str, Any] = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": stops.get(behaviour.finish, behaviour.finish),
        "metrics": {"latencyMs": 1},
    }
    if behaviour.kind == "refusal":
        document["stopReason"] = "guardrail_intervened"
    if behaviour.usage:
        document["usage"] = {
            "inputTokens": 500,
            "outputTokens": 100,
            "totalTokens": 600,
            "cacheReadInputTokens": 400,
            "cacheWriteInputTokens": 100,
        }
    return document
