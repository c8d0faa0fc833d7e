"""The interface of providers, and the conversion of their SDKs' exceptions."""

from __future__ import annotations

import importlib
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

from tilewright.core.errors import ConfigurationError
from tilewright.proposers.llm.failures import ModelError, TransientError, redacted
from tilewright.proposers.llm.messages import Message, Reply, Request, ToolResult
from tilewright.proposers.llm.models import Model

_NO_MONEY = ("insufficient_quota", "billing_hard_limit", "credit balance is too low")
"""Messages of providers for which waiting does not help; a mere "quota" may be temporary."""

_NO_TOOLS = (400, 404, 422, 501)
"""Answers of endpoints that do not support tools, each with its words."""
_BYTES = "base64"

GO_ON = "the same command continues where the run stopped"


class Provider(Protocol):
    """One model with its protocol. Thread-safe."""

    def complete(self, request: Request) -> Reply:
        """One attempt at one call; raises `TransientError` or `ModelError`."""
        ...


def load_sdk(module: str, model: Model) -> ModuleType:
    """A provider's SDK; `ConfigurationError` says how to install it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigurationError(
            f"model {model.name} needs the Python package of its provider. Install it with "
            f"`{install_command(model)}`."
        ) from None


def install_command(model: Model) -> str:
    """The command that installs the SDK of the model's provider and the table of prices."""
    return f'pip install "tilewright[{model.provider}]"'


def find_key(model: Model, environment: Mapping[str, str]) -> str:
    """The model's key from the environment; "" if the model needs none."""
    for variable in model.key_variables:
        if environment.get(variable):
            return environment[variable]
    if model.key_variables:
        raise ConfigurationError(
            f"model {model.name} has no key. Put it into the environment variable "
            f"{model.key_variables[0]}."
        )
    return ""


def secret_values(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The values of all variables that seem to be secrets, which no message may contain."""
    from tilewright.core.secrets import is_secret_name

    return tuple(v for k, v in environment.items() if is_secret_name(k) and len(v) >= 8)


def alternating(messages: tuple[Message, ...]) -> list[tuple[str, list[Message]]]:
    """The messages, in which consecutive messages of one role are joined, because many chat
    templates require alternating roles.
    """
    turns: list[tuple[str, list[Message]]] = []
    for message in messages:
        if turns and turns[-1][0] == message.role:
            turns[-1][1].append(message)
        else:
            turns.append((message.role, [message]))
    return turns


def joined(messages: list[Message]) -> str:
    """The text of one turn."""
    return "\n\n".join(m.text for m in messages)


def results_of(messages: list[Message]) -> list[ToolResult]:
    """The answers to calls in a turn."""
    return [result for message in messages for result in message.results]


def raw_json(value: Any) -> str:
    """A value of the provider's SDK as JSON, with bytes in base64."""
    return json.dumps(value, default=lambda data: {_BYTES: b64encode(data).decode()})


def from_raw(text: str) -> Any:
    """Inverse of `raw_json`."""
    return json.loads(text, object_hook=_restored)


def _restored(value: dict[str, Any]) -> Any:
    return b64decode(value[_BYTES]) if set(value) == {_BYTES} else value


def sdk_error(sdk: Any, error: Exception, model: Model, request: Request) -> Exception:
    """Convert an exception of the openai or anthropic SDK, which have the same class names."""
    text = redacted(str(error), secret_values())
    if isinstance(error, sdk.APITimeoutError):
        return TransientError(f"the model did not answer within {model.options.timeout_s:g} s")
    if isinstance(error, sdk.APIConnectionError):
        cause = redacted(str(error.__cause__ or error), secret_values())
        return TransientError(f"connection failed: {cause}")
    if isinstance(error, sdk.APIStatusError):
        headers = error.response.headers
        body = redacted(str(getattr(error, "body", "") or text), secret_values())
        after = headers.get("retry-after")
        return status_error(model, error.status_code, body, after, bool(request.tools))
    return TransientError(f"unreadable answer: {text}")


def status_error(
    model: Model, status: int, text: str, retry_after: str | None, with_tools: bool = False
) -> Exception:
    """The exception for an HTTP status; `text` must not contain secrets.

    Args:
        with_tools: whether the request offered tools, which may be the cause of the error.
    """
    if with_tools and status in _NO_TOOLS and re.search(r"tool|function.?call", text, re.I):
        return ModelError(
            f"model {model.name} does not accept tools in its provider's protocol ({text}). Add "
            "?tools=no to its name, and it calls them in plain text, or give --without tools."
        )
    if status in (401, 403):
        variable = model.key_variables[0] if model.key_variables else "key_env"
        return ModelError(
            f"model {model.name} refused the key ({status}). Check {variable}; {GO_ON}."
        )
    if status == 404:
        return ModelError(
            f"model {model.name} does not exist at its provider (404: {text}). Check its name and "
            "address."
        )
    if status == 402 or any(word in text for word in _NO_MONEY):
        return ModelError(
            f"the quota of model {model.name} is exhausted ({text}): raise it, or wait; {GO_ON}."
        )
    if status in (408, 409, 425, 429) or status >= 500:
        return TransientError(f"HTTP {status}: {text}", _seconds(retry_after))
    return ModelError(f"model {model.name} rejected the request (HTTP {status}): {text}.")


def _seconds(retry_after: str | None) -> float | None:
    """Seconds of a retry-after header; None if the header contains a date."""
    try:
        seconds = float(retry_after) if retry_after is not None else None
    except ValueError:
        return None
    return seconds if seconds is None or seconds >= 0 else None
