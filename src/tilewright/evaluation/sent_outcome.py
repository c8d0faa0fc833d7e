"""What another machine may send in place of an outcome."""

from __future__ import annotations

MOST_BYTES = 1 << 26
"""Of a message that brings one; a longer one is not ours."""
_SAID = ("outcome", "ready", "stage", "problem", "code", "modelled", "preflight")


def has_form(reply: object) -> bool:
    """Whether a worker's reply is an object that says one of the things that `worker.py` says."""
    if not isinstance(reply, dict):
        return False
    if "error" in reply and "outcome" not in reply:
        error = reply["error"]
        return isinstance(error, dict) and {"type", "message"} <= set(error)
    return any(name in reply for name in _SAID)
