"""Tests whether a model can be reached, by its address or with one short question."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit
from urllib.request import getproxies

from tilewright.proposers.llm.failures import ModelError, TransientError
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.proposers.llm.models import Model
from tilewright.proposers.llm.providers.create import create_provider

CONNECT_TIMEOUT_S = 3.0


def require_address(model: Model) -> None:
    """Raise `ModelError` if nothing listens at the address in the model's name.

    The addresses of providers are not tested, and neither are addresses that are reached through a
    proxy.
    """
    if model.base_url is None or getproxies():
        return
    parts = urlsplit(model.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise ModelError(
            f"model {model.name} cannot be reached at {parts.hostname}:{port} "
            f"({error.strerror or error}). Start the service or correct the address."
        ) from None


def ask_once(model: Model) -> tuple[Reply, float]:
    """One attempt at one short question, and the seconds it took; `ModelError` if it fails."""
    request = Request(model.name, "probe", (Message("user", "Answer with the word: ready"),))
    started = time.monotonic()
    try:
        reply = create_provider(model).complete(request)
    except TransientError as error:
        raise ModelError(
            f"model {model.name} does not answer ({error.reason}): try again, or check the service."
        ) from None
    return reply, time.monotonic() - started
