"""OpenAI and every endpoint that speaks its chat completions protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tilewright.proposers.llm.failures import TransientError, redacted
from tilewright.proposers.llm.messages import Reply, Request, Stop, Usage
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    joined,
    load_sdk,
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
        # Raw: endpoints leave out fields that the SDK's own records insist on.
        self._create = client.chat.completions.with_raw_response.create

    def complete(self, request: Request) -> Reply:
        """One attempt."""
        try:
            answer = self._create(
                extra_headers={"Idempotency-Key": request.key}, **self._arguments(request)
            )
            return _reply(answer.text)
        except (self._sdk.OpenAIError, ValueError) as error:
            raise sdk_error(self._sdk, error, self._model) from None

    def _arguments(self, request: Request) -> dict[str, Any]:
        options = self._model.options
        # Endpoints other than OpenAI's own know only the older name of the limit.
        limit = "max_tokens" if self._model.base_url else "max_completion_tokens"
        optional = {
            "temperature": options.temperature,
            "reasoning_effort": options.reasoning_effort,
            limit: options.max_tokens,
            "response_format": (
                {"type": "json_object"} if request.as_json and options.json else None
            ),
        }
        return {
            "model": self._model.target,
            "messages": [
                {"role": role, "content": joined(turn)}
                for role, turn in alternating(request.messages)
            ],
            **{name: value for name, value in optional.items() if value is not None},
        }


def _reply(text_of_answer: str) -> Reply:
    """The reply in a successful answer; `TransientError` where there is none to be read."""
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
    return Reply(text or str(refusal), stop, _usage(document), str(document.get("model") or ""))


def _usage(document: Mapping[str, Any]) -> Usage:
    """Tokens; endpoints leave out any of the fields."""
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
