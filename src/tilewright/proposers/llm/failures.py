"""The exceptions of calls to models.

After a `TransientError`, the call is repeated. A `ModelError` ends the session, and the run can be
resumed. Neither exception contains a key.
"""

from __future__ import annotations

from tilewright.core.errors import TilewrightError


class ModelError(TilewrightError):
    """A model cannot be used: wrong key, unknown model, exhausted quota, unreachable address."""


class CallAbandonedError(ModelError):
    """The run stopped while the call was in progress. The call may still be answered and billed."""


class TransientError(Exception):
    """One attempt failed and another may succeed: 429, 5xx, timeouts, dropped connections.

    `retry_after_s` is the number of seconds that the provider asks to wait, or None.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """The text without secrets, shortened for a sentence."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    return " ".join(text.split())[:300]
