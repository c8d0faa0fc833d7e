"""The lines that a session writes to the event log of its run."""

from __future__ import annotations

import os

from tilewright.search.events import (
    Event,
    IterationFinished,
    Noted,
    ProposalFailed,
    RunStarted,
    Stopped,
)


def log_line(event: Event) -> dict[str, object] | None:
    """The data of an event's line in the event log, or None if the event is not logged."""
    match event:
        case RunStarted():
            return {"process": os.getpid(), "trials": len(event.history)}
        case IterationFinished():
            best = event.best.latency if event.best else None
            return {"iteration": event.iteration, "trials": event.evaluated, "best": best}
        case ProposalFailed():
            return {"iteration": event.iteration, "parent": event.parent_id, "log": event.log}
        case Noted():
            return {"text": event.text}
        case Stopped():
            return {"reason": event.reason}
        case _:
            return None
