"""AWS Bedrock's converse protocol; boto3 finds region and credentials its usual way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import ConfigurationError
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
    from_raw,
    load_sdk,
    raw_json,
    secret_values,
    status_error,
)

_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
}


class BedrockProvider:
    """One sample per call; the stable part of a prompt is marked where the model caches."""

    def __init__(self, model: Model) -> None:
        boto3 = load_sdk("boto3", model)
        config = load_sdk("botocore.config", model)
        self._errors = load_sdk("botocore.exceptions", model)
        self._model = model
        require_region(model)
        self._client = boto3.client(
            "bedrock-runtime",
            endpoint_url=model.base_url,
            config=config.Config(
                read_timeout=model.options.timeout_s,
                retries={"max_attempts": 0},
                max_pool_connections=model.options.concurrency,
            ),
        )

    def complete(self, request: Request) -> Reply:
        """Send the request once, without a retry."""
        try:
            answer = self._client.converse(**self._arguments(request))
        except self._errors.NoCredentialsError:
            raise ConfigurationError(
                f"model {self._model.name} has no AWS credentials: configure them for boto3."
            ) from None
        except self._errors.ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            text = redacted(str(error), secret_values())
            with_tools = bool(request.tools)
            raise status_error(self._model, status, text, None, with_tools) from None
        except (self._errors.BotoCoreError, ValueError) as error:
            raise TransientError(redacted(str(error), secret_values())) from None
        blocks = answer.get("output", {}).get("message", {}).get("content", [])
        text = "".join(b.get("text", "") for b in blocks)
        stop = _STOPS.get(answer.get("stopReason", ""), "end")
        used = [block["toolUse"] for block in blocks if "toolUse" in block]
        calls = tuple(
            NativeCall(use["toolUseId"], use["name"], json.dumps(use.get("input") or {}))
            for use in used
        )
        raw = raw_json(blocks) if calls else ""
        usage = _usage(answer.get("usage", {}))
        return Reply(text, stop, usage, self._model.target, calls=calls, raw=raw)

    def _arguments(self, request: Request) -> dict[str, Any]:
        options = self._model.options
        limits = {"temperature": options.temperature, "maxTokens": options.max_tokens}
        arguments: dict[str, Any] = {
            "modelId": self._model.target,
            "messages": [
                {"role": role, "content": [b for m in turn for b in self._blocks(m)]}
                for role, turn in alternating(request.messages)
            ],
            "inferenceConfig": {k: v for k, v in limits.items() if v is not None},
        }
        if request.tools:
            arguments["toolConfig"] = {"tools": [_offered(tool) for tool in request.tools]}
        if options.reasoning_effort is not None:
            arguments["additionalModelRequestFields"] = {
                "reasoning_effort": options.reasoning_effort
            }
        return arguments

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        if message.raw:
            own: list[dict[str, Any]] = from_raw(message.raw)
            return own
        blocks: list[dict[str, Any]] = [
            {"toolResult": {"toolUseId": result.call, "content": [{"text": result.text}]}}
            for result in message.results
        ]
        if message.text or not blocks:
            blocks.append({"text": message.text})
        if message.stable and "anthropic." in self._model.target:
            blocks.append({"cachePoint": {"type": "default"}})
        return blocks


def _offered(tool: OfferedTool) -> dict[str, Any]:
    schema = {"json": json.loads(tool.schema)}
    return {"toolSpec": {"name": tool.name, "description": tool.text, "inputSchema": schema}}


def require_region(model: Model) -> None:
    """Raise `ConfigurationError` unless the AWS configuration names a region. Uses no network."""
    sessions = load_sdk("botocore.session", model)
    errors = load_sdk("botocore.exceptions", model)
    try:
        region = sessions.Session().get_config_variable("region")
    except errors.BotoCoreError as error:
        raise ConfigurationError(
            f"model {model.name} cannot be reached with this AWS configuration ({error}). Correct "
            "it."
        ) from None
    if not region:
        raise ConfigurationError(
            f"model {model.name} needs an AWS region. Set AWS_DEFAULT_REGION or configure boto3."
        )


def _usage(usage: Mapping[str, int]) -> Usage:
    """The tokens of a call. The protocol does not include tokens from the cache in the input."""
    if "inputTokens" not in usage:
        return Usage()
    cached, written = usage.get("cacheReadInputTokens", 0), usage.get("cacheWriteInputTokens", 0)
    return Usage(
        input=usage["inputTokens"] + cached + written,
        cached=cached,
        cache_written=written,
        output=usage.get("outputTokens"),
    )
