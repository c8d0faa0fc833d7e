"""Constructs the provider of a model."""

from __future__ import annotations

from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.base import Provider


def create_provider(model: Model) -> Provider:
    """The provider of a model; `ConfigurationError` if its key, its SDK or its program is
    missing.
    """
    if model.provider == "openai":
        from tilewright.proposers.llm.providers.openai import OpenAIProvider

        return OpenAIProvider(model)
    if model.provider == "anthropic":
        from tilewright.proposers.llm.providers.anthropic import AnthropicProvider

        return AnthropicProvider(model)
    if model.provider == "google":
        from tilewright.proposers.llm.providers.google import GoogleProvider

        return GoogleProvider(model)
    if model.provider == "bedrock":
        from tilewright.proposers.llm.providers.bedrock import BedrockProvider

        return BedrockProvider(model)
    if model.provider == "command":
        from tilewright.proposers.llm.providers.command import CommandProvider

        return CommandProvider(model)
    from tilewright.proposers.llm.providers.mailbox import MailboxProvider

    return MailboxProvider(model)
