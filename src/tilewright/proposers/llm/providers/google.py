"""Google's Gemini models."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tilewright.proposers.llm.failures import TransientError, redacted
from tilewright.proposers.llm.messages import (
    Message,
    NativeCall,
    OfferedTool,
    Reply,
    Request,
    Stop,
    ToolResult,
    Usage,
)
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    joined,
    load_sdk,
    results_of,
    secret_values,
    status_error,
)

_STOPS: Mapping[str, Stop] = {
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "PROHIBITED_CONTENT": "refused",
    "BLOCKLIST": "refused",
}


class GoogleProvider:
    """generateContent, one candidate per call. Prompts are cached by the service itself."""

    def __init__(self, model: Model, environment: Mapping[str, str] = os.environ) -> None:
        self._sdk = load_sdk("google.genai", model)
        self._errors = load_sdk("google.genai.errors", model)
        self._types = load_sdk("google.genai.types", model)
        self._model = model
        http = {"timeout": int(model.options.timeout_s * 1000), "base_url": model.base_url}
        self._client = self._sdk.Client(
            api_key=find_key(model, environment) or "none",
            vertexai=False,
            http_options={k: v for k, v in http.items() if v is not None},
        )

    def complete(self, request: Request) -> Reply:
        """Send the request once, without a retry."""
        try:
            answer = self._client.models.generate_content(
                model=self._model.target,
                contents=[
                    self._content(role, turn) for role, turn in alternating(request.messages)
                ],
                config=self._config(request),
            )
        except self._errors.APIError as error:
            text = redacted(str(error), secret_values())
            code = int(error.code or 500)
            raise status_error(self._model, code, text, None, bool(request.tools)) from None
        except (OSError, ValueError) as error:
            raise TransientError(redacted(str(error), secret_values())) from None
        except Exception as error:
            # The SDK does not convert the exceptions of its HTTP library, which can be one of
            # several.
            if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore"):
                raise TransientError(redacted(str(error), secret_values())) from None
            raise
        return _reply(answer)

    def _content(self, role: str, turn: list[Message]) -> Any:
        """One turn. A model's own turn is sent back unchanged, with its signatures. Otherwise, it
        consists of results or text.
        """
        if role == "assistant" and turn[-1].raw:
            return self._types.Content.model_validate_json(turn[-1].raw)
        parts: list[dict[str, Any]] = [_result(result) for result in results_of(turn)]
        text = joined(turn)
        if text or not parts:
            parts.append({"text": text})
        return {"role": "model" if role == "assistant" else role, "parts": parts}

    def _config(self, request: Request) -> dict[str, Any]:
        options = self._model.options
        config = {
            "temperature": options.temperature,
            "max_output_tokens": options.max_tokens,
            "thinking_config": (
                {"thinking_level": options.reasoning_effort} if options.reasoning_effort else None
            ),
            "response_mime_type": (
                "application/json" if request.as_json and options.json else None
            ),
            "tools": (
                [{"function_declarations": [_offered(tool) for tool in request.tools]}]
                if request.tools
                else None
            ),
        }
        return {name: value for name, value in config.items() if value is not None}


def _reply(answer: Any) -> Reply:
    candidates = answer.candidates or ()
    version = answer.model_version or ""
    usage = _usage(answer.usage_metadata)
    if not candidates:
        return Reply("", "refused", usage, version)
    reason = getattr(candidates[0].finish_reason, "name", "") or ""
    parts = getattr(candidates[0].content, "parts", None) or ()
    text = "".join(p.text for p in parts if p.text and not p.thought)
    calls = tuple(
        NativeCall(p.function_call.id or "", p.function_call.name or "", _arguments(p))
        for p in parts
        if p.function_call
    )
    raw = candidates[0].content.model_dump_json(exclude_none=True) if calls else ""
    stop = _STOPS.get(reason, "end")
    return Reply(text, stop, usage, version, calls=calls, raw=raw)


def _arguments(part: Any) -> str:
    return json.dumps(part.function_call.args or {})


def _offered(tool: OfferedTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.text,
        "parameters_json_schema": json.loads(tool.schema),
    }


def _result(result: ToolResult) -> dict[str, Any]:
    """The answer to a call. Only some versions of the protocol give ids to calls."""
    response = {"name": result.name, "response": {"output": result.text}}
    return {"function_response": {**response, "id": result.call} if result.call else response}


def _usage(usage: Any) -> Usage:
    """The tokens of a call. The protocol does not include thoughts in the visible output."""
    if usage is None:
        return Usage()
    visible, thoughts = usage.candidates_token_count, usage.thoughts_token_count
    return Usage(
        input=usage.prompt_token_count,
        cached=usage.cached_content_token_count,
        output=None if visible is None and thoughts is None else (visible or 0) + (thoughts or 0),
        reasoning=thoughts,
    )
