"""Repeats a call after temporary failures, with longer waiting times after each failure."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.proposers.llm.failures import ModelError, TransientError
from tilewright.proposers.llm.messages import Reply

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits `first_s`, then twice as long each time up to `longest_s`, with 25 % jitter.

    If the provider sends a retry-after, this time is used instead, up to `patience_s`.
    """

    attempts: int = 6
    first_s: float = 1.0
    longest_s: float = 60.0
    patience_s: float = 300.0

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 1)."""
        if retry_after_s is not None:
            return min(retry_after_s, self.patience_s)
        base: float = min(self.first_s * 2 ** (attempt - 1), self.longest_s)
        return base * random.uniform(0.75, 1.25)


def with_retries(
    call: Callable[[], Reply], model: str, backoff: Backoff, sleep: Sleep = time.sleep
) -> Reply:
    """The first reply; `ModelError` if all attempts failed."""
    for attempt in range(1, backoff.attempts + 1):
        try:
            return replace(call(), attempts=attempt)
        except TransientError as error:
            last = error
            if attempt < backoff.attempts:
                sleep(backoff.wait_s(attempt, error.retry_after_s))
    raise ModelError(
        f"model {model} did not answer in {backoff.attempts} attempts (last: {last.reason}). "
        "Check the service or your network; the same command continues where the run stopped."
    )
