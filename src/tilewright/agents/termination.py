"""Determines how an agent's work ended, and ends all its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tilewright.sandbox.child import Child

SUPERVISOR_S = 25.0
"""Seconds for the supervisor to end all processes of an agent."""
SWEEPS = 20


@dataclass(frozen=True, slots=True)
class Termination:
    """How an agent's work ended, as one of a few fixed words; `output` is the end of its output.

    `unhidden` is the reason why the agent could read files that should be hidden from it, or "" if
    they were hidden.
    """

    how: str
    detail: str = ""
    output: str = ""
    unhidden: str = ""

    @classmethod
    def received(cls, supervisor: Child) -> Termination:
        """The message of the supervisor, which the agent may have killed."""
        try:
            return cls(**supervisor.receive_json())
        except (EOFError, ValueError, TypeError):
            return cls("lost", "the process that supervised it was ended")


def terminated(supervisor: Child, marker: str, ended: Termination | None) -> Termination:
    """End the agent and all its processes, and return how it ended, with its output."""
    said = ended
    if ended is None or ended.how in ("given up", "submitted", "timed out"):
        supervisor.finish()
        said = (
            Termination.received(supervisor)
            if supervisor.has_message(SUPERVISOR_S)
            else Termination("lost")
        )
    supervisor.kill()
    assert said is not None
    if said.how == "lost":
        _sweep(marker)
    if ended is None:
        return Termination("given up", "the search ended", said.output, said.unhidden)
    return Termination(ended.how, ended.detail, said.output, said.unhidden)


def _sweep(marker: str) -> None:
    """Kill every process whose environment names this agent's socket, until there is none."""
    for _ in range(SWEEPS):
        found = [process for process in map(int, _numbers()) if _is_marked(process, marker)]
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (thrice as fast)


def _is_marked(process: int, marker: str) -> bool:
    try:
        return marker.encode() in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False
