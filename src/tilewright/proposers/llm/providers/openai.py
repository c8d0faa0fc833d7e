"""OpenAI and every endpoint that speaks its chat completions protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tilewright.proposers.llm.failures import TransientError
from tilewright.proposers.llm.messages import Reply, Request, Stop, Usage
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    joined,
    load_sdk,
    sdk_error,
)

OFFICIAL_URL = "https://api.openai.com/v1"
_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refused"}


class OpenAIProvider:
    """Chat completions, one sample per call. Prompts are cached by the service itself."""

    def __init__(self, model: Model, environment: Mapping[str, str] = os.environ) -> None:
        self._sdk = load_sdk("openai", model, "openai")
        self._model = model
        self._client = self._sdk.OpenAI(
            api_key=find_key(model, environment) or "none",
            base_url=model.base_url or OFFICIAL_URL,
            timeout=model.options.timeout_s,
            max_retries=0,
        )

    def complete(self, request: Request) -> Reply:
        """One attempt."""
        try:
            answer = self._client.chat.completions.create(
                extra_headers={"Idempotency-Key": request.key}, **self._arguments(request)
            )
        except (self._sdk.OpenAIError, ValueError) as error:
            raise sdk_error(self._sdk, error, self._model) from None
        choices = getattr(answer, "choices", None)
        if not choices or choices[0].message is None:
            raise TransientError("the answer holds no choices")
        choice = choices[0]
        text = choice.message.content or ""
        refusal = getattr(choice.message, "refusal", None)
        stop = "refused" if refusal else _STOPS.get(choice.finish_reason or "", "end")
        return Reply(text or refusal or "", stop, _usage(answer.usage), answer.model or "")

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


def _usage(usage: Any) -> Usage:
    """Tokens; endpoints leave out any of the fields."""
    if usage is None:
        return Usage()
    inputs = getattr(usage, "prompt_tokens_details", None)
    outputs = getattr(usage, "completion_tokens_details", None)
    return Usage(
        input=getattr(usage, "prompt_tokens", None),
        cached=getattr(inputs, "cached_tokens", None),
        output=getattr(usage, "completion_tokens", None),
        reasoning=getattr(outputs, "reasoning_tokens", None),
    )
