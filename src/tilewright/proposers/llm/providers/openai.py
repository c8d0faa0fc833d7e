"""OpenAI and every endpoint that speaks its chat completions protocol.

Spoken over plain HTTP: the service's SDK takes longer to import than everything else here together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx2

from tilewright.proposers.llm.failures import TransientError, redacted
from tilewright.proposers.llm.messages import Reply, Request, Stop, Usage
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import (
    alternating,
    find_key,
    joined,
    secret_values,
    status_error,
)

OFFICIAL_URL = "https://api.openai.com/v1"
_STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "refused"}


class OpenAIProvider:
    """Chat completions, one sample per call. Prompts are cached by the service itself."""

    def __init__(self, model: Model, environment: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._url = f"{(model.base_url or OFFICIAL_URL).rstrip('/')}/chat/completions"
        key = find_key(model, environment)
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=model.options.timeout_s,
        )

    def complete(self, request: Request) -> Reply:
        """One attempt."""
        try:
            answer = self._client.post(
                self._url,
                json=self._arguments(request),
                headers={"Idempotency-Key": request.key},
            )
        except httpx2.TimeoutException:
            raise TransientError(f"no answer within {self._model.options.timeout_s:g} s") from None
        except httpx2.HTTPError as error:
            cause = redacted(str(error) or type(error).__name__, secret_values())
            raise TransientError(f"connection failed: {cause}") from None
        if not answer.is_success:
            text = redacted(answer.text, secret_values())
            retry_after = answer.headers.get("retry-after")
            raise status_error(self._model, answer.status_code, text, retry_after)
        return _reply(answer)

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


def _reply(answer: httpx2.Response) -> Reply:
    """The reply in a successful answer; `TransientError` where there is none to be read."""
    try:
        document = answer.json()
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
