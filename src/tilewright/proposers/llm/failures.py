"""Why a call to a model gave no reply.

Two kinds, and the difference decides what happens: a `TransientError` is tried again, a
`ModelError` ends the session (the run stays resumable). Neither ever holds a key.
"""

from __future__ import annotations

from tilewright.core.errors import TilewrightError


class ModelError(TilewrightError):
    """A model cannot be used: wrong key, unknown model, exhausted quota, unreachable address."""


class CallAbandonedError(ModelError):
    """The run stops while the call is under way; it may still be paid for and be answered."""


class TransientError(Exception):
    """One attempt failed and another may succeed: 429, 5xx, timeouts, dropped connections.

    `retry_after_s` is how long the provider asks to wait, None when it does not say.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text with every secret blacked out, shortened to what fits a sentence."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    return " ".join(text.split())[:300]
