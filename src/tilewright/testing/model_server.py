"""A local HTTP server that implements the protocols of OpenAI, Anthropic, Google and Bedrock.

It is used in tests of proposers and providers. Its answers are a list of behaviours, one per
request; the last one is used for all further requests. The text of an answer can be computed from
the prompt and the call's key, which is the same for equal calls.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


Answer = Callable[[str, str], str | ScriptedReply]


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


class ModelServer:
    """A server that runs during its `with` block.

    `requests` and `headers` contain what was received. `most_concurrent` is the largest number of
    simultaneous calls. With port 0, the system chooses a free port.
    """

    def __init__(self, *script: Behaviour, answer: Answer | None = None, port: int = 0) -> None:
        self.script = list(script) or [Behaviour()]
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.concurrent = self.most_concurrent = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Base URL for the OpenAI protocol."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def root(self) -> str:
        """Base URL for the Anthropic protocol, whose SDK adds `/v1` itself."""
        return self.url.removesuffix("/v1")

    def begin(self, body: dict[str, Any], headers: dict[str, str]) -> Behaviour:
        """Record the start of a request, and return the behaviour that answers it."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append(headers)
            self.concurrent += 1
            self.most_concurrent = max(self.most_concurrent, self.concurrent)
        return self.script[min(number, len(self.script) - 1)]

    def end(self) -> None:
        """Record the end of a request."""
        with self._lock:
            self.concurrent -= 1


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


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            behaviour = server.begin(body, {k.lower(): v for k, v in self.headers.items()})
            try:
                time.sleep(behaviour.delay_s)
                self._answer(behaviour, body, self.headers.get("idempotency-key", ""))
            finally:
                server.end()

        def do_GET(self) -> None:
            self._send(404, b"{}", {})

        def _answer(self, behaviour: Behaviour, body: dict[str, Any], key: str) -> None:
            if behaviour.kind == "drop":
                self.close_connection = True
                return
            if behaviour.status != 200:
                error = {
                    "message": behaviour.text,  # where Bedrock puts the text
                    "error": {"message": behaviour.text, "code": behaviour.kind},
                }
                self._send(behaviour.status, json.dumps(error).encode(), behaviour.headers)
                return
            text = behaviour.text
            if server.answer is not None:
                said = server.answer(prompt_of(body), key)
                said = ScriptedReply(said) if isinstance(said, str) else said
                text, behaviour = said.text, replace(behaviour, calls=said.calls)
            document = _protocol(self.path)(behaviour, body, text)
            data = json.dumps(document).encode()
            if behaviour.kind == "malformed":
                data = data[: len(data) // 2]
            self._send(200, data, behaviour.headers, truncate=behaviour.kind == "truncate")

        def _send(
            self, status: int, data: bytes, headers: dict[str, str], truncate: bool = False
        ) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if truncate else data)
            if truncate:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _protocol(path: str) -> Callable[[Behaviour, dict[str, Any], str], dict[str, Any]]:
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
